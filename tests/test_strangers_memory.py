"""Users' operations may return their operand, or a view of it, which nobody overwrites.

Compiled programs reuse the memory of results that are not read any more. They own the result of an
operation only if its declaration says so (``owns``), or if a ufunc made it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from tests.conformance import every_primitive
from tests.together import together

Function = Callable[[Any], Any]

as_real = extend.elementwise("as_real", np.real, partials=(extend.SAME,))
as_array = extend.elementwise("as_array", np.asarray, partials=(extend.SAME,))
untouched = extend.elementwise("untouched", formula=lambda m, x: x, partials=(extend.SAME,))
clipped = extend.elementwise(  # itself where nothing is to be done
    "clipped", lambda x: np.minimum(x, 9.0) if np.any(x > 9.0) else x, partials=(extend.SAME,)
)
only = extend.reduction(
    "only", lambda x, axis, keepdims: np.squeeze(x, axis), factor=lambda *_, **__: 1.0
)
mirrored: extend.Primitive = extend.movement(  # a view, and does not say so
    "mirrored",
    lambda x: np.asarray(x)[..., ::-1],
    shape=lambda shape: shape,
    transpose=lambda ct, x: mirrored(ct),
    batch=lambda shape, size: {},
    samples=lambda: iter(()),
)
from_left: extend.Primitive = extend.Primitive(
    "from_left",
    lambda x, axis: x,
    lambda x, axis: x,
    extend.Linear((lambda ct, x, axis: from_left(ct, axis=axis),)),
    lambda primitive, size, args, batched, params: primitive(*args, axis=params["axis"] + 1),
    structure=extend.Scan(extend.Fold(lambda m, earlier, later: later)),
)
twofold = extend.Primitive(
    "twofold",
    lambda x: (x, x[..., ::-1]),
    lambda x: (x, x),
    extend.Linearized(lambda tangents, outs, x: (tangents[0], mirrored(tangents[0]))),
    lambda primitive, size, args, batched, params: primitive(*args),
)


def both(x: Any) -> Any:
    first, second = extend.apply_several(twofold, x)
    return first * 0.5 + second


OPERATIONS: dict[str, Function] = {
    **{
        each.name: lambda x, each=each: extend.apply(each, x)  # type: ignore[misc]
        for each in (as_real, as_array, untouched, clipped, mirrored)
    },
    "only": lambda x: extend.apply(only, x[:, None], axis=(1,), keepdims=False),
    "from_left": lambda x: extend.apply(from_left, x, axis=0),
    "twofold": both,
    "second_of_two": lambda x: extend.apply_several(twofold, x)[1],
}


def chain(op: Function) -> Function:
    return lambda x: fnp.exp(fnp.sin(op(fnp.cos(op(op(x)))))) * 2.0 + op(x)


def at_once(op: Function) -> Function:
    return lambda x: fnp.exp(op(x)) + 1.0


def kept(op: Function) -> Function:
    """A result that is read again after another was computed from it."""

    def f(x: Any) -> Any:
        y = fnp.sin(x)
        z = op(y)
        return fnp.exp(z) * 2.0, y, z

    return f


def scanned(op: Function) -> Function:
    def step(carry: Any, row: Any) -> Any:
        new = fnp.sin(op(carry)) * 0.5 + row
        return op(new), op(carry)

    return lambda x: fg.scan(step, x, fnp.stack([x, x * 0.5, x - 1.0]))


def handed_on(op: Function) -> Function:
    """A loop with a carry that only the operation changes."""
    return lambda x: fg.fori_loop(0, 3, lambda _, c: (op(c[0]), fnp.exp(op(c[1])) * 0.1), (x, x))


def repeated(op: Function) -> Function:
    def body(state: Any) -> Any:
        k, x = state
        return k + 1, fnp.cos(op(x)) + 0.25

    return lambda x: fg.while_loop(lambda state: state[0] < 3, body, (0, op(x)))[1]


def chosen(op: Function) -> Function:
    def f(x: Any) -> Any:
        y = fg.cond(fnp.sum(x) > 0, op, lambda x: op(x) * 2.0, x)
        z = fg.switch(1, [fnp.sin, op, fnp.cos], x)
        return fnp.exp(y) + fnp.sin(z), fg.cond(x[0] > 5.0, op, lambda x: x, x)

    return f


FORMS = (chain, at_once, kept, scanned, handed_on, repeated, chosen)


def scalar(f: Function) -> Function:
    """The sum of all results of a function."""
    return lambda x: sum(fnp.sum(fnp.sin(out)) for out in fg.tree.leaves(f(x)))


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("op", OPERATIONS.values(), ids=OPERATIONS)
def test_nothing_is_written_over_an_argument(
    form: Callable[[Function], Function], op: Function
) -> None:
    f = form(op)
    for size in (5, 20_000):
        x = np.linspace(-1.0, 1.5, size)
        before = x.copy()
        tensor = fg.tensor(x)
        expected = f(tensor)
        slope = fg.grad(scalar(f))(tensor)
        staged, slopes = fg.jit(f), fg.jit(fg.grad(scalar(f)))
        batched = fg.jit(fg.vmap(f))
        for argument in (x, tensor, x, tensor):
            fg.tree.map(lambda a, b: assert_allclose(a, b, rtol=1e-12), staged(argument), expected)
            assert_allclose(slopes(argument), slope, rtol=1e-10, atol=1e-12)
            assert_allclose(fg.grad(scalar(staged))(argument), slope, rtol=1e-10, atol=1e-12)
            rows = fnp.stack([argument, argument])
            outs = batched(rows)
            fg.tree.map(lambda a, b: assert_allclose(a[0], b, rtol=1e-12), outs, expected)
            assert_array_equal(rows[1], before)
            assert_array_equal(x, before)
            assert_array_equal(tensor, before)


class Keeper:
    """A function that keeps the arrays it gets, and their numbers at that time."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.numbers: list[Any] = []

    def __call__(self, x: Any) -> Any:
        self.arrays.append(x)
        self.numbers.append(np.array(x))
        return np.cos(x)


def keeping(keeper: Keeper, kind: str) -> Function:
    if kind == "foreign":
        return extend.foreign(keeper, lambda x: x, vjp=lambda xs, out, ct: (-fnp.sin(xs[0]) * ct,))
    kept_cosine = extend.elementwise("kept_cosine", keeper, partials=(lambda y, x: -fnp.sin(x),))
    return lambda x: extend.apply(kept_cosine, x)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["operation", "foreign"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_operands_that_an_operation_keeps_stay_as_they_were(form: Any, kind: str) -> None:
    """Native memory is freed, and the memory of NumPy's programs is used again."""
    keeper = Keeper()
    f = form(keeping(keeper, kind))
    x = fg.tensor(np.linspace(-1.0, 1.5, 2000))
    for run in (
        f,
        fg.grad(scalar(f)),
        *[fg.jit(g, backend=b) for g in (f, fg.grad(scalar(f))) for b in ("numpy", None)],
    ):
        for _ in range(2):
            keeper.arrays.clear()
            keeper.numbers.clear()
            run(x)
            fg.jit(lambda x: fnp.sin(x) + fnp.exp(x))(x)  # which takes memory that was freed
            for array, numbers in zip(keeper.arrays, keeper.numbers, strict=True):
                assert_array_equal(array, numbers)
            assert keeper.arrays


def written(x: Any) -> Any:
    """Try to write to an operand."""
    array = np.asarray(x)
    try:
        array.setflags(write=True)
        array[...] = 7.0
    except ValueError:
        return array * 2.0
    return array


writing = extend.elementwise("writing", written, partials=(lambda y, x: 2.0,))
writing_sum = extend.reduction(
    "writing_sum", lambda x, axis, keepdims: np.sum(written(x), axis), factor=lambda *_, **__: 2.0
)
TABLE = fnp.sin(np.linspace(0.0, 1.0, 6))


def added(x: Any) -> Any:
    return extend.apply(writing, x) + extend.apply(writing, TABLE)


def summed(x: Any) -> Any:
    return extend.apply(writing_sum, x, axis=(0,), keepdims=False)


@pytest.mark.parametrize("f", [added, summed])
def test_an_operation_cannot_write_to_its_operands(f: Function) -> None:
    before = np.array(TABLE)
    assert_allclose(f(TABLE), before * 4.0 if f is added else 2.0 * before.sum())
    for run in (f, fg.jit(f), fg.jit(f, backend="numpy"), fg.grad(scalar(f))):
        run(TABLE)
        assert_array_equal(TABLE, before)
    assert_allclose(fg.vmap(f)(fnp.stack([TABLE, TABLE]))[1], f(TABLE))
    assert_array_equal(TABLE, before)


@together("op", OPERATIONS.values(), ids=OPERATIONS)
def test_a_result_does_not_change_with_what_the_caller_writes(op: Function) -> None:
    for f in (op, fg.jit(op), fg.jit(lambda x: (op(x), op(op(x)))), fg.vmap(op)):
        x = np.linspace(-1.0, 1.5, 6)
        if f is not op:
            x = np.stack([x, x]) if not hasattr(f, "lower") else x
        for _ in range(3):
            result = f(x)
            before = fg.tree.map(np.array, result)
            x += 1.0
            fg.tree.map(assert_array_equal, result, before)


@together("op", OPERATIONS.values(), ids=OPERATIONS)
def test_an_array_that_is_closed_over_stays_as_it_is(op: Function) -> None:
    table = np.linspace(0.0, 1.0, 7)
    before = table.copy()
    f = fg.jit(lambda x: fnp.exp(op(fnp.asarray(table))) * x + op(fnp.asarray(table)))
    results = [np.asarray(f(2.0)) for _ in range(3)]
    assert_array_equal(table, before)
    assert_array_equal(results[0], results[2])


def test_what_owns_its_result_is_computed_in_its_memory() -> None:
    def made(traits: extend.Trait) -> str:
        raised = extend.elementwise(
            "raised", lambda x: np.asarray(x) + 1.0, partials=(extend.SAME,), traits=traits
        )
        program = fg.program(lambda x: fnp.exp(extend.apply(raised, x)))(np.ones(5))
        return program.to_numpy_source()

    assert "exp(a, a)" in made(extend.OWNS)
    assert "exp(a, a)" not in made(extend.Trait.NONE)


def test_a_ufunc_need_not_say_it() -> None:
    sinh = extend.elementwise("sinh", np.sinh, partials=(lambda _, x: fnp.cosh(x),))
    assert sinh.owns
    program = fg.program(lambda x: fnp.exp(extend.apply(sinh, x)))(np.ones(5))
    assert "exp(a, a)" in program.to_numpy_source()


def test_operations_of_the_package_own_their_results_but_views_and_opaque_ones() -> None:
    """A new operation whose declaration lacks ``owns=True`` costs memory."""
    structures = (extend.Opaque, extend.Gather, extend.Control)
    silent = {
        each.name
        for each in every_primitive()
        if not each.owns and not isinstance(each.structure, structures)
        if getattr(each.evaluate, "func", 0) is not getattr(each.structure, "formula", 1)
    }
    views = {"flip", "imag", "real", "reshape", "stop_gradient", "transpose", "view"}
    assert silent == {*views, "round"}

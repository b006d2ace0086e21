"""Values that the rules of users' operations read from outside are watched, as for functions.

The rules are the user's code: they run while a function is staged, or later, when a derivative or a
batch of it is needed, and the values that they read are then part of programs.
"""

import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from tests.staging.changes import stagings
from tests.together import together

Function = Callable[[Any], Any]
X = np.ones(3)
FACTOR = 2.0
TABLE = [2.0]
SETTINGS = types.SimpleNamespace(factor=2.0)
ARRAY = np.array([2.0])


def by_helper() -> Any:
    return FACTOR


READS: dict[str, Callable[[], Any]] = {
    "global": lambda: FACTOR,
    "helper": lambda: by_helper(),
    "list": lambda: TABLE[0],
    "attribute": lambda: SETTINGS.factor,
    "array": lambda: float(ARRAY[0]),
}


def change(value: float) -> None:
    globals()["FACTOR"] = TABLE[0] = SETTINGS.factor = ARRAY[0] = value


def batched(primitive: Any, size: int, args: Any, flags: Any, params: Any) -> Any:
    return primitive(*args, **params)


def operations(read: Callable[[], Any]) -> dict[str, extend.Primitive]:
    """One operation for each rule that reads what changes."""

    def declared(name: str, evaluate: Function, differential: Any, **rules: Any) -> Any:
        rules = {"result": lambda x: x, "batch": batched, **rules}
        result, batch = rules.pop("result"), rules.pop("batch")
        return extend.Primitive(name, evaluate, result, differential, batch, **rules)

    def push(tangents: Any, out: Any, x: Any) -> Any:
        return tangents[0] * read()

    def pull(ct: Any, out: Any, x: Any) -> Any:
        return (ct * read(),)

    def transposed(ct: Any, x: Any) -> Any:
        return ct * read()

    def carried(out: Any, x: Any) -> Any:
        return doubled, (), {}

    doubled = declared("doubled", lambda x: x * read(), extend.Linear((transposed,)))
    return {
        "evaluate": declared("evaluate", lambda x: x * read(), extend.DISCRETE),
        "formula": extend.elementwise(
            "formula", formula=lambda m, x: x * read(), partials=(lambda y, x: 2.0,)
        ),
        "partials": extend.elementwise(
            "partials", np.positive, partials=(lambda y, x: read(),), samples=extend.reals(0, 1)
        ),
        "push": declared("push", np.asarray, extend.Linearized(push)),
        "pull": declared("pull", np.asarray, extend.Linearized(push, pull)),
        "transpose": declared("transpose", np.asarray, extend.Linear((transposed,))),
        "transposes": declared(
            "transposes", np.asarray, extend.Linear(lambda n: (transposed,) * n)
        ),
        "batch": declared(
            "batch",
            np.asarray,
            extend.DISCRETE,
            batch=lambda p, n, args, flags, _: args[0] * read(),
        ),
        "result": declared(
            "result",
            lambda x: np.ones(int(read())),
            extend.DISCRETE,
            result=lambda x: extend.Spec((int(read()),), x.dtype),
        ),
        "body": declared(
            "body", lambda x: x * read(), extend.DISCRETE, body=lambda x: fnp.multiply(x, read())
        ),
        "source": declared(
            "source", lambda x: x * read(), extend.DISCRETE, source=lambda x: f"{x} * {read()!r}"
        ),
        "reduction": extend.reduction(
            "reduction",
            lambda x, axis, keepdims: np.sum(x, axis=axis, keepdims=keepdims) * read(),
            factor=lambda y, x, axis, keepdims: read(),
        ),
    }


NAMES = list(operations(by_helper))


def total(f: Function) -> Function:
    return lambda x: fnp.sum(f(x))


WAYS: dict[str, Callable[[Function], tuple[Function, Function]]] = {
    "jit": lambda f: (fg.jit(f), f),
    "jit of grad": lambda f: (fg.jit(fg.grad(total(f))), fg.grad(total(f))),
    "grad of jit": lambda f: (fg.grad(fg.jit(total(f))), fg.grad(total(f))),
    "jit of vmap": lambda f: (fg.jit(fg.vmap(lambda x: f(x[None]))), fg.vmap(lambda x: f(x[None]))),
    "vmap of jit": lambda f: (fg.vmap(fg.jit(lambda x: f(x[None]))), fg.vmap(lambda x: f(x[None]))),
    "jit of jvp": lambda f: (
        fg.jit(lambda x: fg.jvp(f, (x,), (x,))[1]),
        lambda x: fg.jvp(f, (x,), (x,))[1],
    ),
    "inside of jit": lambda f: (fg.jit(lambda x: fg.jit(f)(x) + 1.0), lambda x: f(x) + 1.0),
    "of a constant": lambda f: (fg.jit(lambda x: f(fnp.ones(3)) + x[0]), lambda x: f(X) + x[0]),
}


def assert_noticed(operation: extend.Primitive, way: Callable[[Function], Any]) -> None:
    params: Any = {"axis": (0,), "keepdims": False} if operation.name == "reduction" else {}
    staged, plain = way(lambda x: extend.apply(operation, x, **params))
    try:
        for value in (2.0, 2.0, 3.0, 3.0, 2.0, 5.0):
            change(value)
            assert_array_equal(staged(X), plain(X))
    finally:
        change(2.0)


@pytest.mark.slow
@together("way", WAYS.values(), ids=WAYS)
@together("name", NAMES)
def test_a_rule_that_reads_what_changes_is_noticed(
    name: str, way: Callable[[Function], tuple[Function, Function]]
) -> None:
    assert_noticed(operations(READS["global"])[name], way)


@pytest.mark.slow
@together("name", NAMES)
@together("read", READS)
def test_a_rule_may_read_in_any_way(read: str, name: str) -> None:
    assert_noticed(operations(READS[read])[name], WAYS["grad of jit"])
    assert_noticed(operations(READS[read])[name], WAYS["jit of vmap"])


def test_what_does_not_change_stages_nothing_again() -> None:
    operation = operations(READS["global"])["partials"]
    assert stagings(lambda x: extend.apply(operation, x), lambda: None, lambda: None) == 1
    # Samples are for tests, and texts for people.
    shown = extend.elementwise(
        "shown",
        np.positive,
        partials=(lambda y, x: 2.0,),
        samples=lambda: [extend.Sample((FACTOR,))],
    )
    changes = (lambda: change(3.0), lambda: change(2.0))
    assert stagings(lambda x: extend.apply(shown, x), *changes) == 1


def test_an_operation_that_is_declared_again_is_noticed() -> None:
    space = types.ModuleType("a_module_of_operations")
    sys.modules[space.__name__] = space
    text = (
        "from funcgrad import extend\nimport numpy as np\nFACTOR = 2.0\n"
        "def declared():\n"
        "    return extend.elementwise('mine', np.positive, partials=(lambda y, x: FACTOR,))\n"
        "mine = declared()\n"
        "def f(x):\n    return extend.apply(mine, x)\n"
    )
    try:
        exec(text, vars(space))
        slope = fg.jit(fg.grad(lambda x: fnp.sum(space.f(x))))
        assert_array_equal(slope(X), X * 2.0)
        space.FACTOR = 3.0  # type: ignore[attr-defined]
        assert_array_equal(slope(X), X * 3.0)
        space.mine = extend.elementwise(  # type: ignore[attr-defined]
            "mine", np.positive, partials=(lambda y, x: 4.0,)
        )
        assert_array_equal(slope(X), X * 4.0)
    finally:
        del sys.modules[space.__name__]


def test_a_function_made_a_vectorized_one_is_followed() -> None:
    scaled = np.vectorize(lambda x: x * FACTOR, otypes=[np.float64])
    staged = fg.jit(lambda x: x * scaled(np.ones(3)))
    try:
        for value in (2.0, 3.0, 2.0):
            change(value)
            assert_array_equal(staged(X), X * value)
    finally:
        change(2.0)


def test_a_number_that_decides_on_a_set_is_guarded_as_it_is() -> None:
    both = fg.jit(lambda x: fnp.sum(fnp.intersect1d(x, np.array([2.3, 2.7]))))
    assert [float(both(x)) for x in (2.7, 2.3, 2.5)] == [2.7, 2.3, 0.0]
    assert fg.jit(lambda x: fnp.intersect1d(x, [1.0]))(np.nan).tolist() == []


def test_tensors_as_options_are_numbers() -> None:
    yes: Any = fg.tensor(True)
    three: Any = fg.tensor(3)
    assert fg.jit(lambda x: fnp.sum(x, keepdims=yes))(X).shape == (1,)
    assert fg.jit(lambda x: fnp.fft.fft(x, three))(X).shape == (3,)
    assert fg.jit(lambda x, k: fnp.sum(x, keepdims=k))(X, True).shape == (1,)

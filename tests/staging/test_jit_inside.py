"""Promises to users about jitted functions inside other transformations; results are compared in
``test_derived.py``."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from io import StringIO
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._core.trace import Trace, begin_level, bind
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.extract import extract
from funcgrad._staging.derived import ProgramCall
from funcgrad.errors import DifferentiationError, TracerError
from tests.in_threads import in_threads
from tests.transforms.support import assert_same, numbers

Function = Callable[..., Any]


def counted(f: Function) -> tuple[Function, Callable[[], int]]:
    """A jitted function, and how often its body has run."""
    marks = StringIO()  # whose changes jit does not notice

    def body(*args):
        marks.write("|")
        return f(*args)

    return fg.jit(body), lambda: len(marks.getvalue())


def test_the_function_runs_once_for_all_transformations_together() -> None:
    f, runs = counted(lambda x: fnp.sum(fnp.sin(x) * x))
    x = fg.tensor(numbers(3))
    for _ in range(3):
        f(x)
        fg.grad(f)(x)
        fg.jvp(f, (x,), (x,))
        fg.vmap(f)(fnp.stack([x, x]))
        fg.vmap(fg.grad(f))(fnp.stack([x, x]))
        fg.hessian(f)(x)
        fg.jit(fg.grad(f))(x)
        fg.linearize(f, x)[1](x)
    assert runs() == 1


@pytest.mark.slow
@pytest.mark.parametrize("transform", [fg.jit, fg.grad, fg.vmap])
def test_150_jitted_functions_call_one_another(transform: Function) -> None:
    def around(inner: Function) -> Function:
        return fg.jit(lambda x: fnp.sin(inner(x)) * 1.001)

    def plain(x):
        for _ in range(150):
            x = fnp.sin(x) * 1.001
        return x

    f: Function = lambda x: x  # noqa: E731
    for _ in range(150):
        f = around(f)
    x = 1.0 if transform is fg.grad else np.array([0.5, 1.0])
    assert_allclose(transform(f)(x), transform(plain)(x))


def test_the_first_call_may_be_inside_a_transformation() -> None:
    f, runs = counted(lambda x: x * x)
    assert_same(fg.grad(f)(3.0), np.float64(6.0))
    assert_same(f(3.0), np.float64(9.0))
    assert runs() == 1


def test_other_shapes_are_staged_anew() -> None:
    f, runs = counted(lambda x: fnp.sum(x**2))
    for size in (2, 3, 2, 3):
        assert_same(fg.grad(f)(np.ones(size)), 2 * np.ones(size))
    assert runs() == 2


def test_the_rule_of_a_custom_derivative_runs_once() -> None:
    marks = StringIO()
    square = fg.custom_vjp(lambda x: x * x)

    def bwd(x, ct):
        marks.write("|")
        return (2.0 * x * ct,)

    square.defvjp(lambda x: (x * x, x), bwd)
    f = fg.jit(lambda x: fnp.sum(square(x)))
    for _ in range(5):
        assert_same(fg.grad(f)(np.ones(2)), 2 * np.ones(2))
    once = len(marks.getvalue())
    fg.grad(f)(np.ones(2))
    assert len(marks.getvalue()) == once <= 2


# --------------------------------------------------------------------------------- control flow


def test_each_way_through_the_function_has_programs_of_its_own() -> None:
    f, runs = counted(lambda x: x**2 if x > 1 else 5.0 * x)
    for _ in range(2):
        assert_same(fg.grad(f)(3.0), np.float64(6.0))
        assert_same(fg.grad(f)(0.5), np.float64(5.0))
        assert_same(fg.jvp(f, (0.5,), (2.0,)), (np.float64(2.5), np.float64(10.0)))
        assert_same(fg.grad(fg.grad(f))(3.0), np.float64(2.0))
    assert runs() == 2


def test_a_choice_that_differs_between_examples_is_made_for_each() -> None:
    f, runs = counted(lambda x: x * x if x > 0 else -x)
    batch = np.array([2.0, -1.0, 3.0])
    for _ in range(2):
        assert_same(fg.vmap(f)(batch), np.array([4.0, 1.0, 9.0]))
        assert_same(fg.vmap(fg.grad(f))(batch), np.array([4.0, -1.0, 6.0]))
    assert runs() == 2
    with pytest.raises(TracerError, match=r"fnp\.where"):
        fg.vmap(f, branches=False)(batch)


def test_a_choice_by_what_all_examples_share_is_taken() -> None:
    f, runs = counted(lambda x, scale: x * scale if scale > 0 else -x)
    shared = fg.vmap(f, in_axes=(0, None))
    for _ in range(2):
        assert_same(shared(np.ones(3), 2.0), 2 * np.ones(3))
        assert_same(shared(np.ones(3), -2.0), -np.ones(3))
    assert runs() == 2


def test_a_rule_may_look_at_the_cotangent() -> None:
    clipped = fg.custom_vjp(lambda x: 1.0 * x)
    clipped.defvjp(lambda x: (1.0 * x, None), lambda _, ct: (ct if ct < 10 else 10.0,))
    f = fg.jit(lambda x: clipped(x) * 1.0)
    for scale, slope in ((3.0, 3.0), (30.0, 10.0), (5.0, 5.0)):
        assert_same(fg.grad(lambda x, c=scale: c * f(x))(1.0), np.float64(slope))


def test_a_rule_may_look_at_the_argument() -> None:
    kinked = fg.custom_vjp(lambda x: 1.0 * x)
    kinked.defvjp(lambda x: (1.0 * x, x), lambda x, ct: (ct * (2.0 if x > 0 else 3.0),))
    f = fg.jit(lambda x: kinked(x) * 1.0)
    for x, slope in ((1.0, 2.0), (-1.0, 3.0), (2.0, 2.0)):
        assert_same(fg.grad(f)(x), np.float64(slope))


def test_what_a_rule_raises_is_raised() -> None:
    broken = fg.custom_vjp(lambda x: x)
    broken.defvjp(lambda x: (x, None), lambda _, ct: ct)
    f = fg.jit(lambda x: broken(x) * 2.0)
    with pytest.raises(DifferentiationError, match="has to return a tuple"):
        fg.grad(f)(1.0)


# ------------------------------------------------------------------------------ outside of it all


def test_what_a_function_closes_over_is_a_constant_of_it_alone() -> None:
    def outer(x):
        return x * fg.grad(fg.jit(lambda y: x + y))(1.0)

    assert_same(fg.grad(outer)(2.0), np.float64(1.0))

    def nested(x):
        return x * fg.grad(fg.jit(lambda y: x * y))(1.0)

    assert_same(fg.grad(nested)(2.0), np.float64(4.0))
    assert_same(fg.jvp(nested, (2.0,), (1.0,))[1], np.float64(4.0))


def test_a_function_that_closes_over_what_is_differentiated_has_derivatives_in_all() -> None:
    def f(x: Any, scale: Any) -> Any:
        scaled = fg.jit(lambda y: y * y * scale)  # no program: it closes over a traced value
        return scaled(x) + scaled(2.0 * x)

    assert_allclose(fg.grad(f, argnums=(0, 1))(3.0, 2.0), (60.0, 45.0))
    assert_allclose(fg.vmap(fg.grad(f), in_axes=(0, None))(np.array([1.0, 3.0]), 2.0), (20.0, 60.0))


def test_levels_are_told_apart_when_both_pass_through_one_jitted_function() -> None:
    product = fg.jit(lambda x, y: x * y)

    def outer(x):
        inner = lambda y: product(x, y)  # noqa: E731
        return x * fg.grad(inner)(3.0) + fg.jvp(inner, (x,), (1.0,))[1]

    assert_same(fg.grad(outer)(5.0), np.float64(11.0))


def test_what_changes_outside_is_noticed() -> None:
    scale = np.array([2.0])
    f = fg.jit(lambda x: fnp.sum(scale * x))
    assert_same(fg.grad(f)(np.ones(1)), np.array([2.0]))
    scale[0] = 3.0
    assert_same(fg.grad(f)(np.ones(1)), np.array([3.0]))
    assert_same(fg.vmap(f)(np.ones((2, 1))), np.array([3.0, 3.0]))


def test_probes_are_found() -> None:
    f = fg.jit(lambda x: fg.probe(3.0 * x, "h") ** 2)
    for _ in range(2):
        assert_same(fg.grad(f)(2.0), np.float64(36.0))
        found = fg.grad(f, probes=("h",))(2.0)
        assert_same(found, (np.float64(36.0), {"h": np.float64(12.0)}))


def test_static_arguments() -> None:
    f = fg.jit(lambda n, x, name: x**n if name == "power" else x, (0,), ("name",))
    assert_same(fg.grad(f, argnums=1)(3, 2.0, name="power"), np.float64(12.0))
    assert_same(fg.grad(f, argnums=1)(2, 2.0, name="power"), np.float64(4.0))
    assert_same(fg.grad(f, argnums=1)(2, 2.0, name="other"), np.float64(1.0))


# --------------------------------------------------------------------- what is absent stays absent


def test_a_cotangent_with_gaps_keeps_them_through_a_jitted_function() -> None:
    root = fg.jit(lambda x: fnp.sqrt(x) * fnp.log(x))
    whole = fg.jit(lambda x: fnp.where(x > 0, root(x), 0.0))
    x = np.array([0.0, 1.0, 4.0])
    expected = fg.grad(lambda x: fnp.sum(fnp.where(x > 0, fnp.sqrt(x) * fnp.log(x), 0.0)))(x)
    for f in (lambda x: fnp.where(x > 0, root(x), 0.0), whole):
        assert_same(fg.grad(lambda x, f=f: fnp.sum(f(x)))(x), expected)
        assert_same(fg.jit(fg.grad(lambda x, f=f: fnp.sum(f(x))))(x), expected)


def test_a_jitted_function_makes_gaps_for_what_comes_before_it() -> None:
    chosen = fg.jit(lambda x, y: fnp.where(x > 0, y, 0.0)[1:])
    x = np.array([-1.0, 0.0, 1.0, 4.0])

    def f(x):
        return fnp.sum(chosen(x, fnp.sqrt(x)))

    expected = np.array([0.0, 0.0, 0.5, 0.25])
    assert_same(fg.grad(f)(x), expected)
    assert_same(fg.vmap(fg.grad(f))(x[None])[0], expected)
    assert_same(fg.grad(lambda x: fnp.sum(fg.grad(f)(x)[2:]))(x)[:2], np.zeros(2))


def test_a_result_that_nothing_is_made_of_has_no_cotangent() -> None:
    both = fg.jit(lambda x: (x * 2.0, fnp.sqrt(x), fnp.log(x)))
    assert_same(fg.grad(lambda x: both(x)[0])(0.0), np.float64(2.0))
    loss, aux = fg.grad(lambda x: (both(x)[0], both(x)[1]), has_aux=True)(0.0)
    assert_same((loss, aux), (np.float64(2.0), np.float64(0.0)))


def test_results_without_a_derivative_are_ordinary_values() -> None:
    parts = fg.jit(lambda x: (fnp.argmax(x), fg.stop_gradient(x), 3.0, fnp.ones(2), x > 0))
    seen: list[Any] = []

    def f(x):
        seen[:] = parts(x)
        return x[int(seen[0])] * float(seen[2])

    assert_same(fg.grad(f)(np.array([1.0, 5.0])), np.array([0.0, 3.0]))
    assert [type(each) for each in seen] == [fg.Tensor] * 5
    assert_array_equal(seen[1], [1.0, 5.0])


def test_a_result_that_no_example_differs_in_has_no_batch() -> None:
    f = fg.jit(lambda x, y: (x * y, fnp.exp(y)))
    found = fg.vmap(f, in_axes=(0, None), out_axes=(0, None))(np.ones(3), 0.0)
    assert_same(found, (np.zeros(3), np.float64(1.0)))


# ------------------------------------------------------------------------------------ other places


def test_pullbacks_outlive_the_function_and_may_be_transformed() -> None:
    x = fg.tensor(numbers(3))
    plain = lambda x: fnp.sin(x) * x  # noqa: E731
    _, expected = fg.vjp(plain, x)
    _, pullback = fg.vjp(fg.jit(plain), x)
    gc.collect()
    cts = numbers(4, 3, seed=1)
    assert_same(fg.vmap(pullback)(cts), fg.vmap(expected)(cts))
    assert_same(fg.jit(pullback)(cts[0]), expected(cts[0]))
    assert_same(fg.grad(lambda ct: fnp.sum(pullback(ct)[0]))(cts[0]), expected(np.ones(3))[0])
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(pullback(cts[1])))
    thread.start()
    thread.join()
    assert_same(results[0], expected(cts[1]))


def test_checkpoint_of_a_jitted_function() -> None:
    layer = fg.jit(lambda w, x: fnp.tanh(w * x))

    def deep(layer):
        return lambda w: fnp.sum(layer(w, layer(w, layer(w, 0.3))))

    w = numbers(3)
    expected = fg.grad(deep(lambda w, x: fnp.tanh(w * x)))(w)
    assert_same(fg.grad(deep(fg.checkpoint(layer)))(w), expected)
    assert_same(fg.grad(fg.checkpoint(deep(layer)))(w), expected)


def test_linear_transpose_sees_through_a_jitted_function() -> None:
    assert_same(fg.linear_transpose(fg.jit(lambda x: 3.0 * x), 1.0)(2.0), (np.float64(6.0),))
    with pytest.raises(DifferentiationError, match="not linear"):
        fg.linear_transpose(fg.jit(lambda x: x * x), 1.0)


class Counted(fg.Tensor):
    __slots__ = ("_trace",)


class Counter(Trace):
    """A user's own transformation, which does not know programs."""

    def __init__(self, level):
        super().__init__(level)
        self.names = []

    def follow(self, value):
        tracer = object.__new__(Counted)
        tracer._value, tracer._trace = value, self
        return tracer

    def check(self):
        pass

    def process(self, primitive, args, params):
        self.names.append(primitive.name)
        inner = [arg._value if type(arg) is Counted else arg for arg in args]
        return self.follow(bind(primitive, tuple(inner), params))


def test_a_transformation_of_ones_own_sees_the_operations() -> None:
    f = fg.jit(lambda x: fnp.sin(x) * 2.0)
    with begin_level() as level:
        counter = Counter(level)
        out = f(counter.follow(1.0))
    assert counter.names == ["sin", "multiply"]
    assert_allclose(out._value, 2.0 * np.sin(1.0))


def test_a_program_of_a_jitted_function_has_its_operations() -> None:
    f, runs = counted(lambda x: fnp.sin(x) * 2.0)
    staged = fg.program(lambda x: f(x) + f(x))(1.0)
    names = [equation.operation.name for equation in staged.equations]
    assert names == ["sin", "multiply", "sin", "multiply", "add"]
    assert runs() == 1
    assert_same(fg.jit(lambda x: f(x) + f(x))(1.0), 4.0 * np.sin(1.0))
    slope = fg.program(fg.grad(f))(1.0)
    assert {equation.operation.name for equation in slope.equations} <= {"sin", "cos", "multiply"}


def test_a_guard_of_an_inner_function_is_one_of_the_outer() -> None:
    inner = fg.jit(lambda x: x if x > 0 else -3.0 * x)
    outer = fg.jit(lambda x: 2.0 * inner(x))
    for x, expected in ((1.0, 2.0), (-1.0, 6.0), (2.0, 4.0)):
        assert_same(outer(x), np.float64(expected))
    assert_same(fg.jit(fg.grad(outer))(-1.0), np.float64(-6.0))
    assert_same(fg.jit(fg.grad(outer))(1.0), np.float64(2.0))


# ------------------------------------------------------------------------- threads and memory


def test_first_calls_from_many_threads() -> None:
    f = fg.jit(lambda x, n: fnp.sum(fnp.sin(x) * x) * n if n > 2 else fnp.sum(x * x) * n)
    x = fg.tensor(numbers(5))
    found: list[Any] = [None] * 8

    def work(k):
        found[k] = [fg.grad(f)(x, float(k)), fg.jvp(f, (x, float(k)), (x, 0.0))[1]]

    in_threads(work)
    for k in range(8):
        plain = lambda x, n: fnp.sum(fnp.sin(x) * x) * n if n > 2 else fnp.sum(x * x) * n  # noqa: E731
        expected = [fg.grad(plain)(x, float(k)), fg.jvp(plain, (x, float(k)), (x, 0.0))[1]]
        assert_same(found[k], expected)


def with_rule() -> tuple[Function, weakref.ref[Any]]:
    """A jitted function, whose programs hold the rule of a custom derivative."""

    def rule(x, ct):
        return (2.0 * x * ct,)

    square = fg.custom_vjp(lambda x: x * x)
    square.defvjp(lambda x: (x * x, x), rule)
    return fg.jit(lambda x: fnp.sum(square(x) * fnp.sin(x))), weakref.ref(rule)


def test_all_that_is_derived_goes_with_the_function() -> None:
    x = fg.tensor(numbers(3))
    gc.collect()
    gc.disable()
    try:
        f, rule = with_rule()
        fg.hessian(f)(x)
        fg.vmap(fg.grad(f))(fnp.stack([x, x]))
        fg.linearize(f, x)[1](x)
        assert rule() is not None
        del f
        assert rule() is None
    finally:
        gc.enable()


def test_programs_for_many_sizes_of_a_batch_are_not_all_kept() -> None:
    made: list[weakref.ref[Any]] = []

    class Compiled:
        def __init__(self, program):
            self.run = compile_program(program)
            made.append(weakref.ref(self))

        def __call__(self, *args):
            return self.run(*args)

    call = ProgramCall(fg.program(lambda x: x * x)(2.0), Compiled)
    for size in range(1, 101):
        assert_allclose(fg.vmap(lambda x: call.apply([x])[0])(np.full(size, 3.0)), 9.0)
    assert len(made) == 100
    assert sum(each() is not None for each in made) <= 32


# ------------------------------------------------------------------------------- parts of programs


def test_a_program_may_be_cut_anywhere() -> None:
    staged = optimize(
        fg.program(fg.value_and_grad(lambda x: fnp.sum(fnp.where(x > 0, fnp.log(x), x) * x)))(
            numbers(4)
        )
    )
    x = np.array([0.5, -1.0, 2.0, 0.0])
    with np.errstate(all="ignore"):
        expected = staged.evaluate([x])
        for cut in range(1, len(staged.specs())):
            inner = [v for v in range(cut) if v == 0 or v > len(staged.constants)]
            first = extract(staged, [0], inner).verify()
            rest = extract(staged, inner, staged.outputs).verify()
            found = rest.evaluate(first.evaluate([x]))
            for own, other in zip(found, expected, strict=True):
                assert_array_equal(own, other)

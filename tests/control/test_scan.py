"""Scans: trees, numbers that become arrays, empty lengths, what programs of them hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.structure.structures import Control
from funcgrad._passes.costs import costs
from tests.together import together

XS = fg.tensor([1.0, 2.0, 3.0])


def both(f: Any, *args: Any) -> Any:
    """What a function returns, which is the same staged, to the bit, the dtype and the tree."""
    own, staged = f(*args), fg.jit(f, exact=True)(*args)
    assert fg.tree.structure(own) == fg.tree.structure(staged)
    for x, y in zip(fg.tree.leaves(own), fg.tree.leaves(staged), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
    return own


@fg.pytree
class State:
    mean: Any
    count: Any


def test_trees_of_every_kind_pass_through() -> None:
    def step(carry: Any, x: Any) -> Any:
        state, (before, nothing) = carry
        new = State(state.mean + x["a"], state.count + 1)
        return (new, (x["b"][0], nothing)), {"before": before, "twice": [2 * state.mean, None]}

    xs = {"a": XS, "b": (fnp.ones((3, 2)),)}
    init = (State(0.0, 0), (fnp.zeros(2), None))
    (state, _), ys = both(lambda xs: fg.scan(step, init, xs), xs)
    assert float(state.mean) == 6.0
    assert int(state.count) == 3
    np.testing.assert_array_equal(ys["twice"][0], [0.0, 2.0, 6.0])
    np.testing.assert_array_equal(ys["before"], [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    assert ys["twice"][1] is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_python_number_to_begin_with_becomes_an_array(dtype: str) -> None:
    xs = XS.astype(dtype)
    total, ys = both(lambda xs: fg.scan(lambda c, x: (c + x, fnp.sin(c)), 0, xs), xs)
    assert total.dtype == ys.dtype == np.dtype(dtype)
    count, _ = both(lambda xs: fg.scan(lambda c, x: (c + 1, x), 0, xs), xs)
    assert int(count) == 3


def test_an_array_to_begin_with_takes_python_numbers_in() -> None:
    start = fnp.asarray(2.0, dtype="float32")
    last, _ = both(lambda c: fg.scan(lambda c, x: (1, c), c, XS), start)
    assert last.dtype == np.float32


@pytest.mark.parametrize("reverse", [False, True])
def test_a_loop_of_no_step_returns_what_it_began_with(reverse: bool) -> None:
    def f(c: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (c * x, (c, x[None])), c, xs, reverse=reverse)

    c, (first, second) = both(f, fg.tensor(2.0), XS[:0])
    assert float(c) == 2.0
    assert (first.shape, second.shape) == ((0,), (0, 1))
    loss = lambda c, xs: f(c, xs)[0] ** 2  # noqa: E731
    g, h = both(fg.grad(loss, (0, 1)), fg.tensor(2.0), XS[:0])
    assert float(g) == 4.0
    assert h.shape == (0,)
    assert fg.fori_loop(3, 1, lambda i, x: x + i, 1.0) == 1.0
    assert fg.jit(lambda x: fg.fori_loop(3, 1, lambda i, x: x + i, x))(1.0) == 1.0
    assert fg.map(lambda x: fnp.stack([x, x]), XS[:0]).shape == (0, 2)


def test_length_alone_and_with_arrays() -> None:
    last, ys = both(lambda x: fg.scan(lambda c, _: (2 * c, c), x, length=4), fg.tensor(1.0))
    assert float(last) == 16.0
    np.testing.assert_array_equal(ys, [1.0, 2.0, 4.0, 8.0])
    assert both(lambda xs: fg.scan(lambda c, x: (c + x, None), 0.0, xs, length=3), XS)[1] is None


def test_unrolling_changes_nothing() -> None:
    def f(xs: Any, unroll: int) -> Any:
        return fg.scan(lambda c, x: (fnp.sin(c) + x, c), 0.0, xs, unroll=unroll)[0]

    expected = fg.grad(f)(XS, 1)
    np.testing.assert_array_equal(fg.jit(fg.grad(f), static_argnums=1)(XS, 2), expected)


@together("every", [2, "sqrt", 1, 3, 5], quick=2)
@together("reverse", [False, True])
def test_checkpoints_change_nothing_but_memory(every: Any, reverse: bool) -> None:
    xs = fnp.linspace(0.1, 1.0, 5)

    def f(w: Any, xs: Any, every: Any = None) -> Any:
        def step(c: Any, x: Any) -> Any:
            c = fnp.sin(w * c + x)
            return c, c * x

        c, ys = fg.scan(step, 0.3, xs, reverse=reverse, checkpoint_every=every)
        return c + fnp.sum(ys * ys * fnp.arange(5.0))

    expected = fg.value_and_grad(f, (0, 1))(0.7, xs)
    for run in (
        fg.value_and_grad(f, (0, 1)),
        fg.jit(fg.value_and_grad(f, (0, 1)), static_argnums=2),
    ):
        for own, other in zip(
            fg.tree.leaves(run(0.7, xs, every)), fg.tree.leaves(expected), strict=True
        ):
            np.testing.assert_allclose(own, other, rtol=1e-13)
    second = fg.jit(fg.grad(fg.grad(f)), static_argnums=2)(0.7, xs, every)
    np.testing.assert_allclose(second, fg.grad(fg.grad(f))(0.7, xs), rtol=1e-12)


def stacked_bytes(program: fg.Program, length: int) -> int:
    """The bytes of all results of loops that have a slice for each step."""
    return sum(
        spec.dtype.itemsize * int(np.prod(spec.shape))
        for equation in program.equations
        if isinstance(equation.operation.structure, Control)
        for spec in equation.results
        if spec.shape[:1] == (length,)
    )


def test_reverse_mode_keeps_what_the_loop_backwards_reads_and_nothing_else() -> None:
    length = 100_000

    def f(w: Any, c: Any) -> Any:
        # The factor of the carry depends on w alone: nothing has to be kept of any step.
        return fg.scan(lambda c, _: (fnp.sin(w) * c + 1.0, None), c, length=length)[0]

    c = fg.tensor(0.5)
    linear = fg.program(fg.grad(f, 1))(fg.tensor(0.3), c)
    assert stacked_bytes(linear, length) == 0
    # For the derivative in w the carry of each step is needed, and nothing else.
    assert stacked_bytes(fg.program(fg.grad(f))(fg.tensor(0.3), c), length) == 8 * length
    # What the loop goes through is there anyway.
    xs = fnp.ones(length)

    def g(c: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (c * x, None), c, xs)[0]

    assert stacked_bytes(fg.program(fg.grad(g))(c, xs), length) == 0

    # What a step gives, and reads backwards, is kept once.
    def h(c: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            y = fnp.exp(c)
            return 0.1 * y, y

        return fnp.sum(fg.scan(step, c, length=length)[1])

    assert stacked_bytes(fg.program(fg.grad(h))(c), length) == 8 * length


def test_checkpoints_let_memory_fall() -> None:
    length = 10_000

    def f(c: Any, every: Any) -> Any:
        return fg.scan(lambda c, _: (fnp.sin(c), None), c, length=length, checkpoint_every=every)[0]

    def peak(every: Any) -> int:
        return costs(fg.program(fg.grad(lambda c: f(c, every)))(fg.tensor(0.5))).peak_bytes

    assert peak(None) > 8 * length
    assert peak("sqrt") < 3 * 8 * int(np.sqrt(length))
    np.testing.assert_allclose(
        fg.jit(lambda c: fg.grad(f)(c, "sqrt"))(0.5), fg.grad(f)(0.5, None), rtol=1e-12
    )


def test_what_is_alike_at_every_step_is_computed_once() -> None:
    program = fg.program(
        lambda w, c: fg.scan(lambda c, _: (fnp.sin(w) * c, fnp.cos(w)), c, length=5)
    )(fg.tensor(0.3), fg.tensor(0.5))
    assert [equation.name for equation in program.equations] == ["sin", "cos", "scan"]
    (loop,) = [each for each in program.equations if each.name == "scan"]
    body = dict(loop.params)["body"]
    assert [equation.name for equation in body.equations] == ["multiply"]


def test_trip_counts_multiply_in_costs() -> None:
    def f(x: Any) -> Any:
        def inner(c: Any, _: Any) -> Any:
            return fnp.sin(c), None

        return fg.scan(lambda c, _: (fg.scan(inner, c, length=7)[0], None), x, length=5)[0]

    assert costs(fg.program(f)(0.5)).transcendental == 35


def test_a_linear_loop_is_transposed() -> None:
    matrix = np.array([[0.5, 0.2], [-0.3, 0.9]])

    def f(c: Any, xs: Any) -> Any:
        return fg.scan(lambda c, x: (matrix @ c + x, c[0]), c, xs)

    c, xs = fnp.ones(2), fnp.ones((3, 2))
    ct = (fg.tensor([1.0, -2.0]), fg.tensor([0.5, 1.0, 2.0]))
    expected = fg.vjp(f, c, xs)[1](ct)
    for transposed in (
        fg.linear_transpose(f, c, xs),
        fg.linear_transpose(fg.jit(f), c, xs),
        fg.jit(lambda ct: fg.linear_transpose(f, c, xs)(ct)),
    ):
        for own, other in zip(transposed(ct), expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-14)

    def affine(c: Any) -> Any:
        return fg.scan(lambda c, _: (c + 1.0, None), c, length=2)[0]

    def nonlinear(c: Any) -> Any:
        return fg.scan(lambda c, _: (c * c, None), c, length=2)[0]

    with pytest.raises(fg.errors.DifferentiationError, match="affine"):
        fg.linear_transpose(fg.jit(affine), c)
    for function in (nonlinear, fg.jit(nonlinear)):
        with pytest.raises(fg.errors.DifferentiationError, match="multiply is not linear"):
            fg.linear_transpose(function, c)
    with pytest.raises(fg.errors.DifferentiationError, match="multiply is not linear"):
        fg.jit(lambda ct: fg.linear_transpose(nonlinear, c)(ct))(c)


@pytest.mark.parametrize("is_scan", [True, False])
def test_a_loop_of_a_program_is_linear_at_all_steps_or_refused(is_scan: bool) -> None:
    """A leaf of the carry may depend on the argument from the second step on only."""

    def swapped(make: Any) -> Any:
        def loop(x: Any, w: Any) -> Any:
            start = (x, fg.tensor(0.0))
            if is_scan:
                return fg.scan(lambda c, _: ((make(c[1], w), c[0]), None), start, length=2)[0]
            first, second, _ = fg.while_loop(
                lambda c: c[2] < 2, lambda c: (make(c[1], w), c[0], c[2] + 1), (*start, 0)
            )
            return first, second

        program = fg.program(loop)(fg.tensor(1.0), fg.tensor(1.0))

        def transposed(w: Any) -> Any:
            (ct,) = fg.linear_transpose(lambda x: program(x, w), fg.tensor(1.0))((w, 10.0 * w))
            return ct

        return fg.vmap(transposed)(fg.tensor([2.0, 3.0]))

    np.testing.assert_array_equal(swapped(lambda y, w: y * w), [4.0, 9.0])
    place = "fg.scan" if is_scan else "fg.while_loop"
    with pytest.raises(fg.errors.DifferentiationError, match=f"multiply is not linear.*{place}"):
        swapped(lambda y, w: y * y * w)


def test_a_batch_of_what_is_shared_is_summed_once() -> None:
    def f(w: Any, c: Any) -> Any:
        return fg.scan(lambda c, x: (fnp.tanh(w * c + x), None), c, XS)[0]

    ws = fg.tensor([0.1, 0.2])
    for g in (fg.vmap(fg.grad(f), (0, None)), fg.jit(fg.vmap(fg.grad(f), (0, None)))):
        expected = [fg.grad(f)(w, 0.5) for w in ws]
        np.testing.assert_allclose(g(ws, 0.5), np.asarray(fnp.stack(expected)), rtol=1e-14)


def test_random_keys_are_carried() -> None:
    def f(key: Any) -> Any:
        def step(key: Any, _: Any) -> Any:
            key, own = fg.random.split(key)
            return key, fg.random.normal(own, (2,))

        return fg.scan(step, key, length=3)[1]

    ys = both(f, fg.random.key(3))
    assert len(np.unique(np.asarray(ys))) == 6


def test_calls_with_rules_keep_them_inside_of_loops() -> None:
    @fg.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    @cube.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x,), (t,) = primals, tangents
        return cube(x), 30.0 * x**2 * t

    @fg.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (20.0 * x * ct,))
    inner = fg.jit(lambda x: fnp.sin(x) + 1.0)

    def f(x: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return cube(c) * 0.1 + square(inner(x)) + fg.checkpoint(fnp.cos)(c), c

        c, ys = fg.scan(step, x, XS)
        return c + fnp.sum(ys)

    def g(x: Any) -> Any:
        c, total = x, 0.0
        for y in XS:
            total = total + c
            c = cube(c) * 0.1 + square(inner(y)) + fnp.cos(c)
        return c + total

    for x in (0.3, -0.2):
        for own in (f, fg.jit(f)):
            np.testing.assert_allclose(fg.grad(own)(x), fg.grad(g)(x), rtol=1e-13)
            np.testing.assert_allclose(
                fg.jit(fg.grad(fg.grad(own)))(x), fg.grad(fg.grad(g))(x), rtol=1e-12
            )
            np.testing.assert_allclose(
                fg.jvp(own, (x,), (1.0,))[1], fg.jvp(g, (x,), (1.0,))[1], rtol=1e-13
            )


def test_loops_inside_of_calls_with_rules() -> None:
    @fg.custom_jvp
    def root(x: Any) -> Any:
        return fg.while_loop(lambda y: abs(y * y - x) > 1e-13 * x, lambda y: (y + x / y) / 2.0, x)

    @root.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        y = root(*primals)
        return y, tangents[0] / (2.0 * y)

    for f in (root, fg.jit(root)):
        np.testing.assert_allclose(fg.grad(f)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-12)
        np.testing.assert_allclose(fg.grad(fg.grad(f))(2.0), -0.25 * 2.0**-1.5, rtol=1e-12)
        np.testing.assert_allclose(
            fg.vmap(fg.grad(f))(fg.tensor([1.0, 4.0])), [0.5, 0.25], rtol=1e-12
        )

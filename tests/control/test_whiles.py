"""Loops of as many steps as it takes: both modes, every order, each example by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._control.sweeps import swept
from tests.conformance import in_turn
from tests.together import together


def newton(x: Any, checkpoints: int | None = None) -> Any:
    """The square root."""
    close = lambda y: abs(y * y - x) > 1e-14 * x  # noqa: E731
    return fg.while_loop(close, lambda y: (y + x / y) / 2.0, x, checkpoints)


def grown(x: Any, checkpoints: int | None = None) -> Any:
    """Some tens of steps, the number of which depends on x."""
    return fg.while_loop(
        lambda c: (c[0] < 60) & (c[1] < 1e3),
        lambda c: (c[0] + 1, 1.1 * c[1] + 0.1 * fnp.sin(x * c[1])),
        (0, x),
        checkpoints,
    )[1]


def plain_grown(x: Any) -> Any:
    n, y = 0, x
    while n < 60 and y < 1e3:
        n, y = n + 1, 1.1 * y + 0.1 * fnp.sin(x * y)
    return y


ORDERS = {
    "reverse": lambda f: fg.grad(f),
    "forward": lambda f: lambda x: fg.jvp(f, (x,), (1.0,))[1],
    "reverse over reverse": lambda f: fg.grad(fg.grad(f)),
    "forward over reverse": lambda f: lambda x: fg.jvp(fg.grad(f), (x,), (1.0,))[1],
    "reverse over forward": lambda f: fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1]),
    "reverse three times": lambda f: fg.grad(fg.grad(fg.grad(f))),
}


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints", [None, 2, 5])
@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_every_order_in_a_program(order: str, checkpoints: Any) -> None:
    transform = ORDERS[order]
    expected = transform(plain_grown)(0.7)
    own = transform(lambda x: grown(x, checkpoints))
    np.testing.assert_allclose(own(0.7), expected, rtol=1e-9)
    staged = fg.jit(own), transform(fg.jit(lambda x: grown(x, checkpoints)))  # which take turns
    (run,) = in_turn(staged, [*ORDERS].index(order) + (checkpoints or 0), 1)
    np.testing.assert_allclose(run(0.7), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_each_example_stops_at_its_own_count(order: str) -> None:
    xs = fg.tensor([0.7, 2000.0, 30.0])  # of which the second needs no step
    own = ORDERS[order](grown)
    expected = [float(ORDERS[order](plain_grown)(x)) for x in xs]
    for run in (fg.vmap(own), fg.jit(fg.vmap(own)), fg.vmap(fg.jit(own))):
        np.testing.assert_allclose(run(xs), expected, rtol=1e-9, atol=1e-12)


def test_a_batch_of_sums_of_batches() -> None:
    xs = fg.tensor([0.7, 2000.0, 30.0])
    loss = lambda f: lambda xs: fnp.sum(fg.vmap(f)(xs) ** 2)  # noqa: E731
    plain = lambda xs: sum(plain_grown(x) ** 2 for x in xs)  # noqa: E731
    expected = fg.hessian(plain)(xs)
    np.testing.assert_allclose(fg.jit(fg.hessian(loss(grown)))(xs), expected, rtol=1e-9)
    np.testing.assert_allclose(fg.hessian(loss(fg.jit(grown)))(xs), expected, rtol=1e-9)
    np.testing.assert_allclose(fg.jit(fg.jacrev(fg.jacrev(loss(grown))))(xs), expected, rtol=1e-9)


def pushed(f: Any) -> Any:
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


def falling(x: Any) -> Any:
    """Beyond the end of an example there are roots of negative numbers."""
    return fg.while_loop(lambda y: y > 1.0, lambda y: fnp.sqrt(y - 1.0) * 1.2, x)


def plain_falling(x: Any) -> Any:
    while x > 1.0:
        x = fnp.sqrt(x - 1.0) * 1.2
    return x


def test_what_runs_beyond_has_no_effect_not_even_nan() -> None:
    xs = fg.tensor([0.5, 1.0, 1.5, 30.0, 1e6])
    for transform in (lambda f: f, fg.grad, lambda f: fg.grad(fg.grad(f)), pushed):
        expected = [float(transform(plain_falling)(x)) for x in xs]
        assert np.all(np.isfinite(expected))
        for run in (
            fg.vmap(transform(falling)),
            fg.jit(fg.vmap(transform(falling))),
            fg.vmap(fg.jit(transform(falling))),
        ):
            np.testing.assert_allclose(run(xs), expected, rtol=1e-10)


def test_a_root_by_newtons_method() -> None:
    for f in (newton, fg.jit(newton)):
        np.testing.assert_allclose(f(2.0), np.sqrt(2.0))
        np.testing.assert_allclose(fg.grad(f)(2.0), 0.5 / np.sqrt(2.0))
        np.testing.assert_allclose(fg.grad(fg.grad(f))(2.0), -0.25 * 2.0**-1.5)


def test_no_step_leaves_no_derivative_of_what_steps_read() -> None:
    def f(w: Any, x: Any) -> Any:
        own = fnp.log(w)  # whose derivative at 0 is infinite
        return fg.while_loop(lambda y: y < 0.0, lambda y: y + own, x)

    for g in (fg.grad(f, (0, 1)), fg.jit(fg.grad(f, (0, 1)))):
        assert [float(x) for x in g(0.0, 1.0)] == [0.0, 1.0]


@together("count", [0, 1, 2, 7, 64, 65, 1000])
@together("most", [None, 2, 3, 10])
def test_states_come_back_in_order_and_few_are_held(count: int, most: int | None) -> None:
    class Number:
        alive = 0
        peak = 0

        def __init__(self, value: int) -> None:
            self.value = value
            Number.alive += 1
            Number.peak = max(Number.peak, Number.alive)

        def __del__(self) -> None:
            Number.alive -= 1

    steps = 0

    def step(x: Number) -> Number:
        nonlocal steps
        steps += 1
        return Number(x.value + 1)

    steps_of = [lambda own: step(*own), lambda own: [*own[1], own[0].value]]
    _, found = swept(steps_of, lambda x: x.value < count, Number(0), [[]], most)
    assert found == [*range(count)][::-1]
    if most is not None and count >= 64:
        levels = np.log(count) / np.log(most)
        assert Number.peak <= 2 * most + most * levels + 4
        assert steps <= count * (levels + 3)


def test_bounds_that_are_traced_make_a_loop_of_as_many_steps() -> None:
    def power(x: Any, n: Any) -> Any:
        return fg.fori_loop(0, n, lambda i, y: y * x + 0.0 * i, 1.0)

    staged = fg.jit(power)
    assert [float(staged(2.0, n)) for n in (0, 3, -1)] == [1.0, 8.0, 1.0]
    assert float(fg.jit(fg.grad(power))(2.0, 3)) == 12.0
    counts = fg.tensor([0, 1, 3])
    for f in (fg.vmap(power, (None, 0)), fg.jit(fg.vmap(power, (None, 0)))):
        np.testing.assert_array_equal(f(2.0, counts), [1.0, 2.0, 8.0])
    both = fg.vmap(fg.grad(power), (None, 0))
    for f in (both, fg.jit(both)):
        np.testing.assert_array_equal(f(2.0, counts), [0.0, 1.0, 12.0])


def test_the_integer_of_a_loop_is_as_weak_as_pythons() -> None:
    x = fnp.ones(2, dtype="float32")

    def f(x: Any) -> Any:
        return fg.fori_loop(1, 4, lambda i, y: y * i + x[i % 2], x)

    assert f(x).dtype == fg.jit(f)(x).dtype == np.float32
    np.testing.assert_array_equal(f(x), fg.jit(f)(x))


@together("order", ORDERS, quick=3)
def test_a_count_that_all_examples_share_stays_one(order: str) -> None:
    def f(w: Any, x: Any) -> Any:
        return fg.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, fnp.sin(w * c[1]) + w), (0, x)
        )[1]

    def g(x: Any) -> Any:
        return f(x * x, x)

    xs = fg.tensor([0.7, -0.2])
    transformed = ORDERS[order](g)
    expected = [float(transformed(x)) for x in xs]
    for run in (fg.jit(fg.vmap(transformed)), fg.vmap(fg.jit(transformed))):
        np.testing.assert_allclose(run(xs), expected, rtol=1e-10)
    program = fg.program(fg.vmap(g))(xs)
    (loop,) = [equation for equation in program.equations if equation.name == "while_loop"]
    assert [spec.shape for spec in loop.results] == [(), (2,)]


def test_a_python_number_that_is_carried_leaves_the_precision_of_others() -> None:
    def f(x: Any) -> Any:
        return fg.while_loop(
            lambda c: c[1] < 10, lambda c: (c[0] * 2.0, c[1] * c[0] * x + x), (1.0, x)
        )

    xs = fnp.asarray([1.0, 2.0, 30.0], dtype="float32")
    expected = [f(x) for x in xs]
    for run in (fg.vmap(f), fg.jit(fg.vmap(f)), fg.vmap(fg.jit(f))):
        number, found = run(xs)
        assert (number.dtype, found.dtype) == (np.float64, np.float32)
        np.testing.assert_allclose(number, [float(own[0]) for own in expected])
        np.testing.assert_allclose(found, [float(own[1]) for own in expected], rtol=1e-6)
        assert run(xs[:0])[1].shape == (0,)


def test_forward_mode_holds_nothing_of_the_steps() -> None:
    def f(x: Any) -> Any:
        return fg.while_loop(
            lambda c: c[0] < 1000, lambda c: (c[0] + 1, fnp.sin(c[1]) + 0.1), (0, x)
        )[1]

    program = fg.program(lambda x: fg.jvp(f, (x,), (1.0,)))(0.3)
    (loop,) = [equation for equation in program.equations if equation.name == "while_loop"]
    assert all(spec.shape == () for spec in loop.results)

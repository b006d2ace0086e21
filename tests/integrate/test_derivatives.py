"""Derivatives of solutions, by the steps and by the adjoint equation, in every mode and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytestmark = pytest.mark.slow

WAYS = ["steps", "adjoint"]
TIGHT: Any = {"rtol": 1e-8, "atol": 1e-8}


def turned(t: Any, y: Any, frequency: Any, since: Any) -> Any:
    """The solution of the oscillator, in closed form."""
    c, s = fnp.cos(frequency * (t - since)), fnp.sin(frequency * (t - since))
    return fnp.stack([c * y[0] + s * y[1] / frequency, c * y[1] - frequency * s * y[0]])


def oscillator(y: Any, t: Any, frequency: Any) -> Any:
    return fnp.stack([y[1], -(frequency**2) * y[0]])


def faded(y: Any, t: Any, rate: Any) -> Any:
    """A slope that depends on the time; see ``faded_exactly``."""
    return -rate * t * y


def faded_exactly(rate: Any, y0: Any, t0: Any, t1: Any, t2: Any) -> Any:
    times = fnp.stack([t0, t1, t2])
    return fnp.sum(fnp.cos(times) * y0 * fnp.exp(-rate * (times**2 - t0**2) / 2))


def faded_sum(way: str) -> Any:
    def total(rate: Any, y0: Any, t0: Any, t1: Any, t2: Any) -> Any:
        times = fnp.stack([t0, t1, t2])
        found = fg.odeint(faded, y0, times, rate, derivative=way, **TIGHT)
        return fnp.sum(fnp.cos(times) * found)

    return total


AT = (0.7, 1.3, 0.5, 1.0, 2.0)
EVERY = (0, 1, 2, 3, 4)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_both_modes_by_start_parameters_and_times(way: str, backwards: bool) -> None:
    at = (0.7, 1.3, 2.0, 1.0, 0.5) if backwards else AT
    exact = fg.grad(faded_exactly, EVERY)(*at)
    own = faded_sum(way)
    for run in (fg.grad(own, EVERY), fg.jacfwd(own, EVERY)):
        np.testing.assert_allclose(run(*at), exact, rtol=1e-7)
    pushed, by_steps = fg.jacfwd(own, EVERY)(*at), fg.jacfwd(faded_sum("steps"), EVERY)(*at)
    np.testing.assert_allclose(pushed, by_steps, rtol=1e-14)  # forward mode is that of the steps
    if not backwards:
        np.testing.assert_allclose(fg.jit(fg.grad(own, EVERY))(*at), exact, rtol=1e-7)


@pytest.mark.parametrize("way", WAYS)
def test_second_order(way: str) -> None:
    exact = fg.hessian(lambda v: faded_exactly(*v))(fg.tensor(AT))
    own = faded_sum(way)

    def of_all(v: Any) -> Any:
        return own(*v)

    orders = {
        "forward over reverse": fg.jacfwd(fg.grad(of_all)),
        "reverse over reverse": fg.jacrev(fg.grad(of_all)),
        "forward over forward": fg.jacfwd(fg.jacfwd(of_all)),
    }
    for name, run in orders.items():
        np.testing.assert_allclose(run(fg.tensor(AT)), exact, atol=1e-6, err_msg=name)


def test_the_slope_is_the_derivative_by_a_time_up_to_high_orders() -> None:
    def at(t: Any) -> Any:
        return fg.odeint(lambda y, t: y, 1.0, fnp.stack([0.0, 0.3, t]))[2]

    derivative = at
    for _ in range(4):
        derivative = fg.grad(derivative)
        np.testing.assert_allclose(derivative(0.5), at(0.5), rtol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_the_first_time_moves_all(way: str) -> None:
    """If the slope does not depend on time, a later start has the effect of an earlier end."""

    def solve(since: Any) -> Any:
        times = fnp.stack([since, 1.0])
        return fg.odeint(lambda y, t: -y, 1.0, times, derivative=way, **TIGHT)

    np.testing.assert_allclose(fg.jacrev(solve)(0.0), [0.0, np.exp(-1.0)], atol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(solve)(0.0), [0.0, np.exp(-1.0)], atol=1e-7)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_function_closes_over(way: str) -> None:
    times = fg.tensor([0.0, 0.5, 2.0])

    def closed(frequency: Any) -> Any:
        shift = 0.5 * frequency
        found = fg.odeint(
            lambda y, t: oscillator(y, t, shift + 0.5 * frequency),
            fg.tensor([1.0, 0.5]),
            times,
            derivative=way,
            **TIGHT,
        )
        return fnp.sum(found[1:] ** 3)

    def exact(frequency: Any) -> Any:
        y = fg.tensor([1.0, 0.5])
        return sum(fnp.sum(turned(t, y, frequency, 0.0) ** 3) for t in (0.5, 2.0))

    first, second = fg.grad(exact)(1.4), fg.grad(fg.grad(exact))(1.4)
    np.testing.assert_allclose(fg.grad(closed)(1.4), first, rtol=1e-6)
    if way == "adjoint":  # where the program has what it closes over as operands
        np.testing.assert_allclose(fg.jit(fg.grad(closed))(1.4), first, rtol=1e-6)
    np.testing.assert_allclose(fg.jvp(closed, (1.4,), (1.0,))[1], first, rtol=1e-6)
    np.testing.assert_allclose(fg.grad(fg.grad(closed))(1.4), second, rtol=1e-5)


def test_the_adjoint_equation_is_solved_and_the_steps_are_not_held() -> None:
    """The adjoint equation runs the staged program, so the function itself is called once."""
    looked = []

    def noted(y: Any, t: Any, rate: Any) -> Any:
        looked.append(type(t._value))
        return -rate * y

    def end(rate: Any, way: str) -> Any:
        return fg.odeint(noted, 1.0, [0.0, 1.0], rate, derivative=way)[-1]

    np.testing.assert_allclose(fg.grad(end)(2.0, "steps"), -np.exp(-2.0), rtol=1e-6)
    many = len(looked)
    np.testing.assert_allclose(fg.grad(end)(2.0, "adjoint"), -np.exp(-2.0), rtol=1e-6)
    assert len(looked) == many + 1


@pytest.mark.parametrize("way", WAYS)
def test_a_function_that_looks_at_numbers(way: str) -> None:
    def switched(y: Any, t: Any, rate: Any) -> Any:
        return -rate * y if t < 1.0 else -2.0 * rate * y

    def end(rate: Any) -> Any:
        return fg.odeint(switched, 1.0, [0.0, 1.0, 2.0], rate, derivative=way, hmax=0.1)[-1]

    np.testing.assert_allclose(end(0.5), np.exp(-1.5), rtol=1e-4)
    np.testing.assert_allclose(fg.grad(end)(0.5), -3.0 * np.exp(-1.5), rtol=1e-3)


@pytest.mark.parametrize("way", WAYS)
def test_each_example_of_a_batch_has_its_own_steps(way: str) -> None:
    starts = fg.tensor([[1.0, 0.0], [0.3, 2.0], [1.0, 1.0]])
    frequencies = fg.tensor([0.1, 5.0, 1.0])
    times = fg.tensor([0.0, 0.7, 1.5])

    def loss(y0: Any, frequency: Any) -> Any:
        found = fg.odeint(oscillator, y0, times, frequency, rtol=1e-4, atol=1e-4, derivative=way)
        return fnp.sum(found[:, 0] ** 2)

    run = fg.value_and_grad(loss, (0, 1))
    own = [run(y0, frequency) for y0, frequency in zip(starts, frequencies, strict=True)]
    batches: list[Any] = [fg.vmap(run), fg.jit(fg.vmap(run))]
    for batch in batches:
        value, (of_start, of_frequency) = batch(starts, frequencies)
        np.testing.assert_allclose(value, [v for v, _ in own], rtol=1e-10)
        np.testing.assert_allclose(of_start, [g[0] for _, g in own], rtol=1e-9)
        np.testing.assert_allclose(of_frequency, [g[1] for _, g in own], rtol=1e-9)
    shared = fg.vmap(fg.grad(loss, 1), in_axes=(None, 0))(starts[0], frequencies)
    np.testing.assert_allclose(
        shared, [fg.grad(loss, 1)(starts[0], x) for x in frequencies], rtol=1e-9
    )


def test_each_example_of_a_batch_has_its_own_times() -> None:
    ends = fg.tensor([0.1, 5.0, -2.0])

    def at(t: Any) -> Any:
        return fg.odeint(lambda y, t: -y, 1.0, fnp.stack([0.0, t]), **TIGHT)[1]

    for run in (fg.vmap, lambda f: fg.jit(fg.vmap(f))):
        np.testing.assert_allclose(run(at)(ends), np.exp(-ends), rtol=1e-6)
        np.testing.assert_allclose(run(fg.grad(at))(ends), -np.exp(-ends), rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_trees_and_complex_numbers(way: str) -> None:
    times = fg.tensor([0.0, 0.4, 1.0])

    def solve(start: Any, rate: Any, scales: Any) -> Any:
        def f(y: Any, t: Any, p: Any) -> Any:
            return {"z": p["rate"] * y["z"], "x": -p["power"] * p["scales"] * fnp.real(y["z"])}

        args = {"rate": rate, "power": 2, "scales": scales}
        found = fg.odeint(f, start, times, args, derivative=way, **TIGHT)
        return fnp.abs(found["z"][1] + 1j) ** 2 + fnp.sum(found["x"][2] ** 2)

    def exact(start: Any, rate: Any, scales: Any) -> Any:
        z, x = start["z"], start["x"]
        whole = fnp.real(z * (fnp.exp(rate) - 1) / rate)
        return fnp.abs(z * fnp.exp(0.4 * rate) + 1j) ** 2 + fnp.sum((x - 2 * scales * whole) ** 2)

    at: Any = (
        {"z": fg.tensor(1.0 + 0.5j), "x": fg.tensor([0.5, -1.0])},
        -0.3 + 2.0j,
        fg.tensor([1.0, 2]),
    )
    np.testing.assert_allclose(solve(*at), exact(*at), rtol=1e-8)
    transforms: list[Any] = [fg.grad]
    if way == "adjoint":
        transforms.append(lambda f, k: fg.jit(fg.grad(f, k)))
    for transform in transforms:
        found, wanted = transform(solve, (0, 1, 2))(*at), fg.grad(exact, (0, 1, 2))(*at)
        for own, other in zip(fg.tree.leaves(found), fg.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-6)
    ways = {"z": 1j, "x": fg.tensor([1.0, 0.0])}, 0.5 + 1j, fg.tensor([0.0, 1.0])
    np.testing.assert_allclose(fg.jvp(solve, at, ways)[1], fg.jvp(exact, at, ways)[1], rtol=1e-6)


def test_several_equations_in_one_program() -> None:
    """Each equation has its own rule, though all have the same operation."""
    powers = (1.0, 2.0)

    def total(rate: Any) -> Any:
        ends = [
            fg.odeint(lambda y, t, k, p=p: -p * k * y, p, [0.0, 1.0], rate, derivative="adjoint")[
                -1
            ]
            for p in powers
        ]
        return fnp.sum(fnp.stack(ends))

    exact = -sum(p * p * np.exp(-p * 0.5) for p in powers)
    np.testing.assert_allclose(fg.jit(fg.grad(total))(0.5), exact, rtol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_transformations_inside_of_the_function(way: str) -> None:
    """A gradient flow, whose slope is itself a derivative."""

    def flow(y: Any, t: Any, bend: Any) -> Any:
        return -fg.grad(lambda x: fnp.sum(bend * x**2 / 2))(y)

    def end(bend: Any) -> Any:
        found = fg.odeint(flow, fg.tensor([1.0, 2.0]), [0.0, 1.0], bend, derivative=way, **TIGHT)
        return fnp.sum(found[-1])

    bend = fg.tensor([0.5, 1.5])
    np.testing.assert_allclose(fg.grad(end)(bend), -np.array([1.0, 2.0]) * np.exp(-bend), rtol=1e-7)


@pytest.mark.parametrize("way", WAYS)
def test_linearized_checkpointed_and_a_single_time(way: str) -> None:
    def end(rate: Any) -> Any:
        return fg.odeint(lambda y, t, k: -k * y, 1.0, [0.0, 1.0], rate, derivative=way)[-1]

    exact = -np.exp(-0.5)
    np.testing.assert_allclose(fg.linearize(end, 0.5)[1](1.0), exact, rtol=1e-6)
    np.testing.assert_allclose(fg.grad(fg.checkpoint(end))(0.5), exact, rtol=1e-6)
    if way == "adjoint":
        loop = lambda k: fg.scan(lambda c, _: (end(c), None), k, length=2)[0]  # noqa: E731
        chain = np.exp(-0.5), np.exp(-np.exp(-0.5))
        np.testing.assert_allclose(fg.jit(fg.grad(loop))(0.5), chain[0] * chain[1], rtol=1e-6)

    def still(y: Any) -> Any:
        return fg.odeint(lambda y, t: y, y, [1.0], derivative=way)[0]

    assert float(fg.grad(still)(2.0)) == 1.0


def test_derivatives_are_those_of_the_steps_taken() -> None:
    """Derivatives agree with differences of two solutions with the same steps, at any tolerance."""

    def end(y0: Any) -> Any:
        options: Any = {"rtol": 0.0, "atol": 1e9, "hmax": 0.5}
        return fg.odeint(lambda y, t: fnp.sin(3.0 * y) - y * t, y0, [0.0, 3.0], **options)[-1]

    fg.testing.check_grads(end, (0.4,), order=2)

"""Derivatives of stiff solutions, and batches of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.integrate import solve_ivp
from tests.integrate.stiff_problems import robertson

pytestmark = pytest.mark.slow

METHODS = ("Kvaerno5", "Rodas5P", "Radau", "BDF")
every_method = pytest.mark.parametrize("method", METHODS)

RATES = np.array([80.0, 3.0, 0.2])
WEIGHTS = np.array([1.0, -0.7])


def slopes(t: Any, y: Any, rates: Any) -> Any:
    """A stiff linear equation that depends on the time, and growth."""
    stiff, growth, _ = rates
    return fnp.stack([-stiff * (y[0] - fnp.cos(t)), growth * y[1] * (1.0 - y[1])])


def exact(rates: Any, t: float = 1.2) -> Any:
    """The solution from (1 + c, c) for the last rate c."""
    stiff, growth, start = rates
    steady = stiff**2 / (1.0 + stiff**2)
    first = steady * (fnp.cos(t) + fnp.sin(t) / stiff) + (1.0 + start - steady) * fnp.exp(
        -stiff * t
    )
    return fnp.stack([first, start / (start + (1.0 - start) * fnp.exp(-growth * t))])


def end(method: str, rtol: float = 1e-8, **options: Any) -> Any:
    def solution(rates: Any) -> Any:
        start = fnp.stack([1.0 + rates[2], rates[2]])
        sol = solve_ivp(
            slopes, (0.0, 1.2), start, method, [1.2], args=(rates,), rtol=rtol, atol=rtol, **options
        )
        return sol.y[:, -1]

    return solution


_FAR = {"Kvaerno5": 1e-6, "Rodas5P": 1e-6, "Radau": 1e-6, "BDF": 1e-5}


def both_orders(derivative: Callable[..., Any], f: Callable[..., Any], x: Any) -> Any:
    """The second derivatives, forward over ``derivative``, and the first, by one program."""

    def first(x: Any) -> Any:
        slope = derivative(f)(x)
        return slope, slope

    return fg.jit(fg.jacfwd(first, has_aux=True))(x)


@every_method
def test_derivatives_of_stiff_solutions_in_both_modes_and_to_second_order(method: str) -> None:
    solution, far = end(method), _FAR[method]
    np.testing.assert_allclose(solution(RATES), exact(RATES), rtol=far)
    forward_twice, forward = both_orders(fg.jacfwd, lambda rates: WEIGHTS @ solution(rates), RATES)
    second, reverse = both_orders(fg.grad, lambda rates: WEIGHTS @ solution(rates), RATES)
    np.testing.assert_allclose(reverse, forward, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(forward_twice, second, rtol=1e-7, atol=1e-9)
    twice, once = both_orders(fg.grad, lambda rates: WEIGHTS @ exact(rates), RATES)
    np.testing.assert_allclose(forward, once, rtol=30 * far, atol=far)
    np.testing.assert_allclose(second, twice, rtol=1e-3, atol=20 * far)


@every_method
def test_the_adjoint_equation_is_solved_by_the_same_method(method: str) -> None:
    # So mild that the way back, on which errors grow by exp(4.8), does not lose the solution.
    mild = np.array([4.0, 0.6, 0.04])
    by_adjoint = fg.jit(fg.jacrev(end(method, 1e-7, derivative="adjoint")))(mild)
    by_steps = fg.jit(fg.jacrev(end(method, 1e-9)))(mild)
    np.testing.assert_allclose(by_adjoint, by_steps, rtol=2e-3, atol=2e-5)


@every_method
def test_the_derivative_in_the_last_time_is_the_slope(method: str) -> None:
    def at(t: Any) -> Any:
        return solve_ivp(
            slopes, (0.0, t), [1.2, 0.2], method, fnp.stack([t]), args=(RATES,), rtol=1e-9
        ).y[:, 0]

    slope = slopes(1.1, at(1.1), RATES)
    np.testing.assert_allclose(fg.jacfwd(at)(1.1), slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["Rodas5P", "BDF"])
def test_gradients_of_sparse_and_of_differential_algebraic_equations(method: str) -> None:
    dense, sparse = [
        fg.jit(fg.jacrev(end(method, 1e-6, jac=jac)))(RATES) for jac in (None, "sparse")
    ]
    np.testing.assert_allclose(sparse, dense, rtol=1e-7, atol=1e-9)

    def total(rate: Any) -> Any:  # y[1] = rate * y[0]
        def f(t: Any, y: Any) -> Any:
            return fnp.stack([-y[0] - y[1], rate * y[0] - y[1]])

        start, mass = fnp.stack([1.0, rate]), np.diag([1.0, 0.0])
        sol = solve_ivp(f, (0, 1), start, method, [1.0], mass=mass, rtol=1e-8, atol=1e-9)
        return sol.y[1, 0]

    def known(rate: Any) -> Any:
        return rate * fnp.exp(-(1.0 + rate))

    np.testing.assert_allclose(
        [total(0.5), fg.jit(fg.grad(total))(0.5)], [known(0.5), fg.grad(known)(0.5)], rtol=2e-5
    )


def algebraic(t: Any, y: Any, rate: Any) -> Any:
    """y[0] = exp(-(1 + rate) t), y[1] = rate * y[0]; the second equation has no derivative."""
    return fnp.stack([-y[0] - y[1], rate * y[0] - y[1]])


def decayed(values: Any) -> Any:
    rate, last = values
    return rate * fnp.exp(-(1.0 + rate) * last)


@pytest.mark.parametrize("method", ["Rodas5P", "Radau", "BDF"])
def test_derivatives_of_algebraic_equations_by_steps_and_adjoint(method: str) -> None:
    def end_of(values: Any, derivative: str) -> Any:
        rate, last = values
        start, mass = fnp.stack([1.0, rate]), np.diag([1.0, 0.0])
        options: dict[str, Any] = {"mass": mass, "args": (rate,), "rtol": 1e-9, "atol": 1e-9}
        span, times = (0.0, last), fnp.stack([last])
        return solve_ivp(algebraic, span, start, method, times, derivative=derivative, **options).y[
            1, -1
        ]

    values, far = np.array([0.5, 1.0]), 1e-6 if method == "BDF" else 1e-8
    for derivative in ("steps", "adjoint"):

        def f(x: Any, derivative: str = derivative) -> Any:
            return end_of(x, derivative)

        if (method, derivative) == ("Rodas5P", "adjoint"):
            second, slope = both_orders(fg.grad, f, values)
            np.testing.assert_allclose(second, fg.hessian(decayed)(values), 1e-6)
        else:
            slope = fg.jit(fg.grad(f))(values)
        np.testing.assert_allclose(slope, fg.grad(decayed)(values), far)
        np.testing.assert_allclose(fg.jit(fg.jacfwd(f))(values), fg.grad(decayed)(values), far)


def test_an_algebraic_start_follows_the_others() -> None:
    def end_of(first: Any, derivative: str) -> Any:  # y[1] at the start only has the right value
        start = fnp.stack([first, 0.5])
        return solve_ivp(
            algebraic,
            (0.0, 1.0),
            start,
            "Radau",
            [0.0, 1.0],
            mass=np.diag([1.0, 0.0]),
            args=(0.5,),
            rtol=1e-9,
            atol=1e-9,
            derivative=derivative,
        ).y

    for derivative in ("steps", "adjoint"):
        slope = fg.jit(fg.jacrev(end_of), static_argnums=1)(1.0, derivative)
        expected = [[1.0, np.exp(-1.5)], [0.0, 0.5 * np.exp(-1.5)]]
        np.testing.assert_allclose(slope, expected, rtol=1e-7, atol=1e-12)


def test_a_mass_matrix_has_derivatives_by_steps_and_adjoint() -> None:
    def end_of(weight: Any, derivative: str) -> Any:
        mass = fnp.stack([fnp.stack([weight, 0.5]), fnp.stack([0.0, 1.0])])
        options: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9, "derivative": derivative}
        return solve_ivp(
            lambda t, y: -y, (0.0, 1.0), [1.0, 2.0], "Rodas5P", [1.0], mass=mass, **options
        ).y[0, -1]

    step, run = 1e-4, fg.jit(end_of, static_argnums=1)
    difference = (run(2.0 + step, "steps") - run(2.0 - step, "steps")) / (2.0 * step)
    for derivative in ("steps", "adjoint"):
        value = fg.jit(fg.grad(end_of), static_argnums=1)(2.0, derivative)
        np.testing.assert_allclose(value, difference, rtol=1e-6)


def slope_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The derivative in a number, pushed forward."""
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


@every_method
def test_events_of_implicit_methods(method: str) -> None:
    singular = method != "Kvaerno5"

    def half(rate: Any, **options: Any) -> Any:
        mass = np.diag([1.0, 0.0]) if singular else None
        f = algebraic if singular else lambda t, y, _: -(1.0 + rate) * y  # closes over it
        event = fg.integrate.Event(lambda t, y, rate: y[0] - 0.5, terminal=True)
        options = {"mass": mass, "args": (rate,), "rtol": 1e-8, "atol": 1e-8, **options}
        sol = solve_ivp(f, (0.0, 9.0), fnp.stack([1.0, rate]), method, events=event, **options)
        return fnp.stack([sol.t_events[0][0], sol.y_events[0][0, 1] if singular else rate / 2.0])

    def known(rate: Any) -> Any:
        return fnp.stack([np.log(2.0) / (1.0 + rate), 0.5 * rate])

    def f(rate: Any, derivative: str) -> Any:
        return half(rate, t_eval=[], derivative=derivative)

    batch = fg.jit(fg.vmap(lambda rate: f(rate, "steps")))(np.array([0.5, 3.0]))
    np.testing.assert_allclose(batch, fg.vmap(known)(np.array([0.5, 3.0])), rtol=1e-5)
    np.testing.assert_allclose(half(0.5), known(0.5), rtol=1e-5)
    slope = slope_of(known)(0.5)
    for derivative in ("steps", "adjoint"):
        reverse = fg.grad(lambda rate, derivative: WEIGHTS @ f(rate, derivative))
        pulled = fg.jit(reverse, static_argnums=1)(0.5, derivative)
        np.testing.assert_allclose(pulled, WEIGHTS @ slope, rtol=1e-4)
    if method in ("Radau", "BDF"):
        pushed = fg.jit(slope_of(lambda rate: f(rate, "adjoint")))(0.5)
    else:
        pushing = slope_of(lambda rate: f(rate, "steps"))
        pushed, second = fg.jit(lambda rate: fg.jvp(pushing, (rate,), (1.0,)))(0.5)
        np.testing.assert_allclose(second[0], slope_of(slope_of(known))(0.5)[0], rtol=1e-2)
    np.testing.assert_allclose(pushed, slope, rtol=1e-4)


@every_method
def test_examples_of_a_batch_do_not_depend_on_each_other(method: str) -> None:
    def solution(rate: Any) -> Any:
        def f(t: Any, y: Any) -> Any:
            return rate * robertson(t, y)

        return solve_ivp(f, (0, 40), [1.0, 0.0, 0.0], method, [1.0, 40.0], rtol=1e-5, atol=1e-9).y

    rates = np.linspace(0.3, 2.0, 11)
    batch = fg.jit(fg.vmap(solution))
    together = np.asarray(batch(rates))
    order = np.random.default_rng(3).permutation(11)
    np.testing.assert_array_equal(batch(rates[order]), together[order])
    single = fg.jit(solution)
    apart = [np.asarray(single(rate)) for rate in rates]
    np.testing.assert_allclose(together, apart, rtol=1e-8)
    np.testing.assert_allclose(fg.vmap(solution)(rates[:2]), together[:2], rtol=1e-8)

"""Stochastic differential equations: orders, closed paths, derivatives, batches and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.stats

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError, TreeError
from funcgrad.integrate import solve_sde
from tests.together import together

KEY = fg.random.key(1)
METHODS = ("euler", "milstein", "srk", "heun")
STRONG = {"euler": 0.5, "milstein": 1.0, "srk": 1.5, "heun": 1.0}


class Problem(NamedTuple):
    """An equation with a closed solution on the path: its last value from W at time 1."""

    drift: Callable[..., Any]
    stratonovich: Callable[..., Any]
    diffusion: Callable[..., Any]
    end: Callable[[Any], Any]


PROBLEMS = {
    "growth": Problem(
        lambda t, y: 0.5 * y,
        lambda t, y: (0.5 - 0.5 * 0.8**2) * y,
        lambda t, y: 0.8 * y,
        lambda w: np.exp(0.5 - 0.32 + 0.8 * w),
    ),
    # y = sinh(t + W): Kloeden and Platen, section 4.4.
    "sinh": Problem(
        lambda t, y: 0.5 * y + fnp.sqrt(1.0 + y * y),
        lambda t, y: fnp.sqrt(1.0 + y * y),
        lambda t, y: fnp.sqrt(1.0 + y * y),
        lambda w: np.sinh(1.0 + np.arcsinh(1.0) + w),
    ),
}


def errors(problem: Problem, method: str, steps: int, count: int) -> np.ndarray[Any, Any]:
    """The errors of the last value, on the same paths whatever the steps."""
    drift = problem.stratonovich if method == "heun" else problem.drift

    def last(key: Any) -> Any:
        span = (0.0, 1.0)
        ends = solve_sde(
            drift, problem.diffusion, span, 1.0, key, method, steps=steps, t_eval=[1.0]
        )
        return ends.y[-1], ends.w[-1]

    y, w = fg.vmap(last)(fg.random.split(fg.random.key(3), count))
    return np.asarray(y) - problem.end(np.asarray(w))


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_strong_orders(name: str, method: str) -> None:
    sizes = np.array([16, 32, 64])
    means = [np.median(abs(errors(PROBLEMS[name], method, n, 400))) for n in sizes]
    order = -np.polyfit(np.log(sizes), np.log(means), 1)[0]
    assert abs(order - STRONG[method]) < 0.2, (order, means)


@pytest.mark.parametrize("method", METHODS)
def test_weak_orders(method: str) -> None:
    """The bias of the mean, where little noise leaves it visible: at least order 1."""
    calm = Problem(
        lambda t, y: 1.5 * y,
        lambda t, y: (1.5 - 0.005) * y,
        lambda t, y: 0.1 * y,
        lambda w: np.exp(1.5 - 0.005 + 0.1 * w),
    )
    sizes = np.array([4, 8, 16])
    biases = [abs(errors(calm, method, n, 1000).mean()) for n in sizes]
    order = -np.polyfit(np.log(sizes), np.log(biases), 1)[0]
    assert order > (1.7 if method in ("srk", "heun") else 0.8), (order, biases)


@pytest.mark.parametrize("method", METHODS)
def test_the_process_of_ornstein_and_uhlenbeck(method: str) -> None:
    """By parts, y(1) = exp(-a) y0 + s (W(1) - a ∫ exp(-a (1 - t)) W dt): by a fine path."""
    rate, size, fine = 2.0, 0.7, np.arange(2**12 + 1) / 2**12

    def both(key: Any) -> Any:
        solution = solve_sde(
            lambda t, y: -rate * y, lambda t, y: size, (0.0, 1.0), 0.4, key, method, steps=64
        )
        path = fg.random.brownian(key, fine)
        inner = fg.numpy.trapezoid(fnp.exp(-rate * (1.0 - fine)) * path, fine)
        return solution.y[-1], np.exp(-rate) * 0.4 + size * (path[-1] - rate * inner)

    found, exact = fg.vmap(both)(fg.random.split(KEY, 20))
    tolerance = 1e-3 if method == "srk" else 2e-2
    np.testing.assert_allclose(found, exact, atol=tolerance)


def test_the_path_of_a_solution_is_that_of_the_key() -> None:
    solution = solve_sde(lambda t, y: 0.0, lambda t, y: 1.0, (1.0, 3.0), 0.0, KEY, steps=12)
    path = fg.random.brownian(KEY, solution.t, t0=1.0, t1=3.0)
    np.testing.assert_allclose(solution.w, path, atol=1e-8)  # the times are rounded
    np.testing.assert_allclose(solution.y, path, atol=1e-8)
    finer = solve_sde(lambda t, y: 0.0, lambda t, y: 1.0, (1.0, 3.0), 0.0, KEY, steps=36)
    np.testing.assert_array_equal(finer.w[::3], solution.w)


# ------------------------------------------------------------------------------------- derivatives


def test_greeks_of_black_and_scholes() -> None:
    """Delta and vega of a call: the mean of pathwise gradients against the closed formulas."""
    strike, rate, maturity, count = 105.0, 0.03, 1.0, 4000

    def payoff(spot: Any, volatility: Any, key: Any) -> Any:
        stock = solve_sde(
            lambda t, s: rate * s,
            lambda t, s: volatility * s,
            (0.0, maturity),
            spot,
            key,
            "srk",
            steps=8,
            t_eval=[maturity],
        )
        return np.exp(-rate * maturity) * fnp.maximum(stock.y[-1] - strike, 0.0)

    keys = fg.random.split(fg.random.key(8), count)
    spot, volatility = 100.0, 0.2
    greeks = fg.jit(fg.vmap(fg.value_and_grad(payoff, argnums=(0, 1)), in_axes=(None, None, 0)))
    price, (delta, vega) = greeks(spot, volatility, keys)
    d1 = (np.log(spot / strike) + rate + volatility**2 / 2) / volatility
    normal = scipy.stats.norm
    exact = (
        spot * normal.cdf(d1) - strike * np.exp(-rate) * normal.cdf(d1 - volatility),
        normal.cdf(d1),
        spot * normal.pdf(d1),
    )
    for samples, value in zip((price, delta, vega), exact, strict=True):
        deviation = float(np.asarray(samples).std()) / np.sqrt(count)
        assert abs(float(samples.mean()) - value) < 4.0 * deviation + 1e-3 * value


def forced(t: Any, y: Any, rate: Any) -> Any:
    return {"x": -rate * y["x"], "v": fnp.sin(y["v"]) + t}


def shaken(t: Any, y: Any, rate: Any) -> Any:
    return {"x": 0.3 * rate * y["x"] ** 2, "v": 0.2 * y["v"]}


@together("method", METHODS, quick=2)
def test_derivatives_of_every_order_and_mode(method: str) -> None:
    start = {"x": np.array([1.0, 0.5]), "v": np.array(0.5)}

    def end(rate: Any, **options: Any) -> Any:
        solution = solve_sde(
            forced, shaken, (0.0, 1.0), start, KEY, method, args=(rate,), **options
        )
        return solution.y["x"][:, -1].sum() + solution.y["v"][-1] ** 2

    for options in ({"steps": 4}, {"steps": 3, "t_eval": [0.3, 0.55]}):

        def f(rate: Any, options: Any = options) -> Any:
            return end(rate, **options)

        step = 1e-4
        values = [float(f(0.7 + k * step)) for k in (-1, 0, 1)]
        first = (values[2] - values[0]) / (2 * step)
        second = (values[2] - 2 * values[1] + values[0]) / step**2
        np.testing.assert_allclose(fg.grad(f)(0.7), first, rtol=1e-6)
        np.testing.assert_allclose(fg.jvp(f, (0.7,), (1.0,))[1], first, rtol=1e-6)
        np.testing.assert_allclose(fg.grad(fg.grad(f))(0.7), second, rtol=1e-5, atol=1e-6)


def test_derivatives_with_respect_to_the_interval() -> None:
    def end(last: Any) -> Any:
        return solve_sde(
            lambda t, y: -y + t, lambda t, y: 0.3 * y, (0.0, last), 1.0, KEY, "srk", steps=4
        ).y[-1]

    difference = (end(1.5 + 1e-5) - end(1.5 - 1e-5)) / 2e-5
    np.testing.assert_allclose(fg.grad(end)(1.5), difference, rtol=1e-7)


# --------------------------------------------------------------------------------- inputs, outputs


def test_trees_batches_and_programs() -> None:
    start = {"x": np.ones(2, np.float32), "v": np.float32(0.5)}

    def solve(key: Any) -> Any:
        return solve_sde(forced, shaken, (0, 1), start, key, "srk", args=0.7, steps=6)

    solution = solve(KEY)
    assert solution.y["x"].shape == (2, 7)
    assert solution.w["v"].shape == (7,)
    assert {leaf.dtype for leaf in fg.tree.leaves(solution)} == {np.dtype(np.float32)}
    assert bool(solution.success)
    keys = fg.random.split(KEY, 3)
    batch = fg.vmap(solve)(keys)
    loop = [solve(key) for key in keys]
    np.testing.assert_allclose(batch.y["x"], np.stack([one.y["x"] for one in loop]), rtol=2e-6)
    staged = fg.jit(solve)
    np.testing.assert_allclose(staged(KEY).y["x"], solution.y["x"], rtol=2e-6)


def test_machine_code_calls_nothing_back() -> None:
    pytest.importorskip("llvmlite")

    def solve(key: Any) -> Any:
        return solve_sde(forced_line, one, (0, 1), 1.0, key, "srk", steps=6, t_eval=[0.1, 1.0]).y

    source = fg.jit(fg.vmap(solve), backend="native").lower(fg.random.split(KEY, 3)).source
    assert "; called back: nothing" in source


def test_scalar_and_general_noise() -> None:
    """One motion for all; the same equation by a matrix of several motions."""
    spread = np.array([[0.1, 0.2], [0.3, 0.1]])

    def matrix(t: Any, y: Any) -> Any:
        return spread * y[:, None]

    one = solve_sde(
        lambda t, y: -y, lambda t, y: 0.3 * y, (0, 1), np.ones(2), KEY, steps=5, noise="scalar"
    )
    assert one.w.shape == (6,)
    np.testing.assert_array_equal(one.y[0], one.y[1])
    many = solve_sde(lambda t, y: -y, matrix, (0, 1), np.ones(2), KEY, steps=5, noise="general")
    assert many.w.shape == (2, 6)
    y = np.ones(2)
    for change in np.diff(many.w).T:
        y = y - 0.2 * y + (spread * y[:, None]) @ change
    np.testing.assert_allclose(many.y[:, -1], y, rtol=1e-12)


def test_times_at_the_ends_of_steps_and_within() -> None:
    def at(times: Any) -> Any:
        return solve_sde(
            lambda t, y: -y, lambda t, y: 0.3 * y, (0.0, 1.0), 1.0, KEY, "milstein", steps=6,
            t_eval=times,
        ).y  # fmt: skip

    full = at(None)
    np.testing.assert_array_equal(at([1.0]), full[6:])
    np.testing.assert_array_equal(at([0.5, 1.0]), full[3::3])
    np.testing.assert_array_equal(at([0.0, 0.5, 1.0]), full[::3])
    np.testing.assert_array_equal(at([1.0, 0.0, 0.5, 0.5]), full[fg.tensor([6, 0, 3, 3])])
    np.testing.assert_array_equal(at([0.0]), [1.0])
    assert at(np.zeros(0)).shape == (0,)
    times = [0.0, 0.1, 0.5, 0.51, 1.0]
    within = at(times)
    np.testing.assert_array_equal(within[[0, 2, 4]], full[::3])
    np.testing.assert_allclose(fg.jit(at)(fg.tensor(times)), within, rtol=1e-13)
    path = fg.random.brownian(KEY, times)
    h, w = 0.51 - 0.5, path[3] - path[2]
    step = full[3] * (1 - h + 0.3 * w + 0.5 * 0.09 * (w * w - h))
    np.testing.assert_allclose(within[3], step, rtol=1e-13)
    assert np.isnan(fg.jit(at)(fg.tensor([2.0, 0.5]))[0])


def test_a_size_of_steps_gives_their_number() -> None:
    def count(step: float) -> int:
        return len(solve_sde(forced_line, one, (0.0, 1.0), 1.0, KEY, step=step).t) - 1

    assert [count(step) for step in (0.1, 0.25, 0.3, 5.0)] == [16, 4, 4, 1]  # powers of two


def forced_line(t: Any, y: Any) -> Any:
    return t - y


def one(t: Any, y: Any) -> Any:
    return fnp.ones_like(y)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"method": "rk4"}, ArgumentError, "method has to be one of 'euler', 'heun', 'milstein'"),
    ({"noise": "matrix"}, ArgumentError, "noise has to be one of"),
    ({"noise": "general", "method": "srk"}, ArgumentError, "needs diagonal or scalar noise"),
    ({"t_span": (1.0, 0.0)}, ArgumentError, "t_span has to be finite and ascending"),
    ({"t_span": 3.0}, ArgumentError, "t_span has to be a pair"),
    ({"steps": None}, ArgumentError, "either steps=, their number, or step="),
    ({"step": 0.1}, ArgumentError, "either steps="),
    ({"steps": 0}, ArgumentError, "steps has to be a positive integer"),
    ({"steps": 10**5}, ArgumentError, "at most 65536 steps"),
    ({"steps": None, "step": -0.1}, ArgumentError, "step has to be a positive number"),
    ({"t_eval": [0.5, 2.0]}, ArgumentError, "t_eval has times outside of t_span"),
    ({"t_eval": 0.5}, ShapeError, "t_eval has to be a vector"),
    ({"t_eval": [0.5j]}, DtypeError, "t_eval has to be a vector of real times"),
    ({"y0": 1j}, DtypeError, "y0 has to be real, got complex128"),
    ({"y0": np.ones(2), "diffusion": lambda t, y: 0.3}, ShapeError, r"ones\(\(2,\)\)"),
    ({"y0": np.ones(2), "diffusion": lambda t, y: np.eye(2)}, ShapeError, "noise='general'"),
    ({"drift": lambda t, y: (y, y)}, TreeError, "The drift has to return a tree like y0"),
    ({"drift": lambda t, y: np.float64(1) * y, "y0": np.float32(1)}, DtypeError, "astype"),
    ({"noise": "general"}, ShapeError, "last axis is the m Brownian motions"),
    ({"drift": 3.0}, FunctionError, "expected a function"),
    ({"key": 3.0}, DtypeError, "solve_sde: .*key"),
]


@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_errors_say_what_is_wrong(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    options: dict[str, Any] = {
        "drift": forced_line, "diffusion": one, "t_span": (0.0, 1.0), "y0": 1.0, "key": KEY,
        "steps": 4,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        solve_sde(**{**options, **change})

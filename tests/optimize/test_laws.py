"""Laws of solvers: a batch is a loop, modes agree, implicit derivatives are those of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from tests.together import together

T = np.linspace(0.0, 2.0, 12)


def fit(a: Any, start: float = 1.0, **options: Any) -> Any:
    data = fnp.exp(-a * T) + 0.05 * np.sin(9.0 * T)
    return optimize.least_squares(
        lambda p, y: p[0] * fnp.exp(-p[1] * T) - y,
        [start, 1.0],
        args=(data,),
        xtol=1e-13,
        **options,
    )


def held_fit(a: Any, **options: Any) -> Any:
    return fit(a, start=0.5, bounds=(None, [0.9 * a, 9.0]), **options)


def boxed_fit(a: Any, **options: Any) -> Any:
    return fit(a, start=0.5, bounds=(None, [0.9 * a, 9.0]), method="dogbox", **options)


def robust_fit(a: Any, **options: Any) -> Any:
    return fit(a, loss="soft_l1", f_scale=0.05, **options)


def crossing(a: Any, method: str = "hybr", **options: Any) -> Any:
    def f(x: Any, a: Any) -> Any:
        cubic = 0.5 * (x["u"] - x["v"]) ** 3
        return {"u": x["u"] + cubic - a, "v": x["v"] - cubic}

    start = {"u": 0.0, "v": 0.0}
    return optimize.root(f, start, args=(a,), method=method, xtol=1e-13, **options)


def anomaly(a: Any, method: str = "brentq", **options: Any) -> Any:
    points: dict[str, Any] = {"bracket": (0.0, 4.0)}
    if method in ("newton", "halley", "secant"):
        points = {"x0": 1.0}
    return optimize.root_scalar(
        lambda x: x - 0.5 * fnp.sin(x) - a, method=method, xtol=1e-14, **points, **options
    )


def valley(a: Any, method: str = "bfgs", **options: Any) -> Any:
    def f(x: Any, a: Any) -> Any:
        return (x[0] - a) ** 2 + 2.0 * (x[1] - x[0] ** 2) ** 2 + 0.1 * x[1]

    return optimize.minimize(f, [0.0, 0.5], a, method, tol=1e-9, **options)


def bounded_valley(a: Any, **options: Any) -> Any:
    return valley(a, method="trust-exact", bounds=(None, fnp.stack([a + 5.0, 0.5 * a])), **options)


def on_circle(a: Any, **options: Any) -> Any:
    circle = {"type": "eq", "fun": lambda x, r: x @ x - r**2, "args": (a,)}
    return valley(a, method="trust-exact", constraints=circle, **options)


def lowest(a: Any, **options: Any) -> Any:
    return optimize.minimize_scalar(lambda x: fnp.cosh(x - a) + 0.1 * a * x, (-5.0, 5.0), **options)


def rested(a: Any, **options: Any) -> Any:
    return optimize.fixed_point(lambda x: fnp.cos(a * x), 0.7, xtol=1e-14, **options)


SOLVES: dict[str, Callable[..., Any]] = {
    "fit": fit,
    "fit at a bound": held_fit,
    "fit by dogbox": boxed_fit,
    "robust fit": robust_fit,
    **{
        f"root by {method}": lambda a, m=method, **options: crossing(a, m, **options)
        for method in ("hybr", "newton", "broyden1", "krylov")
    },
    **{
        f"scalar root by {method}": lambda a, m=method, **options: anomaly(a, m, **options)
        for method in ("bisect", "brentq", "itp", "newton", "halley", "secant")
    },
    **{
        f"minimum by {method}": lambda a, m=method, **options: valley(a, m, **options)
        for method in ("bfgs", "l-bfgs", "newton-cg", "trust-exact")
    },
    "minimum at a bound": bounded_valley,
    "minimum on a circle": on_circle,
    "scalar minimum": lowest,
    "fixed point": rested,
}


OF_EACH_RULE = (
    "fit",
    "fit at a bound",
    "robust fit",
    "root by hybr",
    "scalar root by brentq",
    "scalar root by newton",
    "minimum by bfgs",
    "minimum at a bound",
    "minimum on a circle",
    "scalar minimum",
    "fixed point",
)
"""A solver for each rule of derivatives."""


def number(solve: Callable[..., Any], **options: Any) -> Callable[[Any], Any]:
    """One number that depends on the whole solution."""

    def f(a: Any) -> Any:
        leaves = fg.tree.leaves(solve(a, **options).x)
        parts = [fnp.ravel(leaf) for leaf in leaves]
        return fnp.sum(fnp.sin(fnp.concatenate(parts)) * np.arange(1.0, 1.0 + sum(map(len, parts))))

    return f


@together("name", [*OF_EACH_RULE, *sorted({*SOLVES} - {*OF_EACH_RULE})], quick=len(OF_EACH_RULE))
def test_derivatives_are_differences(name: str) -> None:
    f = number(SOLVES[name])
    at, h = 1.1, 1e-4
    expected = (float(f(at + h)) - float(f(at - h))) / (2.0 * h)
    assert float(fg.grad(f)(at)) == pytest.approx(expected, rel=1e-5)
    assert float(fg.jvp(f, (at,), (1.0,))[1]) == pytest.approx(expected, rel=1e-5)
    slope = fg.grad(f)
    second = (float(slope(at + h)) - float(slope(at - h))) / (2.0 * h)
    assert float(fg.hessian(f)(at)) == pytest.approx(second, rel=1e-4, abs=1e-7)


QUICK = ("fit", "root by hybr", "minimum by bfgs")
STAGED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SOLVES]


@pytest.mark.parametrize("name", STAGED)
def test_staged_is_eager(name: str) -> None:
    f = number(SOLVES[name])
    assert float(fg.jit(f)(1.1)) == pytest.approx(float(f(1.1)), rel=1e-9)
    assert float(fg.jit(fg.grad(f))(1.1)) == pytest.approx(float(fg.grad(f)(1.1)), rel=1e-7)


@pytest.mark.parametrize("name", STAGED)
def test_a_batch_is_a_loop(name: str) -> None:
    f = number(SOLVES[name])
    batch = np.array([0.8, 1.1, 1.3])
    loop = [float(f(a)) for a in batch]
    np.testing.assert_allclose(fg.vmap(f)(batch), loop, rtol=1e-8)
    staged = fg.jit(fg.vmap(f))
    np.testing.assert_allclose(staged(batch), loop, rtol=1e-8)
    np.testing.assert_array_equal(staged(batch[::-1].copy()), np.asarray(staged(batch))[::-1])
    slopes = [float(fg.grad(f)(a)) for a in batch]
    np.testing.assert_allclose(fg.jit(fg.vmap(fg.grad(f)))(batch), slopes, rtol=1e-6)


@pytest.mark.parametrize(
    "name",
    ["fit", "root by hybr", "root by newton", "scalar root by newton", "minimum by trust-exact"],
)
def test_implicit_derivatives_are_those_of_steps(name: str) -> None:
    implicit, steps = number(SOLVES[name]), number(SOLVES[name], derivative="steps")
    expected = float(fg.grad(implicit)(1.1))
    assert float(fg.jvp(steps, (1.1,), (1.0,))[1]) == pytest.approx(expected, rel=1e-5)
    assert float(fg.grad(steps)(1.1)) == pytest.approx(expected, rel=1e-5)


def test_float32() -> None:
    two = fnp.asarray(2.0, dtype=np.float32)
    fitted = optimize.least_squares(lambda x: 1.1 * x - two, fnp.ones(1, np.float32))
    root = optimize.root_scalar(lambda x: x**2 - 2.0, bracket=(np.float32(0.0), np.float32(2.0)))
    system = optimize.root(lambda x: x**2 - two, fnp.ones(3, np.float32))
    least = optimize.minimize(lambda x: fnp.sum((x - 2.0) ** 2), fnp.ones(2, np.float32))
    for found, expected in ((fitted, 2.0 / 1.1), (root, 2**0.5), (system, 2**0.5), (least, 2.0)):
        assert found.x.dtype == np.float32
        np.testing.assert_allclose(found.x, expected, rtol=1e-4)


def test_multipliers_are_the_price_of_a_limit() -> None:
    def least(limit: Any) -> Any:
        budget = {"type": "ineq", "fun": lambda x, b: b - x[0] - x[1], "args": (limit,)}
        return optimize.minimize(
            lambda x: (x[0] - 2.0) ** 2 + (x[1] - 1.0) ** 2 + x[0] * x[1],
            [0.0, 0.0],
            method="trust-exact",
            constraints=budget,
        )

    found = least(1.0)
    price = float(fg.grad(lambda limit: least(limit).fun)(1.0))
    assert price == pytest.approx(float(found.multipliers[0][0]), rel=1e-6)
    assert price < 0.0
    free = least(50.0)
    assert float(free.multipliers[0][0]) == 0.0
    assert float(fg.grad(lambda limit: least(limit).fun)(50.0)) == 0.0
    assert np.isfinite(float(fg.grad(lambda limit: least(limit).multipliers[0][0])(1.0)))


def test_one_example_that_fails_stops_no_other() -> None:
    def root(a: Any) -> Any:
        return optimize.root_scalar(lambda x: x**2 - a, bracket=(0.0, 2.0))

    for batched in (fg.vmap(root), fg.jit(fg.vmap(root))):
        found = batched(fg.tensor([2.0, -1.0, 9.0, 1.0]))
        np.testing.assert_allclose(found.x, [2.0**0.5, np.nan, np.nan, 1.0])
        assert found.success.tolist() == [True, False, False, True]
        assert found.message[1] == "The function has the same sign at both ends of the bracket."
    slopes = fg.vmap(fg.grad(lambda a: root(a).x))(fg.tensor([2.0, -1.0]))
    np.testing.assert_allclose(slopes, [0.5 / 2.0**0.5, np.nan])


def test_ties_zeros_and_empty_unknowns() -> None:
    def bounded(b: Any) -> Any:
        return optimize.minimize(lambda x: (x - 2.0) ** 2, 1.0, bounds=(None, b)).x

    assert float(fg.grad(bounded)(1.5)) == 1.0
    assert float(fg.grad(bounded)(2.0)) == 0.0  # at a tie the bound does not count
    assert float(fg.jvp(bounded, (2.0,), (1.0,))[1]) == 0.0
    np.testing.assert_array_equal(fg.vmap(fg.grad(bounded))(np.array([1.5, 2.0, 3.0])), [1, 0, 0])
    assert float(fg.grad(fg.grad(bounded))(1.5)) == 0.0

    def fixed(b: Any) -> Any:  # between equal bounds x follows both, whatever the slope
        return optimize.minimize(lambda x: (x - 1.0) ** 2, 1.0, bounds=(b, b)).x

    assert float(fg.grad(fixed)(1.0)) == 1.0

    def equal(r: Any) -> Any:  # the multiplier of the equation is 0
        same = {"type": "eq", "fun": lambda x, r: x - r, "args": (r,)}
        return optimize.minimize(lambda x: x**2, 1.0, method="trust-exact", constraints=same).x

    assert float(fg.grad(equal)(0.0)) == pytest.approx(1.0)
    assert float(fg.jvp(equal, (0.0,), (1.0,))[1]) == pytest.approx(1.0)
    cube = lambda a: optimize.root_scalar(lambda x: x**3 - a, bracket=(-1.0, 1.0)).x  # noqa: E731
    assert float(fg.grad(cube)(0.0)) == np.inf
    with pytest.raises(fg.errors.MatrixError, match="singular"):
        fg.grad(lambda a: optimize.minimize(lambda x: (x - a) ** 4, 0.0).x)(1.0)
    for method in ("bfgs", "l-bfgs", "newton-cg", "trust-exact", "nelder-mead"):
        assert optimize.minimize(fnp.sum, np.zeros(0), method=method).x.shape == (0,)
    assert optimize.root(lambda x: x, np.zeros(0)).x.shape == (0,)
    assert optimize.least_squares(lambda x: x[:0], np.ones(2)).success

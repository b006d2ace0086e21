"""Fits, minima and roots of the collection of Moré, Garbow and Hillstrom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from tests.optimize.more_garbow_hillstrom import MORE_SYSTEMS, SQUARE_SUMS
from tests.optimize.problems import RESIDUALS

SOME = (9,)
NUMBERS = [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in SQUARE_SUMS]


def close(value: float, levels: tuple[float, ...]) -> bool:
    return any(value == pytest.approx(level, rel=2e-5, abs=1e-12) for level in levels)


def test_the_collection_is_whole() -> None:
    assert len(SQUARE_SUMS) + len(RESIDUALS) == 35


@pytest.mark.parametrize("number", NUMBERS)
def test_least_squares_reaches_the_known_sum(number: int) -> None:
    problem = SQUARE_SUMS[number]
    start = np.array(problem.start, float)
    close_enough: dict[str, Any] = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
    found, boxed = (
        optimize.least_squares(problem.fun, start, method=method, max_nfev=3000, **close_enough)
        for method in ("lm", "dogbox")
    )
    assert close(2.0 * float(found.cost), problem.least)
    assert close(2.0 * float(boxed.cost), problem.least)
    best = np.asarray(found.x)
    if number not in (33, 34):  # the minimum is one point
        low = best + 0.05 * (1.0 + np.abs(best)) * np.where(np.arange(len(best)) == 0, 1.0, -np.inf)
        begin = np.maximum(best, low)
        fits = [
            optimize.least_squares(
                problem.fun, begin, bounds=(low, None), method=method, max_nfev=3000, **close_enough
            )
            for method in ("lm", "dogbox")
        ]
        costs = [float(fit.cost) for fit in fits]
        assert costs[0] == pytest.approx(costs[1], rel=1e-5, abs=1e-12)
        assert float(fits[0].x[0]) == low[0] or costs[0] <= float(found.cost) * (1.0 + 1e-6)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.slow
def test_minimize_reaches_the_known_sum(number: int) -> None:
    problem = SQUARE_SUMS[number]
    start = np.array(problem.start, float)
    for method in ("bfgs", "trust-exact"):
        found = fg.jit(
            lambda x, m=method: optimize.minimize(
                lambda p: fnp.sum(problem.fun(p) ** 2), x, method=m, failed="keep", maxiter=5000
            )
        )(start)
        value = float(found.fun)
        assert any(value <= level * 1.001 + 1e-7 for level in problem.least), (method, value)


@pytest.mark.parametrize(
    "name", [n if n == "banded" else pytest.param(n, marks=pytest.mark.slow) for n in MORE_SYSTEMS]
)
@pytest.mark.parametrize(
    "method", ["hybr", *[pytest.param(m, marks=pytest.mark.slow) for m in ("newton", "krylov")]]
)
def test_root_solves_the_system(name: str, method: str) -> None:
    fun, start = MORE_SYSTEMS[name]
    found = optimize.root(fun, np.array(start, float), method=method, maxiter=1000)
    assert np.abs(np.asarray(found.fun)).max() < 1e-6

"""Constrained minima reach the known values, with multipliers that satisfy Karush, Kuhn, Tucker."""

from __future__ import annotations

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import optimize
from tests.optimize.hock_schittkowski import PROGRAMS

OTHER_MINIMA = {2: 4.94122932, 16: 23.1446610, 20: 40.1987298, 33: -4.0}
"""Local minima to which a descent from the start may lead."""

SOME = (5, 14)
NUMBERS = [n if n in SOME else pytest.param(n, marks=pytest.mark.slow) for n in PROGRAMS]


@pytest.mark.parametrize("method", ["bfgs", "trust-exact"])
@pytest.mark.parametrize("number", NUMBERS)
def test_minima_under_constraints(number: int, method: str) -> None:
    program = PROGRAMS[number]
    constraints = program.constraints()
    found = optimize.minimize(
        program.fun, program.start, method=method, bounds=program.bounds, constraints=constraints
    )
    levels = [program.least, OTHER_MINIMA.get(number, program.least)]
    assert min(abs(float(found.fun) - level) / max(1.0, abs(level)) for level in levels) < 1e-6
    x, slope = np.asarray(found.x), np.array(found.jac)
    size = 1.0 + np.abs(slope).max()
    for constraint, multipliers in zip(constraints, found.multipliers, strict=True):
        values, prices = np.asarray(constraint["fun"](x)), np.asarray(multipliers)
        if constraint["type"] == "eq":
            assert np.abs(values).max() < 1e-6
        else:
            assert values.min() > -1e-6
            assert prices.max() <= 0.0
            assert np.abs(prices * values).max() < 1e-5 * size
        slope += np.asarray(fg.vjp(constraint["fun"], found.x)[1](multipliers)[0])
    if program.bounds is not None:
        low, high = (
            np.broadcast_to(np.inf * sign if end is None else np.asarray(end, float), x.shape)
            for sign, end in zip((-1.0, 1.0), program.bounds, strict=True)
        )
        assert np.all((low <= x) & (x <= high))
        slope = np.where((x <= low) & (slope > 0) | (x >= high) & (slope < 0), 0.0, slope)
    assert np.abs(slope).max() < 1e-5 * size

"""Fits reach the certified parameters of NIST, from both starts, at least as SciPy's do.

    python -m pytest tests/optimize/test_strd.py -s

prints how many digits of the worst parameter are right, and the numbers of evaluations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from tests.optimize.strd import certified_fits, right_digits

scipy_optimize = pytest.importorskip("scipy.optimize")

FITS = certified_fits()
WANTED = 6.5
"""How many digits are compared: the sum of squares determines about half of them."""

SOME = ("Misra1a",)
NAMES = [name if name in SOME else pytest.param(name, marks=pytest.mark.slow) for name in FITS]


@pytest.mark.parametrize("name", NAMES)
def test_fits_reach_the_certified_digits(name: str) -> None:
    residuals, starts, parameters, _, squares = FITS[name]
    tolerances: dict[str, Any] = {"xtol": 1e-15, "ftol": 1e-15, "max_nfev": 20_000}
    solve = fg.jit(
        lambda x: optimize.least_squares(residuals, x, failed="keep", gtol=0.0, **tolerances)
    )
    fast, jacobian = fg.jit(residuals), fg.jit(fg.jacfwd(residuals))
    for place, start in enumerate(starts, 1):
        fit = solve(start)
        with np.errstate(all="ignore"):
            reference = scipy_optimize.least_squares(
                lambda b: np.asarray(fast(b)),
                start,
                lambda b: np.asarray(jacobian(b)),
                method="lm",
                x_scale="jac",
                gtol=1e-15,
                **tolerances,
            )
        digits, theirs = right_digits(fit.x, parameters), right_digits(reference.x, parameters)
        print(
            f"{name:9s} start {place}: {digits:5.1f} digits, {int(fit.nfev):5d} evaluations;"
            f" SciPy {theirs:5.1f}, {reference.nfev:5d}"
        )
        assert digits >= min(theirs, WANTED)
        if digits >= WANTED:
            assert float(2.0 * fit.cost) == pytest.approx(squares, rel=1e-6, abs=1e-20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Misra1a", "Rat42", "DanWood"])
def test_standard_errors_are_certified(name: str) -> None:
    residuals, starts, parameters, deviations, _ = FITS[name]
    count = len(parameters)
    zeros = np.zeros_like(np.asarray(residuals(parameters)))
    popt, pcov = optimize.curve_fit(
        lambda _, *b: residuals(fnp.stack(b[:count])), zeros, zeros, starts[1], xtol=1e-12
    )
    np.testing.assert_allclose(popt, parameters, rtol=1e-7)
    np.testing.assert_allclose(np.sqrt(np.diagonal(pcov)), deviations, rtol=1e-6)


@pytest.mark.slow
def test_boxbod_from_far_needs_a_box() -> None:
    residuals, starts, parameters, _, _ = FITS["BoxBOD"]
    fit = optimize.least_squares(residuals, starts[0], method="dogbox", xtol=1e-15, ftol=1e-15)
    assert right_digits(fit.x, parameters) > WANTED  # where both "lm" end on a plateau

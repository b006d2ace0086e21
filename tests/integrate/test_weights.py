"""Integrals with weights: SciPy's values, closed forms, derivatives, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError
from funcgrad.integrate import quad

TIGHT: dict[str, Any] = {"epsabs": 1e-11, "epsrel": 1e-11}


@pytest.mark.parametrize(
    ("weight", "wvar", "ends"),
    [
        ("cos", 50.0, (0.2, 1.0)),
        ("sin", -300.0, (0.2, 3.0)),
        ("sin", 2.0, (1.0, np.inf)),
        ("cos", 0.7, (2.0, np.inf)),
        *[(f"alg{logs}", (-0.9, 0.3), (0.5, 2.0)) for logs in ("", "-loga", "-logb", "-log")],
        ("alg-log", (2.0, -0.5), (0.5, 2.0)),
        ("cauchy", 1.3, (1.0, 2.0)),
        ("cauchy", 1.5, (1.0, 2.0)),
    ],
)
def test_scipys_values(weight: str, wvar: Any, ends: tuple[float, float]) -> None:
    value, error = quad(lambda x: 1.0 / x, *ends, weight=weight, wvar=wvar)
    expected, _ = scipy.integrate.quad(lambda x: 1.0 / x, *ends, weight=weight, wvar=wvar)
    assert abs(float(value) - expected) <= max(float(error), 2e-8)


def test_a_wave_whose_integral_scipy_does_not_find() -> None:
    value, error = quad(lambda x: 1.0 / fnp.sqrt(x), 0.0, fnp.inf, weight="cos", wvar=3.0)
    assert abs(float(value) - np.sqrt(np.pi / 6.0)) <= float(error) + 1e-12


DEPENDENT: dict[str, Callable[[Any], Any]] = {
    "the angle": lambda w: quad(lambda x: 1 / x, 1.0, fnp.inf, weight="sin", wvar=2 + w, **TIGHT),
    "the start of a wave": lambda a: quad(
        lambda x: 1 / x, 1 + a, fnp.inf, weight="cos", wvar=2.0, **TIGHT
    ),
    "a pole": lambda c: quad(fnp.exp, -1.0, 2.0, weight="cauchy", wvar=c, **TIGHT),
    "an exponent": lambda p: quad(fnp.exp, 0.0, 2.0, weight="alg-log", wvar=(-p, p), **TIGHT),
    "a limit and a parameter": lambda b: quad(
        lambda x, k: fnp.exp(k * x), 0.0, 1 + b, args=(b,), weight="alg", wvar=(-0.5, 0.3), **TIGHT
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEPENDENT)
def test_derivatives(name: str) -> None:
    def value(p: Any) -> Any:
        return DEPENDENT[name](p)[0]

    fg.testing.check_grads(value, (0.35,), order=2, rtol=1e-5)
    both = fg.tensor([0.35, 0.45])
    compiled = fg.jit(fg.vmap(fg.grad(value)))(both)
    np.testing.assert_allclose(compiled, [fg.grad(value)(p) for p in both], rtol=1e-7)


def test_trees_and_derivatives_of_a_principal_value() -> None:
    def value(c: Any) -> Any:
        (first, more), _, report = quad(
            lambda x: (x, fnp.stack([x, x**2])), 0.0, 1.0, weight="cauchy", wvar=c, full_output=True
        )
        assert report["status"] == 1
        return first + more[1]

    # The principal values are 1 + c log((1 - c) / c) and 1/2 + c (1 + c log((1 - c) / c)).
    def closed(c: Any) -> Any:
        first = 1.0 + c * fnp.log((1.0 - c) / c)
        return first + 0.5 + c * first

    np.testing.assert_allclose(value(0.3), closed(0.3), rtol=1e-9)
    np.testing.assert_allclose(fg.grad(value)(0.3), fg.grad(closed)(0.3), rtol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "log", "wvar": 1.0}, "weight has to be one of"),
        ({"weight": "cos"}, "wvar has to be one number"),
        ({"weight": "alg", "wvar": 1.0}, "the two exponents"),
        ({"weight": "alg", "wvar": (-1.0, 0.0)}, "alpha has to be greater than -1"),
        ({"weight": "cauchy", "wvar": 5.0}, "needs a < wvar < b"),
        ({"weight": "sin", "wvar": 1.0, "points": [0.5]}, "points or a weight"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        quad(fnp.exp, 0.0, 1.0, **options)
    with pytest.raises(ArgumentError, match="needs finite limits"):
        partial(quad, fnp.exp, 0.0, fnp.inf)(weight="cauchy", wvar=1.0)
    with pytest.raises(ArgumentError, match="needs a < b"):
        quad(fnp.exp, 1.0, 0.0, weight="alg", wvar=(0.0, 0.0))

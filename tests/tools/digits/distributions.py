"""Distributions as subjects: functions of a value, shapes and a scale, or of a whole number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad.scipy import stats
from tests.tools.digits.drawing import level, positive
from tests.tools.digits.subjects import Point, Subject
from tests.tools.digits.twins import CONTINUOUS, DISCRETE, quantile_twin_of, twin_of

DENSITIES: Final = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf")
MASSES: Final = ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf")


def distributions() -> dict[str, Subject]:
    """Every method of every distribution of numbers."""
    found = {}
    for name in CONTINUOUS:
        for method in DENSITIES:
            function = _of_scale(getattr(getattr(stats, name), method))
            draw = partial(_value, name)
            found[f"stats.{name}.{method}"] = Subject(function, twin_of(name, method), draw)
        for method in ("ppf", "isf"):
            function = _of_scale(getattr(getattr(stats, name), method))
            twin = quantile_twin_of(name, method)
            found[f"stats.{name}.{method}"] = Subject(function, twin, partial(_level, name))
    for name in DISCRETE:
        for method in MASSES:
            function = getattr(getattr(stats, name), method)
            draw = partial(_whole_number, name, method.endswith("pmf"))
            found[f"stats.{name}.{method}"] = Subject(function, twin_of(name, method), draw, 1)
    return found


def _of_scale(method: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *parameters: method(x, *parameters[:-1], 0.0, parameters[-1])


def _parameters(name: str, rng: np.random.Generator, wide: bool) -> tuple[list[float], float]:
    shapes = [positive(rng, 6 if wide else 2) for _ in getattr(stats, name).shapes]
    if name in ("genextreme", "skewnorm"):
        shapes = [float(rng.choice([1, -1])) * shapes[0]]
    elif name == "truncnorm":
        shapes[0] *= float(rng.choice([1, -1]))
        shapes[1] += shapes[0]
    elif name == "wrapcauchy":
        shapes = [float(rng.random())]
    return shapes, positive(rng, 100 if wide else 3)


def _value(name: str, rng: np.random.Generator, wide: bool) -> Point:
    """A point in the support."""
    distribution = getattr(stats, name)
    shapes, scale = _parameters(name, rng, wide)
    if name in ("genextreme", "truncnorm", "vonmises", "wrapcauchy"):
        q = rng.uniform(0.01, 0.99)
        z = float(distribution.ppf(q, *shapes))
    elif np.isfinite(distribution.high):
        z = rng.random() if rng.random() < 0.5 else 10.0 ** -rng.uniform(1, 200 if wide else 12)
    else:
        z = distribution.low if np.isfinite(distribution.low) else 0.0
        z += positive(rng, 200 if wide else 2)
        z *= rng.choice([1, -1]) if np.isinf(distribution.low) else 1
    return float(z * scale), *shapes, scale


def _level(name: str, rng: np.random.Generator, wide: bool) -> Point:
    shapes, scale = _parameters(name, rng, wide)
    return level(rng, wide), *shapes, scale


def _whole_number(name: str, of_mass: bool, rng: np.random.Generator, _: bool) -> Point:
    """Some at both ends of the support; probabilities of less than all of them."""
    share = float(rng.choice([rng.random(), 10.0 ** -rng.uniform(1, 100)]))
    n = float(rng.integers(1, 40))
    greatest = n if of_mass else n - 1
    inner = float(rng.integers(0, int(greatest) + 1))
    k = float(rng.choice([0.0, min(1.0, greatest), greatest, inner]))
    return {
        "bernoulli": (min(k, 1.0) if of_mass else 0.0, share),
        "betabinom": (k, n, positive(rng, 2), positive(rng, 2)),
        "binom": (k, n, share),
        "geom": (k + 1, share),
        "nbinom": (k, positive(rng, 4), share),
        "poisson": (k, positive(rng, 100)),
    }[name]

"""A search for points at which first and second derivatives of distributions lose digits.

Points are drawn: values over the whole range, in the middle and in both tails, shapes and scales
likewise. A derivative may be off by ``TOLERANCE`` of itself, by as much as the value is, and by
what a rounding error of the arguments changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import mpmath
import numpy as np
from mpmath import mp

import funcgrad as fg
from funcgrad.scipy import stats
from tests.digits.twins import CONTINUOUS, DISCRETE, twin_of
from tests.scipy.special.test_digits import expected, uncertain, wrong

__all__ = ["METHODS", "Loss", "drawn", "losses", "subjects"]

Point = tuple[float, ...]
METHODS: Final = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf")
DIGITS: Final = 420


class Loss(NamedTuple):
    """A derivative without its digits: which one, where, what was found, and what it is."""

    subject: str
    order: int
    point: Point
    found: float
    exactly: str


def subjects() -> list[str]:
    """Methods of distributions, as ``norm.logpdf``."""
    every = [f"{name}.{method}" for name in CONTINUOUS for method in METHODS]
    return [*every, *[f"{name}.{method}" for name in DISCRETE for method in ("logpmf", "pmf")]]


def drawn(subject: str, rng: np.random.Generator, wide: bool) -> Point:
    """A point in the support: a value, shapes and a scale; of masses a whole number and shapes."""
    name = subject.partition(".")[0]
    distribution = getattr(stats, name)
    shapes = [_positive(rng, 6 if wide else 2) for _ in distribution.shapes]
    if name in DISCRETE:
        return _of_whole_numbers(name, rng)
    scale = _positive(rng, 100 if wide else 3)
    if np.isfinite(distribution.high):
        z = rng.random() if rng.random() < 0.5 else 10.0 ** -rng.uniform(1, 200 if wide else 12)
    else:
        z = distribution.low if np.isfinite(distribution.low) else 0.0
        z += _positive(rng, 200 if wide else 2)
        z *= rng.choice([1, -1]) if np.isinf(distribution.low) else 1
    return float(z * scale), *shapes, scale


def _positive(rng: np.random.Generator, decades: float) -> float:
    return float(10.0 ** rng.uniform(-decades, decades))


def _of_whole_numbers(name: str, rng: np.random.Generator) -> Point:
    """Some at both ends of the support."""
    share = float(rng.choice([rng.random(), 10.0 ** -rng.uniform(1, 100)]))
    n = float(rng.integers(1, 40))
    k = float(rng.choice([0.0, 1.0, n, float(rng.integers(0, int(n) + 1))]))
    return {
        "bernoulli": (min(k, 1.0), share),
        "binom": (k, n, share),
        "geom": (k + 1, share),
        "nbinom": (k, _positive(rng, 4), share),
        "poisson": (k, _positive(rng, 100)),
    }[name]


def losses(subject: str, points: list[Point]) -> Iterator[Loss]:
    """The derivatives that have lost digits."""
    name, _, method = subject.partition(".")
    function = getattr(getattr(stats, name), method)
    first = 1 if name in DISCRETE else 0
    with mp.workdps(DIGITS), np.errstate(all="ignore"):
        for point in points:
            yield from _losses_at(subject, _at(function, first, point), first, point)


def _at(function: Callable[..., Any], first: int, point: Point) -> Callable[..., Any]:
    if first:
        return lambda *parameters: function(point[0], *parameters)
    return lambda x, *parameters: function(x, *parameters[:-1], 0.0, parameters[-1])


def _losses_at(subject: str, f: Callable[..., Any], first: int, point: Point) -> Iterator[Loss]:
    """Those at one point; there are none where the value is out of range or not defined."""
    name, _, method = subject.partition(".")
    fixed, free = point[:first], point[first:]
    whole = twin_of(name, method)

    def twin(*x: Any) -> Any:
        return whole(*fixed, *x)

    exactly = expected(twin, free)
    value = float(f(*free)) if exactly else np.nan
    if exactly is None or not np.isfinite(value) or not 1e-280 < abs(exactly[0]) < 1e280:
        return
    lost = abs(value / exactly[0] - 1)
    if lost > 1e-9:
        yield Loss(subject, -1, point, value, mpmath.nstr(exactly[0], 17))
        return
    found = _derivatives(f, free)
    suspects = [
        k for k, (x, y) in enumerate(zip(found, exactly[1:], strict=True)) if wrong(x, y, 0)
    ]
    more = uncertain(twin, free) if suspects else None
    for k in suspects:
        allowed = 4 * lost * abs(exactly[k + 1]) + (more[k] if more else mp.inf)
        if wrong(found[k], exactly[k + 1], allowed):
            yield Loss(subject, k, point, found[k], mpmath.nstr(exactly[k + 1], 17))


def _derivatives(f: Callable[..., Any], point: Point) -> list[float]:
    """The gradient, and the upper triangle of the Hessian."""
    places = tuple(range(len(point)))
    gradient = fg.grad(f, places)
    rows = [fg.grad(lambda *x, j=j: fg.grad(f, j)(*x), places)(*point) for j in places]
    second = [float(rows[j][k]) for j in places for k in places[j:]]
    return [*map(float, gradient(*point)), *second]

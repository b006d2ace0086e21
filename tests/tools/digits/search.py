"""A search for points at which first and second derivatives lose digits.

A derivative may be off by ``TOLERANCE`` of itself, by the relative error of the value, and by the
effect of a rounding error of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import mpmath
import numpy as np
from mpmath import mp

import funcgrad as fg
from funcgrad.errors import DifferentiationError
from tests.scipy.special.test_digits import ROUNDINGS, expected, uncertain, wrong
from tests.tools.digits.subjects import Point, Subject, subjects

FEW: Final = (90, 130)
"""Digits that suffice where both agree."""

MANY: Final = 500


class Loss(NamedTuple):
    """A derivative that has lost digits: which one, where, the computed and the true value.

    Attributes
    ----------
    derivative : tuple of int
        The arguments that are differentiated in; none for a value that has lost its digits.
    value : float
        The function there.
    terms : float
        The size of what a second derivative is made of.
    """

    subject: str
    derivative: tuple[int, ...]
    point: Point
    found: float
    exactly: float
    value: float
    terms: float

    def __str__(self) -> str:
        return f"{self.subject}{self.point} in {self.derivative}: {self.found}, not {self.exactly}"


def losses(name: str, points: list[Point]) -> Iterator[Loss]:
    """The values and the derivatives that have lost digits, at points of a subject."""
    with np.errstate(all="ignore"):
        for point in points:
            yield from _losses_at(name, subjects()[name], point)


def derivatives_in(point: Point, fixed: int) -> list[tuple[int, ...]]:
    """The arguments of the gradient, and those of the upper triangle of the Hessian."""
    free = range(fixed, len(point))
    return [*[(j,) for j in free], *[(j, k) for j in free for k in free if k >= j]]


def _losses_at(name: str, subject: Subject, point: Point) -> Iterator[Loss]:
    """There are none where the value is out of range or not defined, or derivatives are refused."""
    fixed, free = point[: subject.fixed], point[subject.fixed :]

    def function(*x: Any) -> Any:
        return subject.function(*fixed, *x)

    def twin(*x: Any) -> Any:
        return subject.twin(*fixed, *x)

    if (known := _exactly(twin, free)) is None:
        return
    exactly, digits = known
    value = float(function(*free))
    if not np.isfinite(value) or not 1e-280 < abs(exactly[0]) < 1e280:
        return
    lost = abs(value / exactly[0] - 1)
    moved = mp.fsum([abs(x * slope) for x, slope in zip(free, exactly[1:], strict=False)])
    if lost > 1e-9 and abs(value - exactly[0]) > ROUNDINGS * moved:
        yield Loss(name, (), point, value, float(exactly[0]), value, 0.0)
        return
    try:
        found = _derivatives(function, free)
    except DifferentiationError:
        return
    suspects = [
        k for k, (x, y) in enumerate(zip(found, exactly[1:], strict=True)) if wrong(x, y, 0)
    ]
    if not suspects:
        return
    with mp.workdps(digits):
        more = uncertain(twin, free)
        for k in suspects:
            allowed = 4 * lost * abs(exactly[k + 1]) + (more[k] if more else mp.inf)
            if wrong(found[k], exactly[k + 1], allowed):
                derivative = derivatives_in(point, subject.fixed)[k]
                terms = _terms(derivative, point, [float(x) for x in exactly[1:]], subject.fixed)
                numbers = found[k], float(exactly[k + 1]), value, terms
                yield Loss(name, derivative, point, *numbers)


def _terms(derivative: tuple[int, ...], point: Point, slopes: list[float], fixed: int) -> float:
    """First derivatives over arguments: the greater one, of two."""
    pairs = zip(derivative, reversed(derivative), strict=True)
    sizes = [abs(slopes[j - fixed] / point[k]) if point[k] else 0.0 for j, k in pairs]
    return max(sizes)


def _exactly(twin: Callable[..., Any], point: Point) -> tuple[list[Any], int] | None:
    """The value and the derivatives, and how many digits they took."""
    found = [_of_digits(twin, point, digits) for digits in FEW]
    if None not in found and all(map(_agree, *found)):
        return found[1], FEW[1]
    exactly = _of_digits(twin, point, MANY)
    return None if exactly is None else (exactly, MANY)


def _of_digits(twin: Callable[..., Any], point: Point, digits: int) -> Any:
    with mp.workdps(digits):
        return expected(twin, point)


def _agree(x: Any, y: Any) -> bool:
    return bool(abs(x - y) <= mpmath.mpf(10) ** -17 * abs(y))


def _derivatives(f: Callable[..., Any], point: Point) -> list[float]:
    """The gradient, and the upper triangle of the Hessian."""
    places = tuple(range(len(point)))
    gradient = fg.grad(f, places)
    rows = [fg.grad(lambda *x, j=j: fg.grad(f, j)(*x), places)(*point) for j in places]
    second = [float(rows[j][k]) for j in places for k in places[j:]]
    return [*map(float, gradient(*point)), *second]

"""Derivatives are right at every scale at which values are.

A function is homogeneous of degree d if f(c x) = c**d f(x): a norm, a mean, an angle, a
determinant. Homogeneous functions are discovered by doubling their arguments. If values are right
for arguments times powers of two near the ends of the range, derivatives have to be, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from tests.differential.compare import called
from tests.differential.test_derivatives import ASKS_FOR_NUMBERS, NAMES, OF_ANY_BASIS, Case, cases
from tests.together import together

LARGE = 660  # 2**660 is 5e198
BEYOND = {
    "corrcoef": "on the way to second derivatives there are squares of variances",
    "geomspace": "on the way to second derivatives there are squares of arguments",
}
SLACK = 1e-10


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def real_cases(name: str, count: int) -> Iterator[Case]:
    """Calls whose arguments and results are real numbers, in double precision."""
    for number, case in enumerate(cases(name)):
        parts = [*case.leaves, *case(*case.leaves)] if number < count else []
        if parts and all(np.asarray(part).dtype == np.float64 and part.size for part in parts):
            yield case


def total(case: Case, leaves: Any) -> Any:
    """The sum of results, each with a weight of its own."""
    found = 0.0
    for part in case(*leaves):
        flat = part.reshape(-1)
        found = found + (flat * np.linspace(1, 2, flat.size)).sum()
    return found


def scaled(leaves: Any, power: int) -> list[Any]:
    return [np.ldexp(np.asarray(x), power) for x in leaves]


def derivatives(case: Case, leaves: Any) -> tuple[Any, Any, Any]:
    """The value, the gradient, and its change along the arguments turned around."""
    places = tuple(range(len(leaves)))
    slope = fg.grad(lambda *x: total(case, x), places)
    along = [-x.ravel()[::-1].reshape(x.shape) for x in leaves]
    gradient, change = fg.jvp(slope, tuple(leaves), tuple(along))
    return float(total(case, leaves)), gradient, change


def degree_of(case: Case) -> int | None:
    """The degree of a homogeneous function, if it is a whole number."""
    once, twice = case(*case.leaves), called(case, scaled(case.leaves, 1), {}).value
    if not any(np.any(part) for part in once):
        return None  # zeros are of every degree
    for degree in range(-2, 5):
        expected = scaled(once, degree)
        if twice and all(map(same, twice, expected)) and wrong_at(case, degree, 1) is None:
            return degree
    return None


def same(found: Any, expected: Any) -> bool:
    found, expected = np.asarray(found), np.asarray(expected)
    size = np.max(np.abs(expected), initial=0)
    close = found.shape == expected.shape and np.abs(found - expected) <= SLACK * size
    return bool(np.all(close))


def wrong_at(case: Case, degree: int, power: int) -> str | None:
    """The errors of derivatives at arguments times a power of two."""
    here, there = derivatives(case, case.leaves), scaled(case.leaves, power)
    value = called(lambda: float(total(case, there)), (), {}).value
    if value is None or not same(np.ldexp(value, -degree * power), here[0]):
        return None  # the function itself does not follow
    _, *slopes = derivatives(case, there)
    for order, found, expected in zip(("gradient", "change"), slopes, here[1:], strict=True):
        back = scaled(found, (1 - degree) * power)
        if not all(map(same, back, expected)):
            return f"{order} at {power}: {back}, not {expected}"
    return None


@pytest.mark.slow
@together("name", [n for n in NAMES if n not in OF_ANY_BASIS | ASKS_FOR_NUMBERS | set(BEYOND)])
def test_derivatives_scale(name: str) -> None:
    for case in real_cases(name, 2):
        degree = degree_of(case)
        if degree is not None:
            reach = LARGE // max(1, abs(degree), abs(degree - 2))
            assert wrong_at(case, degree, reach) is None
            assert wrong_at(case, degree, -reach) is None


def test_homogeneous_functions_are_found() -> None:
    def degrees(name: str) -> set[int | None]:
        return {degree_of(case) for case in real_cases(name, 5)} - {None}  # of empty arrays, say

    assert degrees("std") == {1}
    assert degrees("arctan2") == {0}
    assert degrees("var") == {2}
    assert degrees("exp") == set()

"""Values and slopes at infinity are the limits of those at large numbers.

If a function, or its slope, no longer changes from 1e100 to 1e300, or vanishes, or grows without
bound, it has a limit, which has to be its value at infinity. The functions are discovered.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import funcgrad.numpy as fnp
from tests.edges.derivatives import pulled
from tests.edges.exceptions import AT_INFINITY, excused_at_infinity
from tests.edges.test_numbers import ONE, SUBJECTS, TWO

FAR = (1e100, 1e200, 1e300, np.inf)
OTHERS = (0.5, 2.0)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def limit(first: float, second: float, third: float) -> float | None:
    """The limit of values at three large numbers; None if they do not settle."""
    if np.isnan(third):
        return None
    if abs(third) < 1e-50 and abs(second) < 1e-50:
        return 0.0
    if near(first, third) and near(second, third):
        return third
    grows = abs(first) > 1e20 and abs(first) < abs(second) <= abs(third)
    same = np.sign(first) == np.sign(second) == np.sign(third)
    return float(np.copysign(np.inf, third)) if grows and same else None


def near(x: float, y: float) -> bool:
    return x == y or (np.isfinite(y) and abs(x - y) <= 1e-9 * abs(y))


def unsettled(name: str, function: Any, place: int, others: tuple[float, ...]) -> Iterator[str]:
    """In words, the values and slopes at infinity that are not limits and are not excused."""
    for sign in (1, -1):
        line = sign * np.array(FAR)
        operands = [np.full(4, x) for x in others]
        operands.insert(place, line)
        at = [float(x[-1]) for x in operands]
        for kind, f in (("value", function), ("slope", pulled(function, place))):
            *before, here = np.asarray(f(*operands), float).tolist()
            end = limit(*before)
            if end is None or near(here, end) or abs(here - end) <= 1e-16:  # SciPy 1.15's medians
                continue
            if not excused_at_infinity(name, *at):
                yield f"{kind} of {name} at {at}: {here}, and before {before}"


def everywhere(name: str) -> list[str]:
    """Each operand goes to infinity; the others are in the domain of nearly every function."""
    if name in ONE:
        return list(unsettled(name, ONE[name], 0, ()))
    lines = product((0, 1), OTHERS)
    return [each for place, x in lines for each in unsettled(name, TWO[name], place, (x,))]


def test_functions_settle() -> None:
    assert [each for name in SUBJECTS for each in everywhere(name)] == []


def test_exceptions_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.edges.test_limits.excused_at_infinity", lambda *_: False)
    assert [name for name in AT_INFINITY if not everywhere(name)] == []


def test_a_function_without_its_limits_is_seen() -> None:
    def mish(x: Any) -> Any:
        return x * fnp.tanh(fnp.log1p(fnp.exp(x)))

    assert any("value of mish at [-inf]: nan" in each for each in unsettled("mish", mish, 0, ()))

    def flat_at_infinity(x: Any) -> Any:
        return fnp.where(fnp.isinf(x), -fnp.abs(fnp.asarray([np.inf])), -x)

    found = list(unsettled("flat", flat_at_infinity, 0, ()))
    assert any("slope of flat at [inf]: 0.0" in each for each in found)


def test_limits() -> None:
    assert limit(1.0, 1.0, 1.0) == 1.0
    assert limit(1e-100, 1e-200, 0.0) == 0.0
    assert limit(-1e100, -1e200, -1e300) == -np.inf
    assert limit(0.3, -0.4, 0.2) is None
    assert limit(-np.inf, np.inf, -np.inf) is None

"""Laws that functions of numbers keep at every edge, for all functions, found by discovery.

``exceptions.py`` lists the exceptions and their reasons.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from funcgrad.errors import DeviceWarning
from tests.edges.derivatives import Found, agree, pulled, pushed
from tests.edges.exceptions import excused
from tests.edges.quotients import bounds, within
from tests.edges.subjects import elementwise
from tests.together import together

# What is no operation on numbers, or refuses what the others are tried at.
APART = frozenset(
    """fnp.array fnp.asanyarray fnp.asarray fnp.asarray_chkfinite fnp.astype fnp.from_dlpack
    fnp.block fnp.permute_dims fnp.squeeze fnp.transpose fnp.trim_zeros fnp.empty_like
    special.hyp0f1""".split()
)
ONE = {name: each for name, each in elementwise(1).items() if name not in APART}
TWO = {name: each for name, each in elementwise(2).items() if name not in APART}
SUBJECTS = (*ONE, *TWO)
_FINITE = (0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, 1.7, 30.0, -30.0, 800.0, -800.0)
_SCALES = (1e-200, -1e-200, 1e200, -1e200)
LINE = np.array([*_FINITE, *_SCALES, np.inf, -np.inf, np.nan])


def plane(first: Sequence[float], second: Sequence[float]) -> tuple[Any, ...]:
    return tuple([x.ravel() for x in np.meshgrid(first, second, indexing="ij")])


GRID = (0.0, 0.5, 1.0, -1.0, 2.0, 1e-200, 1e200, np.inf, -np.inf)
PLANE = plane(GRID, GRID)
# Where functions of two parameters are regular, but for their ends.
QUADRANT = plane((0.5, 1.0, 2.0, 7.5), (0.0, 0.3, 0.5, 1.0, 2.0, 30.0))
OF_LOGARITHMS = frozenset("kl_div rel_entr xlog1py xlogy".split())


def operands_of(name: str) -> tuple[Any, ...]:
    if name in ONE:
        return (LINE,)
    space, _, own = name.rpartition(".")
    return QUADRANT if space == "special" and own not in OF_LOGARITHMS else PLANE


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


KINDS = {name: operands_of(name) for name in SUBJECTS}


def function_of(name: str) -> Any:
    return {**ONE, **TWO}[name]


def told(name: str, operands: tuple[Any, ...], wrong: Any, **columns: Any) -> list[str]:
    """The operands at which a law is broken, in words."""
    return [
        f"{name}({', '.join(repr(float(x[i])) for x in operands)}): "
        + ", ".join(f"{key} {column[i]}" for key, column in columns.items())
        for i in np.flatnonzero(wrong)
    ]


def usual(name: str, operands: tuple[Any, ...]) -> Any:
    """The operands at which a function is not excused."""
    return np.array([not excused(name, *x) for x in zip(*operands, strict=True)])


def test_functions_are_found() -> None:
    assert len(ONE) > 150
    assert len(TWO) > 35


@pytest.mark.slow
@together(("name", "operands"), KINDS.items(), ids=KINDS, pieces=3)
def test_ways_agree_and_a_derivative_is_a_number_where_the_value_is_one_and_nowhere_else(
    name: str, operands: tuple[Any, ...]
) -> None:
    found, wrong = Found(function_of(name), operands), []
    value, places, known = found.value(), range(len(operands)), usual(name, operands)
    in_range = known | np.isfinite(value)
    for k in places:
        first = found.first(k)
        slope = first["reverse"]
        wrong += told(name, operands, in_range & ~agree(first["forward"], slope), **first)
        wrong += told(name, operands, known & np.isfinite(value) & np.isnan(slope), value=value)
        # Or 0, where a NaN was chosen by a condition: what is not chosen has no derivative.
        outside = known & np.isnan(value) & ~np.isnan(slope) & (slope != 0)
        wrong += told(name, operands, outside & np.all(np.isfinite(operands), 0), slope=slope)
        finite = np.isfinite(first["forward"])
        for j in places:
            second = found.second(j, k)
            one, two, three = second.values()
            differ = known & finite & ~(agree(one, two) & agree(one, three))
            wrong += told(name, operands, differ, **second)
            turned = second["forward over reverse"]
            lost = known & np.isfinite(value) & np.isfinite(slope) & np.isnan(turned)
            wrong += told(name, operands, lost, value=value, first=slope, second=turned)
    for way, (own, expected) in found.others().items():
        wrong += told(name, operands, ~agree(own, expected), **{way: own, "expected": expected})
    assert wrong == []


def warnings_of(function: Any, operands: tuple[Any, ...]) -> set[str]:
    """The kinds of NumPy's warnings, such as "overflow"."""
    with warnings.catch_warnings(record=True) as heard, np.errstate(all="warn", under="ignore"):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeviceWarning)
        function(*operands)
    return {str(each.message).partition(" encountered")[0] for each in heard}


@together(("name", "operands"), KINDS.items())
def test_derivatives_warn_of_no_more_than_values(name: str, operands: tuple[Any, ...]) -> None:
    function = function_of(name)
    known = warnings_of(function, operands)
    for k in range(len(operands)):
        assert warnings_of(pulled(function, k), operands) <= known
        assert warnings_of(pushed(pulled(function, k), k), operands) <= known


@pytest.mark.slow
@together("name", ONE)
def test_derivatives_lie_between_quotients(name: str) -> None:
    function, wrong = function_of(name), []
    slope = pushed(function, 0)
    points = LINE[np.abs(LINE) < 1e3]
    first, second = np.asarray(slope(points)), np.asarray(pushed(slope, 0)(points))
    if not np.any(first):
        return  # locally constant, with jumps
    for x, d, dd in zip(points.tolist(), first, second, strict=True):
        for order, f, derivative in ((1, function, d), (2, slope, dd)):
            limits = bounds(f, x)
            if limits and not excused(name, x) and not within(derivative, limits):
                wrong.append(f"{name}({x}), order {order}: {derivative}, quotients {limits}")
    assert wrong == []

"""Convolutions are what loops compute, however much of them is computed at a time."""

from typing import Any, Final, NamedTuple

import numpy as np
import pytest

from funcgrad._core.specs import Shape
from funcgrad._primitives import convolving
from funcgrad._primitives.convolving import convolved, correlated, places_of, spread_out
from tests.together import together


class Case(NamedTuple):
    """Shapes of an array and of a kernel, and how the kernel slides."""

    x: Shape
    k: Shape
    strides: Shape
    dilations: Shape
    groups: int = 1


CASES: Final = {
    "two axes": Case((3, 2, 7, 6), (3, 2, 3, 2), (1, 1), (1, 1)),
    "strides": Case((3, 2, 9, 8), (2, 2, 3, 3), (2, 3), (1, 1)),
    "strides longer than windows": Case((2, 1, 9, 11), (2, 1, 2, 1), (4, 3), (1, 1)),
    "dilation": Case((2, 2, 9, 9), (2, 2, 2, 3), (1, 2), (3, 2)),
    "one place": Case((3, 2, 4, 5), (2, 2, 4, 5), (1, 1), (1, 1)),
    "few places": Case((2, 1, 5, 9), (2, 1, 2, 8), (1, 1), (1, 1)),
    "groups": Case((3, 4, 6, 5), (4, 2, 2, 3), (1, 1), (1, 1), 2),
    "a filter for each channel": Case((3, 3, 6, 5), (3, 1, 3, 2), (1, 2), (1, 1), 3),
    "one filter for two channels": Case((2, 4, 6, 5), (2, 2, 3, 2), (2, 1), (1, 1), 2),
    "single numbers": Case((3, 4, 5, 5), (6, 4, 1, 1), (1, 1), (1, 1)),
    "single numbers, strides": Case((3, 4, 5, 5), (6, 2, 1, 1), (2, 3), (1, 1), 2),
    "one axis": Case((5, 3, 17), (2, 3, 4), (1,), (2,)),
    "one axis, stride": Case((5, 3, 17), (2, 3, 4), (3,), (1,)),
    "three axes": Case((2, 2, 4, 5, 6), (3, 2, 2, 3, 2), (1, 2, 1), (1, 1, 2)),
    "no axes": Case((5, 3), (2, 3), (), ()),
    "no examples": Case((0, 2, 5), (3, 2, 2), (1,), (1,)),
    "no channels": Case((2, 0, 5), (3, 0, 2), (1,), (1,)),
    "no filters": Case((2, 2, 5), (0, 2, 2), (1,), (1,)),
    "no places": Case((2, 2, 2, 5), (3, 2, 3, 2), (1, 1), (1, 1)),
}


def by_loops(case: Case, x: Any, k: Any, y: Any) -> tuple[Any, Any, Any]:
    """The convolution, and what y makes of the derivatives in the kernel and in the array."""
    out, of_kernel, of_array = np.zeros(y.shape), np.zeros(k.shape), np.zeros(x.shape)
    filters, channels = len(k) // case.groups, k.shape[1]
    for n, o, *place in np.ndindex(y.shape):
        for c, *offset in np.ndindex(k.shape[1:]):
            slides = zip(place, case.strides, offset, case.dilations, strict=True)
            at = (n, o // filters * channels + c, *[p * s + w * d for p, s, w, d in slides])
            out[(n, o, *place)] += x[at] * k[(o, c, *offset)]
            of_kernel[(o, c, *offset)] += x[at] * y[(n, o, *place)]
            of_array[at] += y[(n, o, *place)] * k[(o, c, *offset)]
    return out, of_kernel, of_array


def found(case: Case, x: Any, k: Any, y: Any) -> tuple[Any, Any, Any]:
    own = case[2:]
    return (
        convolved(x, k, *own),
        correlated(x, y, case.k[2:], *own),
        spread_out(y, k, case.x[2:], *own),
    )


def numbers(case: Case) -> list[Any]:
    rng = np.random.default_rng(5)
    places = places_of(case.x, case.k[2:], case.strides, case.dilations)
    shapes = (case.x, case.k, (case.x[0], case.k[0], *places))
    return [rng.integers(-9, 10, shape).astype(float) for shape in shapes]


@together("limits", [(2**20, 512, 2), (200, 12, 2), (2**20, 12, 0), (1, 1, 99)])
@together("name", CASES)
def test_every_way_is_what_loops_compute(
    name: str, limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in zip(("_CACHED", "_FEW", "_SPARSE"), limits, strict=True):
        monkeypatch.setattr(convolving, limit, value)
    case = CASES[name]
    given = numbers(case)
    expected = by_loops(case, *given)
    # Not in C order: channels last, and every other example.
    others = [np.repeat(np.moveaxis(x, 1, -1), 2, axis=0)[::2] for x in given]
    for own in (given, [np.moveaxis(x, -1, 1) for x in others]):
        for result, known in zip(found(case, *own), expected, strict=True):
            np.testing.assert_array_equal(result, known)


@pytest.mark.parametrize("special", [np.inf, np.nan])
def test_what_is_not_finite_reaches_its_windows_only(special: float) -> None:
    case = CASES["two axes"]
    for place in range(3):
        given = numbers(case)
        given[place][0, 0, -1, -1] = special
        with np.errstate(invalid="ignore"):
            expected = by_loops(case, *given)
            for result, known in zip(found(case, *given), expected, strict=True):
                np.testing.assert_array_equal(result, known)
                assert np.isfinite(known).any()


def test_half_precision_is_rounded_once() -> None:
    case = CASES["strides"]
    given = [(x / 7).astype(np.float16) for x in numbers(case)]
    expected = by_loops(case, *[x.astype(float) for x in given])
    for result, known in zip(found(case, *given), expected, strict=True):
        assert result.dtype == np.float16
        np.testing.assert_allclose(result, known, rtol=2.0**-11, atol=1e-6)

"""Kinks: an operation is smooth everywhere except at its declared kinks.

The values on both sides of a point show a kink: they jump, their slopes differ or grow without
bound, or one side has no value. This is compared with the declared distances, at samples, and for
real element-wise operations on a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import DISCRETE, Primitive, Sample
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import Raw
from funcgrad._transforms.forward import jvp
from funcgrad.debug.kinks_met import kinks_met
from funcgrad.errors import FuncgradError
from funcgrad.testing.operations.agreement import require
from funcgrad.testing.operations.cases import Case, cases_of
from funcgrad.testing.operations.declarations import is_elementwise
from funcgrad.testing.operations.properties import AtOnce, AtSamples, Property

Array: TypeAlias = np.ndarray[Any, Any]

_GRID: Final = (-2.0, -1.0, -0.5, 0.0, 0.3, 0.5, 1.0, 2.0)
_STEP: Final = 1e-6
_FAR: Final = 0.05
"""Beyond this declared distance the grid may show no kink."""

_MOST: Final = 30.0
"""Beyond these values functions saturate, and differences have no digits."""


def _inexact(case: Case) -> list[int]:
    """Return the positions of the real and complex arguments."""
    return [k for k, x in enumerate(case.args) if is_inexact(np.asarray(x).dtype)]


def _sizes(case: Case, point: Sequence[Raw]) -> list[Array]:
    """Return the distances at inexact arguments; they are negative outside the domain."""
    sizes: list[Array] = []
    for met in kinks_met(case.function(_inexact(case)), point).met[:1]:
        sizes += [abs(np.asarray(x)) for x in met.zeros]
        sizes += [np.asarray(x) for x in met.domain]
    return sizes


def _point(case: Case) -> list[Raw]:
    return [np.asarray(case.args[k]) for k in _inexact(case)]


# ------------------------------------------------------------------------------------ two sides


def _sides_differ(f: Callable[[float], Array]) -> Array:
    """Return, for each element, whether a function of a number has a kink at 0."""
    here, step = f(0.0), _STEP
    ahead, behind = (f(step) - here) / step, (here - f(-step)) / step
    with np.errstate(all="ignore"):
        finite = np.isfinite(here) & np.isfinite(ahead) & np.isfinite(behind)
        slopes = abs(ahead - behind) > 1e-2 * (1 + np.minimum(abs(ahead), abs(behind)))
        wider = abs(f(100 * step) - here) / (100 * step)
        steep = (abs(ahead) > 3 * wider + 1) & (abs(ahead) > 100)
    return ~finite | slopes | steep


def _curvatures_differ(f: Callable[[float], Array]) -> Array:
    """Return whether the slope has a kink, or the function jumps by a tiny amount."""
    gap = abs(f(_STEP) - f(-_STEP))
    beside = abs(f(2 * _STEP) - f(_STEP)) + abs(f(-_STEP) - f(-2 * _STEP))
    jumps = (gap > 10 * beside) & (gap > 0.1 * abs(f(0.0)))
    h = 1e-3
    ahead = (f(2 * h) - 2 * f(h) + f(0.0)) / h**2
    behind = (f(-2 * h) - 2 * f(-h) + f(0.0)) / h**2
    bends: Array = abs(ahead - behind) > 0.05 * (1 + np.minimum(abs(ahead), abs(behind)))
    return jumps | bends


def _directions(count: int) -> list[Array]:
    """Return directions along each argument, and two oblique ones."""
    oblique = np.random.default_rng(3).uniform(0.4, 1.3, (2, count))
    oblique[1, 1::2] *= -1
    return [*np.eye(count), *(oblique if count > 1 else [])]


def _along(case: Case, columns: Array, direction: Array) -> Callable[[float], Array]:
    """Return the operation as a function of a step along a direction, at columns of arguments."""

    def f(step: float) -> Array:
        moved = columns + step * direction[:, None]
        values = np.asarray(case.evaluate(*case.merged(_inexact(case), list(moved))))
        return values if values.dtype.kind == "c" else values.astype(np.float64)

    return f


# ------------------------------------------------------------------------------------ the grid


def _grids(primitive: Primitive) -> Iterator[tuple[Case, Array]]:
    """Yield a real sample for each set of parameters, and the points of a grid and samples."""
    seen: dict[Any, list[Case]] = {}
    for case in cases_of(primitive):
        args = [np.asarray(arg) for arg in case.args]
        kinds = "".join(arg.dtype.kind for arg in args)
        real = all(arg.dtype.char == "d" or arg.dtype.kind in "iub" for arg in args)
        if real and "f" in kinds:
            key = (
                tuple(case.sample.params.items()),
                "".join("f" if k == "f" else "i" for k in kinds),
            )
            seen.setdefault(key, []).append(case)
    for cases in seen.values():
        for case in cases:
            args = [np.asarray(arg) for arg in case.args]
            if all(arg.size for arg in args):
                numbers = tuple([arg.ravel()[0] for arg in args])
                single = case.at(Sample(numbers, case.sample.params))
                count = len(_inexact(single))
                grid = _GRID if count < 3 else _GRID[1::2]
                yield single, np.array(list(product(grid, repeat=count))).T
                break


def _declared(case: Case, columns: Array) -> Array:
    """Return the least declared distance of each column; infinite without a kink."""
    least = np.full(columns.shape[1], np.inf)
    for size in _sizes(case, list(columns)):
        least = np.fmin(least, size)
    return least


def _seen_on_grid(case: Case, columns: Array, curved: bool) -> Array:
    seen = np.zeros(columns.shape[1], bool)
    for direction in _directions(len(columns)):
        f = _along(case, columns, direction)
        seen |= _sides_differ(f)
        if curved:
            seen |= _curvatures_differ(f)
    return seen


def _lacks_slope(case: Case, columns: Array, direction: Array) -> Array:
    """Return whether one side has a value, but no derivative."""
    lacking = np.zeros(columns.shape[1], bool)
    if case.primitive.differential is DISCRETE:
        return lacking
    for step in (-_STEP, _STEP):
        point = list(columns + step * direction[:, None])
        along = [np.full(x.shape, v) for x, v in zip(point, direction, strict=True)]
        lacking |= ~np.isfinite(np.asarray(jvp(case.function(_inexact(case)), point, along)[1]))
    return lacking


def _none_is_missed(primitive: Primitive) -> None:
    for case, columns in _grids(primitive):
        far = _declared(case, columns) > _FAR
        missed = far & _seen_on_grid(case, columns, curved=False)
        require(not missed.any(), _where(case, columns, missed, "has a kink that is not declared"))


def _each_is_there(primitive: Primitive) -> None:
    for case, columns in _grids(primitive):
        declared = _declared(case, columns) == 0
        if not declared.any():
            continue
        columns = columns[:, declared]
        smooth = ~_seen_on_grid(case, columns, curved=True)
        for direction in _directions(len(columns)) if smooth.any() else ():
            smooth[smooth] = ~_lacks_slope(case, columns[:, smooth], direction)
        require(
            not smooth.any(), _where(case, columns, smooth, "is smooth, where a kink is declared")
        )


def _where(case: Case, columns: Array, flags: Array, finding: str) -> str:
    points = [tuple(map(float, column)) for column in columns.T[flags][:4]]
    return f"{case.described()} {finding}, at {', '.join(map(str, points))}"


def _is_on_a_grid(primitive: Primitive) -> bool:
    return is_elementwise(primitive)


# --------------------------------------------------------------------------------- the samples


def _samples_are_away(case: Case) -> None:
    sizes = _sizes(case, _point(case))
    size = max([np.size(arg) for arg in case.args], default=0)
    if case.is_smooth and all(np.size(arg) for arg in case.args):
        near = [k for k, x in enumerate(sizes) if (x <= 0).any()]
        require(not near, f"the sample is smooth, and distance {near} is not positive")
    if is_elementwise(case.primitive) and size:
        shape = np.broadcast_shapes(*map(np.shape, case.args))
        for x in sizes:
            require(
                np.broadcast_shapes(np.shape(x), shape) == shape,
                f"a distance has the shape {np.shape(x)}, the result {shape}",
            )


def _kinks_of_samples(case: Case) -> None:
    """Check that a sample declared as not smooth is at a declared kink."""
    numbers = [np.asarray(arg) for arg in case.args]
    inexact = [x for x in numbers if is_inexact(x.dtype)]
    usual = all(np.isfinite(x).all() and (abs(x) < _MOST).all() for x in inexact)
    double = all(x.dtype.char in "dD" for x in inexact)
    sizes = _sizes(case, _point(case))
    if not usual or not double or any((x <= 1e-9).any() for x in sizes):
        return
    rng = case.rng()
    along = [rng.uniform(-1, 1, x.shape) for x in inexact]

    def f(step: float) -> Array:
        moved = [x + step * v for x, v in zip(inexact, along, strict=True)]
        outs = case.evaluate(*case.merged(_inexact(case), moved))
        values = outs if isinstance(outs, tuple) else (outs,)
        return np.concatenate([_flat(x) for x in values])

    try:
        differ = _sides_differ(f)
        values = case.values()
    except FuncgradError:  # an operation may refuse arguments outside its domain
        return
    if all(x.dtype.char not in "eEfF" and np.isfinite(x).all() for x in values):
        require(not differ.any(), "there is a kink that is not declared")


def _flat(x: Raw) -> Array:
    flat: Any = np.ravel(x)
    if flat.dtype.kind == "c":
        return np.concatenate([flat.real, flat.imag])
    return flat.astype(np.float64)


_REMEDY: Final = (
    "See kinks: zeros are 0 exactly where the operation is not smooth, and elsewhere about the"
    " distance of the arguments from there; domain is positive inside."
)

DECLARED_KINKS: Final = (
    Property(
        "distances of samples",
        "Samples that are smooth are away from kinks, and inside of the domain.",
        f"{_REMEDY} Or declare the sample with smooth=False.",
        AtSamples(_samples_are_away),
        lambda primitive: primitive.kinks is not None,
    ),
    Property(
        "kinks of samples",
        "Samples that are not smooth are at a declared kink, or have infinities.",
        _REMEDY,
        AtSamples(_kinks_of_samples, lambda case: not case.sample.smooth),
    ),
    Property(
        "no kink is missed",
        "Where distances are positive, both sides have a value and one slope.",
        _REMEDY,
        AtOnce(_none_is_missed),
        _is_on_a_grid,
    ),
    Property(
        "kinks are there",
        "Where a distance is 0 the sides differ in value, slope or curvature; or one has no value.",
        _REMEDY,
        AtOnce(_each_is_there),
        lambda primitive: primitive.kinks is not None and _is_on_a_grid(primitive),
    ),
)

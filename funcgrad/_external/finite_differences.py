"""Derivatives of functions of arrays by central differences, each with an estimate of its error.

Two steps are extrapolated (Richardson), which leaves an error of the fourth power of the step. If
the step is the fifth root of the accuracy of the function's values, this error is about as small as
the rounding error (Press et al., "Numerical Recipes", third edition, section 5.7).

This choice assumes that the function varies on the scale of the element that is moved. It need not:
the sine at 1e8 varies on the scale 1. So each derivative is checked by a witness, the derivative
with a 128th of the step. If they disagree, steps become smaller; if rounding hides the derivative,
they grow.

>>> slopes = differences(lambda x: [np.sin(x)], np.array(1e8), np.ones(1), 1e-16)
>>> abs(slopes.values[0] - np.cos(1e8)) < 1e-9, slopes.errors[0] < 1e-5
(array([ True]), array([ True]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import is_inexact
from funcgrad.errors import DifferentiationError

Array = np.ndarray[Any, Any]
Evaluate: TypeAlias = Callable[[Array], list[Array]]

_MOVES: Final = (1, -1, 2, -2)
_TOGETHER: Final = 64
"""The maximum number of directions at once, so that memory is bounded."""

_WORST: Final = 0.01
"""The largest accepted error, relative to the largest derivative."""

_RATIO: Final = 128.0
_LEVELS: Final = 6
"""The ratio of a step to the step of its witness, and how often steps become smaller or greater."""

_HIDDEN: Final = 1e-4
"""The rounding error, relative to the derivative, above which a greater step is tried."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives along directions (axis 0), for each result of a function.

    Attributes
    ----------
    values : list of ndarray
    errors : list of ndarray
        The estimated error of each element.
    sizes : list of float
        The largest error that rounding of the function's values can explain.
    is_doubtful : bool
        Whether a derivative vanishes with a smaller step.
    """

    values: list[Array]
    errors: list[Array]
    sizes: list[float]
    is_doubtful: bool = False


class _Level(NamedTuple):
    """Differences of one result along directions, with one step.

    Attributes
    ----------
    values : ndarray
    curved, rounded : ndarray
        The estimated errors due to the step and due to rounding.
    is_flat, is_wide : ndarray
        Whether all values of the function are equal; whether the middle value differs.
    """

    values: Array
    curved: Array
    rounded: Array
    is_flat: Array
    is_wide: Array

    @property
    def errors(self) -> Array:
        """Return the estimated errors."""
        return self.curved + self.rounded

    def is_near(self) -> Array:
        """Whether the step is small beside the scale of the function."""
        small: Array = self.curved <= _WORST * abs(self.values) + 10 * self.rounded
        return small & ~self.is_wide

    def agrees(self, witness: _Level) -> Array:
        """Whether differences with a smaller step agree within the errors."""
        return abs(self.values - witness.values) <= 3 * (self.errors + witness.errors)

    def determines(self, witness: _Level, is_greatest: Array | bool) -> Array:
        """Whether two steps determine the derivative."""
        seen: Array = self.rounded <= _HIDDEN * abs(self.values)
        near = self.is_near() & witness.is_near()
        return near & self.agrees(witness) & (seen | is_greatest)

    def vanishes(self, witness: _Level) -> Array:
        """Whether the derivative is 0 with a smaller step, though rounding does not hide it."""
        moves: Array = abs(self.values) > 3 * (self.rounded + witness.rounded)
        return moves & ~self.is_flat & witness.is_flat

    def better(self, other: _Level) -> _Level:
        """Take, at each place, the differences with the smaller error after extrapolation."""
        mine, others = (
            level.curved * np.minimum(level.curved / np.maximum(abs(level.values), _LEAST), 1.0)
            + level.rounded
            for level in (self, other)
        )
        return self.where(others < mine, other)

    def where(self, changed: Array, other: _Level) -> _Level:
        """Replace the differences at some places."""
        return _Level(*(np.where(changed, b, a) for a, b in zip(self, other, strict=True)))

    def row(self, which: slice) -> _Level:
        """Return the differences along some directions."""
        return _Level(*(x[which] for x in self))


_LEAST: Final = float(np.finfo(np.float64).tiny)


def differences(
    evaluate: Evaluate, x: Array, directions: Array, accuracy: float, is_joint: bool = False
) -> Slopes:
    """Return the derivatives of a function along directions.

    Parameters
    ----------
    evaluate : callable
        ``(points on axis 0) -> inexact results on axis 0``.
    x : ndarray
    directions : ndarray
        One more axis than ``x``, the first.
    accuracy : float
        The relative accuracy of the function's values.
    is_joint : bool
        Whether the accuracy is relative to the greatest element of a result, as for results that
        are differences themselves.
    """
    least, greatest = _scales(x, directions)
    steps = np.exp2(np.round(np.log2(accuracy**0.2 * least)))  # powers of 2: moves are often exact

    def taken(level: int, which: slice = slice(None)) -> list[_Level]:
        moved = steps[which] / _RATIO**level
        return _taken(evaluate, x, directions[which], moved, accuracy, is_joint)

    chosen, unknown = [], np.zeros(len(directions), bool)
    first, second = taken(0), taken(1)
    for level, witness in zip(first, second, strict=True):
        is_greatest = _along(least * _RATIO > greatest, level.values)
        determined = level.determines(witness, is_greatest)
        unknown |= ~determined.reshape(len(directions), -1).all(axis=1)
        chosen.append(level.better(witness))
    is_doubtful = False
    for k in np.flatnonzero(unknown):
        which = slice(k, k + 1)
        ladder = {n: [level.row(which) for level in pair] for n, pair in enumerate((first, second))}
        top = -int(np.log(greatest[k] / least[k]) / np.log(_RATIO))
        is_doubtful |= _search(partial(taken, which=which), ladder, top)
        for n, level in enumerate(chosen):
            best, _ = _best([levels[n] for _, levels in sorted(ladder.items())], is_top=True)
            for whole, row in zip(level, best, strict=True):
                whole[k] = row[0]
    sizes = [float(np.max(level.rounded, initial=0.0)) for level in chosen]
    values, errors = [level.values for level in chosen], [level.errors for level in chosen]
    return Slopes(values, errors, sizes, is_doubtful)


def _along(x: Array, like: Array) -> Array:
    """Give values of directions axes for the elements of a result."""
    return x.reshape(len(x), *[1] * (like.ndim - 1))


def _spoiled(x: Array, directions: Array, steps: Array) -> Array:
    """Return how much rounding of the points turns the moves, relative to the moves; 0 along an
    axis.
    """
    count = len(directions)
    moves = abs(steps.reshape(count, *[1] * x.ndim) * directions).reshape(count, -1)
    with quiet():
        ratios = np.where(moves > 0, np.finfo(x.dtype).eps * abs(x).reshape(-1) / moves, 0.0)
    worst: Array = np.max(ratios, axis=1, initial=0.0)
    return np.where(np.count_nonzero(moves, axis=1) > 1, worst, 0.0)


def _search(
    taken: Callable[[int], list[_Level]], ladder: dict[int, list[_Level]], top: int
) -> bool:
    """Take more steps along one direction, until derivatives are known.

    Steps become smaller where they are too great for the function. They become greater, up to the
    level ``top``, where rounding hides the derivatives. Returns whether a derivative vanishes with
    a smaller step, as for a step function.
    """
    for _ in range(_LEVELS):
        low, high = min(ladder), max(ladder)
        results = [*zip(*[levels for _, levels in sorted(ladder.items())], strict=True)]
        is_top = low <= top
        known = [_best(levels, is_top)[1] for levels in results]
        if all(determined.all() for determined in known):
            break
        is_hidden = not is_top and all(
            (determined | levels[0].determines(levels[1], True)).all()
            for determined, levels in zip(known, results, strict=True)
        )
        new = low - 1 if is_hidden else high + 1
        ladder[new] = taken(new)
    steps = [levels for _, levels in sorted(ladder.items())]
    return any(
        level.vanishes(witness).any()
        for pair in pairwise(steps)
        for level, witness in zip(*pair, strict=True)
    )


def _best(levels: Sequence[_Level], is_top: bool) -> tuple[_Level, Array]:
    """Return the best differences, from great to small steps, and where they determine a
    derivative.
    """
    best = levels[0]
    for level in levels[1:]:  # elsewhere, take the least estimated error
        best = best.where(level.errors < best.errors, level)
    known = np.zeros(best.values.shape, bool)
    for level, witness in pairwise(levels):
        determined = level.determines(witness, is_top) & ~known
        best, known = best.where(determined, level.better(witness)), known | determined
    return best, known


def _scales(x: Array, directions: Array) -> tuple[Array, Array]:
    """Return how far to go along directions to change one element by its size, and all by theirs.

    An element that is 0 is changed by the greatest element, or by 1.
    """
    numbers = abs(x).astype(np.float64)
    most = float(np.max(numbers, initial=0.0)) or 1.0
    lengths = abs(directions).reshape(len(directions), -1).astype(np.float64)
    with quiet():
        moves = np.where(numbers > 0, numbers, most).reshape(-1) / lengths
        least = np.min(moves, axis=1, initial=np.inf)
        greatest = max(most, 1.0) / np.max(lengths, axis=1, initial=0.0)
    least = np.where(np.isfinite(least) & (least > 0), least, 1.0)
    return least, np.where(np.isfinite(greatest), np.maximum(greatest, least), least)


def _taken(
    evaluate: Evaluate, x: Array, directions: Array, steps: Array, accuracy: float, is_joint: bool
) -> list[_Level]:
    """Take differences of each result, with one step for each direction."""
    count = len(directions)
    moves = np.multiply.outer(np.array(_MOVES), steps.reshape(count, *[1] * x.ndim) * directions)
    points = (x + moves).astype(x.dtype)
    # The steps after rounding of the points.
    spans = [
        np.sum(np.real((a - b) * np.conj(directions)).reshape(count, -1), axis=1)
        for a, b in (points[:2], points[2:])
    ]
    squares = np.sum(abs(directions.reshape(count, -1)) ** 2, axis=1)
    spoiled = _spoiled(x, directions, steps)
    levels = []
    flat_points = np.concatenate([points.reshape(4 * count, *x.shape), x[None]])
    for out in evaluate(flat_points):
        wide = out.astype(np.result_type(out.dtype, np.float64))
        middle, values = wide[-1], wide[:-1].reshape(4, count, *out.shape[1:])
        ahead, behind, far_ahead, far_behind = values
        with quiet():
            by, far_by = ((span / squares).reshape(count, *[1] * (out.ndim - 1)) for span in spans)
            near, far = (ahead - behind) / by, (far_ahead - far_behind) / far_by
            extrapolated = near + (near - far) / 3
            sizes = np.maximum(abs(ahead), abs(behind))
            inexact = np.max(sizes, initial=0.0) if is_joint else sizes
            rounded = 2 * accuracy * inexact / abs(by) + abs(near) * _along(spoiled, near)
            bend = abs(ahead + behind - 2 * middle)
            levels.append(
                _Level(
                    np.where(np.isfinite(extrapolated), extrapolated, near),
                    abs(near - far) / 3,
                    rounded,
                    np.all(values == middle, axis=0),
                    bend > np.maximum(sizes, abs(middle)),
                )
            )
    return levels


def refuse_doubtful(at: Callable[[], str], argument: str, slopes: Slopes) -> None:
    """Refuse derivatives whose estimated errors are too large.

    Raises
    ------
    DifferentiationError
        The error of a derivative is more than a hundredth of the largest derivative, and more than
        rounding explains; or a derivative vanishes with a smaller step.
    """
    for value, error, size in zip(slopes.values, slopes.errors, slopes.sizes, strict=True):
        is_known = np.isfinite(error) & np.isfinite(value)
        worst = float(np.max(error, where=is_known, initial=0.0))
        largest = float(np.max(abs(value), where=is_known, initial=0.0))
        if slopes.is_doubtful or worst > _WORST * largest + 10 * size:
            raise DifferentiationError(
                f"{at()}: the derivative with respect to {argument}, by finite differences, is at"
                f" most {largest:.2g}, with an estimated error of {worst:.2g}"
                f"{', and vanishes with a smaller step' if slopes.is_doubtful else ''}: the"
                " function jumps here, or its values are too rough. Give a rule, as jvp= or vjp=,"
                " or the relative accuracy of its values, as numerical=1e-6."
            )


def basis(x: Array) -> Iterator[Array]:
    """Yield directions along the elements of an array, in blocks; for complex elements also along
    i.
    """
    units = np.eye(x.size, dtype=x.dtype)
    if x.dtype.kind == "c":
        units = np.concatenate([units, 1j * units]).astype(x.dtype)
    for first in range(0, len(units), _TOGETHER):
        yield units[first : first + _TOGETHER].reshape(-1, *x.shape)


def jacobian(evaluate: Evaluate, x: Array, accuracy: float, is_joint: bool = False) -> Slopes:
    """Return the derivatives along all elements of an array, see ``basis``."""
    blocks = [differences(evaluate, x, directions, accuracy, is_joint) for directions in basis(x)]
    if not blocks:  # of an empty array
        return differences(evaluate, x, np.zeros((0, *x.shape), x.dtype), accuracy)
    columns = zip(*[block.values for block in blocks], strict=True)
    errors = zip(*[block.errors for block in blocks], strict=True)
    sizes = zip(*[block.sizes for block in blocks], strict=True)
    return Slopes(
        [np.concatenate(column) for column in columns],
        [np.concatenate(column) for column in errors],
        [max(size) for size in sizes],
        any(block.is_doubtful for block in blocks),
    )


def precision_of(arrays: Sequence[Any]) -> float:
    """Return the machine epsilon of the coarsest inexact dtype; 0 without one."""
    dtypes = [x.dtype for x in arrays if is_inexact(x.dtype)]
    return max([float(np.finfo(dtype).eps) for dtype in dtypes], default=0.0)

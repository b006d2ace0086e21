"""Derivatives of functions of arrays by central differences, each with an estimate of its error.

Two steps are extrapolated (Richardson), which leaves an error of the fourth power of the step; with
a step of the fifth root of the accuracy of the function's values it is as small as that by rounding
(Press et al., "Numerical Recipes", third edition, section 5.7).

>>> slopes = differences(lambda x: [np.sin(x)], np.array(0.0), np.ones(1), 1e-16)
>>> abs(slopes.values[0] - 1) < 1e-10, slopes.errors[0] < 1e-5
(array([ True]), array([ True]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from funcgrad.errors import DifferentiationError
from funcgrad.floating_errors import quiet
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import is_inexact

Array = np.ndarray[Any, Any]

_MOVES: Final = (1, -1, 2, -2)
_TOGETHER: Final = 64
"""The most directions in which an argument is moved at once, so that memory is bounded."""

_WORST: Final = 0.01
"""The largest error, relative to the largest derivative, with which one is returned."""


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives along directions, which are on axis 0, for each result of a function.

    Attributes
    ----------
    values : list of ndarray
    errors : list of ndarray
        The estimated error of each number.
    sizes : list of float
        The largest error that rounding of the function's values explains.
    """

    values: list[Array]
    errors: list[Array]
    sizes: list[float]


def differences(
    evaluate: Callable[[Array], list[Array]], x: Array, directions: Array, accuracy: float
) -> Slopes:
    """The derivatives of a function along directions.

    Parameters
    ----------
    evaluate : callable
        From points, on axis 0, to the inexact results there, on axis 0.
    x : ndarray
    directions : ndarray
        One more axis than ``x``, the first.
    accuracy : float
        The relative accuracy of the function's values.
    """
    count, axes = len(directions), x.ndim
    step = accuracy**0.2 * (float(np.max(abs(x), initial=0.0)) or 1.0)
    length = np.max(abs(directions), axis=tuple(range(1, axes + 1)), initial=0.0)
    steps = (step / np.where(length > 0, length, 1.0)).astype(np.float64)
    moves = np.multiply.outer(np.array(_MOVES), steps.reshape(count, *[1] * axes) * directions)
    points = (x + moves).astype(x.dtype).reshape(4 * count, *x.shape)
    values, errors, sizes = [], [], []
    for out in evaluate(points):
        wide = out.astype(np.result_type(out.dtype, np.float64))
        ahead, behind, far_ahead, far_behind = wide.reshape(4, count, *out.shape[1:])
        by = steps.reshape(count, *[1] * (out.ndim - 1))
        with quiet():
            near, far = (ahead - behind) / (2 * by), (far_ahead - far_behind) / (4 * by)
            extrapolated = near + (near - far) / 3
            noise = accuracy * np.maximum(abs(ahead), abs(behind)) / by
            values.append(np.where(np.isfinite(extrapolated), extrapolated, near))
            errors.append(abs(near - far) / 3 + noise)
            sizes.append(float(np.max(noise, initial=0.0)))
    return Slopes(values, errors, sizes)


def refuse_doubtful(at: Callable[[], str], argument: str, slopes: Slopes) -> None:
    """Refuse derivatives whose estimated errors are too large.

    Raises
    ------
    DifferentiationError
        The error of a derivative is more than a hundredth of the largest of them, and more than
        what rounding explains.
    """
    for value, error, size in zip(slopes.values, slopes.errors, slopes.sizes, strict=True):
        is_known = np.isfinite(error) & np.isfinite(value)
        worst = float(np.max(error, where=is_known, initial=0.0))
        largest = float(np.max(abs(value), where=is_known, initial=0.0))
        if worst > _WORST * largest + 10 * size:
            raise DifferentiationError(
                f"{at()}: the derivative by {argument}, found by differences, is at most"
                f" {largest:.2g}, with an estimated error of {worst:.2g}: the function jumps here,"
                " or its values are too rough. Give its rule, as jvp= or vjp=, or the relative"
                " accuracy of its values, as numerical=1e-6."
            )


def basis(x: Array) -> Iterator[Array]:
    """Directions along the elements of an array, some at once; for complex ones also along i."""
    units = np.eye(x.size, dtype=x.dtype)
    if x.dtype.kind == "c":
        units = np.concatenate([units, 1j * units]).astype(x.dtype)
    for first in range(0, len(units), _TOGETHER):
        yield units[first : first + _TOGETHER].reshape(-1, *x.shape)


def jacobian(evaluate: Callable[[Array], list[Array]], x: Array, accuracy: float) -> Slopes:
    """The derivatives along all elements of an array, see ``basis``."""
    blocks = [differences(evaluate, x, directions, accuracy) for directions in basis(x)]
    if not blocks:  # there is no element
        return differences(evaluate, x, np.zeros((0, *x.shape), x.dtype), accuracy)
    columns = zip(*[block.values for block in blocks], strict=True)
    errors = zip(*[block.errors for block in blocks], strict=True)
    sizes = zip(*[block.sizes for block in blocks], strict=True)
    return Slopes(
        [np.concatenate(column) for column in columns],
        [np.concatenate(column) for column in errors],
        [max(size) for size in sizes],
    )


def precision_of(arrays: Sequence[Any]) -> float:
    """The spacing of numbers at 1 in the coarsest inexact dtype; 0 if there is none."""
    dtypes = [x.dtype for x in arrays if is_inexact(x.dtype)]
    return max([float(np.finfo(dtype).eps) for dtype in dtypes], default=0.0)

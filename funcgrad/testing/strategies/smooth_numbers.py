"""Arrays whose simplest elements are smooth points: 0.5, 1.25, 1.75, 2.5, …, in order.

Hypothesis shrinks numbers to 0, where abs, relu, max, norm and the square root have their kinks,
and equal elements are ties: the smallest failing example would often be a false alarm. Here
Hypothesis draws the *distance* from a lattice point, and shrinks the distance. A distance is a
float and some small steps, because searches that climb change drawn numbers by integers, and 1 is
too far.

>>> import numpy as np
>>> lattice(5, -4.0, 4.0)
array([0.5 , 1.25, 1.75, 2.5 , 3.25])
>>> lattice(3, 0.0, 1.0)
array([0.25 , 0.625, 0.875])
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from funcgrad._core.specs import Shape
from funcgrad.errors import ArgumentError, MissingPackageError, ShapeError
from funcgrad.numpy.options import shape_argument

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Strategy: TypeAlias = "SearchStrategy[Any]"

Drawn: TypeAlias = Any
"""A user's value, or a strategy of such values."""

_CYCLE: Final = (0.5, 1.25, 1.75)
_MOST_DRAWN: Final = 48
"""The size up to which elements are drawn one by one; larger arrays come from one seed."""

_MOST_STEPS: Final = 1024
"""The maximum number of small steps; together they are an eighth of the range."""


def hypothesis_for(name: str) -> Any:
    """Import ``hypothesis.strategies`` for the function ``name``.

    Raises
    ------
    MissingPackageError
        Hypothesis is not installed.
    """
    try:
        import hypothesis.strategies
    except ImportError as error:
        raise MissingPackageError(
            f"{name}: hypothesis is not installed. Install it by `pip install hypothesis`; the"
            " laws themselves do not need it."
        ) from error
    return hypothesis.strategies


def check_strategy(name: str, argument: str, value: object) -> None:
    """Check that a value is a strategy."""
    kind = hypothesis_for(name).SearchStrategy
    if not isinstance(value, kind):
        raise ArgumentError(
            f"{name}: {argument} has to be a strategy of hypothesis, got {value!r}, of type"
            f" {type(value).__name__}."
        )


def checked_shape(shape: object, name: str) -> Shape:
    """Convert a shape that a user passed to a strategy.

    Raises
    ------
    ShapeError
        The shape is invalid, or has a negative size.
    """
    sizes = shape_argument(shape, name)
    if any(size < 0 for size in sizes):
        raise ShapeError(f"{name}: the shape {sizes} has a negative size.")
    return sizes


def lattice(count: int, low: float, high: float) -> np.ndarray[Any, Any]:
    """Return smooth points in a range: ascending, different, and not integers if possible."""
    numbers = np.array([_CYCLE[k % 3] + 2 * (k // 3) for k in range(count)])
    if count and (low > 0.25 or high < numbers[-1] + 0.25):
        whole = 2.0 if count <= 3 else numbers[-1] + 0.5
        numbers = low + (high - low) * numbers / whole
    return numbers


def smooth_arrays(
    name: str, dtype: np.dtype[Any], shape: Shape, low: float, high: float
) -> Strategy:
    """Draw inexact arrays with elements in a range."""
    st = hypothesis_for(name)
    count = prod(shape) * (2 if dtype.kind == "c" else 1)
    base = lattice(count, low, high)
    width = high - low
    if count <= _MOST_DRAWN:
        distance = st.floats(0, width, allow_nan=False)
        steps = st.integers(-_MOST_STEPS, _MOST_STEPS)
        coarse, fine = [st.lists(x, min_size=count, max_size=count) for x in (distance, steps)]
        moves = st.tuples(coarse, fine).map(
            lambda pair: np.array(pair[0]) + np.array(pair[1]) * (width / 8 / _MOST_STEPS)
        )
    else:
        moves = st.integers(0, 2**32 - 1).map(_moves(count, width))

    def assembled(distances: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        numbers = low + (base - low + distances.reshape(count)) % width if width else base
        if dtype.kind == "c":
            numbers = numbers[::2] + 1j * numbers[1::2]
            return numbers.reshape(shape).astype(dtype)
        array: np.ndarray[Any, Any] = numbers.reshape(shape).astype(dtype)
        return np.asarray(np.clip(array, dtype.type(low), dtype.type(high)))

    return moves.map(assembled)


def _moves(count: int, width: float) -> Callable[[int], np.ndarray[Any, Any]]:
    def moves(seed: int) -> np.ndarray[Any, Any]:
        if seed == 0:
            return np.zeros(count)
        return np.random.default_rng(seed).uniform(0, width, count)

    return moves

"""Values of images between their elements, by splines.

>>> map_coordinates([[0.0, 1.0], [2.0, 3.0]], [[0.5], [0.5]], order=1)
Tensor([1.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.users_values import operand
from funcgrad._primitives.matrices import real_dtype
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.scipy.ndimage.boundaries import extended, folded, image_of, mode_of
from funcgrad.scipy.ndimage.spline_filters import spline_coefficients, spline_degree
from funcgrad.tensor.tensor import ArrayLike, Tensor

_MARGIN: Final = 12
"""Elements that are added where a mode has no exact spline, as in SciPy."""


class Side(NamedTuple):
    """The elements that count at points along one axis, and where they lie outside of it."""

    places: list[Tensor]
    weights: list[Tensor]
    inside: list[Tensor] | None
    outside: Tensor | None


def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """The values of an image at coordinates.

    Parameters
    ----------
    input : array_like
        Real or complex; integers become float64, unlike in SciPy.
    coordinates : array_like, shape (input.ndim, ...)
        The coordinates along each axis, in elements; real.
    output : dtype, optional
        The precision; by default as in the image.
    order : int
        The degree of the spline, from 0 (the nearest element) to 5.
    mode : str
        How the image goes on beyond its edges: "reflect" (d c b a | a b c d | d c b a, also
        "grid-mirror"), "mirror" (d c b | a b c d | c b a), "nearest" (a a a | a b c d | d d d),
        "grid-wrap" (a b c d | a b c d | a b c d), "wrap" (the same, but the last element takes the
        place of the first), "grid-constant" (``cval``), "constant" (``cval`` at every point
        outside).
    cval : scalar
        The value outside; differentiable.
    prefilter : bool
        Whether the spline goes through the elements; False: they are its coefficients, see
        `spline_filter`.

    Returns
    -------
    Tensor, of the shape of the coordinates without the first axis

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The coordinates do not fit the image, or an option is unknown.

    Notes
    -----
    The result is differentiable in the image, the coordinates and ``cval``. At elements the slope
    of order 1 is the slope to the right; the order 0 has the derivative 0.

    Examples
    --------
    >>> import funcgrad as fg
    >>> image = fg.tensor([[0.0, 1.0, 4.0], [2.0, 3.0, 6.0]])
    >>> map_coordinates(image, [[0.5, 1.0], [1.5, 5.0]], order=1, cval=-1.0)
    Tensor([ 3.5, -1. ])
    >>> fg.grad(lambda at: map_coordinates(image, at, order=1))(fg.tensor([0.5, 1.5]))
    Tensor([2., 3.])
    """
    name = "map_coordinates"
    image = image_of(name, input, output)
    at = fnp.asarray(operand(coordinates, name))
    if at.dtype.kind not in "biuf":
        raise DtypeError(f"{name}: the coordinates have to be real, not {at.dtype}.")
    if not at.ndim or at.shape[0] != image.ndim or not image.ndim:
        raise ShapeError(
            f"{name}: the image has {image.ndim} axes, so the coordinates have the shape"
            f" ({image.ndim}, ...); it is {at.shape}."
        )
    at = at.astype(real_dtype(image.dtype))
    columns = [at[axis] for axis in range(image.ndim)]
    return sampled(name, image, columns, order, mode, cval, prefilter)


def prepared(
    name: str, image: Tensor, rank: int, order: int, mode: str, cval: ArrayLike, prefilter: bool
) -> tuple[Tensor, int]:
    """Coefficients along the first axes, and the number of elements added to each end.

    Raises
    ------
    ShapeError, ArgumentError
        The image is empty, or an option is unknown.
    """
    degree = spline_degree(name, order)
    mode_of(name, mode)
    if not image.size:
        raise ShapeError(f"{name}: the image has no elements; its shape is {image.shape}.")
    if not prefilter or degree < 2:
        return image, 0
    margin = _MARGIN if mode in ("nearest", "grid-constant") else 0
    image = extended(image, [(margin, margin)] * rank, [mode] * rank, cval)
    for axis in range(rank):
        image = spline_coefficients(image, degree, axis, mode)
    return image, margin


def sampled(
    name: str,
    image: Tensor,
    columns: Sequence[Tensor],
    order: int,
    mode: str,
    cval: ArrayLike,
    prefilter: bool,
) -> Tensor:
    """Values at points: coordinates along the first axes, of one shape.

    Further axes of the image follow in the result.
    """
    rank = len(columns)
    rows, margin = prepared(name, image, rank, order, mode, cval, prefilter)
    lead, behind = rows.shape[:rank], rows.shape[rank:]
    sides = [
        side_of(column + margin if margin else column, size, order, mode)
        for column, size in zip(columns, lead, strict=True)
    ]
    flat = fnp.reshape(rows, (prod(lead), *behind))
    lifted = (*columns[0].shape, *(1,) * len(behind))

    def around(axis: int, place: Tensor | None, inside: Tensor | None) -> Tensor:
        """The sum along an axis of the sums along the axes after it."""
        if axis == rank:
            assert place is not None
            values = fnp.take(flat, place, axis=0)
            return values if inside is None else fnp.where(inside, values, cval)
        side, total = sides[axis], None
        for step, (here, weight) in enumerate(zip(side.places, side.weights, strict=True)):
            beyond = inside
            if side.inside is not None:
                is_here = fnp.reshape(side.inside[step], lifted)
                beyond = is_here if inside is None else inside & is_here
            further = here if place is None else place * lead[axis] + here
            term = around(axis + 1, further, beyond) * fnp.reshape(weight, lifted)
            total = term if total is None else total + term
        assert total is not None
        return total

    total = around(0, None, None)
    return with_outside(total, [side.outside for side in sides], lifted, cval, image)


def with_outside(
    values: Tensor,
    outside: Sequence[Tensor | None],
    shape: tuple[int, ...],
    cval: ArrayLike,
    image: Tensor,
) -> Tensor:
    """Values with ``cval`` at points outside, in the image's precision."""
    beyond: Any = None
    for condition in outside:
        if condition is not None:
            beyond = condition if beyond is None else beyond | condition
    if beyond is not None:
        values = fnp.where(fnp.reshape(beyond, shape), cval, values)
    return values if values.dtype.kind == "c" else values.astype(image.dtype)


def side_of(at: Tensor, size: int, order: int, mode: str) -> Side:
    """The elements around points along one axis: ``order + 1`` of them."""
    outside = None
    if mode == "constant":
        outside = ~((at >= 0) & (at <= size - 1))
    if mode != "nearest":  # whose edge is a constant that goes on
        at = folded(at, size, mode)
    start = fnp.floor(at if order % 2 else at + 0.5)
    start = fnp.where(fnp.abs(start) < 1e15, start, 0.0)  # an integer; NaN stays in the weights
    fraction = at - start if order % 2 else at - start + 0.5
    first = start.astype(np.int64) - order // 2
    weights = _weights(fraction, order)
    # In these modes the coefficients go on by reflection, even if the image does not.
    around = "mirror" if mode in ("constant", "wrap") else mode
    places, inside = [], []
    for step in range(order + 1):
        place = first + step
        if mode == "grid-constant":
            inside.append((place >= 0) & (place < size))
            place = fnp.clip(place, 0, size - 1)
        else:
            place = fnp.clip(folded(place, size, around), 0, size - 1)
        places.append(place)
    return Side(places, weights, inside if mode == "grid-constant" else None, outside)


def _weights(fraction: Tensor, order: int) -> list[Tensor]:
    """The B-splines of a degree at a distance from the integer before, from left to right."""
    weights = [fnp.ones_like(fraction)]
    for degree in range(1, order + 1):
        pieces = [weight / degree for weight in weights]
        falling = [(step + 1 - fraction) * piece for step, piece in enumerate(pieces)]
        rising = [(fraction + (degree - 1 - step)) * piece for step, piece in enumerate(pieces)]
        weights = [
            falling[0],
            *[a + b for a, b in zip(rising[:-1], falling[1:], strict=True)],
            rising[-1],
        ]
    return weights

"""Images moved, enlarged and turned.

>>> shift([1.0, 2.0, 3.0], 0.5, order=1, cval=-1.0)
Tensor([-1. ,  1.5,  2.5])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import Setting, operand
from funcgrad._primitives.matrices import real_dtype
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.options import integer, natural, real_number, sequence
from funcgrad.scipy.ndimage.boundaries import image_of, per_axis
from funcgrad.scipy.ndimage.resampling import prepared, sampled, side_of, with_outside
from funcgrad.tensor.tensor import ArrayLike, Tensor


def shift(
    input: ArrayLike,
    shift: Setting,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """An image moved by any distance.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As for `map_coordinates`.
    shift : array_like
        The distance, one for all axes or one for each; differentiable.

    Returns
    -------
    Tensor, of the shape of the image

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The distances do not fit the image, or an option is unknown.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jacfwd(lambda s: shift([1.0, 2.0, 4.0], s, order=1))(0.5)
    Tensor([ 0., -1., -2.])
    """
    name = "shift"
    image = image_of(name, input, output)
    distances = per_axis(name, "shift", shift, image.ndim)
    columns = [
        _steps(size, image) - _real(name, "shift", distance, image)
        for size, distance in zip(image.shape, distances, strict=True)
    ]
    return _along_axes(name, image, columns, order, mode, cval, prefilter)


def zoom(
    input: ArrayLike,
    zoom: float | Sequence[float],
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Tensor:
    """An image enlarged or shrunk.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As for `map_coordinates`.
    zoom : float or sequence of float
        The factor, for all axes or one for each. It decides the shape only, so it is known and has
        no derivative.
    grid_mode : bool
        Whether elements are areas, whose edges stay in place, rather than points; then the
        first and the last one stay.

    Returns
    -------
    Tensor
        Its sizes are the sizes of the image times the factors, rounded.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        A factor is negative or not known, or an option is unknown.

    Examples
    --------
    >>> zoom([1.0, 2.0, 4.0], 5 / 3, order=1)
    Tensor([1. , 1.5, 2. , 3. , 4. ])
    """
    name = "zoom"
    image = image_of(name, input, output)
    factors = [real_number(z, name, "zoom") for z in per_axis(name, "zoom", zoom, image.ndim)]
    if any(not factor >= 0.0 for factor in factors):
        raise ArgumentError(f"{name}: the factors must not be negative; they are {factors}.")
    if all(factor == 1.0 for factor in factors) and prefilter:
        return image
    columns = []
    for size, factor in zip(image.shape, factors, strict=True):
        count = round(size * factor)
        if grid_mode:
            scale = size / count if count else 1.0
            columns.append((_steps(count, image) + 0.5) * scale - 0.5)
        else:
            scale = (size - 1) / (count - 1) if count != 1 else 1.0
            columns.append(_steps(count, image) * scale)
    return _along_axes(name, image, columns, order, mode, cval, prefilter)


def affine_transform(
    input: ArrayLike,
    matrix: ArrayLike,
    offset: ArrayLike | Sequence[ArrayLike] = 0.0,
    output_shape: Sequence[int] | None = None,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """An image under an affine map of coordinates.

    The result at ``o`` is the image at ``matrix @ o + offset``.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As for `map_coordinates`.
    matrix : array_like, shape (d, d), (d,), (d, d + 1) or (d + 1, d + 1)
        The map, its diagonal, or a map of homogeneous coordinates, whose last column is the offset
        and whose last row is not read; differentiable.
    offset : array_like
        One for all axes or one for each; differentiable.
    output_shape : sequence of int, optional
        By default the shape of the image.

    Returns
    -------
    Tensor, shape (*output_shape)

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The map does not fit the image, or an option is unknown.

    Examples
    --------
    >>> affine_transform([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [1.0, 0.0]], order=1)
    Tensor([[1., 3.],
            [2., 4.]])
    """
    name = "affine_transform"
    image = image_of(name, input, output)
    rank = image.ndim
    shape = image.shape
    if output_shape is not None:
        shape = tuple(
            natural(n, name, "output_shape") for n in sequence(output_shape, name, "output_shape")
        )
    square = _real(name, "matrix", matrix, image, 2)
    if square.ndim == 2 and square.shape[1] == rank + 1 and square.shape[0] in (rank, rank + 1):
        offsets = [square[axis, rank] for axis in range(rank)]
        square = square[:rank, :rank]
    else:
        offsets = [_real(name, "offset", o, image) for o in per_axis(name, "offset", offset, rank)]
    if square.ndim == 1 and square.shape[0] == rank == len(shape):
        columns = [
            square[axis] * _steps(size, image) + offsets[axis] for axis, size in enumerate(shape)
        ]
        return _along_axes(name, image, columns, order, mode, cval, prefilter)
    if square.ndim != 2 or square.shape != (rank, len(shape)) or not rank:
        raise ShapeError(
            f"{name}: the matrix has the shape {square.shape}; for an image with {rank} axes and a"
            f" result with {len(shape)} it is ({rank}, {len(shape)}) or ({rank},), or has one more"
            " column for the offset."
        )
    return sampled(
        name, image, _mapped(square, offsets, shape, image), order, mode, cval, prefilter
    )


def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """An image turned in the plane of two axes.

    Parameters
    ----------
    input, output, order, mode, cval, prefilter
        As for `map_coordinates`.
    angle : scalar
        In degrees; differentiable. With ``reshape`` its value decides the shape, so `jit` stages
        again for every value.
    axes : pair of int
        The plane.
    reshape : bool
        Whether the result holds the whole turned image.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The image has less than two axes, an option is unknown, or the angle is not finite.

    Examples
    --------
    >>> import funcgrad as fg
    >>> rotate([[1.0, 2.0], [3.0, 4.0]], 90.0, order=1)
    Tensor([[2., 4.],
            [1., 3.]])
    >>> turned = lambda a: rotate(np.eye(3), a, reshape=False, order=1)[0, 1]
    >>> fg.grad(turned)(30.0)
    Tensor(...)
    """
    name = "rotate"
    image = image_of(name, input, output)
    if image.ndim < 2 or not isinstance(axes, Sequence) or len(axes) != 2:
        raise ShapeError(
            f"{name}: turns an image with at least two axes in the plane of two; the shape is"
            f" {image.shape}, and the axes are {axes!r}."
        )
    plane = sorted(normalize_axis(integer(axis, name, "axes"), image.ndim, name) for axis in axes)
    if plane[0] == plane[1]:
        raise ArgumentError(f"{name}: the axes {axes!r} have to be different.")
    moved = fnp.moveaxis(image, plane, (0, 1))
    cosine, sine = _turn(name, angle, image)
    sizes = shape = moved.shape[:2]
    if reshape:
        degrees = real_number(angle, name, "angle")
        if not math.isfinite(degrees):
            raise ArgumentError(f"{name}: the angle has to be finite, got {degrees}.")
        shape = _turned_shape(sizes, degrees)
    matrix = fnp.stack([fnp.stack([cosine, sine]), fnp.stack([-sine, cosine])])
    middle = [(size - 1) / 2 for size in shape]
    offsets = [
        (sizes[row] - 1) / 2 - (matrix[row, 0] * middle[0] + matrix[row, 1] * middle[1])
        for row in range(2)
    ]
    columns = _mapped(matrix, offsets, shape, image)
    result = sampled(name, moved, columns, order, mode, cval, prefilter)
    return fnp.moveaxis(result, (0, 1), plane)


def _turn(name: str, angle: ArrayLike, image: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine and the sine of degrees, exact at right angles."""
    degrees = fnp.asarray(operand(angle, name))
    if degrees.ndim or degrees.dtype.kind not in "iuf":
        raise ShapeError(f"{name}: the angle is one real number, not {degrees.shape}.")
    degrees = degrees.astype(np.float64)
    quarter = fnp.rint(degrees / 90.0)
    small = (degrees - quarter * 90.0) * (math.pi / 180.0)
    number = quarter % 4.0
    near, far = fnp.cos(small), fnp.sin(small)
    is_odd = number % 2.0 == 1.0
    cosine, sine = fnp.where(is_odd, -far, near), fnp.where(is_odd, near, far)
    is_turned = number >= 2.0
    dtype = real_dtype(image.dtype)
    cosine, sine = (fnp.where(is_turned, -value, value) for value in (cosine, sine))
    return cosine.astype(dtype), sine.astype(dtype)


def _turned_shape(sizes: tuple[int, ...], degrees: float) -> tuple[int, int]:
    """The sizes of the smallest upright rectangle around a turned one."""
    quarter = round(degrees / 90.0)
    small = math.radians(degrees - quarter * 90.0)
    near, far = abs(math.cos(small)), abs(math.sin(small))
    cosine, sine = (far, near) if quarter % 2 else (near, far)
    height, width = sizes
    return (int(cosine * height + sine * width + 0.5), int(sine * height + cosine * width + 0.5))


def _steps(size: int, image: Tensor) -> Tensor:
    """The numbers of elements, in the image's precision."""
    return fnp.arange(size).astype(real_dtype(image.dtype))


def _real(name: str, argument: str, value: ArrayLike, image: Tensor, rank: int = 0) -> Tensor:
    """A real argument in the image's precision, of at most so many axes."""
    array = fnp.asarray(operand(value, f"{name}: {argument}"))
    if array.dtype.kind not in "biuf":
        raise DtypeError(f"{name}: {argument} has to be real, not {array.dtype}.")
    if array.ndim > rank:
        raise ShapeError(f"{name}: {argument} has the shape {array.shape}.")
    return array.astype(real_dtype(image.dtype))


def _mapped(
    matrix: Tensor, offsets: Sequence[Tensor], shape: tuple[int, ...], image: Tensor
) -> list[Tensor]:
    """The coordinates of all elements of a result under an affine map."""
    columns = []
    for row, offset in enumerate(offsets):
        # Added from the first axis to the last, as in SciPy, so that the edges agree.
        column = fnp.broadcast_to(offset, shape)
        for axis, size in enumerate(shape):
            lifted = [1] * len(shape)
            lifted[axis] = size
            column = column + fnp.reshape(_steps(size, image) * matrix[row, axis], tuple(lifted))
        columns.append(column)
    return columns


def _along_axes(
    name: str,
    image: Tensor,
    columns: Sequence[Tensor],
    order: int,
    mode: str,
    cval: ArrayLike,
    prefilter: bool,
) -> Tensor:
    """Values at a grid of points: along one axis after the other."""
    rank = image.ndim
    if not rank:
        raise ShapeError(f"{name}: the image has to have at least one axis.")
    rows, margin = prepared(name, image, rank, order, mode, cval, prefilter)
    outside: list[Tensor | None] = []
    for axis, column in enumerate(columns):
        side = side_of(column + margin if margin else column, rows.shape[axis], order, mode)
        lifted = (*column.shape, *(1,) * (rank - axis - 1))
        total: Tensor | None = None
        for step, (place, weight) in enumerate(zip(side.places, side.weights, strict=True)):
            term = fnp.take(rows, place, axis=axis)
            if side.inside is not None:
                term = fnp.where(fnp.reshape(side.inside[step], lifted), term, cval)
            term = term * fnp.reshape(weight, lifted)
            total = term if total is None else total + term
        assert total is not None
        rows = total
        outside.append(None if side.outside is None else fnp.reshape(side.outside, lifted))
    shape = tuple(column.shape[0] for column in columns)
    return with_outside(rows, outside, shape if outside[0] is not None else (), cval, image)

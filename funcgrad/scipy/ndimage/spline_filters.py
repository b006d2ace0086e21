"""Coefficients of splines through the elements of an image.

>>> spline_filter1d([0.0, 1.0, 0.0], mode="mirror")
Tensor([-1.,  2., -1.])
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import operand
from funcgrad._primitives.recurrence import recurrence
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import integer
from funcgrad.scipy.ndimage.boundaries import image_of, mode_of
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_POLES: Final = (
    (sqrt(8.0) - 3.0,),
    (sqrt(3.0) - 2.0,),
    (
        sqrt(664.0 - sqrt(438976.0)) + sqrt(304.0) - 19.0,
        sqrt(664.0 + sqrt(438976.0)) - sqrt(304.0) - 19.0,
    ),
    (
        sqrt(67.5 - sqrt(4436.25)) + sqrt(26.25) - 6.5,
        sqrt(67.5 + sqrt(4436.25)) - sqrt(26.25) - 6.5,
    ),
)
"""The zeros inside the unit circle of a B-spline's values at the integers, from degree 2 on."""


def spline_filter1d(
    input: ArrayLike,
    order: int = 3,
    axis: int = -1,
    output: DTypeLike = np.float64,
    mode: str = "mirror",
) -> Tensor:
    """The coefficients of the spline through the elements along an axis.

    Parameters
    ----------
    input : array_like
        Real or complex.
    order : int
        The degree, from 0 to 5.
    axis : int
    output : dtype
        The precision; complex images have complex results.
    mode : str
        How the image goes on beyond its edges, see `map_coordinates`.

    Returns
    -------
    Tensor, of the shape of the image

    Raises
    ------
    ArgumentError
        The degree or the mode is unknown.

    Notes
    -----
    The coefficients are a recurrence forwards and one backwards for each pole, in O(n). Source: M.
    Unser, "Splines: a perfect fit for signal and image processing", IEEE Signal Processing
    Magazine 16, 1999. The spline goes through the elements exactly. In the modes "reflect",
    "grid-mirror" and "nearest" SciPy's goes past them by up to the pole (-0.27 for the degree 3)
    to the power of twice the length, since its sum over the reflected elements takes one that was
    overwritten; from 14 elements on the values are equal.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: spline_filter1d(x)[1])(fg.tensor([0.0, 1.0, 0.0]))
    Tensor([-0.5,  2. , -0.5])
    """
    name = "spline_filter1d"
    image = _with_output(name, input, output)
    place = normalize_axis(integer(axis, name, "axis"), image.ndim, name)
    return spline_coefficients(image, spline_degree(name, order), place, mode_of(name, mode))


def spline_filter(
    input: ArrayLike, order: int = 3, output: DTypeLike = np.float64, mode: str = "mirror"
) -> Tensor:
    """The coefficients of the spline through the elements along all axes.

    Parameters
    ----------
    input, order, output, mode
        As for `spline_filter1d`.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> spline_filter(np.ones((2, 3)))[0]
    Tensor([1., 1., 1.])
    """
    name = "spline_filter"
    image = _with_output(name, input, output)
    degree, one_mode = spline_degree(name, order), mode_of(name, mode)
    for axis in range(image.ndim):
        image = spline_coefficients(image, degree, axis, one_mode)
    return image


def _with_output(name: str, input: ArrayLike, output: DTypeLike) -> Tensor:
    """The image in a precision; complex if it is complex."""
    image = image_of(name, input)
    if image.dtype.kind == "c" and not isinstance(output, np.ndarray | Tensor):
        output = np.result_type(np.dtype(output), np.complex64)
    return image_of(name, image, output)


def spline_degree(name: str, order: object) -> int:
    """Check the degree of a spline.

    Raises
    ------
    ArgumentError
        It is not between 0 and 5.
    """
    degree = integer(order, name, "order")
    if not 0 <= degree <= 5:
        raise ArgumentError(f"{name}: the order is from 0 to 5, not {degree}.")
    return degree


def spline_coefficients(x: Tensor, degree: int, axis: int, mode: str) -> Tensor:
    """The coefficients of a spline along one axis."""
    size = x.shape[axis]
    if degree < 2 or size < 2 or not x.size:
        return x
    ends = {"reflect": "reflect", "grid-mirror": "reflect", "nearest": "reflect"}.get(
        mode, "wrap" if mode == "grid-wrap" else "mirror"
    )
    poles = _POLES[degree - 2]
    gain = float(np.prod([(1.0 - z) * (1.0 - 1.0 / z) for z in poles]))
    rows = fnp.moveaxis(x, axis, 0) * gain
    for pole in poles:
        rows = _backwards(_forwards(rows, pole, ends), pole, ends)
    return fnp.moveaxis(rows, 0, axis)


def _forwards(rows: Tensor, pole: float, ends: str) -> Tensor:
    """``y[i] = x[i] + pole * y[i - 1]``, where x goes on before its start."""
    size = rows.shape[0]
    places = {
        "wrap": np.r_[0, np.arange(size - 1, 0, -1)],
        "mirror": np.r_[0:size, size - 2 : 0 : -1],
        "reflect": np.r_[0, 0:size, size - 1 : 0 : -1],
    }[ends]
    return _recurrence(rows, _weighted(rows, places, pole), pole, False)


def _backwards(rows: Tensor, pole: float, ends: str) -> Tensor:
    """``y[i] = pole * (y[i + 1] - x[i])``, where y goes on behind its end."""
    size = rows.shape[0]
    if ends == "wrap":
        last = -pole * _weighted(rows, np.r_[size - 1, 0 : size - 1], pole)
    elif ends == "mirror":
        last = (rows[-1] + pole * rows[-2]) * (pole / (pole * pole - 1.0))
    else:
        last = rows[-1] * (pole / (pole - 1.0))
    return _recurrence(-pole * rows, last, pole, True)


def _weighted(rows: Tensor, places: np.ndarray[tuple[int], np.dtype[np.int64]], z: float) -> Tensor:
    """The sum of ``z ** j * rows[places[j]]``, where the places repeat for ever."""
    weights = np.zeros(rows.shape[0])
    powers = z ** np.arange(places.size) / (1.0 - z**places.size)
    np.add.at(weights, places, powers)
    # Powers below the last digit do not count: a few elements at the ends are read.
    counted = np.flatnonzero(np.abs(weights) > 1e-20)
    total = weights[counted].astype(rows.dtype).reshape(-1, *(1,) * (rows.ndim - 1))
    return fnp.sum(fnp.take(rows, counted, axis=0) * total, axis=0)


def _recurrence(rows: Tensor, edge: Tensor, pole: float, reverse: bool) -> Tensor:
    """The recurrence with a factor from a known first (or last) result on."""
    pieces = [rows[:-1], edge[None]] if reverse else [edge[None], rows[1:]]
    inputs = fnp.concatenate(pieces)
    factors = fnp.full(inputs.shape, pole, dtype=inputs.dtype)
    name = "spline_filter"
    return wrap(recurrence(operand(factors, name), operand(inputs, name), axis=0, reverse=reverse))

"""The frequencies of Fourier transforms, and their order in the result.

>>> fftfreq(4)
Tensor([ 0.  ,  0.25, -0.5 , -0.25])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import AxisLike, normalize_axis, shape_of
from funcgrad._core.users_values import checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.creation import astype
from funcgrad.numpy.manipulation import roll
from funcgrad.numpy.options import checked_device, integer, integers, placed
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike


@answering
def fftfreq(
    n: int, d: ArrayLike = 1.0, device: DeviceLike | None = None, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The frequencies of the coefficients of ``fft``, in cycles per unit of the spacing.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : array_like
        The spacing of the samples, a differentiable argument.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default the device of the spacing.
    dtype : dtype, optional
        For the array API: a real floating-point dtype, by default float64.

    Returns
    -------
    Tensor, shape (n,)

    Raises
    ------
    ShapeError
        The length is less than 1.

    Examples
    --------
    >>> fftfreq(4, d=0.5)
    Tensor([ 0. ,  0.5, -1. , -0.5])
    """
    count = length(n, "fftfreq")
    steps = np.arange(count)
    steps = np.where(steps < (count + 1) // 2, steps, steps - count)
    return _frequencies(steps, count, d, device, dtype, "fftfreq")


@answering
def rfftfreq(
    n: int, d: ArrayLike = 1.0, device: DeviceLike | None = None, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The frequencies of the coefficients of ``rfft``; parameters are as for ``fftfreq``.

    Examples
    --------
    >>> rfftfreq(4, d=0.5)
    Tensor([0. , 0.5, 1. ])
    """
    count = length(n, "rfftfreq")
    return _frequencies(np.arange(count // 2 + 1), count, d, device, dtype, "rfftfreq")


@answering
def fftshift(x: ArrayLike, axes: AxisLike = None) -> Tensor:
    """Move the frequency zero to the middle.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        By default all.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> fftshift(fftfreq(4))
    Tensor([-0.5 , -0.25,  0.  ,  0.25])
    """
    return _shifted(x, axes, 1, "fftshift")


@answering
def ifftshift(x: ArrayLike, axes: AxisLike = None) -> Tensor:
    """The inverse of ``fftshift``, which differs for odd lengths; the parameters are the same.

    Examples
    --------
    >>> ifftshift([-1.0, 0.0, 1.0])
    Tensor([ 0.,  1., -1.])
    """
    return _shifted(x, axes, -1, "ifftshift")


def length(n: Any, operation: str) -> int:
    """The length of a transform.

    Raises
    ------
    ShapeError
        It is less than 1.
    """
    count = integer(n, operation, "n")
    if count < 1:
        raise ShapeError(f"{operation}: the length has to be at least 1, but is {count}.")
    return count


def _frequencies(
    steps: np.ndarray[Any, Any],
    count: int,
    d: ArrayLike,
    device: DeviceLike | None,
    dtype: DTypeLike | None,
    name: str,
) -> Tensor:
    chosen = checked_device(device, name)
    frequencies: Tensor = tensor(steps) * (1.0 / (count * tensor(d)))
    if dtype is not None:
        kind = checked_dtype(dtype, name)
        if kind.kind != "f":
            raise DtypeError(f"{name}: frequencies are real floating numbers, not {kind}.")
        frequencies = astype(frequencies, kind)
    return placed(frequencies, chosen, name)


def _shifted(x: ArrayLike, axes: AxisLike, direction: int, name: str) -> Tensor:
    value = operand(x, name)
    shape = shape_of(value)
    signed_axes = range(len(shape)) if axes is None else integers(axes, name, "axes")
    places = tuple([normalize_axis(axis, len(shape), name) for axis in signed_axes])
    shifts = [size // 2 if direction > 0 else -(size // 2) for size in (shape[k] for k in places)]
    return roll(wrap(value), tuple(shifts), places)

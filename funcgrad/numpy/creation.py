"""Making tensors.

>>> full((2, 2), 1.5)
Tensor([[1.5, 1.5],
        [1.5, 1.5]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import ShapeLike, broadcast_shapes, dtype_of, shape_of
from funcgrad._core.trace import RAW, beside, concrete
from funcgrad._core.users_values import checked_dtype, explained, is_weak, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.structural import cast, reshape
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import (
    checked_device,
    converted,
    integer,
    natural,
    optional_dtype,
    placed,
    shape_argument,
    sized,
)
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike

# ----------------------------------------------------------------------------------- from values


def array(
    object: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    ndmin: int = 0,
    device: DeviceLike | None = None,
) -> Tensor:
    """Make a tensor from an array, a number or nested sequences: ``fg.tensor``.

    Parameters
    ----------
    object : array_like
        Nested sequences may contain tensors, also traced ones.
    dtype : dtype, optional
    copy : bool, optional
        Ignored: writable memory is copied, read-only memory is shared.
    ndmin : int
        The least number of axes; axes of size 1 are added in front.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default tensors stay where they are.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> array([1, 2], ndmin=2)
    Tensor([[1, 2]])
    """
    chosen, least = checked_device(device, "array"), integer(ndmin, "array", "ndmin")
    if least > 64:
        raise ShapeError(f"array: an array has 64 axes at most, not ndmin={least}.")
    made = placed(tensor(object, dtype), chosen, "array")
    if made.ndim >= least:
        return made
    return wrap(reshape(made, shape=(1,) * (least - made.ndim) + made.shape))


def asarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Convert an object to a tensor; a tensor is returned unchanged.

    A Python number becomes an array that is not weak: ``asarray(1.0)`` times float32 is float64. So
    does a traced Python number.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default tensors stay where they are.
    copy : bool, optional
        Ignored: writable memory is copied, read-only memory is shared.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> asarray([1.0, 2.0])
    Tensor([1., 2.])
    """
    chosen = checked_device(device, "asarray")
    return placed(tensor(a, dtype), chosen, "asarray")


def asanyarray(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    copy: bool | None = None,
) -> Tensor:
    """Convert an object to a tensor: ``asarray``, since tensors have no subclasses.

    Examples
    --------
    >>> asanyarray([1.0, 2.0])
    Tensor([1., 2.])
    """
    return asarray(a, dtype, device=device, copy=copy)


def asarray_chkfinite(a: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
    """Convert an object to a tensor; all elements have to be finite.

    Raises
    ------
    ArgumentError
        An element is infinite or NaN. (Inside ``vmap``, this is not checked.)

    Examples
    --------
    >>> asarray_chkfinite([1.0, 2.0])
    Tensor([1., 2.])
    """
    made = tensor(a, dtype)
    known = concrete(made)
    if type(known) in RAW and not np.isfinite(known).all():
        raise ArgumentError("asarray_chkfinite: the array has to be finite, but has inf or NaN.")
    return made


def ascontiguousarray(a: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
    """Convert an object to a tensor with at least one axis.

    Unlike in NumPy, the order of the elements in memory is unspecified.

    Examples
    --------
    >>> ascontiguousarray(1.0)
    Tensor([1.])
    """
    return array(a, dtype, ndmin=1)


def asfortranarray(a: ArrayLike, dtype: DTypeLike | None = None) -> Tensor:
    """Convert an object to a tensor; see ``ascontiguousarray``.

    Examples
    --------
    >>> asfortranarray([1.0, 2.0])
    Tensor([1., 2.])
    """
    return array(a, dtype, ndmin=1)


def astype(
    x: ArrayLike, dtype: DTypeLike | None, /, *, copy: bool = True, device: DeviceLike | None = None
) -> Tensor:
    """Convert the elements to another dtype.

    A complex number is converted to its real part. The derivative is 1 between floating and
    complex dtypes; there is none through integers and booleans.

    Parameters
    ----------
    x : array_like
    dtype : dtype
    copy : bool
        Ignored: tensors cannot be written to.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default the device of ``x``.

    Returns
    -------
    Tensor
        In the shape of ``x``.

    Examples
    --------
    >>> astype([1.5, -1.5], "int64")
    Tensor([ 1, -1])
    """
    chosen = checked_device(device, "astype")
    value, target = operand(x, "astype"), checked_dtype(dtype, "astype")
    if dtype_of(value) != target or is_weak(value):
        value = cast(value, dtype=target)
    return placed(wrap(value), chosen, "astype")


def copy(a: ArrayLike) -> Tensor:
    """Make a tensor from an array; a tensor is returned unchanged, since it is immutable.

    Examples
    --------
    >>> copy([1.0])
    Tensor([1.])
    """
    return tensor(a)


# -------------------------------------------------------------------------------------- constant


def made(build: Callable[..., Any], operation: str, *args: Any, **kwargs: Any) -> Tensor:
    """Call a function of NumPy that makes an array; return a tensor, and explain errors."""
    try:
        result: Tensor = wrap(build(*args, **kwargs)[()])
    except (ValueError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise explained(error, operation) from error
    return result


@answering
def zeros(
    shape: ShapeLike, dtype: DTypeLike | None = np.float64, *, device: DeviceLike | None = None
) -> Tensor:
    """Zeros of a shape, on the host or on a device.

    Examples
    --------
    >>> zeros((1, 2))
    Tensor([[0., 0.]])
    """
    return _filled(0, shape, dtype, device, "zeros")


@answering
def ones(
    shape: ShapeLike, dtype: DTypeLike | None = np.float64, *, device: DeviceLike | None = None
) -> Tensor:
    """Ones of a shape, on the host or on a device.

    Examples
    --------
    >>> ones(2, dtype="int64")
    Tensor([1, 1])
    """
    return _filled(1, shape, dtype, device, "ones")


def empty(
    shape: ShapeLike, dtype: DTypeLike | None = np.float64, *, device: DeviceLike | None = None
) -> Tensor:
    """Zeros of a shape: a tensor cannot be filled later, so nothing is left undefined.

    Examples
    --------
    >>> empty(2)
    Tensor([0., 0.])
    """
    return _filled(0, shape, dtype, device, "empty")


def _filled(
    number: int,
    shape: ShapeLike,
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    operation: str,
) -> Tensor:
    """Zeros or ones; on a device they are computed there."""
    chosen = checked_device(device, operation)
    sizes, kind = shape_argument(shape, operation), _float_dtype(dtype, operation)
    if chosen is None or chosen.backend is None:
        return made(np.ones if number else np.zeros, operation, sizes, kind)
    return wrap(broadcast_to(chosen.constant(kind.type(number)), shape=sizes))


@answering
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Tensor:
    """Fill a shape with a value, which broadcasts and can be differentiated.

    Parameters
    ----------
    shape : int or tuple of int
    fill_value : array_like
    dtype : dtype, optional
        By default the dtype of the value.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default the device of the value.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The value does not broadcast to the shape.

    Examples
    --------
    >>> full(2, 3.0)
    Tensor([3., 3.])
    """
    chosen = checked_device(device, "full")
    value, kind = operand(fill_value, "full"), optional_dtype(dtype, "full")
    if kind is not None:
        value = converted(value, kind, "full")
    wanted = shape_argument(shape, "full")
    if broadcast_shapes("full", shape_of(value), wanted) != wanted:
        raise ShapeError(f"full: a value of shape {shape_of(value)} does not fit {wanted}.")
    there = placed(tensor(value), chosen, "full") if chosen is not None else value
    return wrap(broadcast_to(there, shape=wanted))


def _float_dtype(dtype: DTypeLike | None, operation: str) -> np.dtype[Any]:
    return checked_dtype(np.float64 if dtype is None else dtype, operation)


def _like(
    x: ArrayLike, dtype: DTypeLike | None, shape: ShapeLike | None, operation: str
) -> tuple[Any, np.dtype[Any]]:
    value = operand(x, operation)
    return (
        shape_of(value) if shape is None else shape_argument(shape, operation),
        dtype_of(value) if dtype is None else checked_dtype(dtype, operation),
    )


def _alike(
    number: int,
    a: Tensor,
    dtype: DTypeLike | None,
    shape: ShapeLike | None,
    device: DeviceLike | None,
    operation: str,
) -> Tensor:
    """A number in the shape and the dtype of a traced array, on the array's device."""
    sizes, kind = _like(a, dtype, shape, operation)
    value = beside(kind.type(number), a)
    if type(value) in RAW or device is not None:
        return (ones if number else zeros)(sizes, kind, device=device)
    return full(sizes, value)


def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    shape: ShapeLike | None = None,
) -> Tensor:
    """Zeros of the shape and the dtype of an array.

    Examples
    --------
    >>> zeros_like([1.0, 2.0])
    Tensor([0., 0.])
    """
    if type(a) is not Tensor and isinstance(a, Tensor):
        return _alike(0, a, dtype, shape, device, "zeros_like")
    return zeros(*_like(a, dtype, shape, "zeros_like"), device=device)


def ones_like(
    a: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    shape: ShapeLike | None = None,
) -> Tensor:
    """Ones of the shape and the dtype of an array.

    Examples
    --------
    >>> ones_like([3, 4])
    Tensor([1, 1])
    """
    if type(a) is not Tensor and isinstance(a, Tensor):
        return _alike(1, a, dtype, shape, device, "ones_like")
    return ones(*_like(a, dtype, shape, "ones_like"), device=device)


def empty_like(
    prototype: ArrayLike,
    /,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    shape: ShapeLike | None = None,
) -> Tensor:
    """Zeros of the shape and the dtype of an array; see ``empty``.

    Examples
    --------
    >>> empty_like([3.0])
    Tensor([0.])
    """
    if type(prototype) is not Tensor and isinstance(prototype, Tensor):
        return _alike(0, prototype, dtype, shape, device, "empty_like")
    return empty(*_like(prototype, dtype, shape, "empty_like"), device=device)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    shape: ShapeLike | None = None,
) -> Tensor:
    """Fill the shape and the dtype of an array with a value, which can be differentiated.

    Examples
    --------
    >>> full_like([1.0, 2.0], 7)
    Tensor([7., 7.])
    """
    sizes, kind = _like(a, dtype, shape, "full_like")
    value = operand(fill_value, "full_like")
    if type(value) in RAW and not shape_of(value):
        value = beside(value, operand(a, "full_like"))
    return full(sizes, value, kind, device=device)


@answering
def eye(
    N: SupportsIndex,
    M: SupportsIndex | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Tensor:
    """Ones on a diagonal of a matrix, zeros elsewhere.

    Examples
    --------
    >>> eye(2)
    Tensor([[1., 0.],
            [0., 1.]])
    """
    chosen = checked_device(device, "eye")
    ones = made(np.eye, "eye", *_matrix("eye", N, M, k), _float_dtype(dtype, "eye"))
    return placed(ones, chosen, "eye")


def _matrix(operation: str, rows: object, columns: object, offset: object) -> tuple[int, int, int]:
    """The sizes of a matrix, square by default, and the offset of a diagonal."""
    count = natural(rows, operation, "N")
    other = count if columns is None else natural(columns, operation, "M")
    sized((count, other), operation)
    return count, other, integer(offset, operation, "k")


def identity(n: SupportsIndex, dtype: DTypeLike | None = None) -> Tensor:
    """The unit matrix.

    Examples
    --------
    >>> identity(1)
    Tensor([[1.]])
    """
    return eye(n, dtype=dtype)


def tri(
    N: SupportsIndex, M: SupportsIndex | None = None, k: int = 0, dtype: DTypeLike | None = None
) -> Tensor:
    """Ones on and below a diagonal of a matrix, zeros above.

    Examples
    --------
    >>> tri(2)
    Tensor([[1., 0.],
            [1., 1.]])
    """
    return made(np.tri, "tri", *_matrix("tri", N, M, k), _float_dtype(dtype, "tri"))

"""Ranges of values, and grids of positions.

>>> linspace(0.0, 1.0, 3)
Tensor([0. , 0.5, 1. ])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import broadcast_shapes, normalize_axis, shape_of
from funcgrad._core.trace import RAW, Value, concrete, on_one_device, reason
from funcgrad._core.users_values import checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.powers import power
from funcgrad._primitives.rounding import floor
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, move_axis, reshape
from funcgrad.errors import DtypeError, FunctionError, TracerError
from funcgrad.numpy.creation import astype, made
from funcgrad.numpy.options import (
    checked_device,
    choice,
    common_dtype,
    natural,
    placed,
    shape_argument,
    sized,
)
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor, wrap

if TYPE_CHECKING:
    from funcgrad._backends.devices.placement import DeviceLike


def _concrete_number(x: ArrayLike, operation: str) -> Any:
    """A concrete number, needed because the shape of a result depends on it."""
    value = operand(x, operation)
    try:
        return value if type(value) in RAW else value._reveal(operation, exact=False)
    except TracerError as error:
        raise TracerError(
            f"{operation}: the bounds have to be concrete, since the length of the result depends"
            f" on them. {reason(error, operation)}"
        ) from None


@answering
def arange(
    start: ArrayLike,
    stop: ArrayLike = None,
    step: ArrayLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
) -> Tensor:
    """Evenly spaced values from ``start`` (0 by default) up to, but excluding, ``stop``.

    Parameters
    ----------
    start, stop, step : number
        Concrete, since the length depends on them. ``start`` and ``step`` are differentiable.
    dtype : dtype, optional
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default the device of the bounds.

    Returns
    -------
    Tensor, shape (n,)

    Examples
    --------
    >>> arange(3), arange(1.0, 2.0, 0.5)
    (Tensor([0, 1, 2]), Tensor([1. , 1.5]))
    """
    chosen = checked_device(device, "arange")
    kind = None if dtype is None else checked_dtype(dtype, "arange")
    bounds = [_concrete_number(x, "arange") for x in (start, stop) if x is not None]
    if len(bounds) == 1:
        bounds = [type(bounds[0])(0) if type(bounds[0]) is float else 0, *bounds]
        start = bounds[0]
    numbers = made(np.arange, "arange", *bounds, _concrete_number(step, "arange"), kind)
    first, gap = concrete(operand(start, "arange")), concrete(operand(step, "arange"))
    if type(first) not in RAW or type(gap) not in RAW:
        numbers = astype(wrap(first + gap * np.arange(numbers.size)), numbers.dtype)
    return placed(numbers, chosen, "arange")


@answering
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: DeviceLike | None = None,
) -> Any:
    """A given number of evenly spaced values from ``start`` to ``stop``, both differentiable.

    Parameters
    ----------
    start, stop : array_like
        Bounds, which broadcast.
    num : int
        The number of values.
    endpoint : bool
        Whether ``stop`` is the last value.
    retstep : bool
        Whether to return also the spacing.
    dtype : dtype, optional
        By default float64, or wider if the bounds are; integers are rounded down.
    axis : int
        The axis of the result that holds the values.
    device : Device, str or DeviceBackend, optional
        One of ``fg.devices()``, or its name; by default the device of the bounds.

    Returns
    -------
    Tensor, or tuple of Tensor

    Examples
    --------
    >>> linspace(0.0, 3.0, 4)
    Tensor([0., 1., 2., 3.])
    """
    chosen = checked_device(device, "linspace")
    first, last = operand(start, "linspace"), operand(stop, "linspace")
    count = natural(num, "linspace", "num")
    gaps = count - 1 if endpoint else count
    shape = broadcast_shapes("linspace", shape_of(first), shape_of(last))
    sized((count, *shape), "linspace")
    working = np.result_type(common_dtype(first, last), 1.0)
    first, last = cast(first, dtype=working), cast(last, dtype=working)
    distance = last - first
    step = distance / gaps if gaps > 0 else np.float64(np.nan)
    number = np.arange(count).reshape((count,) + (1,) * len(shape)).astype(working)
    result = number * (step if gaps > 0 else distance) + first
    if endpoint and count > 1:
        result = where(number == gaps, last, result)
    kind = working if dtype is None else checked_dtype(dtype, "linspace")
    if kind.kind in "iu":
        if working.kind == "c":
            raise DtypeError(f"linspace: complex numbers do not round to {kind}.")
        result = floor(result)
    if kind != working:
        result = cast(result, dtype=kind)
    result = wrap(move_axis(result, 0, normalize_axis(axis, len(shape) + 1, "linspace")))
    result = placed(result, chosen, "linspace")
    return (result, placed(wrap(step), chosen, "linspace")) if retstep else result


@answering
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Powers of a base with evenly spaced exponents; bounds and base are differentiable.

    Examples
    --------
    >>> logspace(0.0, 2.0, 3)
    Tensor([  1.,  10., 100.])
    """
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    bases = operand(base, "logspace")
    broadcast_shapes("logspace", shape_of(bases), exponents.shape)
    result = wrap(power(bases, exponents))
    return result if dtype is None else astype(result, dtype)


@answering
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: SupportsIndex = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Tensor:
    """Values with a constant ratio from ``start`` to ``stop``, both differentiable.

    Examples
    --------
    >>> geomspace(1.0, 8.0, 4)
    Tensor([1., 2., 4., 8.])
    """
    first, last = tensor(start), tensor(stop)
    exponents = linspace(0.0, 1.0, num, endpoint)
    shape = broadcast_shapes("geomspace", first.shape, last.shape)
    t = wrap(reshape(exponents, shape=exponents.shape + (1,) * len(shape)))
    result = first * (last / first) ** t
    if endpoint and t.shape[0] > 1:
        result = wrap(where(concrete(t) == 1.0, last, result))
    result = wrap(move_axis(result, 0, normalize_axis(axis, len(shape) + 1, "geomspace")))
    return result if dtype is None else astype(result, dtype)


# ----------------------------------------------------------------------------------------- grids


def meshgrid(
    *xi: ArrayLike, indexing: Literal["xy", "ij"] = "xy", sparse: bool = False, copy: bool = True
) -> tuple[Tensor, ...]:
    """Coordinate arrays from the 1-d coordinates along each axis.

    Parameters
    ----------
    *xi : array_like
        1-d arrays, or scalars.
    indexing : {"xy", "ij"}
        Cartesian (the first two axes exchanged) or matrix order.
    sparse : bool
        Whether to keep size 1 along axes on which a result is constant.
    copy : bool
        Ignored.

    Returns
    -------
    tuple of Tensor
        An array for each axis.

    Examples
    --------
    >>> meshgrid([1.0, 2.0], [3.0])
    (Tensor([[1., 2.]]), Tensor([[3., 3.]]))
    """
    choice(indexing, ("xy", "ij"), "meshgrid", "indexing")
    values = on_one_device([operand(x, "meshgrid") for x in xi], "meshgrid")
    places = list(range(len(values)))
    if indexing == "xy" and len(values) > 1:
        places[:2] = (1, 0)
    flat: list[Value] = []
    for place, value in zip(places, values, strict=True):
        shape = [1] * len(values)
        shape[place] = int(np.prod(shape_of(value)))
        flat.append(reshape(value, shape=tuple(shape)))
    if sparse:
        return tuple([wrap(x) for x in flat])
    full_shape = broadcast_shapes("meshgrid", *[shape_of(x) for x in flat])
    return tuple([wrap(broadcast_to(x, shape=full_shape)) for x in flat])


def indices(
    dimensions: Sequence[SupportsIndex], dtype: DTypeLike | None = int, sparse: bool = False
) -> Any:
    """For each axis of a shape, the position of every element along it.

    Examples
    --------
    >>> indices((1, 2))
    Tensor([[[0, 0]],
           [[0, 1]]])
    """
    shape = shape_argument(dimensions, "indices")
    kind = checked_dtype(dtype, "indices")
    if sparse:
        return tuple([wrap(grid) for grid in np.indices(shape, kind, sparse=True)])
    return made(np.indices, "indices", shape, kind)


def fromfunction(
    function: Callable[..., Any],
    shape: Sequence[SupportsIndex],
    *,
    dtype: DTypeLike | None = float,
    **kwargs: Any,
) -> Any:
    """Call a function once with the positions of all elements, an array for each axis.

    Examples
    --------
    >>> fromfunction(lambda i, j: 10 * i + j, (2, 2))
    Tensor([[ 0.,  1.],
            [10., 11.]])
    """
    if not callable(function):
        raise FunctionError(f"fromfunction: expected a function, got {type(function).__name__}.")
    grids = indices(shape, dtype)
    return function(*grids, **kwargs)

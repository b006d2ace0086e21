"""Reductions over axes: sums, products, extrema, ``any``, ``all`` and positions.

Each takes ``axis`` (an integer, a tuple of integers, or None for all axes) and ``keepdims``
(whether to keep the reduced axes, with size 1). With ``where``, a mask that broadcasts, only
elements for which it is true count. The others have no gradient, so an infinity among them does no
harm.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import (
    AxisLike,
    broadcast_shapes,
    dtype_of,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    shape_of,
)
from funcgrad._core.trace import Raw, Value, bind
from funcgrad._core.users_values import ArrayLike, checked_dtype, explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import reduction as rd
from funcgrad._primitives import selection as sel
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.cumulative import reduce_prod
from funcgrad._primitives.structural import cast, flat
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.options import converted, initial_value
from funcgrad.tensor.tensor import Tensor, apply2, wrap

_EVERY: Final = tuple([tuple(range(rank)) for rank in range(65)])
"""Tuples of all axes, by the number of axes, which is at most 64 in NumPy."""


def reduced(
    primitive: Primitive, a: ArrayLike, axis: AxisLike, keepdims: bool, **params: Hashable
) -> Tensor:
    """Apply a reduction to a user's arguments."""
    x = a._value if type(a) is Tensor else operand(a, primitive.name)
    rank = len(shape_of(x))
    axes = _EVERY[rank] if axis is None else normalize_axes(axis, rank, primitive.name)
    try:
        value = bind(primitive, (x,), {"axis": axes, "keepdims": bool(keepdims), **params})
    except (ValueError, TypeError, OverflowError) as error:
        raise explained(error, primitive.name, x, axis=axis) from error
    return wrap(value)


def prepared(
    a: ArrayLike, name: str, dtype: DTypeLike | None, where: ArrayLike | None, fill: Raw
) -> Value:
    """Convert the elements, and replace elements that do not count by ``fill``."""
    x = operand(a, name)
    if dtype is not None:
        kind = checked_dtype(dtype, name)
        x = x if dtype_of(x) == kind else cast(x, dtype=kind)
    return x if where is None else masked(x, where, fill, name)


def in_dtype(result: Value, dtype: DTypeLike | None) -> Tensor:
    """A sum or product in the requested dtype; small integers widen by default."""
    if dtype is None or dtype_of(result) == dtype:
        return wrap(result)
    return wrap(cast(result, dtype=np.dtype(dtype)))


def masked(x: Value, where: ArrayLike, fill: Raw, name: str) -> Value:
    """Replace the elements that do not count by ``fill``."""
    mask = as_mask(where, name)
    broadcast_shapes(f"{name} with where", shape_of(x), shape_of(mask))
    return sel.where(mask, x, fill)


def as_mask(where: ArrayLike, name: str) -> Value:
    """A mask of the elements that count.

    Raises
    ------
    DtypeError
        The mask does not consist of booleans.
    """
    mask = operand(where, name)
    if dtype_of(mask).kind != "b":
        raise DtypeError(f"{name}: where has to be of bool, not of {dtype_of(mask)}.")
    return mask


# Sums and products.


@answering
def sum(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The sum over axes.

    Parameters
    ----------
    a : array_like
    axis : int, tuple of int or None
    dtype : dtype, optional
        The dtype to convert the elements to first. By default bool and small integers become int64.
    keepdims : bool
    initial : array_like, optional
        A number that is added to the result.
    where : array_like, optional
        A mask of the elements that count.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sum([[1.0, 2.0], [3.0, 4.0]], axis=0)
    Tensor([4., 6.])
    >>> fnp.sum([1.0, fnp.nan], where=[True, False])
    Tensor(1.0)
    """
    if dtype is not None or where is not None:
        a = prepared(a, "sum", dtype, where, 0)
    total = in_dtype(reduced(rd.reduce_sum, a, axis, keepdims), dtype)
    if initial is None:
        return total
    return in_dtype(total + initial_value(initial, total.dtype, "sum"), total.dtype)


@answering
def prod(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The product over axes; 1 for empty arrays.

    The gradient is exact where elements are zero, at every order.

    Parameters
    ----------
    a : array_like
    axis : int, tuple of int or None
    dtype : dtype, optional
        The dtype to convert the elements to first. By default bool and small integers become int64.
    keepdims : bool
    initial : array_like, optional
        A number that multiplies the result.
    where : array_like, optional
        A mask of the elements that count.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fg.grad(fnp.prod)(fg.tensor([2.0, 0.0, 3.0]))
    Tensor([0., 6., 0.])
    """
    if dtype is not None or where is not None:
        a = prepared(a, "prod", dtype, where, 1)
    product = in_dtype(reduced(reduce_prod, a, axis, keepdims), dtype)
    if initial is None:
        return product
    return in_dtype(product * initial_value(initial, product.dtype, "prod"), product.dtype)


@answering
def logsumexp(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The logarithm of the sum of exponentials, without overflow.

    Parameters
    ----------
    a : array_like
        Floating-point or complex; other dtypes are converted to float64.
    axis : int, tuple of int or None
    keepdims : bool

    Returns
    -------
    Tensor
        -inf if the array is empty or all elements are -inf; the gradient is 0 there. Infinite
        elements share the gradient equally.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logsumexp([1000.0, 1000.0])
    Tensor(1000.6931)
    """
    return reduced(rd.logsumexp, a, axis, keepdims)


# Extrema.


@answering
def max(
    a: ArrayLike,
    axis: AxisLike = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The greatest element over axes; NaN if an element is NaN.

    Equal elements share the gradient equally: the subgradient of least norm.

    Parameters
    ----------
    a : array_like
    axis : int, tuple of int or None
    keepdims : bool
    initial : array_like, optional
        A lower bound of the result; required for empty arrays, and with ``where``.
    where : array_like, optional
        A mask of the elements that count.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The array is empty, and ``initial`` is not given.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.max([[1.0, 5.0], [3.0, 4.0]], axis=0)
    Tensor([3., 5.])
    >>> fg.grad(fnp.max)(fg.tensor([1.0, 2.0, 2.0]))
    Tensor([0. , 0.5, 0.5])
    """
    if initial is None and where is None:
        return reduced(rd.reduce_max, a, axis, keepdims)
    return _bounded(rd.reduce_max, sel.maximum, a, axis, keepdims, initial, where)


@answering
def min(
    a: ArrayLike,
    axis: AxisLike = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The least element over axes; NaN if an element is NaN.

    Equal elements share the gradient equally: the subgradient of least norm. Parameters are as for
    ``max``; ``initial`` is an upper bound.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.min([[1.0, 5.0], [3.0, 4.0]], axis=0)
    Tensor([1., 4.])
    """
    if initial is None and where is None:
        return reduced(rd.reduce_min, a, axis, keepdims)
    return _bounded(rd.reduce_min, sel.minimum, a, axis, keepdims, initial, where)


amax = max
amin = min


def _bounded(
    primitive: Primitive,
    choose: Primitive,
    a: ArrayLike,
    axis: AxisLike,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Tensor:
    """An extremum of the elements and ``initial``."""
    name = primitive.name
    if initial is None:
        raise ShapeError(
            f"{name}: where= may select no element; give initial= as the result for this case."
        )
    a = operand(a, name)
    bound = converted(operand(initial, name), dtype_of(a), name)
    x = prepared(a, name, None, where, bound)
    shape = shape_of(x)
    axes = normalize_axes(axis, len(shape), name)
    if 0 in [shape[a] for a in axes]:
        return wrap(broadcast_to(bound, shape=reduced_shape(shape, axes, keepdims)))
    return apply2(choose, reduced(primitive, x, axes, keepdims), bound)


@answering
def ptp(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The range over axes: the greatest element minus the least.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.ptp([1.0, 5.0, 3.0])
    Tensor(4.0)
    """
    x = operand(a, "ptp")
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


# Truth, counts and positions.


@answering
def any(
    a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> Tensor:
    """Test whether any element over axes is true (nonzero); False if there are none.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.any([[0, 1], [0, 0]], axis=1)
    Tensor([ True, False])
    """
    if where is not None:
        a = masked(wrap(operand(a, "any")) != 0, where, False, "any")
    return reduced(rd.reduce_any, a, axis, keepdims)


@answering
def all(
    a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False, where: ArrayLike | None = None
) -> Tensor:
    """Test whether all elements over axes are true (nonzero); True if there are none.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.all([[0, 1], [1, 1]], axis=1)
    Tensor([False,  True])
    """
    if where is not None:
        a = masked(wrap(operand(a, "all")) != 0, where, True, "all")
    return reduced(rd.reduce_all, a, axis, keepdims)


@answering
def count_nonzero(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """Count the nonzero elements over axes.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.count_nonzero([1.0, 0.0, 3.0])
    Tensor(2)
    """
    return reduced(rd.count_nonzero, a, axis, keepdims)


@answering
def argmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the greatest element, the first of equal ones; a NaN counts as greatest.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None means the position among all elements, row by row.
    keepdims : bool

    Returns
    -------
    Tensor
        Of integers.

    Raises
    ------
    ShapeError
        The array is empty.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.argmax([[1.0, 5.0], [3.0, 4.0]], axis=1)
    Tensor([1, 1])
    """
    return _find(rd.position_of_max, a, axis, keepdims)


@answering
def argmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the least element, the first of equal ones; see ``argmax``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.argmin([[1.0, 5.0], [3.0, 4.0]])
    Tensor(0)
    """
    return _find(rd.position_of_min, a, axis, keepdims)


def _find(primitive: Primitive, a: ArrayLike, axis: int | None, keepdims: bool) -> Tensor:
    x = operand(a, primitive.name)
    if axis is not None:
        along = normalize_axis(axis, len(shape_of(x)), primitive.name)
        return reduced(primitive, x, along, keepdims)
    position = reduced(primitive, flat(x), 0, False)
    return position.reshape((1,) * len(shape_of(x))) if keepdims else position

"""Set operations on the elements of arrays, and tests of membership.

Like ``unique``, sets need concrete arguments, since the number of members is a shape; ``isin`` does
not. The selected elements have the gradient; of equal elements, the first one.

>>> union1d([1, 3], [2, 3])
Tensor([1, 2, 3])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad._core.trace import beside, concrete
from funcgrad._core.users_values import operand
from funcgrad._primitives.sorting import is_in
from funcgrad.numpy.creation import asarray
from funcgrad.numpy.indexing import revealed, take
from funcgrad.numpy.joining import concatenate
from funcgrad.numpy.logic import logical_not
from funcgrad.numpy.manipulation import ravel
from funcgrad.numpy.sorting import unique
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, wrap


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: object = None,
) -> Tensor:
    """Test whether each element is among the test elements.

    Parameters
    ----------
    element, test_elements : array_like
        The elements, and the set; both may be traced. NaN equals no element.
    assume_unique : bool
        Ignored.
    invert : bool
        Whether to invert the result.
    kind : str, optional
        Ignored: NumPy's choice of an algorithm.

    Returns
    -------
    Tensor
        Of booleans, in the shape of ``element``.

    Examples
    --------
    >>> isin([1, 2, 3], [3, 1])
    Tensor([ True, False,  True])
    """
    is_element = apply(is_in, operand(element, "isin"), operand(test_elements, "isin"), lead=0)
    return logical_not(is_element) if invert else is_element


def in1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: object = None,
) -> Tensor:
    """Test membership like ``isin``, with a 1-d result: its old name.

    Examples
    --------
    >>> in1d([[1, 2], [3, 4]], [3, 1])
    Tensor([ True, False,  True, False])
    """
    return isin(ravel(ar1), ar2, assume_unique, invert)


def union1d(ar1: ArrayLike, ar2: ArrayLike) -> Tensor:
    """The distinct elements of two arrays, the union, in ascending order.

    Examples
    --------
    >>> union1d([3, 1], [2, 3])
    Tensor([1, 2, 3])
    """
    return unique(concatenate((ar1, ar2), axis=None))


def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The distinct elements that two arrays have in common, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
    assume_unique : bool
        Whether each array's elements are known to be distinct.
    return_indices : bool
        Whether to return also the first position of each in both arrays.

    Returns
    -------
    Tensor, or tuple of three Tensor

    Examples
    --------
    >>> intersect1d([1, 3, 4], [4, 3, 3], return_indices=True)
    (Tensor([3, 4]), Tensor([1, 2]), Tensor([1, 0]))
    """
    first, second = (operand(a, "intersect1d") for a in (ar1, ar2))
    one, other = revealed(first, "intersect1d", "ar1"), revealed(second, "intersect1d", "ar2")
    dtype = np.result_type(one, other)
    # Casts such as int64 to float64 can make distinct elements equal.
    width = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    are_distinct = all(x.dtype == dtype or x.itemsize < width for x in (one, other))
    is_unique = assume_unique and are_distinct
    one, other = one.astype(dtype), other.astype(dtype)
    _, places, others = np.intersect1d(one, other, is_unique, return_indices=True)
    common = take(first, places).astype(dtype)
    if not return_indices:
        return common
    positions = [wrap(beside(x, concrete(common))) for x in (places, others)]
    return common, *positions


def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Tensor:
    """The distinct elements of one array that another lacks, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
    assume_unique : bool
        Whether the elements are known to be distinct; then the order of ``ar1`` is kept.

    Returns
    -------
    Tensor, shape (k,)

    Examples
    --------
    >>> setdiff1d([3, 1, 2, 3], [2, 5])
    Tensor([1, 3])
    """
    members: Tensor = asarray(ar1).reshape(-1) if assume_unique else unique(ar1)
    others = revealed(operand(ar2, "setdiff1d"), "setdiff1d", "ar2")
    left = np.isin(revealed(members, "setdiff1d", "ar1"), others, invert=True)
    return take(members, np.flatnonzero(left))


def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Tensor:
    """The distinct elements that only one of two arrays has, in ascending order.

    Parameters
    ----------
    ar1, ar2 : array_like
    assume_unique : bool
        Whether each array's elements are known to be distinct.

    Returns
    -------
    Tensor, shape (k,)

    Examples
    --------
    >>> setxor1d([1, 2, 3], [2, 4])
    Tensor([1, 3, 4])
    """
    parts = [ar1, ar2] if assume_unique else [unique(ar1), unique(ar2)]
    both = concatenate(parts, axis=None)
    numbers = revealed(both, "setxor1d")
    if not numbers.size:
        return both
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    changes = np.concatenate(([True], ranked[1:] != ranked[:-1], [True]))
    return take(both, order[changes[1:] & changes[:-1]])

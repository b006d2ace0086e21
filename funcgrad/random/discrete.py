"""Discrete distributions: integers, permutations, choices. Results are differentiable only with
respect to the arrays from which elements are chosen.

>>> from funcgrad.random.keys import key
>>> permutation(key(0), 5)
Tensor([4, 0, 3, 2, 1])
"""

from __future__ import annotations

import math
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, ShapeLike, dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import (
    bits_to_exponential,
    bits_to_gumbel,
    bits_to_integer,
    search_cumulative,
)
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.random.parameters import check_broadcast, require
from funcgrad.random.philox import as_dtype, as_key, as_shape, draw, random_words, standard_uniform
from funcgrad.tensor.tensor import Tensor, apply, wrap

_DOUBLE: Final = np.dtype(np.float64)


@answering
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: ShapeLike | None = None) -> Tensor:
    """Draw booleans that are true with given probabilities.

    Parameters
    ----------
    key : key
    p : array_like
        Probabilities.
    shape : int or tuple of int, optional
        By default the shape of ``p``; ``p`` broadcasts to it.

    Returns
    -------
    Tensor of bool

    Raises
    ------
    ArgumentError
        A probability is not between 0 and 1.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> bernoulli(key(0), 0.3, 4)
    Tensor([ True, False, False, False])
    """
    require(lambda p: (p >= 0) & (p <= 1), "bernoulli", "0 <= p <= 1", p)
    probability = operand(p, "bernoulli")
    size = shape_of(probability) if shape is None else as_shape(shape, "bernoulli")
    check_broadcast(shape_of(probability), size, "bernoulli", "p")
    return standard_uniform(key, size, _DOUBLE, "bernoulli") < probability


@answering
def randint(
    key: ArrayLike,
    shape: ShapeLike,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike = np.int64,
) -> Tensor:
    """Draw integers from ``minval`` to ``maxval - 1`` with equal probability.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    minval, maxval : array_like of int
        Bounds, which broadcast to ``shape``. ``maxval`` is exclusive, so it may be one more than
        the maximum of the dtype.
    dtype : dtype
        An integer dtype, signed or not.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``minval`` is not below ``maxval``, or they do not fit the dtype.
    DtypeError
        A bound is not an integer, or ``dtype`` is not an integer dtype.

    Notes
    -----
    128 random bits are multiplied by the size of the range, so the probabilities differ by less
    than 2**-64.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> randint(key(0), 5, 1, 7)
    Tensor([1, 6, 1, 1, 4])
    """
    wanted = as_dtype(dtype, "iu", "randint", key)
    size = as_shape(shape, "randint")
    low, high = _bound(minval, "minval", size), _bound(maxval, "maxval", size)
    _check_bounds(low, high, wanted)
    start, end = _modulo(low), _modulo(high)
    pairs = random_words(key, (*size, 2), "randint")
    # For Python integers and arrays: the difference of a full range is 2**64, which wraps to 0.
    span = _modulo(high - low) if type(low) is type(high) is int else end - start
    return apply(bits_to_integer, pairs[..., 0], pairs[..., 1], start, span, dtype=wanted)


def _bound(x: ArrayLike, name: str, shape: Shape) -> Value:
    value = x if type(x) is int else operand(x, "randint")
    if type(value) is not int and dtype_of(value).kind not in "iu":
        raise DtypeError(f"randint: {name} has to be of integers, got {dtype_of(value)}.")
    check_broadcast(shape_of(value), shape, "randint", name)
    return value


def _check_bounds(low: Value, high: Value, dtype: np.dtype[Any]) -> None:
    low, high = concrete(low), concrete(high)
    limits = np.iinfo(dtype)
    for bound, name, limit in ((low, "minval", limits.max), (high, "maxval", limits.max + 1)):
        if type(bound) is int:
            least = most = bound
        elif type(bound) in RAW and np.size(bound):
            least, most = int(np.min(bound)), int(np.max(bound))
        else:
            continue
        if least < limits.min or most > limit:
            raise ArgumentError(f"randint: {name}={bound} is out of bounds for {dtype}.")
    if type(low) in RAW and type(high) in RAW and np.any(np.greater_equal(low, high)):
        raise ArgumentError(
            f"randint: minval has to be below maxval, which is exclusive; got {low} and {high}."
        )


def _modulo(x: Value) -> Tensor:
    """Modulo 2**64."""
    if type(x) is int:
        return wrap(np.uint64(x % 2**64))
    return wrap(cast(x, dtype=np.dtype(np.uint64)))


@answering
def permutation(
    key: ArrayLike, x: ArrayLike, axis: SupportsIndex = 0, independent: bool = False
) -> Tensor:
    """Permute the elements of an array, or the integers below n, at random.

    Parameters
    ----------
    key : key
    x : int or array_like
        An integer n stands for ``arange(n)``.
    axis : int
        The axis along which slices are reordered.
    independent : bool
        Whether each vector along the axis gets its own order; else slices stay together.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The array has no axes.
    ArgumentError
        The integer is negative.

    Notes
    -----
    Elements are sorted by random words of 64 bits, so the probabilities of two orders of n elements
    differ by about ``n**2 / 2**65``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> permutation(key(0), 5)
    Tensor([4, 0, 3, 2, 1])
    """
    value = operand(x, "permutation")
    if isinstance(value, (int, np.integer)):
        return _order(key, (_count(value, "permutation"),), "permutation")
    place = _axis(value, axis, "permutation")
    if independent:
        words = random_words(key, shape_of(value), "permutation")
        return fnp.take_along_axis(wrap(value), fnp.argsort(words, axis=place), axis=place)
    order = _order(key, (shape_of(value)[place],), "permutation")
    return fnp.take(wrap(value), order, axis=place)


@answering
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: SupportsIndex = 0,
) -> Tensor:
    """Choose elements of an array, or integers below n, at random.

    Parameters
    ----------
    key : key
    a : int or array_like
        An integer n stands for ``arange(n)``.
    shape : int or tuple of int
        The shape of the choices, which replaces the axis.
    replace : bool
        Whether an element may be chosen several times.
    p : array_like, optional
        A weight for each element, to which its probability is proportional; by default all are
        equal. Without replacement, each choice uses the weights of the remaining elements.
    axis : int
        The axis along which slices are chosen.

    Returns
    -------
    Tensor
        The chosen elements, differentiable with respect to ``a``.

    Raises
    ------
    ArgumentError
        There are too few elements, a weight is negative or not finite, or none is positive.
    ShapeError
        The number of weights differs from the number of elements.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> choice(key(0), 10, 3, replace=False)
    Tensor([4, 0, 6])
    >>> choice(key(0), np.array([1.5, 2.5]), 4, p=[0.2, 0.8])
    Tensor([1.5, 2.5, 2.5, 2.5])
    """
    value = operand(a, "choice")
    numbers = isinstance(value, (int, np.integer))
    if numbers:
        place, n = 0, _count(value, "choice")
    else:
        place = _axis(value, axis, "choice")
        n = shape_of(value)[place]
    size = as_shape(shape, "choice")
    count = math.prod(size)
    weights = None if p is None else _weights(p, n, 1 if replace else count)
    if count and n < (1 if replace else count):
        raise ArgumentError(
            f"choice: {count} elements cannot be chosen from {n}"
            + ("." if replace else " without replacement.")
        )
    chosen = _positions(key, n, size, count, replace, weights)
    return chosen if numbers else fnp.take(wrap(value), chosen, axis=place)


def _positions(
    key: ArrayLike, n: int, size: Shape, count: int, replace: bool, weights: Tensor | None
) -> Tensor:
    if not count:
        as_key(key, "choice")
        return wrap(np.zeros(size, np.int64))
    if replace and weights is None:
        return randint(key, size, 0, n)
    if replace:
        return apply(
            search_cumulative,
            fnp.cumsum(weights, axis=-1),
            standard_uniform(key, size, _DOUBLE, "choice"),
        )
    if weights is None:
        return fnp.reshape(_order(key, (n,), "choice")[:count], size)
    # A race of exponential clocks with the weights as rates: the first to ring is chosen with a
    # probability proportional to its weight, and the remaining ones likewise.
    clocks = draw(bits_to_exponential, key, (n,), _DOUBLE, "choice")
    return fnp.reshape(fnp.argsort(-(weights / clocks), stable=True)[:count], size)


@answering
def categorical(
    key: ArrayLike, logits: ArrayLike, axis: SupportsIndex = -1, shape: ShapeLike | None = None
) -> Tensor:
    """Draw class indices with the probabilities ``softmax(logits)``.

    Parameters
    ----------
    key : key
    logits : array_like
        Logarithms of probabilities, up to a constant. The probability of minus infinity is 0.
    axis : int
        The axis of the classes.
    shape : int or tuple of int, optional
        By default the shape of ``logits`` without the axis, which broadcasts to it.

    Returns
    -------
    Tensor of int64

    Raises
    ------
    ShapeError
        The axis of the classes is empty, or the shapes do not broadcast.
    ArgumentError
        All logits are minus infinity, so no class is possible, or one is NaN.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> categorical(key(0), np.log([0.1, 0.2, 0.7]), shape=4)
    Tensor([2, 2, 2, 2])
    """
    value = operand(logits, "categorical")
    place = _axis(value, axis, "categorical")
    classes = fnp.moveaxis(wrap(value), place, -1)
    if not classes.shape[-1]:
        raise ShapeError(f"categorical: logits of shape {shape_of(value)} have no classes.")
    raw = concrete(operand(classes, "categorical"))
    if type(raw) in RAW and not np.all(np.max(raw, axis=-1) > -np.inf):
        raise ArgumentError(
            "categorical: logits are NaN, or minus infinity for all classes, so no class can be"
            " drawn. Mask fewer classes, or find the origin of the NaN."
        )
    size = classes.shape[:-1] if shape is None else as_shape(shape, "categorical")
    check_broadcast(classes.shape[:-1], size, "categorical", "logits without the axis")
    # The argmax of the logits plus Gumbel noise: Gumbel, "Statistical theory of extreme values and
    # some practical applications", 1954.
    noise = draw(bits_to_gumbel, key, (*size, classes.shape[-1]), _DOUBLE, "categorical")
    return fnp.argmax(classes + noise, axis=-1)


def _order(key: ArrayLike, shape: Shape, operation: str) -> Tensor:
    return fnp.argsort(random_words(key, shape, operation), axis=-1, stable=True)


def _count(n: Any, operation: str) -> int:
    if n < 0 or isinstance(n, bool):
        raise ArgumentError(f"{operation}: the number of elements has to be at least 0, got {n}.")
    return int(n)


def _axis(value: Value, axis: SupportsIndex, operation: str) -> int:
    rank = len(shape_of(value))
    if not rank:
        raise ShapeError(
            f"{operation}: expected a Python integer or an array with an axis, got"
            f" {dtype_of(value)} without axes (0-d)."
        )
    return normalize_axis(axis, rank, operation)


def _weights(p: ArrayLike, n: int, needed: int) -> Tensor:
    value = operand(p, "choice")
    if shape_of(value) != (n,):
        raise ShapeError(
            f"choice: p needs one weight for each of the {n} elements; its shape is"
            f" {shape_of(value)}."
        )
    raw = concrete(value)
    if type(raw) in RAW:
        if not (np.all(np.isfinite(raw)) and np.all(np.greater_equal(raw, 0))):
            raise ArgumentError("choice: the weights p have to be finite and not negative.")
        if np.count_nonzero(raw) < needed:
            raise ArgumentError(
                f"choice: {needed} elements have to be chosen, but only"
                f" {np.count_nonzero(raw)} of the weights p are positive."
            )
    return wrap(cast(value, dtype=_DOUBLE))

"""Means, variances and related functions, with NumPy's names and signatures.

``axis``, ``keepdims`` and ``where`` are as for the other reductions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import (
    AxisLike,
    broadcast_shapes,
    dtype_of,
    is_inexact,
    normalize_axes,
    reduced_shape,
    shape_of,
)
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import ArrayLike, checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import reduction as rd
from funcgrad._primitives import selection as sel
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import cast, reshape, reverse_axes
from funcgrad._primitives.transcendental import sqrt
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.options import integer, real_number
from funcgrad.numpy.reductions import as_mask, in_dtype, masked, prepared, reduced, sum
from funcgrad.tensor.tensor import Tensor, tensor, wrap


def _counted(a: Value, where: ArrayLike, axis: AxisLike, name: str) -> Tensor:
    """The number of elements that count, with the axes kept."""
    mask, shape = as_mask(where, name), shape_of(a)
    if broadcast_shapes(f"{name} with where", shape_of(mask), shape) != shape:
        raise ShapeError(f"{name}: where, of the shape {shape_of(mask)}, does not fit {shape}.")
    mask = broadcast_to(mask, shape=shape)
    return reduced(rd.count_nonzero, mask, axis, True)


@answering
def mean(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Tensor:
    """The mean over axes; NaN for empty arrays.

    Parameters
    ----------
    a : array_like
        Integers give a float64 mean.
    axis : int, tuple of int or None
    dtype : dtype, optional
        The dtype to convert the elements to first.
    keepdims : bool
    where : array_like, optional
        A mask of the elements that count.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.mean([[1, 2], [3, 4]], axis=1)
    Tensor([1.5, 3.5])
    """
    if where is not None:
        return _mean_where(prepared(a, "mean", dtype, None, 0), axis, keepdims, where)
    if dtype is not None:
        a = prepared(a, "mean", dtype, None, 0)
    return reduced(rd.reduce_mean, a, axis, keepdims)


def _mean_where(x: Value, axis: AxisLike, keepdims: bool, where: ArrayLike) -> Tensor:
    count = _counted(x, where, axis, "mean")
    if not keepdims:
        count = _squeezed(count, x, axis)
    dtype = dtype_of(x)
    # Sums of integers would wrap around; sums in half precision would overflow.
    least = np.float32 if is_inexact(dtype) else np.float64
    total = sum(cast(x, dtype=np.promote_types(dtype, least)), axis, keepdims=keepdims, where=where)
    return in_dtype(_shared(total, count), dtype if is_inexact(dtype) else None)


def _shared(total: Tensor, count: Value) -> Tensor:
    """A quotient in the dtype of the dividend."""
    quotient = total / count
    dtype = total.dtype
    return wrap(cast(quotient, dtype=dtype)) if is_inexact(dtype) else quotient


def _squeezed(values: Tensor, x: Value, axis: AxisLike) -> Tensor:
    shape = shape_of(x)
    return values.reshape(reduced_shape(shape, normalize_axes(axis, len(shape), "mean"), False))


@answering
def var(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Tensor:
    """The variance over axes: the mean of the absolute squares of the deviations.

    Parameters
    ----------
    a : array_like
        Integers give a float64 variance, complex numbers a real one.
    axis : int, tuple of int or None
    dtype : dtype, optional
        The dtype to convert the elements to first.
    ddof, correction : float
        The sum of N squares is divided by N minus this number; both names mean the same.
    keepdims : bool
    where : array_like, optional
        A mask of the elements that count.
    mean : array_like, optional
        The mean from which deviations are taken, with the axes kept; by default it is computed.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.var([1.0, 2.0, 6.0]), fnp.var([1.0, 2.0, 6.0], correction=1)
    (Tensor(4.6667), Tensor(7.0))
    """
    lost = real_number(correction if ddof is None else ddof, "var", "ddof")
    if where is not None or mean is not None:
        x = prepared(a, "var", dtype, None, 0)
        return in_dtype(_var_where(x, axis, keepdims, where, lost, mean), _spread_dtype(dtype))
    if dtype is not None:
        a = prepared(a, "var", dtype, None, 0)
    return in_dtype(
        reduced(rd.reduce_var, a, axis, keepdims, correction=lost), _spread_dtype(dtype)
    )


def _spread_dtype(dtype: DTypeLike | None) -> Any:
    """The dtype of a variance or deviation: the requested one, if any, as in NumPy."""
    return dtype if dtype is not None and is_inexact(np.dtype(dtype)) else None


def _var_where(
    x: Value,
    axis: AxisLike,
    keepdims: bool,
    where: ArrayLike | None,
    correction: float,
    around: ArrayLike | None,
) -> Tensor:
    where = np.True_ if where is None else where
    center = _mean_where(x, axis, True, where) if around is None else tensor(around)
    apart = wrap(masked(x, where, 0, "var")) - center
    squares = (apart * wrap(conj(apart))).real if apart.dtype.kind == "c" else apart * apart
    freedom = wrap(sel.maximum(_counted(x, where, axis, "var") - correction, 0))
    total = sum(squares, axis, keepdims=keepdims, where=where)
    return _shared(total, freedom if keepdims else _squeezed(freedom, x, axis))


@answering
def std(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Tensor:
    """The standard deviation over axes: the root of the variance.

    For equal elements it is 0, and so are its gradient (the subgradient of least norm) and higher
    derivatives.

    Parameters
    ----------
    a : array_like
        Integers give a float64 deviation, complex numbers a real one.
    axis : int, tuple of int or None
    dtype : dtype, optional
        The dtype to convert the elements to first.
    ddof, correction : float
        The sum of N squares is divided by N minus this number; both names mean the same.
    keepdims : bool
    where : array_like, optional
        A mask of the elements that count.
    mean : array_like, optional
        The mean from which deviations are taken, with the axes kept; by default it is computed.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.std([1.0, 3.0])
    Tensor(1.0)
    >>> fg.grad(fnp.std)(fg.tensor([1.0, 1.0]))
    Tensor([0., 0.])
    """
    lost = real_number(correction if ddof is None else ddof, "std", "ddof")
    if where is not None or mean is not None:
        x = prepared(a, "std", dtype, None, 0)
        variance = _var_where(x, axis, keepdims, where, lost, mean)
        positive = variance != 0  # at 0 the root has no derivative
        root = sqrt(sel.where(positive, variance, 1))
        return in_dtype(sel.where(positive, root, variance), _spread_dtype(dtype))
    if dtype is not None:
        a = prepared(a, "std", dtype, None, 0)
    return in_dtype(
        reduced(rd.reduce_std, a, axis, keepdims, correction=lost), _spread_dtype(dtype)
    )


@answering
def average(
    a: ArrayLike,
    axis: AxisLike = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The weighted mean over axes.

    Parameters
    ----------
    a : array_like
    axis : int, tuple of int or None
    weights : array_like, optional
        A weight for each element, or for each position along ``axis``; by default equal.
    returned : bool
        Whether to return the sums of the weights too.
    keepdims : bool

    Returns
    -------
    Tensor, or tuple of two

    Raises
    ------
    ShapeError
        The weights have neither the shape of ``a`` nor its sizes along ``axis``.
    ArgumentError
        The weights sum to zero. (For traced weights the mean is then NaN.)

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.average([1.0, 2.0], weights=[3.0, 1.0])
    Tensor(1.25)
    """
    x = wrap(operand(a, "average"))
    if weights is None:
        result = mean(x, axis, keepdims=keepdims)
        share = np.asarray(x.size / max(result.size, 1), result.dtype)
        total: Value = share[()]
    else:
        w = _weights(operand(weights, "average"), x.shape, axis)
        least = (np.float64,) * (x.dtype.kind in "biu")
        kind = np.result_type(x.dtype, w.dtype, *least)
        total = sum(w, axis, kind, keepdims=keepdims)
        _check_total(total)
        weighted = wrap(cast(x, dtype=kind)) * wrap(cast(w, dtype=kind))
        result = sum(weighted, axis, keepdims=keepdims) / total
    if not returned:
        return result
    return result, wrap(broadcast_to(total, shape=result.shape))


def _check_total(total: Tensor) -> None:
    """Raise an error if weights are known to sum to zero."""
    raw = concrete(total)
    if type(raw) in RAW and np.any(raw == 0):
        raise ArgumentError("average: the weights sum to zero, so the mean does not exist.")


def _weights(weights: Value, shape: tuple[int, ...], axis: AxisLike) -> Tensor:
    """Weights in the shape of the elements."""
    weights_shape = shape_of(weights)
    if weights_shape == shape:
        return wrap(weights)
    axes = normalize_axes(axis, len(shape), "average")
    if axis is None or weights_shape != tuple([shape[a] for a in axes]):
        raise ShapeError(
            f"average: weights of the shape {weights_shape} do not fit an array of the shape"
            f" {shape} with axis={axis!r}: they need the array's shape, or its sizes along axis."
        )
    order = sorted(range(len(axes)), key=axes.__getitem__)
    ordered = wrap(weights).transpose(*order) if len(order) > 1 else wrap(weights)
    spread = tuple([n if i in axes else 1 for i, n in enumerate(shape)])
    return wrap(broadcast_to(ordered.reshape(spread), shape=shape))


def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """The covariance matrix of variables, estimated from observations.

    Parameters
    ----------
    m : array_like, shape (variables, observations) or (observations,)
    y : array_like, optional
        Further variables.
    rowvar : bool
        Whether rows are variables, rather than columns.
    bias : bool
        Whether to divide by the number N of observations rather than by N - 1.
    ddof : int, optional
        The number to subtract from the number of observations, in place of ``bias``.
    fweights, aweights : array_like, shape (observations,), optional
        The number of times each observation was made, and its weight.
    dtype : dtype, optional
        The dtype of the result; float64 or complex128 by default.

    Returns
    -------
    Tensor
        Shape (variables, variables); 0-d for one variable.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    Tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    x = _variables(m, rowvar)
    if y is not None:
        more = _variables(y, rowvar)
        if shape_of(more)[1] != shape_of(x)[1]:
            raise ShapeError(
                "cov: the variables have to have as many observations; there are"
                f" {shape_of(x)[1]} of one, and {shape_of(more)[1]} of y."
            )
        x = concatenate(x, more, axis=0)
    subtracted = (0 if bias else 1) if ddof is None else integer(ddof, "cov", "ddof")
    weights, lost = _observation_weights(fweights, aweights, shape_of(x)[1])
    if weights is None:
        apart = weighted = wrap(x) - mean(x, 1, keepdims=True)
        divisor: Value = np.float64(shape_of(x)[1] - subtracted)
    else:
        total = sum(weights)
        apart = wrap(x) - (sum(wrap(x) * weights, 1) / total).reshape(-1, 1)
        weighted = apart * weights
        divisor = total - subtracted * lost
    adjoint = reverse_axes(wrap(conj(weighted)) if weighted.dtype.kind == "c" else weighted)
    matrix = wrap(matmul(apart, adjoint)) / wrap(sel.maximum(divisor, 0))
    covariance = matrix.reshape(()) if matrix.shape == (1, 1) else matrix
    return covariance if dtype is None else in_dtype(covariance, checked_dtype(dtype, "cov"))


def _observation_weights(
    fweights: ArrayLike | None, aweights: ArrayLike | None, count: int
) -> tuple[Tensor | None, Any]:
    """The product of both kinds of weights, and the degrees of freedom of the mean."""
    frequencies = None if fweights is None else _checked_weights(fweights, "fweights", "biu", count)
    if aweights is None:
        return frequencies, 1
    importances = _checked_weights(aweights, "aweights", "biuf", count)
    weights = importances if frequencies is None else frequencies * importances
    return weights, sum(weights * importances) / sum(weights)


def _checked_weights(weights: ArrayLike, argument: str, kinds: str, count: int) -> Tensor:
    value = operand(weights, "cov")
    if dtype_of(value).kind not in kinds:
        what = "real" if "f" in kinds else "integers"
        raise DtypeError(f"cov: {argument} have to be {what}, not of {dtype_of(value)}.")
    if shape_of(value) != (count,):
        raise ShapeError(
            f"cov: {argument} of the shape {shape_of(value)} do not fit {count} observations."
        )
    return wrap(value)


def _variables(m: ArrayLike, rowvar: bool) -> Value:
    """Rows of observations, in double precision, since deviations are small differences."""
    x = operand(m, "cov")
    rank = len(shape_of(x))
    if rank > 2:
        raise ShapeError(f"cov: the observations have {rank} axes; there can be two at most.")
    x = cast(x, dtype=np.promote_types(dtype_of(x), np.float64))
    if rank < 2:
        return reshape(x, shape=(1, *(shape_of(x) or (1,))))
    return x if rowvar else reverse_axes(x)


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Tensor:
    """The correlation coefficients of variables, estimated from observations.

    Parameters
    ----------
    x : array_like, shape (variables, observations) or (observations,)
    y : array_like, optional
        Further variables.
    rowvar : bool
        Whether rows are variables, rather than columns.
    dtype : dtype, optional
        The dtype of the result; float64 or complex128 by default.

    Returns
    -------
    Tensor
        Shape (variables, variables); 0-d for one variable. From -1 to 1, up to rounding.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.corrcoef([1.0, 2.0, 3.0], [3.0, 2.0, 1.0])
    Tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    matrix = cov(x, y, rowvar, dtype=dtype)
    if not matrix.ndim:
        return matrix / matrix
    variances = matrix.diagonal()
    deviations = wrap(sqrt(variances.real if variances.dtype.kind == "c" else variances))
    return matrix / deviations[:, None] / deviations

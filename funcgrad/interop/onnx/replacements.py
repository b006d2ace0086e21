"""Operations without an ONNX operator, composed of others: elimination, norms, convolutions.

The functions here are staged, and the resulting operations are exported.

>>> np.asarray(_solutions(np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([[2.0], [3.0]])))
array([[2.],
       [1.]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape
from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
from funcgrad._primitives.convolution import convolve, correlate, spread
from funcgrad._primitives.convolving import places_of
from funcgrad._primitives.determinants import cofactors
from funcgrad._primitives.norms import directed, length
from funcgrad._primitives.sliding import overlapped, sliding_windows
from funcgrad._primitives.special_functions.gammas import gammaln, psi
from funcgrad.interop.onnx.series import digamma, log_gamma
from funcgrad.tensor.tensor import Tensor, apply

_MOST_COFACTORS: Final = 8
"""The number of rows up to which the number of minors is moderate."""


def _row(matrix: Any, chosen: Any) -> Any:
    """The row of a matrix where a boolean vector is true."""
    return fnp.sum(fnp.where(chosen[..., :, None], matrix, 0), axis=-2)


def _eliminated(a: Any, b: Any) -> tuple[Any, Any]:
    """Gaussian elimination with pivoting: the upper triangle, the reduced b, and the sign.

    Golub and Van Loan, Matrix Computations, 3.4.
    """
    size = a.shape[-1]
    places = np.arange(size)
    stack = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    both = fnp.concatenate(
        [
            fnp.broadcast_to(a, (*stack, *a.shape[-2:])),
            fnp.broadcast_to(b, (*stack, *b.shape[-2:])),
        ],
        axis=-1,
    )
    columns = np.arange(both.shape[-1])

    def step(carry: Any, k: Any) -> tuple[Any, None]:
        whole, sign = carry
        column = fnp.sum(fnp.where(columns == k, whole, 0), axis=-1)
        pivot = fnp.argmax(fnp.where(places >= k, abs(column), -1.0), axis=-1)
        at_pivot, at_k = places == pivot[..., None], places == k
        upper, lower = _row(whole, at_pivot), _row(whole, fnp.broadcast_to(at_k, at_pivot.shape))
        whole = fnp.where(at_pivot[..., None], lower[..., None, :], whole)
        whole = fnp.where(at_k[:, None], upper[..., None, :], whole)
        column = fnp.sum(fnp.where(columns == k, whole, 0), axis=-1)
        divisor = _entry(upper, columns == k)[..., None]
        factor = fnp.where((places > k) & (divisor != 0), column / divisor, 0)
        sign = fnp.where(pivot == k, sign, -sign)
        return (whole - factor[..., None] * upper[..., None, :], sign), None

    (whole, sign), _ = scan(step, (both, fnp.ones(stack, both.dtype)), places)
    return whole, sign


def _entry(row: Any, chosen: Any) -> Any:
    return fnp.sum(fnp.where(chosen, row, 0), axis=-1)


def _solutions(a: Any, b: Any) -> Any:
    """Solve a x = b for a stack of matrices."""
    size, places = a.shape[-1], np.arange(a.shape[-1])
    whole, _ = _eliminated(a, b)
    upper, right = whole[..., :size], whole[..., size:]

    def step(x: Any, k: Any) -> tuple[Any, None]:
        row = _row(upper, fnp.broadcast_to(places == k, upper.shape[:-1]))
        known = (row[..., None, :] @ x)[..., 0, :]
        wanted = _row(right, fnp.broadcast_to(places == k, right.shape[:-1]))
        value = (wanted - known) / _entry(row, places == k)[..., None]
        return x + fnp.where((places == k)[:, None], value[..., None, :], 0), None

    x, _ = scan(step, fnp.zeros_like(right), places, reverse=True)
    return x


def _square_root(a: Any) -> Any:
    """The Cholesky factor of a stack of symmetric matrices, column by column."""
    size, places = a.shape[-1], np.arange(a.shape[-1])

    def step(factor: Any, k: Any) -> tuple[Any, None]:
        row = _row(factor, fnp.broadcast_to(places == k, factor.shape[:-1]))
        column = _row(a, fnp.broadcast_to(places == k, a.shape[:-1]))
        left = column - (factor @ row[..., None])[..., 0]
        root = fnp.sqrt(_entry(left, places == k))
        entries = fnp.where(places >= k, left / root[..., None], 0)
        return factor + entries[..., None] * (places == k), None

    factor, _ = scan(step, fnp.zeros_like(a), places)
    return factor if size else a


def _dense(bands: Any, lower: int, upper: int) -> Any:
    """The matrix whose diagonals are the rows of ``bands``, see ``Factorization``."""
    size = bands.shape[-1]
    rows, columns = np.indices((size, size))
    places = upper + rows - columns
    inside = (places >= 0) & (places <= lower + upper)
    entries = bands[..., np.where(inside, places, 0), columns]
    return fnp.where(inside, entries, 0)


def from_factors(factorization: Factorization, a: Any, *others: Any) -> Any:
    """The results from triangular factors of a; ``NotImplemented`` for other factors."""
    if factorization.bands is not None:
        a = _dense(a, *factorization.bands)
    if factorization.factors is Factors.SQUARE_ROOT:
        a = fnp.tril(a) if factorization.lower else fnp.triu(a)
        other = fnp.tril(a, -1) if factorization.lower else fnp.triu(a, 1)
        a = a + fnp.swapaxes(other, -1, -2)
    elif factorization.factors is Factors.TRIANGLE:
        a = fnp.tril(a) if factorization.lower else fnp.triu(a)
        if factorization.unit_diagonal:
            a = fnp.where(np.eye(a.shape[-1], dtype=bool), 1, a)
    size = a.shape[-1]
    match factorization.makes:
        case FromFactors.SOLUTIONS:
            return _solutions(a, *others)
        case FromFactors.INVERSE:
            return _solutions(a, np.eye(size, dtype=a.dtype))
        case FromFactors.FACTOR if factorization.factors is Factors.SQUARE_ROOT:
            factor = _square_root(a)
            return factor if factorization.lower else fnp.swapaxes(factor, -1, -2)
        case FromFactors.DETERMINANT | FromFactors.LOGARITHM:
            sign, pivots = _pivots(a)
            if factorization.makes is FromFactors.DETERMINANT:
                return sign * fnp.prod(pivots, axis=-1)
            sizes = fnp.sum(fnp.log(abs(pivots)), axis=-1)
            return sign * fnp.prod(fnp.sign(pivots), axis=-1), sizes
    return NotImplemented


def _pivots(a: Tensor) -> tuple[Tensor, Tensor]:
    """The sign of the row swaps, and the diagonal of the upper triangle."""
    size = a.shape[-1]
    whole, sign = _eliminated(a, fnp.zeros((size, 0), a.dtype))
    return sign, fnp.sum(fnp.where(np.eye(size, dtype=bool), whole, 0), axis=-1)


def _cofactors(x: Tensor, d: Tensor, failed: str = "raise") -> Tensor:
    """The minors without a row and a column, of singular matrices too."""
    size = x.shape[-1]
    if size > _MOST_COFACTORS:
        return NotImplemented
    if size < 2:
        return fnp.ones_like(x)
    others = np.array([[k for k in range(size) if k != place] for place in range(size)])
    rows, columns = others[:, None, :, None], others[None, :, None, :]
    sign, pivots = _pivots(x[..., rows, columns])
    place = np.arange(size)
    turned = np.where((place[:, None] + place) % 2, -1, 1).astype(x.dtype)
    return sign * turned * fnp.prod(pivots, axis=-1)


# -------------------------------------------------------------------------------------- lengths


def _greatest(x: Any, axis: tuple[int, ...]) -> Any:
    """The greatest absolute value along axes; 1 if it is 0, infinite or NaN."""
    greatest = fnp.max(abs(x), axis=axis, keepdims=True, initial=0.0)
    return fnp.where((greatest > 0) & (greatest < np.inf), greatest, 1)


def _length(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    scale = _greatest(x, axis)
    size = scale * fnp.sqrt(fnp.sum((x / scale) ** 2, axis=axis, keepdims=True))
    return size if keepdims else fnp.squeeze(size, axis=axis)


def _directed(c: Any, x: Any, axis: tuple[int, ...]) -> Any:
    scaled = x / _greatest(x, axis)
    size = fnp.sqrt(fnp.sum(scaled**2, axis=axis, keepdims=True))
    return scaled / fnp.where(size == 0, 1, size) * c


# --------------------------------------------------------------------------------- convolutions


def _columns(x: Any, sizes: Shape, strides: Shape, dilations: Shape, groups: int) -> Any:
    """Windows as the columns of a matrix for each example and group."""
    windows = apply(sliding_windows, x, sizes=sizes, strides=strides, dilations=dilations)
    rows = x.shape[1] // groups * prod(sizes)
    return fnp.reshape(windows, (x.shape[0], groups, rows, -1 if windows.size else 0))


def _convolved(x: Any, kernel: Any, strides: Shape, dilations: Shape, groups: int) -> Any:
    sizes = kernel.shape[2:]
    columns = _columns(x, sizes, strides, dilations, groups)
    rows = fnp.reshape(kernel, (groups, kernel.shape[0] // groups, columns.shape[2]))
    places = places_of(x.shape, sizes, strides, dilations)
    return fnp.reshape(rows @ columns, (x.shape[0], kernel.shape[0], *places))


def _spread(
    y: Any, kernel: Any, shape: Shape, strides: Shape, dilations: Shape, groups: int
) -> Any:
    batch, count, *places = y.shape
    sizes = kernel.shape[2:]
    rows = fnp.reshape(kernel, (groups, count // groups, kernel.shape[1] * prod(sizes)))
    columns = fnp.swapaxes(rows, 1, 2) @ fnp.reshape(
        y, (batch, groups, count // groups, prod(places))
    )
    windows = fnp.reshape(columns, (batch, groups * kernel.shape[1], *sizes, *places))
    return apply(overlapped, windows, shape=shape, strides=strides, dilations=dilations)


def _correlated(x: Any, y: Any, sizes: Shape, strides: Shape, dilations: Shape, groups: int) -> Any:
    columns = _columns(x, sizes, strides, dilations, groups)
    batch, count, *places = y.shape
    rows = fnp.reshape(y, (batch, groups, count // groups, prod(places)))
    sums = fnp.einsum("ngop,ngkp->gok", rows, columns)
    return fnp.reshape(sums, (count, x.shape[1] // groups, *sizes))


REPLACEMENTS: Final[Mapping[Primitive, Callable[..., Any]]] = MappingProxyType(
    {
        cofactors: _cofactors,
        convolve: _convolved,
        correlate: _correlated,
        directed: _directed,
        gammaln: log_gamma,
        length: _length,
        psi: digamma,
        spread: _spread,
    }
)
"""Operations that declare no structure, as functions of their operands and parameters."""

"""Matrices built from a few elements, or from their size, under SciPy's names.

Matrices built from elements accept stacks and have derivatives. Matrices of a size are constants;
SciPy computes them, except ``dft``.

>>> circulant([1.0, 2.0, 3.0])
Tensor([[1., 3., 2.],
        [2., 1., 3.],
        [3., 2., 1.]])
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.users_values import checked_dtype
from funcgrad._primitives.matrix_equations import scipy_linalg
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import choice, integer, natural
from funcgrad.scipy.linalg.composed import toeplitz, where_true
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor

# ------------------------------------------------------------------------ built from elements


def circulant(c: ArrayLike) -> Tensor:
    """A matrix whose columns are rotations of the first one: ``c[(i - j) % n]``.

    Parameters
    ----------
    c : array_like, shape (..., n)

    Returns
    -------
    Tensor, shape (..., n, n)

    Examples
    --------
    >>> circulant([1.0, 2.0])
    Tensor([[1., 2.],
            [2., 1.]])
    """
    column = fnp.atleast_1d(c)
    n = np.arange(column.shape[-1])
    return column[..., (n[:, None] - n) % max(len(n), 1)]


def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """A matrix with constant antidiagonals, from its first column and its last row.

    Parameters
    ----------
    c : array_like, shape (..., m)
    r : array_like, shape (..., n), optional
        The last row, whose first element is ignored; zeros by default.

    Returns
    -------
    Tensor, shape (..., m, n)

    Examples
    --------
    >>> hankel([1.0, 2.0], [9.0, 3.0, 4.0])
    Tensor([[1., 2., 3.],
            [2., 3., 4.]])
    """
    column = fnp.atleast_1d(c)
    row = fnp.zeros_like(column) if r is None else fnp.atleast_1d(r)
    if 0 in (column.shape[-1], row.shape[-1]):
        return toeplitz(column, row)  # empty
    turned = toeplitz(column[..., ::-1], fnp.concatenate([column[..., -1:], row[..., 1:]], -1))
    return turned[..., ::-1, :]


def companion(a: ArrayLike) -> Tensor:
    """The matrix whose characteristic polynomial has given coefficients, the highest first.

    Parameters
    ----------
    a : array_like, shape (..., n)

    Returns
    -------
    Tensor, shape (..., n - 1, n - 1)

    Raises
    ------
    ShapeError
        There are fewer than two coefficients.

    Examples
    --------
    >>> companion([2.0, 4.0, 6.0])
    Tensor([[-2., -3.],
            [ 1.,  0.]])
    """
    top = _coefficients(a, "companion")
    below = np.eye(top.shape[-1] - 1, top.shape[-1])
    lower = fnp.broadcast_to(below, (*top.shape[:-1], *below.shape))
    return fnp.concatenate([top[..., None, :], fnp.astype(lower, top.dtype)], -2)


def _coefficients(a: ArrayLike, operation: str) -> Tensor:
    """The coefficients of the monic polynomial, without the leading 1, negated."""
    numbers = fnp.atleast_1d(a)
    if numbers.shape[-1] < 2:
        raise ShapeError(
            f"{operation}: a polynomial needs two coefficients; the shape is {numbers.shape}."
        )
    return numbers[..., 1:] / (-1.0 * numbers[..., :1])  # unsigned ones have no signs


def fiedler_companion(a: ArrayLike) -> Tensor:
    """A companion matrix with five diagonals, of Fiedler's kind.

    Parameters
    ----------
    a : array_like, shape (..., n)
        Coefficients, the highest first.

    Returns
    -------
    Tensor, shape (..., n - 1, n - 1)

    Notes
    -----
    Fiedler, "A note on companion matrices", 2003.

    Examples
    --------
    >>> fiedler_companion([1.0, -6.0, 11.0, -6.0])
    Tensor([[  6., -11.,   1.],
            [  1.,   0.,   0.],
            [  0.,   6.,   0.]])
    """
    c = _coefficients(a, "fiedler_companion")
    n = c.shape[-1]
    # The index of the coefficient in each place; 1 and 0 follow the coefficients.
    place = np.full((n, n), n + 1)
    row = np.arange(n)
    place[row[3::2], row[3::2] - 2] = place[row[:-2:2], row[:-2:2] + 2] = n
    place[row[2::2], row[2::2] - 1] = row[2::2]
    place[row[:-1:2], row[:-1:2] + 1] = row[:-1:2] + 1
    place[0, 0], place[1:2, 0] = 0, n
    ends = np.broadcast_to(np.array([1.0, 0.0]), (*c.shape[:-1], 2))
    return fnp.concatenate([c, fnp.astype(ends, c.dtype)], -1)[..., place]


def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Tensor:
    """The matrix that multiplies a vector of n elements as ``convolve(a, v, mode)`` does.

    Parameters
    ----------
    a : array_like, shape (..., m)
    n : int
        At least 1.
    mode : {"full", "same", "valid"}

    Returns
    -------
    Tensor, shape (..., k, n)

    Raises
    ------
    ArgumentError
        ``n`` is less than 1, ``a`` is empty, or ``mode`` is not one of these words.

    Examples
    --------
    >>> convolution_matrix([1.0, 2.0], 2)
    Tensor([[1., 0.],
            [2., 1.],
            [0., 2.]])
    """
    numbers, n = fnp.atleast_1d(a), integer(n, "convolution_matrix", "n")
    m = numbers.shape[-1]
    choice(mode, ("full", "same", "valid"), "convolution_matrix", "mode")
    if n < 1 or not m:
        raise ArgumentError(
            f"convolution_matrix: n is at least 1, and a is not empty; got n={n} and {m} elements."
        )
    zeros = fnp.zeros((*numbers.shape[:-1], n - 1), dtype=numbers.dtype)
    whole = toeplitz(fnp.concatenate([numbers, zeros], -1), np.zeros(n, numbers.dtype))
    least, most = min(m, n), max(m, n)
    start = {"full": 0, "same": (least - 1) // 2, "valid": least - 1}[mode]
    size = {"full": m + n - 1, "same": most, "valid": most - least + 1}[mode]
    return whole[..., start : start + size, :]


def fiedler(a: ArrayLike) -> Tensor:
    """The matrix of ``abs(a[i] - a[j])``; the derivative is 0 where the two are equal.

    Parameters
    ----------
    a : array_like, shape (..., n)

    Returns
    -------
    Tensor, shape (..., n, n)

    Examples
    --------
    >>> fiedler([1.0, 4.0])
    Tensor([[0., 3.],
            [3., 0.]])
    """
    numbers = fnp.atleast_1d(a)
    return fnp.abs(numbers[..., :, None] - numbers[..., None, :])


def leslie(f: ArrayLike, s: ArrayLike) -> Tensor:
    """The Leslie matrix: birth rates f in the first row, survival rates s below the diagonal.

    Parameters
    ----------
    f : array_like, shape (..., n)
    s : array_like, shape (..., n - 1)

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    ShapeError
        ``s`` does not have one element less than ``f``, or ``f`` has fewer than two.

    Examples
    --------
    >>> leslie([0.1, 2.0], [0.5])
    Tensor([[0.1, 2. ],
            [0.5, 0. ]])
    """
    births, survival = fnp.atleast_1d(f), fnp.atleast_1d(s)
    n = births.shape[-1]
    if survival.shape[-1] != n - 1 or n < 2:
        raise ShapeError(
            "leslie: s has to have one element less than f, and at least one; the shapes are"
            f" {births.shape} and {survival.shape}."
        )
    below = where_true(np.eye(n - 1, n, dtype=bool), survival[..., :, None])
    births = births[..., None, :]
    lead = np.broadcast_shapes(births.shape[:-2], below.shape[:-2])
    parts = [fnp.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (births, below)]
    return fnp.concatenate(parts, -2)


def khatri_rao(a: ArrayLike, b: ArrayLike) -> Tensor:
    """The Kronecker products of the columns of two matrices, column by column.

    Parameters
    ----------
    a : array_like, shape (..., m, k)
    b : array_like, shape (..., n, k)

    Returns
    -------
    Tensor, shape (..., m * n, k)

    Raises
    ------
    ShapeError
        The numbers of columns differ, or there are fewer than two axes.

    Examples
    --------
    >>> khatri_rao([[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    Tensor([[ 3.,  8.],
            [ 5., 12.]])
    """
    first, second = fnp.asarray(a), fnp.asarray(b)
    if min(first.ndim, second.ndim) < 2 or first.shape[-1] != second.shape[-1]:
        raise ShapeError(
            "khatri_rao: a and b have to be matrices with as many columns; the shapes are"
            f" {first.shape} and {second.shape}."
        )
    both = first[..., :, None, :] * second[..., None, :, :]
    return both.reshape(*both.shape[:-3], both.shape[-3] * both.shape[-2], both.shape[-1])


# ----------------------------------------------------------------------------- built from sizes


def dft(n: int, scale: str | None = None) -> Tensor:
    """The matrix of the discrete Fourier transform: ``dft(n) @ x`` is ``fft(x)``.

    Parameters
    ----------
    n : int
    scale : {"sqrtn", "n"}, optional
        The scaling: division by the root of n, which makes it unitary, or by n.

    Returns
    -------
    Tensor, shape (n, n)

    Raises
    ------
    ArgumentError
        ``scale`` has another value.

    Examples
    --------
    >>> dft(2).real
    Tensor([[ 1.,  1.],
            [ 1., -1.]])
    """
    size = natural(n, "dft", "n")
    divisor = 1.0
    if scale is not None:
        word = choice(scale, ("sqrtn", "n"), "dft", "scale")
        divisor = math.sqrt(size) if word == "sqrtn" else float(size)
    whole = np.fft.fft(np.eye(size), axis=0) if size else np.zeros((0, 0), complex)
    return tensor(whole / (divisor or 1.0))


def hadamard(n: int, dtype: DTypeLike = int) -> Tensor:
    """The Hadamard matrix by Sylvester's construction; n is a power of two.

    Examples
    --------
    >>> hadamard(2)
    Tensor([[ 1,  1],
            [ 1, -1]])
    """
    return _constant("hadamard", n, dtype=checked_dtype(dtype, "hadamard"))


def helmert(n: int, full: bool = False) -> Tensor:
    """The orthogonal Helmert matrix; its constant first row is left out unless ``full``.

    Examples
    --------
    >>> helmert(2)
    Tensor([[ 0.70710678, -0.70710678]])
    """
    return _constant("helmert", n, full=full)


def hilbert(n: int) -> Tensor:
    """Hilbert's matrix, ``1 / (i + j + 1)``.

    Examples
    --------
    >>> hilbert(2)
    Tensor([[1.        , 0.5       ],
            [0.5       , 0.33333333]])
    """
    return _constant("hilbert", n)


def invhilbert(n: int, exact: bool = False) -> Tensor:
    """The inverse of Hilbert's matrix; ``exact`` makes integers, where they fit 64 bits.

    Examples
    --------
    >>> invhilbert(2)
    Tensor([[ 4., -6.],
            [-6., 12.]])
    """
    return _constant("invhilbert", n, exact=exact)


def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Tensor:
    """Pascal's triangle as a "symmetric", "lower" or "upper" matrix.

    Examples
    --------
    >>> pascal(3)
    Tensor([[1, 1, 1],
            [1, 2, 3],
            [1, 3, 6]], dtype=uint64)
    """
    return _constant("pascal", n, kind=kind, exact=exact)


def invpascal(n: int, kind: str = "symmetric", exact: bool = True) -> Tensor:
    """The inverse of Pascal's matrix; ``exact`` makes integers, where they fit 64 bits.

    Examples
    --------
    >>> invpascal(2)
    Tensor([[ 2, -1],
            [-1,  1]])
    """
    return _constant("invpascal", n, kind=kind, exact=exact)


def _constant(name: str, n: int, **options: object) -> Tensor:
    """SciPy's matrix, or an error with SciPy's message."""
    size = integer(n, name, "n")
    try:
        matrix = getattr(scipy_linalg(name), name)(size, **options)
    except (ValueError, TypeError, IndexError) as error:
        raise ArgumentError(f"{name}: there is no such matrix of size {size}: {error}") from None
    if matrix.dtype == object:
        raise ArgumentError(
            f"{name}: the exact integers of size {size} do not fit 64 bits. Pass exact=False."
        )
    return tensor(matrix)

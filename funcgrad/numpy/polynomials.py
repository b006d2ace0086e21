"""Polynomials by their coefficients, the highest power first.

As in NumPy, leading coefficients of products and remainders are removed if they are 0. This depends
on values: examples of ``vmap`` need results of one length. ``convolve`` keeps all coefficients.

>>> polyval([1.0, 0.0, 2.0], 3.0)
Tensor(11.0)
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.trace import on_one_device
from funcgrad._core.users_values import operand
from funcgrad.errors import ShapeError
from funcgrad.numpy.complexes import conj
from funcgrad.numpy.creation import asarray, astype, ones, zeros, zeros_like
from funcgrad.numpy.decompositions import eigvals
from funcgrad.numpy.joining import concatenate, stack
from funcgrad.numpy.options import natural
from funcgrad.numpy.reductions import all
from funcgrad.numpy.sequences import convolve
from funcgrad.numpy.sorting import sort
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor


def polyval(p: ArrayLike, x: ArrayLike) -> Tensor:
    """Evaluate a polynomial by Horner's rule; both arguments are differentiable.

    Parameters
    ----------
    p : array_like, shape (n, ...)
        The coefficients along axis 0; further axes broadcast against ``x``.
    x : array_like

    Returns
    -------
    Tensor
        Of the shape of ``x``; 0 for no coefficients.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(polyval, argnums=1)([1.0, 0.0, 2.0], 3.0)
    Tensor(6.0)
    """
    coefficients, at = tensor(p), tensor(x)
    if not coefficients.ndim:
        raise ShapeError("polyval: the coefficients need an axis, but p is a scalar.")
    value = zeros_like(at)
    for coefficient in coefficients:
        value = value * at + coefficient
    return value


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The sum of two polynomials.

    Parameters
    ----------
    a1, a2 : array_like, shapes (n,) and (m,)

    Returns
    -------
    Tensor, shape (max(n, m),)
        Leading zeros stay.

    Examples
    --------
    >>> polyadd([1.0, 2.0], [9.0, 5.0, 4.0])
    Tensor([9., 6., 6.])
    """
    first, second = _of_one_length(a1, a2, "polyadd")
    return first + second


def polysub(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The difference of two polynomials; see ``polyadd``.

    Examples
    --------
    >>> polysub([2.0, 10.0], [8.0, 10.0, 12.0])
    Tensor([-8., -8., -2.])
    """
    first, second = _of_one_length(a1, a2, "polysub")
    return first - second


def polymul(a1: ArrayLike, a2: ArrayLike) -> Tensor:
    """The product of two polynomials, without the leading zeros of the factors.

    Parameters
    ----------
    a1, a2 : array_like, shapes (n,) and (m,)
        Examples of ``vmap`` need results of one length; ``convolve`` keeps leading zeros.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> polymul([1.0, 2.0], [1.0, -2.0])
    Tensor([ 1.,  0., -4.])
    """
    first, second = (_trimmed(_coefficients(a, "polymul")) for a in (a1, a2))
    return convolve(first, second)


def polydiv(u: ArrayLike, v: ArrayLike) -> tuple[Tensor, Tensor]:
    """The quotient and the remainder of two polynomials.

    Parameters
    ----------
    u, v : array_like, shapes (n,) and (m,)
        Not empty.

    Returns
    -------
    quotient, remainder : Tensor
        The remainder lacks leading coefficients that are 0 up to rounding, except the last one.

    Examples
    --------
    >>> polydiv([3.0, 5.0, 2.0], [2.0, 1.0])
    (Tensor([1.5 , 1.75]), Tensor([0.25]))
    """
    pair = on_one_device([operand(a, "polydiv") for a in (u, v)], "polydiv")
    remainder, divisor = (_coefficients(a, "polydiv") + 0.0 for a in pair)
    if not (remainder.size and divisor.size):
        raise ShapeError("polydiv: a polynomial needs a coefficient, but got an empty array.")
    dtype = (remainder[0] + divisor[0]).dtype
    steps = remainder.size - divisor.size + 1
    scale, remainder, terms = 1.0 / divisor[0], astype(remainder, dtype), []
    for k in range(steps):
        terms.append(scale * remainder[k])
        remainder = remainder.at[k : k + divisor.size].subtract(astype(terms[-1] * divisor, dtype))
    while remainder.size > 1 and bool(abs(remainder[0]) <= 1e-8):
        remainder = remainder[1:]
    quotient = astype(tensor(terms), dtype) if terms else zeros_like(remainder, dtype, shape=1)
    return quotient, remainder


def polyder(p: ArrayLike, m: int = 1) -> Tensor:
    """The derivative of a polynomial.

    Parameters
    ----------
    p : array_like, shape (n,)
    m : int
        The order of the derivative.

    Returns
    -------
    Tensor, shape (max(n - m, 0),)

    Examples
    --------
    >>> polyder([1.0, 1.0, 1.0, 1.0])
    Tensor([3., 2., 1.])
    """
    coefficients = _coefficients(p, "polyder", 1)
    for _ in range(min(natural(m, "polyder", "m"), coefficients.size + 1)):
        coefficients = coefficients[:-1] * np.arange(coefficients.size - 1, 0, -1)
    return coefficients


def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Tensor:
    """The antiderivative of a polynomial.

    Parameters
    ----------
    p : array_like, shape (n,)
    m : int
        The order of the derivative.
    k : array_like, optional
        The constants of integration, the first one first, or one for all; by default 0.

    Returns
    -------
    Tensor, shape (n + m,)

    Raises
    ------
    ShapeError
        There are fewer constants than orders.

    Examples
    --------
    >>> polyint([3.0, 2.0, 1.0], k=7.0)
    Tensor([1., 1., 1., 7.])
    """
    order = natural(m, "polyint", "m")
    constants = zeros(order) if k is None else asarray(k).reshape(-1)
    if constants.size == 1 and order > 1:
        constants = constants * np.ones(order)
    if constants.size < order:
        raise ShapeError(f"polyint: k has {constants.size} constants, but {order} are needed.")
    coefficients = _coefficients(p, "polyint", 1)
    for place in range(order):
        coefficients = concatenate(
            (coefficients / np.arange(coefficients.size, 0, -1), constants[place : place + 1])
        )
    return coefficients


def poly(seq_of_zeros: ArrayLike) -> Tensor:
    """The polynomial with given zeros, and 1 as the coefficient of the highest power.

    Parameters
    ----------
    seq_of_zeros : array_like, shape (n,) or (n, n)
        The zeros, or a matrix whose eigenvalues are the zeros. If complex zeros come in conjugate
        pairs, the coefficients are real.

    Returns
    -------
    Tensor, shape (n + 1,)
        Without zeros the scalar 1, as in NumPy.

    Examples
    --------
    >>> poly([1.0, -2.0])
    Tensor([ 1.,  1., -2.])
    """
    array = asarray(operand(seq_of_zeros, "poly"))
    square = array.ndim == 2 and array.shape[0] == array.shape[1] > 0
    points = eigvals(array) if square else _coefficients(array, "poly", 1)
    if not points.size:
        return tensor(1.0)
    if points.dtype.char not in "fdFD":
        points = astype(points, np.float64)
    product = ones(1, points.dtype)
    for point in points:
        product = convolve(product, stack((ones((), points.dtype), -point)))
    if product.dtype.kind == "c" and bool(all(sort(points) == sort(conj(points)))):
        return product.real
    return product


def _coefficients(p: ArrayLike, operation: str, least: int = 0) -> Tensor:
    """Coefficients on one axis; if ``least`` is 0, a scalar stands for one coefficient."""
    value = asarray(operand(p, operation))
    if not least <= value.ndim <= 1:
        raise ShapeError(f"{operation}: one axis is needed, not an array of shape {value.shape}.")
    return value if value.ndim else value.reshape(1)


def _of_one_length(a1: ArrayLike, a2: ArrayLike, operation: str) -> list[Tensor]:
    """Put zeros in front of the shorter polynomial, up to the length of the other."""
    polynomials = [_coefficients(a, operation) for a in (a1, a2)]
    size = max(coefficients.size for coefficients in polynomials)
    return [
        concatenate((zeros(size - coefficients.size, coefficients.dtype), coefficients))
        if coefficients.size < size
        else coefficients
        for coefficients in polynomials
    ]


def _trimmed(p: Tensor) -> Tensor:
    """Remove leading zeros; a zero polynomial keeps one coefficient."""
    start = 0
    while start < p.size and bool(p[start] == 0):
        start += 1
    return p[start:] if start < p.size else zeros(1, p.dtype)

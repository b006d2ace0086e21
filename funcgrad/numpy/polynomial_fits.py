"""Zeros of polynomials, and polynomials that fit samples.

>>> polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).round(6)
Tensor([2., 1.])
"""

from __future__ import annotations

import warnings
from typing import Any, SupportsFloat

import numpy as np
from numpy.exceptions import RankWarning
from numpy.typing import DTypeLike

from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import explained, operand
from funcgrad._primitives.polynomial_zeros import polynomial_zeros
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.contraction import outer
from funcgrad.numpy.creation import asarray, astype, zeros
from funcgrad.numpy.diagonals import vander
from funcgrad.numpy.exponential import sqrt
from funcgrad.numpy.linear_systems import inv
from funcgrad.numpy.options import choice, complex_dtype, natural, real_number
from funcgrad.numpy.pseudoinverses import lstsq
from funcgrad.numpy.reductions import any, sum
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def roots(p: ArrayLike, *, dtype: DTypeLike | None = None) -> Tensor:
    """The zeros of a polynomial.

    Parameters
    ----------
    p : array_like, shape (n + 1,)
        The coefficients, the highest power first. Leading zeros are removed.
    dtype : complex dtype, optional
        If given, the zeros are complex for all coefficients.

    Returns
    -------
    Tensor, shape (n,)
        The zeros; they are real if the polynomial is real and all zeros are. Simple zeros have a
        derivative; at multiple zeros it is infinite or NaN, up to rounding. With the derivative q
        of the polynomial, a change dp of the coefficients moves a zero x by ``-polyval(dp, x) /
        polyval(q, x)``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> roots([1.0, -3.0, 2.0])
    Tensor([2., 1.])
    >>> fg.jacrev(roots)(fg.tensor([1.0, -3.0, 2.0])).round(6)
    Tensor([[-4., -2., -1.],
            [ 1.,  1.,  1.]])
    """
    coefficients = asarray(operand(p, "roots"))
    if coefficients.ndim != 1:
        raise ShapeError(f"roots: coefficients have to be 1-d, not of shape {coefficients.shape}.")
    if coefficients.dtype.kind not in "fc":
        coefficients = astype(coefficients, np.float64)
    first = 0
    while first < coefficients.size and bool(coefficients[first] == 0):
        first += 1
    count = coefficients.size - first - 1
    if count < 1:
        return zeros(0, dtype=dtype)
    try:
        solutions: Tensor = wrap(polynomial_zeros(coefficients, count=count))
    except (ValueError, TypeError) as error:
        raise explained(error, "roots", coefficients) from error
    if dtype is not None:
        return astype(solutions, complex_dtype(dtype, "roots"))
    is_real = coefficients.dtype.kind == "f" and not bool(any(solutions.imag != 0))
    return solutions.real if is_real else solutions


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: SupportsFloat | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """Fit a polynomial of a given degree to samples, by least squares.

    Parameters
    ----------
    x : array_like, shape (m,)
    y : array_like, shape (m,) or (m, k)
        The samples. The fit is differentiable with respect to ``x``, ``y`` and ``w``.
    deg : int
    rcond : float, optional
        Singular values below ``rcond`` times the greatest count as zero; by default m times the
        machine epsilon.
    full : bool
        Whether to return also the residuals, the rank, the singular values and ``rcond``.
    w : array_like, shape (m,), optional
        Weights of the residuals, not of their squares.
    cov : bool or "unscaled"
        Whether to return also the covariance of the coefficients, scaled by the residuals.

    Returns
    -------
    Tensor, shape (deg + 1,) or (deg + 1, k), or tuple

    Raises
    ------
    ShapeError
        Shapes do not fit, or samples are missing.
    ArgumentError
        There are too few samples for a covariance.

    Warns
    -----
    RankWarning
        The samples do not determine the polynomial.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.jacrev(lambda y: polyfit([0.0, 1.0], y, 1))(fg.tensor([1.0, 3.0])).round(6)
    Tensor([[-1.,  1.],
            [ 1.,  0.]])
    """
    count = natural(deg, "polyfit", "deg") + 1
    places, samples = (asarray(operand(a, "polyfit")) + 0.0 for a in (x, y))
    if places.ndim != 1 or not places.size or samples.ndim not in (1, 2):
        raise ShapeError(
            "polyfit: x has to be 1-d and not empty, and y 1-d or 2-d; their shapes are"
            f" {places.shape} and {samples.shape}."
        )
    if len(samples) != places.size:
        raise ShapeError(f"polyfit: {len(samples)} samples do not fit {places.size} positions.")
    precision = places.size * float(np.finfo(places.dtype).eps)
    cutoff = precision if rcond is None else real_number(rcond, "polyfit", "rcond")
    table, goal = vander(places, count), samples
    if w is not None:
        weights = asarray(operand(w, "polyfit")) + 0.0
        if weights.shape != places.shape:
            raise ShapeError(f"polyfit: weights of the shape {weights.shape} do not fit x.")
        table = table * weights[:, None]
        goal = goal * (weights if goal.ndim == 1 else weights[:, None])
    scale = sqrt(sum(table * table, 0))
    table = table / scale
    coefficients, residuals, rank, values = lstsq(table, goal, cutoff)
    coefficients = coefficients / (scale if coefficients.ndim == 1 else scale[:, None])
    known = concrete(rank)
    if type(known) in RAW and known != count and not full:
        warnings.warn("Polyfit may be poorly conditioned", RankWarning, stacklevel=2)
    if full:
        return coefficients, residuals, rank, values, cutoff
    return (coefficients, _covariance(table, scale, residuals, goal, cov)) if cov else coefficients


def _covariance(
    table: Tensor, scale: Tensor, residuals: Tensor, goal: Tensor, cov: bool | str
) -> Tensor:
    base = inv(table.T @ table) / outer(scale, scale)
    samples, count = table.shape
    factor: Tensor | float = 1.0
    if cov is True or choice(str(cov), ("unscaled", "True"), "polyfit", "cov") == "True":
        if samples <= count:
            raise ArgumentError(
                f"polyfit: a covariance needs more samples than coefficients, {count}, but there"
                f' are {samples}; give cov="unscaled".'
            )
        factor = residuals / (samples - count)
    return base * factor if goal.ndim == 1 else base[:, :, None] * factor

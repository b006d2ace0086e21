"""Loss functions. They need no SciPy."""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import penalties as _p
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2


def huber(delta: ArrayLike, r: ArrayLike, /) -> Tensor:
    """Huber's loss: ``r**2 / 2`` up to delta, and ``delta * (abs(r) - delta / 2)`` beyond.

    It is infinite for negative delta. Where the two formulas meet, their first derivatives agree;
    the second derivative there is that of the inner one.

    Examples
    --------
    >>> huber(1.0, [0.5, 3.0])
    Tensor([0.125, 2.5  ])
    """
    bound, residual = real_numbers("huber", delta, r)
    size = fnp.abs(residual)
    inner = fnp.where(size <= bound, residual, 0.0)
    outer = bound * (fnp.where(size <= bound, 0.0, size) - bound / 2)
    value = fnp.where(size <= bound, inner * inner / 2, outer)
    return fnp.where(bound < 0, fnp.inf, value)


def pseudo_huber(delta: ArrayLike, r: ArrayLike, /) -> Tensor:
    """``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``, which is smooth; infinite for negative delta.

    First and second derivatives keep their digits at any quotient of the two.

    Examples
    --------
    >>> pseudo_huber(3.0, [0.0, 4.0])
    Tensor([0., 6.])
    """
    bound, residual = real_numbers("pseudo_huber", delta, r)
    outside = bound < 0
    value = apply2(_p.pseudo_huber, fnp.where(outside, 1.0, bound), residual)
    return fnp.where(outside, fnp.inf, value)


def softplus(x: ArrayLike) -> Tensor:
    """``log(1 + exp(x))``, which neither overflows nor loses digits.

    Examples
    --------
    >>> softplus([0.0, 1000.0])
    Tensor([6.93147181e-01, 1.00000000e+03])
    """
    return fnp.logaddexp(x, 0.0)

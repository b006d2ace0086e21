"""Entropies, logistic functions and loss functions. They need no SciPy.

Arguments are real, and broadcast; integers become float64. ``xlogy`` and ``xlog1py`` take complex
arguments too.
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._primitives.activations import sigmoid as _sigmoid
from funcgrad._primitives.special_functions import entropies as _entropies
from funcgrad._primitives.special_functions import logistic as _logistic
from funcgrad._primitives.special_functions import penalties as _penalties
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def xlogy(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x * log(y)``, and 0 where ``x`` is 0 and ``y`` is not NaN.

    Where ``x`` is 0, the function does not depend on ``y``: the derivative with respect to ``y`` is
    0, also at ``y = 0``. The derivative with respect to ``x`` is ``log(y)``.

    Examples
    --------
    >>> xlogy([0.0, 2.0], [0.0, 1.0])
    Tensor([0., 0.])
    """
    return apply2(_entropies.xlogy, x, y)


def xlog1py(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x * log(1 + y)``, accurate also for small ``y``; 0 where ``x`` is 0, as ``xlogy``.

    Examples
    --------
    >>> xlog1py([0.0, 2.0], [-1.0, 1e-20])
    Tensor([0.e+00, 2.e-20])
    """
    return apply2(_entropies.xlog1py, x, y)


def entr(x: ArrayLike, /) -> Tensor:
    """``-x log(x)``; 0 at 0, and -inf below.

    The derivative is infinite at 0, the limit from above, and 0 below 0.

    Examples
    --------
    >>> entr([-1.0, 0.0, 1.0])
    Tensor([-inf,   0.,  -0.])
    """
    return apply1(_entropies.entr, x)


def rel_entr(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x log(x / y)`` for positive x and y; 0 for ``x = 0`` and ``y >= 0``; else infinite.

    Where an argument is negative, derivatives are 0. At ``x = 0`` the function is 0 for all ``y >=
    0``, so the derivative with respect to ``y`` is 0. The derivative with respect to ``x`` is -inf
    there for positive ``y``, and inf for ``y = 0``, since the function is infinite for every ``x >
    0``.

    Examples
    --------
    >>> rel_entr([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    Tensor([ 0.,  0., inf])
    """
    return apply2(_entropies.rel_entr, x, y)


def kl_div(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x log(x / y) - x + y`` for positive x and y; ``y`` for ``x = 0 <= y``; else infinite.

    At the edges, the derivatives of ``rel_entr`` plus -1 for x and 1 for y.

    Examples
    --------
    >>> kl_div([0.0, 1.0, 1.0], [2.0, 1.0, 0.0])
    Tensor([ 2.,  0., inf])
    """
    return apply2(_entropies.kl_div, x, y)


def expit(x: ArrayLike, /) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``, exact in both tails.

    Examples
    --------
    >>> expit([-1000.0, 0.0])
    Tensor([0. , 0.5])
    """
    return apply1(_sigmoid, x)


def logit(x: ArrayLike, /) -> Tensor:
    """``log(x / (1 - x))``: infinite at 0 and 1, with an infinite derivative; NaN outside.

    Examples
    --------
    >>> logit([0.0, 0.5, 1.0])
    Tensor([-inf,   0.,  inf])
    """
    return apply1(_logistic.logit, x)


def log_expit(x: ArrayLike, /) -> Tensor:
    """``log(expit(x))``, exact also if ``expit(x)`` underflows.

    Examples
    --------
    >>> log_expit([-1000.0, 1000.0])
    Tensor([-1000.,     0.])
    """
    return apply1(_logistic.log_expit, x)


def huber(delta: ArrayLike, r: ArrayLike, /) -> Tensor:
    """The Huber loss: ``r**2 / 2`` up to delta, and ``delta * (abs(r) - delta / 2)`` beyond.

    It is infinite for negative delta. Where the two formulas meet, their first derivatives agree;
    the second derivative is taken from the inner formula.

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

    First and second derivatives keep their digits for every ratio ``r / delta``.

    Examples
    --------
    >>> pseudo_huber(3.0, [0.0, 4.0])
    Tensor([0., 6.])
    """
    bound, residual = real_numbers("pseudo_huber", delta, r)
    outside = bound < 0
    value = apply2(_penalties.pseudo_huber, fnp.where(outside, 1.0, bound), residual)
    return fnp.where(outside, fnp.inf, value)


def softplus(x: ArrayLike) -> Tensor:
    """``log(1 + exp(x))``, which neither overflows nor loses digits.

    Examples
    --------
    >>> softplus([0.0, 1000.0])
    Tensor([6.93147181e-01, 1.00000000e+03])
    """
    return fnp.logaddexp(x, 0.0)

"""Products with logarithms, and entropies. They need no SciPy.

Arguments are real numbers, which broadcast; integers become float64. ``xlogy`` and ``xlog1py`` take
complex numbers too.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import entropies as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def xlogy(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x * log(y)``, and 0 where ``x`` is 0, whatever ``y`` is, unless that is NaN.

    The derivative with respect to ``y`` is 0 there too, also at ``y = 0``, since the function is
    constant in ``y``; that with respect to ``x`` is ``log(y)``.

    Examples
    --------
    >>> xlogy([0.0, 2.0], [0.0, 1.0])
    Tensor([0., 0.])
    """
    return apply2(_p.xlogy, x, y)


def xlog1py(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x * log(1 + y)``, accurate also for small ``y``; where ``x`` is 0 as ``xlogy`` is.

    Examples
    --------
    >>> xlog1py([0.0, 2.0], [-1.0, 1e-20])
    Tensor([0.e+00, 2.e-20])
    """
    return apply2(_p.xlog1py, x, y)


def entr(x: ArrayLike, /) -> Tensor:
    """``-x log(x)``; 0 at 0, and -inf below.

    At 0 the derivative is infinite, the limit from above; below 0 it is 0.

    Examples
    --------
    >>> entr([-1.0, 0.0, 1.0])
    Tensor([-inf,   0.,  -0.])
    """
    return apply1(_p.entr, x)


def rel_entr(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x log(x / y)`` for positive numbers; 0 for ``x = 0`` and ``y >= 0``; else infinite.

    Where an argument is negative derivatives are 0. At ``x = 0``, where the function is 0 for all
    ``y >= 0``, the derivative with respect to ``y`` is 0; that with respect to ``x`` is -inf for
    positive ``y``, and for ``y = 0`` inf, since the function is infinite for whatever ``x > 0``.

    Examples
    --------
    >>> rel_entr([0.0, 1.0, 1.0], [0.0, 1.0, 0.0])
    Tensor([ 0.,  0., inf])
    """
    return apply2(_p.rel_entr, x, y)


def kl_div(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x log(x / y) - x + y`` for positive numbers; ``y`` for ``x = 0 <= y``; else infinite.

    Derivatives at the edges are those of ``rel_entr``, plus -1 and 1.

    Examples
    --------
    >>> kl_div([0.0, 1.0, 1.0], [2.0, 1.0, 0.0])
    Tensor([ 2.,  0., inf])
    """
    return apply2(_p.kl_div, x, y)

"""The incomplete gamma functions and their inverses. SciPy evaluates them.

They are differentiable in both arguments, to any order. The derivatives with respect to the shape
``a`` are integrals, computed by quadrature with a relative error below 1e-12, also far out in the
tails.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import incomplete_gammas as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2


def gammainc(a: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The distribution function at ``x`` of a gamma distribution of shape ``a``.

    This is the regularized lower incomplete gamma function. The derivative with respect to ``x``,
    the density ``x**(a - 1) * exp(-x) / gamma(a)``, at 0 is 0 for a > 1, 1 for a = 1, and infinite
    below.

    Examples
    --------
    >>> gammainc(2.0, [0.0, 1.0])
    Tensor([0.        , 0.26424112])
    """
    return apply2(_p.gammainc, a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The complement ``1 - gammainc(a, x)``, with all digits where that is small.

    Examples
    --------
    >>> gammaincc(2.0, [0.0, 100.0])
    Tensor([1.00000000e+00, 3.75727674e-42])
    """
    return apply2(_p.gammaincc, a, x)


def gammaincinv(a: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``gammainc(a, x)`` is ``y``.

    The derivative with respect to ``a`` is 0 where ``y`` is 0 or 1, for which ``x`` is 0 or
    infinite whatever ``a`` is.

    Examples
    --------
    >>> gammaincinv(2.0, [0.0, 0.5])
    Tensor([0.        , 1.67834699])
    """
    return apply2(_p.gammaincinv, a, y)


def gammainccinv(a: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``gammaincc(a, x)`` is ``y``; at the ends as ``gammaincinv``.

    Examples
    --------
    >>> gammainccinv(2.0, [1.0, 0.5])
    Tensor([0.        , 1.67834699])
    """
    return apply2(_p.gammainccinv, a, y)

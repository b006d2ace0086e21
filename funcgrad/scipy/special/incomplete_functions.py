"""The incomplete gamma and beta functions and their inverses. SciPy evaluates them.

They are differentiable with respect to all arguments, to any order. The derivatives with respect to
the shapes ``a`` and ``b`` are integrals. Quadrature computes them with a relative error below
1e-12, also far out in the tails.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import incomplete_betas as _betas
from funcgrad._primitives.special_functions import incomplete_gammas as _gammas
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply2


def gammainc(a: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The regularized lower incomplete gamma function.

    It is the distribution function at ``x`` of a gamma distribution of shape ``a``. The derivative
    with respect to ``x`` is the density ``x**(a - 1) * exp(-x) / gamma(a)``: at ``x = 0`` it is 0
    for a > 1, 1 for a = 1, and infinite for a < 1.

    Examples
    --------
    >>> gammainc(2.0, [0.0, 1.0])
    Tensor([0.        , 0.26424112])
    """
    return apply2(_gammas.gammainc, a, x)


def gammaincc(a: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The complement ``1 - gammainc(a, x)``, with all digits where that is small.

    Examples
    --------
    >>> gammaincc(2.0, [0.0, 100.0])
    Tensor([1.00000000e+00, 3.75727674e-42])
    """
    return apply2(_gammas.gammaincc, a, x)


def gammaincinv(a: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``gammainc(a, x)`` is ``y``.

    Where ``y`` is 0 or 1, ``x`` is 0 or infinite for every ``a``, so the derivative with respect to
    ``a`` is 0.

    Examples
    --------
    >>> gammaincinv(2.0, [0.0, 0.5])
    Tensor([0.        , 1.67834699])
    """
    return apply2(_gammas.gammaincinv, a, y)


def gammainccinv(a: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``gammaincc(a, x)`` is ``y``; at the ends as ``gammaincinv``.

    Examples
    --------
    >>> gammainccinv(2.0, [1.0, 0.5])
    Tensor([0.        , 1.67834699])
    """
    return apply2(_gammas.gammainccinv, a, y)


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The regularized incomplete beta function.

    It is the distribution function at ``x`` of a beta distribution of shapes ``a`` and ``b``. The
    derivative with respect to ``x`` is the density ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)``:
    at ``x = 0`` it is 0 for a > 1, b for a = 1, and infinite for a < 1. At 1, exchange a and b.

    Examples
    --------
    >>> betainc(2.0, 1.0, [0.0, 0.5])
    Tensor([0.  , 0.25])
    """
    return apply(_betas.betainc, a, b, x)


def betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The complement ``1 - betainc(a, b, x)``, with all digits where that is small.

    Examples
    --------
    >>> betaincc(2.0, 1.0, [0.5, 1.0])
    Tensor([0.75, 0.  ])
    """
    return apply(_betas.betaincc, a, b, x)


def betaincinv(a: ArrayLike, b: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``betainc(a, b, x)`` is ``y``.

    Where ``y`` is 0 or 1, ``x`` is too, for all ``a`` and ``b``: derivatives with respect to them
    are 0 there.

    Examples
    --------
    >>> betaincinv(2.0, 1.0, [0.0, 0.25])
    Tensor([0. , 0.5])
    """
    return apply(_betas.betaincinv, a, b, y)


def betainccinv(a: ArrayLike, b: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``betaincc(a, b, x)`` is ``y``; at the ends as ``betaincinv``.

    Examples
    --------
    >>> betainccinv(2.0, 1.0, [1.0, 0.75])
    Tensor([0. , 0.5])
    """
    return apply(_betas.betainccinv, a, b, y)

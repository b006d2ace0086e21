"""The incomplete beta function and its inverse. SciPy evaluates them.

They are differentiable in all arguments, to any order. The derivatives with respect to the shapes
``a`` and ``b`` are integrals, computed by quadrature with a relative error below 1e-12, also far
out in the tails.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import incomplete_betas as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply


def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The distribution function at ``x`` of a beta distribution of shapes ``a`` and ``b``.

    This is the regularized incomplete beta function. The derivative with respect to ``x``, the
    density ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)``, at 0 is 0 for a > 1, b for a = 1, and
    infinite below; so it is at 1 with a and b exchanged.

    Examples
    --------
    >>> betainc(2.0, 1.0, [0.0, 0.5])
    Tensor([0.  , 0.25])
    """
    return apply(_p.betainc, a, b, x)


def betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The complement ``1 - betainc(a, b, x)``, with all digits where that is small.

    Examples
    --------
    >>> betaincc(2.0, 1.0, [0.5, 1.0])
    Tensor([0.75, 0.  ])
    """
    return apply(_p.betaincc, a, b, x)


def betaincinv(a: ArrayLike, b: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``betainc(a, b, x)`` is ``y``.

    Where ``y`` is 0 or 1 so is ``x``, whatever ``a`` and ``b`` are: derivatives with respect to
    them are 0 there.

    Examples
    --------
    >>> betaincinv(2.0, 1.0, [0.0, 0.25])
    Tensor([0. , 0.5])
    """
    return apply(_p.betaincinv, a, b, y)


def betainccinv(a: ArrayLike, b: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The ``x`` at which ``betaincc(a, b, x)`` is ``y``; at the ends as ``betaincinv``.

    Examples
    --------
    >>> betainccinv(2.0, 1.0, [1.0, 0.75])
    Tensor([0. , 0.5])
    """
    return apply(_p.betainccinv, a, b, y)

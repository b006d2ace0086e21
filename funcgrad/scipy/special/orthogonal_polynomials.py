"""Values of orthogonal polynomials, of whole degrees. SciPy evaluates them.

They are differentiable in the argument to any order. A degree that is no whole number, which SciPy
takes for some, is an error.
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import orthogonal_polynomials as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply


def eval_legendre(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Legendre's polynomial of degree n.

    Examples
    --------
    >>> eval_legendre(2, 0.5)
    Tensor(-0.125)
    """
    return apply(_p.eval_legendre, n, x)


def eval_chebyt(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the first kind, of degree n.

    Examples
    --------
    >>> eval_chebyt(2, 0.5)
    Tensor(-0.5)
    """
    return apply(_p.eval_chebyt, n, x)


def eval_chebyu(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the second kind, of degree n.

    Examples
    --------
    >>> eval_chebyu(2, 0.5)
    Tensor(0.0)
    """
    return apply(_p.eval_chebyu, n, x)


def eval_hermite(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Hermite's polynomial of degree n, with the weight ``exp(-x**2)``.

    Examples
    --------
    >>> eval_hermite(2, 1.0)
    Tensor(2.000000000000001)
    """
    return apply(_p.eval_hermite, n, x)


def eval_hermitenorm(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Hermite's polynomial of degree n, with the weight ``exp(-x**2 / 2)``.

    Examples
    --------
    >>> eval_hermitenorm(2, 2.0)
    Tensor(3.0)
    """
    return apply(_p.eval_hermitenorm, n, x)


def eval_gegenbauer(n: ArrayLike, alpha: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Gegenbauer's polynomial of degree n; it has no derivative in alpha here.

    Examples
    --------
    >>> eval_gegenbauer(2, 1.0, 0.5)
    Tensor(0.0)
    """
    return apply(_p.eval_gegenbauer, n, alpha, x)


def eval_genlaguerre(n: ArrayLike, alpha: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Laguerre's generalized polynomial of degree n; it has no derivative in alpha here.

    Examples
    --------
    >>> eval_genlaguerre(1, 1.0, 0.5)
    Tensor(1.5)
    """
    return apply(_p.eval_genlaguerre, n, alpha, x)


def eval_jacobi(n: ArrayLike, alpha: ArrayLike, beta: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Jacobi's polynomial of degree n; it has no derivative in alpha and beta here.

    Examples
    --------
    >>> eval_jacobi(1, 1.0, 1.0, 0.5)
    Tensor(1.0)
    """
    return apply(_p.eval_jacobi, n, alpha, beta, x)


def eval_laguerre(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Laguerre's polynomial of degree n.

    Examples
    --------
    >>> eval_laguerre(1, 0.5)
    Tensor(0.5)
    """
    return apply(_p.eval_genlaguerre, n, 0.0, x)


def eval_chebyc(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the first kind on [-2, 2], of degree n.

    Examples
    --------
    >>> eval_chebyc(2, 1.0)
    Tensor(-1.0)
    """
    return 2 * eval_chebyt(n, _half(x))


def eval_chebys(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the second kind on [-2, 2], of degree n.

    Examples
    --------
    >>> eval_chebys(2, 1.0)
    Tensor(0.0)
    """
    return eval_chebyu(n, _half(x))


def eval_sh_legendre(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Legendre's polynomial on [0, 1], of degree n.

    Examples
    --------
    >>> eval_sh_legendre(2, 0.5)
    Tensor(-0.5000000000000001)
    """
    return eval_legendre(n, _shifted(x))


def eval_sh_chebyt(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the first kind on [0, 1], of degree n.

    Examples
    --------
    >>> eval_sh_chebyt(2, 0.5)
    Tensor(-1.0)
    """
    return eval_chebyt(n, _shifted(x))


def eval_sh_chebyu(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the second kind on [0, 1], of degree n.

    Examples
    --------
    >>> eval_sh_chebyu(2, 0.5)
    Tensor(-1.0)
    """
    return eval_chebyu(n, _shifted(x))


def _half(x: ArrayLike) -> Tensor:
    return fnp.asarray(x) / 2


def _shifted(x: ArrayLike) -> Tensor:
    return 2 * fnp.asarray(x) - 1

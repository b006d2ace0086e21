"""Orthogonal polynomials, spherical harmonics, hypergeometric functions. SciPy evaluates them.

Polynomials and hypergeometric functions are differentiable with respect to their last argument, to
any order. A degree that is not whole, which SciPy accepts for some polynomials, is an error. A
derivative with respect to a parameter of a hypergeometric function is an error with a remedy: no
known formula is accurate over the whole range.
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import harmonics as _harmonics
from funcgrad._primitives.special_functions import hypergeometric as _hypergeometric
from funcgrad._primitives.special_functions import orthogonal_polynomials as _polynomials
from funcgrad.errors import MissingOptionError
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply2


def eval_legendre(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Legendre's polynomial of degree n.

    Examples
    --------
    >>> eval_legendre(2, 0.5)
    Tensor(-0.125)
    """
    return apply(_polynomials.eval_legendre, n, x)


def eval_chebyt(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the first kind, of degree n.

    Examples
    --------
    >>> eval_chebyt(2, 0.5)
    Tensor(-0.5)
    """
    return apply(_polynomials.eval_chebyt, n, x)


def eval_chebyu(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chebyshev's polynomial of the second kind, of degree n.

    Examples
    --------
    >>> eval_chebyu(2, 0.5)
    Tensor(0.0)
    """
    return apply(_polynomials.eval_chebyu, n, x)


def eval_hermite(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Hermite's polynomial of degree n, with the weight ``exp(-x**2)``.

    Examples
    --------
    >>> eval_hermite(2, 1.0)
    Tensor(2.000000000000001)
    """
    return apply(_polynomials.eval_hermite, n, x)


def eval_hermitenorm(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Hermite's polynomial of degree n, with the weight ``exp(-x**2 / 2)``.

    Examples
    --------
    >>> eval_hermitenorm(2, 2.0)
    Tensor(3.0)
    """
    return apply(_polynomials.eval_hermitenorm, n, x)


def eval_gegenbauer(n: ArrayLike, alpha: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Gegenbauer's polynomial of degree n; alpha has no derivative here.

    Examples
    --------
    >>> eval_gegenbauer(2, 1.0, 0.5)
    Tensor(0.0)
    """
    return apply(_polynomials.eval_gegenbauer, n, alpha, x)


def eval_genlaguerre(n: ArrayLike, alpha: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Laguerre's generalized polynomial of degree n; alpha has no derivative here.

    Examples
    --------
    >>> eval_genlaguerre(1, 1.0, 0.5)
    Tensor(1.5)
    """
    return apply(_polynomials.eval_genlaguerre, n, alpha, x)


def eval_jacobi(n: ArrayLike, alpha: ArrayLike, beta: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Jacobi's polynomial of degree n; alpha and beta have no derivatives here.

    Examples
    --------
    >>> eval_jacobi(1, 1.0, 1.0, 0.5)
    Tensor(1.0)
    """
    return apply(_polynomials.eval_jacobi, n, alpha, beta, x)


def eval_laguerre(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Laguerre's polynomial of degree n.

    Examples
    --------
    >>> eval_laguerre(1, 0.5)
    Tensor(0.5)
    """
    return apply(_polynomials.eval_genlaguerre, n, 0.0, x)


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


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, *, diff_n: int = 0
) -> Tensor:
    """The spherical harmonic of degree ``n`` and order ``m``.

    Parameters
    ----------
    n, m : array_like of int
        ``n`` is 0 or more; for ``m`` beyond it the result is 0.
    theta : array_like
        The polar angle, from 0 to pi. Beyond that range values are SciPy's, with powers of
        ``abs(sin(theta))``. Derivatives are finite at the poles; odd orders have a kink there, and
        the limit from inside as derivative.
    phi : array_like
        The azimuthal angle.
    diff_n : int
        Only 0 is supported: use ``fg.jvp`` or ``fg.jacfwd`` for derivatives.

    Returns
    -------
    Tensor
        Complex.

    Raises
    ------
    MissingOptionError
        SciPy's derivatives are asked for.

    Examples
    --------
    >>> sph_harm_y(0, 0, 0.5, 0.5)
    Tensor((0.28209479177387814+0j))
    """
    if integer(diff_n, "sph_harm_y", "diff_n") != 0:
        raise MissingOptionError(
            f"sph_harm_y: diff_n={diff_n!r} is not available. Differentiate: fg.jacfwd(lambda t, p:"
            " sph_harm_y(n, m, t, p), argnums=(0, 1))."
        )
    return apply(_harmonics.sph_harm_y, n, m, theta, phi)


def hyp0f1(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The confluent hypergeometric limit function.

    Examples
    --------
    >>> hyp0f1(1.0, 0.5)
    Tensor(1.5660829297563506)
    """
    return apply2(_hypergeometric.hyp0f1, v, z)


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Kummer's confluent hypergeometric function, also of complex ``x``.

    Examples
    --------
    >>> hyp1f1(1.0, 1.0, 0.5)
    Tensor(1.6487212707001282)
    """
    return apply(_hypergeometric.hyp1f1, a, b, x)


def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, z: ArrayLike, /) -> Tensor:
    """Gauss's hypergeometric function, also of complex ``z``.

    Examples
    --------
    >>> hyp2f1(1.0, 1.0, 2.0, 0.5)
    Tensor(1.3862943611198901)
    """
    return apply(_hypergeometric.hyp2f1, a, b, c, z)


def hyperu(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Tricomi's confluent hypergeometric function U, for positive ``x``.

    Examples
    --------
    >>> hyperu(1.0, 2.0, 4.0)
    Tensor(0.25)
    """
    return apply(_hypergeometric.hyperu, a, b, x)

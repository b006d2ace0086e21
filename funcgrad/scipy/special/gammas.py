"""The gamma function, its logarithm, derivatives and quotients; Riemann's and Hurwitz's zeta.

SciPy evaluates them, and results have its dtypes, but that float16 stays float16.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import gammas as _gammas
from funcgrad._primitives.special_functions import zetas as _zetas
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def gamma(z: ArrayLike, /) -> Tensor:
    """The gamma function, of real and of complex numbers.

    The derivative is ``gamma(z) * psi(z)``; at the poles 0, -1, -2, ... it is as infinite or NaN as
    SciPy's values are.

    Examples
    --------
    >>> gamma([1.0, 5.0])
    Tensor([ 1., 24.])
    """
    return apply1(_gammas.gamma, z)


def gammaln(x: ArrayLike, /) -> Tensor:
    """The logarithm of the magnitude of the gamma function, of real numbers.

    The derivative is ``psi(x)``.

    Examples
    --------
    >>> gammaln([1.0, 171.0])
    Tensor([  0.        , 706.57306225])
    """
    return apply1(_gammas.gammaln, x)


def loggamma(z: ArrayLike, /) -> Tensor:
    """The principal branch of the logarithm of the gamma function; NaN for negative real numbers.

    Examples
    --------
    >>> loggamma(3.0)
    Tensor(0.6931471805599453)
    """
    return apply1(_gammas.loggamma, z)


def rgamma(z: ArrayLike, /) -> Tensor:
    """The reciprocal of the gamma function: 0 at 0, -1, -2, ..., where derivatives are finite.

    Examples
    --------
    >>> rgamma([-1.0, 3.0])
    Tensor([0. , 0.5])
    """
    return apply1(_gammas.rgamma, z)


def gammasgn(x: ArrayLike, /) -> Tensor:
    """The sign of the gamma function; it has no derivative.

    Examples
    --------
    >>> gammasgn([-0.5, 0.5])
    Tensor([-1.,  1.])
    """
    return apply1(_gammas.gammasgn, x)


def psi(z: ArrayLike, /) -> Tensor:
    """The logarithmic derivative of the gamma function, of real and of complex numbers.

    The derivatives are polygamma functions.

    Examples
    --------
    >>> psi(1.0)
    Tensor(-0.5772156649015329)
    """
    return apply1(_gammas.psi, z)


def digamma(z: ArrayLike, /) -> Tensor:
    """The logarithmic derivative of the gamma function: another name of ``psi``.

    Examples
    --------
    >>> digamma(1.0)
    Tensor(-0.5772156649015329)
    """
    return apply1(_gammas.psi, z)


def polygamma(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The n-th derivative of the digamma function.

    ``n`` is a whole number, 0 or more. The derivative with respect to ``x`` is the next one. The
    result has the dtype of ``x``; complex numbers are taken too.

    Examples
    --------
    >>> polygamma([0, 1], 1.0)
    Tensor([-0.57721566,  1.64493407])
    """
    return apply2(_gammas.polygamma, n, x)


def beta(a: ArrayLike, b: ArrayLike, /) -> Tensor:
    """The beta function, ``gamma(a) * gamma(b) / gamma(a + b)``.

    Derivatives keep their digits where one argument is much smaller than the other.

    Examples
    --------
    >>> beta(2.0, 3.0)
    Tensor(0.08333333333333333)
    """
    return apply2(_gammas.beta, a, b)


def betaln(a: ArrayLike, b: ArrayLike, /) -> Tensor:
    """The logarithm of the magnitude of the beta function.

    Examples
    --------
    >>> betaln(1e5, 1e5)
    Tensor(-138633.9270613487)
    """
    return apply2(_gammas.betaln, a, b)


def poch(z: ArrayLike, m: ArrayLike, /) -> Tensor:
    """Pochhammer's symbol, ``gamma(z + m) / gamma(z)``: for whole m a product of m factors.

    Where both ``z`` and ``z + m`` are poles, 0, -1, -2, ..., the derivative with respect to ``z``
    is that of the product, for this m.

    Examples
    --------
    >>> poch(0.5, 3.0)
    Tensor(1.875)
    """
    return apply2(_gammas.poch, z, m)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Tensor:
    """The sum of ``(n + q)**-x`` over n from 0 on: Hurwitz's zeta function, with q = 1 Riemann's.

    Parameters
    ----------
    x : array_like
        Above 1; without ``q`` any real number, by analytic continuation.
    q : array_like, optional
        Derivatives with respect to ``x`` are available for positive ``q``, to any order; without
        ``q`` and below 0 up to the second.

    Returns
    -------
    Tensor

    Notes
    -----
    Derivatives with respect to ``x`` are by Euler and Maclaurin's formula, term by term (DLMF
    25.11.7); that with respect to ``q`` is ``-x * zeta(x + 1, q)``.

    Examples
    --------
    >>> zeta(2.0)
    Tensor(1.64493406684823)
    >>> zeta(2.0, 2.0)
    Tensor(0.64493406684823)
    """
    return apply1(_zetas.riemann_zeta, x) if q is None else apply2(_zetas.zeta, x, q)


def zetac(x: ArrayLike, /) -> Tensor:
    """Riemann's zeta function less 1, with all digits where that is small.

    Examples
    --------
    >>> zetac(60.0)
    Tensor(8.67361738e-19)
    """
    return apply1(_zetas.zetac, x)

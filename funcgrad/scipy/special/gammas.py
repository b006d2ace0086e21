"""The gamma function, its logarithm, derivatives and quotients; Riemann's and Hurwitz's zeta.

SciPy evaluates them. Results have SciPy's dtypes, except that float16 stays float16.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import gammas as _gammas
from funcgrad._primitives.special_functions import zetas as _zetas
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def gamma(z: ArrayLike, /) -> Tensor:
    """The gamma function of real or complex arguments.

    The derivative is ``gamma(z) * psi(z)``; at the poles 0, -1, -2, ... it is infinite or NaN where
    SciPy's values are.

    Examples
    --------
    >>> gamma([1.0, 5.0])
    Tensor([ 1., 24.])
    """
    return apply1(_gammas.gamma, z)


def gammaln(x: ArrayLike, /) -> Tensor:
    """The logarithm of the magnitude of the gamma function of real arguments.

    The derivative is ``psi(x)``.

    Examples
    --------
    >>> gammaln([1.0, 171.0])
    Tensor([  0.        , 706.57306225])
    """
    return apply1(_gammas.gammaln, x)


def loggamma(z: ArrayLike, /) -> Tensor:
    """The principal branch of the logarithm of the gamma function; NaN for negative reals.

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
    """The digamma function, the logarithmic derivative of the gamma function.

    It takes complex arguments too. The derivatives are polygamma functions.

    Examples
    --------
    >>> psi(1.0)
    Tensor(-0.5772156649015329)
    """
    return apply1(_gammas.psi, z)


def digamma(z: ArrayLike, /) -> Tensor:
    """The digamma function: another name of ``psi``.

    Examples
    --------
    >>> digamma(1.0)
    Tensor(-0.5772156649015329)
    """
    return apply1(_gammas.psi, z)


def polygamma(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The n-th derivative of the digamma function.

    ``n`` is an integer, 0 or more. The derivative with respect to ``x`` is ``polygamma(n + 1, x)``.
    The result has the dtype of ``x``, which may be complex.

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
    """The Pochhammer symbol, ``gamma(z + m) / gamma(z)``: for integer m a product of m factors.

    Where both ``z`` and ``z + m`` are poles, 0, -1, -2, ..., the derivative with respect to ``z``
    is the derivative of the product of m factors.

    Examples
    --------
    >>> poch(0.5, 3.0)
    Tensor(1.875)
    """
    return apply2(_gammas.poch, z, m)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Tensor:
    """The Hurwitz zeta function: the sum of ``(n + q)**-x`` over n >= 0. Without q, Riemann's.

    Parameters
    ----------
    x : array_like
        Above 1; without ``q`` any real number, by analytic continuation.
    q : array_like, optional
        Derivatives with respect to ``x`` exist for positive ``q``, to any order; without ``q``, for
        ``x`` below 0 only to the second order.

    Returns
    -------
    Tensor

    Notes
    -----
    The derivative with respect to ``x`` differentiates the Euler-Maclaurin formula (DLMF 25.11.7);
    the derivative with respect to ``q`` is ``-x * zeta(x + 1, q)``.

    Examples
    --------
    >>> zeta(2.0)
    Tensor(1.64493406684823)
    >>> zeta(2.0, 2.0)
    Tensor(0.64493406684823)
    """
    return apply1(_zetas.riemann_zeta, x) if q is None else apply2(_zetas.zeta, x, q)


def zetac(x: ArrayLike, /) -> Tensor:
    """``zeta(x) - 1``, with all digits where that is small.

    Examples
    --------
    >>> zetac(60.0)
    Tensor(8.67361738e-19)
    """
    return apply1(_zetas.zetac, x)

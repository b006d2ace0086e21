"""Sine, cosine, logarithmic, exponential and elliptic integrals.

Sine, cosine and logarithmic integrals are differentiable at complex arguments too, except on their
branch cuts. SciPy evaluates all but ``exprel``.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import elliptic as _elliptic
from funcgrad._primitives.special_functions import exponentials as _exponentials
from funcgrad._primitives.special_functions import integral_functions as _integrals
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def spence(z: ArrayLike, /) -> Tensor:
    """Spence's function, a dilogarithm: the integral of ``log(t) / (1 - t)`` from 1 to z.

    Examples
    --------
    >>> spence([0.0, 1.0])
    Tensor([1.64493407, 0.        ])
    """
    return apply1(_integrals.spence, z)


def fresnel(z: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """Fresnel's integrals S and C, of ``sin(pi t**2 / 2)`` and of the cosine, from 0 to z.

    Examples
    --------
    >>> fresnel(0.0)
    (Tensor(0.0), Tensor(0.0))
    """
    return apply1(_integrals.fresnel_sine, z), apply1(_integrals.fresnel_cosine, z)


def sici(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The sine and cosine integrals Si and Ci.

    Examples
    --------
    >>> sici(0.0)[0]
    Tensor(0.0)
    """
    return apply1(_integrals.sine_integral, x), apply1(_integrals.cosine_integral, x)


def shichi(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The hyperbolic sine and cosine integrals Shi and Chi.

    Examples
    --------
    >>> shichi(0.0)[0]
    Tensor(0.0)
    """
    return apply1(_integrals.hyperbolic_sine_integral, x), apply1(
        _integrals.hyperbolic_cosine_integral, x
    )


def exp1(z: ArrayLike, /) -> Tensor:
    """The exponential integral E1: ``exp(-t) / t`` integrated from ``z`` to infinity.

    ``z`` may be complex. At 0 the function and its derivative are infinite.

    Examples
    --------
    >>> exp1(1.0)
    Tensor(0.2193839343955205)
    """
    return apply1(_exponentials.exp1, z)


def expi(x: ArrayLike, /) -> Tensor:
    """The exponential integral Ei: ``exp(t) / t`` integrated from minus infinity to ``x``.

    Examples
    --------
    >>> expi(1.0)
    Tensor(1.895117816355937)
    """
    return apply1(_exponentials.expi, x)


def expn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The generalized exponential integral: ``exp(-x t) / t**n`` integrated from 1 to infinity.

    ``n`` is an integer; below 0 the integral is computed by recurrence. The derivative with
    respect to ``x`` is ``-expn(n - 1, x)``. The result has the dtype of ``x``.

    Examples
    --------
    >>> expn([1, 2], 1.0)
    Tensor([0.21938393, 0.14849551])
    """
    return apply2(_exponentials.expn, n, x)


def exprel(x: ArrayLike, /) -> Tensor:
    """``(exp(x) - 1) / x``, and 1 at 0.

    Examples
    --------
    >>> exprel([0.0, 1e-10, -1000.0])
    Tensor([1.e+00, 1.e+00, 1.e-03])
    """
    return apply1(_exponentials.exprel, x)


def ellipk(m: ArrayLike, /) -> Tensor:
    """The complete elliptic integral of the first kind: infinite at 1, and NaN beyond.

    Examples
    --------
    >>> ellipk([0.0, 0.5])
    Tensor([1.57079633, 1.85407468])
    """
    return apply1(_elliptic.ellipk, m)


def ellipkm1(p: ArrayLike, /) -> Tensor:
    """``ellipk(1 - p)``, accurate also for small ``p``.

    Examples
    --------
    >>> ellipkm1([1e-200, 1.0])
    Tensor([231.64480366,   1.57079633])
    """
    return apply1(_elliptic.ellipkm1, p)


def ellipe(m: ArrayLike, /) -> Tensor:
    """The complete elliptic integral of the second kind: NaN above 1, where its slope is -inf.

    Examples
    --------
    >>> ellipe([0.0, 0.5, 1.0])
    Tensor([1.57079633, 1.35064388, 1.        ])
    """
    return apply1(_elliptic.ellipe, m)

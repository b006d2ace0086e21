"""Error functions, the normal distribution function, their inverses, and related functions.

NumPy evaluates ``erf``, ``erfc``, ``ndtr`` and ``ndtri`` of real arguments, also if SciPy is
installed; SciPy evaluates the others.
"""

from __future__ import annotations

from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import operand
from funcgrad._primitives import special as _special
from funcgrad._primitives.special_functions import error_functions as _errors
from funcgrad._primitives.special_functions import faddeeva as _faddeeva
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1, apply2


def erf(z: ArrayLike, /) -> Tensor:
    """The error function of real or complex arguments.

    Examples
    --------
    >>> erf([0.0, 1.0])
    Tensor([0.        , 0.84270079])
    """
    value = operand(z, "erf")
    return apply1(_errors.erf_of_complex if dtype_of(value).kind == "c" else _special.erf, value)


def erfc(x: ArrayLike, /) -> Tensor:
    """The complement ``1 - erf(x)``, with all digits where that is small.

    Examples
    --------
    >>> erfc([0.0, 10.0])
    Tensor([1.00000000e+00, 2.08848758e-45])
    """
    value = operand(x, "erfc")
    return apply1(_errors.erfc_of_complex if dtype_of(value).kind == "c" else _special.erfc, value)


def erfcx(x: ArrayLike, /) -> Tensor:
    """``exp(x**2) * erfc(x)``, which neither overflows nor underflows for large ``x``.

    Derivatives keep their digits there too; they are available for real ``x``.

    Examples
    --------
    >>> erfcx([0.0, 1e10])
    Tensor([1.00000000e+00, 5.64189584e-11])
    """
    return apply1(_errors.erfcx, x)


def erfi(z: ArrayLike, /) -> Tensor:
    """The imaginary error function, ``-1j * erf(1j * z)``.

    Examples
    --------
    >>> erfi(1.0)
    Tensor(1.6504257587975428)
    """
    return apply1(_errors.erfi, z)


def dawsn(x: ArrayLike, /) -> Tensor:
    """Dawson's integral, ``sqrt(pi) / 2 * exp(-x**2) * erfi(x)``.

    Derivatives keep their digits for large ``x``; they are available for real ``x``.

    Examples
    --------
    >>> dawsn([0.0, 1e10])
    Tensor([0.e+00, 5.e-11])
    """
    return apply1(_errors.dawsn, x)


def erfinv(y: ArrayLike, /) -> Tensor:
    """The inverse of ``erf``; it and its derivative are infinite at -1 and 1, NaN outside.

    Examples
    --------
    >>> erfinv([0.0, 0.5, 1.0])
    Tensor([0.        , 0.47693628,        inf])
    """
    return apply1(_errors.erfinv, y)


def erfcinv(y: ArrayLike, /) -> Tensor:
    """The inverse of ``erfc``; it and its derivative are infinite at 0 and 2, NaN outside.

    Examples
    --------
    >>> erfcinv([1e-100, 1.0])
    Tensor([15.0655747, -0.       ])
    """
    return apply1(_errors.erfcinv, y)


def ndtr(x: ArrayLike, /) -> Tensor:
    """The cumulative distribution function of the standard normal distribution.

    Examples
    --------
    >>> ndtr([-10.0, 0.0])
    Tensor([7.61985302e-24, 5.00000000e-01])
    """
    return apply1(_special.ndtr, x)


def log_ndtr(x: ArrayLike, /) -> Tensor:
    """``log(ndtr(x))``, exact also if ``ndtr(x)`` underflows.

    Examples
    --------
    >>> log_ndtr([-100.0, 0.0])
    Tensor([-5.00552421e+03, -6.93147181e-01])
    """
    return apply1(_errors.log_ndtr, x)


def ndtri(y: ArrayLike, /) -> Tensor:
    """The inverse of ``ndtr``; it and its derivative are infinite at 0 and 1, NaN outside.

    Examples
    --------
    >>> ndtri([0.025, 0.5])
    Tensor([-1.95996398,  0.        ])
    """
    return apply1(_special.ndtri, y)


def ndtri_exp(y: ArrayLike, /) -> Tensor:
    """The inverse of ``log_ndtr``.

    Examples
    --------
    >>> ndtri_exp([-1000.0, -1.0])
    Tensor([-44.61574773,  -0.33747496])
    """
    return apply1(_errors.ndtri_exp, y)


def wofz(z: ArrayLike, /) -> Tensor:
    """The Faddeeva function ``exp(-z**2) * erfc(-1j * z)``.

    Derivatives keep their digits for large ``z``. Second derivatives have only nine digits for
    ``z`` between 4 and 9, since SciPy's values have 13.

    Examples
    --------
    >>> wofz(0.0)
    Tensor((1+0j))
    """
    return apply1(_faddeeva.wofz, z)


def voigt_profile(x: ArrayLike, sigma: ArrayLike, gamma: ArrayLike, /) -> Tensor:
    """The Voigt profile: the density of a normal plus a Cauchy variable, of scales sigma and gamma.

    Derivatives exist for positive sigma, and are NaN at sigma = 0. Second derivatives with respect
    to sigma and gamma lose digits where sigma is much smaller than x or gamma.

    Examples
    --------
    >>> voigt_profile(0.0, 1.0, 0.0)
    Tensor(0.3989422804014327)
    """
    return apply(_faddeeva.voigt_profile, x, sigma, gamma)


def owens_t(h: ArrayLike, a: ArrayLike, /) -> Tensor:
    """Owen's T function: P(``X > h`` and ``0 < Y < a X``) for independent normal X and Y.

    Examples
    --------
    >>> owens_t(0.0, 1.0)
    Tensor(0.125)
    """
    return apply2(_faddeeva.owens_t, h, a)

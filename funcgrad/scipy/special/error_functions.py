"""The error functions, the normal distribution and their inverses.

``erf``, ``erfc``, ``ndtr`` and ``ndtri`` of real numbers need no SciPy, and are the same whether
it is there or not; SciPy evaluates the others.
"""

from __future__ import annotations

from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import operand
from funcgrad._primitives import special as _special
from funcgrad._primitives.special_functions import error_functions as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


def erf(z: ArrayLike, /) -> Tensor:
    """The error function, of real and of complex numbers.

    Examples
    --------
    >>> erf([0.0, 1.0])
    Tensor([0.        , 0.84270079])
    """
    value = operand(z, "erf")
    return apply1(_p.erf_of_complex if dtype_of(value).kind == "c" else _special.erf, value)


def erfc(x: ArrayLike, /) -> Tensor:
    """The complement ``1 - erf(x)``, with all digits where that is small.

    Examples
    --------
    >>> erfc([0.0, 10.0])
    Tensor([1.00000000e+00, 2.08848758e-45])
    """
    value = operand(x, "erfc")
    return apply1(_p.erfc_of_complex if dtype_of(value).kind == "c" else _special.erfc, value)


def erfcx(x: ArrayLike, /) -> Tensor:
    """``exp(x**2) * erfc(x)``, which neither overflows nor underflows for large ``x``.

    Derivatives keep their digits there too; they are available for real numbers.

    Examples
    --------
    >>> erfcx([0.0, 1e10])
    Tensor([1.00000000e+00, 5.64189584e-11])
    """
    return apply1(_p.erfcx, x)


def erfi(z: ArrayLike, /) -> Tensor:
    """The imaginary error function, ``-1j * erf(1j * z)``.

    Examples
    --------
    >>> erfi(1.0)
    Tensor(1.6504257587975428)
    """
    return apply1(_p.erfi, z)


def dawsn(x: ArrayLike, /) -> Tensor:
    """Dawson's integral, ``sqrt(pi) / 2 * exp(-x**2) * erfi(x)``.

    Derivatives keep their digits for large ``x``; they are available for real numbers.

    Examples
    --------
    >>> dawsn([0.0, 1e10])
    Tensor([0.e+00, 5.e-11])
    """
    return apply1(_p.dawsn, x)


def erfinv(y: ArrayLike, /) -> Tensor:
    """The inverse of the error function: infinite at -1 and 1, with its derivative; NaN outside.

    Examples
    --------
    >>> erfinv([0.0, 0.5, 1.0])
    Tensor([0.        , 0.47693628,        inf])
    """
    return apply1(_p.erfinv, y)


def erfcinv(y: ArrayLike, /) -> Tensor:
    """The inverse of ``erfc``: infinite at 0 and 2, with an infinite derivative; NaN outside.

    Examples
    --------
    >>> erfcinv([1e-100, 1.0])
    Tensor([15.0655747, -0.       ])
    """
    return apply1(_p.erfcinv, y)


def ndtr(x: ArrayLike, /) -> Tensor:
    """The distribution function of the normal distribution.

    Examples
    --------
    >>> ndtr([-10.0, 0.0])
    Tensor([7.61985302e-24, 5.00000000e-01])
    """
    return apply1(_special.ndtr, x)


def log_ndtr(x: ArrayLike, /) -> Tensor:
    """The logarithm of the normal distribution function, exact also if that underflows.

    Examples
    --------
    >>> log_ndtr([-100.0, 0.0])
    Tensor([-5.00552421e+03, -6.93147181e-01])
    """
    return apply1(_p.log_ndtr, x)


def ndtri(y: ArrayLike, /) -> Tensor:
    """The inverse of ``ndtr``: infinite at 0 and 1, with an infinite derivative; NaN outside.

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
    return apply1(_p.ndtri_exp, y)

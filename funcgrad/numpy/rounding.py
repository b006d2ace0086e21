"""Rounding, and the parts of floating-point numbers.

Piecewise constant functions have the derivative 0.
"""

from __future__ import annotations

from typing import SupportsIndex

from funcgrad._core.users_values import operand
from funcgrad._primitives import logic as _l
from funcgrad._primitives import rounding as _p
from funcgrad.numpy.options import integer, strong
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1, apply2


def floor(x: ArrayLike, /) -> Tensor:
    """Round down to an integer, in the same dtype.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.floor([-1.5, 1.5])
    Tensor([-2.,  1.])
    """
    return apply1(_p.floor, x)


def ceil(x: ArrayLike, /) -> Tensor:
    """Round up to an integer, in the same dtype.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.ceil([-1.5, 1.5])
    Tensor([-1.,  2.])
    """
    return apply1(_p.ceil, x)


def trunc(x: ArrayLike, /) -> Tensor:
    """Round towards 0 to an integer, in the same dtype.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.trunc([-1.5, 1.5])
    Tensor([-1.,  1.])
    """
    return apply1(_p.trunc, x)


fix = trunc


def rint(x: ArrayLike, /) -> Tensor:
    """Round to the nearest integer; halves go to the even one.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.rint([0.5, 1.5, 2.4])
    Tensor([0., 2., 2.])
    """
    return apply1(_p.rint, x)


def round(a: ArrayLike, decimals: SupportsIndex = 0) -> Tensor:
    """Round to a number of decimals; halves go to the even digit.

    Parameters
    ----------
    a : array_like
    decimals : int, optional
        Negative numbers count positions before the decimal point.

    Returns
    -------
    Tensor
        In the shape of ``a``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.round([1.25, 2.36], 1)
    Tensor([1.2, 2.4])
    """
    return apply(_p.round_to, a, decimals=integer(decimals, "round", "decimals"))


around = round


def copysign(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The magnitude of x1 with the sign of x2.

    At x1 = 0, a kink, the derivative is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.copysign(2.0, -0.0)
    Tensor(-2.0)
    """
    return apply2(_p.copysign, x1, x2)


def signbit(x: ArrayLike, /) -> Tensor:
    """Test whether the sign bit is set: for negative numbers and negative zero.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.signbit([-1.0, -0.0, 0.0])
    Tensor([ True,  True, False])
    """
    return apply1(_l.signbit, x)


def nextafter(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The floating-point number after x1 in the direction of x2.

    Its derivative with respect to x1 is 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nextafter(0.0, 1.0) > 0
    Tensor(True)
    """
    return apply2(_p.nextafter, x1, x2)


def heaviside(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The unit step: 0 before 0, 1 after it, and x2 at it.

    The derivative with respect to x1 is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.heaviside([-1.0, 0.0, 1.0], 0.5)
    Tensor([0. , 0.5, 1. ])
    """
    return apply2(_p.heaviside, x1, x2)


def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Compute x1 * 2**x2, for integers x2.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.ldexp(0.75, 2)
    Tensor(3.0)
    """
    return apply2(_p.ldexp, x1, x2)


def frexp(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """Split into a mantissa, from 0.5 to 1 in magnitude, and an exponent of 2.

    The exponent counts as constant when the mantissa is differentiated.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.frexp(3.0)
    (Tensor(0.75), Tensor(2, dtype=int32))
    """
    value = strong(operand(x, "frexp"))
    exponent = apply1(_p.binary_exponent, value)
    return ldexp(value, -exponent), exponent


def modf(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """Split into fractional and integral parts, both with the sign of x.

    At a jump, where x is an integer, the derivative of the fractional part is taken as 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.modf([-1.5, 2.0])
    (Tensor([-0.5,  0. ]), Tensor([-1.,  2.]))
    """
    return apply1(_p.fraction, x), apply1(_p.integral, x)


def spacing(x: ArrayLike, /) -> Tensor:
    """The distance to the next number of the dtype, away from zero; its derivative is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.spacing(1.0) == fnp.finfo(fnp.float64).eps
    Tensor(True)
    """
    return apply1(_p.spacing, x)

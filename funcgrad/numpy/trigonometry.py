"""Angles, trigonometric and hyperbolic functions, and their inverses.

Integers give floating-point numbers, as in NumPy. All but the conversions of angles and ``arctan2``
accept complex numbers too; on a branch cut the sign of zero chooses the side of the derivative.
"""

from __future__ import annotations

from funcgrad._primitives import cardinal_sine
from funcgrad._primitives import transcendental as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def sin(x: ArrayLike, /) -> Tensor:
    """The sine of an angle in radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sin(0.0)
    Tensor(0.0)
    """
    return apply1(_p.sin, x)


def cos(x: ArrayLike, /) -> Tensor:
    """The cosine of an angle in radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cos(0.0)
    Tensor(1.0)
    """
    return apply1(_p.cos, x)


def tan(x: ArrayLike, /) -> Tensor:
    """The tangent of an angle in radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.tan(0.0)
    Tensor(0.0)
    """
    return apply1(_p.tan, x)


def arcsin(x: ArrayLike, /) -> Tensor:
    """The inverse sine, in radians.

    The derivative 1 / sqrt(1 - x**2) is infinite at -1 and 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arcsin(1.0)
    Tensor(1.5707963267948966)
    """
    return apply1(_p.arcsin, x)


asin = arcsin


def arccos(x: ArrayLike, /) -> Tensor:
    """The inverse cosine, in radians.

    The derivative -1 / sqrt(1 - x**2) is infinite at -1 and 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arccos(1.0)
    Tensor(0.0)
    """
    return apply1(_p.arccos, x)


acos = arccos


def arctan(x: ArrayLike, /) -> Tensor:
    """The inverse tangent, in radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arctan(1.0)
    Tensor(0.7853981633974483)
    """
    return apply1(_p.arctan, x)


atan = arctan


def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The angle of the point (x2, x1) from the positive x-axis, in radians: arctan(x1 / x2).

    At the origin, where the angle is undefined, the derivative is taken as 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arctan2(1.0, -1.0)
    Tensor(2.356194490192345)
    """
    return apply2(_p.arctan2, x1, x2)


atan2 = arctan2


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The hypotenuse sqrt(x1**2 + x2**2), without overflow.

    At the origin, a kink, the derivative is 0: the subgradient of least norm.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.hypot(3.0, 4.0)
    Tensor(5.0)
    """
    return apply2(_p.hypot, x1, x2)


def sinh(x: ArrayLike, /) -> Tensor:
    """The hyperbolic sine.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sinh(0.0)
    Tensor(0.0)
    """
    return apply1(_p.sinh, x)


def cosh(x: ArrayLike, /) -> Tensor:
    """The hyperbolic cosine.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cosh(0.0)
    Tensor(1.0)
    """
    return apply1(_p.cosh, x)


def tanh(x: ArrayLike, /) -> Tensor:
    """The hyperbolic tangent.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.tanh(0.5)
    Tensor(0.46211715726000974)
    """
    return apply1(_p.tanh, x)


def arcsinh(x: ArrayLike, /) -> Tensor:
    """The inverse hyperbolic sine.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arcsinh(0.0)
    Tensor(0.0)
    """
    return apply1(_p.arcsinh, x)


asinh = arcsinh


def arccosh(x: ArrayLike, /) -> Tensor:
    """The inverse hyperbolic cosine, for x >= 1.

    The derivative 1 / sqrt(x**2 - 1) is infinite at 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arccosh(1.0)
    Tensor(0.0)
    """
    return apply1(_p.arccosh, x)


acosh = arccosh


def arctanh(x: ArrayLike, /) -> Tensor:
    """The inverse hyperbolic tangent, for -1 <= x <= 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.arctanh(0.5)
    Tensor(0.54930614433405)
    """
    return apply1(_p.arctanh, x)


atanh = arctanh


def deg2rad(x: ArrayLike, /) -> Tensor:
    """Convert an angle from degrees to radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.deg2rad(180.0)
    Tensor(3.141592653589793)
    """
    return apply1(_p.deg2rad, x)


radians = deg2rad


def rad2deg(x: ArrayLike, /) -> Tensor:
    """Convert an angle from radians to degrees.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.rad2deg(1.0)
    Tensor(57.29577951308232)
    """
    return apply1(_p.rad2deg, x)


degrees = rad2deg


def sinc(x: ArrayLike) -> Tensor:
    """The cardinal sine sin(pi x) / (pi x), which is 1 at 0.

    Its derivatives of every order are exact at 0 and close to it.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sinc([0.0, 0.5, 1.0])
    Tensor([1.00000000e+00, 6.36619772e-01, 3.89817183e-17])
    """
    return apply1(cardinal_sine.sinc, x)

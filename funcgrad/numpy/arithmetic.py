"""Sums, products, powers, signs and division with remainder.

>>> import funcgrad.numpy as fnp
>>> fnp.add([1, 2], 0.5)
Tensor([1.5, 2.5])
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives import elementwise as _p
from funcgrad._primitives import powers
from funcgrad._primitives import rounding as _r
from funcgrad._primitives.structural import cast
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1, apply2


def add(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Add arguments elementwise: ``x1 + x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.add(1, 2.5)
    Tensor(3.5)
    """
    return apply2(_p.add, x1, x2)


def subtract(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Subtract arguments elementwise: ``x1 - x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.subtract(3.0, 1.0)
    Tensor(2.0)
    """
    return apply2(_p.subtract, x1, x2)


def multiply(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Multiply arguments elementwise: ``x1 * x2``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.multiply(2.0, [1.0, 3.0])
    Tensor([2., 6.])
    """
    return apply2(_p.multiply, x1, x2)


def divide(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Divide arguments elementwise: ``x1 / x2``. Integers have a floating-point quotient.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.divide(1, 4)
    Tensor(0.25)
    """
    return apply2(_p.divide, x1, x2)


true_divide = divide


def negative(x: ArrayLike, /) -> Tensor:
    """Negate elementwise: ``-x``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.negative([1.0, -2.0])
    Tensor([-1.,  2.])
    """
    return apply1(_p.negative, x)


def positive(x: ArrayLike, /) -> Tensor:
    """Return the elements unchanged: ``+x``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.positive(-1.0)
    Tensor(-1.0)
    """
    return apply1(_p.positive, x)


def reciprocal(x: ArrayLike, /) -> Tensor:
    """Compute 1 / x in the dtype of x: for integers it is truncated, as in NumPy.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.reciprocal(4.0)
    Tensor(0.25)
    """
    return apply1(_p.reciprocal, x)


def square(x: ArrayLike, /) -> Tensor:
    """Square elementwise: ``x * x``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.square([1.0, -2.0])
    Tensor([1., 4.])
    """
    return apply1(_p.square, x)


def power(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Raise x1 to the power of x2 elementwise: ``x1 ** x2``.

    With a Python number as the exponent, derivatives of every order are exact at 0 and at negative
    numbers. The derivative with respect to a varying exponent, x1**x2 log(x1), is 0 at x1 = 0 for
    positive exponents, and -inf at 0**0, where the function falls from 1 to 0; ``x**x`` also has
    the derivative -inf at 0. It is NaN for negative x1: powers near an integer exponent are not
    real there.

    Raises
    ------
    ShapeError
        The shapes do not broadcast, or integers are raised to a negative integer.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.power([1.0, 2.0, 3.0], 2)
    Tensor([1., 4., 9.])
    >>> fg.grad(lambda x: fnp.power(x, 3))(-2.0)
    Tensor(12.0)
    """
    if type(x2) in (int, float):
        return apply(powers.constant_power, x1, exponent=x2)
    return apply2(powers.power, x1, x2)


pow = power


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """``power`` in float64 or complex128, whatever the dtypes.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.float_power(2, -1)
    Tensor(0.5)
    """
    base = _widened(x1, "float_power")
    return power(base, x2 if type(x2) in (int, float) else _widened(x2, "float_power"))


def _widened(x: ArrayLike, operation: str) -> Value:
    value = operand(x, operation)
    dtype = np.dtype(np.complex128 if dtype_of(value).kind == "c" else np.float64)
    return value if dtype_of(value) == dtype else cast(value, dtype=dtype)


def absolute(x: ArrayLike, /) -> Tensor:
    """The absolute value, elementwise.

    At 0, a kink, the derivative is 0, the subgradient of least norm, also for complex numbers.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.absolute([-1.5, 3.0])
    Tensor([1.5, 3. ])
    """
    return apply1(_p.absolute, x)


abs = absolute


def fabs(x: ArrayLike, /) -> Tensor:
    """The absolute value of real numbers, always in a floating-point dtype.

    At 0, a kink, the derivative is 0: the subgradient of least norm.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.fabs(-2)
    Tensor(2.0)
    """
    return apply1(_p.fabs, x)


def sign(x: ArrayLike, /) -> Tensor:
    """The sign: -1, 0 or 1. For a complex number z it is z / abs(z), and 0 at 0.

    The derivative of the real sign is 0 everywhere. The complex one turns with z; at 0 its
    derivative is taken as 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sign([-1.5, 0.0, 2.0])
    Tensor([-1.,  0.,  1.])
    >>> fnp.sign(3 + 4j)
    Tensor((0.6+0.8j))
    """
    value = operand(x, "sign")
    return apply1(_p.phase if dtype_of(value).kind == "c" else _p.sign, value)


def floor_divide(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """Divide and round down: ``x1 // x2``.

    The derivative is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.floor_divide(-7, 2)
    Tensor(-4)
    """
    return apply2(_r.floor_divide, x1, x2)


def remainder(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The remainder x1 - floor(x1 / x2) x2, with the sign of x2: ``x1 % x2``.

    At a jump, where x2 divides x1, the derivatives are taken from the side of greater quotients.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.remainder(-7.0, 2.0)
    Tensor(1.0)
    """
    return apply2(_r.remainder, x1, x2)


mod = remainder


def fmod(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The remainder x1 - trunc(x1 / x2) x2, with the sign of x1, as in C.

    At a jump, where x2 divides x1, the derivatives belong to the piece that ``fmod`` is on.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.fmod(-7.0, 2.0)
    Tensor(-1.0)
    """
    return apply2(_r.fmod, x1, x2)


def divmod(x1: ArrayLike, x2: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The quotient rounded down, and the remainder.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.divmod(7.0, 2.0)
    (Tensor(3.0), Tensor(1.0))
    """
    return floor_divide(x1, x2), remainder(x1, x2)


def gcd(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The greatest common divisor of integers.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.gcd(12, 18)
    Tensor(6)
    """
    return apply2(_r.gcd, x1, x2)


def lcm(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The least common multiple of integers.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.lcm(4, 6)
    Tensor(12)
    """
    return apply2(_r.lcm, x1, x2)

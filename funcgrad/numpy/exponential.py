"""Exponentials, logarithms and roots.

Integers give floating-point numbers, as in NumPy. All but ``cbrt``, ``logaddexp`` and
``logaddexp2`` take complex numbers too. Real numbers outside a function's domain give NaN.
"""

from __future__ import annotations

from funcgrad._primitives import elementwise as _ew
from funcgrad._primitives import transcendental as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def exp(x: ArrayLike, /) -> Tensor:
    """The exponential e**x.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.exp(0.0)
    Tensor(1.0)
    """
    return apply1(_p.exp, x)


def exp2(x: ArrayLike, /) -> Tensor:
    """The power 2**x.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.exp2(3.0)
    Tensor(8.0)
    """
    return apply1(_p.exp2, x)


def expm1(x: ArrayLike, /) -> Tensor:
    """e**x - 1, accurate also for small x.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.expm1(1e-10)
    Tensor(1.00000000005e-10)
    """
    return apply1(_p.expm1, x)


def log(x: ArrayLike, /) -> Tensor:
    """The natural logarithm.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.log(1.0)
    Tensor(0.0)
    """
    return apply1(_ew.log, x)


def log2(x: ArrayLike, /) -> Tensor:
    """The logarithm to base 2.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.log2(8.0)
    Tensor(3.0)
    """
    return apply1(_p.log2, x)


def log10(x: ArrayLike, /) -> Tensor:
    """The logarithm to base 10.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.log10(1000.0)
    Tensor(3.0)
    """
    return apply1(_p.log10, x)


def log1p(x: ArrayLike, /) -> Tensor:
    """log(1 + x), accurate also for small x.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.log1p(1e-10)
    Tensor(9.999999999500001e-11)
    """
    return apply1(_p.log1p, x)


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """log(e**x1 + e**x2), without overflow.

    The derivatives are the shares of the two exponentials in their sum. If both arguments are the
    same infinity, each has the share 1/2, as for any equal arguments.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logaddexp(1000.0, 1000.0)
    Tensor(1000.6931471805599)
    """
    return apply2(_p.logaddexp, x1, x2)


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """log2(2**x1 + 2**x2), without overflow.

    The derivatives are the shares of the two powers in their sum, as for ``logaddexp``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.logaddexp2(1000.0, 1000.0)
    Tensor(1001.0)
    """
    return apply2(_p.logaddexp2, x1, x2)


def sqrt(x: ArrayLike, /) -> Tensor:
    """The non-negative square root.

    The derivative is infinite at 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.sqrt([0.0, 4.0])
    Tensor([0., 2.])
    """
    return apply1(_p.sqrt, x)


def cbrt(x: ArrayLike, /) -> Tensor:
    """The real cube root, also of negative numbers.

    The derivative is infinite at 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cbrt(-8.0)
    Tensor(-2.0)
    """
    return apply1(_p.cbrt, x)

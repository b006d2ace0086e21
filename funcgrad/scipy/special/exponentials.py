"""Exponential integrals, and the relative error of the exponential.

``exprel`` needs no SciPy, which evaluates the others.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import exponentials as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def exp1(z: ArrayLike, /) -> Tensor:
    """The exponential integral from ``z`` to infinity of ``exp(-t) / t``, also of complex numbers.

    At 0 it is infinite, and its derivative is.

    Examples
    --------
    >>> exp1(1.0)
    Tensor(0.2193839343955205)
    """
    return apply1(_p.exp1, z)


def expi(x: ArrayLike, /) -> Tensor:
    """The integral from minus infinity to ``x`` of ``exp(t) / t``, also of complex numbers.

    Examples
    --------
    >>> expi(1.0)
    Tensor(1.895117816355937)
    """
    return apply1(_p.expi, x)


def expn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The integral from 1 to infinity of ``exp(-x t) / t**n``.

    ``n`` is a whole number; below 0 the integral is computed by recurrence. The derivative with
    respect to ``x`` is ``-expn(n - 1, x)``. The result has the dtype of ``x``.

    Examples
    --------
    >>> expn([1, 2], 1.0)
    Tensor([0.21938393, 0.14849551])
    """
    return apply2(_p.expn, n, x)


def exprel(x: ArrayLike, /) -> Tensor:
    """``(exp(x) - 1) / x``, and 1 at 0.

    Examples
    --------
    >>> exprel([0.0, 1e-10, -1000.0])
    Tensor([1.e+00, 1.e+00, 1.e-03])
    """
    return apply1(_p.exprel, x)

"""Derivatives of Bessel functions as functions of their own, under SciPy's names."""

from __future__ import annotations

import math
from collections.abc import Callable

import funcgrad.numpy as fnp
from funcgrad._core.users_values import operand
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import integer
from funcgrad.scipy.special.bessel import hankel1, hankel2, iv, jv, kv, yv
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def jvp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``jv`` with respect to its argument.

    Examples
    --------
    >>> round(float(jvp(1.0, 2.0)), 12)
    -0.064471624737
    """
    return _derivative("jvp", jv, v, z, n, -1, 1)


def yvp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``yv`` with respect to its argument.

    Examples
    --------
    >>> round(float(yvp(1.0, 2.0)), 12)
    0.56389188842
    """
    return _derivative("yvp", yv, v, z, n, -1, 1)


def ivp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``iv`` with respect to its argument.

    Examples
    --------
    >>> round(float(ivp(1.0, 2.0)), 12)
    1.484266875017
    """
    return _derivative("ivp", iv, v, z, n, 1, 1)


def kvp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``kv`` with respect to its argument.

    Examples
    --------
    >>> round(float(kvp(1.0, 2.0)), 12)
    -0.183826813658
    """
    return _derivative("kvp", kv, v, z, n, 1, -1)


def h1vp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``hankel1`` with respect to its argument.

    Examples
    --------
    >>> round(float(h1vp(1.0, 2.0).real), 12)
    -0.064471624737
    """
    return _derivative("h1vp", hankel1, v, z, n, -1, 1)


def h2vp(v: ArrayLike, z: ArrayLike, n: int = 1) -> Tensor:
    """The n-th derivative of ``hankel2`` with respect to its argument.

    Examples
    --------
    >>> round(float(h2vp(1.0, 2.0).real), 12)
    -0.064471624737
    """
    return _derivative("h2vp", hankel2, v, z, n, -1, 1)


def _derivative(
    operation: str,
    function: Callable[..., Tensor],
    v: ArrayLike,
    z: ArrayLike,
    n: int,
    sign: int,
    scale: int,
) -> Tensor:
    """The derivative as a sum of neighbouring orders: DLMF 10.6.7 and 10.29.5."""
    count, order = integer(n, operation, "n"), wrap(operand(v, operation)) * 1.0
    if count < 0:
        raise ArgumentError(f"{operation}: the order of the derivative is not negative: {count}.")
    terms = [
        math.comb(count, k) * sign**k * function(order - count + 2 * k, z) for k in range(count + 1)
    ]
    return fnp.asarray(sum(terms[1:], terms[0]) * (scale * 0.5) ** count)

"""Bessel functions of all kinds, also spherical Bessel functions. SciPy evaluates them.

Functions of a real argument and an order ``v`` are differentiable with respect to the order. These
derivatives are contour integrals, with a relative error below 1e-12 except near zeros. For ``jv``
and ``yv`` of an argument above 3000 they exist only if the argument is greater than the square of
the order, or less than half of it; otherwise an error is raised. Derivatives with respect to the
argument exist to any order, for complex arguments too where the function is analytic.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.users_values import operand
from funcgrad._primitives.special_functions import bessel as _bessel
from funcgrad._primitives.special_functions import spherical_bessel as _spherical
from funcgrad._transforms import forward
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2, wrap


def jv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order ``v``.

    At ``z = 0`` the function is 0 for positive orders and 1 for the order 0; the derivative with
    respect to the order is 0 or -inf there.

    Examples
    --------
    >>> jv([0.0, 0.5], 1.0)
    Tensor([0.76519769, 0.67139671])
    """
    return apply2(_bessel.jv, v, z)


def yv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order ``v``.

    Examples
    --------
    >>> yv([0.0, 0.5], 1.0)
    Tensor([ 0.08825696, -0.43109887])
    """
    return apply2(_bessel.yv, v, z)


def iv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order ``v``; at ``z = 0`` as ``jv``.

    Examples
    --------
    >>> iv([0.0, 0.5], 1.0)
    Tensor([1.26606588, 0.93767489])
    """
    return apply2(_bessel.iv, v, z)


def ive(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """``iv(v, z) * exp(-abs(z.real))``, which does not overflow.

    For the order 0 it has a kink at ``z = 0``; the derivative there is 0, the subgradient of least
    norm. Derivatives are available for real ``z``.

    Examples
    --------
    >>> ive(0.5, [1.0, 1000.0])
    Tensor([0.34495131, 0.01261566])
    """
    return apply2(_bessel.ive, v, z)


def kv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order ``v``.

    Examples
    --------
    >>> kv([0.0, 0.5], 1.0)
    Tensor([0.42102444, 0.4610685 ])
    """
    return apply2(_bessel.kv, v, z)


def kve(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """``kv(v, z) * exp(z)``, which does not underflow for large ``z``; derivatives for real ``z``.

    Examples
    --------
    >>> kve(0.5, [1.0, 1000.0])
    Tensor([1.25331414, 0.03963327])
    """
    return apply2(_bessel.kve, v, z)


def j0(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order 0.

    Examples
    --------
    >>> j0([0.0, 1.0])
    Tensor([1.        , 0.76519769])
    """
    return apply1(_bessel.j0, x)


def j1(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> j1([0.0, 1.0])
    Tensor([0.        , 0.44005059])
    """
    return apply1(_bessel.j1, x)


def y0(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order 0; infinite at 0, NaN below.

    Examples
    --------
    >>> y0([0.0, 1.0])
    Tensor([      -inf, 0.08825696])
    """
    return apply1(_bessel.y0, x)


def y1(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order 1; infinite at 0, NaN below.

    Examples
    --------
    >>> y1([0.0, 1.0])
    Tensor([       -inf, -0.78121282])
    """
    return apply1(_bessel.y1, x)


def i0(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order 0.

    Examples
    --------
    >>> i0([0.0, 1.0])
    Tensor([1.        , 1.26606588])
    """
    return apply1(_bessel.i0, x)


def i0e(x: ArrayLike, /) -> Tensor:
    """``exp(-abs(x)) * i0(x)``, with the derivative 0 at 0: the subgradient of least norm.

    Examples
    --------
    >>> i0e([0.0, 1000.0])
    Tensor([1.        , 0.01261724])
    """
    return apply1(_bessel.i0e, x)


def i1(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> i1([0.0, 1.0])
    Tensor([0.       , 0.5651591])
    """
    return apply1(_bessel.i1, x)


def i1e(x: ArrayLike, /) -> Tensor:
    """``exp(-abs(x)) * i1(x)``.

    Examples
    --------
    >>> i1e([0.0, 1000.0])
    Tensor([0.        , 0.01261093])
    """
    return apply1(_bessel.i1e, x)


def k0(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order 0; infinite at 0, NaN below.

    Examples
    --------
    >>> k0([0.0, 1.0])
    Tensor([       inf, 0.42102444])
    """
    return apply1(_bessel.k0, x)


def k0e(x: ArrayLike, /) -> Tensor:
    """``exp(x) * k0(x)``.

    Examples
    --------
    >>> k0e([1.0, 1000.0])
    Tensor([1.14446308, 0.03962832])
    """
    return apply1(_bessel.k0e, x)


def k1(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order 1; infinite at 0, NaN below.

    Examples
    --------
    >>> k1([0.0, 1.0])
    Tensor([       inf, 0.60190723])
    """
    return apply1(_bessel.k1, x)


def k1e(x: ArrayLike, /) -> Tensor:
    """``exp(x) * k1(x)``.

    Examples
    --------
    >>> k1e([1.0, 1000.0])
    Tensor([1.63615349, 0.03964813])
    """
    return apply1(_bessel.k1e, x)


def hankel1(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Hankel function of the first kind, ``jv(v, z) + 1j * yv(v, z)``.

    Examples
    --------
    >>> hankel1(0.5, [1.0])
    Tensor([0.67139671-0.43109887j])
    """
    return apply2(_bessel.hankel1, v, z)


def hankel2(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Hankel function of the second kind, ``jv(v, z) - 1j * yv(v, z)``.

    Examples
    --------
    >>> hankel2(0.5, [1.0])
    Tensor([0.67139671+0.43109887j])
    """
    return apply2(_bessel.hankel2, v, z)


def jn(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """Another name of ``jv``.

    Examples
    --------
    >>> jn(0, [0.0, 1.0])
    Tensor([1.        , 0.76519769])
    """
    return apply2(_bessel.jv, v, z)


def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Tensor:
    """Bessel functions of the first kind of the orders 0 to v; JAX's name and signature.

    Parameters
    ----------
    z : array_like
    v : int
        The greatest order.
    n_iter : int
        Ignored: orders are evaluated by ``jv``, not by a recurrence of so many steps.

    Returns
    -------
    Tensor, shape (v + 1, ...)
        The orders along a new first axis.

    Raises
    ------
    ArgumentError
        ``v`` is negative.

    Notes
    -----
    NIST Digital Library of Mathematical Functions, 10.6: the slope is half the difference of the
    neighbouring orders.

    Examples
    --------
    >>> bessel_jn([0.0, 1.0], v=1)
    Tensor([[1.        , 0.76519769],
            [0.        , 0.44005059]])
    """
    v = integer(v, "bessel_jn", "v")
    if v < 0:
        raise ArgumentError(f"bessel_jn: v is {v}; orders go from 0 to v, which is not negative.")
    at = fnp.asarray(z)
    dtype = at.real.dtype if at.dtype.kind in "fc" else np.float64
    return apply2(_bessel.jv, np.arange(v + 1, dtype=dtype).reshape(-1, *[1] * at.ndim), at)


def yn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """``yv``, meant for integer orders.

    Examples
    --------
    >>> yn(0, [0.0, 1.0])
    Tensor([      -inf, 0.08825696])
    """
    return apply2(_bessel.yv, n, x)


def kn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """``kv``, meant for integer orders.

    Examples
    --------
    >>> kn(0, [0.0, 1.0])
    Tensor([       inf, 0.42102444])
    """
    return apply2(_bessel.kv, n, x)


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
    """The n-th derivative, a sum of neighbouring orders: DLMF 10.6.7 and 10.29.5."""
    count, order = integer(n, operation, "n"), wrap(operand(v, operation)) * 1.0
    if count < 0:
        raise ArgumentError(f"{operation}: the order of the derivative is not negative: {count}.")
    terms = [
        math.comb(count, k) * sign**k * function(order - count + 2 * k, z) for k in range(count + 1)
    ]
    return fnp.asarray(sum(terms[1:], terms[0]) * (scale * 0.5) ** count)


def spherical_jn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The spherical Bessel function of the first kind, of the integer order ``n``.

    Examples
    --------
    >>> spherical_jn(0, 1.0)
    Tensor(0.8414709848078965)
    """
    return _function(_spherical.spherical_jn, n, z, derivative)


def spherical_yn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The spherical Bessel function of the second kind, of the integer order ``n``.

    Examples
    --------
    >>> spherical_yn(0, 1.0)
    Tensor(-0.5403023058681398)
    """
    return _function(_spherical.spherical_yn, n, z, derivative)


def spherical_in(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The modified spherical Bessel function of the first kind, of the integer order ``n``.

    Examples
    --------
    >>> spherical_in(0, 1.0)
    Tensor(1.1752011936438014)
    """
    return _function(_spherical.spherical_in, n, z, derivative)


def spherical_kn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The modified spherical Bessel function of the second kind, of the integer order ``n``.

    Examples
    --------
    >>> spherical_kn(0, 1.0)
    Tensor(0.5778636748954609)
    """
    return _function(_spherical.spherical_kn, n, z, derivative)


def _function(primitive: Primitive, n: ArrayLike, z: ArrayLike, derivative: bool) -> Tensor:
    """The function, or its derivative with respect to z."""
    if not derivative:
        return apply2(primitive, n, z)
    argument = fnp.asarray(z) * 1.0
    order = fnp.broadcast_to(n, np.broadcast_shapes(np.shape(n), argument.shape))
    argument = fnp.broadcast_to(argument, order.shape)
    ones = fnp.ones_like(argument)
    return forward.jvp(lambda z: apply2(primitive, order, z), (argument,), (ones,))[1]

"""Bessel functions of all kinds. SciPy evaluates them.

Those with an order ``v`` are differentiable in it, for real arguments: along contours on which
nothing cancels, with a relative error below 1e-12 but near zeros. For ``jv`` and ``yv`` of
arguments above 3000 that is so where the argument is greater than the square of the order, or less
than half of it; elsewhere it is an error. Derivatives with respect to the argument are to any
order, and of complex arguments too where the function is analytic.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import bessel as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, apply2


def jv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order ``v``.

    At ``z = 0``, where the function is 0 for all positive orders and 1 for the order 0, the
    derivative with respect to the order is 0, or -inf.

    Examples
    --------
    >>> jv([0.0, 0.5], 1.0)
    Tensor([0.76519769, 0.67139671])
    """
    return apply2(_p.jv, v, z)


def yv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order ``v``.

    Examples
    --------
    >>> yv([0.0, 0.5], 1.0)
    Tensor([ 0.08825696, -0.43109887])
    """
    return apply2(_p.yv, v, z)


def iv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order ``v``; at ``z = 0`` as ``jv``.

    Examples
    --------
    >>> iv([0.0, 0.5], 1.0)
    Tensor([1.26606588, 0.93767489])
    """
    return apply2(_p.iv, v, z)


def ive(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """``iv(v, z) * exp(-abs(z.real))``, which does not overflow.

    For the order 0 the scale has a kink at 0, where the derivative with respect to ``z`` is 0: the
    subgradient of least norm. Derivatives are available for real ``z``.

    Examples
    --------
    >>> ive(0.5, [1.0, 1000.0])
    Tensor([0.34495131, 0.01261566])
    """
    return apply2(_p.ive, v, z)


def kv(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order ``v``.

    Examples
    --------
    >>> kv([0.0, 0.5], 1.0)
    Tensor([0.42102444, 0.4610685 ])
    """
    return apply2(_p.kv, v, z)


def kve(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """``kv(v, z) * exp(z)``, which does not underflow for large ``z``; derivatives for real ``z``.

    Examples
    --------
    >>> kve(0.5, [1.0, 1000.0])
    Tensor([1.25331414, 0.03963327])
    """
    return apply2(_p.kve, v, z)


def j0(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order 0.

    Examples
    --------
    >>> j0([0.0, 1.0])
    Tensor([1.        , 0.76519769])
    """
    return apply1(_p.j0, x)


def j1(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> j1([0.0, 1.0])
    Tensor([0.        , 0.44005059])
    """
    return apply1(_p.j1, x)


def y0(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order 0; infinite at 0, NaN below.

    Examples
    --------
    >>> y0([0.0, 1.0])
    Tensor([      -inf, 0.08825696])
    """
    return apply1(_p.y0, x)


def y1(x: ArrayLike, /) -> Tensor:
    """The Bessel function of the second kind, of order 1; infinite at 0, NaN below.

    Examples
    --------
    >>> y1([0.0, 1.0])
    Tensor([       -inf, -0.78121282])
    """
    return apply1(_p.y1, x)


def i0(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order 0.

    Examples
    --------
    >>> i0([0.0, 1.0])
    Tensor([1.        , 1.26606588])
    """
    return apply1(_p.i0, x)


def i0e(x: ArrayLike, /) -> Tensor:
    """``exp(-abs(x)) * i0(x)``, with the derivative 0 at 0: the subgradient of least norm.

    Examples
    --------
    >>> i0e([0.0, 1000.0])
    Tensor([1.        , 0.01261724])
    """
    return apply1(_p.i0e, x)


def i1(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the first kind, of order 1.

    Examples
    --------
    >>> i1([0.0, 1.0])
    Tensor([0.       , 0.5651591])
    """
    return apply1(_p.i1, x)


def i1e(x: ArrayLike, /) -> Tensor:
    """``exp(-abs(x)) * i1(x)``.

    Examples
    --------
    >>> i1e([0.0, 1000.0])
    Tensor([0.        , 0.01261093])
    """
    return apply1(_p.i1e, x)


def k0(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order 0; infinite at 0, NaN below.

    Examples
    --------
    >>> k0([0.0, 1.0])
    Tensor([       inf, 0.42102444])
    """
    return apply1(_p.k0, x)


def k0e(x: ArrayLike, /) -> Tensor:
    """``exp(x) * k0(x)``.

    Examples
    --------
    >>> k0e([1.0, 1000.0])
    Tensor([1.14446308, 0.03962832])
    """
    return apply1(_p.k0e, x)


def k1(x: ArrayLike, /) -> Tensor:
    """The modified Bessel function of the second kind, of order 1; infinite at 0, NaN below.

    Examples
    --------
    >>> k1([0.0, 1.0])
    Tensor([       inf, 0.60190723])
    """
    return apply1(_p.k1, x)


def k1e(x: ArrayLike, /) -> Tensor:
    """``exp(x) * k1(x)``.

    Examples
    --------
    >>> k1e([1.0, 1000.0])
    Tensor([1.63615349, 0.03964813])
    """
    return apply1(_p.k1e, x)


def hankel1(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Hankel function of the first kind, ``jv(v, z) + 1j * yv(v, z)``.

    Examples
    --------
    >>> hankel1(0.5, [1.0])
    Tensor([0.67139671-0.43109887j])
    """
    return apply2(_p.hankel1, v, z)


def hankel2(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """The Hankel function of the second kind, ``jv(v, z) - 1j * yv(v, z)``.

    Examples
    --------
    >>> hankel2(0.5, [1.0])
    Tensor([0.67139671+0.43109887j])
    """
    return apply2(_p.hankel2, v, z)


def jn(v: ArrayLike, z: ArrayLike, /) -> Tensor:
    """Another name of ``jv``.

    Examples
    --------
    >>> jn(0, [0.0, 1.0])
    Tensor([1.        , 0.76519769])
    """
    return apply2(_p.jv, v, z)


def yn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """``yv``, meant for integer orders.

    Examples
    --------
    >>> yn(0, [0.0, 1.0])
    Tensor([      -inf, 0.08825696])
    """
    return apply2(_p.yv, n, x)


def kn(n: ArrayLike, x: ArrayLike, /) -> Tensor:
    """``kv``, meant for integer orders.

    Examples
    --------
    >>> kn(0, [0.0, 1.0])
    Tensor([       inf, 0.42102444])
    """
    return apply2(_p.kv, n, x)

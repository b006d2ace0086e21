"""Spherical Bessel functions, differentiable in the argument. SciPy evaluates them."""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._primitives.special_functions import spherical_bessel as _p
from funcgrad._transforms.forward import jvp
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2


def spherical_jn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The spherical Bessel function of the first kind, of the whole order ``n``.

    Examples
    --------
    >>> spherical_jn(0, 1.0)
    Tensor(0.8414709848078965)
    """
    return _function(_p.spherical_jn, n, z, derivative)


def spherical_yn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The spherical Bessel function of the second kind, of the whole order ``n``.

    Examples
    --------
    >>> spherical_yn(0, 1.0)
    Tensor(-0.5403023058681398)
    """
    return _function(_p.spherical_yn, n, z, derivative)


def spherical_in(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The modified spherical Bessel function of the first kind, of the whole order ``n``.

    Examples
    --------
    >>> spherical_in(0, 1.0)
    Tensor(1.1752011936438014)
    """
    return _function(_p.spherical_in, n, z, derivative)


def spherical_kn(n: ArrayLike, z: ArrayLike, derivative: bool = False) -> Tensor:
    """The modified spherical Bessel function of the second kind, of the whole order ``n``.

    Examples
    --------
    >>> spherical_kn(0, 1.0)
    Tensor(0.5778636748954609)
    """
    return _function(_p.spherical_kn, n, z, derivative)


def _function(primitive: Primitive, n: ArrayLike, z: ArrayLike, derivative: bool) -> Tensor:
    """The function, or its derivative with respect to z."""
    if not derivative:
        return apply2(primitive, n, z)
    argument = fnp.asarray(z) * 1.0
    order = fnp.broadcast_to(n, np.broadcast_shapes(np.shape(n), argument.shape))
    argument = fnp.broadcast_to(argument, order.shape)
    ones = fnp.ones_like(argument)
    return jvp(lambda z: apply2(primitive, order, z), (argument,), (ones,))[1]

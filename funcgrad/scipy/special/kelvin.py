"""Kelvin functions: Bessel functions along a diagonal, which SciPy evaluates."""

from __future__ import annotations

import math
from collections.abc import Callable

import funcgrad.numpy as fnp
from funcgrad.scipy.special.bessel import jv, kv
from funcgrad.tensor.tensor import ArrayLike, Tensor

_TURN = complex(-math.sqrt(0.5), math.sqrt(0.5))
"""``exp(3 pi i / 4)``, the direction of ``ber`` and ``bei``."""


def kelvin(x: ArrayLike, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The complex Kelvin functions and their derivatives: Be, Ke, Be' and Ke'.

    Ke and Ke' are infinite at 0, and NaN below 0.

    Examples
    --------
    >>> kelvin(0.0)[0]
    Tensor((1+0j))
    """
    value = fnp.asarray(x)
    return _be(value), _ke(value), _be_slope(value), _ke_slope(value)


def _be(x: Tensor) -> Tensor:
    return jv(0.0, _TURN * x)


def _be_slope(x: Tensor) -> Tensor:
    return -_TURN * jv(1.0, _TURN * x)


def _ke(x: Tensor) -> Tensor:
    return _of_positive(x, lambda x: kv(0.0, _ROOT * x))


def _ke_slope(x: Tensor) -> Tensor:
    return _of_positive(x, lambda x: -_ROOT * kv(1.0, _ROOT * x))


_ROOT = complex(math.sqrt(0.5), math.sqrt(0.5))


def _of_positive(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return fnp.where(x < 0, fnp.nan, function(fnp.where(x < 0, 1.0, x)))


def _in_precision(result: Tensor, x: Tensor) -> Tensor:
    """Convert a result to half precision if x has it; NumPy has no complex dtype for it."""
    return fnp.astype(result, x.dtype) if x.dtype.kind == "f" else result


def ber(x: ArrayLike, /) -> Tensor:
    """Kelvin's function ber: the real part of ``jv(0, x exp(3 pi i / 4))``.

    Examples
    --------
    >>> round(float(ber(1.0)), 12)
    0.984381781213
    """
    value = fnp.asarray(x)
    return _in_precision(_be(value).real, value)


def bei(x: ArrayLike, /) -> Tensor:
    """Kelvin's function bei: the imaginary part of ``jv(0, x exp(3 pi i / 4))``.

    Examples
    --------
    >>> round(float(bei(1.0)), 12)
    0.249566040037
    """
    value = fnp.asarray(x)
    return _in_precision(_be(value).imag, value)


def ker(x: ArrayLike, /) -> Tensor:
    """Kelvin's function ker: the real part of ``kv(0, x exp(pi i / 4))``; NaN below 0.

    Examples
    --------
    >>> round(float(ker(1.0)), 12)
    0.286706208728
    """
    value = fnp.asarray(x)
    return _in_precision(_ke(value).real, value)


def kei(x: ArrayLike, /) -> Tensor:
    """Kelvin's function kei: the imaginary part of ``kv(0, x exp(pi i / 4))``; NaN below 0.

    Examples
    --------
    >>> round(float(kei(1.0)), 12)
    -0.494994636519
    """
    value = fnp.asarray(x)
    return _in_precision(_ke(value).imag, value)


def berp(x: ArrayLike, /) -> Tensor:
    """The derivative of ``ber``.

    Examples
    --------
    >>> round(float(berp(1.0)), 12)
    -0.062445752179
    """
    value = fnp.asarray(x)
    return _in_precision(_be_slope(value).real, value)


def beip(x: ArrayLike, /) -> Tensor:
    """The derivative of ``bei``.

    Examples
    --------
    >>> round(float(beip(1.0)), 12)
    0.497396511468
    """
    value = fnp.asarray(x)
    return _in_precision(_be_slope(value).imag, value)


def kerp(x: ArrayLike, /) -> Tensor:
    """The derivative of ``ker``.

    Examples
    --------
    >>> round(float(kerp(1.0)), 12)
    -0.694603891101
    """
    value = fnp.asarray(x)
    return _in_precision(_ke_slope(value).real, value)


def keip(x: ArrayLike, /) -> Tensor:
    """The derivative of ``kei``.

    Examples
    --------
    >>> round(float(keip(1.0)), 12)
    0.352369913336
    """
    value = fnp.asarray(x)
    return _in_precision(_ke_slope(value).imag, value)

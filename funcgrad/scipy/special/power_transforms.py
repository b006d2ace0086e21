"""The transforms of Box and Cox, and powers and cosines minus 1.

SciPy evaluates the transforms and ``powm1``.
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import power_transforms as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2


def boxcox(x: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The transform of Box and Cox, ``(x**lmbda - 1) / lmbda``, and ``log(x)`` for ``lmbda = 0``.

    At ``x = 0`` the derivatives are those from above.

    Examples
    --------
    >>> boxcox([1.0, 4.0], 0.5)
    Tensor([0., 2.])
    """
    return apply2(_p.boxcox, x, lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The transform of Box and Cox of ``1 + x``, with all digits of small ``x``.

    Examples
    --------
    >>> boxcox1p([0.0, 3.0], 0.5)
    Tensor([0., 2.])
    """
    return apply2(_p.boxcox1p, x, lmbda)


def inv_boxcox(y: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The inverse of ``boxcox`` in its first argument.

    Examples
    --------
    >>> inv_boxcox([0.0, 2.0], 0.5)
    Tensor([1., 4.])
    """
    return apply2(_p.inv_boxcox, y, lmbda)


def inv_boxcox1p(y: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The inverse of ``boxcox1p`` in its first argument.

    Examples
    --------
    >>> inv_boxcox1p([0.0, 2.0], 0.5)
    Tensor([0., 3.])
    """
    return apply2(_p.inv_boxcox1p, y, lmbda)


def powm1(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x**y - 1``, with all digits where that is small.

    Examples
    --------
    >>> powm1(2.0, [0.0, 1.0])
    Tensor([0., 1.])
    """
    return apply2(_p.powm1, x, y)


def exp10(x: ArrayLike, /) -> Tensor:
    """``10**x``.

    Examples
    --------
    >>> exp10([0.0, 2.0])
    Tensor([  1., 100.])
    """
    return fnp.power(10.0, x)


def cosm1(x: ArrayLike, /) -> Tensor:
    """``cos(x) - 1``, with all digits where that is small.

    Examples
    --------
    >>> cosm1(0.0)
    Tensor(-0.0)
    """
    half = fnp.sin(fnp.asarray(x) / 2)
    return -2 * half * half

"""Complex numbers and their parts.

The gradient of a real function L with respect to z = x + iy is dL/dx + i dL/dy.
"""

from __future__ import annotations

from math import pi

from funcgrad.numpy.trigonometry import arctan2
from funcgrad.primitives import complexes as _p
from funcgrad.shape import dtype_of
from funcgrad.tensor import ArrayLike, Tensor, apply1
from funcgrad.users_values import operand

__all__ = [
    "angle",
    "conj",
    "conjugate",
    "imag",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "real",
]


def real(val: ArrayLike) -> Tensor:
    """The real part.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.real([1 + 2j, 3.0])
    Tensor([1., 3.])
    """
    return apply1(_p.real, val)


def imag(val: ArrayLike) -> Tensor:
    """The imaginary part; of real numbers zeros.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.imag([1 + 2j, 3.0])
    Tensor([2., 0.])
    """
    return apply1(_p.imag, val)


def conj(x: ArrayLike, /) -> Tensor:
    """The complex conjugate.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.conj(1 + 2j)
    Tensor((1-2j))
    """
    return apply1(_p.conj, x)


conjugate = conj


def angle(z: ArrayLike, deg: bool = False) -> Tensor:
    """The angle of a complex number from the positive real axis.

    At 0, which has no angle, the derivative is taken as 0.

    Parameters
    ----------
    z : array_like
    deg : bool, optional
        In degrees rather than in radians.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.angle(1j, deg=True)
    Tensor(90.0)
    """
    value = operand(z, "angle")
    radians = arctan2(imag(value) if iscomplexobj(value) else 0, real(value))
    return radians * (180 / pi) if deg else radians


def iscomplex(x: ArrayLike) -> Tensor:
    """Whether the imaginary part is not 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.iscomplex([1 + 1j, 1 + 0j])
    Tensor([ True, False])
    """
    return imag(x) != 0


def isreal(x: ArrayLike) -> Tensor:
    """Whether the imaginary part is 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isreal([1 + 1j, 1 + 0j])
    Tensor([False,  True])
    """
    return imag(x) == 0


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.iscomplexobj([1 + 0j])
    True
    """
    return dtype_of(operand(x, "iscomplexobj")).kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.isrealobj([1.0])
    True
    """
    return not iscomplexobj(x)

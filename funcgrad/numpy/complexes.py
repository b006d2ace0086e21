"""Complex numbers and their parts.

The gradient of a real function L with respect to z = x + iy is dL/dx + i dL/dy.
"""

from __future__ import annotations

from math import pi

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import operand
from funcgrad._primitives import complexes as _p
from funcgrad.numpy.options import real_number
from funcgrad.numpy.trigonometry import arctan2
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1, tensor


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
    """The imaginary part; zeros for real numbers.

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
        Whether to return degrees rather than radians.

    Returns
    -------
    Tensor
        Angles from -pi to pi, or from -180 to 180, in the shape of ``z``.

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


def real_if_close(a: ArrayLike, tol: float = 100) -> Tensor:
    """The real parts if all imaginary parts are close to 0; else the array.

    Parameters
    ----------
    a : array_like
        Not traced by a loop: the dtype of the result depends on its values.
    tol : float
        The tolerance: above 1 in units of the dtype's precision, else absolute.

    Returns
    -------
    Tensor
        In the shape of ``a``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.real_if_close([2.1 + 4e-15j, 5.2 + 3e-15j])
    Tensor([2.1, 5.2])
    """
    value = tensor(a)
    if value.dtype.kind != "c":
        return value
    limit = real_number(tol, "real_if_close", "tol")
    limit = limit * float(np.finfo(value.dtype).eps) if limit > 1 else limit
    return value.real if bool((abs(value.imag) < limit).all()) else value

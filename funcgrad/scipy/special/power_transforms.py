"""Box-Cox transforms, powers and cosines minus 1, and Lambert's W function.

SciPy evaluates all but ``exp10`` and ``cosm1``.
"""

from __future__ import annotations

from typing import SupportsIndex

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import lambert as _lambert
from funcgrad._primitives.special_functions import power_transforms as _power_transforms
from funcgrad.numpy.options import integer, real_number
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1, apply2


def boxcox(x: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The Box-Cox transform: ``(x**lmbda - 1) / lmbda``, and ``log(x)`` for ``lmbda = 0``.

    At ``x = 0`` the derivatives are limits from above.

    Examples
    --------
    >>> boxcox([1.0, 4.0], 0.5)
    Tensor([0., 2.])
    """
    return apply2(_power_transforms.boxcox, x, lmbda)


def boxcox1p(x: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The Box-Cox transform of ``1 + x``, with all digits for small ``x``.

    Examples
    --------
    >>> boxcox1p([0.0, 3.0], 0.5)
    Tensor([0., 2.])
    """
    return apply2(_power_transforms.boxcox1p, x, lmbda)


def inv_boxcox(y: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The ``x`` for which ``boxcox(x, lmbda)`` is ``y``.

    Examples
    --------
    >>> inv_boxcox([0.0, 2.0], 0.5)
    Tensor([1., 4.])
    """
    return apply2(_power_transforms.inv_boxcox, y, lmbda)


def inv_boxcox1p(y: ArrayLike, lmbda: ArrayLike, /) -> Tensor:
    """The ``x`` for which ``boxcox1p(x, lmbda)`` is ``y``.

    Examples
    --------
    >>> inv_boxcox1p([0.0, 2.0], 0.5)
    Tensor([0., 3.])
    """
    return apply2(_power_transforms.inv_boxcox1p, y, lmbda)


def powm1(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """``x**y - 1``, with all digits where that is small.

    Examples
    --------
    >>> powm1(2.0, [0.0, 1.0])
    Tensor([0., 1.])
    """
    return apply2(_power_transforms.powm1, x, y)


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


def lambertw(z: ArrayLike, k: SupportsIndex = 0, tol: float = 1e-8) -> Tensor:
    """The Lambert W function: branch ``k`` of the solutions w of ``w * exp(w) = z``.

    Parameters
    ----------
    z : array_like
    k : int
        0 for the principal branch, which is real for real ``z`` from -1 / e on.
    tol : float
        The tolerance of SciPy's iteration.

    Returns
    -------
    Tensor
        Complex, as in SciPy. Branches meet at -1 / e; the derivative is infinite there.

    Examples
    --------
    >>> lambertw(1.0).real
    Tensor(0.5671432904097838)
    """
    branch, tolerance = integer(k, "lambertw", "k"), real_number(tol, "lambertw", "tol")
    return apply(_lambert.lambertw, z, k=branch, tol=tolerance)


def wrightomega(z: ArrayLike, /) -> Tensor:
    """The Wright omega function: the solution w of ``w + log(w) = z`` for real ``z``.

    Examples
    --------
    >>> wrightomega(1.0)
    Tensor(1.0)
    """
    return apply1(_lambert.wrightomega, z)

"""The solutions of ``w * exp(w) = z`` and of ``w + log(w) = z``. SciPy evaluates them."""

from __future__ import annotations

from typing import SupportsIndex

from funcgrad._primitives.special_functions import lambert as _p
from funcgrad.numpy.options import integer, real_number
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1


def lambertw(z: ArrayLike, k: SupportsIndex = 0, tol: float = 1e-8) -> Tensor:
    """The branch ``k`` of the solutions w of ``w * exp(w) = z``.

    Parameters
    ----------
    z : array_like
    k : int
        0 for the principal branch, which is real for real ``z`` from -1 / e on.
    tol : float
        Of SciPy's iteration.

    Returns
    -------
    Tensor
        Complex, as SciPy's. At -1 / e, where branches meet, the derivative is infinite.

    Examples
    --------
    >>> lambertw(1.0).real
    Tensor(0.5671432904097838)
    """
    branch, tolerance = integer(k, "lambertw", "k"), real_number(tol, "lambertw", "tol")
    return apply(_p.lambertw, z, k=branch, tol=tolerance)


def wrightomega(z: ArrayLike, /) -> Tensor:
    """Wright's omega function: the solution w of ``w + log(w) = z`` for real ``z``.

    Examples
    --------
    >>> wrightomega(1.0)
    Tensor(1.0)
    """
    return apply1(_p.wrightomega, z)

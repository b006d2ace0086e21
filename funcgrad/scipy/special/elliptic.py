"""Complete elliptic integrals of the parameter ``m = k**2``. SciPy evaluates them."""

from __future__ import annotations

from funcgrad._primitives.special_functions import elliptic as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


def ellipk(m: ArrayLike, /) -> Tensor:
    """The complete elliptic integral of the first kind: infinite at 1, and NaN beyond.

    Examples
    --------
    >>> ellipk([0.0, 0.5])
    Tensor([1.57079633, 1.85407468])
    """
    return apply1(_p.ellipk, m)


def ellipkm1(p: ArrayLike, /) -> Tensor:
    """``ellipk(1 - p)``, accurate also for small ``p``.

    Examples
    --------
    >>> ellipkm1([1e-200, 1.0])
    Tensor([231.64480366,   1.57079633])
    """
    return apply1(_p.ellipkm1, p)


def ellipe(m: ArrayLike, /) -> Tensor:
    """The complete elliptic integral of the second kind: 1 at 1, with a slope of -inf, then NaN.

    Examples
    --------
    >>> ellipe([0.0, 0.5, 1.0])
    Tensor([1.57079633, 1.35064388, 1.        ])
    """
    return apply1(_p.ellipe, m)

"""Faddeeva's function, Voigt's profile and Owen's T. SciPy evaluates them."""

from __future__ import annotations

from funcgrad._primitives.special_functions import faddeeva as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply1, apply2


def wofz(z: ArrayLike, /) -> Tensor:
    """Faddeeva's function ``exp(-z**2) * erfc(-1j * z)``.

    Derivatives keep their digits for large ``z``; between 4 and 9 second ones have nine, since
    SciPy's values have 13.

    Examples
    --------
    >>> wofz(0.0)
    Tensor((1+0j))
    """
    return apply1(_p.wofz, z)


def voigt_profile(x: ArrayLike, sigma: ArrayLike, gamma: ArrayLike, /) -> Tensor:
    """The density of the sum of a normal and a Cauchy variable, of scales sigma and gamma.

    Derivatives exist for positive sigma, and are NaN at 0; second ones in sigma and gamma lose
    digits where sigma is much smaller than these.

    Examples
    --------
    >>> voigt_profile(0.0, 1.0, 0.0)
    Tensor(0.3989422804014327)
    """
    return apply(_p.voigt_profile, x, sigma, gamma)


def owens_t(h: ArrayLike, a: ArrayLike, /) -> Tensor:
    """Owen's T: the probability of ``X > h`` and ``0 < Y < a X`` of two normal variables.

    Examples
    --------
    >>> owens_t(0.0, 1.0)
    Tensor(0.125)
    """
    return apply2(_p.owens_t, h, a)

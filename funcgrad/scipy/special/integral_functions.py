"""Integrals of sines, cosines and logarithms that have names of their own. SciPy evaluates them.

They are analytic, and differentiable at complex arguments too, but on their cuts.
"""

from __future__ import annotations

from funcgrad._primitives.special_functions import integral_functions as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


def spence(z: ArrayLike, /) -> Tensor:
    """Spence's function: the integral of ``log(t) / (1 - t)`` from 1 to z, a dilogarithm.

    Examples
    --------
    >>> spence([0.0, 1.0])
    Tensor([1.64493407, 0.        ])
    """
    return apply1(_p.spence, z)


def fresnel(z: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """Fresnel's integrals S and C, of ``sin(pi t**2 / 2)`` and of the cosine, from 0 to z.

    Examples
    --------
    >>> fresnel(0.0)
    (Tensor(0.0), Tensor(0.0))
    """
    return apply1(_p.fresnel_sine, z), apply1(_p.fresnel_cosine, z)


def sici(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The integrals of ``sin(t) / t`` from 0 on, and of ``cos(t) / t`` with Euler's constant.

    Examples
    --------
    >>> sici(0.0)[0]
    Tensor(0.0)
    """
    return apply1(_p.sine_integral, x), apply1(_p.cosine_integral, x)


def shichi(x: ArrayLike, /) -> tuple[Tensor, Tensor]:
    """The integrals of ``sinh(t) / t`` from 0 on, and of ``cosh(t) / t`` with Euler's constant.

    Examples
    --------
    >>> shichi(0.0)[0]
    Tensor(0.0)
    """
    return apply1(_p.hyperbolic_sine_integral, x), apply1(_p.hyperbolic_cosine_integral, x)

"""Airy functions of real or complex arguments. SciPy evaluates them."""

from __future__ import annotations

from funcgrad._primitives.special_functions import airy as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


def airy(z: ArrayLike, /) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The Airy functions and their derivatives: Ai, Ai', Bi and Bi'.

    Examples
    --------
    >>> airy(0.0)[0]
    Tensor(0.3550280538878172)
    """
    ai, ai_slope = apply1(_p.airy_ai, z), apply1(_p.airy_ai_slope, z)
    return ai, ai_slope, apply1(_p.airy_bi, z), apply1(_p.airy_bi_slope, z)

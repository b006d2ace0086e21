"""Loss functions of least squares, which limit the influence of outliers.

A loss ρ replaces the square z of a residual in units of ``f_scale``; ρ(z) ≈ z for small z.

>>> import numpy as np
>>> LOSSES["huber"](np.array([0.25, 9.0]))
Tensor([0.25, 5.  ])
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import funcgrad.numpy as fnp
from funcgrad._transforms.forward import jvp
from funcgrad.tensor.tensor import Tensor


def _huber(z: Any) -> Tensor:
    outside = z > 1.0
    return fnp.where(outside, 2.0 * fnp.sqrt(fnp.where(outside, z, 1.0)) - 1.0, z)


LOSSES: Final = MappingProxyType[str, Callable[[Any], Any]](
    {
        "linear": lambda z: z,
        "soft_l1": lambda z: 2.0 * z / (fnp.sqrt(1.0 + z) + 1.0),
        "huber": _huber,
        "cauchy": fnp.log1p,
        "arctan": fnp.arctan,
    }
)
"""The losses by SciPy's names (soft_l1 without cancellation at 0)."""


def cost_of(residuals: Tensor, loss: str, f_scale: Any) -> Tensor:
    """Half the sum of the losses, in the units of squared residuals."""
    if loss == "linear":
        return 0.5 * fnp.sum(residuals * residuals)
    return 0.5 * f_scale**2 * fnp.sum(LOSSES[loss]((residuals / f_scale) ** 2))


def weighted(
    residuals: Tensor, jacobian: Tensor, loss: str, f_scale: Any, least: float = 1e-3
) -> tuple[Any, Any]:
    """Residuals and Jacobian of a least-squares problem with the same gradient.

    The product of the Jacobian with itself approximates the Hessian of the loss, and stays positive
    definite: the curvature of a loss is at least ``least`` times its slope. Source: Triggs and
    others, "Bundle adjustment: a modern synthesis", 2000, section 4.3.
    """
    if loss == "linear":
        return residuals, jacobian
    z = (residuals / f_scale) ** 2
    ones = fnp.ones_like(z)

    def slope(point: Any) -> Any:
        return jvp(LOSSES[loss], (point,), (ones,))[1]

    first, second = jvp(slope, (z,), (ones,))
    curvature = fnp.maximum(first + 2.0 * z * second, least * first)
    root = fnp.sqrt(curvature)
    return residuals * (first / root), jacobian * root[:, None]

"""Tell a stiff equation from one that needs its steps for accuracy.

An explicit method is stable as long as the size of steps times the greatest eigenvalue of the
Jacobian stays below about 3.3 (orders 5 and 8). Where the number of steps is close to this bound,
stability set their size, not accuracy: the test of DOPRI5 (Hairer and Wanner, "Solving ordinary
differential equations II", section IV.2), with powers of the exact Jacobian at some times.

>>> import funcgrad as fg
>>> y, t = [fg.tensor([1.0, 0.0])], fg.tensor(0.0)
>>> spectral_radius(lambda y, t: [fg.tensor([-1.0, -50.0]) * y[0]], y, t)
Tensor(49.99...)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.users_line import warn_user
from funcgrad._transforms.forward import jvp
from funcgrad.integrate.step_methods import Leaves, RightHandSide
from funcgrad.tensor.tensor import Tensor

LEAST_STEPS: Final = 200
"""Solutions with fewer steps are not looked at: a stiff method would not be faster."""

LIMIT: Final = 2.2
"""The product of size and eigenvalue from which on steps count as bounded by stability."""

_POWERS: Final = 6


def spectral_radius(f: RightHandSide, y: Leaves, t: Tensor) -> Tensor:
    """About the greatest absolute eigenvalue of the Jacobian of f at y: by powers of it."""
    direction = [
        (fnp.cos(fnp.arange(leaf.size) + 1.0).reshape(leaf.shape)).astype(leaf.dtype) for leaf in y
    ]
    sizes = []
    for _ in range(_POWERS):
        size = _length(direction)
        inverse = 1.0 / fnp.where(size == 0, 1.0, size)
        direction = [x * inverse.astype(x.real.dtype) for x in direction]
        direction = list(jvp(lambda *y: tuple(f(list(y), t)), tuple(y), tuple(direction))[1])
        sizes.append(_length(direction))
    return fnp.sqrt(sizes[-1] * sizes[-2])  # two: complex eigenvalues turn the direction


def _length(values: Sequence[Tensor]) -> Tensor:
    total = fnp.zeros(())
    for value in values:
        total = total + fnp.sum(abs(value).astype(np.float64) ** 2)
    return fnp.sqrt(total)


class StiffnessWarning(RuntimeWarning):
    """A warning: an implicit method would solve the equation with far fewer steps.

    It is given outside of ``jit`` only, where the number of steps is known.
    """


def warn_if_stiff(radii: Tensor, length: float, steps: int, method: str) -> None:
    """Warn if the steps of an explicit method were as long as stability allows, on average."""
    product = float(np.mean(np.asarray(radii))) * length / steps
    if product >= LIMIT:
        warn_user(
            f"solve_ivp: the equation seems to be stiff: stability, not accuracy, asked for"
            f" {steps} steps of {method!r} (size times eigenvalue: {product:.2g}). Try"
            " method='Kvaerno5', 'Rodas5P' or 'BDF'.",
            StiffnessWarning,
        )

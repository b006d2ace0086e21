"""The leapfrog method: steps of one size that keep the energy of a mechanical system.

>>> import funcgrad as fg
>>> spring = lambda t, y: (y[1], -y[0])
>>> sol = fg.integrate.solve_ivp(spring, (0.0, 99.0), (1.0, 0.0), "leapfrog", first_step=0.1)
>>> q, p = sol.y
>>> float(max(abs(q**2 + p**2 - 1.0))) < 0.003
True
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad.integrate.step_methods import (
    Attempt,
    Leaves,
    Memoryless,
    OdeEquation,
    StepStart,
    TakenStep,
    interpolated,
    plus,
    weighted,
)
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Leapfrog(Memoryless):
    """The method of Störmer and Verlet for places q and momenta p, the halves of the leaves of y.

    The slope of q has to depend on p and t only, the slope of p on q and t only. The steps have
    order 2, are symplectic and reversible, and have no error estimate: Hairer, Lubich and Wanner,
    "Geometric numerical integration", section I.1.4.
    """

    name: str = "leapfrog"
    order: int = 1
    dense_count: int = 0

    @property
    def evaluations(self) -> int:
        """One of the slope of q, one of the slope of p, one of both for the interpolation."""
        return 3

    def attempt(self, equation: OdeEquation, at: StepStart, memory: object) -> Attempt:
        """Take a step: half a step for p, one for q, half a step for p."""
        y, slope, t, step = at
        f, half, middle = equation.f, len(y) // 2, 0.5 * step
        p = plus(y[half:], weighted([1.0], [slope[half:]], middle))
        velocity = f([*y[:half], *p], t + middle)[:half]
        q = plus(y[:half], weighted([1.0], [velocity], step))
        force = f([*q, *p], t + step)[half:]
        new = [*q, *plus(p, weighted([1.0], [force], middle))]
        one = fnp.ones((), step.dtype)
        return Attempt(new, fnp.zeros((), step.dtype), f(new, t + step), [], factor=one)

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate by the cubic through both ends and their slopes."""
        return interpolated(taken, theta)


LEAPFROG = Leapfrog()

"""The method of order 8 of Dormand and Prince, with its interpolation of order 7.

>>> import funcgrad as fg
>>> sol = fg.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), 1.0, "DOP853", rtol=1e-12, atol=1e-12)
>>> float(abs(sol.y[-1] - fg.numpy.exp(-1.0))) < 1e-13
True
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad.integrate import dop853_coefficients as coefficients
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
class EighthOrder(Memoryless):
    """The method DOP853: Hairer, Nørsett and Wanner, volume I, sections II.5, II.6 and II.10."""

    name: str = "DOP853"
    order: int = 7
    dense_count: int = 4

    @property
    def evaluations(self) -> int:
        """Twelve for the step, three for the interpolation."""
        return len(coefficients.NODES) + len(coefficients.MORE_NODES)

    def attempt(self, equation: OdeEquation, at: StepStart, memory: object) -> Attempt:
        """Try a step."""
        y, slope, t, step = at
        f, slopes, new = equation.f, [slope], y
        for row, node in zip(coefficients.STAGES, coefficients.NODES, strict=True):
            new = plus(y, weighted(row, slopes, step))
            slopes.append(f(new, t + node * step))
        end_slope, scale = slopes[-1], equation.scale(y, new)
        # The estimate of order 5 is trusted as far as it is small beside the estimate of order 3.
        first, second = [
            equation.norm(weighted(weights, slopes, step), scale) ** 2
            for weights in (coefficients.ERROR_5, coefficients.ERROR_3)
        ]
        total = first + 0.01 * second
        error = first / fnp.sqrt(fnp.where(total == 0, 1.0, total))
        for row, node in zip(coefficients.MORE_STAGES, coefficients.MORE_NODES, strict=True):
            slopes.append(f(plus(y, weighted(row, slopes, step)), t + node * step))
        dense = (weighted(row, slopes, step) for row in coefficients.CONTINUATION)
        return Attempt(new, error, end_slope, dense)

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate by a polynomial of degree 7 (DOP853's function CONTD8)."""
        return interpolated(taken, theta)


DOP853 = EighthOrder()

"""Explicit Runge-Kutta pairs whose last stage is the solution, with a quartic between the ends.

>>> import funcgrad as fg
>>> y, t = [fg.tensor(1.0)], fg.tensor(0.0)
>>> end, slopes = RK45.stages_of(lambda y, t: [-y[0]], y, [-y[0]], t, fg.tensor(0.1))
>>> end, len(slopes)
([Tensor(0.904837...)], 7)
"""

from __future__ import annotations

from typing import Final

from funcgrad._base.fast_dataclass import dataclass
from funcgrad.integrate import dormand_prince, tsitouras
from funcgrad.integrate.step_methods import (
    Attempt,
    Leaves,
    Memoryless,
    OdeEquation,
    RightHandSide,
    StepStart,
    TakenStep,
    interpolated,
    plus,
    weighted,
)
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class ExplicitPair(Memoryless):
    """An explicit pair: two values are equal only if they are one object.

    Attributes
    ----------
    name : str
    order : int
        The order of the error estimate.
    nodes : tuple of float
        The times of the stages after the first, as fractions of a step.
    stages : tuple of tuples
        The weights of the earlier slopes in each stage; the last one is the end of the step.
    error : tuple of float
        The weights of the slopes in the error.
    quartic : tuple of float
        Their weights in the quartic term of the interpolation, which is added to the cubic through
        both ends and their slopes.
    """

    name: str
    order: int
    nodes: tuple[float, ...]
    stages: tuple[tuple[float, ...], ...]
    error: tuple[float, ...]
    quartic: tuple[float, ...]

    @property
    def dense_count(self) -> int:
        """The coefficient of the quartic term."""
        return 1

    @property
    def evaluations(self) -> int:
        """One for each stage after the first, whose slope belongs to the last step."""
        return len(self.nodes)

    def stages_of(
        self, f: RightHandSide, y: Leaves, slope: Leaves, t: Tensor, step: Tensor
    ) -> tuple[Leaves, list[Leaves]]:
        """Compute one step: the solution at its end, and the slopes of all stages.

        ``y`` and ``slope`` belong to the start of the step; ``step`` has a sign.
        """
        slopes = [slope]
        end = y
        for row, node in zip(self.stages, self.nodes, strict=True):
            end = plus(y, weighted(row, slopes, step))
            slopes.append(f(end, t + node * step))
        return end, slopes

    def attempt(self, equation: OdeEquation, at: StepStart, memory: object) -> Attempt:
        """Try a step."""
        y, slope, t, step = at
        new, slopes = self.stages_of(equation.f, y, slope, t, step)
        error = equation.error(weighted(self.error, slopes, step), y, new)
        dense = (weighted(weights, slopes, step) for weights in [self.quartic])
        return Attempt(new, error, slopes[-1], dense)

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate by a quartic (DOPRI5's function CONTD5)."""
        return interpolated(taken, theta)


RK45: Final = ExplicitPair(
    "RK45",
    4,
    dormand_prince.NODES,
    dormand_prince.STAGES,
    dormand_prince.ERROR,
    dormand_prince.CONTINUATION,
)
"""The pair of Dormand and Prince."""

TSIT5: Final = ExplicitPair(
    "Tsit5",
    4,
    tsitouras.NODES,
    tsitouras.STAGES,
    tsitouras.ERROR,
    tsitouras.CONTINUATION,
)
"""The pair of Tsitouras, whose error is smaller at the same cost."""

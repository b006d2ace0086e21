"""Explicit Runge-Kutta pairs whose last stage is the solution, with a quartic between the ends.

>>> import funcgrad as fg
>>> y, t = [fg.tensor(1.0)], fg.tensor(0.0)
>>> end, slopes = RK45.stages_of(lambda y, t: [-y[0]], y, [-y[0]], t, fg.tensor(0.1))
>>> end, len(slopes)
([Tensor(0.904837...)], 7)
>>> from math import isclose
>>> [all(map(isclose, map(sum, pair.stages), pair.nodes)) for pair in (RK45, TSIT5)]
[True, True]
"""

from __future__ import annotations

from typing import Final

from funcgrad._base.fast_dataclass import dataclass
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
        The weights of the earlier slopes in each stage; the last one is the end of the step, whose
        slope is the first slope of the next step.
    error : tuple of float
        The weights of the slopes in the error: the solution of order 5 minus that of order 4.
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
    order=4,
    nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0),
    stages=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    error=(71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40),
    quartic=(
        -12715105075 / 11282082432,
        0.0,
        87487479700 / 32700410799,
        -10690763975 / 1880347072,
        701980252875 / 199316789632,
        -1453857185 / 822651844,
        69997945 / 29380423,
    ),
)
"""The pair of Dormand and Prince.

Sources: J. R. Dormand and P. J. Prince, "A family of embedded Runge-Kutta formulae", Journal of
Computational and Applied Mathematics 6 (1980), 19-26, table 2; also in Hairer, Nørsett and Wanner,
"Solving ordinary differential equations I", 2nd edition (1993), table II.5.2. The quartic term:
L. F. Shampine, "Some practical Runge-Kutta formulas", Mathematics of Computation 46 (1986),
135-150; in this form in Hairer, Nørsett and Wanner, section II.6, and in their program DOPRI5.
"""

TSIT5: Final = ExplicitPair(
    "Tsit5",
    order=4,
    nodes=(0.161, 0.327, 0.9, 0.9800255409045097, 1.0, 1.0),
    stages=(
        (0.161,),
        (-0.008480655492356989, 0.335480655492357),
        (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
        (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
        (
            5.86145544294642,
            -12.92096931784711,
            8.159367898576159,
            -0.071584973281401,
            -0.028269050394068383,
        ),
        (
            0.09646076681806523,
            0.01,
            0.4798896504144996,
            1.379008574103742,
            -3.290069515436081,
            2.324710524099774,
        ),
    ),
    error=(
        0.0017800110522257773,
        0.0008164344596567463,
        -0.007880878010261994,
        0.1447110071732629,
        -0.5823571654525552,
        0.45808210592918686,
        -0.015151515151515152,
    ),
    quartic=(
        -1.0530884977290216,
        0.1017,
        2.490627285651253,
        -16.548102889244902,
        47.37952196281928,
        -34.87065786149661,
        2.5,
    ),
)
"""The pair of Tsitouras, whose error is smaller at the same cost.

Source: Ch. Tsitouras, "Runge-Kutta pairs of order 5(4) satisfying only the first column simplifying
assumption", Computers and Mathematics with Applications 62 (2011), 770-775. Its interpolation of
order 4 agrees with the solution and its slope at both ends of a step; so it is the cubic through
them with a multiple of the quartic term, as for the pair of Dormand and Prince.
"""

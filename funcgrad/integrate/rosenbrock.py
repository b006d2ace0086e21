"""Rodas5P: a Rosenbrock method of order 5, which solves linear systems only.

Source: G. Steinebach, "Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks
within the Julia Differential Equations package", BIT Numerical Mathematics 63 (2023), 27. The form
of a step, in which the Jacobian is multiplied by nothing, and the continuous solution: E. Hairer
and G. Wanner, "Solving ordinary differential equations II", section IV.7, and their program RODAS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.scans import scan
from funcgrad.integrate.step_methods import (
    Attempt,
    Counts,
    Leaves,
    Memoryless,
    OdeEquation,
    StepStart,
    TakenStep,
)
from funcgrad.integrate.stiff_equations import VectorEquation, mixed
from funcgrad.tensor.tensor import Tensor

_GAMMA: Final = 0.21193756319429014

_LAST: Final = (
    -7.502846399306121,
    2.561846144803919,
    -11.627539656261098,
    -0.18268767659942256,
    0.030198172008377946,
)

_STAGES: Final = (
    (3.0,),
    (2.849394379747939, 0.45842242204463923),
    (-6.954028509809101, 2.489845061869568, -10.358996098473584),
    (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
    _LAST,
    (*_LAST, 1.0),
    (*_LAST, 1.0, 1.0),
)
"""The points of the stages after the first, as sums of the earlier increments (a_ij). The solution
is the last point plus the last increment, which is the error."""

_FEEDBACK: Final = (
    (-14.155112264123755,),
    (-17.97296035885952, -2.859693295451294),
    (147.12150275711716, -1.41221402718213, 71.68940251302358),
    (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
    (
        24.854864614690072,
        -3.0009227002832186,
        47.4931110020768,
        5.5814197821558125,
        -0.6610691825249471,
    ),
    (
        30.91273214028599,
        -3.1208243349937974,
        77.79954646070892,
        34.28646028294783,
        -19.097331116725623,
        -28.087943162872662,
    ),
    (
        37.80277123390563,
        -3.2571969029072276,
        112.26918849496327,
        66.9347231244047,
        -40.06618937091002,
        -54.66780262877968,
        -9.48861652309627,
    ),
)
"""The weights of the earlier increments, divided by the step, on the right side (c_ij)."""

_NODES: Final = (
    0.6358126895828704,
    0.4095798393397535,
    0.9769306725060716,
    0.4288403609558664,
    1.0,
    1.0,
    1.0,
)
_TIME_WEIGHTS: Final = (
    -0.42387512638858027,
    -0.3384627126235924,
    1.8046452872882734,
    2.325825639765069,
    0.0,
    0.0,
    0.0,
)
"""The weights of ∂f/∂t in the stages after the first, in which it is gamma."""

_CONTINUATION: Final = (
    (
        25.948786856663858,
        -2.5579724845846235,
        10.433815404888879,
        -2.3679251022685204,
        0.524948541321073,
        1.1241088310450404,
        0.4272876194431874,
        -0.17202221070155493,
    ),
    (
        -9.91568850695171,
        -0.9689944594115154,
        3.0438037242978453,
        -24.495224566215796,
        20.176138334709044,
        15.98066361424651,
        -6.789040303419874,
        -6.710236069923372,
    ),
    (
        11.419903575922262,
        2.8879645146136994,
        72.92137995996029,
        80.12511834622643,
        -52.072871366152654,
        -59.78993625266729,
        -0.15582684282751913,
        4.883087185713722,
    ),
)
"""The weights of the increments in the continuous solution, which is of order 4."""


def _rows(
    table: Sequence[Sequence[float]], width: int, dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """A table with rows of several lengths, which zeros fill up from the left."""
    return np.array([[*[0.0] * (width - len(row)), *row] for row in table], dtype)


@dataclass(frozen=True, slots=True)
class Rodas5P(Memoryless):
    """Rodas5P, as a method of ``solve_ivp``.

    The step solves (M / (h gamma) - J) k_i = f(u_i) + M sum_j c_ij k_j / h + h d_i ∂f/∂t for each
    stage, with one matrix and the exact Jacobian J of the start.
    """

    name: str = "Rodas5P"
    order: int = 4
    dense_count: int = 3
    evaluations: int | None = None
    is_sparse: bool = False

    def attempt(self, equation: OdeEquation, at: StepStart, memory: object) -> Attempt:
        """Try a step."""
        y, slope, t, step = at
        system = VectorEquation.of(equation, y, self.is_sparse)
        form = system.form
        dtype = form.dtype
        start, h = form.vector(y), step.astype(dtype)
        factor = system.factor(system.jacobian(start, t), 1.0 / (h * _GAMMA))
        drift = h * system.time_derivative(start, t)
        first = system.solve(factor, form.vector(slope) + _GAMMA * drift)
        zeros = fnp.zeros_like(first)

        def stage(
            increments: Sequence[Tensor], row: tuple[Tensor, ...]
        ) -> tuple[Sequence[Tensor], None]:
            weights, feedback, node, time_weight = row
            value = system.f(start + mixed(weights, increments), t + node.astype(t.dtype) * step)
            fed = system.massed(mixed(feedback, increments)) / h
            increment = system.solve(factor, value + fed + time_weight * drift)
            return (*increments[1:], increment), None

        tables = (
            _rows(_STAGES, 8, dtype),
            _rows(_FEEDBACK, 8, dtype),
            np.array(_NODES, dtype),
            np.array(_TIME_WEIGHTS, dtype),
        )
        increments, _ = scan(stage, (*[zeros] * 7, first), tables)
        new = start + mixed(np.array([*_LAST, 1.0, 1.0, 1.0], dtype), increments)
        end = form.leaves(new)
        error = system.norm(increments[7], equation.scale(y, end))
        dense = [form.leaves(mixed(row, increments)) for row in np.array(_CONTINUATION, dtype)]
        return Attempt(end, error, equation.f(end, t + step), dense, counts=Counts(8, 1, 1))

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate within a step."""
        leaves = []
        for before, after, one, two, three in zip(taken.old, taken.new, *taken.dense, strict=True):
            x = theta.astype(np.finfo(before.dtype).dtype)
            other = 1.0 - x
            leaves.append(other * before + x * (after + other * (one + x * (two + x * three))))
        return leaves

"""Kvaerno5: a singly diagonally implicit method of order 5 with an explicit first stage.

Source: A. Kværnø, "Singly diagonally implicit Runge-Kutta methods with an explicit first stage",
BIT Numerical Mathematics 44 (2004), 489-502: the method of orders 5 and 4 with seven stages. Its
last two stages are the solutions of order 5 and of order 4, both stiffly accurate.

>>> from math import isclose
>>> all(isclose(a, b, abs_tol=1e-15) for a, b in zip(map(sum, STAGES), NODES, strict=True))
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._control.scans import scan
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.stage_newton import SLOW, Convergence, stage_root, tolerance_of
from funcgrad.integrate.step_methods import (
    Attempt,
    Counts,
    Leaves,
    OdeEquation,
    StepStart,
    TakenStep,
)
from funcgrad.integrate.stiff_equations import Matrix, VectorEquation, mixed
from funcgrad.tensor.tensor import Tensor

GAMMA: Final = 0.26

STAGES: Final = (
    (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (GAMMA, GAMMA, 0.0, 0.0, 0.0, 0.0, 0.0),
    (0.13, 0.84033320996790809, GAMMA, 0.0, 0.0, 0.0, 0.0),
    (0.22371961478320505, 0.47675532319799699, -0.06470895363112615, GAMMA, 0.0, 0.0, 0.0),
    (
        0.16648564323248321,
        0.10450018841591720,
        0.03631482272098715,
        -0.13090704451073998,
        GAMMA,
        0.0,
        0.0,
    ),
    (
        0.13855640231268224,
        0.0,
        -0.04245337201752043,
        0.02446657898003141,
        0.61943039072480676,
        GAMMA,
        0.0,
    ),
    (
        0.13659751177640291,
        0.0,
        -0.05496908796538376,
        -0.04118626728321046,
        0.62993304899016403,
        0.06962479448202728,
        GAMMA,
    ),
)
"""The weights of the slopes in each stage."""

NODES: Final = (0.0, 0.52, 1.230333209967908, 0.8957659843500759, 0.43639360985864756, 1.0, 1.0)

CONTINUATION: Final = (
    -0.4842493496458575,
    0.0,
    0.9921747011803447,
    -0.6241080331021572,
    1.3801004273784265,
    -0.631958872905376,
    -0.631958872905376,
)
"""The weights d of the slopes in the quartic term theta² (1 - theta)² h sum_i d_i k_i, which makes
the cubic through both ends and their slopes an interpolation of order 4: the shortest d for which
the sums of d_i, d_i c_i and d_i c_i² are 0, and the sums of d_i c_i³ and d_i a_ij c_j² are 1/4 and
1/12. The conditions of the other trees of order 4 follow, since all stages have order 2."""


def _guesses() -> tuple[tuple[float, ...], ...]:
    """The weights of the earlier slopes in the first guess of a stage's slope.

    It is the polynomial through up to three slopes at the nearest nodes; for the last stage it is
    the slope that leads to the value of the stage before, which is the solution of order 4.
    """
    table = np.zeros((7, 7))
    table[1, 0] = 1.0
    for stage in range(2, 6):
        nearest = sorted(range(stage), key=lambda k: abs(NODES[k] - NODES[stage]))[:3]
        for k in nearest:
            others = [NODES[j] for j in nearest if j != k]
            table[stage, k] = np.prod([(NODES[stage] - c) / (NODES[k] - c) for c in others])
    table[6] = (np.array(STAGES[5]) - np.array(STAGES[6])) / GAMMA
    table[6, 6] = 0.0
    return tuple(tuple(row) for row in table.tolist())


GUESSES: Final = _guesses()


def _shifted(table: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of the stages after the first, whose weights end with the stage before."""
    return np.stack([np.roll(row, 7 - stage) for stage, row in enumerate(table)][1:])


class KeptJacobian(NamedTuple):
    """A Jacobian that is carried from step to step.

    Attributes
    ----------
    jacobian : Tensor or SparseArray
    is_current : Tensor of bool
        Whether it belongs to the point at which the next step starts.
    is_wanted : Tensor of bool
        Whether the next step needs another one.
    slope : Tensor
        y' at the start of the next step.
    """

    jacobian: Matrix
    is_current: Tensor
    is_wanted: Tensor
    slope: Tensor


@dataclass(frozen=True, slots=True)
class Kvaerno5:
    """Kvaerno5, as a method of ``solve_ivp``.

    A stage y_i = psi_i + h gamma k_i with M k_i = f(y_i) is solved by Newton's method, with one
    matrix M / (h gamma) - J for all stages. The Jacobian J stays while Newton's method converges
    fast.
    """

    name: str = "Kvaerno5"
    order: int = 4
    dense_count: int = 3
    evaluations: int | None = None
    is_sparse: bool = False

    def begin(self, equation: OdeEquation, at: StepStart) -> tuple[KeptJacobian, Counts]:
        """Compute the first Jacobian, and y' from M y'."""
        y, slope, t, _ = at
        system = VectorEquation.of(equation, y, self.is_sparse)
        start, k = system.form.vector(y), system.form.vector(slope)
        if equation.mass is not None:
            k = fnp.linalg.solve(equation.mass.astype(k.dtype), k, failed="nan")
        jacobian = stop_gradient(system.jacobian(start, t))
        return KeptJacobian(jacobian, fnp.asarray(True), fnp.asarray(False), k), Counts(0, 1, 0)

    def attempt(self, equation: OdeEquation, at: StepStart, memory: KeptJacobian) -> Attempt:
        """Try a step."""
        y, _, t, step = at
        system = VectorEquation.of(equation, y, self.is_sparse)
        form, before = system.form, memory
        start, h = form.vector(y), step.astype(form.dtype)
        jacobian = cond(
            before.is_wanted,
            lambda: stop_gradient(system.jacobian(stop_gradient(start), t)),
            lambda: before.jacobian,
        )
        is_current = before.is_current | before.is_wanted
        slopes, ended = self._stages(system, start, jacobian, before.slope, t, step)
        new = start + h * mixed(np.array(STAGES[6], form.dtype), slopes)
        difference = np.array(STAGES[6], form.dtype) - np.array(STAGES[5], form.dtype)
        error = system.norm(h * mixed(difference, slopes), equation.scale(y, form.leaves(new)))
        error = fnp.where(ended.converged, error, np.inf)
        yes, no = fnp.ones_like(ended.converged), fnp.zeros_like(ended.converged)
        accepted = KeptJacobian(jacobian, no, ended.rate > SLOW, slopes[6])
        refused = KeptJacobian(jacobian, is_current, ~is_current & ~ended.converged, before.slope)
        quartic = mixed(np.array(CONTINUATION, form.dtype), slopes)
        dense = [form.leaves(h * x) for x in (slopes[0], slopes[6], quartic)]
        counts = Counts(ended.iterations, before.is_wanted.astype(int), yes.astype(int))
        factor = fnp.where(ended.converged, np.nan, fnp.where(is_current, 0.5, 1.0))
        return Attempt(
            form.leaves(new),
            error,
            form.leaves(slopes[6]),
            dense,
            accepted,
            refused,
            factor,
            counts,
        )

    def _stages(
        self,
        system: VectorEquation,
        start: Tensor,
        jacobian: Matrix,
        first: Tensor,
        t: Tensor,
        step: Tensor,
    ) -> tuple[Sequence[Tensor], Convergence]:
        """The slopes of all stages, and how Newton's method converged."""
        dtype, h = start.dtype, step.astype(start.dtype)
        rate = 1.0 / (h * GAMMA)
        factor = stop_gradient(system.factor(jacobian, stop_gradient(rate)))
        leaves = system.form.leaves(start)
        scales = system.equation.scale(leaves, leaves)
        tolerance = tolerance_of(system.equation.settings.rtol, dtype)

        def stage(
            carry: tuple[Sequence[Tensor], Convergence], row: tuple[Tensor, ...]
        ) -> tuple[tuple[Sequence[Tensor], Convergence], None]:
            slopes, before = carry
            weights, guess, node = row
            base = start + h * mixed(weights, slopes)
            time = t + node.astype(t.dtype) * step

            def residual(x: Tensor) -> Tensor:
                return system.massed((x - base) * rate) - system.f(x, time)

            y, ended = stage_root(
                residual,
                base + mixed(guess, slopes) / rate,
                lambda r: system.solve(factor, r),
                lambda d: system.norm(d, scales),
                tolerance,
                before,
            )
            return ((*slopes[1:], (y - base) * rate), ended), None

        slopes = (*[fnp.zeros_like(first)] * 6, first)
        strict = np.tril(np.array(STAGES, dtype), -1)
        tables = (_shifted(strict), _shifted(np.array(GUESSES, dtype)), np.array(NODES, dtype)[1:])
        carry, _ = scan(stage, (slopes, Convergence.unknown(system.equation.dtype)), tables)
        return carry[0], Convergence(*carry[1])

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate within a step."""
        leaves = []
        for before, after, k, last, quartic in zip(taken.old, taken.new, *taken.dense, strict=True):
            x = theta.astype(np.finfo(before.dtype).dtype)
            other = 1.0 - x
            rise = after - before
            first = k - rise
            second = rise - last - first
            leaves.append(before + x * (rise + other * (first + x * (second + other * quartic))))
        return leaves

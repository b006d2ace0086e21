"""BDF: backward differentiation formulas of orders 1 to 5, with steps of nearly constant size.

The memory is a table of backward differences of the solution. It is made anew for another size of
steps, which costs a factorization, so a size stays for several steps.

Source: L. F. Shampine and M. W. Reichelt, "The MATLAB ODE suite", SIAM Journal on Scientific
Computing 18 (1997), 1-22: the numerical differentiation formulas, their constants kappa, and the
change of the size of steps. The choice of order and size follows SciPy's method ``BDF``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.stage_newton import Convergence, stage_root, tolerance_of
from funcgrad.integrate.step_methods import (
    Attempt,
    Counts,
    Leaves,
    OdeEquation,
    StepStart,
    TakenStep,
)
from funcgrad.integrate.stiff_equations import Matrix, VectorEquation
from funcgrad.tensor.tensor import Tensor

MOST_ORDER: Final = 5
MOST_ITERATIONS: Final = 4

_KAPPA: Final = (0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0)
_GAMMA: Final = tuple(sum(1 / j for j in range(1, k + 1)) for k in range(MOST_ORDER + 1))
_ALPHA: Final = tuple((1 - kappa) * gamma for kappa, gamma in zip(_KAPPA, _GAMMA, strict=True))
_ERROR: Final = tuple(
    kappa * gamma + 1 / (k + 1) for k, (kappa, gamma) in enumerate(zip(_KAPPA, _GAMMA, strict=True))
)

_ROWS: Final = MOST_ORDER + 3
_SAFETY, _LEAST_FACTOR, _GREATEST_FACTOR = 0.9, 0.2, 10.0
_LEAST_ERROR: Final = 1e-30

_LEAST_GAIN: Final = 1.2
"""A size stays unless the next could be this much larger, because a change costs a factorization:
HIRES at rtol 1e-10 takes 125 factorizations rather than 280, and as many steps."""


class BackwardDifferences(NamedTuple):
    """The solution at the last ends of steps, and the matrix of Newton's method.

    Attributes
    ----------
    differences : Tensor, shape (8, n)
        Row k is the backward difference of order k of y; rows above ``order + 2`` mean nothing.
    size : Tensor
        The size of the steps to which they belong.
    order, equal_count : Tensor of int
        The order of the next step, and the number of steps since a change of size or order.
    jacobian, factor : Tensor or SparseArray
    rate : Tensor
        The factor belongs to ``rate * M - jacobian``.
    speed : Tensor
        The rate of convergence of Newton's method with this factor; 1 if it is unknown.
    is_current, is_wanted : Tensor of bool
        Whether the Jacobian belongs to the next step, and whether that needs another one.
    """

    differences: Tensor
    size: Tensor
    order: Tensor
    equal_count: Tensor
    jacobian: Matrix
    factor: Matrix
    rate: Tensor
    speed: Tensor
    is_current: Tensor
    is_wanted: Tensor

    def of_size(self, step: Tensor) -> BackwardDifferences:
        """The memory for a step of another size."""
        ratio = step / self.size
        # Times are rounded, so the size of a step is never exactly the planned one.
        changes = abs(ratio - 1.0) > np.finfo(step.dtype).eps ** 0.5
        others = _rescaled(self.differences, self.order, ratio)
        return self._replace(
            differences=fnp.where(changes, others, self.differences),
            size=fnp.where(changes, step, self.size),
            equal_count=fnp.where(changes, 0, self.equal_count),
        )


def _at(table: Sequence[float], order: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """The entry of a table for an order that is known only when the program runs."""
    return fnp.sum(fnp.where(np.arange(len(table)) == order, np.array(table, dtype), 0.0))


def _rescaled(differences: Tensor, order: Tensor, ratio: Tensor) -> Tensor:
    """The differences of the same polynomial for steps ``ratio`` times as large.

    Source: Shampine and Reichelt, section 2.2.
    """
    dtype = differences.dtype
    ratio = ratio.astype(dtype)
    counts = np.arange(1.0, MOST_ORDER + 1).astype(dtype)
    changed, equal = [], []
    line = one = fnp.concatenate([fnp.ones((1,), dtype), fnp.ones((MOST_ORDER,), dtype)])
    for k in range(MOST_ORDER + 1):
        if k:
            weights = [(k - 1 - size * counts) / k for size in (ratio, 1.0)]
            line, one = [
                x * fnp.concatenate([fnp.zeros((1,), dtype), fnp.asarray(w)])
                for x, w in zip((line, one), weights, strict=True)
            ]
        changed.append(line)
        equal.append(one)
    matrix = fnp.stack(changed) @ fnp.stack(equal)
    in_use = np.arange(MOST_ORDER + 1)[:, None] <= order
    first = differences[: MOST_ORDER + 1]
    new = fnp.where(in_use, matrix, 0.0).T @ first
    return fnp.concatenate([fnp.where(in_use, new, first), differences[MOST_ORDER + 1 :]])


def _following(table: Tensor, d: Tensor, order: Tensor) -> Tensor:
    """The differences at the end of a step, whose solution is d above the predicted value."""
    numbers = np.arange(_ROWS)[:, None]
    used = fnp.where(numbers <= order, table, 0.0)
    last = fnp.sum(fnp.where(numbers == order + 1, table, 0.0), 0)
    sums = np.triu(np.ones((_ROWS, _ROWS), d.dtype)) @ used + d
    above = fnp.where(numbers == order + 1, d, d - last)
    return fnp.where(numbers <= order, sums, fnp.where(numbers <= order + 2, above, table))


@dataclass(frozen=True, slots=True)
class BDF:
    """Backward differentiation formulas, as a method of ``solve_ivp``.

    The equation of a step is M (psi + d) alpha / h = f(predicted + d), where d is the difference
    between the solution and the value that the last steps predict. Newton's method keeps its
    matrix until the size of steps changes, and the Jacobian until it converges no more.
    """

    name: str = "BDF"
    order: int = 1
    dense_count: int = MOST_ORDER
    evaluations: int | None = None
    is_sparse: bool = False

    def begin(self, equation: OdeEquation, at: StepStart) -> tuple[BackwardDifferences, Counts]:
        """Begin with order 1."""
        y, slope, t, size = at
        system = VectorEquation.of(equation, y, self.is_sparse)
        start = system.form.vector(y)
        jacobian = stop_gradient(system.jacobian(stop_gradient(start), t))
        h = size.astype(start.dtype)
        rise = h * system.slope(start, system.form.vector(slope), jacobian, t, h)
        zeros = fnp.zeros((_ROWS - 2, start.shape[0]), start.dtype)
        rate = _ALPHA[1] / h
        memory = BackwardDifferences(
            fnp.concatenate([start[None], rise[None], zeros]),
            size,
            fnp.asarray(1),
            fnp.asarray(0),
            jacobian,
            stop_gradient(system.factor(jacobian, rate)),
            rate,
            fnp.ones_like(size),
            fnp.asarray(True),
            fnp.asarray(False),
        )
        return memory, Counts(0, 1, 1)

    def attempt(self, equation: OdeEquation, at: StepStart, memory: BackwardDifferences) -> Attempt:
        """Try a step."""
        y, _, t, step = at
        system, before = VectorEquation.of(equation, y, self.is_sparse), memory
        form, dtype = system.form, system.form.dtype
        now, order = before.of_size(step), before.order
        in_use = np.arange(_ROWS)[:, None] <= order
        used = fnp.where(in_use, now.differences, 0.0)
        predicted = fnp.sum(used, 0)
        alpha = _at(_ALPHA, order, dtype)
        psi = (np.array([*_GAMMA, 0.0, 0.0], dtype) @ used) / alpha
        now, is_factored = self._matrices(system, now, predicted, alpha, t + step)
        rate = now.rate

        def residual(d: Tensor) -> Tensor:
            return system.massed((psi + d) * rate) - system.f(predicted + d, t + step)

        scales = equation.scale(y, form.leaves(predicted))
        d, ended = stage_root(
            residual,
            fnp.zeros_like(predicted),
            lambda r: system.solve(now.factor, r),
            lambda r: system.norm(r, scales),
            tolerance_of(equation.settings.rtol, dtype),
            Convergence.unknown(equation.dtype)._replace(rate=now.speed),
            MOST_ITERATIONS,
        )
        new = predicted + d
        end = form.leaves(new)
        scales = equation.scale(y, end)
        error = system.norm(_at(_ERROR, order, dtype) * d, scales)
        error = fnp.where(ended.converged, error, np.inf)
        table = _following(now.differences, d, order)
        accepted, grown = self._next(system, now, table, scales, ended, error)
        lessened = fnp.maximum(_LEAST_FACTOR, self._safety(ended) * _root(error, order + 1))
        failed = fnp.where(now.is_current, 0.5, 1.0)
        refused = before._replace(
            jacobian=now.jacobian,
            factor=now.factor,
            rate=now.rate,
            speed=fnp.ones_like(now.speed),
            is_current=now.is_current,
            is_wanted=~ended.converged & ~now.is_current,
        )
        factor = fnp.where(error <= 1.0, grown, fnp.where(ended.converged, lessened, failed))
        dense = [form.leaves(row) for row in fnp.where(in_use, table, 0.0)[1 : MOST_ORDER + 1]]
        counts = Counts(ended.iterations, before.is_wanted.astype(int), is_factored.astype(int))
        flow = form.leaves(system.massed((psi + d) * rate))
        return Attempt(end, error, flow, dense, accepted, refused, factor, counts)

    def _matrices(
        self,
        system: VectorEquation,
        now: BackwardDifferences,
        predicted: Tensor,
        alpha: Tensor,
        t: Tensor,
    ) -> tuple[BackwardDifferences, Tensor]:
        """The Jacobian and the factor for this step, and whether the factor is new."""
        rate = stop_gradient(alpha / now.size.astype(alpha.dtype))
        jacobian = cond(
            now.is_wanted,
            lambda: stop_gradient(system.jacobian(stop_gradient(predicted), t)),
            lambda: now.jacobian,
        )
        is_new = now.is_wanted | (rate != now.rate)
        factor = cond(
            is_new, lambda: stop_gradient(system.factor(jacobian, rate)), lambda: now.factor
        )
        after = now._replace(
            jacobian=jacobian,
            factor=factor,
            rate=rate,
            speed=fnp.where(is_new, 1.0, now.speed),
            is_current=now.is_current | now.is_wanted,
        )
        return after, is_new

    def _safety(self, ended: Convergence) -> Tensor:
        iterations = ended.iterations.astype(ended.rate.dtype)
        return _SAFETY * (2 * MOST_ITERATIONS + 1) / (2 * MOST_ITERATIONS + iterations)

    def _next(
        self,
        system: VectorEquation,
        now: BackwardDifferences,
        table: Tensor,
        scales: Leaves,
        ended: Convergence,
        error: Tensor,
    ) -> tuple[BackwardDifferences, Tensor]:
        """The memory after an accepted step, and the size of the next step divided by this one."""
        order, dtype = now.order, table.dtype
        equal_count = now.equal_count + 1
        chooses = equal_count >= order + 1
        factors = [_root(error, order + 1)]
        for other in (order - 1, order + 1):
            row = fnp.sum(fnp.where(np.arange(_ROWS)[:, None] == other + 1, table, 0.0), 0)
            norm = system.norm(_at(_ERROR, other, dtype) * row, scales)
            exists = (other >= 1) & (other <= MOST_ORDER)
            factors.append(fnp.where(exists, _root(norm, other + 1), 0.0))
        same, lower, higher = factors
        falls = (lower >= same) & (lower >= higher)
        rises = ~falls & (higher > same)
        shift = fnp.where(rises, 1, fnp.where(falls, -1, 0))
        best = fnp.maximum(same, fnp.maximum(lower, higher))
        factor = fnp.minimum(_GREATEST_FACTOR, self._safety(ended) * best)
        chooses = chooses & (factor >= _LEAST_GAIN)
        memory = now._replace(
            differences=table,
            order=fnp.where(chooses, order + shift, order),
            equal_count=fnp.where(chooses, 0, equal_count),
            speed=ended.rate,
            is_current=fnp.zeros_like(now.is_current),
            is_wanted=fnp.zeros_like(now.is_wanted),
        )
        return memory, fnp.where(chooses, factor, 1.0)

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate by the polynomial through the last values."""
        leaves = []
        for after, *rows in zip(taken.new, *taken.dense, strict=True):
            x = theta.astype(np.finfo(after.dtype).dtype)
            total, weight = after, fnp.ones_like(x)
            for j, row in enumerate(rows):
                weight = weight * (x - 1.0 + j) / (j + 1.0)
                total = total + weight * row
            leaves.append(total)
        return leaves


def _root(error: Tensor, degree: Tensor) -> Tensor:
    """The factor by which a step may grow for this error."""
    return fnp.maximum(error, _LEAST_ERROR) ** (-1.0 / degree.astype(error.dtype))

"""Radau: the implicit Runge-Kutta method Radau IIA of order 5, with three stages.

The increments z_i of the stages satisfy M sum_j b_ij z_j / h = f(y + z_i), where b is the inverse
of the method's matrix. One real and one complex eigenvalue of b split the linear systems of
Newton's method into one of n real and one of n complex unknowns.

Source: E. Hairer and G. Wanner, "Solving ordinary differential equations II", section IV.8, and
their program RADAU5: the coefficients, the transformation, the error, and the choice of steps.

>>> bool(np.allclose(np.array(INVERSE) @ STAGES, np.eye(3)))
True
>>> real, other = REAL, PAIR
>>> blocks = [[real, 0, 0], [0, other.real, -other.imag], [0, other.imag, other.real]]
>>> bool(np.allclose(np.array(BACK) @ INVERSE @ THERE, blocks))
True
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._transforms.batch import vmap
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
from funcgrad.integrate.stiff_equations import Matrix, VectorEquation
from funcgrad.tensor.tensor import Tensor

MOST_ITERATIONS: Final = 7

_ROOT: Final = 6**0.5

NODES: Final = ((4 - _ROOT) / 10, (4 + _ROOT) / 10, 1.0)
STAGES: Final = (
    ((88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225),
    ((296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225),
    ((16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9),
)
INVERSE: Final = (
    (2 + _ROOT / 2, -6 / 5 + 29 * _ROOT / 30, 2 / 5 - 4 * _ROOT / 15),
    (-6 / 5 - 29 * _ROOT / 30, 2 - _ROOT / 2, 2 / 5 + 4 * _ROOT / 15),
    (-1 + 8 * _ROOT / 3, -1 - 8 * _ROOT / 3, 5.0),
)
"""The inverse of the matrix of weights."""

REAL: Final = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)
PAIR: Final = complex(3 + (3 ** (1 / 3) - 3 ** (2 / 3)) / 2, -(3 ** (5 / 6) + 3 ** (7 / 6)) / 2)
"""The eigenvalues of the inverse."""

THERE: Final = (
    (0.09443876248897524, -0.14125529502095421, 0.03002919410514742),
    (0.25021312296533332, 0.20412935229379994, -0.38294211275726192),
    (1.0, 1.0, 0.0),
)
BACK: Final = (
    (4.17871859155190428, 0.32768282076106237, 0.52337644549944951),
    (-4.17871859155190428, -0.32768282076106237, 0.47662355450055044),
    (0.50287263494578682, -2.57192694985560522, 0.59603920482822492),
)
"""The transformation to blocks, and back."""

ERROR: Final = ((-13 - 7 * _ROOT) / 3, (-13 + 7 * _ROOT) / 3, -1 / 3)
"""The weights of the increments in the error, which is multiplied by the inverse of the real block
afterwards, so that it stays small for stiff components."""

POWERS: Final = (
    (13 / 3 + 7 * _ROOT / 3, -23 / 3 - 22 * _ROOT / 3, 10 / 3 + 5 * _ROOT),
    (13 / 3 - 7 * _ROOT / 3, -23 / 3 + 22 * _ROOT / 3, 10 / 3 - 5 * _ROOT),
    (1 / 3, -8 / 3, 10 / 3),
)
"""The collocation polynomial: the coefficient of theta^(k + 1) is the sum of ``z[i] * [i][k]``."""

_SAFETY, _LEAST_FACTOR, _GREATEST_FACTOR, _LEAST_GAIN = 0.9, 0.2, 10.0, 1.2


class Collocation(NamedTuple):
    """The last step, and the matrices of Newton's method.

    Attributes
    ----------
    powers : Tensor, shape (3, n)
        The collocation polynomial of the last step.
    last_step, last_error : Tensor
        The size and the error of the last step; 0 before the first.
    size : Tensor
        The size of the steps to which the factors belong.
    jacobian, real_factor, pair_factor : Tensor or SparseArray
    is_current, is_wanted : Tensor of bool
        Whether the Jacobian belongs to the start of the next step, and whether that needs another.
    is_doubtful : Tensor of bool
        Whether the last step was refused, or there is none.
    """

    powers: Tensor
    last_step: Tensor
    last_error: Tensor
    size: Tensor
    jacobian: Matrix
    real_factor: Matrix
    pair_factor: Matrix
    is_current: Tensor
    is_wanted: Tensor
    is_doubtful: Tensor


@dataclass(frozen=True, slots=True)
class Radau:
    """Radau IIA of order 5, as a method of ``solve_ivp``."""

    name: str = "Radau"
    order: int = 3
    dense_count: int = 3
    evaluations: int | None = None
    is_sparse: bool = False

    def begin(self, equation: OdeEquation, at: StepStart) -> tuple[Collocation, Counts]:
        """Compute the first Jacobian."""
        y, _, t, size = at
        system = VectorEquation.of(equation, y, self.is_sparse)
        start = system.form.vector(y)
        jacobian = stop_gradient(system.jacobian(stop_gradient(start), t))
        real, pair = self._factors(system, jacobian, size)
        none, yes = fnp.zeros_like(size), fnp.asarray(True)
        zeros = fnp.zeros((3, start.shape[0]), start.dtype)
        memory = Collocation(zeros, none, none, size, jacobian, real, pair, yes, ~yes, yes)
        return memory, Counts(0, 1, 2)

    def _factors(
        self, system: VectorEquation, jacobian: Matrix, size: Tensor
    ) -> tuple[Matrix, Matrix]:
        rate = 1.0 / stop_gradient(size).astype(system.form.dtype)
        real = system.factor(jacobian, REAL * rate)
        pair = system.pair_factor(jacobian, PAIR.real * rate, PAIR.imag * rate)
        return stop_gradient(real), stop_gradient(pair)

    def _prepared(
        self, system: VectorEquation, before: Collocation, start: Tensor, t: Tensor, step: Tensor
    ) -> tuple[Collocation, Tensor]:
        """The Jacobian and the factors for this step, and whether these are new."""
        jacobian = cond(
            before.is_wanted,
            lambda: stop_gradient(system.jacobian(stop_gradient(start), t)),
            lambda: before.jacobian,
        )
        # Times are rounded, so the size of a step is never exactly the planned one.
        changes = abs(step - before.size) > np.finfo(step.dtype).eps ** 0.5 * abs(step)
        is_new = before.is_wanted | changes
        size = fnp.where(is_new, step, before.size)
        real, pair = cond(
            is_new,
            lambda: self._factors(system, jacobian, size),
            lambda: (before.real_factor, before.pair_factor),
        )
        now = before._replace(
            size=size,
            jacobian=jacobian,
            real_factor=real,
            pair_factor=pair,
            is_current=before.is_current | before.is_wanted,
        )
        return now, is_new

    def attempt(self, equation: OdeEquation, at: StepStart, memory: Collocation) -> Attempt:
        """Try a step."""
        y, slope, t, step = at
        system, before = VectorEquation.of(equation, y, self.is_sparse), memory
        form = system.form
        start, dtype = form.vector(y), form.dtype
        now, is_new = self._prepared(system, before, start, t, step)
        z, ended = self._increments(system, now, start, t, step)
        new = start + z[2]
        end = form.leaves(new)
        scales = equation.scale(y, end)
        flow, h = form.vector(slope), step.astype(dtype)
        raw = system.massed((fnp.asarray(ERROR, dtype) @ z) / h)
        error_vector = stop_gradient(system.solve(now.real_factor, flow + raw))
        error = system.norm(error_vector, scales)

        def again() -> Tensor:
            filtered = system.f(start + error_vector, t) + raw
            return system.norm(system.solve(now.real_factor, filtered), scales)

        is_doubtful = (error > 1.0) & before.is_doubtful
        error = cond(is_doubtful, lambda: stop_gradient(again()), lambda: error)
        error = fnp.where(ended.converged, error, np.inf)
        accepted, refused, factor = self._next(before, now, z, step, error, ended)
        powers = accepted.powers
        counts = Counts(
            3 * ended.iterations + is_doubtful + 1, before.is_wanted.astype(int), 2 * is_new
        )
        return Attempt(
            end,
            error,
            equation.f(end, t + step),
            [form.leaves(row) for row in powers],
            accepted,
            refused,
            factor,
            counts,
        )

    def _increments(
        self, system: VectorEquation, now: Collocation, start: Tensor, t: Tensor, step: Tensor
    ) -> tuple[Tensor, Convergence]:
        """The increments of the stages, and how Newton's method converged."""
        dtype, h = start.dtype, step.astype(start.dtype)
        inverse, there, back = [fnp.asarray(x, dtype) for x in (INVERSE, THERE, BACK)]
        times = t + np.array(NODES, t.dtype) * step
        leaves = system.form.leaves(start)
        scales = system.equation.scale(leaves, leaves)

        def residual(z: Tensor) -> Tensor:
            values = vmap(lambda row, time: system.f(start + row, time))(z, times)
            rates = inverse @ z / h
            mass = system.equation.mass
            return (rates if mass is None else rates @ mass.astype(dtype).T) - values

        def solve(r: Tensor) -> Tensor:
            first, *pair = back @ r
            blocks = [
                system.solve(now.real_factor, first),
                *system.pair_solve(now.pair_factor, *pair),
            ]
            return there @ fnp.stack(blocks)

        def norm(z: Tensor) -> Tensor:
            return fnp.sqrt(sum(system.norm(row, scales) ** 2 for row in z) / 3.0)

        length = fnp.where(now.last_step == 0, 1.0, now.last_step)
        thetas = (1.0 + np.array(NODES, t.dtype) * step / length).astype(dtype)
        exponents = np.arange(1.0, 4.0).astype(dtype)
        guess = (thetas[:, None] ** exponents - 1.0) @ now.powers
        return stage_root(
            residual,
            guess,
            solve,
            norm,
            tolerance_of(system.equation.settings.rtol, dtype),
            Convergence.unknown(system.equation.dtype),
            MOST_ITERATIONS,
        )

    def _next(
        self,
        before: Collocation,
        now: Collocation,
        z: Tensor,
        step: Tensor,
        error: Tensor,
        ended: Convergence,
    ) -> tuple[Collocation, Collocation, Tensor]:
        """The memories after an accepted and a refused step, and the change of the size."""
        small = fnp.maximum(error, 1e-30)
        is_first = before.last_error == 0
        ratio = fnp.where(is_first, 1.0, before.last_error) / small
        growth = step / fnp.where(is_first, step, before.last_step)
        # Gustafsson's prediction: the error changes as it did in the last step.
        predicted = fnp.where(is_first, 1.0, abs(growth) * ratio**0.25)
        factor = fnp.minimum(1.0, predicted) * small**-0.25
        iterations = ended.iterations.astype(error.dtype)
        factor = factor * _SAFETY * (2 * MOST_ITERATIONS + 1) / (2 * MOST_ITERATIONS + iterations)
        is_wanted = (ended.iterations > 2) & (ended.rate > SLOW)
        stays = ~is_wanted & (factor < _LEAST_GAIN)
        grown = fnp.where(stays, 1.0, fnp.minimum(factor, _GREATEST_FACTOR))
        lessened = fnp.maximum(factor, _LEAST_FACTOR)
        failed = fnp.where(now.is_current, 0.5, 1.0)
        no = fnp.zeros_like(is_wanted)
        accepted = now._replace(
            powers=fnp.asarray(POWERS, z.dtype).T @ z,
            last_step=step,
            last_error=fnp.maximum(error, 1e-30),
            is_current=no,
            is_wanted=is_wanted,
            is_doubtful=no,
        )
        refused = now._replace(is_wanted=~ended.converged & ~now.is_current, is_doubtful=~no)
        factor = fnp.where(error <= 1.0, grown, fnp.where(ended.converged, lessened, failed))
        return accepted, refused, factor

    def between(self, taken: TakenStep, theta: Tensor) -> Leaves:
        """Interpolate by the collocation polynomial."""
        leaves = []
        for before, one, two, three in zip(taken.old, *taken.dense, strict=True):
            x = theta.astype(np.finfo(before.dtype).dtype)
            leaves.append(before + x * (one + x * (two + x * three)))
        return leaves

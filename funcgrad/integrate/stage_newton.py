"""Newton's method for the equation of a stage, with one matrix for all iterations.

The matrix belongs to the start of the step, or to an earlier step, so each iteration shrinks the
error by a nearly constant factor, the *rate*. The rate says when the error is small enough, and
early that it will not become so.

>>> import funcgrad as fg
>>> start = Convergence.unknown(fg.numpy.asarray(1.0).dtype)
>>> x, reached = stage_root(
...     lambda x: x**2 - 2.0, fg.tensor([1.4]), lambda r: r / 2.8, lambda d: abs(d[0]), 1e-9, start
... )
>>> x, reached.converged
(Tensor([1.41421356]), Tensor(True))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.whiles import while_loop
from funcgrad._transforms.stop import stop_gradient
from funcgrad.implicit.roots import custom_root
from funcgrad.tensor.tensor import Tensor

SLOW: Final = 1e-3
"""If the rate is above this, the next step gets a new Jacobian (as in RADAU5)."""


class Convergence(NamedTuple):
    """How the stages of a step converged.

    Attributes
    ----------
    converged : Tensor of bool
        Whether all stages so far converged.
    rate : Tensor
        The factor by which the last iteration shrank the error; 1 if no stage has told it yet.
    iterations : Tensor of int
        The iterations of all stages; each iteration evaluates the right-hand side once.
    """

    converged: Tensor
    rate: Tensor
    iterations: Tensor

    @classmethod
    def unknown(cls, dtype: np.dtype[Any]) -> Convergence:
        """Before the first stage."""
        return cls(fnp.asarray(True), fnp.ones((), dtype), fnp.asarray(0))


class _NewtonIterate(NamedTuple):
    x: Tensor
    size: Tensor
    rate: Tensor
    number: Tensor
    is_done: Tensor
    has_failed: Tensor


def tolerance_of(rtol: float, dtype: np.dtype[Any]) -> float:
    """The allowed error of a stage as a share of a step's: as rounding permits, at most 3 %.

    Source: Hairer and Wanner, "Solving ordinary differential equations II", section IV.8, and the
    default of ``fnewt`` in RADAU5.
    """
    return max(10 * float(np.finfo(dtype).eps) / max(rtol, 1e-16), min(0.03, rtol**0.5))


def stage_root(
    residual: Callable[[Tensor], Tensor],
    start: Tensor,
    solve: Callable[[Tensor], Tensor],
    norm: Callable[[Tensor], Tensor],
    tolerance: float,
    before: Convergence,
    most: int = 7,
) -> tuple[Tensor, Convergence]:
    """Find the root of a stage's residual, with the derivatives of the implicit function theorem.

    Parameters
    ----------
    residual : callable
        The equation. Derivatives flow into the values that it closes over.
    start : Tensor
    solve : callable
        Solves with the matrix, which stands for the derivative of the residual.
    norm : callable
        The scaled norm of a correction; an error of 1 is the allowed error of a step.
    tolerance : float
    before : Convergence
        From the stages before with the same matrix: their rate tells how much the first
        correction leaves (``faccon`` of RADAU5).
    most : int
        The maximum number of iterations.
    """

    def iterations(residual: Callable[[Tensor], Tensor], x: Tensor) -> Any:
        def goes_on(now: _NewtonIterate) -> Tensor:
            return ~(now.is_done | now.has_failed) & (now.number < most)

        def advance(now: _NewtonIterate) -> _NewtonIterate:
            correction = solve(residual(now.x))
            size = norm(correction)
            is_first = now.number == 0
            measured = size / fnp.where(now.size == 0, 1.0, now.size)
            rate = fnp.where(is_first, now.rate, measured)
            left = rate / fnp.maximum(1.0 - rate, 1e-16)
            is_done = (size == 0) | ((rate < 1) & (left * size < tolerance))
            remaining = most - 1 - now.number
            hopeless = (rate >= 1) | (left * rate**remaining * size > tolerance)
            has_failed = ~fnp.isfinite(size) | (~is_first & hopeless & ~is_done)
            return _NewtonIterate(
                now.x - correction, size, rate, now.number + 1, is_done, has_failed
            )

        # A rate is trusted less from stage to stage.
        rate = fnp.minimum(before.rate, 1.0) ** 0.8
        state = _NewtonIterate(
            x,
            fnp.ones_like(rate),
            rate,
            fnp.zeros_like(before.iterations),
            fnp.zeros_like(before.converged),
            fnp.zeros_like(before.converged),
        )
        ended = while_loop(goes_on, advance, state)
        return ended.x, (ended.is_done, ended.rate, ended.number)

    x, (is_done, rate, number) = custom_root(
        residual, stop_gradient(start), iterations, has_aux=True, failed="nan"
    )
    return x, Convergence(
        before.converged & is_done, stop_gradient(rate), before.iterations + number
    )

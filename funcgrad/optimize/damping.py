"""The Levenberg-Marquardt iteration: damped steps of Gauss and Newton.

A step d solves (JᵀJ + λD) d = -Jᵀr. The damping λ follows the ratio between the decrease of the
cost and its prediction; D has the squares of the columns of J, so that units do not matter. The
iteration holds JᵀJ and Jᵀr instead of J.

Sources: Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978 (scaling and
tests); Nielsen, "Damping parameter in Marquardt's method", 1999; Kanzow, Yamashita, Fukushima,
"Levenberg-Marquardt methods with strong local convergence properties for solving nonlinear
equations with convex constraints", 2004 (projected steps).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.jacobian import jacfwd, jacrev
from funcgrad.optimize.robust_losses import cost_of, weighted
from funcgrad.optimize.solution import (
    NOT_FINITE,
    RUNNING,
    SMALL_DECREASE,
    SMALL_SLOPE,
    SMALL_STEP,
    first_status,
)
from funcgrad.scipy.linalg.triangular_systems import cho_factor, cho_solve
from funcgrad.tensor.tensor import Tensor

_FIRST_DAMPING: Final = 1e-3
_FASTEST: Final = 0.1


@dataclass(frozen=True, slots=True)
class DampingOptions:
    """How the iteration steps and stops.

    Attributes
    ----------
    damped : bool
        Whether steps that succeed leave damping; without it they are steps of Gauss and Newton.
    scale : Tensor or None
        The scales of the unknowns; None takes the lengths of the Jacobian's columns.
    loss : str
    f_scale : Tensor or float
    ftol, xtol, gtol : float
        The tolerances of the change of the cost, of the step, and of the gradient.
    max_nfev : int
    """

    damped: bool
    scale: Any
    loss: str
    f_scale: Any
    ftol: float
    xtol: float
    gtol: float
    max_nfev: int


class Normal(NamedTuple):
    """The matrix JᵀJ and the gradient Jᵀr at a point."""

    matrix: Tensor
    gradient: Tensor


@pytree(slots=True)
class _State:
    x: Tensor
    cost: Tensor
    normal: Normal
    scale: Tensor
    damping: Tensor
    growth: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


def damped_steps(
    residuals: Callable[[Tensor], Tensor],
    x: Tensor,
    low: Tensor | None,
    high: Tensor | None,
    options: DampingOptions,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Iterate from a point to a minimum of the cost; return it with (status, nit, nfev)."""
    dtype = x.dtype

    def clipped(point: Tensor) -> Tensor:
        return point if low is None or high is None else fnp.clip(point, low, high)

    def cost_at(r: Tensor) -> Tensor:
        return cost_of(r, options.loss, options.f_scale).astype(dtype)

    def normal(point: Tensor) -> Normal:
        r, jacobian = residuals_and_jacobian(residuals, point, count)
        r, jacobian = weighted(r, jacobian, options.loss, options.f_scale)
        return Normal((jacobian.T @ jacobian).astype(dtype), (r @ jacobian).astype(dtype))

    def goes_on(state: _State) -> Any:
        return (state.status == RUNNING) & (state.nfev < options.max_nfev)

    def step(state: _State) -> _State:
        matrix, gradient = state.normal
        free = _free(state.x, gradient, low, high)
        move = _move(matrix, gradient * free, state.scale, state.damping, free)
        trial = clipped(state.x + move)
        move = trial - state.x
        cost_there = cost_at(residuals(trial))
        decrease = state.cost - cost_there
        predicted = -(gradient @ move + 0.5 * (move @ (matrix @ move)))
        ratio = fnp.where(
            predicted > 0.0, decrease / fnp.where(predicted > 0.0, predicted, 1.0), 0.0
        )
        better = (decrease > 0.0) & (predicted > 0.0)
        following = cond(better, normal, lambda _: state.normal, trial)
        shrunk = state.damping * fnp.maximum(_FASTEST, 1.0 - (2.0 * ratio - 1.0) ** 3)
        calm = shrunk if options.damped else 0.0
        grown = fnp.maximum(state.damping * state.growth, _FIRST_DAMPING / 1e3)
        size = fnp.sqrt(move @ move)
        least = options.ftol * state.cost
        status = first_status(
            [
                (
                    better & (_slope(trial, following.gradient, low, high) <= options.gtol),
                    SMALL_SLOPE,
                ),
                (
                    (fnp.abs(decrease) <= least) & (predicted <= least) & (ratio <= 2.0),
                    SMALL_DECREASE,
                ),
                (size <= options.xtol * (options.xtol + fnp.sqrt(state.x @ state.x)), SMALL_STEP),
            ]
        )
        return _State(
            fnp.where(better, trial, state.x),
            fnp.where(better, cost_there, state.cost),
            following,
            _scale(following.matrix, state.scale, options.scale),
            fnp.where(better, calm, grown).astype(dtype),
            fnp.where(better, 2.0, 2.0 * state.growth).astype(dtype),
            state.nit + 1,
            state.nfev + 1,
            status,
        )

    x = clipped(x)
    there = residuals(x)
    count = len(there)
    first_cost, first = cost_at(there), normal(x)
    finite = fnp.isfinite(first_cost) & fnp.all(fnp.isfinite(first.gradient))
    status = first_status(
        [(~finite, NOT_FINITE), (_slope(x, first.gradient, low, high) <= options.gtol, SMALL_SLOPE)]
    )
    one, nothing = fnp.asarray(1), fnp.asarray(0)
    start = _State(
        x,
        first_cost,
        first,
        _scale(first.matrix, fnp.zeros_like(x), options.scale),
        fnp.asarray(_FIRST_DAMPING if options.damped else 0.0).astype(dtype),
        fnp.asarray(2.0).astype(dtype),
        nothing,
        one,
        status,
    )
    ended = while_loop(goes_on, step, start)
    return ended.x, (ended.status, ended.nit, ended.nfev)


def residuals_and_jacobian(
    residuals: Callable[[Tensor], Tensor], x: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """So many residuals and their Jacobian, in forward mode unless the unknowns are more."""

    def twice(point: Tensor) -> tuple[Tensor, Tensor]:
        r = residuals(point)
        return r, r

    jacobian, r = (jacrev if count < x.shape[0] else jacfwd)(twice, has_aux=True)(x)
    return r, jacobian


def _free(x: Tensor, gradient: Tensor, low: Tensor | None, high: Tensor | None) -> Any:
    """1 for unknowns that may move, 0 at a bound towards which the cost falls."""
    if low is None or high is None:
        return fnp.ones_like(x)
    held = ((x <= low) & (gradient > 0.0)) | ((x >= high) & (gradient < 0.0))
    return fnp.where(held, 0.0, 1.0).astype(x.dtype)


def _slope(x: Tensor, gradient: Tensor, low: Tensor | None, high: Tensor | None) -> Tensor:
    """The greatest element of the gradient, without unknowns that are held at a bound."""
    return fnp.max(fnp.abs(gradient * _free(x, gradient, low, high)), initial=0.0)


def _scale(matrix: Tensor, before: Tensor, chosen: Any) -> Tensor:
    """The diagonal D: squares of the columns' lengths, which never shrink, or the user's scales."""
    if chosen is not None:
        return fnp.broadcast_to(1.0 / fnp.asarray(chosen) ** 2, before.shape).astype(before.dtype)
    return fnp.maximum(fnp.diagonal(matrix), before)


def _move(matrix: Tensor, slope: Tensor, scale: Tensor, damping: Tensor, free: Tensor) -> Tensor:
    """The damped step. A matrix that is not positive definite gives NaN, which is refused."""
    dtype = matrix.dtype
    tiny = np.finfo(dtype).tiny
    weights = 1.0 / fnp.sqrt(fnp.maximum(scale, tiny))  # a column of zeros has the scale 0
    weights = fnp.where(scale > 0.0, weights, 1.0).astype(dtype)
    scaled = matrix * (weights * free)[:, None] * (weights * free)
    size = matrix.shape[0]
    added = fnp.where(scale > 0.0, damping, damping + 1.0) + (1.0 - free)
    scaled = scaled + fnp.eye(size, dtype=dtype) * added.astype(dtype)
    factor = cho_factor(scaled, failed="nan")
    return weights * cho_solve(factor, -slope * weights, failed="nan")

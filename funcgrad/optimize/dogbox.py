"""The dogleg within boxes: steps of a fit in the common part of a trust region and the bounds.

The region is a box, too, so the common part is one. In it the path goes from the point along the
gradient, and then to the step of Gauss and Newton. Unknowns that the cost holds at a bound stay.

Source: Voglis and Lagaris, "A rectangular trust region dogleg approach for unconstrained and bound
constrained nonlinear optimization", 2004.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad.optimize.damping import DampedFit, DampingOptions, FitSetting, Residuals, first_scale
from funcgrad.optimize.iterations import Watch, looped
from funcgrad.optimize.solution import (
    NOT_FINITE,
    RUNNING,
    SMALL_DECREASE,
    SMALL_SLOPE,
    SMALL_STEP,
    first_status,
)
from funcgrad.scipy.linalg.triangular_systems import solve_triangular
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class _BoxedPoint:
    """A point, the weighted residuals and Jacobian there, the scales and the size of the region."""

    x: Tensor
    cost: Tensor
    residuals: Tensor
    jacobian: Tensor
    scale: Tensor
    radius: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


def boxed_steps(
    residuals: Residuals,
    x: Tensor,
    setting: FitSetting,
    options: DampingOptions,
    watch: Watch | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Iterate from a point to a minimum of the cost; return it with (status, nit, nfev)."""
    fit = DampedFit(residuals, setting, options)

    def goes_on(now: _BoxedPoint) -> Tensor:
        return (now.status == RUNNING) & (now.nfev < options.max_nfev)

    start = _start(fit, fit.clipped(x))
    ended = looped(goes_on, lambda now: _step(fit, now), start, watch)
    return ended.x, (ended.status, ended.nit, ended.nfev)


def _start(fit: DampedFit, x: Tensor) -> _BoxedPoint:
    r, jacobian = fit.linear(x)
    cost = fit.cost(fit.residuals.value(x), x.dtype)
    gradient = r @ jacobian
    finite = fnp.isfinite(cost) & fnp.all(fnp.isfinite(gradient))
    is_flat = fit.slope(x, gradient) <= fit.options.gtol
    scale = _scale(jacobian, fnp.zeros_like(x), fit.setting.scale)
    size = fnp.max(fnp.abs(x) * scale, initial=0.0)
    radius = fnp.where(size > 0.0, size, 1.0).astype(x.dtype)
    status = first_status([(~finite, NOT_FINITE), (is_flat, SMALL_SLOPE)])
    return _BoxedPoint(x, cost, r, jacobian, scale, radius, fnp.asarray(0), fnp.asarray(1), status)


def _step(fit: DampedFit, now: _BoxedPoint) -> _BoxedPoint:
    options = fit.options
    gradient = now.residuals @ now.jacobian
    trial = fit.clipped(now.x + _move(fit, now, gradient))
    move = trial - now.x
    cost = fit.cost(fit.residuals.value(trial), now.x.dtype)
    decrease = now.cost - cost
    image = now.jacobian @ move
    promised = -(gradient @ move + 0.5 * (image @ image))
    ratio = fnp.where(promised > 0.0, decrease / fnp.where(promised > 0.0, promised, 1.0), 0.0)
    better = (decrease > 0.0) & fnp.isfinite(cost)
    r, jacobian = cond(better, fit.linear, lambda _: (now.residuals, now.jacobian), trial)
    size = fnp.max(fnp.abs(move) * now.scale, initial=0.0)
    wide = (ratio > 0.75) & (size >= 0.95 * now.radius)
    radius = fnp.where(~(ratio >= 0.25), 0.25 * size, fnp.where(wide, 2.0, 1.0) * now.radius)
    length, least = fnp.sqrt(move @ move), options.ftol * now.cost
    is_flat = better & (fit.slope(trial, r @ jacobian) <= options.gtol)
    is_level = (fnp.abs(decrease) <= least) & (promised <= least) & (ratio > 0.25)
    is_short = length <= options.xtol * (options.xtol + fnp.sqrt(now.x @ now.x))
    return _BoxedPoint(
        fnp.where(better, trial, now.x),
        fnp.where(better, cost, now.cost),
        r,
        jacobian,
        _scale(jacobian, now.scale, fit.setting.scale),
        radius.astype(trial.dtype),
        now.nit + 1,
        now.nfev + 1,
        first_status([(is_flat, SMALL_SLOPE), (is_level, SMALL_DECREASE), (is_short, SMALL_STEP)]),
    )


def _move(fit: DampedFit, now: _BoxedPoint, gradient: Tensor) -> Tensor:
    """The path along the gradient and to the step of Gauss and Newton, as far as the box."""
    setting = fit.setting
    low, high = (-np.inf, np.inf) if setting.low is None else (setting.low, setting.high)
    free = fit.free(now.x, gradient)
    slope, moving = gradient * free, now.jacobian * free
    region = now.radius / now.scale
    near, far = fnp.maximum(low - now.x, -region), fnp.minimum(high - now.x, region)
    tiny = float(np.finfo(slope.dtype).eps) ** 0.5 * now.scale  # for columns that depend on others
    wanted = free * _least_step(moving, now.residuals, fnp.where(free > 0.0, tiny, 1.0))
    wanted = fnp.where(fnp.all(fnp.isfinite(wanted)), wanted, -slope)
    bent = moving @ slope
    rate = (slope @ slope) / fnp.where(bent @ bent > 0.0, bent @ bent, 1.0)
    down = -fnp.minimum(rate, _room(fnp.zeros_like(slope), -slope, near, far)) * slope
    leg = wanted - down
    inside = fnp.all((wanted >= near) & (wanted <= far))
    along = down + fnp.minimum(1.0, _room(down, leg, near, far)) * leg
    return fnp.clip(fnp.where(inside, wanted, along), near, far)


def _room(point: Tensor, direction: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """How many times a direction leads from a point to the border of a box."""
    ends = fnp.where(direction > 0.0, high - point, low - point)
    safe = fnp.where(direction == 0.0, 1.0, direction)
    return fnp.min(fnp.where(direction == 0.0, np.inf, ends / safe), initial=np.inf)


def _scale(jacobian: Tensor, before: Tensor, chosen: Any) -> Tensor:
    """Units in which the region is a cube: lengths of columns, which never shrink."""
    if chosen is not None:
        return fnp.broadcast_to(1.0 / chosen, before.shape).astype(before.dtype)
    return first_scale(fnp.sqrt(fnp.sum(jacobian * jacobian, axis=0)), before)


def _least_step(jacobian: ArrayLike, residuals: ArrayLike, added: ArrayLike) -> Tensor:
    """The step d with the least sum of squares of J d + r and added * d; NaN if not unique.

    Normal equations would lose digits, so it is found by an orthogonal factor.
    Source: Golub, "Numerical methods for solving linear least squares problems", 1965.
    """
    matrix = fnp.asarray(jacobian)
    rows, count = matrix.shape
    below = fnp.eye(count, dtype=matrix.dtype) * added
    orthogonal, triangle = fnp.linalg.qr(fnp.concatenate([matrix, below]))
    image = fnp.asarray(residuals) @ orthogonal[:rows]
    return solve_triangular(triangle, -image, failed="nan")

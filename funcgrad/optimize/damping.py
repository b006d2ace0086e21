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
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.jacobian import jacfwd, jacrev
from funcgrad.optimize.iterations import Watch, looped
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
from funcgrad.scipy.sparse.direct_solvers import spsolve
from funcgrad.sparse.constructors import diags
from funcgrad.sparse.sparse_arrays import SparseArray
from funcgrad.tensor.tensor import Tensor

_FIRST_DAMPING: Final = 1e-3
_LEAST_DAMPING: Final = 1e-13  # after a step that failed
_FASTEST: Final = 0.1


@dataclass(frozen=True, slots=True)
class DampingOptions:
    """How the iteration steps and stops.

    Attributes
    ----------
    damped : bool
        Whether steps that succeed leave damping; without it they are steps of Gauss and Newton.
    loss : str
    ftol, xtol, gtol : float
        The tolerances of the change of the cost, of the step, and of the gradient.
    max_nfev : int
    """

    damped: bool
    loss: str
    ftol: float
    xtol: float
    gtol: float
    max_nfev: int


class FitSetting(NamedTuple):
    """Values that a fit depends on, besides its residuals.

    Attributes
    ----------
    low, high : Tensor or None
        The bounds.
    scale : Tensor or None
        The scales of the unknowns; None takes the lengths of the Jacobian's columns.
    f_scale : Tensor or float
        The size from which a residual counts as an outlier.
    """

    low: Any
    high: Any
    scale: Any
    f_scale: Any


class Normal(NamedTuple):
    """The matrix JᵀJ, dense or sparse, and the gradient Jᵀr at a point."""

    matrix: Any
    gradient: Tensor


@pytree(slots=True)
class _FitState:
    x: Tensor
    cost: Tensor
    normal: Normal
    scale: Tensor
    damping: Tensor
    growth: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


class Residuals(NamedTuple):
    """The residuals of a problem, and both them and their Jacobian."""

    value: Callable[[Tensor], Tensor]
    linear: Callable[[Tensor], tuple[Tensor, Any]]

    @classmethod
    def read(
        cls,
        value: Callable[[Tensor], Tensor],
        count: int,
        jacobian: Callable[[Tensor], Tensor] | None = None,
    ) -> Residuals:
        """Take the Jacobian if there is one, else derive so many residuals."""
        if jacobian is not None:
            return cls(value, lambda x: (value(x), jacobian(x)))
        return cls(value, lambda x: residuals_and_jacobian(value, x, count))


@dataclass(frozen=True, slots=True)
class DampedFit:
    """The residuals of a problem, and how to step."""

    residuals: Residuals
    setting: FitSetting
    options: DampingOptions

    def clipped(self, x: Tensor) -> Tensor:
        low, high = self.setting.low, self.setting.high
        return x if low is None else fnp.clip(x, low, high)

    def cost(self, residuals: Tensor, dtype: np.dtype[Any]) -> Tensor:
        return cost_of(residuals, self.options.loss, self.setting.f_scale).astype(dtype)

    def linear(self, x: Tensor) -> tuple[Tensor, Any]:
        """Residuals and Jacobian of the sum of squares that approximates the cost."""
        r, jacobian = self.residuals.linear(x)
        r, jacobian = weighted(r, jacobian, self.options.loss, self.setting.f_scale)
        return r.astype(x.dtype), jacobian.astype(x.dtype)

    def normal(self, x: Tensor) -> Normal:
        r, jacobian = self.linear(x)
        return Normal(jacobian.T @ jacobian, r @ jacobian)

    def slope(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The greatest element of the gradient, without unknowns that are held at a bound."""
        return fnp.max(fnp.abs(gradient * self.free(x, gradient)), initial=0.0)

    def free(self, x: Tensor, gradient: Tensor) -> Any:
        """1 for unknowns that may move, 0 at a bound towards which the cost falls."""
        low, high = self.setting.low, self.setting.high
        if low is None:
            return fnp.ones_like(x)
        held = ((x <= low) & (gradient > 0.0)) | ((x >= high) & (gradient < 0.0))
        return fnp.where(held, 0.0, 1.0).astype(x.dtype)

    def start(self, x: Tensor, residuals: Tensor) -> _FitState:
        cost, normal = self.cost(residuals, x.dtype), self.normal(x)
        finite = fnp.isfinite(cost) & fnp.all(fnp.isfinite(normal.gradient))
        is_flat = self.slope(x, normal.gradient) <= self.options.gtol
        return _FitState(
            x,
            cost,
            normal,
            _scale(normal.matrix, fnp.zeros_like(x), self.setting.scale),
            fnp.asarray(_FIRST_DAMPING if self.options.damped else 0.0).astype(x.dtype),
            fnp.asarray(2.0).astype(x.dtype),
            fnp.asarray(0),
            fnp.asarray(1),
            first_status([(~finite, NOT_FINITE), (is_flat, SMALL_SLOPE)]),
        )

    def goes_on(self, state: _FitState) -> Tensor:
        return (state.status == RUNNING) & (state.nfev < self.options.max_nfev)

    def step(self, state: _FitState) -> _FitState:
        options, dtype = self.options, state.x.dtype
        matrix, gradient = state.normal
        free = self.free(state.x, gradient)
        wanted = _move(matrix, gradient * free, state.scale, state.damping, free)
        trial = self.clipped(state.x + wanted)
        move = trial - state.x
        cost = self.cost(self.residuals.value(trial), dtype)
        decrease = state.cost - cost
        promised = -(gradient @ move + 0.5 * (move @ (matrix @ move)))
        ratio = fnp.where(promised > 0.0, decrease / fnp.where(promised > 0.0, promised, 1.0), 0.0)
        noise = 4.0 * float(np.finfo(dtype).eps) * state.cost
        is_hidden = (fnp.abs(decrease) <= noise) & (promised <= noise)  # by rounding
        better = ((decrease > 0.0) | is_hidden) & (promised > 0.0)
        following = cond(better, self.normal, lambda _: state.normal, trial)
        shrunk = state.damping * fnp.maximum(_FASTEST, 1.0 - (2.0 * ratio - 1.0) ** 3)
        grown = fnp.maximum(state.damping * state.growth, _LEAST_DAMPING)
        size, least = fnp.sqrt(move @ move), options.ftol * state.cost
        is_flat = better & (self.slope(trial, following.gradient) <= options.gtol)
        is_level = (fnp.abs(decrease) <= least) & (promised <= least) & (ratio <= 2.0)
        is_short = size <= options.xtol * (options.xtol + fnp.sqrt(state.x @ state.x))
        return _FitState(
            fnp.where(better, trial, state.x),
            fnp.where(better, cost, state.cost),
            following,
            _scale(following.matrix, state.scale, self.setting.scale),
            fnp.where(better, shrunk if options.damped else 0.0, grown).astype(dtype),
            fnp.where(better, 2.0, 2.0 * state.growth).astype(dtype),
            state.nit + 1,
            state.nfev + 1,
            first_status(
                [(is_flat, SMALL_SLOPE), (is_level, SMALL_DECREASE), (is_short, SMALL_STEP)]
            ),
        )


def damped_steps(
    residuals: Residuals,
    x: Tensor,
    setting: FitSetting,
    options: DampingOptions,
    watch: Watch | None = None,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Iterate from a point to a minimum of the cost; return it with (status, nit, nfev)."""
    fit = DampedFit(residuals, setting, options)
    x = fit.clipped(x)
    ended = looped(fit.goes_on, fit.step, fit.start(x, residuals.value(x)), watch)
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


def first_scale(lengths: Tensor, before: Tensor) -> Tensor:
    """Scales that never shrink; 1 for a column of zeros at first."""
    lengths = fnp.where(lengths > 0.0, lengths, fnp.where(before > 0.0, before, 1.0))
    return fnp.maximum(lengths, before).astype(before.dtype)


def _scale(matrix: Any, before: Tensor, chosen: Any) -> Tensor:
    """The diagonal D: squares of the columns' lengths, which never shrink, or the user's scales."""
    if chosen is not None:
        return fnp.broadcast_to(1.0 / fnp.asarray(chosen) ** 2, before.shape).astype(before.dtype)
    is_sparse = isinstance(matrix, SparseArray)
    return fnp.maximum(matrix.diagonal() if is_sparse else fnp.diagonal(matrix), before)


def _move(matrix: Any, slope: Tensor, scale: Tensor, damping: Tensor, free: Tensor) -> Tensor:
    """The damped step. A matrix that is not positive definite gives NaN, which is refused."""
    dtype = matrix.dtype
    tiny = np.finfo(dtype).tiny
    weights = 1.0 / fnp.sqrt(fnp.maximum(scale, tiny))  # a column of zeros has the scale 0
    weights = fnp.where(scale > 0.0, weights, 1.0).astype(dtype)
    scaled = matrix * (weights * free)[:, None] * (weights * free)
    added = (fnp.where(scale > 0.0, damping, damping + 1.0) + (1.0 - free)).astype(dtype)
    if isinstance(scaled, SparseArray):
        return weights * spsolve(scaled + diags(added), -slope * weights, failed="nan")
    scaled = scaled + fnp.eye(matrix.shape[0], dtype=dtype) * added
    factor = cho_factor(scaled, failed="nan")
    return weights * cho_solve(factor, -slope * weights, failed="nan")

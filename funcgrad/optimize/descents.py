"""Iterations that find a minimum of a function of a vector, within bounds.

>>> import funcgrad as fg
>>> f = lambda x: (x[0] - 1.0) ** 2 + 10.0 * (x[1] - x[0] ** 2) ** 2
>>> options = DescentOptions(1e-8, 100)
>>> ended = descended(Objective.derived(f), fg.tensor([-1.0, 1.0]), None, "bfgs", options)
>>> ended.x, int(ended.status)
(Tensor([1., 1.]), 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.jacobian import hessian, hvp
from funcgrad._transforms.reverse import value_and_grad
from funcgrad.optim.lbfgs import PairMemory
from funcgrad.optim.lbfgs_search import Conditions, LinePlace, searched
from funcgrad.optimize.iterations import Watch, looped
from funcgrad.optimize.solution import (
    NO_PROGRESS,
    NOT_FINITE,
    RUNNING,
    SMALL_DECREASE,
    SMALL_SLOPE,
    first_status,
)
from funcgrad.tensor.tensor import Tensor

METHODS: Final = ("bfgs", "l-bfgs", "newton-cg", "trust-exact")

_LINES: Final = ("bfgs", "l-bfgs")
_PAIRS: Final = 10  # how many steps L-BFGS remembers
_EVALUATIONS: Final = 20  # the most evaluations of a line search

Bounds = tuple[Tensor, Tensor] | None


class Objective(NamedTuple):
    """A function with its derivatives.

    Attributes
    ----------
    value : callable
        ``value(x)``
    slope : callable
        ``slope(x)`` is the value and the gradient.
    product : callable
        ``product(x, v)`` is the product of the Hessian with a vector.
    hessian : callable
        ``hessian(x)``
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], tuple[Tensor, Tensor]]
    product: Callable[[Tensor, Tensor], Tensor]
    hessian: Callable[[Tensor], Tensor]

    @classmethod
    def derived(cls, f: Callable[[Tensor], Tensor]) -> Objective:
        """Derive a function."""
        return cls(f, value_and_grad(f), lambda x, v: hvp(f, (x,), (v,)), hessian(f))

    def plus(self, f: Callable[[Tensor], Tensor]) -> Objective:
        """The sum with another function, which is derived."""
        term = Objective.derived(f)

        def slope(x: Tensor) -> tuple[Tensor, Tensor]:
            (value, gradient), (more, change) = self.slope(x), term.slope(x)
            return value + more, gradient + change

        return Objective(
            lambda x: self.value(x) + f(x),
            slope,
            lambda x, v: self.product(x, v) + term.product(x, v),
            lambda x: self.hessian(x) + term.hessian(x),
        )


class DescentOptions(NamedTuple):
    """The tolerance of the gradient's elements, the most steps, and the rounding of values."""

    gtol: Any
    maxiter: int
    noise: Any = 0.0


@pytree(slots=True)
class Descent:
    """A point of the iteration.

    Attributes
    ----------
    x, value, gradient : Tensor
    memory : pytree
        The memory of the method.
    nit, nfev, status : Tensor
    """

    x: Tensor
    value: Tensor
    gradient: Tensor
    memory: Any
    nit: Tensor
    nfev: Tensor
    status: Tensor


def descended(
    f: Objective,
    x: Tensor,
    bounds: Bounds,
    method: str,
    options: DescentOptions,
    watch: Watch | None = None,
) -> Descent:
    """Iterate from a point to a minimum."""
    step = _line_step if method in _LINES else _region_step

    x = _clipped(x, bounds)
    value, gradient = f.slope(x)
    finite = fnp.isfinite(value) & fnp.all(fnp.isfinite(gradient))
    status = first_status(
        [(~finite, NOT_FINITE), (slope_of(x, gradient, bounds) <= options.gtol, SMALL_SLOPE)]
    )
    rounding = 10.0 * float(np.finfo(x.dtype).eps)
    noise = fnp.where(finite, rounding * fnp.abs(value), 0.0)
    memory = _first_memory(method, f, x)
    start = Descent(x, value, gradient, memory, fnp.asarray(0), fnp.asarray(1), status)

    def goes_on(now: Descent) -> Tensor:
        return (now.status == RUNNING) & (now.nit < options.maxiter)

    def advance(now: Descent) -> Descent:
        # The first value may be 0, by chance, and then does not tell how large the terms are.
        here = fnp.maximum(noise, rounding * fnp.abs(now.value))
        return step(f, now, bounds, method, options._replace(noise=here))

    return looped(goes_on, advance, start, watch)


def _clipped(x: Tensor, bounds: Bounds) -> Tensor:
    return x if bounds is None else fnp.clip(x, *bounds)


def _free_of(x: Tensor, gradient: Tensor, bounds: Bounds) -> Any:
    """1 for unknowns that may move, 0 at a bound towards which the function falls."""
    if bounds is None:
        return fnp.ones_like(x)
    held = ((x <= bounds[0]) & (gradient > 0.0)) | ((x >= bounds[1]) & (gradient < 0.0))
    return fnp.where(held, 0.0, 1.0).astype(x.dtype)


def slope_of(x: Tensor, gradient: Tensor, bounds: Bounds) -> Tensor:
    """The greatest element of the gradient, without unknowns that are held at a bound."""
    return fnp.max(fnp.abs(gradient * _free_of(x, gradient, bounds)), initial=0.0)


def _first_memory(method: str, f: Objective, x: Tensor) -> Any:
    if method == "bfgs":
        return _Inverse(fnp.eye(len(x), dtype=x.dtype), fnp.asarray(True))
    if method == "l-bfgs":
        return PairMemory.empty(_PAIRS, x)
    return _Region(f.hessian(x) if method == "trust-exact" else (), fnp.ones((), x.dtype))


def _ended(
    now: Descent,
    x: Tensor,
    value: Tensor,
    gradient: Tensor,
    memory: Any,
    promised: Tensor,
    nfev: Any,
    lost: Any,
    bounds: Bounds,
    options: DescentOptions,
) -> Descent:
    """The next state. ``promised`` is the decrease that the step should bring at least."""
    status = first_status(
        [
            (slope_of(x, gradient, bounds) <= options.gtol, SMALL_SLOPE),
            (lost & (promised <= options.noise), SMALL_DECREASE),
            (lost, NO_PROGRESS),
        ]
    )
    return Descent(x, value, gradient, memory, now.nit + 1, nfev, status)


# -------------------------------------------------------------------------------- steps along lines


@pytree(slots=True)
class _Inverse:
    """The approximate inverse of the Hessian, and whether it has no corrections."""

    matrix: Tensor
    fresh: Tensor


def _line_step(
    f: Objective, now: Descent, bounds: Bounds, method: str, options: DescentOptions
) -> Descent:
    """A step along a direction, projected to the bounds, as far as Wolfe's conditions want.

    Sources: Nocedal and Wright, "Numerical optimization", 2006, chapters 6 and 7; Bertsekas,
    "Projected Newton methods for optimization problems with simple constraints", 1982.
    """
    free = _free_of(now.x, now.gradient, bounds)
    slope = now.gradient * free
    direction = free * _direction(now, method, slope, None if bounds is None else free)
    falls = fnp.all(fnp.isfinite(direction)) & (direction @ slope < 0.0)
    direction = fnp.where(falls, direction, -slope / fnp.maximum(_length(slope), 1.0))

    def along(rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        raw = now.x + rate.astype(now.x.dtype) * direction
        point = _clipped(raw, bounds)
        value, gradient = f.slope(point)
        moving = direction * (point == raw)
        return value.astype(float), (gradient @ moving).astype(float), gradient

    start = LinePlace(fnp.asarray(0.0), now.value.astype(float), (slope @ direction).astype(float))
    noise = 10.0 * float(np.finfo(now.x.dtype).eps)
    conditions = Conditions(1e-4, 0.9, noise, _EVALUATIONS)
    place, gradient, count = searched(along, start, now.gradient, conditions)
    x = _clipped(now.x + place.rate.astype(now.x.dtype) * direction, bounds)
    lost = place.rate == 0.0
    memory = _following(now, method, x - now.x, gradient - now.gradient, lost)
    retried = lost & ~_is_fresh(method, now.memory)
    value = place.value.astype(now.value.dtype)
    return _ended(
        now,
        x,
        value,
        gradient,
        memory,
        -start.slope,
        now.nfev + count,
        lost & ~retried,
        bounds,
        options,
    )


def _direction(now: Descent, method: str, slope: Tensor, free: Any) -> Tensor:
    """The quasi-Newton direction; at first, along the gradient, of length 1 at most."""
    if method == "l-bfgs":
        return now.memory.direction(slope)[0]
    inverse = now.memory.matrix
    direction = -(inverse @ slope)
    if free is not None:  # forces on the unknowns that are held keep them where they are
        held = 1.0 - free
        block = inverse * held[:, None] * held + fnp.diag(free)
        force = fnp.linalg.solve(block, held * direction, failed="nan")
        direction = direction - inverse @ (held * force)
    shorter = direction / fnp.maximum(_length(slope), 1.0)
    return fnp.where(now.nit == 0, shorter, direction)


def _following(now: Descent, method: str, step: Tensor, change: Tensor, lost: Tensor) -> Any:
    """The memory of the method after a step; it is empty after a step that failed."""
    if method == "l-bfgs":
        least = fnp.asarray(float(np.finfo(step.dtype).eps)) * (step @ step)
        return now.memory.with_pair(step, change, least).emptied_unless(~lost)
    matrix, fresh = now.memory.matrix, now.memory.fresh
    product = step @ change
    curved = product > 1e-10 * fnp.sqrt((step @ step) * (change @ change))
    safe = fnp.where(curved, product, 1.0)
    scale = fnp.where(fresh, product / fnp.where(curved, change @ change, 1.0), 1.0)
    scaled = fnp.where(curved, scale, 1.0) * matrix
    image = scaled @ change
    correction = (1.0 + change @ image / safe) / safe * (step[:, None] * step)
    correction = correction - (image[:, None] * step + step[:, None] * image) / safe
    matrix = fnp.where(curved, scaled + correction, matrix)
    unit = fnp.eye(len(step), dtype=step.dtype)
    return _Inverse(fnp.where(lost, unit, matrix), lost | (fresh & ~curved))


def _is_fresh(method: str, memory: Any) -> Any:
    return memory.fresh if method == "bfgs" else memory.inverse[-1, -1] == 0.0


# --------------------------------------------------------------------------------- steps in regions


@pytree(slots=True)
class _Region:
    """The Hessian, if the method forms it, and the radius of the region."""

    hessian: Any
    radius: Tensor


def _region_step(
    f: Objective, now: Descent, bounds: Bounds, method: str, options: DescentOptions
) -> Descent:
    """The least of the quadratic model within a ball, whose radius follows the model's success.

    Source: Conn, Gould, Toint, "Trust-region methods", 2000, chapters 6 and 7.
    """
    matrix, radius = now.memory.hessian, now.memory.radius
    free = _free_of(now.x, now.gradient, bounds)
    slope = now.gradient * free

    def product(v: Tensor) -> Tensor:
        return now.memory.hessian @ v if method == "trust-exact" else f.product(now.x, v)

    if method == "trust-exact":
        masked = matrix * free[:, None] * free + fnp.diag(1.0 - free)
        step = free * _least_in_ball(masked, slope, radius)
    else:
        step = free * _truncated(lambda v: free * product(free * v), slope, radius)
    trial = _clipped(now.x + step, bounds)
    step = trial - now.x
    value, gradient = f.slope(trial)
    promised = -(now.gradient @ step + 0.5 * (step @ product(step)))
    decrease = now.value - value
    noise = options.noise
    # Where rounding hides the decrease, the model is trusted.
    ratio = fnp.where(
        (fnp.abs(decrease) <= noise) & (promised <= noise) & (promised >= 0.0),
        1.0,
        decrease / fnp.where(promised > 0.0, promised, np.inf),
    )
    better = ratio > 1e-4
    size = _length(step)
    radius = fnp.where(
        ~(ratio >= 0.25),
        0.25 * size,
        fnp.where((ratio > 0.75) & (size >= 0.8 * radius), 2.0 * radius, radius),
    )
    x = fnp.where(better, trial, now.x)
    if method == "trust-exact":
        matrix = cond(better, f.hessian, lambda _: now.memory.hessian, trial)
    lost = radius <= 4.0 * float(np.finfo(x.dtype).eps) * (1.0 + _length(x))
    return _ended(
        now,
        x,
        fnp.where(better, value, now.value),
        fnp.where(better, gradient, now.gradient),
        _Region(matrix, radius.astype(x.dtype)),
        promised,
        now.nfev + 1,
        lost,
        bounds,
        options,
    )


@pytree(slots=True)
class _Conjugate:
    """A point of the conjugate gradients within a region."""

    point: Tensor
    residual: Tensor
    direction: Tensor
    count: Tensor
    done: Tensor


def _truncated(product: Callable[[Tensor], Tensor], slope: Tensor, radius: Tensor) -> Tensor:
    """Minimize the model by conjugate gradients, up to the border of the region.

    Source: Steihaug, "The conjugate gradient method and trust regions in large scale optimization",
    SIAM Journal on Numerical Analysis 20, 1983.
    """
    size = _length(slope)
    close = size * fnp.minimum(0.5, fnp.sqrt(size))

    def goes_on(now: _Conjugate) -> Tensor:
        open_ = ~now.done & (_length(now.residual) > close)
        return open_ & (now.count < 2 * len(slope))

    def step(now: _Conjugate) -> _Conjugate:
        z, residual, d = now.point, now.residual, now.direction
        image = product(d)
        curvature, square = d @ image, residual @ residual
        bent = curvature > 0.0
        rate = square / fnp.where(bent, curvature, np.inf)
        outside = ~bent | (_length(z + rate * d) >= radius)
        # The way along d to the border.
        dd, zd, room = d @ d, z @ d, fnp.maximum(radius**2 - z @ z, 0.0)
        far = room / (zd + fnp.sqrt(zd**2 + dd * room) + float(np.finfo(z.dtype).tiny))
        rate = fnp.where(outside, far, rate)
        following = residual + rate * image
        share = (following @ following) / square
        return _Conjugate(z + rate * d, following, share * d - following, now.count + 1, outside)

    start = _Conjugate(fnp.zeros_like(slope), slope, -slope, fnp.asarray(0), fnp.asarray(False))
    return while_loop(goes_on, step, start).point


def _length(x: Tensor) -> Tensor:
    return fnp.sqrt(x @ x)


def _least_in_ball(matrix: Tensor, slope: Tensor, radius: Tensor) -> Tensor:
    """Minimize slope·s + s·matrix·s / 2 for vectors s of a length up to the radius.

    With the eigenvalues of the matrix, Newton's method finds the shift at which the length is the
    radius. In the hard case, where the slope has no part in the direction of the least eigenvalue,
    the step along that direction is added.
    """
    values, vectors = fnp.linalg.eigh(matrix)
    parts = vectors.T @ slope
    tiny = float(np.finfo(matrix.dtype).eps) * (1.0 + fnp.max(fnp.abs(values)))
    floor = fnp.maximum(-values[0], 0.0)

    def length(shift: Tensor) -> Tensor:
        return fnp.sqrt(fnp.sum((parts / (values + shift)) ** 2))

    def newton(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        shift, count = state
        size = length(shift)
        bend = fnp.sum(parts**2 / (values + shift) ** 3)
        change = (size / radius - 1.0) * size**2 / fnp.where(bend > 0.0, bend, np.inf)
        return fnp.maximum(shift + change, floor + tiny), count + 1

    def outside(state: tuple[Tensor, Tensor]) -> Tensor:
        shift, count = state
        return (fnp.abs(length(shift) - radius) > 1e-3 * radius) & (count < 30)

    inside = (values[0] > tiny) & (length(fnp.where(values[0] > tiny, 0.0, tiny)) <= radius)
    low = floor + tiny
    hard = ~inside & (length(low) < radius)
    begin = fnp.where(inside | hard, fnp.where(inside, 0.0, low), low)
    done = inside | hard
    shift, _ = while_loop(
        lambda state: ~done & outside(state), newton, (begin.astype(matrix.dtype), fnp.asarray(0))
    )
    step = -(vectors @ (parts / (values + shift)))
    room = fnp.sqrt(fnp.maximum(radius**2 - step @ step, 0.0))
    return step + fnp.where(hard, room, 0.0) * vectors[:, 0]

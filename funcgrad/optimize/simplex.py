"""Nelder and Mead's simplex, which needs no derivative.

>>> import funcgrad as fg
>>> f = lambda x: abs(x[0] - 1.0) + (x[1] + 2.0) ** 2
>>> found = simplex_minimum(f, fg.tensor([0.0, 0.0]), None, 1e-8, 1e-8, 400)
>>> fg.numpy.round(found[0], 5), int(found[2][0])
(Tensor([ 1., -2.]), 3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.batch import vmap
from funcgrad.optimize.iterations import Watch, looped
from funcgrad.optimize.solution import NOT_FINITE, RUNNING, SMALL_STEP, first_status
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class _Simplex:
    """The corners, the best first, the values there, and counters."""

    corners: Tensor
    values: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor

    @property
    def x(self) -> Tensor:
        return self.corners[0]

    @property
    def value(self) -> Tensor:
        return self.values[0]


@dataclass(frozen=True, slots=True)
class _SimplexSearch:
    """The function, its bounds, the tolerances and the factors of the moves."""

    f: Callable[[Tensor], Tensor]
    bounds: tuple[Tensor, Tensor] | None
    xtol: Any
    ftol: Any
    factors: tuple[float, float, float]

    def clipped(self, point: Tensor) -> Tensor:
        return point if self.bounds is None else fnp.clip(point, *self.bounds)

    def value(self, point: Tensor) -> Tensor:
        number = self.f(point)
        return fnp.where(fnp.isnan(number), np.inf, number)

    def ordered(self, corners: Tensor, values: Tensor, nit: Tensor, nfev: Tensor) -> _Simplex:
        order = fnp.argsort(values, stable=True)
        corners, values = corners[order], values[order]
        width = fnp.max(fnp.abs(corners[1:] - corners[0]), initial=0.0)
        height = fnp.max(fnp.abs(values[1:] - values[0]), initial=0.0)
        is_small = (width <= self.xtol) & (height <= self.ftol)
        status = first_status([(~fnp.isfinite(values[0]), NOT_FINITE), (is_small, SMALL_STEP)])
        return _Simplex(corners, values, nit, nfev, status)

    def start(self, x: Tensor) -> _Simplex:
        far = fnp.where(x != 0.0, 0.05 * x, 0.00025)
        corners = fnp.concatenate([x[None], x + fnp.diag(far)])
        if self.bounds is not None:
            high = self.bounds[1]
            corners = vmap(self.clipped)(fnp.where(corners > high, 2.0 * high - corners, corners))
        count = fnp.asarray(len(x) + 1)
        return self.ordered(corners, vmap(self.value)(corners), fnp.asarray(0), count)

    def step(self, now: _Simplex) -> _Simplex:
        """Mirror the worst corner, then go further or less far; or shrink all to the best."""
        expansion, contraction, shrinkage = self.factors
        worst, middle = now.corners[-1], fnp.mean(now.corners[:-1], axis=0)
        mirrored = self.clipped(middle + (middle - worst))
        there = self.value(mirrored)
        is_best, is_good = there < now.values[0], there < now.values[-2]
        inward = fnp.where(there < now.values[-1], contraction, -contraction)
        factor = fnp.where(is_best, expansion, inward).astype(worst.dtype)
        tried = self.clipped(middle + factor * (middle - worst))
        is_tried = is_best | ~is_good
        at_tried = cond(is_tried, self.value, lambda _: there, tried)
        better = at_tried < fnp.minimum(there, now.values[-1])
        point = fnp.where(better, tried, mirrored)
        number = fnp.where(better, at_tried, there)
        is_replaced = is_good | better

        def replaced(corners: Tensor) -> tuple[Tensor, Tensor]:
            swapped = fnp.concatenate([corners[:-1], point[None]])
            return swapped, fnp.concatenate([now.values[:-1], number[None]])

        def shrunk(corners: Tensor) -> tuple[Tensor, Tensor]:
            smaller = corners[0] + shrinkage * (corners - corners[0])
            return smaller, fnp.concatenate([now.values[:1], vmap(self.value)(smaller[1:])])

        corners, values = cond(is_replaced, replaced, shrunk, now.corners)
        tries = 1 + is_tried + fnp.where(is_replaced, 0, len(worst))
        return self.ordered(corners, values, now.nit + 1, now.nfev + tries)


def simplex_minimum(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    bounds: tuple[Tensor, Tensor] | None,
    xtol: Any,
    ftol: Any,
    maxiter: int,
    watch: Watch | None = None,
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Minimize from a point; return the point, the value, and (status, nit, nfev).

    The factors depend on the number of unknowns. Sources: Nelder and Mead, "A simplex method for
    function minimization", Computer Journal 7, 1965; Gao and Han, "Implementing the Nelder-Mead
    simplex algorithm with adaptive parameters", 2012.
    """
    size = max(len(x), 2)
    factors = (1.0 + 2.0 / size, 0.75 - 0.5 / size, 1.0 - 1.0 / size)
    search = _SimplexSearch(f, bounds, xtol, ftol, factors)

    def goes_on(now: _Simplex) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    ended = looped(goes_on, search.step, search.start(search.clipped(x)), watch)
    return ended.corners[0], ended.values[0], (ended.status, ended.nit, ended.nfev)

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
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._transforms.batch import vmap
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


def simplex_minimum(
    f: Callable[[Tensor], Tensor],
    x: Tensor,
    bounds: tuple[Tensor, Tensor] | None,
    xtol: Any,
    ftol: Any,
    maxiter: int,
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Minimize from a point; return the point, the value, and (status, nit, nfev).

    The factors depend on the number of unknowns. Sources: Nelder and Mead, "A simplex method for
    function minimization", Computer Journal 7, 1965; Gao and Han, "Implementing the Nelder-Mead
    simplex algorithm with adaptive parameters", 2012.
    """
    size = len(x)
    expansion, contraction, shrinkage = 1.0 + 2.0 / size, 0.75 - 0.5 / size, 1.0 - 1.0 / size
    if size == 1:
        expansion, contraction, shrinkage = 2.0, 0.5, 0.5

    def clipped(point: Tensor) -> Tensor:
        return point if bounds is None else fnp.clip(point, *bounds)

    def value(point: Tensor) -> Tensor:
        number = f(point)
        return fnp.where(fnp.isnan(number), np.inf, number)

    def ordered(corners: Tensor, values: Tensor, nit: Tensor, nfev: Tensor) -> _Simplex:
        order = fnp.argsort(values, stable=True)
        corners, values = corners[order], values[order]
        width = fnp.max(fnp.abs(corners[1:] - corners[0]))
        height = fnp.max(fnp.abs(values[1:] - values[0]))
        status = first_status(
            [
                (~fnp.isfinite(values[0]), NOT_FINITE),
                ((width <= xtol) & (height <= ftol), SMALL_STEP),
            ]
        )
        return _Simplex(corners, values, nit, nfev, status)

    def goes_on(now: _Simplex) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    def step(now: _Simplex) -> _Simplex:
        worst, middle = now.corners[-1], fnp.mean(now.corners[:-1], axis=0)
        mirrored = clipped(middle + (middle - worst))
        there = value(mirrored)
        is_best, is_good = there < now.values[0], there < now.values[-2]
        outward = there < now.values[-1]
        factor = fnp.where(is_best, expansion, fnp.where(outward, contraction, -contraction))
        tried = clipped(middle + factor.astype(x.dtype) * (middle - worst))
        at_tried = cond(is_best | ~is_good, value, lambda _: there, tried)
        better = at_tried < fnp.minimum(there, now.values[-1])
        point = fnp.where(better, tried, mirrored)
        number = fnp.where(better, at_tried, there)
        replaced = is_good | better
        swapped = fnp.concatenate([now.corners[:-1], point[None]])
        numbers = fnp.concatenate([now.values[:-1], number[None]])

        def shrunk(corners: Tensor) -> tuple[Tensor, Tensor]:
            smaller = corners[0] + shrinkage * (corners - corners[0])
            return smaller, fnp.concatenate([now.values[:1], vmap(value)(smaller[1:])])

        corners, values = cond(replaced, lambda _: (swapped, numbers), shrunk, now.corners)
        tries = 1 + (is_best | ~is_good) + fnp.where(replaced, 0, size)
        return ordered(corners, values, now.nit + 1, now.nfev + tries)

    far = fnp.where(x != 0.0, 0.05 * x, 0.00025)
    corners = fnp.concatenate([x[None], x + fnp.diag(far)])
    if bounds is not None:
        corners = fnp.where(corners > bounds[1], 2.0 * bounds[1] - corners, corners)
        corners = vmap(clipped)(corners)
    start = ordered(corners, vmap(value)(corners), fnp.asarray(0), fnp.asarray(size + 1))
    ended = while_loop(goes_on, step, start)
    return ended.corners[0], ended.values[0], (ended.status, ended.nit, ended.nfev)

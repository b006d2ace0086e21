"""Probabilities as integrals of densities, and quantiles as solutions of equations.

>>> import funcgrad.numpy as fnp
>>> round(float(integral(lambda s: fnp.exp(-s), fnp.asarray(40.0))), 12)
1.0

An integral is a sum over points that are fixed fractions of its length, so its derivatives of any
order are sums over the same points: the integrands are positive and smooth, nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.whiles import fori_loop
from funcgrad._primitives.special_functions.quadrature import EVEN, NOTHING_LEFT, rule
from funcgrad._primitives.structural import unfollowed
from funcgrad.scipy.stats.conditions import chosen, holding
from funcgrad.tensor.tensor import Tensor, apply1

_BISECTIONS: Final = 62
"""Halvings of a bracket before Newton's steps."""

Formula = Callable[..., Tensor]


def integral(
    integrand: Callable[[Tensor], Tensor], length: Tensor, ends: Sequence[float] = EVEN
) -> Tensor:
    """The integral from 0 to a length, elementwise, by Gauss and Legendre's rule.

    Parameters
    ----------
    integrand : callable
        Of a tensor with one more axis, in front, on which the points are.
    length : Tensor
    ends : sequence of float
        Where the parts of the interval begin and end, relative to its length.
    """
    points, weights = rule(ends)
    column = (-1, *[1] * length.ndim)
    values = integrand(fnp.reshape(fnp.asarray(points, length.dtype), column) * length)
    return (
        fnp.sum(fnp.reshape(fnp.asarray(weights, length.dtype), column) * values, axis=0) * length
    )


def stop_gradient(x: Tensor) -> Tensor:
    """A value as a constant, for lengths at whose ends nothing is left."""
    return apply1(unfollowed, x)


def normal_reach(z: Tensor) -> Tensor:
    """The distance from z >= 0 over which the normal density falls by ``exp(-NOTHING_LEFT)``."""
    z = stop_gradient(z)
    return 2 * NOTHING_LEFT / (fnp.hypot(z, (2 * NOTHING_LEFT) ** 0.5) + z)


def solved(
    q: Tensor,
    shapes: Sequence[Tensor],
    log_density: Formula,
    log_below: Formula,
    log_above: Formula,
    bracket: tuple[Formula, Formula],
    upper: bool = False,
) -> Tensor:
    """The quantile of a probability: a bisection, and two of Newton's steps with derivatives.

    Both levels are compared by the logarithm of the smaller probability, so that quantiles far in a
    tail keep their digits. Steps from a constant have the first derivative of the solution after
    one, and the first three after two: each step doubles the order to which it agrees.

    Parameters
    ----------
    q : Tensor
        Probabilities, from 0 to 1.
    shapes : sequence of Tensor
    log_density, log_below, log_above : callable
        ``(z, *shapes)``.
    bracket : tuple of callable
        ``(low, high, *shapes)``, the probabilities below and above the quantile, to ends between
        which it is.
    upper : bool
        Whether q is the probability of a greater value.

    Returns
    -------
    Tensor
        Infinite at the probabilities 0 and 1.
    """
    within = holding(lambda q: (q > 0) & (q < 1), q)
    level = chosen(within, q, 0.5)
    logs = fnp.log(level), fnp.log1p(-level)
    low_level, high_level = logs[::-1] if upper else logs
    left = low_level < high_level

    def excess(z: Tensor, low: Tensor, high: Tensor, *shapes: Tensor) -> Tensor:
        """The logarithm of a probability beyond its level, growing with z."""
        return fnp.where(left, log_below(z, *shapes) - low, high - log_above(z, *shapes))

    constants = [stop_gradient(x) for x in (low_level, high_level, *shapes)]
    shares = [fnp.exp(x) for x in constants[:2]]
    zero = shares[0] * 0 + sum((0 * x for x in constants[2:]), fnp.zeros((), q.dtype))
    ends = tuple(end(*shares, *constants[2:]) + zero for end in bracket)

    def halve(_: Tensor, ends: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        middle = (ends[0] + ends[1]) / 2
        beyond = excess(middle, *constants) > 0
        return fnp.where(beyond, ends[0], middle), fnp.where(beyond, middle, ends[1])

    low, high = fori_loop(0, _BISECTIONS, halve, ends)
    z = (low + high) / 2
    for number in range(2):
        tail = fnp.where(left, log_below(z, *shapes), log_above(z, *shapes))
        density, gone = log_density(z, *shapes), holding(np.isneginf, tail)
        slope = fnp.exp(density - fnp.where(gone, 0.0, tail))
        step = fnp.where(gone, 0.0, excess(z, low_level, high_level, *shapes)) / slope
        # Where nothing is left at an end of the support, the level over the density is added once.
        z = z - chosen(gone, number * fnp.where(left, -level, level) / fnp.exp(density), step)
    side = fnp.where((q == 1) if upper else (q == 0), -fnp.inf, fnp.inf)
    return chosen(within, z, side)

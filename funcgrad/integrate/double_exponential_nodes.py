"""Nodes of double exponentials, and sums over them.

The variable of the sums is u, with s = π sinh(u): x = a + (b - a) / (1 + exp(-s)) between finite
limits, a + exp(s) above a, b - exp(s) below b, and sinh(s) / 2 if both are infinite. Integrands
then decay doubly exponentially, so the trapezoidal rule converges exponentially, whatever powers
and logarithms they have at the ends.

>>> import funcgrad.numpy as fnp
>>> x, weights, inside = nodes_at(fnp.asarray([-1.0, 0.0, 1.0]), fnp.asarray(0.0), fnp.asarray(1.0))
>>> x, inside
(Tensor([0.02431602, 0.5       , 0.97568398]), Tensor([ True,  True,  True]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import is_unknown, number_in
from funcgrad._control.whiles import fori_loop
from funcgrad._core.trace import concrete
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stop import stop_gradient
from funcgrad.tensor.tensor import Tensor

FEWEST: Final = 16
"""The nodes of the first level, and of a block where the number of levels is not known."""


class NodeSums(NamedTuple):
    """Sums over the nodes so far, for each integral.

    Attributes
    ----------
    total, size : Tensor
        The sum of the terms, and of their absolute values.
    low, high : Tensor
        The least and the greatest u at which the term is finite and not 0.
    low_term, high_term : Tensor
        The absolute values of the terms there.
    low_hole, high_hole : Tensor
        The greatest u < 0, and the least u >= 0, at which it is not finite.
    """

    total: Tensor
    size: Tensor
    low: Tensor
    high: Tensor
    low_term: Tensor
    high_term: Tensor
    low_hole: Tensor
    high_hole: Tensor


def summed(
    a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor], level: Tensor, sums: NodeSums
) -> Tensor:
    """The sum of the terms of all levels up to one.

    Terms of 0 that are farther outside than all others have no derivatives: there an argument of
    the integrand may be infinite.
    """
    everywhere = sums.low > sums.high

    def term_sum(u: Tensor) -> Tensor:
        _, terms, good = _terms(u, a, b, f)
        u = fnp.reshape(u, (-1, *[1] * a.ndim))
        good = good & (everywhere | ((u >= sums.low) & (u <= sums.high)))
        return fnp.sum(fnp.where(good, terms, 0.0), axis=0)

    if not is_unknown(concrete(level)):
        count = FEWEST * 2 ** int(number_in(concrete(level)))
        return term_sum(places_of(a.dtype, level, fnp.arange(count)))

    def added(block: Tensor, total: Tensor) -> Tensor:
        steps = block * FEWEST + np.arange(FEWEST)
        return total + term_sum(places_of(a.dtype, level, steps))

    return fori_loop(0, 2**level, added, fnp.zeros_like(sums.total))


def with_level(
    sums: NodeSums, a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor], level: Tensor
) -> NodeSums:
    """Add the nodes of a level that earlier ones do not have."""

    def at(numbers: Tensor) -> Tensor:
        steps = fnp.where(level == 0, numbers, 2 * numbers + 1)
        return places_of(a.dtype, level, steps)

    if not is_unknown(concrete(level)):
        number = int(number_in(concrete(level)))
        count = FEWEST if number == 0 else FEWEST // 2 * 2**number
        return _with_nodes(sums, at(fnp.arange(count)), a, b, f)

    def with_block(block: Tensor, sums: tuple[Any, ...]) -> tuple[Any, ...]:
        numbers = block * FEWEST + np.arange(FEWEST)
        return tuple(_with_nodes(NodeSums(*sums), at(numbers), a, b, f))

    blocks = fnp.maximum(2**level // 2, 1)
    return NodeSums(*fori_loop(0, blocks, with_block, tuple(sums)))


def _with_nodes(
    sums: NodeSums, u: Tensor, a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor]
) -> NodeSums:
    """Add nodes to the sums."""
    inside, terms, good = _terms(u, a, b, f)
    terms = fnp.where(good, terms, 0.0)
    u = fnp.reshape(u, (-1, *[1] * a.ndim))
    hole, sizes = inside & ~good, abs(terms)
    low = fnp.min(fnp.where(sizes > 0.0, u, np.inf), axis=0)
    high = fnp.max(fnp.where(sizes > 0.0, u, -np.inf), axis=0)
    low_term = fnp.sum(fnp.where(u == low, sizes, 0.0), axis=0)
    high_term = fnp.sum(fnp.where(u == high, sizes, 0.0), axis=0)
    low_hole = fnp.max(fnp.where(hole & (u < 0.0), u, -np.inf), axis=0)
    high_hole = fnp.min(fnp.where(hole & (u >= 0.0), u, np.inf), axis=0)
    return NodeSums(
        sums.total + fnp.sum(terms, axis=0),
        sums.size + fnp.sum(sizes, axis=0),
        fnp.minimum(low, sums.low),
        fnp.maximum(high, sums.high),
        fnp.where(low < sums.low, low_term, sums.low_term),
        fnp.where(high > sums.high, high_term, sums.high_term),
        fnp.maximum(low_hole, sums.low_hole),
        fnp.minimum(high_hole, sums.high_hole),
    )


def _terms(
    u: Tensor, a: Tensor, b: Tensor, f: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Which nodes are not limits; the terms at all; and which terms count."""
    x, weights, inside = nodes_at(u, a, b)
    terms = weights * vmap(f)(x)
    return inside, terms, inside & fnp.isfinite(stop_gradient(terms))


def nodes_at(u: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The nodes x(u), the weights dx/du, and which nodes are not limits: (count, *shape)."""
    u = fnp.reshape(u, (-1, *[1] * a.ndim))
    s, slope = np.pi * fnp.sinh(u), np.pi * fnp.cosh(u)
    low, high = fnp.minimum(a, b), fnp.maximum(a, b)
    from_low, to_high = fnp.isfinite(low), fnp.isfinite(high)
    left, right = 1.0 / (1.0 + fnp.exp(-s)), 1.0 / (1.0 + fnp.exp(s))
    span, away = high - low, fnp.exp(s)
    between = fnp.where(u < 0.0, low + span * left, high - span * right)
    half = fnp.where(from_low, low + away, high - away)
    x = fnp.where(from_low | to_high, half, 0.5 * fnp.sinh(s))
    x = fnp.where(from_low & to_high, between, x)
    weights = fnp.where(from_low | to_high, away, 0.5 * fnp.cosh(s))
    weights = fnp.where(from_low & to_high, span * left * right, weights)
    sign = fnp.where(b < a, -1.0, 1.0).astype(a.dtype)
    inside = fnp.isfinite(x) & (x != low) & (x != high)
    return x, sign * weights * slope, inside


def _farthest(dtype: np.dtype[Any]) -> float:
    """The u at which the distance to a limit of 0 is the least normal number."""
    return float(np.arcsinh(-np.log(np.finfo(dtype).tiny) / np.pi))


def width_of(dtype: np.dtype[Any], level: Tensor) -> Tensor:
    """The distance of the nodes."""
    return (2.0 * _farthest(dtype) / FEWEST * 0.5**level).astype(dtype)


def places_of(dtype: np.dtype[Any], level: Tensor, steps: Tensor) -> Tensor:
    """The u of nodes that are so many steps of a level away from the first one."""
    return (steps * width_of(dtype, level) - _farthest(dtype)).astype(dtype)


def is_lost(sums: NodeSums, integral: Tensor) -> Tensor:
    """Whether a term is not finite and one that is farther outside counts, or none counts."""
    hole = (sums.low_hole > sums.low) | (sums.high_hole < sums.high)
    only = (sums.low > sums.high) & (sums.low_hole - sums.high_hole > -np.inf)
    return hole | only | ~fnp.isfinite(integral)

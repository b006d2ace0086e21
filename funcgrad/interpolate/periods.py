"""Intervals that repeat, and limits of integrals.

>>> import funcgrad.numpy as fnp
>>> in_period(fnp.asarray([-0.5, 2.5]), fnp.asarray(0.0), fnp.asarray(2.0))
Tensor([1.5, 0.5])
"""

from __future__ import annotations

from typing import Protocol

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad.errors import ShapeError
from funcgrad.interpolate.checked_samples import points_of
from funcgrad.tensor.tensor import ArrayLike, Tensor


class Antiderivative(Protocol):
    """An antiderivative as a function of points."""

    def __call__(self, x: ArrayLike, *, extrapolate: bool) -> Tensor: ...


def in_period(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Points moved into an interval by multiples of its length."""
    return low + (x - low) % (high - low)


def real_limits(name: str, a: ArrayLike, b: ArrayLike, knots: Tensor) -> tuple[Tensor, ...]:
    """Limits of an integral beside the knots, in one precision.

    Raises
    ------
    ShapeError
        A limit is not a scalar.
    """
    start, along = points_of(name, a, knots)
    end, _ = points_of(name, b, knots)
    if start.ndim or end.ndim:
        raise placed(
            ShapeError,
            f"{name}: the limits have to be scalars; their shapes are {start.shape} and"
            f" {end.shape}. fg.vmap integrates between many.",
        )
    return start, end, along


def periodic_part(whole: Antiderivative, at: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """The integral of periodic values up to a point, but for a constant."""
    length = high - low
    periods = fnp.floor((at - low) / length)
    inside = at - periods * length
    in_one = whole(high, extrapolate=True) - whole(low, extrapolate=True)
    return whole(inside, extrapolate=True) + periods * in_one

"""Methods that keep a root between two points at which the function has different signs.

>>> state = bracketed(lambda x: x * x - 2.0, 0.0, 2.0, "itp", 1e-12, 1e-15, 100)
>>> state.best, int(state.status)
(Tensor(1.41421356), 3)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad.optimize.solution import (
    NO_BRACKET,
    NOT_FINITE,
    RUNNING,
    SMALL_RESIDUAL,
    SMALL_STEP,
    first_status,
)
from funcgrad.tensor.tensor import Tensor

_TRUNCATION: Final = 0.2  # k1 of ITP, in units of the bracket
_SLACK: Final = 1.0  # n0: how many steps more than bisection


@pytree(slots=True)
class Bracket:
    """Two points with the function there, and the memory of the methods.

    Attributes
    ----------
    best, other : Tensor
        The ends of the bracket; ``best`` has the smaller absolute value of the function.
    f_best, f_other : Tensor
    before, f_before : Tensor
        The best end before the latest step.
    step, step_before : Tensor
        The lengths of the latest two steps.
    nit, nfev, status : Tensor
    """

    best: Tensor
    other: Tensor
    f_best: Tensor
    f_other: Tensor
    before: Tensor
    f_before: Tensor
    step: Tensor
    step_before: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


def bracketed(
    f: Callable[[Tensor], Tensor],
    low: Any,
    high: Any,
    method: str,
    xtol: float,
    rtol: float,
    maxiter: int,
) -> Bracket:
    """Find a root between two points by "bisect", "itp" or "brentq"."""
    low, high = fnp.asarray(low), fnp.asarray(high)
    f_low, f_high = f(low), f(high)
    next_point = {"bisect": _middle, "itp": _itp(low, high, xtol), "brentq": _brent}[method]

    def goes_on(now: Bracket) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    def advance(now: Bracket) -> Bracket:
        near = 0.5 * (xtol + rtol * fnp.abs(now.best))
        point = next_point(now, near)
        value = f(point)
        is_same = (value > 0.0) == (now.f_best > 0.0)
        other = fnp.where(is_same, now.other, now.best)
        f_other = fnp.where(is_same, now.f_other, now.f_best)
        return _ordered(point, value, other, f_other, now, xtol, rtol)

    best, other, f_best, f_other = _exchanged(
        fnp.abs(f_high) < fnp.abs(f_low), low, high, f_low, f_high
    )
    width = other - best
    status = first_status(
        [
            (~(fnp.isfinite(f_low) & fnp.isfinite(f_high)), NOT_FINITE),
            (f_best == 0.0, SMALL_RESIDUAL),
            ((f_low > 0.0) == (f_high > 0.0), NO_BRACKET),
        ]
    )
    no_steps, two = fnp.asarray(0), fnp.asarray(2)
    first = Bracket(
        best, other, f_best, f_other, other, f_other, width, width, no_steps, two, status
    )
    return while_loop(goes_on, advance, first)


def _exchanged(swap: Tensor, a: Tensor, b: Tensor, f_a: Tensor, f_b: Tensor) -> tuple[Tensor, ...]:
    return (
        fnp.where(swap, b, a),
        fnp.where(swap, a, b),
        fnp.where(swap, f_b, f_a),
        fnp.where(swap, f_a, f_b),
    )


def _ordered(
    point: Tensor,
    value: Tensor,
    other: Tensor,
    f_other: Tensor,
    last: Bracket,
    xtol: float,
    rtol: float,
) -> Bracket:
    """The next bracket, whose best end comes first."""
    swap = fnp.abs(f_other) < fnp.abs(value)
    best, other, f_best, f_other = _exchanged(swap, point, other, value, f_other)
    before = fnp.where(swap, point, last.best)
    f_before = fnp.where(swap, value, last.f_best)
    size = fnp.abs(other - best)
    status = first_status(
        [
            (f_best == 0.0, SMALL_RESIDUAL),
            (size <= xtol + rtol * fnp.abs(best), SMALL_STEP),
            (fnp.isnan(value), NOT_FINITE),
        ]
    )
    return Bracket(
        best,
        other,
        f_best,
        f_other,
        before,
        f_before,
        point - last.best,
        last.step,
        last.nit + 1,
        last.nfev + 1,
        status,
    )


def _middle(now: Bracket, _: Tensor) -> Tensor:
    return now.best + 0.5 * (now.other - now.best)


def _itp(low: Tensor, high: Tensor, xtol: float) -> Callable[[Bracket, Tensor], Tensor]:
    """Interpolate, truncate, project: at most one step more than bisection.

    Source: Oliveira and Takahashi, "An enhancement of the bisection method average performance
    preserving minmax optimality", ACM Transactions on Mathematical Software 47, 2020.
    """
    width = fnp.abs(high - low)

    def point(now: Bracket, near: Tensor) -> Tensor:
        half = _middle(now, near)
        size = fnp.abs(now.other - now.best)
        steps = fnp.ceil(fnp.log2(fnp.maximum(width / (2.0 * near), 1.0))) + _SLACK
        radius = near * 2.0 ** (steps - now.nit) - 0.5 * size
        slope = now.f_other - now.f_best
        secant = (now.f_other * now.best - now.f_best * now.other) / fnp.where(
            slope == 0.0, 1.0, slope
        )
        sign = fnp.sign(half - secant)
        shift = _TRUNCATION * size * (size / width)
        truncated = fnp.where(shift <= fnp.abs(half - secant), secant + sign * shift, half)
        inside = fnp.abs(truncated - half) <= radius
        return fnp.where(inside, truncated, half - sign * fnp.maximum(radius, 0.0))

    return point


def _brent(now: Bracket, near: Tensor) -> Tensor:
    """Inverse quadratic interpolation where it shrinks the bracket fast, else bisection.

    Source: Brent, "Algorithms for minimization without derivatives", 1973, chapter 4.
    """
    half = 0.5 * (now.other - now.best)
    s = _ratio(now.f_best, now.f_before)
    q, r = _ratio(now.f_before, now.f_other), _ratio(now.f_best, now.f_other)
    is_secant = (now.before == now.other) | (now.f_before == now.f_other)
    p = fnp.where(
        is_secant,
        2.0 * half * s,
        s * (2.0 * half * q * (q - r) - (now.best - now.before) * (r - 1.0)),
    )
    d = fnp.where(is_secant, 1.0 - s, (q - 1.0) * (r - 1.0) * (s - 1.0))
    p, d = fnp.abs(p), fnp.where(p > 0.0, -d, d)
    short = fnp.minimum(3.0 * half * d - fnp.abs(near * d), fnp.abs(now.step_before * d))
    good = (2.0 * p < short) & (fnp.abs(now.step_before) >= near)
    good = good & (fnp.abs(now.f_before) > fnp.abs(now.f_best))
    move = fnp.where(good, p / fnp.where(d == 0.0, 1.0, d), half)
    least = fnp.where(half > 0.0, near, -near)
    return now.best + fnp.where(fnp.abs(move) > near, move, least)


def _ratio(a: Tensor, b: Tensor) -> Tensor:
    return a / fnp.where(b == 0.0, np.inf, b)

"""Compare derivatives with differences of values, which estimate their own error.

Central differences at three steps are extrapolated twice. Where the two extrapolations differ, or
where the one-sided differences do not converge as the step shrinks (a kink), nothing is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from tests.tools.fuzz.compare import DifferenceError
from tests.tools.fuzz.noise import Scatter
from tests.tools.fuzz.subject import Subject

_STEP = 2e-3
_TELLING = 1e-3


def assert_differences(subject: Subject, second: bool = False) -> None:
    """Check the derivative along the tangents, of the values or of the gradient."""
    xs, tangents, cotangents = subject.point
    derivative = subject.second if second else subject.push

    def function(*xs: Any) -> Any:
        return subject.pull(xs, tangents, cotangents) if second else subject.F(*xs)

    values = subject.scatter(function, xs, "pull at xs" if second else "F")
    said = subject.scatter(derivative, subject.point, "second" if second else "push")
    if values is None or said is None or not values.meaningful:
        return
    slope, trust = _slope(function, subject)
    trust = trust + 8 * _spread(values) / (_STEP / 4)
    actual = _flat(derivative(*subject.point))
    size = np.maximum(np.abs(slope), np.abs(actual))
    allowed = 20 * trust + 8 * _spread(said) + 1e-8 * size + 1e-9
    telling = np.isfinite(actual) & np.isfinite(slope) & (allowed < _TELLING * (1 + size))
    wrong = telling & (np.abs(actual - slope) > allowed)
    if np.any(wrong):
        k = int(np.argmax(wrong))
        raise DifferenceError(
            f"the derivative's element {k} is {actual[k]!r}, that of differences {slope[k]!r},"
            f" good to {allowed[k]:.2g}"
        )


def _slope(function: Callable[..., Any], subject: Subject) -> tuple[Any, Any]:
    """The slope along the tangents, and how far it may be off; infinite at kinks.

    Two series of steps with an irrational ratio are used: with one, jumps may agree by chance.
    """
    with np.errstate(all="ignore"):
        (first, error), (second, other) = [
            _extrapolated(function, subject, step) for step in (_STEP, _STEP * 0.7318)
        ]
        if first.shape != second.shape:
            return first, np.full(first.shape, np.inf)
        return first, np.maximum(np.maximum(error, other), np.abs(first - second))


def _extrapolated(function: Callable[..., Any], subject: Subject, step: float) -> tuple[Any, Any]:
    center = _flat(function(*subject.xs))

    def at(h: float) -> Any:
        moved = [x + h * t for x, t in zip(subject.xs, subject.tangents, strict=True)]
        return _flat(function(*moved))

    slopes, bends = [], []
    for h in (step, step / 2, step / 4):
        ahead, behind = at(h), at(-h)
        if ahead.shape != center.shape or behind.shape != center.shape:
            return np.zeros_like(center), np.full(center.shape, np.inf)
        slopes.append((ahead - behind) / (2 * h))
        bends.append(np.abs(ahead - 2 * center + behind) / h)
    first = slopes[1] + (slopes[1] - slopes[0]) / 3
    last = slopes[2] + (slopes[2] - slopes[1]) / 3
    error = np.abs(last - first)
    kink = bends[2] > 0.5 * bends[0] + 1e-7 * (1 + np.abs(last))
    return last, np.where(kink | ~np.isfinite(error), np.inf, error)


def _spread(scatter: Scatter) -> Any:
    """The spread of all numbers, of complex ones for each of their parts."""
    pairs = [
        np.repeat(np.ravel(spread), 2 if center.dtype.kind == "c" else 1)
        for center, spread in zip(scatter.center, scatter.spread, strict=True)
    ]
    return np.concatenate([np.zeros(0), *pairs])


def _flat(tree: Any) -> Any:
    """All numbers, complex ones as the pairs of their parts."""
    leaves = [np.array(leaf).ravel() for leaf in pytrees.leaves(tree)]
    pairs = [
        leaf.view(leaf.real.dtype) if leaf.dtype.kind == "c" else leaf.astype(float)
        for leaf in leaves
    ]
    return np.concatenate([np.zeros(0), *pairs])

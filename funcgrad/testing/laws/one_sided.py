"""``subgradient``: the law of derivatives at kinks, where several values are valid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad.testing.disagreements import note
from funcgrad.testing.laws.derivative_laws import jvp_of, modes_agree
from funcgrad.testing.laws.trials import LawAtPoint, trial_of
from funcgrad.testing.numerical import precision_of
from funcgrad.testing.report import number, row
from funcgrad.testing.subject import Array

_DIRECTIONS: Final = 4
_HALVINGS: Final = 40
_NEIGHBOURS: Final = 16


def subgradient(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that the derivative at a point, which may be a kink, is a subgradient.

    Along several directions the derivative has to lie between the one-sided derivatives, in every
    element of the results; where several kinks meet, between the slopes at neighbouring points
    (Clarke's generalized gradient). So the law refuses 1.5 for the slope of ``abs`` at 0, and
    accepts every value from -1 to 1. At a smooth point both one-sided derivatives are equal to the
    derivative. Besides, the convention has to be consistent: Jv is linear in v, and both modes have
    the same J.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        The derivative is not between the one-sided ones, is not linear, or differs between the
        modes.

    Notes
    -----
    The law does not check which of the valid values is the convention: 0 for ``relu``, but a half
    for each of two equal arguments of ``maximum``. The docstrings tell.

    Examples
    --------
    >>> import funcgrad as fg
    >>> subgradient(abs, (0.0,))
    >>> subgradient(fg.numpy.maximum, (1.0, 1.0))
    >>> steep = fg.custom_jvp(abs)
    >>> _ = steep.defjvp(lambda primals, tangents: (abs(primals[0]), 1.5 * tangents[0]))
    >>> subgradient(steep, (0.0,))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: laws.subgradient: the derivative of abs is not between ...
    """
    trial = trial_of("laws.subgradient", f, args, seed)
    total = [np.zeros_like(x) for x in trial.point]
    sum_of_pushed: Any = 0.0
    for _ in range(_DIRECTIONS):
        direction = trial.direction()
        pushed = jvp_of(trial, trial.point, direction)
        with quiet():
            _between(trial, direction, pushed)
        total = [a + v for a, v in zip(total, direction, strict=True)]
        sum_of_pushed = sum_of_pushed + _joined(pushed)
    _linear(trial, _joined(jvp_of(trial, trial.point, total)), sum_of_pushed)
    modes_agree(f, args, seed=seed)


def _joined(values: Sequence[Array]) -> Any:
    return np.concatenate([np.ravel(value).astype(complex) for value in values])


def _linear(trial: LawAtPoint, whole: Array, parts: Array) -> None:
    with quiet():
        scale = np.max(abs(parts), initial=1e-300)
        error = np.max(np.where(whole == parts, 0.0, abs(whole - parts)), initial=0.0)
    if not error <= precision_of(trial.subject) ** 0.5 * scale:
        rows = [row("error", f"{error:.3g}"), row("beside", f"{scale:.3g}")]
        sentence = f"the derivative of {trial.subject.title} is not linear in the direction."
        raise trial.fail(sentence, rows)


def _between(trial: LawAtPoint, direction: list[Array], pushed: Sequence[Array]) -> None:
    left, left_error = _one_sided(trial, direction, -1)
    right, right_error = _one_sided(trial, direction, 1)
    errors = [a + b for a, b in zip(left_error, right_error, strict=True)]
    ratios = _outside(pushed, [left, right], errors)
    if any(np.any(ratio > 1) for ratio in ratios):
        # Where several kinks meet, as for a median, slopes at neighbouring points are valid, too.
        near = [_nearby(trial, direction) for _ in range(_NEIGHBOURS)]
        coarse = precision_of(trial.subject) ** 0.25
        errors = [e + coarse * abs(a - b) for e, a, b in zip(errors, pushed, left, strict=True)]
        ratios = _outside(pushed, [left, right, *near], errors)
    for k, ratio in enumerate(ratios):
        note(float(np.max(ratio, initial=0.0)))
        if np.any(ratio > 1):
            index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
            inside = f"[{', '.join(map(str, map(int, index)))}]" if index else ""
            slopes = f"{number(left[k][index].item())} and {number(right[k][index].item())}"
            rows = [
                row("place", trial.subject.result_names[k] + inside),
                row("analytic", f"{number(pushed[k][index].item())}, along the direction"),
                row("one-sided", f"{slopes}, with an error of {errors[k][index]:.2g}"),
            ]
            title = trial.subject.title
            sentence = f"the derivative of {title} is not between the one-sided ones (order 1)."
            raise trial.fail(sentence, rows)


def _outside(
    pushed: Sequence[Array], slopes: Sequence[Sequence[Array]], errors: Sequence[Array]
) -> list[Array]:
    """Return how far derivatives lie outside the slopes, as a multiple of the slopes' errors.

    Outside the domain the slope is unknown, and every value is accepted.
    """
    ratios = []
    for k, (analytic, slack) in enumerate(zip(pushed, errors, strict=True)):
        columns = np.stack([np.asarray(several[k]) for several in slopes])
        ratio = np.zeros(analytic.shape)
        for side in (np.real, np.imag)[: 2 if analytic.dtype.kind == "c" else 1]:
            value, sides = side(analytic), side(columns)
            gap = np.maximum(np.fmin.reduce(sides) - value, value - np.fmax.reduce(sides))
            known = np.isfinite(sides[0]) & np.isfinite(sides[1]) & np.isfinite(slack)
            ratio = np.fmax(ratio, np.where(known, np.nan_to_num(gap / slack, nan=np.inf), 0.0))
        ratios.append(ratio)
    return ratios


def _nearby(trial: LawAtPoint, direction: list[Array]) -> list[Array]:
    """Return the slopes along a direction at a place near the point."""
    distance = precision_of(trial.subject) ** (1 / 3)
    step = distance / 64
    place = [
        np.asarray(x + u * u.dtype.type(distance))
        for x, u in zip(trial.point, trial.direction(), strict=True)
    ]
    moved = [
        np.asarray(x + (step * v).astype(x.dtype)) for x, v in zip(place, direction, strict=True)
    ]
    ends = zip(trial.values_beside(moved), trial.values_beside(place), strict=True)
    return [(ahead.astype(np.result_type(ahead, float)) - y) / step for ahead, y in ends]


def _one_sided(
    trial: LawAtPoint, direction: list[Array], sign: int
) -> tuple[list[Array], list[Array]]:
    """Return the slopes on one side, with the step at which they change least, and their errors."""
    eps = precision_of(trial.subject)
    values = trial.subject.values
    best = [np.full(value.shape, np.nan, np.result_type(value, float)) for value in values]
    errors = [np.full(value.shape, np.inf) for value in values]
    before: list[Any] | None = None
    for k in range(2, _HALVINGS):
        h = sign * 2.0**-k
        if abs(h) < 4 * eps:
            break
        moved = [
            np.asarray(x + (h * v).astype(x.dtype))
            for x, v in zip(trial.point, direction, strict=True)
        ]
        outs = trial.values_beside(moved)
        slopes = [
            (y.astype(np.result_type(y, float)) - start) / h
            for y, start in zip(outs, values, strict=True)
        ]
        for j, slope in enumerate(slopes):
            size = abs(outs[j]).astype(float) + abs(values[j])
            rounding = 16 * eps * size / abs(h) + eps * abs(slope) + 1e-300
            change = np.inf if before is None else abs(slope - before[j])
            error = np.where(np.isfinite(slope), 4 * change + rounding, np.inf)
            better = error < errors[j]
            best[j] = np.where(better, slope, best[j])
            errors[j] = np.where(better, error, errors[j])
        before = slopes
    return best, errors

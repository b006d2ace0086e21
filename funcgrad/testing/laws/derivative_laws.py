"""Laws of derivatives: forward = reverse = numerical, symmetric Hessians, the chain rule.

``subgradient`` is the law at kinks, where several values are valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.pytrees import flatten, unflatten
from funcgrad._core.trace import Value
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.testing.gradients import compare_with_numerical
from funcgrad.testing.laws.trials import Claim, LawAtPoint, arrays, judge, tensors, trial_of
from funcgrad.testing.numerical import inner, precision_of
from funcgrad.testing.report import note, number, row
from funcgrad.testing.subject import Array, subject_of


def modes_agree(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that forward and reverse mode agree: ⟨w, Jv⟩ = ⟨Jᵀw, v⟩.

    Parameters
    ----------
    f : callable
        A function of pytrees that returns a pytree, of real or complex arrays. Integers and
        booleans are constant.
    args : tuple of pytrees
        The point, which may be at a kink.
    seed : int
        The seed of the direction v and the cotangents w.

    Raises
    ------
    CheckError
        The modes differ by more than rounding.
    DifferentiationError
        The arguments or the results have no floating-point or complex leaf.

    Examples
    --------
    >>> import funcgrad as fg
    >>> modes_agree(lambda x, y: fg.numpy.hypot(x, y), (0.0, fg.tensor([0.0, 2.0])))
    """
    trial = trial_of("laws.modes_agree", f, args, seed)
    direction = trial.direction()
    cts = trial.cotangents(jvp_of(trial, trial.point, direction))

    def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
        return _products(trial, point, direction, cts)

    def details() -> list[str]:
        """Compare along each argument separately."""
        lines = ["  along each argument separately:"]
        for k, name in enumerate(trial.subject.names):
            alone = [t if i == k else t * 0 for i, t in enumerate(direction)]
            (forward,), (reverse,), _ = _products(trial, trial.point, alone, cts)
            numbers = f"forward {number(forward.item())}, reverse {number(reverse.item())}"
            lines.append(f"    {name}  {numbers}")
        return lines

    judge(
        trial,
        Claim(
            f"forward and reverse mode disagree for {trial.subject.title} (order 1).",
            ("forward", "reverse"),
            ["⟨w, J v⟩"],
            compute,
            details,
        ),
    )


def jvp_of(trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array]) -> list[Array]:
    """Return the tangents of the results."""
    pushed = jvp(trial.subject.function, tuple(tensors(point)), tensors(direction))[1]
    return arrays(pushed)


def vjp_of(trial: LawAtPoint, point: Sequence[Array], cts: Sequence[Array]) -> list[Array]:
    """Return the cotangents of the arguments."""
    return arrays(vjp(trial.subject.function, *tensors(point))[1](tensors(cts)))


def _products(
    trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array], cts: Sequence[Array]
) -> tuple[list[Array], list[Array], list[Any]]:
    pushed, pulled = jvp_of(trial, point, direction), vjp_of(trial, point, cts)
    forward = [inner(ct, t) for ct, t in zip(cts, pushed, strict=True)]
    reverse = [inner(g, v) for g, v in zip(pulled, direction, strict=True)]
    pairs = [*zip(cts, pushed, strict=True), *zip(pulled, direction, strict=True)]
    beside = sum([float((abs(a) * abs(b)).sum()) for a, b in pairs])
    return arrays([sum(forward)]), arrays([sum(reverse)]), [beside]


def grad_is_numerical(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check first derivatives in both modes against numerical ones, as ``check_grads`` does.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. The point should not be a kink.

    Raises
    ------
    CheckError
        A derivative is wrong, or the point is at a kink; the message tells which.

    Examples
    --------
    >>> import funcgrad as fg
    >>> grad_is_numerical(lambda p: p["a"] ** 2 * p["b"], ({"a": 0.5, "b": fg.tensor([1.0, 2.0])},))
    """
    trial = trial_of("laws.grad_is_numerical", f, args, seed)
    compare_with_numerical(trial.subject, trial.rng, trial.fail)


def hessian_symmetric(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that second derivatives are symmetric: D²f[u, v] = D²f[v, u].

    If a custom rule is wrong, its "first derivative" is usually not the derivative of any function,
    and the Hessian is not symmetric. Forward over forward and forward over reverse mode are
    checked.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        The second derivatives differ by more than rounding.

    Examples
    --------
    >>> import funcgrad as fg
    >>> hessian_symmetric(lambda x: fg.numpy.sum(fg.numpy.outer(x, x**2)), (fg.tensor([0.5, 1.5]),))
    """
    trial = trial_of("laws.hessian_symmetric", f, args, seed)
    subject, u, v = trial.subject, trial.direction(), trial.direction()
    cts = trial.cotangents(jvp_of(trial, trial.point, u))

    def forward(point: Sequence[Array], one: list[Array], other: list[Array]) -> list[Array]:
        def along(*x: Value) -> Any:
            return jvp(subject.function, x, tensors(one))[1]

        return arrays(jvp(along, tuple(tensors(point)), tensors(other))[1])

    def reverse(point: Sequence[Array], one: list[Array], other: list[Array]) -> float:
        def pulled(*x: Value) -> Any:
            return vjp(subject.function, *x)[1](tensors(cts))

        rows = arrays(jvp(pulled, tuple(tensors(point)), tensors(one))[1])
        return sum([inner(h, t) for h, t in zip(rows, other, strict=True)])

    def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
        first = [*forward(point, u, v), *arrays([reverse(point, u, v)])]
        second = [*forward(point, v, u), *arrays([reverse(point, v, u)])]
        scale = [float(abs(value).max(initial=0.0)) for value in jvp_of(trial, point, u)]
        total = sum([float((abs(ct)).sum()) * s for ct, s in zip(cts, scale, strict=True)])
        return first, second, [*scale, total]

    judge(
        trial,
        Claim(
            f"the second derivative of {subject.title} depends on the order of the directions"
            " (order 2): a first derivative is wrong, or the derivative of its rule is.",
            ("D²f[u, v]", "D²f[v, u]"),
            [*subject.result_names, "⟨w, D²f[u, v]⟩, by forward over reverse mode"],
            compute,
        ),
    )


def chain_rule(outer: Callable[..., Any]) -> Callable[..., None]:
    """Make the law of the chain rule: the derivative of ``outer(f(x))`` is a product.

    Parameters
    ----------
    outer : callable
        A function of the result of ``f``.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``. It raises a ``CheckError`` if, in either mode, the
        derivative of the composition is not the product.

    Examples
    --------
    >>> import funcgrad as fg
    >>> chain_rule(fg.numpy.sum)(fg.numpy.sin, (fg.tensor([0.5, 1.25]),))
    """

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        out, structure = flatten(f(*args))
        second = subject_of(law.__name__, outer, (unflatten(structure, out),), None)
        whole = trial_of(law.__name__, lambda *x: outer(f(*x)), args, seed)
        direction, cts = trial.direction(), whole.cotangents()

        def compute(point: Sequence[Array]) -> tuple[list[Array], list[Array], list[Any]]:
            x = tensors(point)
            middle, pushed = jvp(trial.subject.function, tuple(x), tensors(direction))
            forward = arrays(jvp(second.function, tuple(middle), pushed)[1])
            pulled = vjp(second.function, *middle)[1](tensors(cts))
            reverse = arrays(vjp(trial.subject.function, *x)[1](list(pulled)))
            whole_ones = [*jvp_of(whole, point, direction), *vjp_of(whole, point, cts)]
            return whole_ones, [*forward, *reverse], [0.0] * len(whole_ones)

        results = [f"tangent of {name}" for name in whole.subject.result_names]
        gradients = [f"gradient in {name}" for name in trial.subject.names]
        sentence = f"the chain rule does not hold for {trial.subject.title} (order 1)."
        labels = ("composition", "product")
        judge(trial, Claim(sentence, labels, [*results, *gradients], compute))

    return named(law, "chain_rule", outer)


def named(law: Callable[..., None], name: str, *options: object) -> Callable[..., None]:
    """Name a law as users wrote it, with its options."""
    inside = [getattr(option, "__name__", repr(option)) for option in options]
    law.__name__ = law.__qualname__ = f"laws.{name}({', '.join(inside)})"
    law.__doc__ = f"Check the law {law.__name__} of a function at a point."
    return law


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

"""Laws of values: linear and homogeneous functions, symmetries, inverses, convexity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import Value
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, DtypeError
from funcgrad.numpy.options import real_number
from funcgrad.testing.laws.derivative_laws import jvp_of, named
from funcgrad.testing.laws.trials import (
    Claim,
    LawAtPoint,
    arrays,
    changed_point,
    judge,
    leaves_of,
    tensors,
    trial_of,
)
from funcgrad.testing.numerical import precision_of
from funcgrad.testing.report import note, number, row
from funcgrad.testing.subject import Array

Computation: TypeAlias = Callable[[Sequence[Any]], tuple[list[Array], list[Array], list[Any]]]

_FACTORS: Final = (0.5, 2.0, 1.75)


def linear(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that a function is jointly linear in its arguments, and equal to its derivative.

    f(αx + βy) = αf(x) + βf(y) for random numbers α and β and a random point y; and Jv = f(v).

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        The sums differ by more than rounding, as for an affine function.

    Examples
    --------
    >>> import funcgrad as fg
    >>> linear(fg.numpy.cumsum, (fg.tensor([0.5, 1.25, 2.0]),))
    """
    trial = trial_of("laws.linear", f, args, seed)
    y, function = trial.direction(), trial.subject.function
    alpha, beta = [float(number) for number in trial.rng.uniform(0.5, 2.0, 2)]

    def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
        x = tensors(point)
        mixed = [_scaled(alpha, a) + _scaled(beta, b) for a, b in zip(x, y, strict=True)]
        at_x, at_y = arrays(function(*x)), arrays(function(*tensors(y)))
        pairs = list(zip(at_x, at_y, strict=True))
        sums = [_scaled(alpha, a) + _scaled(beta, b) for a, b in pairs]
        beside = [abs(alpha * a) + abs(beta * b) for a, b in pairs]
        pushed = jvp_of(trial, point, y)
        return [*arrays(function(*mixed)), *pushed], [*sums, *at_y], [*beside, *map(abs, at_y)]

    names = trial.subject.result_names
    _judge_values(
        trial,
        f"{trial.subject.title} is not linear.",
        ("f(αx + βy), or Jy", "αf(x) + βf(y), or f(y)"),
        [*names, *[f"derivative of {name}" for name in names]],
        compute,
    )


def _scaled(factor: float, x: Value) -> Any:
    """Multiply without a change of the dtype."""
    return x * x.dtype.type(factor)


def _judge_values(
    trial: LawAtPoint,
    sentence: str,
    labels: tuple[str, str],
    names: Sequence[str],
    compute: Computation,
) -> None:
    judge(trial, Claim(sentence, labels, names, compute))


def homogeneous(degree: float) -> Callable[..., None]:
    """Make the law f(tx) = tᵏf(x) for t > 0, with Euler's theorem ⟨∇f, x⟩ = k f(x).

    Parameters
    ----------
    degree : float
        The exponent k. All inexact arguments are scaled together.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``, which raises a ``CheckError`` if it does not hold.

    Raises
    ------
    DtypeError
        The degree is not a real number.

    Examples
    --------
    >>> import funcgrad as fg
    >>> homogeneous(1)(fg.numpy.linalg.norm, (fg.tensor([3.0, 4.0]),))
    """
    power = real_number(degree, "laws.homogeneous", "degree")

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        function = trial.subject.function

        def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
            x = tensors(point)
            values = arrays(function(*x))
            first, second = [], []
            for t in _FACTORS:
                first += arrays(function(*[_scaled(t, value) for value in x]))
                second += [_scaled(t**power, value) for value in values]
            first += jvp_of(trial, point, arrays(point))
            second += [_scaled(power, value) for value in values]
            return first, second, [0.0] * len(first)

        names = [f"{name} at t = {t}" for t in _FACTORS for name in trial.subject.result_names]
        names += [f"{name}, by its derivative along x" for name in trial.subject.result_names]
        sentence = f"{trial.subject.title} is not homogeneous of degree {power:g}."
        _judge_values(trial, sentence, ("f(tx)", "tᵏ f(x)"), names, compute)

    return named(law, "homogeneous", degree)


def invariant(*transformations: Callable[..., Any]) -> Callable[..., None]:
    """Make the law f(Tx) = f(x) for each transformation T of a group.

    Parameters
    ----------
    *transformations : callables
        Functions of the arguments of f that return new arguments: a value if f has one argument,
        else a tuple. The generators of a group suffice.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``, which raises a ``CheckError`` if it does not hold.

    Examples
    --------
    >>> import funcgrad as fg
    >>> invariant(fg.numpy.flip, lambda x: -x)(fg.numpy.linalg.norm, (fg.tensor([3.0, 4.0]),))
    """
    _check_transformations("laws.invariant", transformations)

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        for transformation in transformations:
            sentence = f"{trial.subject.title} is not invariant under {_title(transformation)}."

            def first(*x: Value, transformation: Callable[..., Any] = transformation) -> Any:
                return f(*_transformed(transformation, x))

            _judge_trees(trial, sentence, ("f(Tx)", "f(x)"), first, f)

    return named(law, "invariant", *transformations)


def equivariant(
    transformation: Callable[..., Any], of_result: Callable[..., Any] | None = None
) -> Callable[..., None]:
    """Make the law f(Tx) = T′f(x).

    Parameters
    ----------
    transformation : callable
        T, a function of the arguments of f that returns new arguments: a value if f has one
        argument, else a tuple.
    of_result : callable, optional
        T′, a function of the result of f; by default T.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``, which raises a ``CheckError`` if it does not hold.

    Examples
    --------
    >>> import funcgrad as fg
    >>> equivariant(fg.numpy.flip)(fg.numpy.sin, (fg.tensor([0.5, 1.25]),))
    >>> equivariant(fg.numpy.flip, fg.numpy.negative)(fg.numpy.diff, (fg.tensor([0.5, 1.25]),))
    """
    after = transformation if of_result is None else of_result
    _check_transformations("laws.equivariant", (transformation, after))

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        sentence = f"{trial.subject.title} is not equivariant under {_title(transformation)}."

        def first(*x: Value) -> Any:
            return f(*_transformed(transformation, x))

        _judge_trees(trial, sentence, ("f(Tx)", "T′f(x)"), first, lambda *x: after(f(*x)))

    options = (transformation,) if of_result is None else (transformation, of_result)
    return named(law, "equivariant", *options)


def _check_transformations(operation: str, transformations: Sequence[Any]) -> None:
    if not transformations:
        raise ArgumentError(f"{operation}: pass the transformations under which nothing changes.")
    for transformation in transformations:
        check_function(operation, transformation)


def _title(f: Callable[..., Any]) -> str:
    title = getattr(f, "__name__", type(f).__name__)
    return "the transformation" if title == "<lambda>" else title


def _transformed(transformation: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    changed = transformation(*args)
    return (changed,) if len(args) == 1 else tuple(changed)


def inverse(g: Callable[..., Any]) -> Callable[..., None]:
    """Make the law g(f(x)) = x, also for the derivatives.

    Parameters
    ----------
    g : callable
        A function of the result of f that returns the argument, or the tuple of arguments.

    Returns
    -------
    callable
        A law ``(f, args, *, seed=0)``. It raises a ``CheckError`` if ``g`` does not undo ``f`` up
        to rounding, or if the product of their Jacobians is not the identity.

    Examples
    --------
    >>> import funcgrad as fg
    >>> inverse(fg.numpy.log)(fg.numpy.exp, (fg.tensor([0.5, 1.25]),))
    """
    check_function("laws.inverse", g)

    def law(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
        trial = trial_of(law.__name__, f, args, seed)
        whole = trial_of(law.__name__, lambda *x: g(f(*x)), args, seed)
        title = trial.subject.title
        if [v.shape for v in whole.subject.values] != [x.shape for x in trial.point]:
            shapes = _shapes(trial.point), _shapes(whole.subject.values)
            rows = [row("x", shapes[0]), row("g(f(x))", shapes[1])]
            raise trial.fail(f"{_title(g)} does not undo {title}: the shapes differ.", rows)
        direction = trial.direction()

        def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
            back = arrays(whole.subject.function(*tensors(point)))
            pushed = jvp_of(whole, point, direction)
            return [*back, *pushed], [*arrays(point), *direction], [0.0] * (2 * len(back))

        names = [*trial.subject.names, *[f"tangent of {name}" for name in trial.subject.names]]
        sentence = f"{_title(g)} does not undo {title}."
        _judge_values(trial, sentence, ("g(f(x))", "x"), names, compute)

    return named(law, "inverse", g)


def _shapes(values: Sequence[Array]) -> str:
    return ", ".join([str(value.shape) for value in values])


def idempotent(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that a second application changes nothing: f(f(x)) = f(x).

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. A function of several arguments has to return their tuple.

    Raises
    ------
    CheckError
        The results differ by more than rounding.

    Examples
    --------
    >>> import funcgrad as fg
    >>> idempotent(fg.numpy.sort, (fg.tensor([2.0, 0.5, 1.25]),))
    """
    trial = trial_of("laws.idempotent", f, args, seed)

    def twice(*x: Value) -> Any:
        out = f(*x)
        return f(out) if len(x) == 1 else f(*out)

    title = trial.subject.title
    _judge_trees(trial, f"{title} is not idempotent.", ("f(f(x))", "f(x)"), twice, f)


def _judge_trees(
    trial: LawAtPoint,
    sentence: str,
    labels: tuple[str, str],
    first: Callable[..., Any],
    second: Callable[..., Any],
) -> None:
    """Compare all leaves of the results of two functions."""
    outs = [leaves_of(trial.law, f(*trial.args)) for f in (first, second)]
    (one, names, structure), (other, _, structure_of_other) = outs
    if structure != structure_of_other:
        rows = [row(labels[0], str(structure)), row(labels[1], str(structure_of_other))]
        raise trial.fail(f"{sentence} The structures of the results differ.", rows)
    for name, a, b in zip(names, one, other, strict=True):
        if a.shape != b.shape or not (is_inexact(a.dtype) or np.array_equal(a, b)):
            rows = [row("place", name), row(labels[0], repr(a)), row(labels[1], repr(b))]
            note(np.inf)
            raise trial.fail(sentence, rows)
    inexact_names = [name for name, a in zip(names, one, strict=True) if is_inexact(a.dtype)]

    def compute(point: Sequence[Any]) -> tuple[list[Array], list[Array], list[Any]]:
        args = changed_point(trial, point)
        pair = [
            [x for x in leaves_of(trial.law, f(*args))[0] if is_inexact(x.dtype)]
            for f in (first, second)
        ]
        return pair[0], pair[1], [0.0] * len(pair[0])

    _judge_values(trial, sentence, labels, inexact_names, compute)


def convex(f: Callable[..., Any], args: Sequence[Any], *, seed: int = 0) -> None:
    """Check that a real function is convex: chords lie above it, and tangents below.

    f(tx + (1−t)y) ≤ t f(x) + (1−t) f(y), and f(y) ≥ f(x) + ⟨∇f(x), y − x⟩, for random points y near
    and far. Points at which f is not finite, such as points outside its domain, are skipped. Each
    element of the results counts as a function.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``.

    Raises
    ------
    CheckError
        The function is not convex, or its gradient is not a subgradient.
    DtypeError
        The results are complex.

    Examples
    --------
    >>> import funcgrad as fg
    >>> convex(fg.nn.logsumexp, (fg.tensor([0.5, 1.25, 2.0]),))
    """
    trial = trial_of("laws.convex", f, args, seed)
    if any(value.dtype.kind == "c" for value in trial.subject.values):
        raise DtypeError("laws.convex: the results are complex, and have no order.")
    eps = precision_of(trial.subject)
    start = trial.subject.values
    for distance in (2.0**-8, 0.125, 0.5, 2.0):
        direction = [np.asarray(v * v.dtype.type(distance)) for v in trial.direction()]
        t = float(trial.rng.uniform(0.25, 0.75))
        with quiet():
            far = _values_along(trial, direction, 1.0)
            middle = _values_along(trial, direction, 1 - t)
            pushed = jvp_of(trial, trial.point, direction)
            chords = [t * a + (1 - t) * b for a, b in zip(start, far, strict=True)]
            tangents = [a + d for a, d in zip(start, pushed, strict=True)]
        scales = [
            8 * eps**0.75 * (abs(a) + abs(b) + abs(d)).astype(float) + np.finfo(float).tiny
            for a, b, d in zip(start, far, pushed, strict=True)
        ]
        _require_below(trial, middle, chords, scales, ("f between", "chord"))
        _require_below(trial, tangents, far, scales, ("tangent", "f"))


def _values_along(trial: LawAtPoint, direction: Sequence[Array], h: float) -> list[Array]:
    moved = zip(trial.point, direction, strict=True)
    return trial.values_beside([np.asarray(x + (h * v).astype(x.dtype)) for x, v in moved])


def _require_below(
    trial: LawAtPoint,
    lower: Sequence[Array],
    upper: Sequence[Array],
    scales: Sequence[Array],
    labels: tuple[str, str],
) -> None:
    names = trial.subject.result_names
    for name, low, high, scale in zip(names, lower, upper, scales, strict=True):
        with quiet():
            excess = np.where(np.isfinite(low) & np.isfinite(high), (low - high) / scale, 0.0)
        note(float(np.max(excess, initial=0.0)))
        if np.any(excess > 1):
            index = np.unravel_index(int(np.argmax(excess)), excess.shape)
            place = name + (f"[{', '.join(map(str, map(int, index)))}]" if index else "")
            rows = [
                row("place", place),
                row(labels[0], number(low[index].item())),
                row(labels[1], number(high[index].item())),
            ]
            raise trial.fail(f"{trial.subject.title} is not convex.", rows)

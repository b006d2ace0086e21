"""``check_grads`` and its building blocks ``check_jvp`` and ``check_vjp``.

They take a function and a point, draw a random direction and cotangents, and raise a ``CheckError``
if a derivative is wrong. To check order n, they check the derivatives of order n - 1, in each mode,
as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import index
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._transforms.arguments import is_whole
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import ArgumentError, CheckError
from funcgrad.numpy.options import real_number
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.testing.numerical import (
    Estimate,
    contract,
    estimate,
    inner,
    kink_of,
    one_sided,
    precision_of,
    refined,
    step_of,
    with_rounding,
)
from funcgrad.testing.report import (
    Comparison,
    Tolerance,
    compare,
    modes_text,
    note,
    number,
    place,
    row,
    table,
)
from funcgrad.testing.subject import MODE_NAMES, Array, Subject, derivative, subject_of

_MOST_ORDERS: Final = 10
"""The highest order. Each order repeats every check of the order below once for each mode."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Check a function's derivatives against numerical derivatives.

    Use it in the tests of custom rules, operations, layers and losses. It passes silently, or
    raises an error that names the mode, the order and the argument.

    Parameters
    ----------
    f : callable
        A function of pytrees that returns a pytree of real or complex arrays. Integer and boolean
        leaves are constant in the arguments, and ignored in the result.
    args : tuple of pytrees
        The point. It should be neither at a kink of the function, nor so near the edge of its
        domain that a step leaves the domain.
    order : int
        The highest order to check, from 1 to 10. Order 2 checks second derivatives, in all
        sequences of modes.
    modes : sequence of str
        ``"fwd"``, ``"rev"`` or both.
    atol, rtol : float, optional
        Derivatives may differ by ``atol + rtol * abs(numerical)``, plus the effect of rounding in
        the function's values. The default depends on the coarsest dtype among arguments and
        results: a relative 1e-6 with differences and 1e-7 with a complex step for float64, 2e-3 and
        8e-4 for float32.
    eps : float, optional
        The step of the central differences; by default the cube root of the machine epsilon. It is
        relative for elements greater than 1.
    kwargs : mapping, optional
        Keyword arguments, which are constant.
    seed : int
        The seed of the random direction and cotangents along which derivatives are compared; their
        elements are not near zero. The same seed gives the same check.

    Raises
    ------
    CheckError
        A derivative is wrong. The message has the mode, the order, the argument, the expected
        value, and possible reasons. It is an ``AssertionError``.
    DifferentiationError
        The arguments or the results have no floating-point or complex leaf.
    ArgumentError
        ``order``, ``modes``, ``atol``, ``rtol``, ``eps``, ``kwargs`` or ``seed`` is invalid.
    DtypeError
        ``atol``, ``rtol`` or ``eps`` is not a real number.

    Notes
    -----
    Forward mode is compared element by element along one direction v, and reverse mode by the
    scalar Re<u, J v>. Both show an error in a single entry of the Jacobian.

    Numerical derivatives are central differences, or the more accurate complex step if the function
    is real, analytic and accepts complex arguments. For complex arguments the real and imaginary
    parts are differentiated, as ``fg.grad`` does.

    Examples
    --------
    >>> import funcgrad as fg
    >>> check_grads(lambda p: p["a"] * p["b"] ** 2, ({"a": 2.0, "b": fg.tensor([3.0, 4.0])},))
    """
    subject, options = _prepared("check_grads", f, args, modes, atol, rtol, eps, kwargs)
    try:
        highest = index(order)
    except TypeError:
        raise ArgumentError(f"check_grads: order has to be an integer, got {order!r}.") from None
    if not 1 <= highest <= _MOST_ORDERS:
        raise ArgumentError(
            f"check_grads: order has to be from 1 to {_MOST_ORDERS}, got {highest}."
        )
    _check(subject, options, highest, generator_of("check_grads", seed))


def check_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Check a function's first derivative in forward mode; see ``check_grads``.

    Examples
    --------
    >>> check_jvp(lambda x, y: x * y, (2.0, 3.0))
    """
    subject, options = _prepared("check_jvp", f, args, ("fwd",), atol, rtol, eps, kwargs)
    _check(subject, options, 1, generator_of("check_jvp", seed))


def check_vjp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    kwargs: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> None:
    """Check a function's first derivative in reverse mode; see ``check_grads``.

    Examples
    --------
    >>> check_vjp(lambda x, y: x * y, (2.0, 3.0))
    """
    subject, options = _prepared("check_vjp", f, args, ("rev",), atol, rtol, eps, kwargs)
    _check(subject, options, 1, generator_of("check_vjp", seed))


def compare_with_numerical(
    subject: Subject, rng: np.random.Generator, fail: Callable[[str, Sequence[str]], CheckError]
) -> None:
    """Compare a subject's first derivatives, in both modes, with numerical ones.

    Parameters
    ----------
    subject : Subject
    rng : Generator
        Draws the direction and the cotangents.
    fail : callable
        ``(sentence, further lines of the report) -> error``.
    """
    options = _Options("", tuple([mode for mode, _ in MODE_NAMES]), Tolerance(None, None), None)
    try:
        _check(subject, options, 1, rng)
    except CheckError as error:
        sentence, *lines = str(error).splitlines()
        raise fail(sentence.removeprefix(": "), lines) from None
    direction = [drawn(rng, np.asarray(x), scaled=True) for x in subject.point]
    if (kink := kink_of(subject, direction)) is not None:
        result, place_in, left, right = kink
        inside = f"[{', '.join(map(str, place_in))}]" if place_in else ""
        rows = [
            row("place", subject.result_names[result] + inside),
            row("one-sided", f"{number(left)} and {number(right)}"),
            "Choose another point, or check it by laws.subgradient.",
        ]
        raise fail(f"the point is at a kink of {subject.title}.", rows)


def generator_of(operation: str, seed: int) -> np.random.Generator:
    """Start the random numbers of a check; raise ``ArgumentError`` for an invalid seed."""
    if not is_whole(seed) or seed < 0:
        raise ArgumentError(f"{operation}: seed has to be a non-negative integer, got {seed!r}.")
    return np.random.default_rng(index(seed))


@dataclass(frozen=True, slots=True)
class _Options:
    operation: str
    modes: tuple[str, ...]
    tolerance: Tolerance
    eps: float | None


def _prepared(
    operation: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    modes: Sequence[str],
    atol: float | None,
    rtol: float | None,
    eps: float | None,
    kwargs: Mapping[str, Any] | None,
) -> tuple[Subject, _Options]:
    known = dict(MODE_NAMES)
    several = isinstance(modes, (tuple, list)) and len(modes) > 0
    if not several or not all(isinstance(mode, str) and mode in known for mode in modes):
        raise ArgumentError(
            f"{operation}: modes has to be a sequence of {' and '.join(map(repr, known))}, got"
            f" {modes!r}. Write modes=('fwd', 'rev'), or ('rev',) for one of them."
        )
    atol, rtol, eps = (
        None if value is None else real_number(value, operation, name)
        for name, value in (("atol", atol), ("rtol", rtol), ("eps", eps))
    )
    for name, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and not value >= 0:
            raise ArgumentError(f"{operation}: {name} has to be at least 0, got {value!r}.")
    if eps is not None and not eps > 0:
        raise ArgumentError(f"{operation}: eps has to be positive, got {eps!r}.")
    options = _Options(operation, tuple(dict.fromkeys(modes)), Tolerance(atol, rtol), eps)
    return subject_of(operation, f, args, kwargs), options


def _check(subject: Subject, options: _Options, order: int, rng: np.random.Generator) -> None:
    """Check a subject in each mode, and then its derivatives."""
    trial = _Trial(
        subject,
        options,
        direction=tuple([drawn(rng, np.asarray(x), scaled=True) for x in subject.point]),
        cts=tuple([drawn(rng, value, scaled=False) for value in subject.values]),
    )
    numerical = estimate(subject, trial.direction, options.eps)
    for mode in options.modes:
        trial.check(mode, numerical)
    if order > 1:
        for mode in options.modes:
            inner_subject = derivative(subject, mode, trial.direction, trial.cts)
            _check(inner_subject, options, order - 1, rng)


def drawn(rng: np.random.Generator, like: Array, scaled: bool) -> Array:
    """Draw values of magnitude 0.5 to 1; if ``scaled``, relative to elements greater than 1."""
    size: Any = rng.uniform(0.5, 1.0, like.shape)
    if like.dtype.kind == "c":
        size = size * np.exp(2j * np.pi * rng.uniform(size=like.shape))
    else:
        size = np.where(rng.uniform(size=like.shape) < 0.5, -size, size)
    if scaled:
        size = size * np.maximum(abs(like), 1)
    return np.asarray(size).astype(like.dtype)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A subject with the direction and the cotangents along which derivatives are compared."""

    subject: Subject
    options: _Options
    direction: tuple[Array, ...]
    cts: tuple[Array, ...]

    def check(self, mode: str, numerical: Estimate) -> None:
        """Compare the derivative of one mode with the numerical derivative."""
        values, analytic = self.derivative(mode, self.direction)
        self.check_values(mode, values)
        comparison = self.comparison(mode, analytic, numerical)
        if comparison is None:
            return
        if not comparison.agrees and self.options.eps is None:
            numerical = self.second_look(mode, numerical)
            comparison = self.comparison(mode, analytic, numerical) or comparison
        note(comparison.ratio)
        if not comparison.agrees:
            raise CheckError(self.message(mode, comparison, numerical))

    def comparison(
        self, mode: str, analytic: Sequence[Array], numerical: Estimate
    ) -> Comparison | None:
        """Compare a derivative with the numerical one: the results, or their product with
        cotangents.
        """
        expected = numerical if mode == "fwd" else contract(numerical, self.cts)
        return compare(analytic, expected, self.options.tolerance)

    def second_look(self, mode: str, numerical: Estimate) -> Estimate:
        """Estimate the derivative again, with differences of many steps.

        A complex step is kept, with its rounding error, unless the differences contradict it: a
        function may have fewer digits at complex arguments.
        """
        differences = refined(self.subject, self.direction)
        if numerical.method != "complex step":
            return differences
        values = numerical.values if mode == "fwd" else contract(numerical, self.cts).values
        comparison = self.comparison(mode, values, differences)
        if comparison is not None and not comparison.agrees:
            return differences
        return with_rounding(self.subject, self.direction, numerical)

    def derivative(self, mode: str, direction: Sequence[Array]) -> tuple[list[Array], list[Array]]:
        """Return the function's values in a mode, and the derivative along the direction."""
        subject = self.subject
        if mode == "fwd":
            tangents = [wrap(t) for t in direction]
            outs, pushed = jvp(subject.function, subject.point, tangents)
            return _arrays(outs), _arrays(pushed)
        outs, pullback = vjp(subject.function, *subject.point)
        cts = _arrays(pullback([wrap(ct) for ct in self.cts]))
        total = sum(inner(ct, t) for ct, t in zip(cts, direction, strict=True))
        return _arrays(outs), [np.asarray(total)]

    def check_values(self, mode: str, values: Sequence[Array]) -> None:
        """Check that differentiation does not change the function's values."""
        subject = self.subject
        exact = [np.zeros(value.shape) for value in subject.values]
        plain = Estimate(list(subject.values), exact, "evaluation", precision_of(subject))
        comparison = compare(values, plain, self.options.tolerance)
        if comparison is None or comparison.agrees:
            return
        alike = not np.isfinite(comparison.numerical) and repr(comparison.numerical) == repr(
            comparison.analytic
        )
        if alike:
            return
        raise CheckError(
            "\n".join(
                [
                    f"{self.options.operation}: {subject.title} returns another value under"
                    f" {modes_text((*subject.modes, mode))} than without.",
                    row("place", place(subject, comparison)),
                    row("with", number(comparison.analytic)),
                    row("without", number(comparison.numerical)),
                    "The first result of a custom rule has to be the value of the function itself.",
                ]
            )
        )

    def message(self, mode: str, comparison: Comparison, numerical: Estimate) -> str:
        """Return the message about a wrong derivative."""
        subject = self.subject
        modes = (*subject.modes, mode)
        along = "the direction" if mode == "fwd" else "direction and cotangent"
        lines = [
            f"{self.options.operation}: {modes_text(modes)} is wrong for {subject.title} (order"
            f" {len(modes)})."
        ]
        if mode == "fwd":
            lines.append(row("result", place(subject, comparison)))
        lines += [
            row("analytic", f"{number(comparison.analytic)}, derivative along {along}"),
            row("numerical", f"{number(comparison.numerical)}, by {numerical.method}"),
        ]
        if np.isfinite(comparison.error):
            lines += [
                row("error", f"{comparison.error:.3g}"),
                row("tolerance", f"{comparison.tolerance:.3g} = {comparison.terms}"),
            ]
        lines += ["  along each argument separately:", *table(self.by_argument(mode, comparison))]
        return "\n".join(lines + self.hints(mode, comparison))

    def by_argument(self, mode: str, comparison: Comparison) -> list[tuple[str, Comparison]]:
        """Repeat a comparison along each argument separately, at the same element."""
        rows = []
        for k, name in enumerate(self.subject.names):
            alone = [t if i == k else np.zeros_like(t) for i, t in enumerate(self.direction)]
            numerical = estimate(self.subject, alone, self.options.eps)
            if self.options.eps is None and numerical.method != "complex step":
                numerical = refined(self.subject, alone)
            _, analytic = self.derivative(mode, alone)
            expected = numerical if mode == "fwd" else contract(numerical, self.cts)
            if mode == "fwd":  # only the wrong element
                analytic = [analytic[comparison.result][comparison.index]]
                expected = Estimate(
                    [expected.values[comparison.result][comparison.index]],
                    [expected.noise[comparison.result][comparison.index]],
                    expected.method,
                    expected.precision,
                )
            comparison_alone = compare(analytic, expected, self.options.tolerance)
            if comparison_alone is not None:
                rows.append((name, comparison_alone))
        return rows

    def hints(self, mode: str, comparison: Comparison) -> list[str]:
        """Return possible reasons for a difference, in words."""
        if not np.isfinite(comparison.numerical):
            return [
                "The function is not finite at the point or a step away from it: choose a point"
                " inside its domain, or a smaller eps."
            ]
        usual = step_of(self.subject, self.options.eps)
        longest = 16 * usual if self.options.eps is None else usual  # see ``refined``
        for step in dict.fromkeys((usual, longest)):
            left, right = [
                complex(side[comparison.result][comparison.index])
                if mode == "fwd"
                else sum(inner(ct, quotient) for ct, quotient in zip(self.cts, side, strict=True))
                for side in one_sided(self.subject, self.direction, step)
            ]
            if abs(right - left) <= min(100 * step, 0.5) * (abs(left) + abs(right)):
                continue
            return [
                f"The one-sided differences are {number(left)} and {number(right)}: the point seems"
                " to be at a kink or a jump, or less than a step from one. There numerical"
                " derivatives do not show the conventions of the docstrings: choose another point,"
                " or a smaller eps."
            ]
        if self.subject.modes:
            return [
                "The derivatives of lower order agree, so a rule is right but its own derivative is"
                " not: look for a constant in it (np.asarray, stop_gradient, a number computed"
                " beforehand) that depends on the arguments."
            ]
        return []


def _arrays(tensors: Sequence[Tensor]) -> list[Array]:
    return [np.asarray(x) for x in tensors]

"""A law at a point: the function, random directions, and the comparison of two results.

Two results agree if they differ by at most the rounding error. This error is measured: if a
difference is larger than a small multiple of the machine epsilon, the computation is repeated with
more rounding, and the changes are allowed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.specs import is_inexact
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hooks.key_uses import repetition
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import CheckError, DifferentiationError, FuncgradError
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.testing.gradients import drawn, generator_of
from funcgrad.testing.numerical import noise, precision_of
from funcgrad.testing.report import example_text, note, number, row
from funcgrad.testing.subject import Array, Pytree, Subject, subject_of

_REPETITIONS: Final = 4
_SCATTER: Final = 8.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LawAtPoint:
    """A law at a point.

    Attributes
    ----------
    law : str
        The name of the law, as users write it.
    f : callable
    args : tuple
    seed : int
    subject : Subject
        The function of the inexact leaves of ``args``.
    rng : Generator
        For further random numbers.
    """

    law: str
    f: Callable[..., Any]
    args: tuple[Any, ...]
    seed: int
    subject: Subject
    rng: np.random.Generator

    @property
    def point(self) -> list[Array]:
        """Return the inexact arrays among the arguments."""
        return [np.asarray(x) for x in self.subject.point]

    def direction(self) -> list[Array]:
        """Draw a tangent for each argument, of the magnitude of its elements."""
        return [drawn(self.rng, x, scaled=True) for x in self.point]

    def cotangents(self, values: Sequence[Array] | None = None) -> list[Array]:
        """Draw a cotangent for each result; cotangents of large results are small.

        Otherwise a large result would hide an error in a small one.
        """
        sizes = self.subject.values if values is None else values
        return [
            drawn(self.rng, value, scaled=False) * _inverse_size(size)
            for value, size in zip(self.subject.values, sizes, strict=True)
        ]

    def values_beside(self, point: Sequence[Array]) -> list[Array]:
        """Evaluate the function at another place; NaN if it raises an error outside its domain."""
        try:
            return self.subject.values_at(point)
        except (FuncgradError, ValueError, ArithmeticError):
            return [np.full(y.shape, np.nan, y.dtype) for y in self.subject.values]

    def fail(self, claim: str, rows: Sequence[str]) -> CheckError:
        """Make the error for a law that does not hold."""
        example = example_text(self.law, self.f, self.args, self.seed)
        return CheckError("\n".join([f"{self.law}: {claim}", *rows, *example]))

    def repeated(self, compute: Callable[[Sequence[Any]], T]) -> Iterator[T]:
        """Compute something from the point several times, with additional rounding."""
        for count in range(_REPETITIONS):
            with noise(np.random.default_rng((self.seed, count))) as follow:
                yield compute([follow(x) for x in self.point])


def trial_of(law: str, f: Callable[..., Any], args: Sequence[Any], seed: int) -> LawAtPoint:
    """Check the arguments of a law, and start.

    Raises
    ------
    DifferentiationError
        ``args`` is not a tuple, or arguments or results have no inexact leaf.
    """
    subject, rng = subject_of(law, f, args, None), generator_of(law, seed)
    return LawAtPoint(law, f, tuple(args), seed, subject, rng)


def called(law: str, f: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, ...]:
    """Check the arguments of a law that needs no derivative."""
    check_function(law, f)
    if not isinstance(args, (tuple, list)):
        raise DifferentiationError(
            f"{law}: args has to be a tuple with one entry for each argument, got"
            f" {type(args).__name__}. Write {law}(f, (x,))."
        )
    return tuple(args)


def _inverse_size(size: Array) -> Any:
    """Return a power of two that scales the largest element to about 1, without overflow."""
    largest = float(np.max(abs(size), initial=0.0))
    if not np.isfinite(largest) or largest == 0.0:
        return size.real.dtype.type(1.0)
    most = np.finfo(size.dtype).maxexp // 2
    exponent = int(np.clip(np.frexp(largest)[1], -most, most))
    return size.real.dtype.type(2.0**-exponent)


def arrays(values: Sequence[Any]) -> list[Array]:
    """Convert tensors to arrays."""
    return [np.asarray(value) for value in values]


def tensors(values: Sequence[Array]) -> list[Tensor]:
    """Convert arrays to tensors."""
    return [wrap(value) for value in values]


@dataclass(frozen=True, slots=True)
class Claim:
    """Two computations of the same result.

    Attributes
    ----------
    sentence : str
        The message if they differ.
    labels : pair of str
        The names of both computations.
    names : sequence of str
        The path of each array.
    compute : callable
        Takes arrays instead of the point. Returns the two lists of arrays, and the magnitudes to
        which their rounding is relative.
    details : callable
        Returns further rows of the report.
    """

    sentence: str
    labels: tuple[str, str]
    names: Sequence[str]
    compute: Callable[[Sequence[Array]], tuple[list[Array], list[Array], list[Any]]]
    details: Callable[[], Sequence[str]] = tuple


def judge(trial: LawAtPoint, claim: Claim) -> None:
    """Raise an error if the two computations of a claim differ by more than rounding."""
    precision = precision_of(trial.subject)
    with quiet(), repetition():
        first, second, beside = claim.compute(trial.point)
        bounds = [
            np.asarray(precision**0.6 * _largest(a, b, c))
            for a, b, c in zip(first, second, beside, strict=True)
        ]
        ratio, place, index = _worst(first, second, bounds)
        if ratio > 1:
            _require_repeatable(trial, claim, first, second)
            more = _scatter(trial, claim, first)
            bounds = [b + s for b, s in zip(bounds, more, strict=True)]
            ratio, place, index = _worst(first, second, bounds)
    note(ratio)
    if ratio <= 1:
        return
    one, other = first[place][index].item(), second[place][index].item()
    name = claim.names[place] + (f"[{', '.join(map(str, index))}]" if index else "")
    bound = np.broadcast_to(bounds[place], first[place].shape)[index]
    rows = [
        row("place", name),
        row(claim.labels[0], number(one)),
        row(claim.labels[1], number(other)),
        row("error", f"{abs(one - other):.3g}, and rounding accounts for {float(bound):.3g}"),
        *claim.details(),
    ]
    raise trial.fail(claim.sentence, rows)


def _require_repeatable(
    trial: LawAtPoint, claim: Claim, first: Sequence[Array], second: Sequence[Array]
) -> None:
    """Raise an error if a repeated computation has another result."""
    one, other, _ = claim.compute(trial.point)
    pairs = [*zip(first, one, strict=True), *zip(second, other, strict=True)]
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs):
        note(np.inf)
        raise trial.fail(
            f"{trial.subject.title} returns something else when it is called again.",
            ["It is not pure, and laws.pure says more."],
        )


def _largest(*several: ArrayLike) -> float:
    sizes = [float(np.max(abs(np.asarray(values)), initial=0.0)) for values in several]
    return max([size for size in sizes if np.isfinite(size)], default=0.0)


def _scatter(trial: LawAtPoint, claim: Claim, first: Sequence[Array]) -> list[Array]:
    """Measure the rounding error of the difference of the results.

    More rounding does not change the error of a wrong rule, so this does not hide it.
    """
    differences: list[list[Array]] = [[] for _ in first]
    for one, other, _ in trial.repeated(claim.compute):
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            if a.shape == b.shape == first[k].shape:
                differences[k].append(a.astype(complex) - b)
    return [
        _SCATTER * _spread(np.stack(several)) if several else np.zeros(value.shape)
        for several, value in zip(differences, first, strict=True)
    ]


def _spread(rows: Array) -> Array:
    """Return the distance between the least and the greatest element of each column."""
    widths = [np.fmax.reduce(side) - np.fmin.reduce(side) for side in (rows.real, rows.imag)]
    return np.asarray(np.nan_to_num(widths[0] + widths[1], nan=0.0, posinf=0.0))


def _worst(
    first: Sequence[Array], second: Sequence[Array], bounds: Sequence[Array]
) -> tuple[float, int, tuple[int, ...]]:
    """Find the element with the largest difference relative to its bound; infinite for shapes."""
    worst: tuple[float, int, tuple[int, ...]] = (0.0, 0, ())
    for k, (a, b, bound) in enumerate(zip(first, second, bounds, strict=True)):
        if not a.size:
            continue
        same = (a == b) | ((a != a) & (b != b))
        error = np.where(same, 0.0, abs(a.astype(complex) - b))
        tiny = np.finfo(float).tiny
        ratio = np.where(same, 0.0, error / np.maximum(bound, tiny))
        ratio = np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)
        index = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
        if ratio[index] > worst[0]:
            worst = float(ratio[index]), k, tuple([int(i) for i in index])
    return worst


# ---------------------------------------------------------------------------- whole results


def leaves_of(law: str, out: Pytree) -> tuple[list[Array], list[str], Any]:
    """List all leaves of a result, with their paths."""
    leaves, structure = pytrees.flatten(out)
    values = [np.asarray(wrap(operand(leaf, f"{law}: the function's result"))) for leaf in leaves]
    return values, [f"result{path}" for path in structure.paths()], structure


def changed_point(trial: LawAtPoint, point: Sequence[ArrayLike]) -> tuple[Any, ...]:
    """Replace the inexact leaves of the arguments."""
    leaves, structure = pytrees.flatten(trial.args)
    following = iter(point)
    replaced = [
        wrap(next(following)) if is_inexact(np.asarray(leaf).dtype) else leaf for leaf in leaves
    ]
    return pytrees.unflatten(structure, replaced)

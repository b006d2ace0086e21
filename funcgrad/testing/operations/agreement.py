"""Comparisons of arrays, with errors that say where they differ; directions and references.

Arrays or lists of arrays come in; nothing or a ``CheckError`` goes out.

>>> require_near([1.0, 2.0], [1.0, 2.5], 1e-9, "forward mode")
Traceback (most recent call last):
    ...
funcgrad.errors.CheckError: forward mode: 2.0 is not 2.5 at [1]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.trace import Raw, Value, bind
from funcgrad._core.users_values import ArrayLike
from funcgrad.errors import CheckError
from funcgrad.testing.operations.cases import Case

ROUNDING: Final = MappingProxyType({2: 1e-2, 4: 1e-4, 8: 1e-9})
"""The tolerance between two ways to one derivative, by the bytes of a real number."""

# Step and tolerance of central differences, extrapolated once, in each precision.
_DIFFERENCES: Final = MappingProxyType({2: (0.1, 0.1), 4: (3e-2, 2e-3), 8: (1e-4, 1e-6)})


def require(holds: object, text: str) -> None:
    """Raise a ``CheckError`` with a text unless a condition holds."""
    if not holds:
        raise CheckError(text)


def require_near(
    actual: ArrayLike, expected: ArrayLike, tolerance: float, subject: str, scaled: bool = True
) -> None:
    """Compare two arrays; NaN agrees with NaN only, and an infinity with itself.

    Parameters
    ----------
    actual, expected : array_like
    tolerance : float
        Relative to each element; if ``scaled``, also relative to the greatest finite element and to
        1.
    subject : str
        The name of the compared values, for the message.
    scaled : bool
    """
    one, other = np.asarray(actual), np.asarray(expected)
    require(
        one.shape == other.shape, f"{subject}: its shape is {one.shape} instead of {other.shape}"
    )
    agree = _agree(one, other, tolerance, scaled)
    if not agree.all():
        raise CheckError(_difference(one, other, agree, subject))


def _agree(one: Raw, other: Raw, tolerance: float, scaled: bool) -> Raw:
    same = (one == other) | ((one != one) & (other != other))
    if "b" in (one.dtype.kind, other.dtype.kind) or not {one.dtype.kind, other.dtype.kind} & {
        *"fc"
    }:
        return np.asarray(same)
    with quiet():
        size = abs(other)
        largest = size[np.isfinite(size)].max(initial=1.0) if scaled else 0.0
        close = abs(one.astype(np.result_type(one, float)) - other) <= tolerance * (size + largest)
    return np.asarray(same | (close & np.isfinite(other)))


def _difference(one: Raw, other: Raw, agree: Raw, subject: str) -> str:
    """Describe where arrays first differ, and at how many places."""
    index = tuple(int(k[0]) for k in np.nonzero(~agree)) if agree.ndim else ()
    place = f" at [{', '.join(map(str, index))}]" if index else ""
    text = f"{subject}: {one[index].item()!r} is not {other[index].item()!r}{place}"
    count = int((~agree).sum())
    return text if count == 1 else f"{text}, and so at {count} of {agree.size} places"


def require_all_near(
    actual: Sequence[Value], expected: Sequence[Value], tolerance: float, subject: str
) -> None:
    """Compare two lists of arrays."""
    require(
        len(actual) == len(expected), f"{subject}: there are {len(actual)}, not {len(expected)}"
    )
    for k, (one, other) in enumerate(zip(actual, expected, strict=True)):
        name = subject if len(actual) == 1 else f"{subject} [{k}]"
        require_near(one, other, tolerance, name)


def bits(value: ArrayLike) -> tuple[Any, ...]:
    """Return a key that is equal for bit-for-bit equal arrays; all NaN count as equal."""
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return bits(np.real(array)), bits(np.imag(array))
    if array.dtype.kind == "f":
        array = np.where(array != array, array.dtype.type(np.nan), array)
    return array.dtype, array.shape, array.tobytes()


def require_bits(actual: ArrayLike, expected: ArrayLike, subject: str) -> None:
    """Compare two arrays to the last bit; all NaN count as equal."""
    if bits(actual) == bits(expected):
        return
    one, other = np.asarray(actual), np.asarray(expected)
    require_specs([one], [other], subject)
    require_near(one, other, 0.0, subject, scaled=False)
    raise CheckError(f"{subject}: the signs of zeros differ")


def require_ulps(
    actual: ArrayLike, expected: ArrayLike, ulps: int, subject: str, beside: ArrayLike = 0.0
) -> None:
    """Compare two arrays up to some units in the last place of each element; 0: to the bit.

    Parameters
    ----------
    actual, expected : array_like
    ulps : int
    subject : str
        The name of the compared values, for the message.
    beside : array_like
        The unit of an element is at least the unit of this array's element.
    """
    one, other = np.asarray(actual), np.asarray(expected)
    if not ulps or other.dtype.kind != "f":
        require_bits(one, other, subject)
        return
    require_specs([one], [other], subject)
    with quiet():
        unit = abs(np.spacing(np.maximum(abs(other), np.abs(beside)).astype(other.dtype)))
        close = np.isfinite(other) & (abs(one - other) <= ulps * unit)
        rounded = np.where(close & (np.signbit(one) == np.signbit(other)), other, one)
    require_bits(rounded, other, subject)


def specs_of(values: Sequence[Value]) -> str:
    """Write the dtypes and the shapes of values."""
    return ", ".join(f"{np.asarray(x).dtype} {np.shape(x)}" for x in values) or "nothing"


def require_specs(actual: Sequence[Value], expected: Sequence[Value], subject: str) -> None:
    """Compare the dtypes and the shapes of lists of values."""
    one, other = (
        [(np.shape(x), np.asarray(x).dtype) for x in values] for values in (actual, expected)
    )
    require(one == other, f"{subject}: {specs_of(actual)} instead of {specs_of(expected)}")


# ------------------------------------------------------------------------------ directions


def direction(rng: np.random.Generator, x: ArrayLike) -> Raw:
    """Draw an array of the shape and the dtype of another, of magnitudes around 1.

    Extreme elements get directions of their own magnitude, so that a step is neither lost nor too
    long.
    """
    like = np.asarray(x)
    drawn: Any = rng.uniform(0.5, 1.5, like.shape) * rng.choice([-1.0, 1.0], like.shape)
    if like.dtype.kind == "c":
        drawn = drawn * np.exp(2j * np.pi * rng.uniform(size=like.shape))
    sizes = abs(like.astype(complex))
    extreme = np.isfinite(sizes) & ((sizes > 1e6) | (sizes < 1e-6)) & (sizes > 0)
    drawn = np.where(extreme, sizes, 1) * drawn
    return np.asarray(drawn).astype(like.dtype)


def directions(rng: np.random.Generator, point: Sequence[Value]) -> tuple[Any, ...]:
    """Draw a direction for each array."""
    return tuple(direction(rng, x) for x in point)


def inner(first: ArrayLike, second: ArrayLike) -> float:
    """Compute the real inner product: a complex number counts as the pair of its parts."""
    one, other = np.asarray(first, complex), np.asarray(second, complex)
    shares = np.real(one) * np.real(other) + np.imag(one) * np.imag(other)
    return float(np.sum(shares))


def inner_all(first: Sequence[Value], second: Sequence[Value]) -> float:
    """Compute the inner product of lists of arrays."""
    return sum(inner(a, b) for a, b in zip(first, second, strict=True))


# ------------------------------------------------------------------------------ references


def coarsest(arrays: Sequence[Value]) -> int:
    """Count the bytes of a real number in the coarsest floating dtype among arrays."""
    dtypes = [np.asarray(a).dtype for a in arrays]
    return min(d.itemsize // (2 if d.kind == "c" else 1) for d in dtypes if d.kind in "fc")


def differences(
    f: Callable[..., Sequence[Value]], point: Sequence[Value], along: Sequence[Value]
) -> tuple[list[Raw], float]:
    """Differentiate a function of arrays along a direction, with a tolerance."""
    step, tolerance = _DIFFERENCES[coarsest([*point, *f(*point)])]

    def central(h: float) -> list[Raw]:
        ahead = f(
            *[np.asarray(x + h * v).astype(v.dtype) for x, v in zip(point, along, strict=True)]
        )
        behind = f(
            *[np.asarray(x - h * v).astype(v.dtype) for x, v in zip(point, along, strict=True)]
        )
        return [(np.asarray(a) - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]

    with quiet():
        near, far = central(step), central(2 * step)
        return [n + (n - f) / 3 for n, f in zip(near, far, strict=True)], tolerance


def complex_step(case: Case, positions: Sequence[int], along: Sequence[Value]) -> list[Raw] | None:
    """Differentiate by a step along the imaginary axis; None if NumPy raises an error."""
    point = [x + 1e-30j * v for x, v in zip(case.point(positions), along, strict=True)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "casting discards the imaginary part" is a refusal
            values = case.results_at(positions, point)
    except (TypeError, ValueError, np.exceptions.ComplexWarning):
        return None
    return [value.imag / 1e-30 for value in values]


# ------------------------------------------------------------------------------ batches


def batch_of(x: ArrayLike, size: int) -> Raw:
    """Make different examples on axis 0; floats are scaled, which keeps order, zeros and ties."""
    array = np.asarray(x)
    examples = [
        (array * array.dtype.type(1 - 0.0625 * k)).astype(array.dtype)
        if array.dtype.kind in "fc"
        else np.roll(array, k)
        for k in range(size)
    ]
    return np.stack(examples) if size else np.zeros((0, *array.shape), array.dtype)


def loop(case: Case, args: Sequence[Value], flags: Sequence[bool], size: int) -> list[Raw]:
    """Apply the operation to one example after the other, and stack the results."""
    with quiet():
        rows = [
            bind(
                case.primitive,
                tuple([a[i] if flag else a for a, flag in zip(args, flags, strict=True)]),
                case.sample.params,
            )
            for i in range(size)
        ]
    several = [row if isinstance(row, tuple) else (row,) for row in rows]
    return [np.stack(column) for column in zip(*several, strict=True)]

"""Which conventions derivatives follow at a point: operations at kinks, ties, jumps and edges.

``funcgrad/numpy/EDGES.md`` explains the conventions. Which convention applied follows from the
operation's declaration, its derivative, and its slopes on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.forward import jvp
from funcgrad.debug.kinks_met import KinkMet, kinks_met
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import real_number
from funcgrad.tensor.tensor import apply, wrap

Array: TypeAlias = np.ndarray[Any, Any]

_STEP: Final = 1e-6
_MOST_COORDINATES: Final = 64
_MOST_ELEMENTS: Final = 16

JUMP: Final = "a jump"
KINK: Final = "a kink"
END: Final = "the end of its domain"
OUTSIDE: Final = "outside of its domain"
POLE: Final = "a pole"


@dataclass(frozen=True, slots=True)
class Convention:
    """An operation at a kink, and its derivative there.

    Attributes
    ----------
    operation : str
    line : str
        The user's line, or an empty string.
    place : str
        ``"a kink"``, ``"a jump"``, ``"a pole"``, ``"the end of its domain"`` or ``"outside of its
        domain"``.
    rule : str
        The convention, in words.
    argument : int
        The position of the argument to which the slopes belong.
    derivative, left, right : float
        The derivative of one element of the result with respect to one element of the argument, and
        the slopes on both sides. Among several elements, the slopes that differ most.
    """

    operation: str
    line: str
    place: str
    rule: str
    argument: int
    derivative: float
    left: float
    right: float

    def __str__(self) -> str:
        line = f" at {self.line}" if self.line else ""
        sides = f"the slopes are {self.left:.4g} and {self.right:.4g}"
        return (
            f"{self.operation}{line}, {self.place}: the derivative is {self.derivative:.4g},"
            f" {self.rule}; {sides}"
        )


@dataclass(frozen=True, slots=True)
class Conventions:
    """The report of ``conventions``; a sequence of ``Convention``.

    Attributes
    ----------
    title : str
        The function's name.
    entries : tuple of Convention
        One for each kind of kink and each line.
    counts : tuple of int
        The number of elements to which each convention applied.
    """

    title: str
    entries: tuple[Convention, ...]
    counts: tuple[int, ...]

    def __iter__(self) -> Iterator[Convention]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, k: int) -> Convention:
        return self.entries[k]

    def __repr__(self) -> str:
        if not self.entries:
            return f"conventions of {self.title}: no operation is at a kink, a tie or an edge"
        count = len(self.entries)
        subject = "1 operation is" if count == 1 else f"{count} operations are"
        lines = [f"conventions of {self.title}: {subject} at a kink, a tie or an edge"]
        for entry, elements in zip(self.entries, self.counts, strict=True):
            times = f" (in {elements} elements)" if elements > 1 else ""
            lines.append(f"  {entry}{times}")
        return "\n".join(lines)


def conventions(f: Callable[..., Any], *args: Any, tolerance: float = 0.0) -> Conventions:
    """Report which operations of a function are at a kink, and which conventions apply there.

    At a kink, a tie or the edge of a domain a function has no derivative, and funcgrad returns a
    conventional value (a subgradient, a limit). This report tells where that happened at a point:
    use it if a gradient is 0, infinite or shared in a way that surprises you.

    Parameters
    ----------
    f : callable
        A function of pytrees. It runs once, operation by operation, also inside jitted functions,
        loops and branches.
    *args : pytrees
        The point.
    tolerance : float
        Operations up to this distance from a kink are listed.

    Returns
    -------
    Conventions
        A sequence of ``Convention``, printed as a list. Each entry has the line of an operation,
        the kind of place, the derivative, its convention, and the slopes on both sides.

    Raises
    ------
    ArgumentError
        ``tolerance`` is negative.

    Notes
    -----
    Values that only select, such as the result of a comparison, count as constants: operations on
    such values are not listed.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x):
    ...     return fnp.sqrt(x[0]) + fnp.max(x) + fnp.floor(x[1])
    >>> conventions(f, fg.tensor([0.0, 1.0, 1.0]))  # doctest: +ELLIPSIS
    conventions of f: 3 operations are at a kink, a tie or an edge
      sqrt at <...>:2, the end of its domain: the derivative is inf, the limit from inside; ...
      max at <...>:2, a kink: the derivative is 0.5, shared among equal elements; ...
      floor at <...>:2, a jump: the derivative is 0, the slope on both sides; the slopes are 0 and 0
    """
    check_function("conventions", f)
    width = real_number(tolerance, "conventions", "tolerance")
    if not width >= 0:
        raise ArgumentError(f"conventions: tolerance has to be at least 0, got {tolerance!r}.")
    with quiet():
        run = kinks_met(f, args)
        if run.error is not None:
            raise run.error
        listed = [convention for met in run.met for convention in _of_operation(met, width)]
    counts = Counter(listed)
    title = getattr(f, "__name__", type(f).__name__)
    title = "the function" if title == "<lambda>" else title
    return Conventions(title, tuple(counts), tuple(counts.values()))


def _of_operation(met: KinkMet, width: float) -> Iterator[Convention]:
    """Yield the conventions of an operation at the values that it got."""
    args = [np.asarray(_raw(x)) for x in met.args]
    for number, value in enumerate((*met.zeros, *met.domain)):
        is_end = number >= len(met.zeros)
        numbers: Any = np.asarray(_raw(value))
        near = (numbers if is_end else abs(numbers)) <= width
        if not near.any():
            continue
        if met.operation.batch is batch_elementwise:
            places = np.argwhere(near)[:_MOST_ELEMENTS]
            shape = np.broadcast_shapes(*[x.shape for x in args])
            if near.shape != shape:
                near = np.broadcast_to(near, shape)
                places = np.argwhere(near)[:_MOST_ELEMENTS]
            whole = [np.broadcast_to(x, shape) for x in args]
            points = [[x[tuple(place)] for x in whole] for place in places]
        else:
            points = [list(args)]
        least = float(numbers[near if near.shape == numbers.shape else ...].real.min())
        for point in points:
            yield from _at(met, point, is_end, least if is_end else 0.0)


def _raw(x: Value) -> Any:
    return np.asarray(wrap(x))


def _at(met: KinkMet, point: Sequence[Any], is_end: bool, depth: float) -> Iterator[Convention]:
    for k in met.followed:
        if is_inexact(np.asarray(point[k]).dtype) and np.size(point[k]):
            sides = _steepest(met, point, k)
            if sides is None:
                continue
            derivative, left, right, kind = sides
            place, rule = _rule(met.operation, sides, is_end, depth)
            alike = kind == place == KINK and _close(left, right) and _close(left, derivative)
            if not alike or len(met.followed) == 1:
                yield Convention(
                    met.operation.name, met.line, place, rule, k, derivative, left, right
                )


Sides: TypeAlias = tuple[float, float, float, str]
"""The derivative, the left and the right slope, and the kind of place."""


def _steepest(met: KinkMet, point: Sequence[Any], k: int) -> Sides | None:
    """Return the slopes with respect to the element of an argument in which they differ most."""
    best: tuple[float, Sides] | None = None
    x = np.asarray(point[k])
    for number in range(min(x.size, _MOST_COORDINATES)):
        unit = np.zeros(x.shape, x.dtype)
        unit.reshape(-1)[number] = 1
        try:
            sides = _slopes(met, point, k, unit)
        except Exception:  # an operation may refuse a side, or a missing derivative
            continue
        if sides is not None and (best is None or sides[0] > best[0]):
            best = sides
    return None if best is None else best[1]


def _slopes(met: KinkMet, point: Sequence[Any], k: int, unit: Array) -> tuple[float, Sides] | None:
    def at(step: float) -> Array:
        moved = list(point)
        moved[k] = np.asarray(point[k]) + step * unit
        return _flat(met.operation.evaluate(*moved, **met.params))

    def slope(step: float) -> Array:
        return (at(step) - here) / step

    here = at(0.0)
    if not here.size:
        return None
    left, right = slope(-_STEP), slope(_STEP)
    far_left, far_right = slope(-100 * _STEP), slope(100 * _STEP)
    gap = abs(at(_STEP) - at(-_STEP))
    jumps = (gap > 1e-3) & (gap > 0.5 * abs(at(10 * _STEP) - at(-10 * _STEP)))
    discrete = met.operation.differential is DISCRETE
    left, right = _grown(left, far_left), _grown(right, far_right)
    derivative = _derivative(met, point, k, unit, here)
    unlike = np.where(jumps, gap * 1e9, abs(right - left))
    unlike = np.where(np.isfinite(unlike), unlike, 1e18)
    j = int(np.argmax(unlike))
    if jumps[j] or discrete or not np.isfinite(here[j]):  # take the slopes beside it
        left, right = (at(-_STEP) - at(-2 * _STEP)) / _STEP, (at(2 * _STEP) - at(_STEP)) / _STEP
    kind = POLE if not np.isfinite(here[j]) else JUMP if jumps[j] or discrete else KINK
    sides = (_tidy(derivative[j]), _tidy(left[j]), _tidy(right[j]), kind)
    return float(unlike[j]), sides


def _derivative(met: KinkMet, point: Sequence[Any], k: int, unit: Array, here: Array) -> Array:
    if met.operation.differential is DISCRETE:
        return np.zeros(here.shape)

    def f(x: Value) -> Any:
        args = list(point)
        args[k] = x
        outs: Any = apply(met.operation, *args, **met.params)
        return [wrap(out) for out in outs] if isinstance(outs, tuple) else outs

    return _flat(tuple(jvp(lambda x: _listed(f(x)), (point[k],), (unit,))[1]))


def _listed(outs: Value) -> list[Any]:
    return list(outs) if isinstance(outs, (list, tuple)) else [outs]


def _flat(outs: Value) -> Array:
    arrays: list[Any] = [
        np.asarray(x).ravel() for x in (outs if isinstance(outs, tuple) else (outs,))
    ]
    parts = [y for x in arrays for y in ((x.real, x.imag) if x.dtype.kind == "c" else (x,))]
    return np.concatenate(parts).astype(np.float64)


def _grown(slope: Array, farther: Array) -> Array:
    """Return infinity for a slope that grows without bound."""
    steep = (abs(slope) > 5 * abs(farther)) & (abs(slope) > 100)
    return np.where(steep, np.copysign(np.inf, slope), slope)


def _tidy(x: float) -> float:
    """Remove the rounding errors of differences from a number."""
    near = float(np.round(x, 4)) if np.isfinite(x) else float(x)
    return near + 0.0 if abs(x - near) < 1e-4 else float(x)


def _close(x: float, y: float) -> bool:
    return bool(np.isclose(x, y, 1e-3, 1e-3))


def _rule(operation: Primitive, sides: Sides, is_end: bool, depth: float) -> tuple[str, str]:
    """Return the kind of place and the convention, in the order of the principles."""
    derivative, left, right, kind = sides
    if is_end:
        return (OUTSIDE, "following the value") if depth < 0 else (END, "the limit from inside")
    if kind == POLE:
        return POLE, "where the value is infinite"
    if kind == JUMP:
        both = _close(derivative, left) and _close(derivative, right)
        return JUMP, "the slope on both sides" if both else "the slope on one side"
    if not (np.isfinite(left) and np.isfinite(right)):
        return KINK, "the limit" if derivative in (left, right) else "where slopes are infinite"
    return KINK, _rule_at_kink(operation, derivative, left, right)


def _rule_at_kink(operation: Primitive, derivative: float, left: float, right: float) -> str:
    if _close(left, right) and _close(derivative, left):
        return "the limit, where the slope has a kink"
    if operation.form == "carried":
        return "with equal elements ordered by position"
    if derivative == 0 and min(left, right) <= 0 <= max(left, right):
        return "the subgradient of least norm"
    if _is_share(derivative, left, right):
        return "shared among equal elements"
    for side, slope in (("left", left), ("right", right)):
        if _close(derivative, slope):
            return f"the slope to the {side}"
    inside = min(left, right) <= derivative <= max(left, right)
    return "between both slopes" if inside else "outside of both slopes"


def _is_share(derivative: float, left: float, right: float) -> bool:
    """Whether a derivative divides the interval between two slopes at 1/2, 1/3, …"""
    low, high = min(left, right), max(left, right)
    if not low < derivative < high:
        return False
    count = (high - low) / (derivative - low)
    return abs(count - round(count)) < 1e-3 * count

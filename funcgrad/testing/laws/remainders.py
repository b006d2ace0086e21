"""``taylor``: the Taylor remainder test of derivatives, without a step and a tolerance.

Along a direction v the remainder f(x + hv) − f(x) − h f′ falls like h² as h → 0 if the derivative
is right, and like h if it is wrong; with the second derivative it falls like h³ or h². h = 2⁻ᵏ
decreases until the remainder drowns in rounding, and the last halvings before that decide,
separately for each result. (PDE solvers test adjoints this way: Farrell, Ham, Funke, Rognes,
"Automated derivation of the adjoint of high-level transient finite element programs", SIAM Journal
on Scientific Computing 35, 2013.)

The rounding errors of the function's values and derivatives are measured (``numerical.noise``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import ArgumentError
from funcgrad.testing.laws.derivative_laws import jvp_of, vjp_of
from funcgrad.testing.laws.trials import LawAtPoint, arrays, tensors, trial_of
from funcgrad.testing.numerical import inner, precision_of
from funcgrad.testing.report import note, number, row
from funcgrad.testing.subject import Array

_HALVINGS: Final = 64
_WINDOW: Final = 4
"""The number of halvings that decide; the transition to rounding takes one or two."""
_SLACK: Final = 0.3
_ABOVE: Final = 16.0
"""A remainder is visible if it is this many times as large as rounding may be."""
_CLOSE: Final = 3
_ASYMMETRY: Final = 0.5


def taylor(f: Callable[..., Any], args: Sequence[Any], *, order: int = 2, seed: int = 0) -> None:
    """Check derivatives by the rate of the Taylor remainder: h², with the Hessian h³.

    It needs neither a step nor a tolerance, so functions and points may have any scale. Prefer it
    to ``grad_is_numerical`` at smooth points.

    Parameters
    ----------
    f, args, seed
        See ``modes_agree``. The function has to be smooth at the point: no kink, jump or edge of
        the domain.
    order : int
        1 checks first derivatives. 2 also checks second derivatives, by forward over forward and
        forward over reverse mode.

    Raises
    ------
    CheckError
        The rate shows a wrong derivative; the message has the mode and the order. Or the point is
        at a kink or a jump; use ``subgradient`` there.
    ArgumentError
        ``order`` is neither 1 nor 2.

    Notes
    -----
    Forward mode is judged in each element of the results, reverse mode by ⟨w, f⟩. The test detects
    relative errors above about the square root of the machine epsilon: 1e-7 in float64, 1e-3 in
    float32. If four halvings in a row are not visible, the element passes without a verdict.

    Examples
    --------
    >>> import funcgrad as fg
    >>> taylor(lambda x: fg.numpy.sin(1e80 * x), (1e-80,))
    >>> halved = fg.custom_jvp(lambda x: x * x)
    >>> _ = halved.defjvp(lambda primals, tangents: (halved(*primals), primals[0] * tangents[0]))
    >>> taylor(halved, (1.25,))
    Traceback (most recent call last):
        ...
    funcgrad.errors.CheckError: laws.taylor: forward mode is wrong for the function (order 1): ...
    """
    try:
        highest = index(order)
    except TypeError:
        highest = 0
    if highest not in (1, 2):
        raise ArgumentError(f"laws.taylor: order has to be 1 or 2, got {order!r}.")
    trial = trial_of("laws.taylor", f, args, seed)
    with quiet():
        for k, direction in enumerate(_directions(trial, highest)):
            line = _line(trial, direction, highest)
            _judge(line)
            if k == 0:  # a kink may show on one side only
                back = [-v for v in direction]
                _judge(replace(line, direction=back, first=-line.first))


def _directions(trial: LawAtPoint, order: int) -> list[list[Array]]:
    """Draw steps of the size of each element, and of size 1 for smaller elements.

    A complex element moves along several directions: two of them show every mistake in the real or
    imaginary part, and three of them every mistake in their squares and product.
    """
    signs = [_draw(trial.rng, x) for x in trial.point]
    several = [signs]
    if any(x.dtype.kind == "c" for x in trial.point):
        several.append([u.conj() for u in signs])
        if order > 1:
            several.append([1j * u if u.dtype.kind == "c" else u for u in signs])
    relative = [_scaled(trial, u, 0) for u in several]
    absolute = [_scaled(trial, u, 1) for u in several]
    pairs = zip(relative[0], absolute[0], strict=True)
    return relative if all(np.array_equal(a, b) for a, b in pairs) else relative + absolute


def _draw(rng: np.random.Generator, x: Array) -> Array:
    """Draw values of four bits, so that points x + hv are hardly rounded.

    Any eight in a row differ in magnitude, and so do the parts of a complex element: opposite
    mistakes in two elements do not cancel.
    """
    count = x.size * (2 if x.dtype.kind == "c" else 1)
    eights = np.tile(np.arange(8, 16) / 16, (-(-count // 8), 1))
    sizes: Array = rng.permuted(eights, axis=1).ravel()[:count] * rng.choice([-1, 1], count)
    return (sizes.view(complex) if x.dtype.kind == "c" else sizes).reshape(x.shape)


def _scaled(trial: LawAtPoint, signs: Sequence[Array], least: float) -> list[Array]:
    """Multiply a step by the magnitudes of the elements that it moves."""
    pairs = zip(signs, trial.point, strict=True)
    return [np.asarray(u * np.maximum(_power_of_two(x), least)).astype(x.dtype) for u, x in pairs]


def _power_of_two(x: Array) -> Any:
    """Return the magnitudes of elements; a zero counts as the largest other element, or as 1."""
    size = abs(x).astype(float)
    largest = float(np.max(size, initial=0.0, where=np.isfinite(size)))
    return 2.0 ** (np.frexp(np.where(size > 0, size, largest or 1.0))[1])


@dataclass(frozen=True, slots=True)
class _Line:
    """A function along a direction: each result, and ⟨w, f⟩ as the last element.

    Attributes
    ----------
    trial : LawAtPoint
    direction, cts : list of ndarray
    start, first, second : ndarray
        The value and the derivatives along the direction; ``second`` is None for order 1.
    rounding : ndarray
        The rounding errors of the values.
    eps : float
    """

    trial: LawAtPoint
    direction: list[Array]
    cts: list[Array]
    start: Array
    first: Array
    second: Array | None
    rounding: Array
    eps: float

    def at(self, h: float) -> Array:
        """Return the values at a distance."""
        return _values(self.trial, self.trial.point, self.direction, h, self.cts)


def _line(trial: LawAtPoint, direction: list[Array], order: int) -> _Line:
    eps, point = precision_of(trial.subject), trial.point
    cts = trial.cotangents(jvp_of(trial, point, direction))
    start = _values(trial, point, direction, 0.0, cts)
    first = _first(trial, point, direction, cts)
    second = _second(trial, point, direction, cts) if order == 2 else None
    rounding = _scatter(trial, lambda x: _values(trial, x, direction, 0.0, cts), start)
    return _Line(trial, direction, cts, start, first, second, rounding, eps)


def _values(
    trial: LawAtPoint,
    point: Sequence[Array],
    direction: Sequence[Array],
    h: float,
    cts: Sequence[Array],
) -> Array:
    moved = [
        np.asarray(x + (h * v).astype(x.dtype)) if h else x
        for x, v in zip(point, direction, strict=True)
    ]
    outs = trial.values_beside(moved) if h else trial.subject.values_at(moved)
    return np.array([*_flat(outs), sum([inner(ct, y) for ct, y in zip(cts, outs, strict=True)])])


def _flat(outs: Sequence[Array]) -> list[float]:
    """List the elements of all results; a complex element counts as two."""
    return [
        number
        for out in outs
        for number in np.ravel(out)
        .astype(np.complex128 if out.dtype.kind == "c" else np.float64)
        .view(np.float64)
        .tolist()
    ]


def _first(
    trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array], cts: Sequence[Array]
) -> Array:
    pulled = vjp_of(trial, point, cts)
    by_reverse = sum([inner(g, v) for g, v in zip(pulled, direction, strict=True)])
    return np.array([*_flat(jvp_of(trial, point, direction)), by_reverse])


def _second(
    trial: LawAtPoint, point: Sequence[Array], direction: Sequence[Array], cts: Sequence[Array]
) -> Array:
    f, along = trial.subject.function, tensors(direction)
    x = tuple(tensors(point))
    pushed = jvp(lambda *x: jvp(f, x, along)[1], x, along)[1]
    rows = arrays(jvp(lambda *x: vjp(f, *x)[1](tensors(cts)), x, along)[1])
    by_reverse = sum([inner(h, v) for h, v in zip(rows, direction, strict=True)])
    return np.array([*_flat(arrays(pushed)), by_reverse])


def _scatter(trial: LawAtPoint, compute: Callable[[Sequence[Any]], Array], plain: Array) -> Array:
    """Measure the rounding errors of values."""
    scatter = np.zeros(plain.shape)
    for moved in trial.repeated(compute):
        change = abs(moved - plain)
        scatter = np.fmax(scatter, np.where(np.isfinite(change), change, 0.0))
    return scatter


@dataclass(frozen=True, slots=True)
class _Remainders:
    """Remainders and the bounds of their rounding, with a row for each h."""

    steps: Array
    values: Array
    floors: Array
    first: Array
    second: Array | None

    def of_order(self, order: int) -> Array:
        """Return the remainders after the first or the second derivative."""
        return self.first if order == 1 or self.second is None else self.second


def _remainders(line: _Line, blur: Sequence[Array]) -> _Remainders:
    """Halve h until all remainders drown in rounding."""
    rows: list[tuple[float, Array, Array, Array, Array]] = []
    drowned = np.zeros(line.start.shape, int)
    tiny = 64 * max([float(np.finfo(x.dtype).smallest_subnormal) for x in line.trial.point])
    second = np.zeros(line.start.shape) if line.second is None else line.second
    for k in range(_HALVINGS):
        h = 2.0**-k
        values = line.at(h)
        size = abs(values) + abs(line.start)
        pairs = zip(line.cts, line.trial.subject.values, strict=True)
        size[-1] += sum([float((abs(ct) * abs(y)).sum()) for ct, y in pairs])
        floor = 4 * line.eps * size + 4 * line.rounding + tiny
        floor += h * (8 * line.eps * abs(line.first) + blur[0])
        floor += h * h * (8 * line.eps * abs(second) + blur[1])
        first = values - line.start - h * line.first
        last = first - h * h / 2 * second
        rows.append((h, values, floor, first, last))
        is_low = abs(first) <= _ABOVE * floor
        drowned = np.where(is_low, drowned + 1, 0)
        if np.all((drowned >= _CLOSE) | ~np.isfinite(line.start)):
            break
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    steps, values, floors, first, last = columns
    return _Remainders(steps, values, floors, first, None if line.second is None else last)


def _judge(line: _Line) -> None:
    """Raise an error if a remainder falls too slowly."""
    for place in np.flatnonzero(np.isfinite(line.start) & ~np.isfinite(line.first)):
        derivative = number(float(line.first[place]))
        rows = [row("place", _name(line, int(place))), row("derivative", derivative)]
        title = line.trial.subject.title
        raise line.trial.fail(f"the derivative of {title} is not finite at the point.", rows)
    nothing = np.zeros(line.start.shape)
    remainders = _remainders(line, (nothing, nothing))
    if not any(_slow(line, remainders, order) for order in _orders(line)):
        note(max([_suspicion(remainders, order) for order in _orders(line)]))
        return
    # Derivatives have rounding errors, too; with cancellation larger ones than values.
    remainders = _remainders(line, _blur(line))
    for order in _orders(line):
        slow = _slow(line, remainders, order)
        if slow:
            note(1 / _SLACK)
            raise _error(line, remainders, order, *slow[0])


def _orders(line: _Line) -> tuple[int, ...]:
    return (1,) if line.second is None else (1, 2)


def _blur(line: _Line) -> tuple[Array, Array]:
    """Measure the rounding errors of the derivatives."""
    trial, along, cts = line.trial, line.direction, line.cts
    first = _scatter(trial, lambda x: _first(trial, x, along, cts), line.first)
    if line.second is None:
        return 4 * first, np.zeros(first.shape)
    return 4 * first, 4 * _scatter(trial, lambda x: _second(trial, x, along, cts), line.second)


def _window(remainders: _Remainders, order: int, place: int) -> int | None:
    """Return the last row in which an element is visible; the rows before it decide."""
    size = abs(remainders.of_order(order)[:, place])
    seen = np.isfinite(size) & (size > _ABOVE * remainders.floors[:, place])
    if not seen.any():
        return None
    last = int(np.flatnonzero(seen)[-1])
    return last if last >= _WINDOW and seen[last - _WINDOW : last + 1].all() else None


def _rates(remainders: _Remainders, order: int, place: int, last: int) -> Array:
    size = abs(remainders.of_order(order)[last - _WINDOW : last + 1, place])
    return np.asarray(np.log2(size[:-1] / size[1:]))


def _slow(line: _Line, remainders: _Remainders, order: int) -> list[tuple[int, int]]:
    """List the elements whose remainder falls too slowly, and their last rows."""
    slow = []
    for place in range(line.start.size):
        last = _window(remainders, order, place)
        if last is None or not np.isfinite(line.start[place]):
            continue
        largest = np.max(abs(remainders.values[last - _WINDOW :, place]))
        if line.rounding[place] > line.eps**0.25 * max(largest, abs(line.start[place])):
            continue  # too few digits are right
        rates = _rates(remainders, order, place, last)
        jumps = order == 1 and _jumps(remainders, place)
        wrong = [
            k
            for k in range(1, order + 1)
            if np.all(abs(rates - k) < _SLACK) and _lasts(remainders, order, place, last, k)
        ]
        if jumps or wrong:
            slow.append((place, last))
    return slow


def _lasts(remainders: _Remainders, order: int, place: int, last: int, rate: int) -> bool:
    """Whether a remainder fades into rounding; beside a kink it vanishes at once."""
    following = remainders.of_order(order)[last + 1 : last + 2, place]
    expected = abs(remainders.of_order(order)[last, place]) / 2.0**rate
    return not np.any(abs(following) < expected / 4)


def _jumps(remainders: _Remainders, place: int) -> bool:
    """Whether the values jump: they differ from the first value by an amount that does not fall."""
    change = remainders.first[-_WINDOW - 1 :, place]
    if len(change) <= _WINDOW or not np.all(np.isfinite(change)) or np.any(change == 0):
        return False
    seen = np.all(abs(change) > 1e3 * remainders.floors[-_WINDOW - 1 :, place])
    return bool(seen and np.all(abs(change / change[-1] - 1) < 1e-3))


def _suspicion(remainders: _Remainders, order: int) -> float:
    """Return how far the slowest remainder is between the right rate and the wrong rate."""
    worst = 0.0
    for place in range(remainders.values.shape[1]):
        last = _window(remainders, order, place)
        if last is not None:
            rate = float(np.mean(_rates(remainders, order, place, last)))
            worst = max(worst, order + 1 - rate)
    return min(worst, 0.99)


def _error(line: _Line, remainders: _Remainders, order: int, place: int, last: int) -> Exception:
    trial, name = line.trial, _name(line, place)
    h = float(remainders.steps[last])
    mirrored = line.at(-h)[place] - line.start[place] + h * line.first[place]
    if order == 2 and line.second is not None:
        mirrored -= h * h / 2 * line.second[place]
    remainder = remainders.of_order(order)[last, place]
    rate = float(np.mean(_rates(remainders, order, place, last)))
    at_fault = 1 if order == 1 or rate < 1.5 else 2
    expected = -remainder if at_fault == 1 else remainder
    if not abs(mirrored - expected) <= _ASYMMETRY * abs(remainder):
        return _kink(line, remainders, place, name, h, last)
    derivative = line.first if at_fault == 1 or line.second is None else line.second
    analytic = derivative[place]
    truth = analytic + (remainder / h if at_fault == 1 else 2 * remainder / h**2)
    mode = ("forward mode", "reverse mode")[name.startswith("⟨")]
    if at_fault == 2:
        mode = f"forward mode over {mode}"
    rows = [
        row("place", name),
        row("analytic", f"{number(float(analytic))}, derivative along the direction"),
        row("by values", number(float(truth))),
    ]
    for k in range(last - _WINDOW, last + 1):
        h = float(remainders.steps[k])
        rows.append(row(f"h = {h:.2g}", f"{remainders.of_order(order)[k, place]:.3g} remains"))
    sentence = (
        f"{mode} is wrong for {trial.subject.title} (order {at_fault}): the remainder falls like"
        f" h^{rate:.2f}, not like h^{at_fault + 1}."
    )
    return trial.fail(sentence, rows)


def _kink(
    line: _Line, remainders: _Remainders, place: int, name: str, h: float, last: int
) -> Exception:
    left = (line.start[place] - line.at(-h)[place]) / h
    right = (remainders.values[last, place] - line.start[place]) / h
    rows = [
        row("place", name),
        row("one-sided", f"{number(float(left))} and {number(float(right))}, at h = {h:.2g}"),
        "Choose another point, or check it by laws.subgradient.",
    ]
    sentence = (
        f"the point is at a kink, a jump or an edge of the domain of {line.trial.subject.title},"
        " where Taylor's series says nothing."
    )
    return line.trial.fail(sentence, rows)


def _name(line: _Line, place: int) -> str:
    """Return the path of an element."""
    for name, value in zip(line.trial.subject.result_names, line.trial.subject.values, strict=True):
        count = value.size * (2 if value.dtype.kind == "c" else 1)
        if place < count:
            where = np.unravel_index(place * value.size // count, value.shape)
            return name + (f"[{', '.join(map(str, map(int, where)))}]" if where else "")
        place -= count
    return "⟨w, f⟩, with random cotangents w"

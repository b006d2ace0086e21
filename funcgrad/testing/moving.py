"""Move the arguments of a function away from the kinks of its operations.

The distances from kinks are functions of the arguments. Distances that are too small become goals,
and the arguments take the shortest step that reaches the goals to first order (Gauss-Newton). If
that fails, another start is tried.

A run of a function at a point has its distances from kinks, and their derivatives, as arrays:

>>> import numpy as np
>>> from funcgrad.debug.kinks_met import kinks_met
>>> point = [np.array([1.0, 2.0])]
>>> visit = PointRun(point, kinks_met(lambda x: abs(3 * x - 4), point))
>>> visit.values, visit.push([np.ones(2)]), visit.pull(1)
(array([-1.,  2.]), array([3., 3.]), [array([0., 3.])])

If a distance is complex, its absolute value counts:

>>> visit = PointRun([], kinks_met(lambda z: 1 / z, [3 + 4j]))
>>> visit.values, visit.push([1.0]), visit.pull(0)
(array([5.]), array([0.6]), [np.complex128(0.6+0.8j)])
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.trace import Value
from funcgrad._hooks.key_uses import repetition
from funcgrad._transforms.masked import fit_cotangent
from funcgrad.debug.kinks_met import KinksMet, kinks_met
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import wrap

Array: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = list[Array]
Name: TypeAlias = tuple[Hashable, int]
"""The site of an operation, and the index of an element among its distances."""


class PointRun:
    """A run at a point, with the distances of all operations in one array.

    Parameters
    ----------
    point : list of arrays
    run : KinksMet

    Attributes
    ----------
    values : array
        The distances of all operations, in the order of the run. The sign of a distance from a kink
        tells on which side the value lies; for complex values it is positive. A distance from the
        end of a domain is negative outside the domain.
    parts : array of int
        The start of each value of the run in ``values``.
    owners : array of int
        The operation of the run to which each distance belongs.
    is_end, has_sides : array of bool
        Whether a distance is from the end of a domain, and whether from a kink with two sides.
    """

    def __init__(self, point: Point, run: KinksMet) -> None:
        """Lay out the distances of the run."""
        self.point = point
        self.run = run
        self._arrays = [np.asarray(x) for met in run.met for x in (*met.zeros, *met.domain)]
        self._variables = [variable for met in run.met for variable in met.variables]
        sizes = [x.size for x in self._arrays]
        elements = _row(self._arrays)
        is_complex = np.repeat([x.dtype.kind == "c" for x in self._arrays], sizes).astype(bool)
        is_end = [k >= len(met.zeros) for met in run.met for k in range(len(met.variables))]
        owners = [k for k, met in enumerate(run.met) for _ in met.variables]
        self.parts = np.cumsum([0, *sizes])
        self.owners = np.repeat(owners, sizes).astype(int)
        self.is_end = np.repeat(is_end, sizes).astype(bool)
        self.has_sides = ~(self.is_end | is_complex)
        self.values = np.where(is_complex, abs(elements), elements.real)
        self._directions = np.where(is_complex, np.sign(elements), 1)

    @cached_property
    def sites(self) -> list[Hashable]:
        """The operation, the user's line, and a count of its runs there, for all operations."""
        turns: Counter[Hashable] = Counter()
        sites: list[Hashable] = []
        for met in self.run.met:
            place = (met.operation.name, met.line)
            turns[place] += 1
            sites.append((*place, turns[place]))
        return sites

    def name(self, place: int) -> Name:
        """Return a name of a distance that is valid in other runs."""
        owner = self.owners[place]
        return self.sites[owner], place - int(np.searchsorted(self.owners, owner))

    def find(self, name: Name) -> int | None:
        """Return the index of the distance with a name; None without one."""
        site, number = name
        if site not in self.sites:
            return None
        owner = self.sites.index(site)
        first, end = np.searchsorted(self.owners, (owner, owner + 1))
        return int(first) + number if first + number < end else None

    def push(self, tangents: Sequence[Array]) -> Array:
        """Return the derivatives of all distances along a direction of the moving arguments."""
        with quiet():
            pushed = self.run.record.push(self._variables, tangents)
            pairs = zip(pushed, self._arrays, strict=True)
            slopes = _row([np.zeros(x.shape) if t is None else np.asarray(t) for t, x in pairs])
            return np.real(self._directions.conj() * slopes)

    def pull(self, place: int) -> list[Value]:
        """Return the derivatives of a distance in the moving arguments; None is zero."""
        array = int(np.searchsorted(self.parts, place, side="right")) - 1
        value = self._arrays[array]
        ct = np.zeros(value.size, value.dtype)
        direction = self._directions[place]
        ct[place - self.parts[array]] = direction if value.dtype.kind == "c" else 1
        with quiet():
            return self.run.record.pull([self._variables[array]], [ct.reshape(value.shape)[()]])


def _row(arrays: Sequence[Array]) -> Array:
    """Return the elements of arrays, in double precision."""
    return np.concatenate([np.zeros(0), *[x.ravel() for x in arrays]])


_STEPS: Final = 40
_ROWS: Final = 24
"""The number of (smallest) distances that one step enlarges."""

_CLEARANCE: Final = 10.0
"""The preferred distance in margins; with it, differences have more digits."""

_FLAT: Final = 1e-12
"""A distance with a smaller slope counts as independent of the arguments."""

_LIMITS: Final = (np.inf, 0.1)
"""The distances up to which operations are kept away by more than the margin, in turn."""

_SPREADS: Final = (0.0, 0.1, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 0.02)
"""The distances of the starts from the user's arguments, which come first."""


@dataclass(frozen=True, slots=True)
class Near:
    """A distance that is too small.

    Attributes
    ----------
    place : int
        Its index among the distances of a visit.
    value : float
    goal : float
        The goal, on the same side of the kink.
    """

    place: int
    value: float
    goal: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a walk, with the distances that are still too small."""

    visit: PointRun
    near: list[Near]

    def share(self) -> float:
        """Return the fraction of its goal that the smallest distance has reached."""
        return abs(self.near[0].value / self.near[0].goal) if self.near else 1.0

    def is_good(self) -> bool:
        """Whether the function has finite results there."""
        return self.visit.run.error is None and _is_finite(self.visit.run)

    def alive(self) -> set[Hashable]:
        """Return the operations with a distance that is large enough."""
        is_far = np.ones(self.visit.values.size, bool)
        is_far[[short.place for short in self.near]] = False
        return {self.visit.sites[owner] for owner in np.unique(self.visit.owners[is_far])}

    def still(self) -> set[Hashable]:
        """Return the operations with a distance that is too small."""
        return {self.visit.name(short.place)[0] for short in self.near}


@dataclass(frozen=True, slots=True)
class Mover:
    """A function with the arguments at which the search starts.

    Attributes
    ----------
    operation : str
        For messages.
    function : callable
    leaves : tuple
        The leaves of the arguments.
    structure : Structure
    movable : tuple of int
        The positions of the real and complex leaves, which move.
    margin : float
    """

    operation: str
    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    structure: pytrees.Structure
    movable: tuple[int, ...]
    margin: float

    def start(self) -> Point:
        """Return the elements that move, as real arrays in double precision."""
        return [_reals(np.asarray(self.leaves[k])) for k in self.movable]

    def numbers(self, point: Point) -> list[Array]:
        """Return the elements that move, in the user's dtypes."""
        dtypes = [np.asarray(self.leaves[k]).dtype for k in self.movable]
        wholes = [
            x[..., 0] + 1j * x[..., 1] if dtype.kind == "c" else x
            for x, dtype in zip(point, dtypes, strict=True)
        ]
        return [np.asarray(x, dtype) for x, dtype in zip(wholes, dtypes, strict=True)]

    def arguments(self, point: Point) -> tuple[Any, ...]:
        """Put moved elements into the arguments."""
        leaves = list(self.leaves)
        for k, numbers in zip(self.movable, self.numbers(point), strict=True):
            leaves[k] = numbers
        return pytrees.unflatten(self.structure, leaves)

    def returned(self, point: Point) -> tuple[Any, ...]:
        """Put moved elements into the arguments, as tensors, arrays or numbers, as the user gave
        them.
        """
        moved = pytrees.flatten(self.arguments(point))[0]
        leaves = [_of_kind(*pair) for pair in zip(moved, self.leaves, strict=True)]
        return pytrees.unflatten(self.structure, leaves)

    def visit(self, point: Point) -> PointRun:
        """Run the function, and record its distances from kinks."""
        with repetition(), quiet():
            return PointRun(point, kinks_met(self.function, self.arguments(point)))

    # ------------------------------------------------------------------------------- distances

    def near(self, visit: PointRun, limit: float = 0.0) -> list[Near]:
        """Return the distances that are below their goals, the smallest first.

        Up to a limit, a goal grows with the slope of the distance.
        """
        wanted = self._margins(visit, limit) if limit else np.full(visit.values.shape, self.margin)
        size = np.where(visit.is_end, visit.values, abs(visit.values))
        places = np.flatnonzero(size < wanted)
        values = visit.values[places]
        goals = np.where((values < 0) & ~visit.is_end[places], -1.0, 1.0) * wanted[places]
        order = np.argsort(abs(values / goals), kind="stable")
        return [Near(int(places[k]), float(values[k]), float(goals[k])) for k in order]

    def _margins(self, visit: PointRun, limit: float) -> Array:
        """Return the margins of the operations times their slopes: margins in the arguments."""
        margins = np.full(visit.values.shape, self.margin)
        width = _CLEARANCE * max(self.margin, self._steps())
        rng = np.random.default_rng(0)
        along = [
            [rng.choice((-1.0, 1.0), x.shape) * np.maximum(abs(x), 1) for x in visit.point]
            for _ in range(2)
        ]
        try:
            slopes = [abs(visit.push(self.numbers(tangents))) for tangents in along]
        except Exception:  # without a derivative, take the plain margins
            return margins
        steepest = np.maximum(*np.nan_to_num(slopes, posinf=0.0))
        return np.maximum(margins, np.minimum(width * steepest, limit))

    def _steps(self) -> float:
        """Return half a step of numerical derivatives, which is large in single precision."""
        dtypes = [np.asarray(self.leaves[k]).dtype for k in self.movable]
        coarsest = max(float(np.finfo(dtype).eps) for dtype in dtypes)
        return 0.5 * float(np.cbrt(coarsest))

    def jacobian(self, visit: PointRun, near: Sequence[Near]) -> Array:
        """Return the derivatives of distances with respect to all elements, a row for each
        distance.
        """
        leaves, rows = self.numbers(visit.point), []
        for short in near:
            pairs = zip(visit.pull(short.place), leaves, strict=True)
            pulled = [fit_cotangent(ct, x) for ct, x in pairs]
            rows.append(np.concatenate([_reals(np.asarray(x)).ravel() for x in pulled]))
        return np.array(rows)

    # ---------------------------------------------------------------------------------- walks

    def starts(self, seed: int) -> Iterator[Point]:
        """Yield the starts: the arguments, then points farther and farther away."""
        for number, spread in enumerate(_SPREADS):
            rng = np.random.default_rng((seed, number))
            yield [
                x + spread * np.maximum(abs(x), 1) * rng.normal(size=x.shape) if spread else x
                for x in self.start()
            ]

    def walk(self, start: Point) -> Stop:
        """Step until all distances are large enough, or no step changes a distance."""
        visit = self.visit(start)
        for limit in _LIMITS:
            stop, best = self._walk(visit, limit)
            if not stop.near or best is None:
                return stop
            visit = best.visit
        return Stop(visit, [])

    def _walk(self, visit: PointRun, limit: float) -> tuple[Stop, Stop | None]:
        """Walk under a limit; return also the best point at which all margins were kept."""
        best: Stop | None = None
        shakes = 0
        rng = np.random.default_rng(1)
        steps = _STEPS
        while True:
            steps -= 1
            stop = Stop(visit, self.near(visit))
            if not stop.near and visit.run.error is None:
                stop = Stop(visit, self.near(visit, limit))
                if best is not None and stop.share() <= best.share():  # it goes in circles
                    return stop, best
                best = stop
            if not stop.near or not steps:
                return stop, best
            moved = self.step(stop)
            if moved is None:
                if shakes == 2 or all(short.value for short in stop.near):
                    return stop, best
                shakes += 1  # leave a point without a slope, such as a norm at 0
                size = self.margin * 10.0 ** (shakes - 1)
                moved = [
                    x + size * np.maximum(abs(x), 1) * rng.normal(size=x.shape) for x in visit.point
                ]
            visit = self.visit(moved)

    def step(self, stop: Stop, longest: float = 0.5) -> Point | None:
        """Return the shortest relative step that reaches the goals to first order."""
        near = stop.near[:_ROWS]
        try:
            slopes = self.jacobian(stop.visit, near)
        except Exception:  # no direction without a derivative
            return None
        scale = np.concatenate([np.maximum(abs(x), 1).ravel() for x in stop.visit.point])
        slopes = slopes * scale
        size = abs(slopes).max(axis=1, initial=0)
        moves = (size > _FLAT) & np.isfinite(size)
        if not moves.any():
            return None
        lacking = np.array([1.5 * short.goal - short.value for short in near])
        step = np.linalg.lstsq(slopes[moves], lacking[moves], rcond=1e-8)[0]
        step = step * scale * min(1.0, longest / max(float(abs(step).max(initial=0)), 1e-300))
        return _plus(stop.visit.point, step)

    # --------------------------------------------------------------------------------- search

    def moved(
        self, seed: int, begin: Callable[[Mover, Point], Point] | None = None
    ) -> tuple[Any, ...]:
        """Search for arguments away from all kinks.

        Parameters
        ----------
        seed : int
        begin : callable, optional
            Moves a start before the search, as ``point_strategy._across`` does.

        Raises
        ------
        ArgumentError
            No such arguments were found.
        """
        stops: list[Stop] = []
        alive: set[Hashable] = set()
        for number, start in enumerate(self.starts(seed)):
            begun = start if begin is None else begin(self, start)
            stop = self.walk(begun)
            alive |= stop.alive()
            if not stop.near and stop.is_good():
                unmoved = number == 0 and all(map(operator.is_, stop.visit.point, start))
                # If a search starts close to a kink, rounding might cross it.
                is_exact = unmoved or begun is not start
                return self.returned(stop.visit.point if is_exact else self._simple(stop))
            stops.append(stop)
            if number >= 4:  # harmless if it is not at a kink elsewhere and does not change here
                for stopped in stops:
                    if self._is_harmless(stopped, alive):
                        return self.returned(stopped.visit.point)
        raise self._refused(stops)

    def _is_harmless(self, stop: Stop, alive: set[Hashable]) -> bool:
        """Whether a function has finite results, and its kinks do not affect them."""
        inside = all(short.value >= 0 or not stop.visit.is_end[short.place] for short in stop.near)
        return stop.is_good() and inside and stop.still() <= alive and self._is_still(stop)

    def _is_still(self, stop: Stop) -> bool:
        """Whether all distances that are too small are independent of the arguments."""
        if not stop.near:
            return True
        try:
            return bool(np.all(abs(self.jacobian(stop.visit, stop.near[:_ROWS])) <= _FLAT))
        except Exception:  # unknown without a derivative
            return False

    def _simple(self, stop: Stop) -> Point:
        """Round the point to two or three digits, if it stays away from kinks."""
        for digits in (2, 3):
            visit = self.visit([x.round(digits) for x in stop.visit.point])
            if Stop(visit, []).is_good() and not self.near(visit, 0.1):
                return visit.point
        return stop.visit.point

    def _refused(self, stops: Sequence[Stop]) -> Exception:
        """Return the error that names the operation that was at a kink at every point."""
        least = min(stops, key=lambda stop: (stop.visit.run.error is not None, len(stop.near)))
        if not least.near:
            if least.visit.run.error is not None:
                return least.visit.run.error
            return ArgumentError(
                f"{self.operation}: at every point that was tried a result of"
                f" {_name(self.function)} is NaN or infinite. Start from other arguments."
            )
        worst = least.near[0]
        encounter = least.visit.run.met[least.visit.owners[worst.place]]
        border = "the end of its domain" if least.visit.is_end[worst.place] else "a kink"
        name = encounter.operation.name
        place = f" at {encounter.line}" if encounter.line else ""
        return ArgumentError(
            f"{self.operation}: no point of {_name(self.function)} was found at which {name}{place}"
            f" is {self.margin:g} away from {border}: its distance was {abs(worst.value):.3g} at"
            " every point. It may be at a kink for all arguments, as abs(x - x) is, or the"
            " conditions may contradict each other. Change the function there, pass a smaller"
            " margin, or start from other arguments."
        )


def _name(f: Callable[..., Any]) -> str:
    name: str = getattr(f, "__name__", type(f).__name__)
    return "the function" if name == "<lambda>" else name


def _is_finite(run: KinksMet) -> bool:
    outs = [np.asarray(out) for out in run.outs or ()]
    return all(bool(np.isfinite(out).all()) for out in outs if out.dtype.kind in "fc")


def _reals(x: Array) -> Array:
    """Return real arrays in double precision; the parts of complex elements are on a last axis."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=-1).astype(np.float64)
    return x.astype(np.float64)


def _plus(point: Point, step: Array) -> Point:
    ends = np.cumsum([x.size for x in point])[:-1]
    pieces = np.split(step, ends)
    return [x + piece.reshape(x.shape) for x, piece in zip(point, pieces, strict=True)]


def _of_kind(value: object, like: object) -> Any:
    """Convert a leaf to the kind of another: a tensor, an array, or a Python number."""
    if isinstance(like, (bool, int)) or value is like:
        return like
    array = np.asarray(value)
    if isinstance(like, (float, complex)) and not isinstance(like, np.generic):
        return array.item()
    return array[()] if isinstance(like, (np.ndarray, np.generic)) else wrap(array)

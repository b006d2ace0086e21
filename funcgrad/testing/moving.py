"""Move the arguments of a function away from the kinks of its operations.

The distances from kinks are functions of the arguments. Those that are too small become goals, and
the arguments take the shortest step that reaches them to first order (Gauss and Newton); where that
leads nowhere, another start is tried.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError
from funcgrad.floating_errors import quiet
from funcgrad.key_uses import repetition
from funcgrad.quick_dataclasses import dataclass
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import Value
from funcgrad.transforms.encounters import Encounter, Encounters, encounters
from funcgrad.transforms.forward import jvp
from funcgrad.transforms.reverse import vjp

Array: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = list[Array]

_STEPS: Final = 40
_STEPS_FOR_SLOPES: Final = 10
_ROWS: Final = 24
"""How many distances, the smallest ones, one step enlarges."""

_CLEARANCE: Final = 10.0
"""How many margins points stay away where they can: differences then have more digits."""

_FLAT: Final = 1e-12
"""A distance with a lesser slope depends on no argument nearby."""

_LIMITS: Final = (np.inf, 0.1, 0.0)
"""Up to which distance operations are kept away by more than the margin, tried in turn."""

_SPREADS: Final = (0.0, 0.1, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 0.02)
"""How far starts are from the user's arguments, which come first."""


@dataclass(frozen=True, slots=True)
class Near:
    """A distance that is too small.

    Attributes
    ----------
    encounter, number, element : int
        The operation of the run, the value among its distances, and the place in that value.
    value : float
        The distance: of a kink with a sign for its sides, of the end of a domain negative outside.
    goal : float
        What it shall be, on the same side of a kink.
    """

    encounter: int
    number: int
    element: int
    value: float
    goal: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a walk ended, with the distances that are still too small."""

    point: Point
    run: Encounters
    near: list[Near]

    def sites(self) -> set[Hashable]:
        """The operations of the run with a distance that is large enough."""
        near = Counter((short.encounter, short.number) for short in self.near)
        sites = sites_of(self.run)
        return {
            sites[place]
            for place, met in enumerate(self.run.met)
            for which, value in enumerate(_distances_of(met))
            if np.size(value) > near[place, which]
        }

    def still(self) -> set[Hashable]:
        """The operations of the run with a distance that is not."""
        sites = sites_of(self.run)
        return {sites[short.encounter] for short in self.near}


def _distances_of(met: Encounter) -> tuple[Value, ...]:
    """All distances of an operation: from its kinks, then from the ends of its domain."""
    return (*met.zeros, *met.domain)


def _real_distance(x: Value) -> Value:
    """A distance as a real number: of a complex one the absolute value."""
    return abs(wrap(x)) if np.dtype(wrap(x).dtype).kind == "c" else wrap(x)


def sites_of(run: Encounters) -> list[Hashable]:
    """The operation, the user's line and the number of its turn there, for all that was met."""
    turns: Counter[Hashable] = Counter()
    sites: list[Hashable] = []
    for met in run.met:
        place = (met.operation.name, met.line)
        turns[place] += 1
        sites.append((*place, turns[place]))
    return sites


@dataclass(frozen=True, slots=True)
class Mover:
    """A function with the arguments at which the search begins.

    Attributes
    ----------
    operation : str
        For messages.
    function : callable
    leaves : tuple
        The leaves of the arguments.
    structure : Structure
    movable : tuple of int
        The positions of leaves with real or complex numbers, which move.
    margin : float
    """

    operation: str
    function: Callable[..., Any]
    leaves: tuple[Any, ...]
    structure: trees.Structure
    movable: tuple[int, ...]
    margin: float

    def start(self) -> Point:
        """Return the numbers that move, as real arrays in double precision."""
        return [_reals(np.asarray(self.leaves[k])) for k in self.movable]

    def arguments(self, point: Sequence[Value]) -> tuple[Any, ...]:
        """Put numbers, which may be traced, into the arguments."""
        leaves = list(self.leaves)
        for k, numbers in zip(self.movable, point, strict=True):
            dtype = np.asarray(self.leaves[k]).dtype
            whole = numbers[..., 0] + 1j * numbers[..., 1] if dtype.kind == "c" else numbers
            leaves[k] = whole if whole.dtype == dtype else whole.astype(dtype)
        arguments: tuple[Any, ...] = trees.unflatten(self.structure, leaves)
        return arguments

    def returned(self, point: Point) -> tuple[Any, ...]:
        """Put numbers into the arguments, each leaf of the kind that the user gave."""
        moved = trees.flatten(self.arguments(point))[0]
        leaves = [_of_kind(*pair) for pair in zip(moved, self.leaves, strict=True)]
        arguments: tuple[Any, ...] = trees.unflatten(self.structure, leaves)
        return arguments

    def run(self, point: Sequence[Value]) -> Encounters:
        """Encounters the function, and note what it meets."""
        with repetition(), quiet():
            return encounters(self.function, self.arguments(point))

    # ------------------------------------------------------------------------------- distances

    def near(self, run: Encounters, least: list[Array]) -> list[Near]:
        """The distances of a run that are less than they shall be, the smallest first."""
        listed, total = [], 0
        for place, met in enumerate(run.met):
            for which, value in enumerate(_distances_of(met)):
                numbers = np.asarray(_real_distance(value), np.float64).ravel()
                wanted = np.broadcast_to(least[total].ravel(), numbers.shape)
                total += 1
                is_end = which >= len(met.zeros)
                size = numbers if is_end else abs(numbers)
                for k in np.flatnonzero(size < wanted):
                    side = -1.0 if numbers[k] < 0 and not is_end else 1.0
                    listed.append(
                        Near(place, which, int(k), float(numbers[k]), side * float(wanted[k]))
                    )
        return sorted(listed, key=lambda short: abs(short.value / short.goal))

    def _margins(self, run: Encounters) -> list[Array]:
        return [np.array(self.margin) for met in run.met for _ in _distances_of(met)]

    def _steep_margins(self, point: Point, run: Encounters, limit: float) -> list[Array]:
        """Margins in the arguments of the function: those of its operations, times their slopes."""
        margins = self._margins(run)
        width = _CLEARANCE * max(self.margin, self._steps())
        rng = np.random.default_rng(0)
        for _ in range(2):
            along = [rng.choice((-1.0, 1.0), x.shape) * np.maximum(abs(x), 1) for x in point]
            try:
                pushed = jvp(self._distances, point, along)[1]
            except Exception:  # the margins alone have to do where there is no derivative
                return margins
            if len(pushed) != len(margins):  # a jitted function was staged in between
                return margins
            slopes = [np.nan_to_num(abs(np.asarray(t)), posinf=0.0) for t in pushed]
            margins = [
                np.maximum(margin, np.minimum(width * slope, limit))
                for margin, slope in zip(margins, slopes, strict=True)
            ]
        return margins

    def _steps(self) -> float:
        """Half a step of numerical derivatives, which in single precision is large."""
        dtypes = [np.asarray(self.leaves[k]).dtype for k in self.movable]
        coarsest = max(float(np.finfo(dtype).eps) for dtype in dtypes)
        return 0.5 * float(np.cbrt(coarsest))

    def _distances(self, *point: Value) -> list[Tensor]:
        return [_real_distance(x) for met in self.run(point).met for x in _distances_of(met)]

    def jacobian(self, point: Point, near: Sequence[Near]) -> Array:
        """The derivatives of distances, a row for each, in all numbers of the point."""

        def chosen(*point: Value) -> list[Tensor]:
            met = self.run(point).met
            values = [
                _real_distance(_distances_of(met[short.encounter])[short.number]) for short in near
            ]
            return [x.reshape(-1)[short.element] for x, short in zip(values, near, strict=True)]

        values, pull = vjp(chosen, *point)
        unit = np.eye(len(near))
        rows = []
        for row, short in zip(unit, near, strict=True):
            pulled = pull(
                [wrap(np.asarray(ct, x.dtype)) for ct, x in zip(row, values, strict=True)]
            )
            rows.append(np.concatenate([np.asarray(x).ravel() for x in pulled]))
            if len(near) > 1 and not np.isfinite(rows[-1]).all():  # 0 times the infinity of another
                rows[-1] = self.jacobian(point, [short])[0]
        return np.array(rows)

    # ---------------------------------------------------------------------------------- walks

    def starts(self, seed: int) -> Iterator[Point]:
        """Where to begin: at the arguments, then further and further off."""
        for number, spread in enumerate(_SPREADS):
            rng = np.random.default_rng((seed, number))
            yield [
                x + spread * np.maximum(abs(x), 1) * rng.normal(size=x.shape) if spread else x
                for x in self.start()
            ]

    def walk(self, start: Point) -> Stop:
        """Step until all distances are large enough, or no step changes any."""
        point = start
        best: Stop | None = None
        for limit in _LIMITS:
            stop, well = self._walk(point, limit)
            best = well or best
            if not stop.near or best is None:
                return stop
            point = best.point
        return Stop(point, self.run(point), [])

    def _walk(self, point: Point, limit: float) -> tuple[Stop, Stop | None]:
        """Walk under a limit; return also the last point where all margins were kept."""
        well: Stop | None = None
        shakes = 0
        rng = np.random.default_rng(1)
        steps = _STEPS
        while True:
            steps -= 1
            run = self.run(point)
            near = self.near(run, self._margins(run))
            if not near and run.error is None:
                steps = min(steps, _STEPS_FOR_SLOPES) if well is None else steps
                well = Stop(point, run, [])
                near = self.near(run, self._steep_margins(point, run, limit)) if limit else []
            stop = Stop(point, run, near)
            if not near or not steps:
                return stop, well
            moved = self.step(stop)
            if moved is None:
                if shakes == 2 or all(short.value for short in near):
                    return stop, well
                shakes += 1  # out of a point without a slope, as that of a length at 0
                size = self.margin * 10.0 ** (shakes - 1)
                moved = [x + size * np.maximum(abs(x), 1) * rng.normal(size=x.shape) for x in point]
            point = moved

    def step(self, stop: Stop, longest: float = 0.5) -> Point | None:
        """The shortest step, relative to the numbers, that reaches the goals to first order."""
        near = stop.near[:_ROWS]
        try:
            slopes = self.jacobian(stop.point, near)
        except Exception:  # where there is no derivative there is no way
            return None
        scale = np.concatenate([np.maximum(abs(x), 1).ravel() for x in stop.point])
        slopes = slopes * scale
        size = abs(slopes).max(axis=1, initial=0)
        moves = (size > _FLAT) & np.isfinite(size)
        if not moves.any():
            return None
        lacking = np.array([1.5 * short.goal - short.value for short in near])
        step = np.linalg.lstsq(slopes[moves], lacking[moves], rcond=1e-8)[0]
        step = step * scale * min(1.0, longest / max(float(abs(step).max(initial=0)), 1e-300))
        return _plus(stop.point, step)

    # --------------------------------------------------------------------------------- search

    def moved(
        self, seed: int, begin: Callable[[Mover, Point], Point] | None = None
    ) -> tuple[Any, ...]:
        """Search for arguments away from all kinks.

        Parameters
        ----------
        seed : int
        begin : callable, optional
            Moves a start before the search begins there, as ``crossing.across`` does.

        Raises
        ------
        ArgumentError
            There are none.
        """
        self.run(self.start())  # which stages what is jitted, so that later runs meet the same
        stops: list[Stop] = []
        alive: set[Hashable] = set()
        for number, start in enumerate(self.starts(seed)):
            begun = start if begin is None else begin(self, start)
            stop = self.walk(begun)
            alive |= stop.sites()
            if not stop.near and stop.run.error is None and _is_finite(stop.run):
                unmoved = number == 0 and all(map(operator.is_, stop.point, start))
                # Where a search begins close to something, rounding might cross it.
                is_exact = unmoved or begun is not start
                return self.returned(stop.point if is_exact else self._simple(stop))
            stops.append(stop)
            if number >= 4:  # what is at no kink elsewhere, and does not change here, is harmless
                for stopped in stops:
                    if self._is_harmless(stopped, alive):
                        return self.returned(stopped.point)
        raise self._refused(stops)

    def _is_harmless(self, stop: Stop, alive: set[Hashable]) -> bool:
        """Whether a function that is defined is at kinks that it does not feel there."""
        defined = stop.run.error is None and _is_finite(stop.run)
        inside = all(
            short.value >= 0 or short.number < len(stop.run.met[short.encounter].zeros)
            for short in stop.near
        )
        return defined and inside and stop.still() <= alive and self._is_still(stop)

    def _is_still(self, stop: Stop) -> bool:
        """Whether no distance that is too small changes with the arguments."""
        if not stop.near:
            return True
        try:
            return bool(np.all(abs(self.jacobian(stop.point, stop.near[:_ROWS])) <= _FLAT))
        except Exception:  # nobody knows where there is no derivative
            return False

    def _simple(self, stop: Stop) -> Point:
        """The point in two or three digits, where that is away from kinks too."""
        for digits in (2, 3):
            point = [x.round(digits) for x in stop.point]
            run = self.run(point)
            if run.error is not None or not _is_finite(run):
                continue
            if not self.near(run, self._steep_margins(point, run, 0.1)):
                return point
        return stop.point

    def _refused(self, stops: Sequence[Stop]) -> Exception:
        """The error that says which operation is at a kink wherever the search came."""
        least = min(stops, key=lambda stop: (stop.run.error is not None, len(stop.near)))
        if not least.near:
            if least.run.error is not None:
                return least.run.error
            return ArgumentError(
                f"{self.operation}: at every point that was tried a result of"
                f" {_name(self.function)} is NaN or infinite. Begin at other arguments."
            )
        worst = least.near[0]
        encounter = least.run.met[worst.encounter]
        what = "a kink" if worst.number < len(encounter.zeros) else "the end of its domain"
        name = encounter.operation.name
        place = f" at {encounter.line}" if encounter.line else ""
        return ArgumentError(
            f"{self.operation}: no point of {_name(self.function)} was found at which {name}{place}"
            f" is {self.margin:g} away from {what}: its distance is {abs(worst.value):.3g} wherever"
            " the arguments went. It may be at a kink for all arguments, as x - x is under abs, or"
            " have contradictory conditions. Change the function there, pass a smaller margin, or"
            " begin at other arguments."
        )


def _name(f: Callable[..., Any]) -> str:
    name: str = getattr(f, "__name__", type(f).__name__)
    return "the function" if name == "<lambda>" else name


def _is_finite(run: Encounters) -> bool:
    outs = [np.asarray(out) for out in run.outs or ()]
    return all(bool(np.isfinite(out).all()) for out in outs if out.dtype.kind in "fc")


def _reals(x: Array) -> Array:
    """Numbers as real ones in double precision; complex ones have their parts on a last axis."""
    if x.dtype.kind == "c":
        return np.stack([x.real, x.imag], axis=-1).astype(np.float64)
    return x.astype(np.float64)


def _plus(point: Point, step: Array) -> Point:
    ends = np.cumsum([x.size for x in point])[:-1]
    pieces = np.split(step, ends)
    return [x + piece.reshape(x.shape) for x, piece in zip(point, pieces, strict=True)]


def _of_kind(value: object, like: object) -> Any:
    """A leaf of the kind of another: a tensor, an array, or a Python number."""
    if isinstance(like, (bool, int)) or value is like:
        return like
    array = np.asarray(value)
    if isinstance(like, (float, complex)) and not isinstance(like, np.generic):
        return array.item()
    return array[()] if isinstance(like, (np.ndarray, np.generic)) else wrap(array)

"""A Hypothesis strategy for arguments of a function, away from kinks of its operations.

>>> from hypothesis import find
>>> import funcgrad.numpy as fnp
>>> find(points(lambda x: fnp.max(abs(x)), Like((3,))), lambda args: True)
(Tensor([0.5 , 1.25, 2.  ]),)

Draws also cross comparisons and choices of the function, so that other branches are tested. A
branch begins where a comparison changes; an operation such as ``maximum`` chooses the other
argument where the distance from its kink changes its sign. ``moving.py`` keeps points away from
such distances of 0, and the same steps lead across. A chain of crossings reaches branches inside
branches.

>>> import funcgrad.numpy as fnp
>>> from funcgrad.testing.points import mover_of
>>> mover = mover_of("test", lambda x: fnp.where(x > 1000.0, x, -x), (1.0,), 1e-3)
>>> (x,) = _across(mover, mover.start(), [1])
>>> bool(x > 1000)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core import pytrees
from funcgrad._core.primitive import DISCRETE
from funcgrad._core.specs import Shape, is_inexact
from funcgrad._core.trace import Value
from funcgrad._transforms.forward import jvp
from funcgrad.errors import ArgumentError, MissingPackageError
from funcgrad.tensor.tensor import wrap
from funcgrad.testing.moving import Mover, Name, Near, Point, PointRun, Stop
from funcgrad.testing.points import mover_of

_STEPS: Final = 24
_MOST_VISITS: Final = 1000
_FEWEST_STEPS: Final = 4
"""The maximum number of operations with kinks in the steps of a draw, and the number of steps of
the first crossing. These limits keep draws of long functions quick.
"""

_LONGEST: Final = 2.0
"""The maximum length of a step, relative to the elements: few steps lead from 1 to 1e11."""

_MOST_SKIPPED: Final = 8
"""The maximum number of earlier crossings that are skipped."""


def _across(mover: Mover, point: Point, choices: Sequence[int]) -> Point:
    """Cross the comparisons and choices that ``choices`` select, one after the other.

    Parameters
    ----------
    mover : Mover
    point : list of arrays
        The start.
    choices : sequence of int
        0 for none; otherwise the index (modulo their count) of a comparison or choice of the
        function and its derivative rules at the current point. For long functions the rules are
        left out, for very long ones also the choices. Nothing is crossed twice, because that would
        lead back.

    Returns
    -------
    list of arrays
        The new point, or the start if nothing can be crossed.
    """
    ruled = replace(mover, function=_with_tangents(mover))
    crossed: list[Name] = []
    visits = 0
    for choice in choices:
        if choice and visits < _MOST_VISITS:
            chosen, visit = mover, mover.visit(point)
            is_long = len(visit.run.met) > _MOST_VISITS // 2
            is_short = len(visit.run.met) <= _MOST_VISITS // 8
            if is_short and (with_rules := ruled.visit(point)).run.error is None:
                chosen, visit = ruled, with_rules
            place = _chosen(visit, choice - 1, crossed, comparisons=is_long)
            if place is None and is_long:
                return point
            if place is not None:
                count = len(visit.run.met)
                steps = min(_STEPS, (_MOST_VISITS - visits) // count)
                steps = steps if crossed else max(steps, _FEWEST_STEPS)
                visits += steps * count
                point = _walk_across(chosen, visit, place, crossed, steps) or point
                crossed.append(visit.name(place))
    return point


def _with_tangents(mover: Mover) -> Callable[..., Any]:
    """Return the function with a tangent, which also runs derivative rules."""

    def pushed(*args: Any) -> Any:
        leaves, structure = pytrees.flatten(args)
        moving = [leaves[k] for k in mover.movable]

        def function(*moved: Value) -> Any:
            whole = list(leaves)
            for k, leaf in zip(mover.movable, moved, strict=True):
                whole[k] = leaf
            return mover.function(*pytrees.unflatten(structure, whole))

        ones = [np.ones_like(np.asarray(mover.leaves[k])) for k in mover.movable]
        return jvp(function, moving, ones)

    return pushed


def _chosen(visit: PointRun, choice: int, crossed: Sequence[Name], comparisons: bool) -> int | None:
    """Choose a place: first among the operations or comparisons, then among elements."""
    parts = [
        (int(first), int(end - first))
        for first, end in pairwise(visit.parts)
        if first < end and visit.has_sides[first]
        if not comparisons or visit.run.met[visit.owners[first]].operation.differential is DISCRETE
    ]
    for after in range(min(len(parts), _MOST_SKIPPED)):
        first, size = parts[(choice + after) % len(parts)]
        place = first + choice // len(parts) % size
        if visit.name(place) not in crossed:
            return place
    return None


def _walk_across(
    mover: Mover, visit: PointRun, place: int, crossed: Sequence[Name], steps: int
) -> Point | None:
    """Step until a distance changes its sign; None if steps do not make it smaller.

    Distances that were crossed before stay as they are, to first order.
    """
    value, name = float(visit.values[place]), visit.name(place)
    side = np.sign(value)
    for _ in range(steps):
        near = [Near(place, value, float(-2 * side * mover.margin))]
        for other in crossed:
            again = visit.find(other)
            if again is not None:
                distance = float(visit.values[again])
                near.append(Near(again, distance, distance / 1.5))  # a step of 0 stays here
        moved = mover.step(Stop(visit, near), _LONGEST)
        if moved is None:
            return None
        visit = mover.visit(moved)
        again = visit.find(name)
        if again is None:
            return moved  # an earlier comparison has changed, too
        place, before, value = again, value, float(visit.values[again])
        if np.sign(value) == -side:
            return moved
        if not abs(value) < abs(before):  # such as a norm: it has no other side
            return None
    return None


_DRAWN: Final = 32
"""The number of elements that are drawn one by one; further elements follow from a seed."""

_SIXTEENTHS: Final = 48
"""The maximum offset of an element, in steps of 1/16, in each direction."""

_CHOICES: Final = 255
"""The greatest index of a comparison or choice that is crossed; as many draws cross none."""

_CROSSINGS: Final = 3
"""The maximum number of crossings in one draw, for branches inside branches."""


class Like:
    """A tensor described by shape and dtype, instead of an example."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: DTypeLike = np.float64) -> None:
        """Describe a tensor of a shape and a dtype."""
        self.shape = shape
        self.dtype = np.dtype(dtype)

    def __repr__(self) -> str:
        return f"Like({self.shape}, {self.dtype.name!r})"


def points(f: Callable[..., Any], *specs: Any, margin: float = 1e-3) -> Any:
    """Make a strategy for arguments of a function, at which no operation is near a kink.

    Use it in property-based tests of derivatives: numerical derivatives are only right at smooth
    points, and rejecting draws (``assume``) would reject nearly all of them.

    Parameters
    ----------
    f : callable
        A function of pytrees, which runs when a point is drawn; see ``away_from_kinks``.
    *specs : pytrees
        Examples of the arguments. Leaves with ``shape`` and ``dtype`` only, such as ``Like((3,))``,
        stand for tensors. Integers and booleans are constant.
    margin : float
        The minimum distance of the operations from kinks.

    Returns
    -------
    SearchStrategy
        It draws tuples of arguments like ``specs``. No draw is rejected. Draws shrink to the
        examples, or to 0.5, 1.25, 2, ... without examples; or to a point close by that is away from
        kinks.

    Raises
    ------
    ArgumentError
        ``margin`` is invalid, or no argument can move. A draw raises it if ``f`` is at a kink for
        all arguments.
    MissingPackageError
        Hypothesis is not installed.

    Notes
    -----
    Most draws cross up to three comparisons and choices of the function or its derivative rules,
    one after the other, to reach branches that few arguments lead to: of ``cond``, ``switch``,
    loops, ``where``, ``maximum`` and so on, and of Python's ``if``. Comparisons of integers are not
    crossed. For functions with more than a hundred operations the derivative rules are left out;
    for several hundred operations only comparisons are crossed.

    Examples
    --------
    >>> from hypothesis import given
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x, y):
    ...     return fnp.sqrt(x) * fnp.maximum(x, y)
    >>> @given(points(f, 1.0, Like((2,))))
    ... def test(args):
    ...     fg.testing.check_grads(f, args)
    >>> test()
    """
    try:
        from hypothesis import strategies as st
    except ImportError as error:
        raise MissingPackageError(
            "points: hypothesis is not installed. Install it with `pip install hypothesis`."
        ) from error
    leaves, structure = pytrees.flatten(tuple(specs))
    examples = [_example(leaf) for leaf in leaves]
    arguments = pytrees.unflatten(structure, examples)
    mover_of("points", f, arguments, margin)  # raises if nothing can be drawn
    sizes = [np.size(leaf) for leaf in examples if is_inexact(np.asarray(leaf).dtype)]
    count = min(sum(sizes) * 2, _DRAWN)
    steps = st.lists(st.integers(-_SIXTEENTHS, _SIXTEENTHS), min_size=count, max_size=count)
    seeds = st.integers(0, 2**16) if sum(sizes) * 2 > _DRAWN else st.just(0)

    side = st.integers(0, 2 * _CHOICES + 1).map(lambda number: max(number - _CHOICES - 1, 0))
    sides = st.lists(side, min_size=_CROSSINGS, max_size=_CROSSINGS)

    def moved(drawn: tuple[list[int], int, list[int]]) -> Any:
        numbers, seed, choices = drawn
        offsets = _Offsets(numbers, seed)
        begun = [_moved(leaf, offsets) for leaf in examples]
        mover = mover_of("points", f, pytrees.unflatten(structure, begun), margin)
        return mover.moved(0, lambda mover, start: _across(mover, start, choices))

    return st.tuples(steps, seeds, sides).map(moved)


def _example(leaf: object) -> Any:
    """Return an example for a spec (distinct elements in order); an example stays."""
    if isinstance(leaf, (int, float, complex)) or hasattr(leaf, "__array__"):
        return leaf
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise ArgumentError(
            f"points: {leaf!r} is neither an example of an argument nor has a shape and a dtype."
            " Pass a number, an array, or Like((3,))."
        )
    size = int(np.prod(shape))
    numbers = 0.5 + np.arange(size) * (0.75 if size <= 12 else 8.5 / size)
    return wrap(numbers.reshape(shape).astype(np.dtype(dtype)))


class _Offsets:
    """Offsets one after the other: first the drawn ones, then from a seed."""

    def __init__(self, drawn: list[int], seed: int) -> None:
        """Start with the first offset."""
        self._drawn = list(reversed(drawn))
        self._rng = np.random.default_rng(seed)
        self._zero = seed == 0

    def take(self, count: int) -> Any:
        """Return the next offsets, in sixteenths."""
        first = [self._drawn.pop() for _ in range(min(count, len(self._drawn)))]
        left = count - len(first)
        others = np.zeros(left) if self._zero else self._rng.integers(-_SIXTEENTHS, 49, left)
        return np.concatenate([first, others]) / 16


def _moved(leaf: object, offsets: _Offsets) -> Any:
    array = np.asarray(leaf)
    if not is_inexact(array.dtype):
        return leaf
    change = offsets.take(array.size).reshape(array.shape)
    if array.dtype.kind == "c":
        change = change + 1j * offsets.take(array.size).reshape(array.shape)
    changed = (array + change).astype(array.dtype)
    if isinstance(leaf, (float, complex)) and not isinstance(leaf, np.generic):
        return changed.item()
    return changed if isinstance(leaf, (np.ndarray, np.generic)) else wrap(changed)

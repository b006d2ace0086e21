"""Walk back from non-finite elements to their origins: the operations that made them.

Each element of a result depends on some elements of the operands. If one of these is NaN, a NaN
comes from there. Otherwise the operation is the origin of the NaN: it made NaN from finite
elements, or from infinities, whose own origins are found in the same way. An infinite element comes
from an infinite one; otherwise the operation is its origin.

>>> import funcgrad as fg
>>> from funcgrad.debug.replays import replay
>>> fnp = fg.numpy
>>> x = fg.tensor([-1.0, 0.0])
>>> run = replay(lambda x: fnp.sum(fnp.where(x < 0, 0.0, fnp.log(x)) / x), (x,), {})
>>> [(start.node.primitive.name, start.mask.tolist(), spoilt) for start, spoilt in origins_of(run)]
[('log', [False, True], 1)]
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Raw
from funcgrad.debug.elements import Mask, Relation, relation
from funcgrad.debug.replays import Replay, ReplayEvent, ResultPlace

_Key: TypeAlias = tuple[int, int]
"""The number of a node, and the position of a result."""

_MOST: Final = 16
"""The maximum number of causes that are counted."""


@dataclass(frozen=True, slots=True, eq=False)
class Origin:
    """An operation that made elements NaN or infinite.

    Attributes
    ----------
    node : ReplayEvent
    position : int
        The index of the result.
    mask : array of bool
        The elements of the result.
    outside : int or None
        The operand that is already not finite, if nothing is known about its origin. Then the mask
        marks elements of this operand.
    infinite : tuple of arrays of bool
        The infinite elements of the operands from which NaN was made.
    """

    node: ReplayEvent
    position: int
    mask: Mask
    outside: int | None = None
    infinite: tuple[Mask, ...] = ()

    @property
    def site(self) -> Hashable:
        """The operation and the line, which are equal for all origins of one cause."""
        node, forward = self.node, self.node.forward
        behind = None if forward is None else forward.node
        return (
            node.primitive,
            node.path,
            node.context.line,
            node.context.derivative,
            None if behind is None else (behind.primitive, behind.line),
            self.outside,
        )


@dataclass(slots=True, eq=False)
class _Visit:
    """A visited result: which of its elements, and which elements of the operands they follow."""

    node: ReplayEvent
    position: int
    mask: Mask
    links: Relation | None = None
    followed: Sequence[Mask] = ()


class _Waiting:
    """Results that are still to be visited, with the elements that are asked for."""

    def __init__(self) -> None:
        self.order: list[tuple[int, int]] = []  # a heap of negative indices
        self._masks: dict[_Key, tuple[ReplayEvent, Mask]] = {}

    def put(self, place: ResultPlace, mask: Mask) -> None:
        """Ask for more elements of a result."""
        key = place.node.number, place.position
        known = self._masks.get(key)
        if known is None:
            heappush(self.order, (-key[0], -key[1]))
        self._masks[key] = place.node, mask if known is None else known[1] | mask

    def latest(self) -> tuple[_Key, ReplayEvent, Mask]:
        """Take out the result of the latest operation."""
        number, position = heappop(self.order)
        key = -number, -position
        return key, *self._masks.pop(key)


@dataclass(slots=True, eq=False)
class _Walk:
    """A walk back from demanded elements."""

    origins: list[Origin] = field(default_factory=list)
    visits: dict[_Key, _Visit] = field(default_factory=dict)

    def run(self, demands: Iterable[tuple[ResultPlace, Mask]]) -> None:
        """Walk back from elements of results, the latest operation first."""
        waiting = _Waiting()
        for place, mask in demands:
            waiting.put(place, mask)
        while waiting.order:
            key, node, mask = waiting.latest()
            visit = self.visits[key] = _Visit(node, key[1], mask)
            if node.primitive is None:
                self.origins.append(Origin(node, key[1], mask))
                continue
            self._through(visit)
            for operand, followed in enumerate(visit.followed):
                if not followed.any():
                    continue
                source = node.places[operand]
                if source is None or not source.node.outs:
                    self.origins.append(Origin(node, key[1], followed, outside=operand))
                else:
                    waiting.put(source, followed)

    def _through(self, visit: _Visit) -> None:
        node, mask = visit.node, visit.mask
        assert node.primitive is not None
        out = np.asarray(node.outs[visit.position])
        operands = [np.asarray(operand) for operand in node.operands]
        links = visit.links = relation(node.primitive, node.operands, node.params or {}, out.shape)
        nan, infinite = [*map(is_nan, operands)], [*map(is_infinite, operands)]
        with_nan = mask & is_nan(out) & links.forward(nan)
        others = mask & ~with_nan
        with_infinity = others & links.forward(infinite)
        passed_on = with_infinity & ~is_nan(out)
        born = others & ~passed_on
        from_nan = _to_blame(node, out, links, with_nan, nan)
        from_infinity = _to_blame(node, out, links, passed_on, infinite)
        visit.followed = [a | b for a, b in zip(from_nan, from_infinity, strict=True)]
        if born.any():
            pairs = born & with_infinity
            partners = _to_blame(node, out, links, pairs, infinite) if pairs.any() else []
            self.origins.append(Origin(node, visit.position, born, infinite=tuple(partners)))


def is_nan(x: Raw) -> Mask:
    """Return which elements are NaN; integers never are."""
    array = np.asarray(x)
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, np.bool_)


def is_infinite(x: Raw) -> Mask:
    """Return which elements are infinite."""
    array = np.asarray(x)
    if array.dtype.kind not in "fc":
        return np.zeros(array.shape, np.bool_)
    return np.isinf(array) & ~np.isnan(array)


def _to_blame(
    node: ReplayEvent, out: Raw, links: Relation, mask: Mask, suspects: Sequence[Mask]
) -> list[Mask]:
    """Return the suspect elements of the operands that caused some elements of the result.

    Element-wise operations may read several suspects but pass on one of them, as ``where`` does. So
    one operand after the other is made finite: it is to blame if the result changes.
    """
    reached = (
        [a & b for a, b in zip(links.backward(mask), suspects, strict=True)]
        if mask.any()
        else [np.zeros_like(x) for x in suspects]
    )
    primitive = node.primitive
    assert primitive is not None
    several = sum(bool(x.any()) for x in reached) > 1
    if not several or not isinstance(primitive.structure, Elementwise):
        return reached
    changes = []
    for k, elements in enumerate(reached):
        mended = list(node.operands)
        mended[k] = _mended(node.operands[k], elements)
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(primitive.evaluate(*mended, **(node.params or {})))
        except (TypeError, ValueError, ArithmeticError):
            return reached
        same = (value == out) | (is_nan(value) & is_nan(out))
        changes.append(mask & ~same & links.forward([x & (j == k) for j, x in enumerate(reached)]))
    explained = np.logical_or.reduce(changes)
    blamed = []
    for k, elements in enumerate(reached):
        back = links.backward(changes[k] | (mask & ~explained))[k]
        blamed.append(elements & back)
    return blamed


def _mended(operand: Raw, elements: Mask) -> Raw:
    array = np.asarray(operand)
    return np.where(elements, np.ones((), array.dtype), array)[()]


def origins_of(run: Replay) -> list[tuple[Origin, int]]:
    """Return the origins of the non-finite elements of the results, and how many elements each
    spoils.

    Origins at one site count as one, the first. The site that spoils most elements comes first.
    """
    walk = _Walk()
    ends = [(place, ~np.isfinite(raw)) for raw, place in _bad_leaves(run)]
    walk.run(ends)
    sites: dict[Hashable, list[Origin]] = {}
    for origin in sorted(walk.origins, key=lambda origin: origin.node.number):
        sites.setdefault(origin.site, []).append(origin)
    visits = [walk.visits[key] for key in sorted(walk.visits)]
    counted = [
        (origins[0], _spoilt(origins, visits, ends)) for origins in [*sites.values()][:_MOST]
    ]
    return sorted(counted, key=lambda pair: -pair[1])


def infinity_origins(origin: Origin) -> list[Origin]:
    """Return the origins of the infinities from which NaN was made, one for each site."""
    walk = _Walk()
    known, unknown = [], []
    for operand, mask in enumerate(origin.infinite):
        if mask.any():
            place = origin.node.places[operand]
            if place is None or not place.node.outs:
                unknown.append(Origin(origin.node, origin.position, mask, outside=operand))
            else:
                known.append((place, mask))
    walk.run(known)
    sites: dict[Hashable, Origin] = {}
    for start in sorted([*walk.origins, *unknown], key=lambda start: start.node.number):
        sites.setdefault(start.site, start)
    return [*sites.values()]


def _bad_leaves(run: Replay) -> list[tuple[Raw, ResultPlace]]:
    return [
        (raw, place)
        for _, raw, place in run.outs
        if place is not None and place.node.outs and (is_nan(raw) | is_infinite(raw)).any()
    ]


def _spoilt(
    origins: Sequence[Origin], visits: Sequence[_Visit], ends: Sequence[tuple[ResultPlace, Mask]]
) -> int:
    """Count the elements of the results that come from some origins."""
    starts: dict[_Key, list[Origin]] = {}
    for origin in origins:
        starts.setdefault((origin.node.number, origin.position), []).append(origin)
    reached: dict[_Key, Mask] = {}
    for visit in visits:
        key = visit.node.number, visit.position
        mask = np.zeros(visit.mask.shape, np.bool_)
        starting: Mapping[int, Mask] = {}
        for origin in starts.get(key, ()):
            if origin.outside is None:
                mask |= origin.mask
            else:
                starting = {**starting, origin.outside: origin.mask}
        if visit.links is not None:
            mask = mask | (visit.mask & visit.links.forward(_arriving(visit, reached, starting)))
        if mask.any():
            reached[key] = mask
    total = 0
    for place, bad in ends:
        there: Any = reached.get((place.node.number, place.position))
        total += 0 if there is None else int(np.count_nonzero(there & bad))
    return total


def _arriving(
    visit: _Visit, reached: Mapping[_Key, Mask], starting: Mapping[int, Mask]
) -> list[Mask]:
    """Return the followed elements of the operands that come from some origins."""
    arriving = []
    for operand, followed in enumerate(visit.followed):
        place = visit.node.places[operand]
        mask = starting.get(operand)
        if place is not None and mask is None:
            mask = reached.get((place.node.number, place.position))
        arriving.append(followed & mask if mask is not None else np.zeros_like(followed))
    return arriving

"""Where the boxes of a graph stand: layers from top to bottom, and lines that pass between boxes.

In flow the sizes of boxes and the edges between them, each from a box to a later one; out flow
coordinates. As Sugiyama, Tagawa and Toda do (1981): each box in a layer below all that it reads, a
narrow *passage* in each layer that an edge has to cross, an order within layers that puts boxes
near their neighbours, and then places that keep this order.

>>> plan = layered([(40, 20), (40, 20)], [(0, 1)])
>>> plan.corners, plan.width, plan.height
(((0.0, 0.0), (0.0, 56.0)), 40.0, 76.0)
>>> plan.routes
(Route(points=((20.0, 20.0), (20.0, 56.0)), arrives=True),)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

__all__ = ["Layout", "Point", "Route", "layered"]

Point: TypeAlias = tuple[float, float]

_BESIDE: Final = 16.0
"""Between neighbours in a layer."""

_BETWEEN: Final = 36.0
"""Between layers."""

_SWEEPS: Final = 6
"""More of them change no picture that we have looked at."""


@dataclass(frozen=True, slots=True)
class Route:
    """A line.

    Attributes
    ----------
    points : tuple of pairs
        From top to bottom. Between layers it may go aside, elsewhere it is upright.
    arrives : bool
        Whether it ends at a box. An edge over several layers is a line that passes them, which all
        edges from its box share, and a last piece.
    """

    points: tuple[Point, ...]
    arrives: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything stands.

    Attributes
    ----------
    corners : tuple of pairs
        The left upper corner of each box.
    routes : tuple of Route
    width, height : float
    """

    corners: tuple[Point, ...]
    routes: tuple[Route, ...]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    floating: Collection[int] = (),
) -> Layout:
    """Place boxes in layers.

    Parameters
    ----------
    sizes : sequence of pairs
        Width and height of each box.
    edges : sequence of pairs
        Each from a box to a later one.
    floating : collection of int
        Boxes without edges to them that stand right above the first that reads them, rather than
        in the first layer.
    """
    return _Plan(sizes, sorted(set(edges)), floating).layout()


class _Plan:
    """A layout in the making. *Items* are the boxes, and after them the passages."""

    def __init__(
        self,
        sizes: Sequence[tuple[float, float]],
        edges: Sequence[tuple[int, int]],
        floating: Collection[int],
    ) -> None:
        self.sizes = sizes
        self.edges = edges
        self.ranks = _ranks(len(sizes), edges, floating)
        self.widths = [width for width, _ in sizes]
        self.layers: list[list[int]] = [[] for _ in range(max(self.ranks, default=-1) + 1)]
        self.above: list[list[int]] = [[] for _ in sizes]
        self.below: list[list[int]] = [[] for _ in sizes]
        self.chains: list[list[int]] = [[box] for box in range(len(sizes))]
        for box, rank in enumerate(self.ranks):
            self.layers[rank].append(box)
        self._add_passages()
        self._order()
        self.middles = self._middles()

    def _add_passages(self) -> None:
        """Give each box a passage through every layer between it and its last reader."""
        for tail, head in sorted(self.edges, key=lambda edge: (edge[0], self.ranks[edge[1]])):
            chain = self.chains[tail]
            while self.ranks[tail] + len(chain) < self.ranks[head]:
                item = len(self.widths)
                self.widths.append(0.0)
                self.above.append([chain[-1]])
                self.below.append([])
                self.below[chain[-1]].append(item)
                self.layers[self.ranks[tail] + len(chain)].append(item)
                chain.append(item)
            last = chain[self.ranks[head] - self.ranks[tail] - 1]
            self.above[head].append(last)
            self.below[last].append(head)

    def _order(self) -> None:
        """Sort each layer by the mean place of neighbours, downwards and upwards in turn."""
        places = [0.0] * len(self.widths)
        for layer in self.layers:
            _number(layer, places)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                means = {item: _mean(near[item], places, places[item]) for item in layer}
                layer.sort(key=means.__getitem__)
                _number(layer, places)

    def _middles(self) -> list[float]:
        """The x of every item: as near to its neighbours' as its place in the layer allows."""
        middles = [0.0] * len(self.widths)
        for layer in self.layers:
            self._settle(layer, [0.0] * len(layer), middles)
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                wanted = [_mean(near[item], middles, middles[item]) for item in layer]
                self._settle(layer, wanted, middles)
        left = min(
            [x - width / 2 for x, width in zip(middles, self.widths, strict=True)], default=0.0
        )
        return [x - left for x in middles]

    def _settle(self, layer: Sequence[int], wanted: Sequence[float], middles: list[float]) -> None:
        """Put a layer's items nearest to where they want to be, without overlap.

        With the room for those before it taken off, each item must not stand left of the one before
        it: least squares under an order, which pooling the neighbours that violate it solves.
        """
        room = 0.0
        rooms: list[float] = []
        pools: list[tuple[float, int]] = []  # sums of places, and how many items
        for position, (item, place) in enumerate(zip(layer, wanted, strict=True)):
            if position:
                before = layer[position - 1]
                room += (self.widths[before] + self.widths[item]) / 2 + _BESIDE
            rooms.append(room)
            pool = (place - room, 1)
            while pools and pools[-1][0] * pool[1] > pool[0] * pools[-1][1]:
                total, count = pools.pop()
                pool = (pool[0] + total, pool[1] + count)
            pools.append(pool)
        settled = [total / count for total, count in pools for _ in range(count)]
        for item, place, taken in zip(layer, settled, rooms, strict=True):
            middles[item] = place + taken

    def layout(self) -> Layout:
        """The coordinates."""
        tops: list[float] = []
        bottoms: list[float] = []
        for layer in self.layers:
            tops.append(bottoms[-1] + _BETWEEN if bottoms else 0.0)
            heights = [self.sizes[item][1] for item in layer if item < len(self.sizes)]
            bottoms.append(tops[-1] + max(heights))
        corners = [
            (self.middles[box] - width / 2, tops[self.ranks[box]])
            for box, (width, _) in enumerate(self.sizes)
        ]
        right = [x + width / 2 for x, width in zip(self.middles, self.widths, strict=True)]
        return Layout(
            tuple(corners),
            tuple(self._routes(tops, bottoms)),
            max(right, default=0.0),
            bottoms[-1] if bottoms else 0.0,
        )

    def _routes(self, tops: Sequence[float], bottoms: Sequence[float]) -> list[Route]:
        routes: list[Route] = []
        for box, chain in enumerate(self.chains):
            rank = self.ranks[box]
            x = self.middles[box]
            passing: list[Point] = [(x, tops[rank] + self.sizes[box][1]), (x, bottoms[rank])]
            for offset, item in enumerate(chain[1:], 1):
                x = self.middles[item]
                passing += [(x, tops[rank + offset]), (x, bottoms[rank + offset])]
            points = _upright_joined(passing)
            if len(points) > 1 and self.below[box]:
                routes.append(Route(points, arrives=False))
        for tail, head in self.edges:
            rank = self.ranks[head]
            last = self.chains[tail][rank - self.ranks[tail] - 1]
            start, end = self.middles[last], self.middles[head]
            points = ((start, bottoms[rank - 1]), (end, tops[rank]))
            routes.append(Route(points, arrives=True))
        return routes


def _ranks(boxes: int, edges: Sequence[tuple[int, int]], floating: Collection[int]) -> list[int]:
    """The layer of each box: one below the last of those that it reads."""
    ranks = [0] * boxes
    first = [boxes] * boxes  # by box, the first layer with a reader of it
    for tail, head in sorted(edges, key=lambda edge: edge[1]):
        ranks[head] = max(ranks[head], ranks[tail] + 1)
    for tail, head in edges:
        first[tail] = min(first[tail], ranks[head])
    for box in floating:
        ranks[box] = first[box] - 1 if first[box] < boxes else 0
    return ranks


def _number(layer: Sequence[int], places: list[float]) -> None:
    """Say of a layer's items where in it they stand: from -1 to 1, whatever its size."""
    for position, item in enumerate(layer):
        places[item] = (2 * position + 1) / len(layer) - 1


def _mean(items: Sequence[int], places: Sequence[float], default: float) -> float:
    return sum([places[item] for item in items]) / len(items) if items else default


def _upright_joined(points: Sequence[Point]) -> tuple[Point, ...]:
    """Points without those in the middle of an upright line, and without repetitions."""
    kept: list[Point] = []
    for point in points:
        if kept and kept[-1] == point:
            continue
        if len(kept) > 1 and kept[-2][0] == kept[-1][0] == point[0]:
            kept.pop()
        kept.append(point)
    return tuple(kept)

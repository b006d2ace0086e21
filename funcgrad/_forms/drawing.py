"""The graph of a small program as a picture (SVG), for notebooks: values flow downwards.

Nodes lie in layers, below the nodes that they read. An edge that crosses a layer has a place of its
own there, so that it passes between the nodes (Sugiyama, Tagawa and Toda, "Methods for visual
understanding of hierarchical system structures", 1981).

>>> import funcgrad as fg
>>> drawn = picture(fg.program(lambda x: x * x)(3.0))
>>> drawn.count("<rect"), drawn.count("<path")
(3, 2)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Final, TypeAlias

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.html import program_text
from funcgrad._forms.graph import Graph, Node, program_graph
from funcgrad._programs.program import Program

_MOST: Final = 40
"""The maximum number of operations of a picture."""

_LETTER: Final = 7.2
_LINE: Final = 15
_PADDING: Final = 8
_GAP: Final = 20
"""The distance between the nodes of a layer; between layers it is twice as long."""

_SWEEPS: Final = 8

_LOOKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input": 'rx="14" stroke="#2f81c7"',
        "constant": 'rx="14" stroke="#888"',
        "equation": 'rx="3" stroke="#888"',
        "guard": 'rx="3" stroke="#c0504d" stroke-dasharray="4"',
        "output": 'rx="14" stroke="#3a9d5d"',
    }
)

_Path: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Layers:
    """Which node lies where.

    Attributes
    ----------
    layers : sequence of list of int
        Nodes by their positions in the graph, from left to right; larger ones are places of edges.
    paths : sequence of tuple of int
        The nodes and places that each edge connects.
    """

    layers: Sequence[list[int]]
    paths: Sequence[_Path]

    def neighbours(self) -> dict[int, list[int]]:
        """The nodes and places at the other ends of lines from each."""
        ends: dict[int, list[int]] = {number: [] for layer in self.layers for number in layer}
        for path in self.paths:
            for upper, lower in pairwise(path):
                ends[upper].append(lower)
                ends[lower].append(upper)
        return ends


def html(program: Program) -> str:
    """The picture of a program with its listing folded below it, or the listing of a large one."""
    kind = f"Program, {len(program.equations)} operations"
    return program_text(program.to_text(), kind, picture(program))


def picture(program: Program) -> str:
    """A program as an SVG element; empty if the program has many operations, or none."""
    return svg(program_graph(program)) if 0 < len(program.equations) <= _MOST else ""


def svg(graph: Graph) -> str:
    """A graph as an SVG element, in colors that can be read on a light and on a dark page."""
    layout = _ordered(_layered(graph))
    sizes = [_size(node) for node in graph.nodes]
    widths = dict(enumerate([width for width, _ in sizes]))
    across = _places(layout, widths)
    heights = [max([sizes[k][1] for k in layer if k in widths]) for layer in layout.layers]
    tops = [0, *accumulate([height + 2 * _GAP for height in heights])]
    down = {k: top for top, layer in zip(tops, layout.layers, strict=False) for k in layer}
    spans = {k: sizes[k][1] if k in widths else heights[tops.index(down[k])] for k in down}
    left = min([x - widths.get(k, 0.0) / 2 for k, x in across.items()]) - 1
    right = max([x + widths.get(k, 0.0) / 2 for k, x in across.items()]) + 1
    width, height = right - left, tops[-1] - 2 * _GAP + 2
    edges = [_edge([(across[k], down[k], spans[k]) for k in path]) for path in layout.paths]
    boxes = [_box(node, across[k], down[k], *sizes[k]) for k, node in enumerate(graph.nodes)]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.0f} -1 {width:.0f} {height:.0f}" style="max-width: 100%; height: auto" '
        f'font-family="monospace" font-size="12" text-anchor="middle" fill="currentColor" '
        f'role="img" aria-label="The operations of {escape(graph.name)}">'
    )
    return "\n".join([opening, *edges, *boxes, "</svg>"])


def _size(node: Node) -> tuple[float, float]:
    longest = max([len(line) for line in node.lines])
    return _LETTER * longest + 2 * _PADDING, _LINE * len(node.lines) + _PADDING


def _layered(graph: Graph) -> _Layers:
    """A layer for each node: below the nodes that it reads; constants right above a reader."""
    edges = list(dict.fromkeys([(edge.tail, edge.head) for edge in graph.edges]))
    depths: list[int] = []
    for number in range(len(graph.nodes)):
        depths.append(max([depths[tail] + 1 for tail, head in edges if head == number], default=0))
    for number, node in enumerate(graph.nodes):
        readers = [depths[head] for tail, head in edges if tail == number]
        if node.kind == "constant" and readers:
            depths[number] = min(readers) - 1
    layers: list[list[int]] = [[] for _ in range(max(depths) + 1)]
    for number, depth in enumerate(depths):
        layers[depth].append(number)
    paths: list[_Path] = []
    free = len(graph.nodes)
    for tail, head in edges:
        crossed = range(depths[tail] + 1, depths[head])
        for number, depth in enumerate(crossed, free):
            layers[depth].append(number)
        paths.append((tail, *range(free, free + len(crossed)), head))
        free += len(crossed)
    return _Layers(layers, paths)


def _ordered(layout: _Layers) -> _Layers:
    """Bring nodes near to their neighbours in the layer above, and then in the one below."""
    neighbours = layout.neighbours()
    layers = [list(layer) for layer in layout.layers]
    for sweep in range(_SWEEPS):
        order = range(len(layers))[:: 1 if sweep % 2 == 0 else -1]
        for before, now in pairwise(order):
            places = {number: place for place, number in enumerate(layers[before])}
            means = {
                number: _mean([places[k] for k in neighbours[number] if k in places], place)
                for place, number in enumerate(layers[now])
            }
            layers[now].sort(key=means.__getitem__)
    return _Layers(layers, layout.paths)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _places(layout: _Layers, widths: Mapping[int, float]) -> dict[int, float]:
    """How far right the middle of each node is: near to its neighbours, without overlap."""
    neighbours = layout.neighbours()
    across = dict.fromkeys(neighbours, 0.0)
    for sweep in range(_SWEEPS):
        for layer in layout.layers[:: 1 if sweep % 2 == 0 else -1]:
            wishes = [_mean([across[k] for k in neighbours[number]], 0.0) for number in layer]
            halves = [widths.get(number, 0.0) / 2 for number in layer]
            gaps = [a + b + _GAP for a, b in pairwise(halves)]
            lowest = list(_apart(wishes, gaps))
            highest = [-x for x in _apart([-x for x in wishes[::-1]], gaps[::-1])][::-1]
            means = [(a + b) / 2 for a, b in zip(lowest, highest, strict=True)]
            across.update(zip(layer, means, strict=True))
    return across


def _apart(wishes: Sequence[float], gaps: Sequence[float]) -> Iterator[float]:
    """Coordinates of at least the wishes, with at least the gaps between them."""
    last = float("-inf")
    for wish, gap in zip(wishes, [0.0, *gaps], strict=True):
        last = max(wish, last + gap)
        yield last


def _edge(stops: Sequence[tuple[float, float, float]]) -> str:
    """A line through places, each with its top and its height, with a head at its end."""
    line = ""
    for (x, top, height), (end, lower, _) in pairwise(stops):
        bottom = top + height
        middle = (bottom + lower) / 2
        move = "L" if line else "M"
        line += f"{move}{x:.1f} {bottom:.1f}"
        line += f"C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {lower:.1f}"
    return f'<path d="{line}m-3 -6l3 6l3 -6" fill="none" stroke="#888"/>'


def _box(node: Node, x: float, top: float, width: float, height: float) -> str:
    """A node as a box with its lines; the first line is bold."""
    bold = ' font-weight="bold"'
    lines = [
        f'<text x="{x:.1f}" y="{top + _LINE * k:.1f}"{bold * (k == 1)}>{escape(line)}</text>'
        for k, line in enumerate(node.lines, 1)
    ]
    title = f"<title>{escape(node.source)}</title>" if node.source else ""
    box = (
        f'<rect x="{x - width / 2:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="none" {_LOOKS[node.kind]}/>'
    )
    return f"<g>{title}{box}{''.join(lines)}</g>"

"""Programs as pictures, for notebooks: SVG and HTML that need nothing installed.

In flows a ``Program``, out flows text. Boxes have colours of their own, and lines a grey that shows
on light and on dark pages. Only elements that every viewer knows are used, and no identifiers,
which several pictures in one page would share.

>>> import funcgrad as fg
>>> text = svg(fg.program(lambda x: x * x)(3.0))
>>> text.startswith("<svg xmlns=") and text.endswith("</svg>")
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from funcgrad.planning.parts import ProgramParts
from funcgrad.source.graph import Graph, Node, one_line, program_graph
from funcgrad.source.layout import Route, layered

__all__ = ["html", "svg"]

_MOST: Final = 300
"""So many equations make a picture that somebody may still look at."""

_MOST_LINES: Final = 2000
"""More lines of text would keep a browser busy for seconds."""

_CHARACTER: Final = 7.3  # the width of one, in pixels; fonts differ by a few percent
_LINE: Final = 15.0
_PADDING: Final = 8.0
_MARGIN: Final = 10.0
_GREY: Final = "#8a8a8a"  # about as far from white as from a dark page
_FONT: Final = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12"'

_FILLS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input": "#cfe3ff",
        "constant": "#e4e4e4",
        "equation": "#fdf6e3",
        "guard": "#ffd9cf",
        "output": "#d3f2d3",
    }
)


def svg(program: ProgramParts) -> str:
    """A picture of a program, or of its first equations where it has many."""
    return _drawn(program_graph(program, _MOST))


def html(program: ProgramParts) -> str:
    """A picture of a program and its text; the text alone where it has many equations."""
    lines = program.to_text().splitlines()
    omitted = len(lines) - _MOST_LINES
    if omitted > 0:
        lines[_MOST_LINES:] = [f"  ... {omitted} more lines"]
    text = f"<pre>{_escaped(lines)}</pre>"
    if len(program.equations) > _MOST:
        return f'<div style="max-height: 30em; overflow: auto">{text}</div>'
    name = _escaped([f"program {program.name}"])
    return (
        f'<div style="overflow: auto">{svg(program)}</div>'
        f"<details><summary>{name}</summary>{text}</details>"
    )


def _drawn(graph: Graph) -> str:
    sizes = [_size(node) for node in graph.nodes]
    floating = {k for k, node in enumerate(graph.nodes) if node.kind == "constant"}
    plan = layered(sizes, [(edge.tail, edge.head) for edge in graph.edges], floating)
    width = plan.width + 2 * _MARGIN
    height = plan.height + 2 * _MARGIN
    note = ""
    if graph.omitted:
        note = f"... and {graph.omitted} more equations, which to_text() shows"
        height += 2 * _LINE
        width = max(width, len(note) * _CHARACTER + 2 * _MARGIN)
    size = f"{_number(width)} {_number(height)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"'
        f' width="{_number(width)}" height="{_number(height)}" role="img"'
        f' aria-label="{_escaped([f"program {graph.name}"])}">',
        f'<g transform="translate({_number(_MARGIN)} {_number(_MARGIN)})" {_FONT}>',
        f'<g fill="none" stroke="{_GREY}">',
        *[_line(route) for route in plan.routes],
        "</g>",
        *[_arrow(route) for route in plan.routes if route.arrives],
    ]
    for node, size_of_node, corner in zip(graph.nodes, sizes, plan.corners, strict=True):
        parts += _box(node, size_of_node, corner)
    if note:
        parts.append(
            f'<text x="0" y="{_number(height - 3 * _MARGIN)}" fill="{_GREY}">{note}</text>'
        )
    return "\n".join([*parts, "</g>", "</svg>"])


def _size(node: Node) -> tuple[float, float]:
    longest = max([len(line) for line in node.lines])
    return longest * _CHARACTER + 2 * _PADDING, len(node.lines) * _LINE + _PADDING


def _box(node: Node, size: tuple[float, float], corner: tuple[float, float]) -> list[str]:
    """A box with its text, and the user's line where the mouse rests on it."""
    (width, height), (x, y) = size, corner
    shape = (
        f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}"'
        f' height="{_number(height)}" rx="{4 if node.kind == "equation" else 12}"'
        f' fill="{_FILLS[node.kind]}" stroke="{_GREY}"/>'
    )
    texts = [
        f'<text x="{_number(x + width / 2)}" y="{_number(y + (k + 0.95) * _LINE)}"'
        f' text-anchor="middle" fill="#1a1a1a"{_emphasis(node, k)}>{_escaped([line])}</text>'
        for k, line in enumerate(node.lines)
    ]
    title = f"<title>{_escaped([node.source])}</title>" if node.source else ""
    return [f"<g>{title}", shape, *texts, "</g>"]


def _emphasis(node: Node, line: int) -> str:
    return ' font-weight="bold"' if node.kind == "equation" and not line else ""


def _line(route: Route) -> str:
    """A line that is upright where it passes a layer, and bends between layers."""
    x, y = route.points[0]
    steps = [f"M{_number(x)} {_number(y)}"]
    for (x, y), (to_x, to_y) in pairwise(route.points):
        if x == to_x:
            steps.append(f"V{_number(to_y)}")
        else:
            middle = _number((y + to_y) / 2)
            steps.append(
                f"C{_number(x)} {middle} {_number(to_x)} {middle} {_number(to_x)} {_number(to_y)}"
            )
    return f'<path d="{"".join(steps)}"/>'


def _arrow(route: Route) -> str:
    x, y = route.points[-1]
    return f'<path d="M{_number(x)} {_number(y)}l-3.5 -7h7z" fill="{_GREY}"/>'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _escaped(lines: Sequence[str]) -> str:
    """Lines as XML has them, which takes no control characters even as entities."""
    text = "\n".join([one_line(line) for line in lines])
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, entity)
    return text

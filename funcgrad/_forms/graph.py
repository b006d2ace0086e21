"""Programs as graphs, in two languages of graph viewers.

``program_graph`` converts a ``Program`` to a ``Graph``; ``dot`` and ``mermaid`` write it as text.

>>> import funcgrad as fg
>>> print(mermaid(program_graph(fg.program(lambda x: x * x)(3.0))))
flowchart TD
  n0(["x<br/>float64[]"])
  n1["multiply<br/>a: float64[]"]
  n2(["result<br/>float64[]"])
  n0 -->|"float64[]"| n1
  n0 -->|"float64[]"| n1
  n1 -->|"float64[]"| n2
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._primitives.index_keys import Key, index_text
from funcgrad._programs.program import Program

_LONGEST: Final = 40
"""The length at which lines in nodes are cut."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph.

    Attributes
    ----------
    kind : str
        ``input``, ``constant``, ``equation``, ``guard`` or ``output``.
    lines : tuple of str
        The node's text.
    source : str
        The user's line that the node comes from, or an empty text.
    """

    kind: str
    lines: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from the node that defines a variable to a node that reads it.

    Attributes
    ----------
    tail, head : int
        Positions of nodes; the tail comes first.
    label : str
        The variable's shape and dtype.
    """

    tail: int
    head: int
    label: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The graph of a program: a node for each input, constant, equation, guard and output.

    Attributes
    ----------
    name : str
    nodes : tuple of Node
        The nodes; each comes after the nodes that it reads.
    edges : tuple of Edge
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def program_graph(program: Program) -> Graph:
    """The graph of a program."""
    specs, names, results = program.specs(), program.variable_names(), program.index.results
    nodes: list[Node] = []
    edges: list[Edge] = []
    makers: dict[int, int] = {}  # the node that defines each variable

    def append(
        kind: str,
        *lines: str,
        reads: Sequence[int] = (),
        defines: Sequence[int] = (),
        source: str = "",
    ) -> None:
        edges.extend([Edge(makers[k], len(nodes), str(specs[k])) for k in reads])
        makers.update(dict.fromkeys(defines, len(nodes)))
        nodes.append(Node(kind, _clipped(lines), source))

    for k, argument in enumerate(program.names):
        letter = names[k]
        append(
            "input",
            argument if letter == argument else f"{letter} = {argument}",
            str(specs[k]),
            defines=(k,),
        )
    for k, constant in enumerate(program.constants, len(program.inputs)):
        shown, spec = str(constant), str(constant.spec)
        spec_lines = () if shown.startswith(spec) else (spec,)
        append("constant", f"{names[k]} = {shown}", *spec_lines, defines=(k,))
    for equation, variables in zip(program.equations, results, strict=True):
        defined = ", ".join([f"{names[k]}: {specs[k]}" for k in variables]) or "nothing"
        settings = [_setting(name, value) for name, value in equation.settings]
        if settings and len(" ".join(settings)) <= _LONGEST:
            settings = [" ".join(settings)]
        lines = (equation.name, *settings, defined)
        source = equation.source
        append("equation", *lines, reads=equation.operands, defines=variables, source=source)
    for guard in program.guards:
        lines = (f"guard {guard.use}", f"is {guard.value!r}")
        append("guard", *lines, reads=(guard.variable,), source=guard.source)
    for path, k in zip(program.result.paths(), program.outputs, strict=True):
        append("output", f"result{path}", str(specs[k]), reads=(k,))
    return Graph(program.name, tuple(nodes), tuple(edges))


def _setting(name: str, value: object) -> str:
    """A static parameter as short text."""
    if isinstance(value, Key):
        return f"{name}=[{index_text(value)}]"
    if isinstance(value, Program):
        return f"{name}=<{value.name}>"
    return f"{name}={value if isinstance(value, np.dtype) else repr(value)}"


def _clipped(lines: Sequence[str]) -> tuple[str, ...]:
    shown = [_one_line(line) for line in lines]
    return tuple([x if len(x) <= _LONGEST else f"{x[: _LONGEST - 1]}…" for x in shown])


def _one_line(text: str) -> str:
    r"""Escape line breaks and other characters that file formats do not accept.

    >>> _one_line("x['a\nb']")
    "x['a\\nb']"
    """
    return "".join([c if c.isprintable() else repr(c)[1:-1] for c in text])


# ------------------------------------------------------------------------------------- Graphviz

_SHAPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input": "shape=ellipse",
        "constant": "shape=box, style=rounded",
        "equation": "shape=box",
        "guard": "shape=hexagon",
        "output": "shape=ellipse, peripheries=2",
    }
)


def dot(graph: Graph) -> str:
    """A graph in the DOT language of Graphviz."""
    lines = [f"digraph {_quoted(_one_line(graph.name))} {{", '  node [fontname="Courier"];']
    for number, node in enumerate(graph.nodes):
        settings = [f"label={_quoted(*node.lines)}", _SHAPES[node.kind]]
        if node.source:
            settings.append(f"tooltip={_quoted(_one_line(node.source))}")
        lines.append(f"  n{number} [{', '.join(settings)}];")
    lines += [
        f"  n{edge.tail} -> n{edge.head} [label={_quoted(edge.label)}];" for edge in graph.edges
    ]
    return "\n".join([*lines, "}"])


def _quoted(*lines: str) -> str:
    """Quote lines as a string of DOT, with C's escapes and HTML's entities."""
    escaped = [
        line.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") for line in lines
    ]
    return '"' + "\\n".join(escaped) + '"'


# -------------------------------------------------------------------------------------- Mermaid

_BRACKETS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "input": ("([", "])"),
        "constant": ("(", ")"),
        "equation": ("[", "]"),
        "guard": ("{{", "}}"),
        "output": ("([", "])"),
    }
)
# Besides quotes and HTML: characters that begin entities, comments, Markdown and formulas.
_SPECIAL: Final = re.compile(r"[\"#%&<>\\`$|*]")


def mermaid(graph: Graph) -> str:
    """A graph as a Mermaid flowchart."""
    lines = ["flowchart TD"]
    for number, node in enumerate(graph.nodes):
        opening, closing = _BRACKETS[node.kind]
        text = "<br/>".join([_entities(line) for line in node.lines])
        lines.append(f'  n{number}{opening}"{text}"{closing}')
    lines += [f'  n{edge.tail} -->|"{_entities(edge.label)}"| n{edge.head}' for edge in graph.edges]
    return "\n".join(lines)


def _entities(line: str) -> str:
    """Escape a line of a label: characters with a meaning in Mermaid become numbered entities."""
    return _SPECIAL.sub(lambda special: f"#{ord(special[0])};", line)

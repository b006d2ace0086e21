"""Programs as graphs: nodes and edges, and the two languages that graph viewers read.

``dot`` and ``mermaid`` are texts of the ``Graph`` that ``program_graph`` makes of a ``Program``.

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
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad.primitives.index_keys import Key, index_text
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["Edge", "Graph", "Node", "dot", "markdown", "mermaid", "program_graph"]

_LONGEST: Final = 40
"""Longer lines are cut: a node is to be seen at a glance."""


@dataclass(frozen=True, slots=True)
class Node:
    """One box of a graph.

    Attributes
    ----------
    kind : str
        ``input``, ``constant``, ``equation``, ``guard`` or ``output``.
    lines : tuple of str
        What stands in it.
    source : str
        The user's line that it came from; empty where there is none.
    """

    kind: str
    lines: tuple[str, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """A variable on its way from the node that defines it to one that reads it.

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
        Each after those that it reads.
    edges : tuple of Edge
    """

    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def program_graph(program: Program) -> Graph:
    """The graph of a program."""
    draft = _GraphDraft(program)
    draft.given()
    for equation in program.equations:
        draft.equation(equation)
    draft.guards()
    draft.outputs()
    return Graph(program.name, tuple(draft.nodes), tuple(draft.edges))


class _GraphDraft:
    """A graph in the making."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.specs = program.specs()
        self.names = program.variable_names()
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.homes: dict[int, int] = {}  # by variable, the node that defines it
        self.next = 0

    def given(self) -> None:
        """Inputs and constants."""
        program = self.program
        for name, spec in zip(program.names, program.inputs, strict=True):
            own = self.names[self.next]
            text = name if own == name else f"{own} = {name}"
            self._append_given(Node("input", _clipped((text, str(spec)))))
        for constant in program.constants:
            shown = str(constant)
            text = f"{self.names[self.next]} = {shown}"
            dtype = str(constant.spec)
            lines = (text,) if shown.startswith(dtype) else (text, dtype)
            self._append_given(Node("constant", _clipped(lines)))

    def equation(self, equation: Equation) -> None:
        """An equation and the edges from what it reads."""
        results = range(self.next, self.next + len(equation.results))
        defined = ", ".join([f"{self.names[k]}: {self.specs[k]}" for k in results])
        settings = [_setting(name, value) for name, value in equation.settings]
        joined = " ".join(settings)
        if settings and len(joined) <= _LONGEST:
            settings = [joined]
        lines = _clipped((equation.name, *settings, defined or "nothing"))
        self._append(Node("equation", lines, equation.source), equation.operands, results)
        self.next = results.stop

    def guards(self) -> None:
        for guard in self.program.guards:
            lines = _clipped((f"guard {guard.use}", f"is {guard.value!r}"))
            self._append(Node("guard", lines, guard.source), (guard.variable,))

    def outputs(self) -> None:
        paths = self.program.result.paths()
        for path, variable in zip(paths, self.program.outputs, strict=True):
            lines = _clipped((f"result{path}", str(self.specs[variable])))
            self._append(Node("output", lines), (variable,))

    def _append_given(self, node: Node) -> None:
        self._append(node, (), (self.next,))
        self.next += 1

    def _append(self, node: Node, reads: Sequence[int], defines: Sequence[int] = ()) -> None:
        place = len(self.nodes)
        self.nodes.append(node)
        self.edges += [Edge(self.homes[k], place, str(self.specs[k])) for k in reads]
        for variable in defines:
            self.homes[variable] = place


def _setting(name: str, value: object) -> str:
    """A static parameter in short."""
    if isinstance(value, Key):
        return f"{name}=[{index_text(value)}]"
    if isinstance(value, Program):
        return f"{name}=<{value.name}>"
    return f"{name}={value if isinstance(value, np.dtype) else repr(value)}"


def _clipped(lines: Sequence[str]) -> tuple[str, ...]:
    shown = [_one_line(line) for line in lines]
    return tuple([x if len(x) <= _LONGEST else f"{x[: _LONGEST - 1]}…" for x in shown])


def _one_line(text: str) -> str:
    r"""Text without line breaks and without what no file format takes.

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
    """Lines as a string of DOT, which knows escapes of C and entities of HTML."""
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
# Beside quotes and HTML: what begins entities, comments, Markdown, formulas and line breaks.
_SPECIAL: Final = re.compile(r"[\"#%&<>\\`$|*]")


def mermaid(graph: Graph) -> str:
    """A graph as a flowchart in the language of Mermaid."""
    lines = ["flowchart TD"]
    for number, node in enumerate(graph.nodes):
        opening, closing = _BRACKETS[node.kind]
        text = "<br/>".join([_entities(line) for line in node.lines])
        lines.append(f'  n{number}{opening}"{text}"{closing}')
    lines += [f'  n{edge.tail} -->|"{_entities(edge.label)}"| n{edge.head}' for edge in graph.edges]
    return "\n".join(lines)


def _entities(line: str) -> str:
    """A line of a label with all that means something to Mermaid as numbered entities."""
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", line)


# ------------------------------------------------------------------------------------- Markdown

_MOST: Final = 300
"""A graph of more equations is not looked at, and takes a browser seconds to draw."""

_MOST_LINES: Final = 2000
"""More lines of text would keep a browser busy for seconds."""


def markdown(program: Program) -> str:
    """The graph in Mermaid, which notebooks draw; of a program too long for that, its text."""
    if len(program.equations) <= _MOST:
        return f"```mermaid\n{mermaid(program_graph(program))}\n```"
    lines = program.to_text().splitlines()
    omitted = len(lines) - _MOST_LINES
    if omitted > 0:
        lines[_MOST_LINES:] = [f"  ... {omitted} more lines"]
    shown = [_one_line(line) for line in lines]
    return "\n".join(["````", *shown, "````"])

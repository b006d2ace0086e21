"""Programs as graphs: whatever the program, the text is valid and complete."""

import html
import re
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.counts import MOST, added, calls_made
from tests.subjects import SUBJECTS
from tests.together import together
from tests.transforms.support import numbers

NAMES = tuple(SUBJECTS)

# Whoever reads the graph may be a parser, a browser or a terminal.
NASTY = '"quo\\ted" <b>&amp;</b> #35; `{[|]}` %%{x}%% $$\n\t\x00\x1b é \ud800 --> n0'
FILE = 'a<b>&"c"\n.py'


def nasty() -> fg.Program:
    """A program with NASTY in its name and its input's name, and most of it in the users' lines."""
    namespace: dict[str, Any] = {}
    exec(
        compile("def f(tree): return [-x if x > 0 else x for x in tree.values()]", FILE, "exec"),
        namespace,
    )
    namespace["f"].__name__ = NASTY
    return fg.program(namespace["f"])({NASTY: 2.0})


def expected_counts(program: fg.Program) -> tuple[int, int]:
    """How many nodes and how many edges a program's graph has."""
    nodes = len(program.inputs) + len(program.constants) + len(program.equations)
    ends = len(program.guards) + len(program.outputs)
    return nodes + ends, sum(len(each.operands) for each in program.equations) + ends


# -------------------------------------------------------------------------------- Graphviz

STRING = r'"(?:[^"\\\n]|\\["\\n])*"'
DOT_NODE = re.compile(rf"  n(\d+) \[label=({STRING}), shape=\w+(?:, \w+=(?:\w+|{STRING}))*\];")
DOT_EDGE = re.compile(rf"  n(\d+) -> n(\d+) \[label=({STRING})\];")


def read_dot(text: str) -> tuple[dict[int, str], list[tuple[int, int, str]]]:
    """The nodes and edges of a text, which must not contain anything else."""
    first, second, *lines, last = text.split("\n")
    assert re.fullmatch(rf"digraph {STRING} {{", first)
    assert second == '  node [fontname="Courier"];'
    assert last == "}"
    nodes: dict[int, str] = {}
    edges: list[tuple[int, int, str]] = []
    for line in lines:
        if node := DOT_NODE.fullmatch(line):
            nodes[int(node[1])] = plain_dot(node[2])
        else:
            edge = DOT_EDGE.fullmatch(line)
            assert edge, line
            edges.append((int(edge[1]), int(edge[2]), plain_dot(edge[3])))
    return nodes, edges


def plain_dot(text: str) -> str:
    """The text that Graphviz shows for a string."""
    unescaped = re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text[1:-1])
    return html.unescape(unescaped)


@together("name", NAMES)
def test_dot_has_a_node_for_everything_and_an_edge_for_every_use(name: str) -> None:
    staged = SUBJECTS[name].staged()
    nodes, edges = read_dot(staged.to_dot())
    assert (len(nodes), len(edges)) == expected_counts(staged)
    assert all(tail in nodes and head in nodes and tail < head for tail, head, _ in edges)
    specs = {str(spec) for spec in staged.specs()}
    assert {label for _, _, label in edges} <= specs


def test_dot_shows_operations_parameters_results_and_lines() -> None:
    line = test_dot_shows_operations_parameters_results_and_lines.__code__.co_firstlineno + 1
    staged = fg.program(lambda x: fnp.sum(x[1:] * 2.0, axis=0) > 0)(numbers(3))
    nodes, _ = read_dot(staged.to_dot())
    assert list(nodes.values()) == [
        "x\nfloat64[3]",
        "a = 2.0\nfloat64[]",
        "b = 0\nint64[]",
        "view\nkey=[1:]\nc: float64[2]",
        "multiply\nd: float64[2]",
        "sum\naxis=(0,) keepdims=False\ne: float64[]",
        "greater\nf: bool[]",
        "result\nbool[]",
    ]
    assert f'tooltip="test_graph.py:{line + 1}"' in staged.to_dot()


def test_dot_escapes_everything() -> None:
    nodes, _ = read_dot(nasty().to_dot())
    assert any("quo\\\\ted" in label and "&amp;" in label for label in nodes.values())
    assert all(label.replace("\n", "").isprintable() for label in nodes.values())


def test_long_parameters_are_cut() -> None:
    staged = fg.program(lambda x: fnp.reshape(x, (1,) * 30))(np.ones(1))
    nodes, _ = read_dot(staged.to_dot())
    assert any("shape=(1, 1" in label and "…" in label for label in nodes.values())
    assert max(len(line) for label in nodes.values() for line in label.split("\n")) == 40


# -------------------------------------------------------------------------------- Mermaid

MERMAID_TEXT = r'"(?:[^"#&`\\$%|]|#\d+;)*"'
MERMAID_NODE = re.compile(rf"  n(\d+)(\(\[|\(|\[|{{{{)({MERMAID_TEXT})(\]\)|\)|\]|}}}})")
MERMAID_EDGE = re.compile(rf"  n(\d+) -->\|({MERMAID_TEXT})\| n(\d+)")
CLOSING = {"([": "])", "(": ")", "[": "]", "{{": "}}"}


def plain_mermaid(text: str) -> str:
    """The text that Mermaid shows for a text."""
    lines = text[1:-1].split("<br/>")
    assert not any("<" in line or ">" in line for line in lines)
    return "\n".join(re.sub(r"#(\d+);", lambda code: chr(int(code[1])), line) for line in lines)


def read_mermaid(text: str) -> tuple[dict[int, str], list[tuple[int, int, str]]]:
    first, *lines = text.split("\n")
    assert first == "flowchart TD"
    nodes: dict[int, str] = {}
    edges: list[tuple[int, int, str]] = []
    for line in lines:
        if node := MERMAID_NODE.fullmatch(line):
            assert CLOSING[node[2]] == node[4]
            nodes[int(node[1])] = plain_mermaid(node[3])
        else:
            edge = MERMAID_EDGE.fullmatch(line)
            assert edge, line
            edges.append((int(edge[1]), int(edge[3]), plain_mermaid(edge[2])))
    return nodes, edges


@together("name", NAMES)
def test_mermaid_and_dot_say_the_same(name: str) -> None:
    staged = SUBJECTS[name].staged()
    assert read_mermaid(staged.to_mermaid()) == read_dot(staged.to_dot())


def test_mermaid_escapes_everything() -> None:
    assert read_mermaid(nasty().to_mermaid()) == read_dot(nasty().to_dot())


def test_a_graph_takes_calls_as_lines_pass_steps() -> None:
    def amount(steps: int) -> int:
        def f(x: Any) -> Any:
            values = [x]
            for _ in range(steps):
                values.append(fnp.sin(values[-1]))
            for value in reversed(values[:-1]):
                x = x * value
            return x

        return calls_made(fg.program(f)(numbers(3)).to_mermaid)

    assert added(amount) < 2 * MOST  # every value passes all steps: a square

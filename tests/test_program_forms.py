"""Programs as graphs and pictures: whatever the program, the text is valid and complete."""

import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.source.layout import Layout, layered
from tests.counts import MOST, added, calls_made
from tests.programs import SUBJECTS
from tests.transforms.support import numbers

NAMES = tuple(SUBJECTS)

# Whoever reads the graph may be a parser, a browser or a terminal.
NASTY = '"quo\\ted" <b>&amp;</b> #35; `{[|]}` %%{x}%% $$\n\t\x00\x1b é \ud800 --> n0'
FILE = 'a<b>&"c"\n.py'


def nasty() -> fg.Program:
    """A program that has NASTY in its name and its input's, and much of it in the users' lines."""
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
    """Nodes and edges of a text that has nothing else in it."""
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
    """What Graphviz shows for a string."""
    unescaped = re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), text[1:-1])
    return html.unescape(unescaped)


@pytest.mark.parametrize("name", NAMES)
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
    assert f'tooltip="test_program_forms.py:{line + 1}"' in staged.to_dot()


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
    """What Mermaid shows for a text."""
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


@pytest.mark.parametrize("name", NAMES)
def test_mermaid_and_dot_say_the_same(name: str) -> None:
    staged = SUBJECTS[name].staged()
    assert read_mermaid(staged.to_mermaid()) == read_dot(staged.to_dot())


def test_mermaid_escapes_everything() -> None:
    assert read_mermaid(nasty().to_mermaid()) == read_dot(nasty().to_dot())


# -------------------------------------------------------------------------------- SVG

SVG = "{http://www.w3.org/2000/svg}"


def picture(program: fg.Program) -> ET.Element:
    return ET.fromstring(program._repr_svg_())


def rectangles(root: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box."""
    found = []
    for box in root.iter(f"{SVG}rect"):
        x, y, width, height = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        found.append((x, y, x + width, y + height))
    return found


def texts(root: ET.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_has_every_box_apart_from_the_others_and_inside_of_it(name: str) -> None:
    staged = SUBJECTS[name].staged()
    root = picture(staged)
    boxes = rectangles(root)
    assert len(boxes) == expected_counts(staged)[0]
    for first, second in combinations(boxes, 2):
        assert (
            first[2] <= second[0]
            or second[2] <= first[0]
            or first[3] <= second[1]
            or second[3] <= first[1]
        )
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    for left, top, right, bottom in boxes:
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    operations = [equation.operation.name for equation in staged.equations]
    assert set(operations) <= set(texts(root))


def test_a_picture_tells_the_users_line() -> None:
    line = test_a_picture_tells_the_users_line.__code__.co_firstlineno + 2
    root = picture(fg.program(lambda x: fnp.sin(x))(2.0))
    assert [each.text for each in root.iter(f"{SVG}title")] == [f"test_program_forms.py:{line}"]


def test_a_picture_escapes_everything() -> None:
    root = picture(nasty())
    assert any("&amp;" in text and "<b>" in text for text in texts(root))
    assert any(each.text == 'a<b>&"c"\\n.py:1' for each in root.iter(f"{SVG}title"))


def test_a_picture_needs_nothing_of_the_page_that_it_is_in() -> None:
    root = picture(SUBJECTS["mlp"].staged())
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags == {"svg", "g", "path", "rect", "text", "title"}
    assert not any(
        {"id", "class", "style", "href"} & set(element.attrib) for element in root.iter()
    )


def brightness(color: str) -> float:
    """From 0, black, to 1, white."""
    red, green, blue = (int(color[k : k + 2], 16) / 255 for k in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_picture_can_be_read_on_light_and_on_dark_pages() -> None:
    root = picture(SUBJECTS["guards"].staged())
    fills = {box.attrib["fill"] for box in root.iter(f"{SVG}rect")}
    words = {text.attrib["fill"] for text in root.iter(f"{SVG}text")}
    lines = {each.attrib["stroke"] for each in root.iter() if "stroke" in each.attrib}
    assert len(fills) == 5
    assert min(map(brightness, fills)) - max(map(brightness, words)) > 0.6
    assert all(0.4 < brightness(color) < 0.6 for color in lines)


def long_program(count: int) -> fg.Program:
    def f(x: Any, unused: Any) -> Any:
        for _ in range(count):
            x = x + 1.0
        return x, unused

    return fg.program(f)(2.0, 3.0)


def test_a_picture_of_many_equations_shows_the_first_and_says_how_many_more() -> None:
    root = picture(long_program(1000))
    assert texts(root).count("add") == 300
    assert "... and 700 more equations, which to_text() shows" in texts(root)
    assert not any("result" in text or "unused" in text for text in texts(root))
    assert not any("more" in text for text in texts(picture(long_program(300))))


def test_a_picture_of_a_gradient_takes_calls_as_lines_pass_steps() -> None:
    def amount(steps: int) -> int:
        def f(x: Any) -> Any:
            values = [x]
            for _ in range(steps):
                values.append(fnp.sin(values[-1]))
            for value in reversed(values[:-1]):
                x = x * value
            return x

        return calls_made(fg.program(f)(numbers(3))._repr_svg_)

    assert added(amount) < 2 * MOST  # every value passes all steps: a square


# -------------------------------------------------------------------------------- HTML


def read_html(program: fg.Program) -> ET.Element:
    """The elements; the text is well-formed XML, too."""
    return ET.fromstring(f"<root>{program._repr_html_()}</root>")


@pytest.mark.parametrize("name", ["mlp", "guards", "custom_vjp", "no_inputs"])
def test_html_is_the_picture_and_the_text(name: str) -> None:
    staged = SUBJECTS[name].staged()
    root = read_html(staged)
    assert [element.tag for element in root] == ["div", "details"]
    assert root.find(f"div/{SVG}svg") is not None
    assert root.findtext("details/pre") == staged.to_text()
    assert root.findtext("details/summary") == f"program {staged.name}"


def test_html_escapes_everything() -> None:
    text = read_html(nasty()).findtext("details/pre")
    assert text is not None
    assert "<b>&amp;</b>" in text
    assert text.replace("\n", "").isprintable()


def test_html_of_many_equations_is_their_text_up_to_a_length() -> None:
    staged = long_program(301)
    root = read_html(staged)
    assert root.findtext("div/pre") == staged.to_text()
    assert not list(root.iter(f"{SVG}svg"))
    text = read_html(long_program(3000)).findtext("div/pre")
    assert text is not None
    lines = text.splitlines()
    assert len(lines) == 2001
    assert lines[-1] == f"  ... {3003 - 2000} more lines"


# -------------------------------------------------------------------------------- places


@st.composite
def graphs(draw: Any) -> tuple[list[tuple[float, float]], list[tuple[int, int]], set[int]]:
    count = draw(st.integers(1, 14))
    sizes = [(draw(st.integers(1, 90)), draw(st.integers(5, 60))) for _ in range(count)]
    pairs = [(tail, head) for head in range(count) for tail in range(head)]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=25)) if pairs else []
    sources = set(range(count)) - {head for _, head in edges}
    return sizes, edges, {box for box in sources if draw(st.booleans())}


def boxes_of(plan: Layout, sizes: Any) -> list[tuple[float, float, float, float]]:
    return [
        (x, y, x + width, y + height)
        for (x, y), (width, height) in zip(plan.corners, sizes, strict=True)
    ]


def pieces(plan: Layout) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    for route in plan.routes:
        yield from pairwise(route.points)


@given(graphs())
def test_boxes_do_not_overlap_and_lines_run_down_between_them(graph: Any) -> None:
    sizes, edges, floating = graph
    plan = layered(sizes, edges, floating)
    boxes = boxes_of(plan, sizes)
    for first, second in combinations(boxes, 2):
        apart = first[2] + 10 < second[0] or second[2] + 10 < first[0]
        assert apart or first[3] + 30 < second[1] or second[3] + 30 < first[1]
    for (x, y), (to_x, to_y) in pieces(plan):
        assert y < to_y
        for left, top, right, bottom in boxes:
            # A bend stays between the heights where it begins and ends, where no box reaches.
            beside = max(x, to_x) < left or right < min(x, to_x)
            assert beside or to_y <= top or bottom <= y
    assert min(left for left, _, _, _ in boxes) > -1e-9
    assert max(right for _, _, right, _ in boxes) < plan.width + 1e-9
    assert max(bottom for _, _, _, bottom in boxes) == plan.height


@given(graphs())
def test_every_edge_has_a_line_from_its_tail_to_its_head(graph: Any) -> None:
    sizes, edges, floating = graph
    plan = layered(sizes, edges, floating)
    boxes = tuple(enumerate(boxes_of(plan, sizes)))
    starts = {place((left + right) / 2, bottom): k for k, (left, _, right, bottom) in boxes}
    ends = {place((left + right) / 2, top): k for k, (left, top, right, _) in boxes}
    for route in plan.routes:  # an edge may leave a line at the lower end of any layer
        if not route.arrives:
            tail = starts[place(*route.points[0])]
            for (x, y), (to_x, to_y) in pairwise(route.points):
                passed = [bottom for bottom in bottoms(plan) if x == to_x and y <= bottom <= to_y]
                starts.update({place(x, bottom): tail for bottom in passed})
    arriving = [route.points for route in plan.routes if route.arrives]
    found = {(starts[place(*points[0])], ends[place(*points[-1])]) for points in arriving}
    assert found == set(edges)


def place(x: float, y: float) -> tuple[float, float]:
    return round(x, 6), round(y, 6)


def bottoms(plan: Layout) -> set[float]:
    """The lower end of every layer: 36 above the boxes of the next one."""
    return {y - 36 for _, y in plan.corners if y} | {plan.height}


@given(graphs())
def test_a_floating_box_stands_right_above_its_first_reader(graph: Any) -> None:
    sizes, edges, floating = graph
    plan = layered(sizes, edges, floating)
    tops = sorted({y for _, y in plan.corners})
    for box in floating:
        readers = [plan.corners[head][1] for tail, head in edges if tail == box]
        layer = tops.index(plan.corners[box][1])
        assert layer == (tops.index(min(readers)) - 1 if readers else 0)


def test_a_chain_is_one_straight_line() -> None:
    plan = layered([(30, 10)] * 4, [(0, 1), (1, 2), (2, 3)])
    assert plan.corners == ((0, 0), (0, 46), (0, 92), (0, 138))
    assert all(route.arrives and len(route.points) == 2 for route in plan.routes)


def test_nothing_at_all_has_no_size() -> None:
    assert layered([], []) == Layout((), (), 0.0, 0.0)

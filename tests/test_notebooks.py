"""In notebooks values are small tables, without scripts and accessible to screen readers."""

from __future__ import annotations

import inspect
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, random
from tests.together import together


class Table(HTMLParser):
    """The tags of a piece of HTML, properly nested, and its texts by tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.scopes: list[str | None] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        assert tag in ("td", "th") or not attrs or "svg" in self.open
        self.scopes += [dict(attrs).get("scope")] if tag == "th" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)


def html(x: Any) -> str:
    text: str = x._repr_html_()
    assert len(text) < 10_000
    assert not {"script", "style", "img", "iframe"} & set(Table(text).tags)
    return text


def test_a_matrix_is_a_table_with_a_caption_and_headers() -> None:
    table = Table(html(fg.tensor(np.arange(50.0).reshape(25, 2) / 2)))
    assert table.texts["caption"] == ["Tensor, float64, shape (25, 2)"]
    assert table.texts["td"][:4] == ["0.", "0.5", "1.", "1.5"]
    assert table.texts["th"][:4] == ["0", "1", "0", "1"]
    assert table.scopes[:4] == ["col", "col", "row", "row"]


def test_a_vector_is_one_row() -> None:
    table = Table(html(fg.tensor(np.arange(50) % 2 == 0)))
    assert table.texts["caption"] == ["Tensor, bool, shape (50,)"]
    assert table.texts["td"][:3] == ["True", "False", "True"]
    assert table.scopes == ["col"] * 11


@pytest.mark.parametrize("shape", [(1000, 1000), (10**6,), (11, 5), (3, 40), (60, 50, 40)])
def test_what_is_large_is_shown_in_part(shape: tuple[int, ...]) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    text = html(fg.tensor(x))
    assert "…" in text or "..." in text
    assert str(shape) in text
    if len(shape) < 3:
        assert f"<td>{np.array2string(np.asarray(x.flat[-1]))}</td>" in text
        assert Table(text).tags.count("td") <= 11 * 12


def test_three_axes_are_text() -> None:
    text = html(fg.tensor(np.ones((2, 5, 5), complex)))
    assert "Tensor, complex128, shape (2, 5, 5)" in text
    assert "1.+0.j" in text
    assert Table(text).tags == ["p", "pre"]


@together("shape", [(), (0,), (0, 3), (3,), (7, 7), (2, 2, 2)])
def test_few_elements_are_text(shape: tuple[int, ...]) -> None:
    x = fg.tensor(np.ones(shape, complex))
    table = Table(html(x))
    assert table.tags == ["pre"]
    assert table.texts["pre"] == [repr(x)]


def test_a_model_prints_dtypes_and_shapes() -> None:
    model = nn.MLP.init(random.key(0), (20, 64, 10))
    layer = "Linear(weight=f64[20,64], bias=f64[64])"
    assert repr(model) == (
        f"MLP(\n  layers=(\n    {layer},\n    Linear(weight=f64[64,10], bias=f64[10]),\n  ),\n"
        "  activation=relu,\n)"
    )
    assert repr({"a": [model.layers[0]]}) == f"{{'a': [{layer}]}}"
    assert repr(nn.Sequential(nn.relu, nn.Dropout(0.1))) == (
        "Sequential(layers=(Activation(function=relu), Dropout(rate=0.1)))"
    )
    half = fg.tree.cast(model.layers[1], "float16")
    assert repr(half) == "Linear(weight=f16[64,10], bias=f16[10])"
    seen: list[str] = []

    def loss(model: Any) -> Any:
        seen.append(repr(model))
        return model(np.ones(20)).sum()

    fg.jit(fg.grad(loss))(model)
    assert set(seen) == {repr(model)}


def test_records_of_the_users_print_their_numbers() -> None:
    @fg.pytree
    class Point:
        x: Any
        parts: Any
        unit: str = fg.static_field(default="m")

    @fg.pytree
    class Named:
        x: Any

        def __repr__(self) -> str:
            return "named"

    shown = repr(Point(1.5, (Named(0.0), {"k": np.ones(3, bool)}, [fg.tensor(2.0)], (1,))))
    inner = "(named, {'k': bool[3]}, [Tensor(2.0)], (1,))"
    assert shown.endswith(f"Point(\n  x=1.5,\n  parts={inner},\n  unit='m',\n)")


def test_an_optimizer_prints_as_its_call() -> None:
    def decay(count: Any) -> Any:
        return 0.1 / (count + 1)

    sgd = "sgd(learning_rate=0.1, momentum=0.0, nesterov=False)"
    assert repr(optim.sgd(0.1)) == sgd
    assert html(optim.sgd(0.1)) == f"<pre>{sgd}</pre>"
    assert repr(optim.sgd(learning_rate=decay)) == sgd.replace("0.1", "decay")
    assert repr(optim.sam(optim.sgd(0.1), 0.05)).startswith(f"sam(\n  optimizer={sgd},\n")
    chain = repr(optim.chain(optim.clip_by_norm(1.0), optim.sgd(0.1)))
    assert chain.startswith("chain(\n  clip_by_norm(max_norm=1.0, per='tree', eps=0.001),\n  sgd(")
    assert repr(pickle.loads(pickle.dumps(optim.adam(0.1)))) == repr(optim.adam(0.1))
    schedule = optim.schedules.cosine(1.0, 0.1, 100)
    assert "learning_rate=cosine(start=1.0, end=0.1" in repr(optim.adam(schedule))
    for name in optim.__all__:
        make = getattr(optim, name)
        if inspect.isfunction(make) and "Optimizer[" in str(inspect.signature(make)):
            assert inspect.unwrap(make) is not make


def test_summaries_and_costs_are_tables() -> None:
    model = nn.Linear.init(random.key(0), 3, 2)
    table = Table(html(nn.summary(model, (5, 3))))
    assert table.texts["caption"] == ["Linear: 8 numbers in 2 arrays, 70 operations"]
    assert table.texts["th"] == ["path", "shape", "dtype", "count", "operations", "weight", "bias"]
    assert table.texts["td"][:4] == ["(3, 2)", "float64", "6", "60"]
    table = Table(html(fg.jit(model).lower(np.ones(3)).costs))
    assert "arithmetic operations" in table.texts["caption"][0]
    assert table.texts["th"][:2] == ["operation", "equations"]


def test_a_traced_value_is_its_text() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(html(x))
        return x * x

    fg.grad(f)(2.0)
    fg.vmap(f)(np.ones(3))
    fg.jit(f)(2.0)
    assert seen[0] == "<pre>Traced(2.0, in reverse mode)</pre>"
    assert all("Traced(float64" in text for text in seen[1:3])


def test_a_jitted_function_says_what_it_takes_and_does() -> None:
    @fg.jit
    def scaled(x: Any, by: float = 2.0) -> Any:
        """Scale <x> & return it.

        At length.
        """
        return x * by

    table = Table(html(scaled))
    assert table.texts["caption"] == ["jit"]
    assert table.scopes == ["row", "row"]
    assert "".join(table.texts["code"]) in (
        "scaled(x: 'Any', by: 'float' = 2.0) -> 'Any'Scale <x> & return it.",
        "scaled(x: Any, by: float = 2.0) -> AnyScale <x> & return it.",
    )
    assert "&lt;x&gt; &amp; return" in html(scaled)
    assert "At length" not in html(scaled)
    assert Table(html(fg.jit(lambda x: x))).texts["code"] == ["<lambda>(x)"]


def test_long_texts_are_cut_off() -> None:
    def f(x: Any) -> Any:
        return x

    f.__doc__ = "word " * 10_000
    assert len(html(fg.jit(f))) < 3000
    assert html(fg.jit(f)).count("word") < 500


def test_a_model_and_its_state_are_tables_of_their_arrays_and_options() -> None:
    model = nn.MLP.init(random.key(0), (2, 3, 2))
    table = Table(html(model))
    assert table.texts["caption"] == ["MLP: 17 numbers in 4 arrays"]
    names = ["layers[0].weight", "layers[0].bias", "layers[1].weight", "layers[1].bias"]
    assert table.texts["th"] == ["field", "shape", "dtype", *names, "activation"]
    assert table.texts["td"][:4] == ["(2, 3)", "float64", "(3,)", "float64"]
    assert table.texts["td"][-1] == "relu"
    assert table.scopes == ["col"] * 3 + ["row"] * 5
    state = html(optim.adam(0.1).init(model))
    assert "<caption>AdamState: 36 numbers in 10 arrays</caption>" in state
    assert '<th scope="row">count</th><td colspan="2">0</td>' in state


def test_a_class_of_the_users_has_a_table_unless_it_has_a_form_of_its_own() -> None:
    @fg.pytree
    class Named:
        values: dict[str, Any]

    @fg.pytree(slots=True)
    class Drawn:
        x: Any

        def _repr_html_(self) -> str:
            return "<p>drawn</p>"

    assert "values[&#x27;&lt;a&gt;&#x27;]" in html(Named({"<a>": np.zeros(2)}))
    assert html(Drawn(1.0)) == "<p>drawn</p>"
    many = html(Named({str(number): number for number in range(1000)}))
    assert Table(many).texts["caption"] == ["Named: 0 numbers in 0 arrays"]
    assert "…" in many
    assert "values[&#x27;999&#x27;]" in many
    seen = []

    def f(tree: Named) -> Any:
        seen.append(html(tree))
        return tree.values["a"]

    fg.jit(f)(Named({"a": np.zeros(2)}))
    assert "<td>(2,)</td><td>float64</td>" in seen[0]


def test_a_program_is_a_picture_and_its_listing() -> None:
    program = fg.program(lambda x: fnp.where(x < 1.0, x, 2.0))(0.0)
    table = Table(html(program))
    assert table.texts["figcaption"] == [f"Program, {len(program.equations)} operations"]
    assert "".join(table.texts["code"]) == program.to_text()
    assert table.texts["text"][:2] == ["x", "float64[]"]
    assert table.tags.count("rect") == 4 + len(program.equations)  # x, two constants, the result


def _boxes(text: str) -> list[tuple[float, ...]]:
    pattern = 'x="(.*?)" y="(.*?)" width="(.*?)" height="(.*?)"'
    return [tuple(map(float, box)) for box in re.findall(f"<rect {pattern}", text)]


@together("depth", [1, 3, 9])
def test_boxes_do_not_overlap_and_edges_lead_down(depth: int) -> None:
    def f(params: Any, x: Any) -> Any:
        for weight in params:
            x = fnp.tanh(x @ weight) + x
        return fnp.sum(x) if x[0] > 0 else x

    params, x = [np.eye(3)] * depth, np.ones(3)
    text = fg.program(f)(params, x)._repr_html_()
    assert len(text) < 30_000
    boxes = _boxes(text)
    for k, (x0, y0, width, height) in enumerate(boxes):
        for x1, y1, other, tall in boxes[:k]:
            beside = x0 + width < x1 or x1 + other < x0
            assert beside or y0 + height < y1 or y1 + tall < y0
    for line in re.findall('d="(.*?)m-3', text):
        heights = [float(point.split()[1]) for point in re.split("[MCL]", line) if point]
        assert heights == sorted(heights)
    left, _, right, lowest = map(float, re.search('viewBox="(.*?)"', text)[1].split())  # type: ignore[index]
    assert all(left <= x and x + width <= left + right for x, _, width, _ in boxes)
    assert all(y + height <= lowest for _, y, _, height in boxes)


def test_a_long_program_is_cut_off() -> None:
    def f(x: Any) -> Any:
        for _ in range(1000):
            x = x + 1.0
        return x

    text = fg.program(f)(0.0)._repr_html_()
    assert text.count("\n") == 200
    assert f"... {1003 - 200} more lines" in text


@fg.pytree
class Layered:
    """A record of anything."""

    layers: Any


def test_the_time_to_print_grows_with_a_record_not_with_its_depth() -> None:
    deep: Any = [1.5]
    for _ in range(60):  # 2**60 texts if a level made those of the next one twice
        deep = [deep, "a text that takes some room on its line"]
    assert repr(optim.sgd(0.1)) in repr(Layered((optim.sgd(0.1), deep)))

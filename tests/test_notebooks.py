"""In notebooks values are small tables, without scripts and accessible to screen readers."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim, random


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
        assert tag in ("td", "th") or not attrs
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
    table = Table(html(fg.tensor([[1.5, 2.0], [3.0, -4.0]])))
    assert table.texts["caption"] == ["Tensor, float64, shape (2, 2)"]
    assert table.texts["td"] == ["1.5", "2.", "3.", "-4."]
    assert table.texts["th"] == ["0", "1", "0", "1"]
    assert table.scopes == ["col", "col", "row", "row"]


def test_a_vector_is_one_row() -> None:
    table = Table(html(fg.tensor([True, False, True])))
    assert table.texts["caption"] == ["Tensor, bool, shape (3,)"]
    assert table.texts["td"] == ["True", "False", "True"]
    assert table.scopes == ["col"] * 3


@pytest.mark.parametrize("shape", [(1000, 1000), (10**6,), (11, 3), (3, 40), (60, 50, 40)])
def test_what_is_large_is_shown_in_part(shape: tuple[int, ...]) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    text = html(fg.tensor(x))
    assert "…" in text or "..." in text
    assert str(shape) in text
    if len(shape) < 3:
        assert f"<td>{np.array2string(np.asarray(x.flat[-1]))}</td>" in text
        assert Table(text).tags.count("td") <= 11 * 12


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 2, 2)])
def test_other_shapes_are_text(shape: tuple[int, ...]) -> None:
    text = html(fg.tensor(np.ones(shape, complex)))
    assert f"Tensor, complex128, shape {shape}" in text
    assert ("1.+0.j" in text) == (0 not in shape)
    assert Table(text).tags == ["p", "pre"]


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


def test_a_program_is_its_listing() -> None:
    program = fg.program(lambda x: fnp.where(x < 1.0, x, 2.0))(0.0)
    table = Table(html(program))
    assert table.texts["figcaption"] == [f"Program, {len(program.equations)} operations"]
    assert "".join(table.texts["pre"]) == program.to_text()


def test_a_long_program_is_cut_off() -> None:
    def f(x: Any) -> Any:
        for _ in range(1000):
            x = x + 1.0
        return x

    text = fg.program(f)(0.0)._repr_html_()
    assert text.count("\n") == 200
    assert f"... {1003 - 200} more lines" in text

"""HTML for notebooks: small tables without scripts or styles, which screen readers can read.

>>> import numpy as np
>>> print(array_table(np.array([1.5, 2.0]), "Tensor"))
<table><caption>Tensor, float64, shape (2,)</caption>
<tr><th scope="col">0</th><th scope="col">1</th></tr>
<tr><td>1.5</td><td>2.</td></tr></table>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from inspect import signature
from math import prod
from typing import Any, Final

import numpy as np

_MOST: Final = 10
"""The most rows and columns that are shown; of longer axes, the first and the last."""

_MOST_LETTERS: Final = 2000

_MOST_LINES: Final = 200
"""The most lines of a program that are shown."""

_MOST_LEAVES: Final = 50
"""The most leaves of a tree that are shown."""


def array_table(array: np.ndarray[Any, Any], name: str) -> str:
    """An array of one or two axes as a table whose headers are positions; others as text."""
    caption = f"{name}, {array.dtype}, shape {array.shape}"
    if array.ndim not in (1, 2) or not array.size:
        return f"<p>{escape(caption)}</p>{text_block(np.array2string(array, threshold=100))}"
    columns = _positions(array.shape[-1])
    matrix = array.ndim == 2
    corner = ["<td></td>"] * matrix
    rows = ["".join([*corner, *[_header(column, "col") for column in columns]])]
    for row in _positions(array.shape[0]) if matrix else [None]:
        values = array if row is None else array[row] if isinstance(row, int) else None
        header = [] if row is None else [_header(row, "row")]
        rows.append("".join([*header, *[_cell(values, column) for column in columns]]))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>\n{body}</table>"


def _positions(size: int, most: int = _MOST) -> Sequence[int | str]:
    """The positions along an axis that are shown."""
    if size <= most:
        return range(size)
    half = most // 2
    return [*range(half), "…", *range(size - half, size)]


def _header(position: int | str, scope: str) -> str:
    return f'<th scope="{scope}">{position}</th>'


def _cell(values: np.ndarray[Any, Any] | None, column: int | str) -> str:
    if values is None or isinstance(column, str):
        return "<td>…</td>"
    return f"<td>{escape(np.array2string(values[column]))}</td>"


def text_block(text: str) -> str:
    """Text as a block, cut off if it is long.

    >>> text_block("a < b")
    '<pre>a &lt; b</pre>'
    """
    shown = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + " …"
    return f"<pre>{escape(shown)}</pre>"


def program_text(text: str, kind: str) -> str:
    """The listing of a program, line by line, cut off if it is long."""
    lines = text.splitlines()
    omitted = len(lines) - _MOST_LINES
    if omitted > 0:
        lines[_MOST_LINES:] = [f"  ... {omitted} more lines"]
    listing = escape("\n".join(lines))
    return f"<figure><figcaption>{escape(kind)}</figcaption><pre>{listing}</pre></figure>"


def tree_table(name: str, leaves: Sequence[tuple[str, Any]]) -> str:
    """The leaves of a tree as a table: the path, shape and dtype of each, or its number.

    >>> print(tree_table("State", [("count", 3), ("mean", np.zeros((2, 3)))]))
    <table><caption>State: 7 numbers in 2 leaves</caption>
    <tr><th scope="col">leaf</th><th scope="col">shape</th><th scope="col">dtype</th></tr>
    <tr><th scope="row">count</th><td colspan="2">3</td></tr>
    <tr><th scope="row">mean</th><td>(2, 3)</td><td>float64</td></tr></table>
    """
    size = sum(prod(getattr(leaf, "shape", ())) for _, leaf in leaves)
    headers = [_header(title, "col") for title in ("leaf", "shape", "dtype")]
    rows = ["".join(headers)]
    for place in _positions(len(leaves), _MOST_LEAVES):
        path, leaf = ("…", "…") if isinstance(place, str) else leaves[place]
        rows.append(_header(escape(path), "row") + _leaf_cells(leaf))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    caption = escape(f"{name}: {size} numbers in {len(leaves)} leaves")
    return f"<table><caption>{caption}</caption>\n{body}</table>"


def _leaf_cells(leaf: Any) -> str:
    shape = getattr(leaf, "shape", ())
    if shape:
        return f"<td>{shape}</td><td>{leaf.dtype}</td>"
    return f'<td colspan="2">{escape(str(leaf)[:_MOST_LETTERS])}</td>'


def function_table(function: Callable[..., object], kind: str) -> str:
    """A table about a wrapped function: its name, its arguments, and what it does."""
    name = getattr(function, "__name__", repr(function))
    try:
        arguments = str(signature(function))
    except (TypeError, ValueError):  # not every function says what it takes
        arguments = "(...)"
    summary = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
    rows = (("function", f"{name}{arguments}"), ("does", summary))
    cells = "\n".join(
        f'<tr><th scope="row">{key}</th><td><code>{escape(value[:_MOST_LETTERS])}</code></td></tr>'
        for key, value in rows
        if value
    )
    return f"<table><caption>{escape(kind)}</caption>\n{cells}</table>"

"""HTML for notebooks: small tables without scripts or styles, which screen readers can read.

>>> import numpy as np
>>> print(array_table(np.array([1.5, 2.0]), "Tensor"))
<table><caption>Tensor, float64, shape (2,)</caption>
<tr><th scope="col">0</th><th scope="col">1</th></tr>
<tr><td>1.5</td><td>2.</td></tr></table>
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from inspect import signature
from math import prod
from typing import Any, Final

import numpy as np

_MOST: Final = 10
"""The maximum number of rows and columns; longer axes show the first and the last."""

_FEW: Final = 50
"""Arrays with fewer elements are shown as text."""

_MOST_LETTERS: Final = 2000

_MOST_LINES: Final = 200
"""The maximum number of lines of a program."""

_MOST_PARTS: Final = 50
"""The maximum number of arrays and options of a model."""


def array_html(array: np.ndarray[Any, Any], name: str, text: str) -> str:
    """An array as text if it has few elements, else as a table.

    >>> array_html(np.array([1.5, 2.0]), "Tensor", "Tensor([1.5, 2. ])")
    '<pre>Tensor([1.5, 2. ])</pre>'
    """
    return text_block(text) if array.size < _FEW else array_table(array, name)


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


def program_text(text: str, kind: str, picture: str = "") -> str:
    """The listing of a program, line by line, cut off if it is long; folded below a picture."""
    lines = text.splitlines()
    omitted = len(lines) - _MOST_LINES
    if omitted > 0:
        lines[_MOST_LINES:] = [f"  ... {omitted} more lines"]
    shown = f"<pre><code>{escape(chr(10).join(lines))}</code></pre>"
    if picture:
        shown = f"{picture}<details><summary>Listing</summary>{shown}</details>"
    return f"<figure><figcaption>{escape(kind)}</figcaption>{shown}</figure>"


def record_table(record: object) -> str:
    """A model or a state as a table: a row for each array, with its shape, and for each option.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class State:
    ...     count: int
    ...     means: list[np.ndarray]
    >>> print(record_table(State(3, [np.zeros((2, 3))])))
    <table><caption>State: 6 numbers in 1 array</caption>
    <tr><th scope="col">field</th><th scope="col">shape</th><th scope="col">dtype</th></tr>
    <tr><th scope="row">count</th><td colspan="2">3</td></tr>
    <tr><th scope="row">means[0]</th><td>(2, 3)</td><td>float64</td></tr></table>
    """
    parts = [*_parts("", record)]
    sizes = [prod(value.shape) for _, value in parts if hasattr(value, "shape")]
    plural = "s" * (len(sizes) != 1)
    caption = f"{type(record).__name__}: {sum(sizes)} numbers in {len(sizes)} array{plural}"
    rows = ["".join(_header(title, "col") for title in ("field", "shape", "dtype"))]
    for place in _positions(len(parts), _MOST_PARTS):
        path, value = ("…", "…") if isinstance(place, str) else parts[place]
        rows.append(_header(escape(path), "row") + _part_cells(value))
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>\n{body}</table>"


def _parts(path: str, value: object) -> Iterator[tuple[str, Any]]:
    """The arrays and options in a tree of records, mappings and sequences, with their paths."""
    if is_dataclass(value):
        children = {f".{field.name}": getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, dict):
        children = {f"[{key!r}]": child for key, child in value.items()}
    elif isinstance(value, (list, tuple)):
        children = {f"[{place}]": child for place, child in enumerate(value)}
    else:
        yield path.removeprefix("."), value
        return
    for step, child in children.items():
        yield from _parts(path + step, child)


def _part_cells(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"<td>{value.shape}</td><td>{value.dtype}</td>"
    text = getattr(value, "__name__", None) or str(value)
    return f'<td colspan="2">{escape(text[:_MOST_LETTERS])}</td>'


def text_table(caption: str, rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, whose first row and first column are headers.

    >>> print(text_table("sizes", [("name", "count"), ("w", "3")]))
    <table><caption>sizes</caption>
    <tr><th scope="col">name</th><th scope="col">count</th></tr>
    <tr><th scope="row">w</th><td>3</td></tr></table>
    """
    head, *others = [[escape(cell) for cell in row] for row in rows]
    lines = ["".join([_header(cell, "col") for cell in head])]
    for first, *cells in others:
        lines.append(_header(first, "row") + "".join([f"<td>{cell}</td>" for cell in cells]))
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption>\n{body}</table>"


def function_table(function: Callable[..., object], kind: str) -> str:
    """A table about a wrapped function: its name, its arguments, and its summary."""
    name = getattr(function, "__name__", repr(function))
    try:
        arguments = str(signature(function))
    except (TypeError, ValueError):  # not every function has a signature
        arguments = "(...)"
    summary = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
    rows = (("function", f"{name}{arguments}"), ("does", summary))
    cells = "\n".join(
        f'<tr><th scope="row">{key}</th><td><code>{escape(value[:_MOST_LETTERS])}</code></td></tr>'
        for key, value in rows
        if value
    )
    return f"<table><caption>{escape(kind)}</caption>\n{cells}</table>"

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
from typing import Any, Final

import numpy as np

_MOST: Final = 10
"""The most rows and columns that are shown; of longer axes, the first and the last."""

_MOST_LETTERS: Final = 2000


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


def _positions(size: int) -> Sequence[int | str]:
    """The positions along an axis that are shown."""
    if size <= _MOST:
        return range(size)
    half = _MOST // 2
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

"""The code cells of a page of documentation, run in order in one namespace."""

from __future__ import annotations

import ast
import re
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from funcgrad import errors

DOCS = Path(__file__).resolve().parents[2] / "examples" / "docs"

_OPENING = re.compile(r"(?P<fence>`{3,}|:{3,})\{code-cell\}")
_TAGS = re.compile(r"\s*:tags:\s*\[?(?P<tags>[^\]]*)\]?\s*$")


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes
    ----------
    line : int
        The line of the page on which its code begins.
    code : str
        Its code.
    tags : frozenset of str
        Its tags, as ``raises-exception``.
    """

    line: int
    code: str
    tags: frozenset[str]


class CellError(Exception):
    """A cell failed, or did not fail although it is tagged so."""


def pages() -> list[Path]:
    """The pages that have code cells."""
    return sorted(path for path in DOCS.rglob("*.md") if _OPENING.search(path.read_text("utf-8")))


def cells(text: str) -> Iterator[Cell]:
    """The code cells of a page."""
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = _OPENING.match(lines[number])
        number += 1
        if not opening:
            continue
        start = number
        while number < len(lines) and lines[number].strip() != opening["fence"]:
            number += 1
        tags, first = _tags(lines[start:number])
        yield Cell(start + first + 1, "\n".join(lines[start + first : number]), tags)


def _tags(lines: list[str]) -> tuple[frozenset[str], int]:
    """The tags of a cell, and how many of its lines are options rather than code."""
    count = next((k for k, line in enumerate(lines) if not line.startswith(":")), len(lines))
    words = [
        word.strip(" \"'")
        for line in lines[:count]
        if (match := _TAGS.match(line))
        for word in match["tags"].split(",")
    ]
    return frozenset(filter(None, words)), count


def run(text: str, path: Path) -> dict[str, Any]:
    """Run the cells of a page in a fresh namespace, and return it.

    Raises
    ------
    CellError
        A cell raised; the message has its line on the page, and the line's text.
    """
    module = types.ModuleType("__main__")
    outer = sys.modules["__main__"]
    sys.modules["__main__"] = module  # where pickle and dataclasses look for the names of a page
    try:
        for cell in cells(text):
            _run_cell(cell, text, path, vars(module))
    finally:
        sys.modules["__main__"] = outer
    return vars(module)


def _run_cell(cell: Cell, text: str, path: Path, namespace: dict[str, Any]) -> None:
    try:
        tree = ast.parse("\n" * (cell.line - 1) + cell.code, str(path))
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, str(path), "exec"), namespace)
        if isinstance(last, ast.Expr):
            _show(eval(compile(ast.Expression(last.value), str(path), "eval"), namespace))
    except Exception as error:
        promised = _error_of_section(text, cell)
        if "raises-exception" not in cell.tags or promised not in ("", type(error).__name__):
            raise CellError(_told(error, cell, text, path)) from error
        return
    if "raises-exception" in cell.tags:
        raise CellError(f"{path.name}:{cell.line}: this cell is tagged raises-exception, and runs.")


def _error_of_section(text: str, cell: Cell) -> str:
    """The class of errors that the heading above a cell names; empty if it names none."""
    above = text.splitlines()[: cell.line]
    heading = next((line for line in reversed(above) if line.startswith("#")), "")
    word = heading.lstrip("# ").partition(":")[0]
    return word if word in errors.__all__ else ""


def _show(value: Any) -> None:
    """Form the texts by which a notebook shows the value of a cell; pictures are no values."""
    values = value if isinstance(value, list | tuple) else [value]
    if any(type(x).__module__.startswith("matplotlib") for x in values):
        raise TypeError(f"the page would show {value!r:.60}: end the cell with plt.show()")
    for name in ("_repr_html_", "_repr_mimebundle_"):
        form = getattr(type(value), name, None)
        if form is not None:
            form(value)
    repr(value)


def _told(error: Exception, cell: Cell, text: str, path: Path) -> str:
    """The page and the line at which a cell failed, the line's text, and the error."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    line = lines[-1] if lines else getattr(error, "lineno", None)
    number = line if isinstance(line, int) else cell.line
    place = f"{path.name}:{number}: {text.splitlines()[number - 1].strip()}"
    return f"{place}\n{type(error).__name__}: {error}"

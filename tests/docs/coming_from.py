"""Tables of names: what a snippet of another library is called here.

``examples/docs/coming_from/*.toml`` have a row for each pair of snippets, which give the same
numbers. ``python -m tests.docs.coming_from`` writes the tables of the pages beside them, and, for
each library that is installed, the numbers of its snippets to ``coming_from.json``.

>>> row = {"theirs": "np.sum(x)", "ours": "fnp.sum(x)", "see": "funcgrad.numpy.sum"}
>>> print(line(row))
| `np.sum(x)` | `fnp.sum(x)` | {py:obj}`~funcgrad.numpy.sum` |
>>> leaves({"b": 2.0, "a": [1j, None]})
[array([0., 1.]), array(2.)]
>>> run("y = x + 1\\ny * 2", {"x": 1.0})
4.0
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

FOLDER: Final = Path(__file__).parents[2] / "examples" / "docs" / "coming_from"
NUMBERS: Final = Path(__file__).with_suffix(".json")
LIBRARIES: Final = ("autograd", "jax", "numpy", "pytorch")
BEGIN: Final = "<!-- Written by python -m tests.docs.coming_from from here on. -->\n"
END: Final = "<!-- To here. -->\n"


def table(library: str) -> dict[str, Any]:
    """The file of a library: packages, code that comes before each row, and groups of rows."""
    return tomllib.loads((FOLDER / f"{library}.toml").read_text(encoding="utf-8"))


def rows(library: str) -> Iterator[dict[str, Any]]:
    for group in table(library)["table"].values():
        yield from group


def run(code: str, names: Mapping[str, Any]) -> Any:
    """Run statements, and return the value of the expression at their end."""
    *statements, last = ast.parse(code).body
    assert isinstance(last, ast.Expr), code
    space = dict(names)
    exec(compile(ast.Module(statements, []), "<row>", "exec"), space)
    return eval(compile(ast.Expression(last.value), "<row>", "eval"), space)


def setting(library: str, side: str) -> dict[str, Any]:
    """Names that the snippets of a side use."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(table(library)[side], f"<{side}>", "exec"), space)
    return space


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    """The arrays of a tree; complex ones with their parts along the last axis."""
    if value is None:
        return []
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().resolve_conj()
    array = np.asarray(value)
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], -1)
    return [array]


def is_installed(library: str) -> bool:
    try:
        return all(importlib.metadata.version(name) for name in table(library)["packages"])
    except importlib.metadata.PackageNotFoundError:
        return False


def numbers_of(library: str) -> dict[str, Any]:
    """Run the other library's snippets in this process."""
    names = setting(library, "their_names")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            row["theirs"]: [leaf.tolist() for leaf in leaves(run(row["theirs"], names))]
            for row in rows(library)
        }


def numbers_in_process(library: str) -> dict[str, Any]:
    """Run them in a process of their own, since libraries have global settings."""
    command = [sys.executable, "-m", "tests.docs.coming_from", library]
    done = subprocess.run(command, capture_output=True, text=True, cwd=FOLDER.parents[2])
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def line(row: Mapping[str, Any]) -> str:
    """A row of the table in Markdown."""
    names = [row["see"]] if isinstance(row["see"], str) else row["see"]
    links = ", ".join(f"{{py:obj}}`~{name}`" for name in names)
    note = "; ".join(text for text in (links, row.get("note", "")) if text)
    return f"| {_code(row['theirs'])} | {_code(row['ours'])} | {note} |"


def _code(snippet: str) -> str:
    return "<br>".join(f"`{text}`" for text in snippet.strip().splitlines())


def section(library: str) -> str:
    """The generated part of a page."""
    content = table(library)
    parts = []
    for title, group in content["table"].items():
        lines = "\n".join(line(row) for row in group)
        head = f"| {content['title']} | funcgrad | names, and what differs |\n|---|---|---|"
        parts.append(f"### {title}\n\n{head}\n{lines}\n")
    versions = ", ".join(content["versions"])
    parts.append(
        f"### Names in the rows\n\nThe rows were compared with {versions}. Before each row of"
        f" {content['title']} stands\n\n```python\n{content['their_names'].strip()}\n```\n\nand"
        f" before each row of funcgrad\n\n```python\n{content['our_names'].strip()}\n```\n"
    )
    return "\n" + "\n".join(parts) + "\n"


def page(library: str) -> str:
    """The page with its generated part."""
    before, _, rest = (FOLDER / f"{library}.md").read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + section(library) + END + rest.partition(END)[2]


def write() -> None:
    """Write the pages, and the numbers of the libraries that are installed."""
    stored = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for library in LIBRARIES:
        (FOLDER / f"{library}.md").write_text(page(library), encoding="utf-8")
        if is_installed(library):
            stored[library] = numbers_in_process(library)
    NUMBERS.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(numbers_of(sys.argv[1])))
    else:
        write()

r"""Tables of names: what a snippet of another library is called here.

``examples/docs/coming_from/*.toml`` have a row for each pair of snippets, which give the same
numbers. ``python -m tests.tools.docs.coming_from`` writes the tables of the pages beside them, and,
for each library that is installed, the numbers of its snippets to ``coming_from.json``.

>>> row = {"theirs": "np.sum(x)", "ours": "fnp.sum(x)", "see": "funcgrad.numpy.sum"}
>>> print(line(row))
| `np.sum(x)` | `fnp.sum(x)`<br>{py:obj}`~funcgrad.numpy.sum` |
>>> leaves({"b": 2.0, "a": [1j, None]})
[array([0., 1.]), array(2.)]
>>> run("y = x + 1\ny * 2", {"x": 1.0})
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

FOLDER: Final = Path(__file__).parents[3] / "examples" / "docs" / "coming_from"
STORE: Final = Path(__file__).with_suffix(".json")
LIBRARIES: Final = ("autograd", "jax", "jax_solvers", "numpy", "pytorch")
BEGIN: Final = "<!-- Written by python -m tests.tools.docs.coming_from from here on. -->\n"
END: Final = "<!-- To here. -->\n"


def table(library: str) -> dict[str, Any]:
    """The file of a library: packages, names that snippets use, and groups of rows."""
    return tomllib.loads((FOLDER / f"{library}.toml").read_text(encoding="utf-8"))


def rows(library: str) -> Iterator[dict[str, Any]]:
    for group in table(library)["table"].values():
        yield from group


def names(library: str, side: str) -> dict[str, Any]:
    """The names that the snippets of a side use: ``"their_names"`` or ``"our_names"``."""
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile(table(library)[side], f"<{side}>", "exec"), space)
    return space


def run(code: str, space: Mapping[str, Any]) -> Any:
    """Run statements, and return the value of the expression at their end."""
    *statements, last = ast.parse(code).body
    assert isinstance(last, ast.Expr), code
    inside = dict(space)
    exec(compile(ast.Module(statements, []), "<row>", "exec"), inside)
    return eval(compile(ast.Expression(last.value), "<row>", "eval"), inside)


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
        array = np.stack([np.real(array), np.imag(array)], -1)
    return [array]


def versions(library: str) -> dict[str, str] | None:
    """The installed versions of the library's packages; None if one is not installed."""
    try:
        return {name: importlib.metadata.version(name) for name in table(library)["packages"]}
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(library: str) -> dict[str, Any]:
    """Run the other library's snippets; keys are the snippets."""
    space = names(library, "their_names")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            row["theirs"]: [leaf.tolist() for leaf in leaves(run(row["theirs"], space))]
            for row in rows(library)
        }


def numbers_of_a_process(library: str) -> dict[str, Any]:
    """Run them in a process of their own, since libraries have global settings."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.tools.docs.coming_from", library],
        capture_output=True,
        text=True,
        cwd=FOLDER.parents[2],
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))  # libraries may print, too


def stored() -> dict[str, Any]:
    """For each library, versions of its packages, and the numbers of its snippets."""
    return dict(json.loads(STORE.read_text(encoding="utf-8")))


def line(row: Mapping[str, Any]) -> str:
    """A row of the table in Markdown; below our snippet are links, and what differs."""
    public = [row["see"]] if isinstance(row["see"], str) else row["see"]
    links = ", ".join(f"{{py:obj}}`~{name}`" for name in public)
    note = f"{links}: {row['note']}" if "note" in row else links
    return f"| {_cell(row['theirs'])} | {_cell(row['ours'])}<br>{note} |"


def _cell(snippet: str) -> str:
    """Code in a cell of a table; spaces at the beginning of a line would vanish there."""
    code = [text.replace("    ", "\N{NO-BREAK SPACE}" * 4) for text in snippet.strip().splitlines()]
    return "<br>".join(f"`{text}`" for text in code)


def section(library: str) -> str:
    """The generated part of a page."""
    content = table(library)
    compared = ", ".join(f"{name} {v}" for name, v in stored()[library]["versions"].items())
    parts = []
    for title, group in content["table"].items():
        lines = "\n".join(line(row) for row in group)
        head = f"| {content['title']} | funcgrad |\n|---|---|"
        parts.append(f"### {title}\n\n{head}\n{lines}\n")
    parts.append(
        "### Names in the rows\n\n"
        f"The rows were compared with {compared}. Snippets of {content['title']} use\n\n"
        f"```python\n{content['their_names'].strip()}\n```\n\nand snippets of funcgrad\n\n"
        f"```python\n{content['our_names'].strip()}\n```\n"
    )
    return "\n" + "\n".join(parts) + "\n"


def page(library: str) -> str:
    """The page with its generated part."""
    before, _, after = (FOLDER / f"{library}.md").read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + section(library) + END + after.partition(END)[2]


def write() -> None:
    """Write the numbers of the libraries that are installed, and the pages."""
    store = stored() if STORE.exists() else {}
    for library in LIBRARIES:
        if (installed := versions(library)) is not None:
            store[library] = {"versions": installed, "numbers": numbers_of_a_process(library)}
    STORE.write_text(json.dumps(store, indent=1) + "\n", encoding="utf-8")
    for library in LIBRARIES:
        (FOLDER / f"{library}.md").write_text(page(library), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(numbers(sys.argv[1])))
    else:
        write()

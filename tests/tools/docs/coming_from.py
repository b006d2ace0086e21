r"""Tables of names: what a snippet of another library is called here.

The pages ``examples/docs/coming_from/*.md`` have a row for each pair of snippets, which give the
same numbers. ``python -m tests.tools.docs.coming_from`` runs the snippets of each library that is
installed, and writes their numbers to ``coming_from.json`` and its version to the page.

>>> line = "| `np.sum(x)` | `y = x`<br>`y.sum()`<br>{py:obj}`~funcgrad.Tensor` <!-- rtol=1e-6 --> |"
>>> Row.of(line)
Row(theirs='np.sum(x)', ours='y = x\ny.sum()', see=['funcgrad.Tensor'], rtol=1e-06)
>>> leaves({"b": 2.0, "a": [1j, None]})
[array([0., 1.]), array(2.)]
>>> run("y = x + 1\ny * 2", {"x": 1.0})
4.0
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

FOLDER: Final = Path(__file__).parents[3] / "examples" / "docs" / "coming_from"
STORE: Final = Path(__file__).with_suffix(".json")
LIBRARIES: Final = ("autograd", "jax", "jax_solvers", "numpy", "pytorch")

_ROW: Final = re.compile(
    r"\| (?P<theirs>`.*?`) \| (?P<ours>`.*?`)<br>(?P<see>\{py:obj\}.*?)"
    r"(?: <!-- rtol=(?P<rtol>\S+) -->)? \|"
)
_VERSIONS: Final = re.compile(r"The rows were compared with (.*)\. Snippets of")


class Row(NamedTuple):
    """A row of a table.

    Attributes
    ----------
    theirs, ours : str
        The snippets.
    see : list of str
        The public names that the row links to.
    rtol : float
        How far the numbers may differ: a comment in the row, which readers do not see.
    """

    theirs: str
    ours: str
    see: list[str]
    rtol: float

    @classmethod
    def of(cls, line: str) -> Row:
        match = _ROW.fullmatch(line)
        assert match, line
        see = re.findall(r"\{py:obj\}`~([^`]+)`", match["see"])
        return cls(_code(match["theirs"]), _code(match["ours"]), see, float(match["rtol"] or 1e-9))


def _code(cell: str) -> str:
    """The code in a cell, where spaces at the beginning of a line do not break."""
    return "\n".join(re.findall("`([^`]*)`", cell)).replace("\N{NO-BREAK SPACE}", " ")


def page(library: str) -> Path:
    return FOLDER / f"{library}.md"


def _tables(library: str) -> str:
    """The part of a page that has the tables and the names in them."""
    return page(library).read_text(encoding="utf-8").partition("\n## Names\n")[2]


def rows(library: str) -> list[Row]:
    lines = _tables(library).splitlines()
    return [Row.of(line) for line in lines if line.startswith("| `")]


def names(library: str, side: str) -> dict[str, Any]:
    """The names that the snippets of a side use, ``"theirs"`` or ``"ours"``."""
    theirs, ours = re.findall(r"^```python\n(.*?)^```", _tables(library), re.DOTALL | re.MULTILINE)
    space: dict[str, Any] = {"__name__": __name__}
    exec(compile({"theirs": theirs, "ours": ours}[side], f"<{side}>", "exec"), space)
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


def compared(library: str) -> str:
    """The packages and versions that the page names, as in ``"jax 0.10.2, optax 0.2.8"``."""
    match = _VERSIONS.search(_tables(library))
    assert match, library
    return match[1]


def installed(library: str) -> str | None:
    """The installed versions of these packages; None if one is not installed."""
    try:
        packages = [text.split()[0] for text in compared(library).split(", ")]
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    except importlib.metadata.PackageNotFoundError:
        return None


def numbers(library: str) -> dict[str, Any]:
    """Run the other library's snippets; keys are the snippets."""
    space = names(library, "theirs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            row.theirs: [leaf.tolist() for leaf in leaves(run(row.theirs, space))]
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


def stored() -> dict[str, dict[str, Any]]:
    """For each library, the numbers of its snippets."""
    return dict(json.loads(STORE.read_text(encoding="utf-8")))


def text_of(store: Mapping[str, Mapping[str, Any]]) -> str:
    """The numbers as JSON, with a line for each snippet."""
    parts = []
    for library, results in store.items():
        lines = [f"  {json.dumps(code)}: {json.dumps(value)}" for code, value in results.items()]
        parts.append(f" {json.dumps(library)}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def write() -> None:
    """Write the numbers of the libraries that are installed, and their versions."""
    store = stored()
    for library in LIBRARIES:
        if (versions := installed(library)) is not None:
            store[library] = numbers_of_a_process(library)
            text = page(library).read_text(encoding="utf-8")
            text = text.replace(compared(library), versions)
            page(library).write_text(text, encoding="utf-8")
    STORE.write_text(text_of(store), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(numbers(sys.argv[1])))
    else:
        write()

"""The code cells of each page of documentation run, one test a page; a failure names its line."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.docs.building.public_names import all_entries
from funcgrad import errors
from tests.docs.pages import DOCS, CellError, cells, pages, run
from tests.together import together

PAGE = """---
file_format: mystnb
---

# A page

```{code-cell}
import dataclasses
import pickle

x = 3.0
```

Text with ```{code-cell}``` in a line.

```{code-cell} ipython3
:tags: [remove-cell]

@dataclasses.dataclass
class Point:
    x: float

assert pickle.loads(pickle.dumps(Point(x))) == Point(3.0)
x
```

```{code-cell}
:tags: [raises-exception, remove-output]
1 / 0
```
"""


@pytest.fixture(autouse=True)
def _as_in_a_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty folder, and no windows for pictures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


NAMES = [str(path.relative_to(DOCS)) for path in pages()]
LONG = (
    "cookbook/solvers.md",
    "cookbook/testing.md",
    "exercises.md",
    "guide/differential_equations.md",
    "guide/optimization.md",
    "guide/sparse.md",
    "guide/statistics.md",
    "guide/training.md",
)
"""Pages that take half a second or more; whoever builds the site runs them, too."""


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@together("name", [name for name in NAMES if name not in LONG])
def test_page_runs(name: str) -> None:
    path = DOCS / name
    run(path.read_text("utf-8"), path)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_page_runs(name: str) -> None:
    path = DOCS / name
    run(path.read_text("utf-8"), path)


def test_cells_are_found() -> None:
    first, second, third = cells(PAGE)
    assert first.line == 8
    assert first.code.splitlines()[0] == "import dataclasses"
    assert second.tags == {"remove-cell"}
    assert third.tags == {"raises-exception", "remove-output"}
    assert third.code == "1 / 0"
    assert PAGE.splitlines()[third.line - 1] == "1 / 0"


def test_the_error_is_the_one_that_the_heading_names() -> None:
    page = PAGE.replace("# A page", "# ScalarError: a page")
    with pytest.raises(CellError, match="ZeroDivisionError"):
        run(page, Path("page.md"))
    raised = "from funcgrad.errors import ScalarError\nraise ScalarError"
    run(page.replace("1 / 0", raised), Path("page.md"))


def test_troubleshooting_names_every_error() -> None:
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    assert not [name for name in errors.__all__ if name not in text]


def test_cells_share_a_namespace_that_pickle_finds() -> None:
    main = sys.modules["__main__"]
    assert run(PAGE, Path("page.md"))["x"] == 3.0
    assert sys.modules["__main__"] is main


def test_pages_share_nothing() -> None:
    run(PAGE, Path("page.md"))
    with pytest.raises(CellError, match=r"other.md:2: x\nNameError"):
        run("```{code-cell}\nx\n```\n", Path("other.md"))


@pytest.mark.parametrize(
    ("planted", "told"),
    [("assert x == 4.0", "assert x == 4.0\nAssertionError"), ("x = = 3", "x = = 3\nSyntaxError")],
)
def test_a_cell_that_fails_is_told_with_its_line(planted: str, told: str) -> None:
    text = PAGE + f"\n```{{code-cell}}\n{planted}\n```\n"
    line = text.splitlines().index(planted) + 1
    with pytest.raises(CellError, match=f"^page.md:{line}: {told}"):
        run(text, Path("page.md"))


def test_a_failure_inside_a_function_of_the_page_is_told_with_the_line_in_the_function() -> None:
    text = "```{code-cell}\ndef f():\n    raise ValueError('no')\n\nf()\n```\n"
    with pytest.raises(CellError, match=r"page.md:3: raise ValueError"):
        run(text, Path("page.md"))


def test_a_value_that_cannot_be_shown_is_told() -> None:
    text = "```{code-cell}\nclass Odd:\n    def _repr_html_(self):\n        1 / 0\nOdd()\n```\n"
    with pytest.raises(CellError, match="ZeroDivisionError"):
        run(text, Path("page.md"))


def test_an_object_of_matplotlib_as_a_value_is_told() -> None:
    text = "```{code-cell}\nfrom matplotlib.figure import Figure\nFigure().text(0, 0, 'a')\n```\n"
    with pytest.raises(CellError, match=r"end the cell with plt\.show"):
        run(text, Path("page.md"))


def test_a_cell_that_should_fail_and_runs_is_told() -> None:
    text = "```{code-cell}\n:tags: [raises-exception]\n1\n```\n"
    with pytest.raises(CellError, match=r"page.md:3: .* and runs"):
        run(text, Path("page.md"))


def _of_ours() -> Iterator[tuple[Path, str]]:
    """The written pages that speak of funcgrad alone, and their texts."""
    for path in DOCS.rglob("*.md"):
        if not {"coming_from", "made", "packages"} & set(path.relative_to(DOCS).parts):
            yield path, path.read_text("utf-8")


def test_lines_of_code_have_at_most_80_letters() -> None:
    long = [
        f"{path.relative_to(DOCS)}:{cell.line + k}"
        for path, text in _of_ours()
        for cell in cells(text)
        for k, line in enumerate(cell.code.splitlines())
        if len(line) > 80
    ]
    assert not long, "a phone and a narrow window show 80 letters"


_OPTION = re.compile(r"""`[^`\n]*?\b([a-z_]+)=(["'])(\w+)\2[^`\n]*`""")
_SCIPYS = {("tr_solver", "lsmr")}


def test_a_function_takes_and_describes_each_option_in_prose() -> None:
    texts: dict[str, list[str]] = {}  # by option, the documentation of the functions that take it
    for entry in all_entries():
        if inspect.isfunction(entry.value) or inspect.isclass(entry.value):
            for option in _parameters(entry.value):
                texts.setdefault(option, []).append(inspect.getdoc(entry.value) or "")
    named = {
        (option, value): path.name
        for path, text in _of_ours()
        for option, _, value in _OPTION.findall(re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text))
    }
    assert len(named) > 15
    unknown = {
        (option, value): page
        for (option, value), page in named.items()
        if not any(re.search(f"[\"']{value}[\"']", text) for text in texts.get(option, ()))
    }
    assert unknown.keys() <= _SCIPYS, unknown


def _parameters(function: object) -> list[str]:
    try:
        return [*inspect.signature(function).parameters]  # type: ignore[arg-type]
    except (TypeError, ValueError):  # a class of another library
        return []


def test_the_gallery_shows_each_example_once() -> None:
    header = (DOCS.parent / "GALLERY_HEADER.rst").read_text("utf-8")
    shown = re.findall(r"^   \.\./(\w+)\.py$", header, re.MULTILINE)
    assert sorted(shown) == sorted(path.stem for path in DOCS.parent.glob("*.py"))

"""The code cells of each page of documentation run, one test a page; a failure names its line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
LONG = ("cookbook/solvers.md", "cookbook/testing.md", "guide/differential_equations.md")
"""Pages that take three seconds each; the tests of solvers check more of what they show."""


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
    [
        ("assert x == 4.0", "assert x == 4.0\nAssertionError"),
        ("x = = 3", "x = = 3\nSyntaxError"),
    ],
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


def test_a_cell_that_should_fail_and_runs_is_told() -> None:
    text = "```{code-cell}\n:tags: [raises-exception]\n1\n```\n"
    with pytest.raises(CellError, match=r"page.md:3: .* and runs"):
        run(text, Path("page.md"))

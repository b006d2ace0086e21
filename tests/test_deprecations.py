"""Former names: the table says all, and aliases, warnings and the page follow."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._hints import deprecations
from funcgrad._hints.deprecations import TABLE, FormerName, former_value, with_former_options
from funcgrad.errors import ArgumentError, FuncgradDeprecationWarning

PAGE = Path(__file__).resolve().parents[1] / "examples" / "docs" / "stability.md"
NAMES = (
    FormerName("funcgrad.random", "", "new_key", "random.key", "0.1", "2026-11"),
    FormerName("funcgrad.numpy", "", "total", "numpy.sum", "0.1", "2026-11"),
    FormerName("funcgrad", "", "gradient_of", "grad", "1.0", "2027-01"),
)


def line(row: FormerName) -> str:
    """The row of the page."""
    former, present = row.written
    functions = ", ".join(f"`{name}`" for name in row.functions.split())
    place = f" of `{row.module.replace('funcgrad', 'fg', 1)}`'s {functions}" if functions else ""
    return f"| `{former}`{place} | `{present}` | {row.version} | {row.ends} | {row.last_month} |"


def test_the_page_has_the_table() -> None:
    head = r"^\| former name \|.*\n\|[-|]*\|\n((?:\|.*\n)*)"
    text = PAGE.read_text("utf-8")
    written = re.search(head, text, re.MULTILINE)
    assert (written[1].splitlines() if written else []) == [line(row) for row in TABLE]
    assert ("No name has changed" in text) != bool(TABLE)


def test_rows_are_in_time() -> None:
    version = tuple(map(int, fg.__version__.split(".")[:2]))
    for row in TABLE:
        since = tuple(map(int, row.version.split(".")))
        assert since <= version, row
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.month), row


def test_former_names_lead_to_present_ones() -> None:
    for row in TABLE:
        module = importlib.import_module(row.module)
        if not row.functions:
            with pytest.warns(FuncgradDeprecationWarning):
                assert former_value(row.module, row.name) is not None
        for name in row.functions.split():
            options = inspect.signature(getattr(module, name)).parameters
            assert row.present in options
            assert row.name not in options


def test_names_of_modules_follow_from_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecations.former_value, "__defaults__", (NAMES,))
    with pytest.warns(FuncgradDeprecationWarning, match=r"fg\.grad now.* in version 1\.2") as seen:
        assert fg.gradient_of is fg.grad  # type: ignore[attr-defined]
    assert seen[0].filename == __file__
    with pytest.warns(FuncgradDeprecationWarning, match=r"^fg\.random\.new_key is called"):
        exec("from funcgrad.random import new_key", scope := dict[str, Any]())
    assert scope["new_key"] is fg.random.key
    with pytest.warns(FuncgradDeprecationWarning):
        assert fnp.total is fnp.sum  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="has no attribute"):
        fnp.totals  # type: ignore[attr-defined]  # noqa: B018


def scaled(x: float, *, factor: float = 1.0) -> float:
    return x * factor


def test_options_follow_from_the_table() -> None:
    row = FormerName(
        f"{__name__.rpartition('.')[0]}.test_deprecations",
        "scaled",
        "times",
        "factor",
        "0.1",
        "2026-11",
    )
    table: Any = (row,)
    function: Any = with_former_options(scaled, table)
    with pytest.warns(FuncgradDeprecationWarning, match="times= is called factor= now") as seen:
        assert function(2.0, times=3.0) == 6.0
    assert seen[0].filename == __file__
    assert function(2.0, factor=3.0) == 6.0
    with (
        pytest.warns(FuncgradDeprecationWarning),
        pytest.raises(ArgumentError, match=r"Pass factor= only"),
    ):
        function(2.0, times=3.0, factor=3.0)


def test_the_table_is_not_loaded_before_it_is_needed() -> None:
    text = (
        "import sys, funcgrad, funcgrad.numpy; print('funcgrad._hints.deprecations' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

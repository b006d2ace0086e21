"""The examples of docstrings, with the imports that the site adds, run in an empty namespace."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from examples.docs.building.example_imports import imports, with_imports
from examples.docs.building.public_names import all_entries

FOREIGN = ("funcgrad.numpy.issubdtype",)  # NumPy's own docstring


def described() -> Iterator[tuple[str, Any]]:
    """The public objects that have examples, with the functions of public classes."""
    for entry in all_entries():
        if entry.is_alias or entry.path in FOREIGN:
            continue
        yield entry.path, entry.value
        if inspect.isclass(entry.value):
            for name, member in vars(entry.value).items():
                function = getattr(member, "__func__", getattr(member, "fget", member))
                if name[0] != "_" and inspect.isfunction(function):
                    yield f"{entry.path}.{name}", function


def lines_of(value: Any) -> list[str]:
    return with_imports(value, (inspect.getdoc(value) or "").split("\n"))


def failure(lines: list[str]) -> str:
    """The first error that is not in the text; empty if all examples run."""
    namespace: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples("\n".join(lines)):
        if example.exc_msg:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(example.source, "example", "single"), namespace)
        except (Exception, pytest.skip.Exception) as error:
            return f"{example.source.strip()}: {type(error).__name__}: {error}"
    return ""


def test_imports_are_of_public_names() -> None:
    private = {
        path: line
        for path, value in described()
        for line in imports(value, lines_of(value))
        if "._" in line
    }
    assert not private


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_examples_run_in_an_empty_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failures = {path: told for path, value in described() if (told := failure(lines_of(value)))}
    assert not {path: told for path, told in failures.items() if "No module named" not in told}


def test_names_of_the_module_are_imported_from_where_users_import_them() -> None:
    assert imports(fg.nn.relu, [">>> softmax(relu(x))"]) == [
        "from funcgrad.nn import relu, softmax"
    ]
    assert imports(fg.numpy.sum, [">>> x = np.ones(2)", ">>> sum(x)", ">>> print(len(x))"]) == [
        "from funcgrad.numpy import sum",
        "import numpy as np",
    ]
    assert imports(np.ones(2), [">>> f(x)"]) == []


def test_names_that_an_example_defines_are_not_imported() -> None:
    lines = [">>> def sin(x):", "...     return cos(x)", ">>> sin(1.0)", "0.54"]
    assert imports(fg.numpy.sin, lines) == ["from funcgrad.numpy import cos"]
    assert with_imports(fg.numpy.sin, ["Text."]) == ["Text."]

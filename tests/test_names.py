"""What completion shows: every public name, also those that are loaded late, and no other."""

from __future__ import annotations

import rlcompleter
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import funcgrad as fg


def public_modules(module: ModuleType = fg, path: str = "fg") -> Iterator[tuple[str, ModuleType]]:
    """The modules that users reach by public names."""
    yield path, module
    for name in module.__all__:
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            yield from public_modules(value, f"{path}.{name}")


MODULES = dict(public_modules())


def test_the_public_modules_are_found() -> None:
    assert {"fg", "fg.numpy", "fg.numpy.linalg", "fg.nn", "fg.errors", "fg.tree"} <= set(MODULES)


@pytest.mark.parametrize("path", MODULES)
def test_dir_shows_the_public_names(path: str) -> None:
    module: Any = MODULES[path]
    assert {name for name in dir(module) if not name.startswith("_")} == set(module.__all__)
    assert all(hasattr(module, name) for name in dir(module))


@pytest.mark.parametrize("path", MODULES)
def test_completion_shows_the_public_names(path: str) -> None:
    completer: Any = rlcompleter.Completer({"fg": fg})
    shown = {
        each.rstrip("()").removeprefix(path + ".") for each in completer.attr_matches(path + ".")
    }
    assert shown == set(MODULES[path].__all__)


def test_names_that_are_loaded_late_are_shown_before() -> None:
    code = "import sys, funcgrad as fg; print(*dir(fg)); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, loaded = [set(line.split()) for line in out.stdout.splitlines()]
    assert set(fg.__all__) <= names
    late = {module for _, module in fg._FUNCTIONS} | {f"funcgrad.{name}" for name in fg._SUBMODULES}
    assert len(late) >= 8
    assert not late & loaded


def test_no_public_name_is_another_library_s() -> None:
    for path, module in MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                assert value.__name__.startswith("funcgrad"), f"{path}.{name}"

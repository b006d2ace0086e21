"""The public names of the package: from the modules' ``__all__`` to records, one for each name.

>>> [entry.path for entry in entries(funcgrad.tree)][:2]
['funcgrad.tree.all', 'funcgrad.tree.at']
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import funcgrad

# Public, but only available by an explicit import: `import funcgrad` does not load it.
IMPORTED = ("funcgrad.compat.autograd",)


@dataclass(frozen=True)
class Entry:
    """A public name.

    Attributes
    ----------
    module, name : str
        The public module, and the name in it.
    value : object
        The value of the name.
    kind : str
        "function", "class", "exception" or "data".
    canonical : str
        The public path under which the value is described: its own, but for aliases.
    file : str
        The last word of the module that defines the value; "" for values of other packages.
    """

    module: str
    name: str
    value: Any
    kind: str
    canonical: str
    file: str

    @property
    def path(self) -> str:
        """The public path: the module and the name."""
        return f"{self.module}.{self.name}"

    @property
    def is_alias(self) -> bool:
        """Whether the value is described under another path."""
        return self.canonical != self.path


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module, in alphabetical order, without modules."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]
    return sorted(
        (name for name in names if not isinstance(getattr(module, name), ModuleType)),
        key=lambda name: (name.lower(), name),
    )


@cache
def public_modules() -> dict[str, ModuleType]:
    """The public modules by their public paths, the package first."""
    modules: dict[str, ModuleType] = {}

    def visit(path: str, module: ModuleType) -> None:
        modules[path] = module
        for name in getattr(module, "__all__", ()):
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                visit(f"{path}.{name}", value)

    visit("funcgrad", funcgrad)
    for path in IMPORTED:
        visit(path, import_module(path))
    return dict(sorted(modules.items()))


@cache
def entries(module: ModuleType, path: str = "") -> tuple[Entry, ...]:
    """The public names of a module, as records."""
    path = path or module.__name__
    return tuple([_entry(path, name, getattr(module, name)) for name in names_of(module)])


def all_entries() -> Iterator[Entry]:
    """Every public name of the package."""
    for path, module in public_modules().items():
        yield from entries(module, path)


def _entry(module: str, name: str, value: Any) -> Entry:
    home = _home(value)
    canonical = _canonical_paths().get(id(value), f"{module}.{name}") if home else ""
    return Entry(
        module, name, value, _kind(value), canonical or f"{module}.{name}", home.rpartition(".")[2]
    )


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "exception" if issubclass(value, Exception) else "class"
    return "function" if callable(value) and hasattr(value, "__name__") else "data"


def _home(value: Any) -> str:
    """The module of the package that defines a function or a class; "" for other values."""
    home = str(getattr(value, "__module__", ""))
    named = inspect.isclass(value) or inspect.isfunction(value)
    return home if named and home.startswith("funcgrad") else ""


@cache
def _canonical_paths() -> dict[int, str]:
    """The path of each function and class: its name, in the public module nearest to its file."""
    paths: dict[int, tuple[tuple[bool, int], str]] = {}
    for path, module in public_modules().items():
        for name in names_of(module):
            value = getattr(module, name)
            home = _home(value)
            if not home:
                continue
            rank = (value.__name__ == name, _common(module.__name__, home))
            if id(value) not in paths or paths[id(value)][0] < rank:
                paths[id(value)] = (rank, f"{path}.{name}")
    return {key: path for key, (_, path) in paths.items()}


def _common(first: str, second: str) -> int:
    """The number of words that two dotted paths begin with in common."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(map(len, (first, second))))

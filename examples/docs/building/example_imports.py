r"""The imports that the examples of a docstring need, as the site shows them.

In the package the examples of a docstring run among the names of its module, and import nothing. A
reader copies them to a shell, where the names have to be imported first.

>>> import funcgrad as fg
>>> imports(fg.numpy.sum, [">>> sum(np.ones(2))", "Tensor(2.0)"])
['from funcgrad.numpy import sum', 'import numpy as np']
"""

from __future__ import annotations

import ast
import builtins
import doctest
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from examples.docs.building.public_names import all_entries, public_modules


def with_imports(value: Any, lines: Sequence[str]) -> list[str]:
    """Put the imports before the first example of a docstring.

    Parameters
    ----------
    value : object
        The object that has the docstring.
    lines : sequence of str
        The docstring.

    Returns
    -------
    list of str
    """
    first = next((k for k, line in enumerate(lines) if line.lstrip().startswith(">>> ")), None)
    if first is None:
        return list(lines)
    indent = lines[first][: lines[first].index(">")]
    added = [f"{indent}>>> {line}" for line in imports(value, lines)]
    return [*lines[:first], *added, *lines[first:]]


def imports(value: Any, lines: Sequence[str]) -> list[str]:
    """Return the import statements that the examples of a docstring need."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    if module is None:
        return []
    modules: list[str] = []
    members: dict[str, list[str]] = {}
    for name in _free_names(doctest.DocTestParser().get_examples("\n".join(lines))):
        if not hasattr(module, name):
            continue
        meant = getattr(module, name)
        if isinstance(meant, ModuleType):
            modules.append(_module_import(name, meant))
        else:
            home = _home(name, meant) or module.__name__
            members.setdefault(home, []).append(name)
    named = [f"from {home} import {', '.join(sorted(names))}" for home, names in members.items()]
    return sorted(modules + named)


def _free_names(examples: Sequence[doctest.Example]) -> list[str]:
    """The names that examples read before they define them, in alphabetical order."""
    bound: set[str] = set()
    free: set[str] = set()
    for example in examples:
        nodes = list(ast.walk(ast.parse(example.source)))
        bound |= set(_bound(nodes))
        free |= {node.id for node in nodes if isinstance(node, ast.Name)} - bound
    return sorted(free)


def _bound(nodes: Sequence[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]


def _module_import(name: str, module: ModuleType) -> str:
    parent, _, last = module.__name__.rpartition(".")
    if last == name:
        return f"from {parent} import {name}" if parent else f"import {name}"
    return f"import {module.__name__} as {name}"


def _home(name: str, meant: Any) -> str:
    """The public module from which users import a name; empty if there is none."""
    if getattr(builtins, name, None) is meant:
        return "builtins"
    return next(
        (
            module
            for module, value in _public().get(name, ())
            if value is meant or getattr(value, "__wrapped__", None) is meant
        ),
        "",
    )


@cache
def _public() -> dict[str, list[tuple[str, Any]]]:
    """The public names, each with its modules and values, its own module first."""
    named: dict[str, list[tuple[str, Any]]] = {}
    for entry in sorted(all_entries(), key=lambda entry: (entry.is_alias, len(entry.module))):
        module = public_modules()[entry.module].__name__  # fnp.emath is an attribute, not a module
        named.setdefault(entry.name, []).append((module, entry.value))
    return named

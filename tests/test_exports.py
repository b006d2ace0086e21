"""Every public function of a public package is exported by its package, or used by another file.

A function is public if it is defined at the top of a file under a name without underscore. One that
is neither exported nor used elsewhere is forgotten, or should be private.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

import funcgrad as fg
from tests.architecture import FUNCTION_TYPES, SOURCES, Source, package_of
from tests.test_names import MODULES

KNOWN = frozenset(source.name for source in SOURCES)

# Its functions are shown by the façade itself, and by no module of its own name.
SHOWN_ABOVE = frozenset({"funcgrad.integrate"})

PACKAGES = ({module.__name__ for module in MODULES.values()} | SHOWN_ABOVE) - {"funcgrad"}

# They are looked up by their names: the methods of NumPy's ufuncs, and an entry point.
BY_NAME = frozenset({"funcgrad.numpy.ufunc_methods", "funcgrad.testing.registration"})


def shown() -> frozenset[tuple[str, str]]:
    """The module and the name of every function that a public module exports."""
    values = [getattr(module, name) for module in MODULES.values() for name in module.__all__]
    named = [value for value in values if hasattr(value, "__name__")]
    return frozenset(
        (str(value.__module__), str(value.__name__)) for value in named if callable(value)
    )


def used(source: Source) -> Iterator[tuple[str, str]]:
    """The names of other files that a file imports, or reads from a module that it imports."""
    nodes, modules = list(ast.walk(source.tree)), dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield str(node.module), alias.name
                full = f"{node.module}.{alias.name}"
                if full in KNOWN:
                    modules[alias.asname or alias.name] = full
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield modules.get(node.value.id, ""), node.attr


SHOWN = shown()


@cache
def used_anywhere() -> frozenset[tuple[str, str]]:
    """The names that the files of the package use of one another."""
    return frozenset(pair for source in SOURCES for pair in used(source))


def forgotten(source: Source) -> Iterator[str]:
    """Public functions of a public package that are neither exported nor used elsewhere."""
    is_public = bool({source.name, package_of(source)} & PACKAGES)
    if not is_public or source.name in BY_NAME:
        return
    known = SHOWN | used_anywhere()
    functions = [node for node in source.tree.body if isinstance(node, FUNCTION_TYPES)]
    for node in functions:
        if not node.name.startswith("_") and (source.name, node.name) not in known:
            yield f"{source.name}:{node.lineno} {node.name} is not exported, and not used"


def test_packages_are_found() -> None:
    paths = """nn optim random numpy numpy.linalg scipy.special scipy.optimize integrate implicit
    testing extend tree"""
    assert {f"funcgrad.{path}" for path in paths.split()} <= PACKAGES
    assert {package for package in PACKAGES if package not in KNOWN} == set()
    assert len(SHOWN) > 700


def test_every_public_function_is_exported() -> None:
    assert [line for source in SOURCES for line in forgotten(source)] == []


@pytest.mark.parametrize(
    "name",
    [
        "funcgrad.nn.activations",
        "funcgrad.numpy.linalg",
        "funcgrad.integrate.initial_values",
        "funcgrad.tree",
    ],
)
def test_a_forgotten_function_is_found(name: str) -> None:
    (source,) = [source for source in SOURCES if source.name == name]
    planted = "\n\ndef mish(x: fg.Tensor) -> fg.Tensor:\n    return x\n"
    (line,) = forgotten(Source(name, source.text + planted))
    assert f"{name}:" in line
    assert "mish is not exported" in line
    private = planted.replace("mish", "_mish")
    assert list(forgotten(Source(name, source.text + private))) == []


def test_a_function_that_another_file_uses_need_not_be_exported() -> None:
    assert ("funcgrad.nn.convolution", "checked") not in SHOWN
    assert fg.nn.softmax.__module__ == "funcgrad.nn.activations"
    source = Source("funcgrad.nn.sample", "def swap(x): pass")
    assert list(forgotten(source)) != []
    users = Source("funcgrad.nn.other", "from funcgrad.nn.sample import swap")
    assert ("funcgrad.nn.sample", "swap") in set(used(users))

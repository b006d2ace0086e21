"""Completion shows every public name, also those that are loaded late, and no other."""

from __future__ import annotations

import pkgutil
import rlcompleter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import funcgrad as fg
from tests.scripts import printed
from tests.together import together


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


@together("path", MODULES)
def test_dir_shows_the_public_names(path: str) -> None:
    module: Any = MODULES[path]
    assert {name for name in dir(module) if not name.startswith("_")} == set(module.__all__)
    assert all(hasattr(module, name) for name in dir(module))


@together("path", MODULES)
def test_completion_shows_the_public_names(path: str) -> None:
    completer: Any = rlcompleter.Completer({"fg": fg})
    shown = {
        each.rstrip("()").removeprefix(path + ".") for each in completer.attr_matches(path + ".")
    }
    assert shown == set(MODULES[path].__all__)


def test_names_that_are_loaded_late_are_shown_before() -> None:
    code = "import sys, funcgrad as fg; print(*dir(fg)); print(*sys.modules)"
    names, loaded = [set(line.split()) for line in printed(code).splitlines()]
    assert set(fg.__all__) <= names
    late = {f"funcgrad.{name}" for name in ("nn", "numpy", "_staging.jit", "_transforms.reverse")}
    assert not late & loaded


def test_a_late_name_is_looked_for_once() -> None:
    assert printed(
        """
import funcgrad as fg, funcgrad.numpy as fnp
print("grad" in vars(fg), "sum" in vars(fnp))
fg.grad, fnp.sum
print(vars(fg)["grad"] is fg.grad, vars(fnp)["sum"] is fnp.sum)
"""
    ).split() == ["False", "False", "True", "True"]


@together("path", MODULES)
def test_a_star_takes_every_public_name(path: str) -> None:
    module = MODULES[path]
    names: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", names)
    assert {name: names[name] for name in module.__all__} == {
        name: getattr(module, name) for name in module.__all__
    }


def test_names_may_be_touched_first_by_many_threads() -> None:
    assert printed(
        """
import sys, threading
import funcgrad as fg, funcgrad.numpy as fnp
sys.setswitchinterval(1e-6)
start, seen = threading.Barrier(8), []
def touch(number):
    start.wait()
    names = fnp.__all__[number::2] + fnp.__all__[1 - number::2]
    values = {name: getattr(fnp, name) for name in names}
    seen.append((fg.grad, fg.jit, fg.vmap, fg.numpy, fg.tensor, *map(values.get, fnp.__all__)))
threads = [threading.Thread(target=touch, args=(number % 2,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(seen), all(map(lambda one: all(a is b for a, b in zip(one, seen[0])), seen)))
"""
    ).split() == ["8", "True"]


def test_a_name_that_is_first_touched_while_staging_is_no_change() -> None:
    # `-W error`: a warning that the function reads what changes would end the process.
    assert printed(
        """
import funcgrad as fg, funcgrad.numpy as fnp
traces = []
@fg.jit
def f(x):
    traces.append(1)
    return fnp.tanh(x) + fg.numpy.linalg.norm(x)
for _ in range(3): f(fg.tensor([1.0, 2.0]))
fnp.cosh, fg.nn, fg.hessian
f(fg.tensor([3.0, 2.0]))
print(len(traces))
"""
    ).split() == ["1"]


def test_late_names_are_pickled_helped_with_and_patched() -> None:
    assert (
        printed(
            """
import pickle, pydoc, copy
import funcgrad as fg, funcgrad.numpy as fnp
assert pickle.loads(pickle.dumps(fnp.sum)) is fnp.sum
assert pickle.loads(pickle.dumps(fg.vmap)) is fg.vmap
assert "grad" in pydoc.render_doc(fg) and "arctan2" in pydoc.render_doc(fnp)
from unittest.mock import patch
with patch.object(fnp, "cos", len):
    assert fnp.cos("ab") == 2
assert float(fnp.cos(0.0)) == 1.0
"""
        )
        == ""
    )


def test_a_name_that_nothing_has_is_an_ordinary_error() -> None:
    for module in (fg, fg.scipy):
        with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no .* 'grda'"):
            module.grda  # noqa: B018
        assert not hasattr(module, "grda")


def test_no_late_name_is_that_of_another_module() -> None:
    # Python puts a module that is imported into its package, in the place of the function.
    for path in ("fg", "fg.numpy", "fg.scipy"):
        package = MODULES[path]
        files = {module.name for module in pkgutil.iter_modules(package.__path__)}
        for name in files & set(package.__all__) - {
            "tensor"
        }:  # which the package does not load late
            assert getattr(package, name).__name__ == f"{package.__name__}.{name}"
    assert (
        printed("import funcgrad.tensor.tensor, funcgrad as fg; print(fg.tensor(1.0))") == "1.0\n"
    )


def test_no_public_name_is_another_library_s() -> None:
    for path, module in MODULES.items():
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, ModuleType):
                assert value.__name__.startswith("funcgrad"), f"{path}.{name}"


def test_static_completion_shows_no_internal_module() -> None:
    # jedi shows every module of a package, whatever `__all__` and `__dir__` say.
    modules = {module.name for module in pkgutil.iter_modules(fg.__path__)}
    public = {name for name in modules if not name.startswith("_")}
    assert public - {*fg.__all__} == {"compat"}  # users import them by their paths

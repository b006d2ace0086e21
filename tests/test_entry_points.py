"""Packages of others offer backends and operations by entry points, which are loaded late."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad.errors import ArgumentError, MissingPackageError

MODULE = """
import numpy as np
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._backends.choice import numpy_backend

class Counting:
    name = "counting"
    def __init__(self):
        self.compiled = 0
        self.inner = numpy_backend()
    def supports(self, program):
        return self.inner.supports(program)
    def prepare(self, program, relaxed):
        return self.inner.prepare(program, relaxed)
    def compile(self, program):
        self.compiled += 1
        return self.inner.compile(program)
    def inspect(self, program):
        return self.inner.inspect(program)

BACKEND = Counting()
gudermannian = extend.elementwise(
    "gudermannian",
    lambda x: 2 * np.arctan(np.tanh(x / 2)),
    partials=(lambda y, _: fnp.cos(y),),
    samples=extend.reals(-3, 3),
)
"""

ENTRIES = """
[funcgrad.backends]
counting = strangers_angles:BACKEND
lost = strangers_angles:missing

[funcgrad.operations]
gudermannian = strangers_angles:gudermannian
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a tiny distribution on ``sys.path``."""
    (tmp_path / "strangers_angles.py").write_text(MODULE)
    about = tmp_path / "strangers_angles-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: strangers-angles\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "strangers_angles", raising=False)
    return "strangers_angles"


def test_a_backend_is_found_by_its_name(package: str) -> None:
    with pytest.raises(ArgumentError, match=r"no backend called 'tiles'.*'counting', 'lost'"):
        fg.jit(fnp.sin, backend="tiles")
    assert package not in sys.modules
    f = fg.jit(lambda x: fnp.sin(x) * 2, backend="counting")
    np.testing.assert_array_equal(f(np.ones(3)), np.sin(np.ones(3)) * 2)
    assert sys.modules[package].BACKEND.compiled == 1


def test_a_package_that_is_broken_is_named(package: str) -> None:
    with pytest.raises(MissingPackageError, match="jit: the package 'strangers-angles' offers"):
        fg.jit(fnp.sin, backend="lost")


def test_an_operation_is_found_by_its_name(package: str) -> None:
    operations = extend.installed_operations()
    assert "gudermannian" in operations
    assert list(operations) == ["gudermannian"]
    assert len(operations) == 1
    assert package not in sys.modules
    operation = operations["gudermannian"]
    fg.testing.check_primitive(operation)
    assert float(fg.grad(lambda x: extend.apply(operation, x))(0.0)) == 1.0
    with pytest.raises(ArgumentError, match=r"offers 'sine'.*known are: 'gudermannian'"):
        operations["sine"]
    assert repr(operations) == "EntryPoints('funcgrad.operations': gudermannian)"

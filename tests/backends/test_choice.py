"""Which backend compiles a jitted function's programs, and what happens where it does not."""

import pickle
import warnings
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import evaluated
from funcgrad._backends.numpy.backend import NUMPY
from funcgrad._staging.jit import JitWarning
from funcgrad.errors import ArgumentError
from tests.scripts import printed

X = np.linspace(-1.0, 2.0, 6)


class Plain:
    """A backend that evaluates operation by operation; it does not know some operations."""

    name = "plain"

    def __init__(self, unsupported=(), failing=()):
        self.unsupported, self.failing = unsupported, failing

    def supports(self, program):
        return not any(e.operation.name in self.unsupported for e in program.equations)

    def prepare(self, program, relaxed):
        return program

    def compile(self, program):
        if any(e.operation.name in self.failing for e in program.equations):
            raise RuntimeError("no such luck")
        return evaluated(program)

    def inspect(self, program):
        return "plainly"


def test_a_backend_is_chosen_by_name_or_by_value():
    for backend in (None, "numpy", NUMPY, Plain()):
        staged = fg.jit(lambda x: fnp.floor(x) * 2, backend=backend)
        assert_array_equal(staged(X), fnp.floor(X) * 2)
        assert staged.failures == ()
    lowered = fg.jit(lambda x: x + 1, backend=Plain()).lower(X)
    assert (lowered.backend.name, lowered.source) == ("plain", "plainly")
    for name in ("llvm", "nonsense"):
        with pytest.raises(ArgumentError, match=f"no backend called '{name}'. Choose from 'numpy'"):
            fg.jit(lambda x: x, backend=name)
    with pytest.raises(ArgumentError, match="has no supports, prepare, compile, inspect"):
        fg.jit(lambda x: x, backend=SimpleNamespace(name="x"))
    with pytest.raises(ArgumentError, match="is a class"):
        fg.jit(lambda x: x, backend=Plain)  # type: ignore[call-overload]


def test_numpy_runs_what_a_backend_does_not_support():
    staged = fg.jit(lambda x: fnp.sin(x), backend=Plain(unsupported=("sin",)))
    with pytest.warns(JitWarning, match="'plain' does not support") as caught:
        assert_array_equal(staged(X), np.sin(X))
    assert caught[0].filename == __file__
    assert_array_equal(staged(X), np.sin(X))
    assert staged.lower(X).backend is NUMPY


def test_a_failure_to_compile_costs_no_result_and_is_kept():
    staged = fg.jit(lambda x: fnp.sin(x), backend=Plain(failing=("sin",)))
    with pytest.warns(JitWarning, match=r"RuntimeError.*program\.to_text\(\)"):
        assert_array_equal(staged(X), np.sin(X))
    assert_array_equal(staged(X), np.sin(X))
    (failure,) = staged.failures
    assert "sin" in failure.program.to_text()
    assert failure.backend == "plain"
    assert "no such luck" in failure.error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        for size in range(1, 30):
            staged(np.ones(size))
    assert len(staged.failures) < 20


def test_lowered_shows_the_programs_and_the_source():
    lowered = fg.jit(fg.grad(lambda x: fnp.sum(x**2))).lower(X)
    assert lowered.source in str(lowered)
    assert str(lowered.optimized) in str(lowered)
    assert "equation(s)" in repr(lowered)
    with pytest.raises(AttributeError):
        lowered.program = None  # type: ignore[misc, assignment]


def test_a_backend_prepares_programs_itself_those_that_are_derived_too():
    seen = []

    class Preparing(Plain):
        def prepare(self, program, relaxed):
            seen.append((program, relaxed))
            return program

    staged = fg.jit(lambda x: fnp.sin(fg.checkpoint(fnp.sin)(x)), backend=Preparing())
    assert_array_equal(staged(X), fnp.sin(fnp.sin(X)))
    ((program, relaxed),) = seen
    assert [each.name for each in program.equations] == ["checkpoint", "sin"]
    assert not relaxed
    fg.grad(lambda x: staged(x)[0])(X)
    assert len(seen) > 1
    fg.jit(fnp.sin, backend=Preparing(), relaxed=True)(X)
    assert seen[-1][1]


def test_only_programs_that_move_numbers_leave_numpys_warnings_alone():
    moving = fg.program(lambda x: x[::-1].reshape(2, 3).T)(X)
    assert not NUMPY.compile(moving).warns
    assert NUMPY.compile(fg.program(lambda x: x[::-1] / 0)(X)).warns
    assert NUMPY.compile(fg.program(fg.checkpoint(fnp.sin))(X)).warns
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(np.isinf(fg.jit(lambda x: x / 0)(X)))
        assert_array_equal(fg.jit(lambda x: x[::-1])(X), X[::-1])


def test_a_backend_that_keeps_calls_misses_where_a_guard_inside_does_not_hold():
    @fg.custom_jvp
    def bent(x):
        return x * 2.0 if fnp.sum(x) > 0 else x * 3.0

    bent.defjvp(lambda primals, tangents: (bent(*primals), tangents[0]))
    for backend in (Plain(), None):
        staged = fg.jit(lambda x: bent(x) + 1.0, backend=backend)
        for x in (X, -X, X, -X):
            np.testing.assert_allclose(staged(x), bent(x) + 1.0, rtol=1e-15)


SCRIPT = """
import sys, warnings
import funcgrad as fg

warnings.simplefilter("always")


@fg.jit
def doubled(x):
    return x * 2.0


assert "llvmlite" not in sys.modules or sys.modules["llvmlite"] is None
with warnings.catch_warnings(record=True) as log:
    assert doubled(1.5) == 3.0
    assert fg.jit(lambda x: x + 1.0)(1.5) == 2.5
    assert fg.jit(lambda x: x - 1.0, exact=True)(1.5) == 0.5
usual = [str(warning.message) for warning in log]
with warnings.catch_warnings(record=True) as log:
    assert fg.jit(lambda x: x + 3.0, backend="native")(1.5) == 4.5
named = [str(warning.message) for warning in log]
print(doubled.lower(1.5).backend.name, usual, named, sep="\\n")
"""


def run_script(before: str = "", path: Path | None = None) -> list[str]:
    """The backend of functions that name none, the warnings for them, and for one that names it."""
    lines = f"import sys; sys.path[:0] = {[str(path)] if path else []}\n{before}\n{SCRIPT}"
    return printed(lines).splitlines()


def test_machine_code_is_usual_where_there_is_a_compiler() -> None:
    if find_spec("llvmlite"):
        assert run_script() == ["native", "[]", "[]"]


def test_without_a_compiler_numpy_runs_and_only_those_who_ask_are_told() -> None:
    backend, usual, named = run_script("sys.modules['llvmlite'] = None")
    assert (backend, usual) == ("numpy", "[]")
    assert 'llvmlite is not installed: python -m pip install "llvmlite>=0.45,<0.51"' in named
    assert named.count("the native backend cannot run here") == 1


def test_a_compiler_that_cannot_be_loaded_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "llvmlite.py").write_text("raise OSError('a library is missing')")
    backend, usual, named = run_script(path=tmp_path)
    assert backend == "numpy"
    assert usual.count("a library is missing") == named.count("a library is missing") == 1


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (
            "import funcgrad._backends.native.cpython as c; c._read = lambda *_: 0",
            "memory is laid out in another way: an object's type",
        ),
        ("sys._is_gil_enabled = lambda: False", "this interpreter runs without its lock (GIL)"),
    ],
)
def test_an_interpreter_without_machine_code_is_told_of_once(before: str, reason: str) -> None:
    if not find_spec("llvmlite"):
        pytest.skip("there is no native backend")
    backend, usual, named = run_script(before)
    assert backend == "numpy"
    assert usual.count(reason) == named.count(reason) == 1


def test_a_function_that_names_no_backend_pickles_without_one() -> None:
    again = pickle.loads(pickle.dumps(fg.jit(abs)))
    assert again(-2.0) == 2.0
    assert again.lower(-2.0).backend == fg.jit(abs).lower(-2.0).backend

"""A program's results have the same bits whenever and wherever its code was made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.trace import concrete
from funcgrad._programs.program import Program
from tests.conformance import every_case, every_primitive, representatives
from tests.subjects import bits

pytest.importorskip("llvmlite")

from funcgrad._backends.native import native_code
from funcgrad._backends.native.native_backend import NATIVE, NativeBackend
from funcgrad._backends.native.native_code import BEST, FIRST
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.processor import Toolchain

Run = Callable[[], Sequence[Any]]


def compiled(backend: NativeBackend, program: Program, values: Sequence[Any]) -> Run:
    run = backend.compile(backend.prepare(program, False)).run

    def call() -> Sequence[Any]:
        with np.errstate(all="ignore"):
            outputs = run(*values)
        assert outputs is not None
        return outputs

    return call


def in_a_thread(call: Run) -> Sequence[Any]:
    answers: list[Sequence[Any]] = []
    thread = Thread(target=lambda: answers.append(call()))
    thread.start()
    thread.join()
    (answer,) = answers
    return answer


def begin_with_the_best(patch: pytest.MonkeyPatch) -> None:
    """Have the first code of a program be the best: with all that it calls, at level 2."""
    patch.setattr(native_code, "FIRST", BEST)
    patch.setattr(NativeModule, "short_text", NativeModule.text)


def assert_one_result(
    f: Callable[..., Any], args: Sequence[Any], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """Check code of both levels, code from the disk, and code that runs in another thread."""
    program, values = fg.program(f)(*args), [concrete(leaf) for leaf in fg.tree.leaves(args)]
    monkeypatch.setattr(native_code, "begin_thread", lambda *_, **__: None)  # which would improve
    first = compiled(NATIVE, program, values)
    expected = [bits(output) for output in first()]
    assert [bits(output) for output in in_a_thread(first)] == expected
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("FUNCGRAD_CACHE")
    with monkeypatch.context() as patch:
        begin_with_the_best(patch)
        best = compiled(NATIVE, program, values)
    assert [bits(output) for output in best()] == expected
    with monkeypatch.context() as patch:
        patch.setattr(Toolchain, "_compile", None)  # so that code can come from the disk alone
        stored = compiled(NATIVE, program, values)
    assert [bits(output) for output in stored()] == expected
    assert [bits(output) for output in in_a_thread(stored)] == expected


X = np.linspace(-2.5, 3.0, 37)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "functions": lambda x: [fnp.exp(x), fnp.tanh(x), fnp.sin(x), fnp.log(x), fnp.cbrt(x), x**3.3],
    "sums": lambda x: (fnp.sum(x * x - 0.1), fnp.mean(x, axis=0), fnp.prod(x), fnp.var(x)),
    "products": lambda x: (fnp.outer(x, x) @ fnp.outer(x, x + 1.0), x @ x),
    "solutions": lambda x: fnp.linalg.solve(fnp.outer(x[:4], x[:4]) + fnp.eye(4), x[:4]),
    "loops": lambda x: fg.scan(lambda c, e: (fnp.tanh(c * e) + 0.1, c), x[0], x),
    "integers": lambda x: [fnp.astype(fnp.exp(12.0 * x) - 300.0, char) for char in "bBhHiIqQ"],
    "callbacks": lambda x: fnp.sin(fnp.partition(x, 0) * 3.0) + x,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_have_the_same_bits(
    name: str, dtype: type[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if name == "solutions" and dtype is np.float16:
        dtype = np.float64
    assert_one_result(FUNCTIONS[name], [X.astype(dtype)], monkeypatch, tmp_path)


PRIMITIVES = every_primitive()
AT_ONCE = 12


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(PRIMITIVES), AT_ONCE))
def test_results_of_every_primitive_have_the_same_bits(
    start: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cases = [
        form
        for primitive in PRIMITIVES[start : start + AT_ONCE]
        for case in list(representatives(every_case([primitive])))[:1]
        for form in (case, case.in_single_precision())
    ]

    def f(*groups: Any) -> Any:
        return [case.function()(*args) for case, args in zip(cases, groups, strict=True)]

    assert_one_result(f, [tuple(case.args) for case in cases], monkeypatch, tmp_path)


def test_a_level_that_rounded_otherwise_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compile_ = Toolchain._compile

    def with_another_number(self: Toolchain, text: str, level: int) -> bytes:
        number = np.float64(1.0 / 3.0)
        first, second = [f"0x{int(n.view('u8')):016X}" for n in (number, np.nextafter(number, 1.0))]
        assert level == FIRST or first in text
        return compile_(self, text if level == FIRST else text.replace(first, second), level)

    fg.jit(lambda x: x, backend="native")(X)  # so that the runtime is compiled
    monkeypatch.setattr(Toolchain, "_compile", with_another_number)
    with pytest.raises(AssertionError):
        assert_one_result(lambda x: x * (1.0 / 3.0), [X], monkeypatch, tmp_path)


def test_code_that_runs_for_some_milliseconds_is_compiled_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The processor's clock tells how long it runs: a clock that stands still never would."""
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")
    f = fg.jit(lambda x: fnp.cumsum(fnp.tanh(x) * 1.25), backend="native")
    f(X)
    better, compile_ = Event(), Toolchain.compiled

    def compiled_better(self: Toolchain, text: str, level: int) -> bytes:
        assert level == BEST
        better.set()
        return compile_(self, text, level)

    monkeypatch.setattr(Toolchain, "compiled", compiled_better)
    calls = 0
    while not better.is_set() and calls < 1_000_000:
        f(X)
        calls += 1
    assert 10 < calls < 1_000_000
    assert better.wait(60)

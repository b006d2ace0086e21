"""Functions that programs share: one name has one text, and a process compiles it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native.function_text import SharedFunction
from funcgrad._backends.native.native_backend import NATIVE, NativeBackend
from funcgrad._backends.native.native_code import FIRST, SharedCode
from funcgrad._backends.native.processor import Toolchain
from tests.tools.practice.all_tasks import TASKS
from tests.tools.practice.libraries import funcgrad


@pytest.mark.slow
def test_a_name_says_all_that_a_shared_function_depends_on() -> None:
    texts: dict[str, SharedFunction] = {}
    for task in TASKS:
        staged = fg.program(task.function(funcgrad()))(*task.arguments(small=True))
        backend = NativeBackend()  # whose functions are written anew
        backend.inspect(backend.prepare(staged, True))
        for name, function in backend._shared.definitions.items():
            assert texts.setdefault(name, function) == function
    assert len(texts) > 50


def test_a_second_program_compiles_only_what_no_other_one_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[int] = []
    compile_ = Toolchain.compiled

    def noted(self: Toolchain, text: str, level: int) -> bytes:
        compiled.append(level)
        return compile_(self, text, level)

    x = np.linspace(0.0, 1.0, 64)
    first = fg.jit(lambda x: fnp.tanh(fnp.cbrt(x)), backend="native")(x)
    monkeypatch.setattr(Toolchain, "compiled", noted)
    second = fg.jit(lambda x: fnp.cbrt(x) * fnp.tanh(x), backend="native")(x)
    assert compiled.count(FIRST) == 1
    np.testing.assert_allclose(first, np.tanh(np.cbrt(x)))
    np.testing.assert_allclose(second, np.cbrt(x) * np.tanh(x))


def test_a_function_with_an_address_has_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread that finds the address looks up the file."""
    link, linked = SharedCode._link, list[str]()

    def noted(self: SharedCode, file: bytes, names: Sequence[str]) -> None:
        assert {*names} <= self._files.keys()
        link(self, file, names)
        linked.extend(names)

    monkeypatch.setattr(SharedCode, "_link", noted)
    backend = NativeBackend()
    backend.compile(backend.prepare(fg.program(fnp.tanh)(np.ones(100)), False))
    assert linked


def test_text_to_look_at_has_shared_functions_too() -> None:
    def solved(a: Any, b: Any) -> Any:
        return fnp.sin(fnp.linalg.solve(a, b))

    program = fg.program(solved)(np.eye(3), np.ones(3))
    text = NATIVE.inspect(NATIVE.prepare(program, True))
    heads = [line for line in text.splitlines() if line.startswith("define ")]
    for word in ("@sine_and_cosine_", "@far_turn", "@solve_3_", "@substitute_3_"):
        assert any(word in head for head in heads)


def test_functions_of_integers_with_and_without_a_sign_are_two() -> None:
    x = np.array([-128, 127, 96], np.int8)
    f = fg.jit(lambda x, y: (fnp.gcd(x, x), fnp.gcd(y, y)), backend="native")
    for actual, values in zip(f(x, x.view(np.uint8)), (x, x.view(np.uint8)), strict=True):
        np.testing.assert_array_equal(actual, np.gcd(values, values))

"""A program that cannot become machine code runs on the NumPy backend, and a warning says why."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.instructions import NotEmitted
from funcgrad._staging.jit import JitWarning

pytest.importorskip("llvmlite")

from funcgrad._backends.native.native_module import NativeModule

X = np.linspace(-1.0, 2.0, 6)


def refused_text(patch: pytest.MonkeyPatch) -> str:
    for name in ("text", "short_text"):
        patch.setattr(NativeModule, name, property(lambda module: "define nonsense"))
    return "LLVM refuses the module"


def unwritten_step(patch: pytest.MonkeyPatch) -> str:
    def write(*_: object) -> None:
        raise NotEmitted("no such instruction")

    patch.setattr("funcgrad._backends.native.functions.write_module", write)
    return "no such instruction"


def unknown_symbol(patch: pytest.MonkeyPatch) -> str:
    patch.setattr("funcgrad._backends.native.native_backend.symbols", lambda: MappingProxyType({}))
    return "nobody knows the symbol"


def no_memory(patch: pytest.MonkeyPatch) -> str:
    def write(*_: object) -> None:
        raise MemoryError

    patch.setattr("funcgrad._backends.native.functions.write_module", write)
    return "MemoryError"


@pytest.mark.parametrize("spoil", [refused_text, unwritten_step, unknown_symbol, no_memory])
def test_numpy_runs_what_cannot_be_compiled(
    spoil: Callable[[pytest.MonkeyPatch], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: Any) -> Any:
        return fg.scan(lambda c, e: (c * e, c), fnp.sum(fnp.sqrt(x * x)), x)

    fg.jit(lambda x: x, backend="native")(X)  # the code that all programs share is sound
    staged = fg.jit(f, backend="native")
    cause = spoil(monkeypatch)
    monkeypatch.setattr(
        "funcgrad._staging.jit.evaluated", None
    )  # which is slower than NumPy's text
    with pytest.warns(JitWarning, match=cause) as caught:
        results = [staged(X) for _ in range(4)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "NumPy's runs" in str(caught[0].message)
    (failure,) = staged.failures
    assert failure.backend == "native"
    for result in results:
        for actual, expected in zip(result, f(X), strict=True):
            assert_array_equal(actual, expected)


def test_derivatives_of_such_a_program_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    staged = fg.jit(lambda x: fnp.sum(x**3), backend="native")
    refused_text(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JitWarning)
        assert_array_equal(fg.grad(staged)(X), 3 * X**2)
        assert_array_equal(fg.vmap(staged)(X[:, None]), X**3)

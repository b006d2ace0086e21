"""Code for 64-bit Arm, made on any processor: read, and not run."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native import pool_text, thread_pool
from funcgrad._backends.native.cpython import symbols
from funcgrad._backends.native.native_backend import NativeBackend
from funcgrad._backends.native.processor import Processor, Toolchain, llvm
from funcgrad._backends.native.runtime import CALLS
from tests.together import together

GRAVITON = Processor("generic", "", 128, "aarch64-unknown-linux-gnu")
APPLE = Processor("apple-m1", "", 128, "arm64-apple-darwin24.0")
INTEL_OF_APPLE = Processor("haswell", "+avx2,+fma", 256, "x86_64-apple-darwin24.0")

_REFERENCE = re.compile(
    r"(?:\bbl?\t|:abs_g0_nc:)_?([a-zA-Z]\w*)|\b_(\w+)@GOTPAGE\b|movabsq\t\$_(\w+)"
)


def assembly(processor: Processor, text: str, level: int) -> str:
    """A module as instructions of a processor."""
    binding = llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    tools = Toolchain(processor)
    module = binding.parse_assembly(text)
    machine = tools._machines[level] = tools._machine(level)
    if level:
        tools._optimize(module, level)
    return str(machine.emit_assembly(module))


def missing_in(code: str) -> set[str]:
    """The symbols that code refers to and does not define."""
    defined = {name.removeprefix("_") for name in re.findall(r"^(\w+):", code, re.MULTILINE)}
    return {name for names in _REFERENCE.findall(code) for name in names if name} - defined


PROGRAMS: MappingProxyType[str, tuple[Callable[..., Any], Any]] = MappingProxyType(
    {
        "zeros": (fg.grad(lambda x: fnp.sum(x[np.array([1, 1, 2])] ** 2)), np.ones(400)),
        "halves": (lambda x: fnp.cumsum(fnp.tanh(x)).astype(float), np.ones(50, np.float16)),
        "remainders": (lambda x: fnp.fmod(x, 3.0) + (x % 2).astype(np.uint8), np.ones(50)),
        "loops": (lambda x: fg.scan(lambda c, e: (c * e, c), x[0], x), np.ones(50)),
    }
)


@together("processor", [GRAVITON, APPLE, INTEL_OF_APPLE], ids=lambda p: p.triple)
@together("name", PROGRAMS)
def test_code_refers_to_what_is_known_only(processor: Processor, name: str) -> None:
    """LLVM calls functions of its own choice, such as macOS's for memory that becomes zero."""
    f, x = PROGRAMS[name]
    backend = NativeBackend()
    backend._tools = Toolchain(processor)
    module, _ = backend._written(backend.prepare(fg.program(f)(x), True))
    known = {*symbols(), *CALLS, *module.recipes}
    assert {*module.symbols} <= known
    code = assembly(processor, module.text, 2)
    assert missing_in(code) - known == set()
    if name == "zeros":
        assert missing_in(code) & {"memset", "bzero", "__bzero"}
    short = missing_in(assembly(processor, module.short_text, 0))
    assert short - known - {*module.uses} == set()


def test_arm_fuses_and_converts_halves_by_its_kind_alone() -> None:
    for processor in (GRAVITON, APPLE):
        assert processor.fuses
        assert processor.halves
        assert not processor.scales
    assert not Processor("x86-64", "", 128, "x86_64-unknown-linux-gnu").fuses


@pytest.mark.parametrize("processor", [GRAVITON, APPLE], ids=lambda processor: processor.cpu)
def test_threads_take_ranges_by_one_instruction_or_by_a_pair(processor: Processor) -> None:
    text = re.sub("SIG_BLOCK|MONOTONIC|REALTIME", "0", pool_text.POOL)
    code = assembly(processor, text, 2)
    assert "ldadd" in code or "stxr" in code
    variables = re.findall(r"^@(\w+) =", pool_text.POOL, re.MULTILINE)
    known = {*thread_pool._OF_THREADS, *thread_pool._OF_PYTHON, *variables}
    assert missing_in(code) <= known

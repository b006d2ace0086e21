"""Object files that are loaded without LLVM, and those that are left to it."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import funcgrad as fg
from tests.together import together

pytest.importorskip("llvmlite")

from funcgrad._backends.native import object_files
from funcgrad._backends.native.cpython import NativeError
from funcgrad._backends.native.native_backend import NativeBackend
from funcgrad._backends.native.object_files import UnknownFormatError, load
from funcgrad._backends.native.processor import Processor, Toolchain, host

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="LLVM loads all files there"
)

TEXTS = (
    "@table = internal constant [3 x i64] [i64 7, i64 8, i64 9]"
    " @place = internal constant ptr getelementptr (i64, ptr @table, i64 1)"
    " declare i64 @other(i64) define i64 @program(i64 %x) { %p = load ptr, ptr @place"
    " %y = load i64, ptr %p %s = add i64 %x, %y %z = call i64 @other(i64 %s) ret i64 %z }",
    "declare i64 @outside(i64) define i64 @other(i64 %x) {"
    " %y = call i64 @outside(i64 %x) %z = mul i64 %y, 10 ret i64 %z }",
)
"""Two modules: one refers to itself, to the other one, and this one to something outside."""


def objects(level: int) -> list[bytes]:
    return [Toolchain().object_code(text, level) for text in TEXTS]


@together("level", [0, 1, 2])
def test_files_call_one_another_and_functions_outside(level: int) -> None:
    form = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    outside = form(lambda x: x + 1)
    address = ctypes.cast(outside, ctypes.c_void_p).value or 0
    addresses, memory = load(objects(level), {"outside": address})
    assert form(addresses["program"])(5) == (5 + 8 + 1) * 10
    assert len(memory) > 0


def test_an_unknown_symbol_is_named() -> None:
    with pytest.raises(NativeError, match="nobody knows the symbol 'outside'"):
        load(objects(0), {})


@together(
    ("name", "char"),
    [(n, c) for n in ("trunc", "floor", "ceil", "rint", "nearbyint") for c in "df"],
)
def test_functions_of_c_stand_in_for_instructions(name: str, char: str) -> None:
    """Without SSE4.1 there is no instruction that rounds."""
    kind, bits = {"d": ("double", 64), "f": ("float", 32)}[char]
    function = f"@llvm.{name}.f{bits}"
    text = (
        f"declare {kind} {function}({kind}) define {kind} @program({kind} %x) {{"
        f" %y = call {kind} {function}({kind} %x) ret {kind} %y }}"
    )
    tools = Toolchain(Processor("x86-64", "", 128, host()[0].triple))
    files = [tools.object_code(text, 1)]
    number = {"d": ctypes.c_double, "f": ctypes.c_float}[char]
    codes = [
        tools.linked(files, {}, ["program"]),
        tools.alone(lambda: tools._link(files, {}, ["program"])),
    ]
    assert f"{name}{char.strip('d')}\0".encode() in files[0]
    expected = getattr(np, {"nearbyint": "rint"}.get(name, name))
    for code in codes:
        rounds = ctypes.CFUNCTYPE(number, number)(code.addresses["program"])
        for x in (2.5, -0.7, -3.5, 1e9):
            assert rounds(x) == expected(x)
    del code, codes
    tools.alone(tools._free_unused)  # now, rather than while another test counts pages


def _as_other_machine(contents: bytes) -> bytes:
    return contents[:18] + b"\xb7" + contents[19:]


def _as_other_relocation(contents: bytes) -> bytes:
    file = object_files._File(contents)
    (section,) = [s for s in file.sections if s.kind == 4 and file.sections[s.target].flags & 4]
    place = section.offset + 8
    return contents[:place] + b"\x02" + contents[place + 1 :]


@together("change", [_as_other_machine, _as_other_relocation, lambda contents: contents[:100]])
def test_what_it_does_not_know_is_left_to_llvm(change: Callable[[bytes], bytes]) -> None:
    contents = objects(0)[1]
    load([contents], {"outside": 1})
    with pytest.raises(UnknownFormatError):
        load([change(contents)], {"outside": 1})


def test_llvm_loads_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on other systems, or where memory may not be made executable."""

    def refused(*_: object) -> None:
        raise UnknownFormatError

    monkeypatch.setattr(object_files, "_make_executable", refused)
    backend = NativeBackend()
    x = np.linspace(0.0, 1.0, 50)
    assert float(fg.jit(lambda x: (x * x).sum(), backend=backend)(x)) == pytest.approx(x @ x)
    assert backend._tools._holders
    del backend
    gc.collect()


def test_memory_is_freed() -> None:
    def mapped() -> int:
        pages = 0
        for line in Path("/proc/self/maps").read_text().splitlines():
            place, access, _, _, inode, *_ = line.split()
            if access == "r-xp" and inode == "0":
                begin, _, end = place.partition("-")
                pages += (int(end, 16) - int(begin, 16)) // 4096
        return pages

    def changes() -> tuple[int, int]:
        gc.collect()  # what other tests have left
        before, files = mapped(), objects(0)
        held = [load(files, {"outside": 1}) for _ in range(50)]
        during = mapped()
        del held
        return during - before, mapped() - before

    # Another thread may free code in the meantime.
    assert (50, 0) in [changes() for _ in range(5)]


SCRIPT = """
import sys
import numpy as np
import funcgrad as fg, funcgrad.numpy as fnp
f = fg.jit(fg.value_and_grad(lambda x: fnp.sum(fnp.tanh(x @ x.T))), backend="native")
value, slope = f(np.linspace(0.0, 1.0, 16).reshape(4, 4))
print(float(value), float(fnp.sum(slope)), "llvmlite.binding" in sys.modules, f.failures)
"""


def test_a_process_that_finds_its_code_loads_no_llvm(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "FUNCGRAD_CACHE": "1"}
    outs: list[list[str]] = []
    for _ in range(2):
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        outs.append(done.stdout.split())
    assert outs[0][:2] == outs[1][:2]
    assert [out[2:] for out in outs] == [["True", "()"], ["False", "()"]]

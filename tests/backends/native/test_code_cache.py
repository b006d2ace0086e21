"""Machine code on disk is used again, and never where somebody else could have written it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.code_cache import digest, read_code, write_code

pytest.importorskip("llvmlite")

from funcgrad._backends.native import processor
from funcgrad._backends.native.native_code import BEST
from funcgrad._backends.native.processor import Toolchain
from tests.in_threads import in_threads

NAME = digest(["some", "code"])
TEXT = "define i64 @five() { ret i64 5 } ; " + "x" * 5000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for thread in threading.enumerate():  # code of tests before this one is still being compiled
        if thread is not threading.current_thread() and thread.name.startswith("funcgrad"):
            thread.join()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FUNCGRAD_CACHE", raising=False)
    return tmp_path / "cache" / "funcgrad"


def test_what_is_written_is_read(folder: Path) -> None:
    assert read_code(NAME) is None
    write_code(NAME, b"code")
    assert read_code(NAME) == b"code"
    assert os.listdir(folder) == [NAME]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / NAME).stat().st_mode & 0o777 == 0o600
    write_code(NAME, b"newer")
    assert read_code(NAME) == b"newer"


def test_files_that_others_could_have_written_are_ignored(folder: Path) -> None:
    write_code(NAME, b"code")
    (folder / NAME).chmod(0o660)
    assert read_code(NAME) is None
    (folder / NAME).chmod(0o600)
    assert read_code(NAME) == b"code"
    folder.chmod(0o755)
    assert read_code(NAME) is None
    folder.chmod(0o700)
    (folder / NAME).rename(folder / "elsewhere")
    (folder / NAME).symlink_to(folder / "elsewhere")
    assert read_code(NAME) is None
    assert read_code("elsewhere") is None  # a file says whose contents it has
    (folder / NAME).unlink()
    (folder / NAME).mkdir()
    assert read_code(NAME) is None
    write_code(NAME, b"code")
    assert sorted(os.listdir(folder)) == sorted(["elsewhere", NAME])


def test_quick_code_is_better_in_later_processes(folder: Path) -> None:
    tools = Toolchain()
    quick = tools.quick_code(TEXT)
    assert tools.known_code(TEXT, 1) is None
    assert tools.known_code(TEXT, 0) == quick
    tools.in_background(lambda: None, lambda: None)
    assert tools.known_code(TEXT, 1) is not None
    assert Toolchain().quick_code(TEXT) == tools.known_code(TEXT, 1)


def test_a_folder_that_is_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    folder.parent.mkdir()
    folder.symlink_to(tmp_path / "other")
    write_code(NAME, b"code")
    assert read_code(NAME) is None
    assert os.listdir(tmp_path / "other") == []


def test_a_damaged_file_is_ignored(folder: Path) -> None:
    contents = bytes(range(40))
    write_code(NAME, contents)
    whole = (folder / NAME).read_bytes()
    for place in range(len(whole)):
        (folder / NAME).write_bytes(whole[:place])
        assert read_code(NAME) is None
        (folder / NAME).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert read_code(NAME) is None
    (folder / NAME).write_bytes(whole)
    assert read_code(NAME) == contents


def test_it_can_be_switched_off(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")
    write_code(NAME, b"code")
    assert read_code(NAME) is None
    assert not folder.exists()


def test_where_nothing_can_be_written_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    write_code(NAME, b"code")
    assert read_code(NAME) is None


def test_the_oldest_files_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("funcgrad._backends.native.code_cache._MOST_FILES", 10)
    for k in range(10):
        write_code(f"{k}", b"code")
        os.utime(folder / f"{k}", (k, k))
    write_code("00", b"code")
    assert sorted(os.listdir(folder)) == ["00", "6", "7", "8", "9"]


def test_code_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Toolchain().object_code(TEXT, BEST)
    compiled: list[str] = []

    def compile_(self: Toolchain, text: str, level: int) -> bytes:
        compiled.append(text)
        return first

    monkeypatch.setattr(Toolchain, "compiled", compile_)
    assert Toolchain().object_code(TEXT, BEST) == first
    assert compiled == []
    Toolchain().object_code(TEXT + " ", BEST)
    Toolchain().object_code(TEXT, 0)
    weak = processor.Processor("x86-64", "", 128, Toolchain().processor.triple)
    Toolchain(weak).object_code(TEXT, BEST)
    assert len(compiled) == 3


def test_a_program_is_the_same_from_disk(folder: Path) -> None:
    def f(x: Any) -> Any:
        for k in range(8):
            x = fnp.tanh(x) * 1.1 + fnp.partition(x * k, 0)
        return fnp.sum(x), x

    x = np.linspace(-2.0, 2.0, 33)
    first = fg.jit(f, backend="native")(x)
    assert len(os.listdir(folder)) >= 1
    again = fg.jit(f, backend="native")(x)
    for one, other in zip(first, again, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_transforms_are_the_same_from_disk(folder: Path, name: str, norm: Any) -> None:
    def f(x: Any) -> Any:
        return getattr(fnp.fft, name)(x, norm=norm)

    x = np.linspace(-2.0, 2.0, 10)
    first = fg.jit(f, backend="native")(x)
    assert len(os.listdir(folder)) >= 1
    again = fg.jit(f, backend="native")
    assert np.asarray(again(x)).tobytes() == np.asarray(first).tobytes()
    assert not again.failures


WRITER = """
import sys
from funcgrad._backends.native.code_cache import read_code, write_code
name, size = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
while True:
    for k in range(256):
        write_code(name, bytes([k]) * size)
        assert len({*(read_code(name) or b"a")}) == 1
"""


@pytest.mark.slow
def test_processes_that_write_at_once_and_are_killed_do_no_harm(folder: Path) -> None:
    command = [sys.executable, "-c", WRITER, NAME, "300000"]
    for _ in range(3):
        writers = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
        for _ in range(100):
            contents = read_code(NAME) or b"a"
            assert len({*contents}) == 1
            assert len(contents) in (1, 300000)
        for writer in writers:
            writer.kill()
            _, errors = writer.communicate()
            assert errors == b""
        assert len({*(read_code(NAME) or b"a")}) == 1


def test_threads_may_compile_at_once(folder: Path) -> None:
    made: list[bytes] = []
    Toolchain().name(TEXT, BEST)  # writes what the processor is
    before = len(os.listdir(folder))

    def work() -> None:
        made.append(Toolchain().object_code(TEXT, BEST))

    in_threads(lambda _: work(), 6)
    assert len({*made}) == 1
    assert len(os.listdir(folder)) == before + 1

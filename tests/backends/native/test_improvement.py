"""Code is improved in pieces: first calls, forks and the end of Python wait for one at most."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native import native_code
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.native_code import BEST
from funcgrad._backends.native.processor import Toolchain
from funcgrad._base.locks import begin_thread


def sines(count: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for k in range(count):
            x = fnp.sin(x) * (1.0 + k / count)
        return x

    return f


def test_what_is_made_of_a_program_grows_with_it() -> None:
    """LLVM's time does, which no test measures: 400 sines took 7 s, and their code 1 MB."""

    def size(count: int) -> int:
        program = NATIVE.prepare(fg.program(sines(count))(np.ones(100)), False)
        texts, _ = NATIVE._written(program)[0].parts
        return sum([len(NATIVE._tools.compiled(text, BEST)) for text in texts])

    assert size(400) < 10 * size(50) < 100_000


def test_a_piece_that_would_begin_while_python_ends_is_abandoned() -> None:
    tools, made = Toolchain(), list[bytes]()

    def work() -> None:
        made.append(tools.compiled("define i64 @five() { ret i64 5 }", BEST))
        tools._end()
        made.append(tools.compiled("define i64 @six() { ret i64 6 }", BEST))

    thread = Thread(target=lambda: tools.in_background(work, made.clear))
    thread.start()
    thread.join()
    assert len(made) == 1


def test_programs_beyond_a_few_ask_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that makes programs all the time had a waiting thread for each, gone or not."""
    asked, begin = list[Callable[[], object]](), begin_thread

    def begun(work: Callable[[], object], *args: Any, **options: Any) -> Thread:
        asked.append(work)
        return begin(work, *args, **options)

    monkeypatch.setattr(native_code, "begin_thread", begun)
    monkeypatch.setattr(native_code, "_PATIENCE", 1)
    x = np.ones(5)
    functions = [fg.jit(lambda x, k=k: fnp.sum(fnp.tanh(x) * k), backend=NATIVE) for k in range(40)]
    with NATIVE._tools._background:
        for f in functions * 3:
            f(x)
        assert 4 < len(asked) < 20
    deadline = time.monotonic() + 60
    while len(asked) < 40 and time.monotonic() < deadline:
        for f in functions:
            f(x)
    assert len(asked) == 40


SCRIPT = """
import atexit, os, sys, threading, time, warnings
import numpy as np
import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_code import BEST
from funcgrad._backends.native.processor import Toolchain

warnings.simplefilter("ignore", DeprecationWarning)  # newer versions tell of threads at forks
compile_, begun = Toolchain._compile, []

def slowly(self, text, level):
    if self._in_background == threading.get_ident():
        begun.append(level)
        print("piece", flush=True)
        time.sleep(0.1)
    return compile_(self, text, level)

def f(x):
    functions = fnp.sin, fnp.exp, fnp.arctan, fnp.tanh, fnp.cbrt, fnp.log1p, fnp.expm1, fnp.sinh
    for k in range(64):
        x = fnp.cumsum(functions[k // 3 % 8](x * 0.1)) * 0.01
    return x

def improves():
    return any(thread.name == "funcgrad compiles" for thread in threading.enumerate())

def call_until_it_is_improved():
    begin = time.monotonic()
    while not improves() and time.monotonic() < begin + 60:
        g(x)

x = np.ones(1000)
g = fg.jit(f, backend="native")
expected = np.asarray(g(x))
others = fnp.arcsinh, fnp.arccosh, fnp.arctanh, fnp.exp2, fnp.log2, fnp.cosh, fnp.arccos, fnp.tan
other = fg.jit(lambda x: sum(f(x) for f in others), backend="native")
Toolchain._compile = slowly
call_until_it_is_improved()
while not begun:
    time.sleep(0.01)
time.sleep(0.15)  # in the midst of the second piece
before = len(begun)
"""

FIRST_CALL = """
other(x)
assert len(begun) - before <= 5, begun  # half of the pieces that begin if they do not wait
atexit.register(os.write, 1, b"end\\n")  # which is the first that runs as Python ends
"""
FORK = """
counts = []
count = lambda: counts.append(len(begun))
os.register_at_fork(before=count, after_in_parent=count)
child = os.fork()
if not child:
    assert not improves()
    Toolchain._compile = compile_
    call_until_it_is_improved()
    assert improves()
    os._exit(0)
assert counts[1] - counts[0] <= 2, counts
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
WHOLE = """
while improves():
    time.sleep(0.01)
np.testing.assert_array_equal(np.asarray(g(x)), expected)
"""


def pieces(what: str) -> list[str]:
    """What a script says that does something while code is improved."""
    command = [sys.executable, "-c", SCRIPT + what]
    environment = {**os.environ, "FUNCGRAD_CACHE": "0"}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.slow
def test_nobody_waits_for_more_than_a_piece() -> None:
    begun = pieces(FIRST_CALL)
    assert begun[begun.index("end") :].count("piece") <= 2
    if hasattr(os, "fork"):
        pieces(FORK)
    assert pieces(WHOLE).count("piece") > 6

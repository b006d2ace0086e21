"""Long programs run without the interpreter's lock, and a signal ends them wherever they are."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp

pytest.importorskip("llvmlite")

from funcgrad._backends.native.native_backend import NATIVE


def is_long(f: Callable[..., Any], *args: Any) -> bool:
    """Whether a function's program runs without the lock."""
    program = NATIVE.prepare(fg.program(f)(*args), False)
    return NATIVE._written(program)[1].is_long


def repeated(count: int, last: Callable[[Any], Any] = lambda c: c) -> Callable[[Any], Any]:
    return lambda x: last(fg.fori_loop(0, count, lambda k, c: c * 0.5 + 1.0, x))


def _called_back(x: Any) -> Any:
    return fnp.linalg.svd(x[:, None])[1] * x


def test_a_program_is_long_by_the_work_between_two_calls_of_python() -> None:
    x = np.ones(3)
    assert is_long(repeated(1 << 20), x)
    assert not is_long(repeated(1 << 10), x)
    assert is_long(repeated(1 << 20, _called_back), x)
    assert not is_long(lambda x: fg.fori_loop(0, 1 << 20, lambda k, c: _called_back(c), x), x)
    # Loops that may end at once: letting go of the lock may cost more than they do.
    assert not is_long(lambda x: fg.while_loop(lambda c: c < 9, lambda c: c * 1.5, x), 1.0)
    assert is_long(lambda x: x @ x, np.ones((200, 200)))


def counted(step: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, n: fg.fori_loop(0, n, lambda _, c: step(c), x)


def until(x: Any, n: Any) -> Any:
    def step(carry: tuple[Any, Any]) -> tuple[Any, Any]:
        return carry[0] + 1, carry[1] * 0.5 + 1.0

    return fg.while_loop(lambda carry: carry[0] < n, step, (0, x))[1]


LOOPS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "as long as is known": (lambda x, _: repeated(60_000_000)(x), 1),
    "as long as is told": (counted(lambda c: c * 0.5 + 1.0), 60_000_000),
    "until a condition": (until, 60_000_000),
    "in a loop": (
        lambda x, n: fg.scan(lambda c, _: (until(c, n), None), x, None, length=100)[0],
        600_000,
    ),
    "that might call Python": (
        counted(lambda c: fnp.linalg.solve(2.0 * fnp.eye(3), c + np.full(3, 2.0))[0]),
        1_000_000,
    ),
    "with calls of Python": (counted(lambda c: _called_back(c[None])[0] * 0.5 / c + 1.0), 30_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_other_threads_run_meanwhile(name: str) -> None:
    loop, n = LOOPS[name]
    f, answers = fg.jit(loop, backend="native"), list[Any]()
    for _ in range(3):
        f(1.0, 3)
    thread = Thread(target=lambda: answers.append(f(1.0, n)))
    begin, turns = time.perf_counter(), 0
    thread.start()
    while not answers:
        time.sleep(0.001)
        turns += 1
    thread.join()
    assert float(answers[0]) == 2.0
    assert turns > 20 * (time.perf_counter() - begin)  # with the lock it would be two or three


class InterruptError(Exception):
    """What a signal raises."""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals")
def test_a_long_row_of_steps_can_be_interrupted() -> None:
    def f(x: Any) -> Any:
        for k in range(30):
            x = fnp.sqrt(abs(x @ x)) + float(k)
        return x

    def interrupt(*_: Any) -> None:
        raise InterruptError

    x = np.ones((500, 500))
    jitted = fg.jit(f, backend="native")
    expected = jitted(x)
    jitted(x)
    begin = time.perf_counter()
    jitted(x)
    whole = time.perf_counter() - begin
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        begin = time.perf_counter()
        signal.setitimer(signal.ITIMER_REAL, whole / 50)
        with pytest.raises(InterruptError):
            jitted(x)
        assert time.perf_counter() - begin < whole / 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert_allclose(jitted(x), expected, rtol=0)


def test_errors_of_functions_that_are_called_back_come_out() -> None:
    def failing(x: Any) -> Any:
        if np.asarray(x)[0] > 1.9:
            raise ValueError("too large")
        return np.array(x)

    checked = fg.extend.elementwise("checked", failing, partials=(lambda y, x: 1.0,))
    # Few steps: to tell which operation has failed, they are done once more by Python.
    f = repeated(1 << 12, lambda c: fg.extend.apply(checked, c))
    x = np.ones(1 << 10)
    assert is_long(f, x)
    jitted = fg.jit(f, backend="native")
    assert_allclose(jitted(-x * np.inf), -x * np.inf)
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            jitted(x)


ENDING = """
import threading, time
import funcgrad as fg

f = fg.jit(lambda x: fg.fori_loop(0, 10**11, lambda k, c: c * 0.5 + 1.0, x), backend="native")
g = fg.jit(lambda x: fg.fori_loop(0, 10**7, lambda k, c: c * 0.5 + 1.0, x), backend="native")
h = fg.jit(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 0.5, x), backend="native")
g(1.0)
for endless in f, f, h, h:
    threading.Thread(target=endless, args=(1.0,), daemon=True).start()
time.sleep(0.5)
print("ends")
"""


@pytest.mark.slow
def test_python_ends_while_a_thread_runs_a_program() -> None:
    command = [sys.executable, "-c", ENDING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


ENDLESS = """
import os, signal, threading
import funcgrad as fg

f = fg.jit(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 0.5, x), backend="native")
f(9.0)  # ends at once, but for its compilation
# Processes that a shell begins in the background ignore interrupts, and so do theirs.
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    WHERE
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "begin", ["f(1.0)", "threading.Thread(target=f, args=(1.0,), daemon=True)"]
)
def test_an_endless_loop_can_be_interrupted_in_any_thread(begin: str) -> None:
    if "Thread" in begin:
        begin = f"thread = {begin}; thread.start(); thread.join()"
    command = [sys.executable, "-c", ENDLESS.replace("WHERE", begin)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")

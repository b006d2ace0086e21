"""A signal before each instruction in turn: wherever Python looks for signals, nothing stays taken.

Python runs a signal's function where it looks for signals, soon after the signal. A function of
machine code that Python calls before each instruction counts them, and sends the signal at the one
that a test asks for.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import copy_context
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._base.locks import ProcessLock, begin_thread, uninterrupted
from funcgrad._core.trace import _RUNNING, begin_level

pytest.importorskip("llvmlite")

from funcgrad._backends.native.processor import Toolchain

# Python cannot raise what interrupts a finalizer, or a weak reference's function.
pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="there is no such signal"),
    pytest.mark.skipif(sys.implementation.name != "cpython", reason="it is CPython's interface"),
]

TEXT = """
@attribute = constant [16 x i8] c"f_trace_opcodes\\00"
@yes = external global i8
@left = external global i64
declare i32 @PyObject_SetAttrString(ptr, ptr, ptr)
declare void @PyErr_SetInterruptEx(i32)

define i32 @trace(ptr %object, ptr %frame, i32 %event, ptr %argument) {
  switch i32 %event, label %done [
    i32 0, label %call
    i32 7, label %instruction
  ]
call:
  %a = call i32 @PyObject_SetAttrString(ptr %frame, ptr @attribute, ptr @yes)
  ret i32 %a
instruction:
  %b = load i64, ptr @left
  %c = sub i64 %b, 1
  store i64 %c, ptr @left
  %d = icmp eq i64 %c, 0
  br i1 %d, label %send, label %done
send:
  call void @PyErr_SetInterruptEx(i32 SIGALRM)
  br label %done
done:
  ret i32 0
}
"""
NEVER = 1 << 60


class Interrupt(BaseException):
    """An exception like KeyboardInterrupt."""


class Signals:
    """Sends a signal before an instruction of a piece of work that the main thread does."""

    def __init__(self) -> None:
        self._left, self._is_armed = ctypes.c_int64(NEVER), False
        self._kept: list[object] = []

    def __enter__(self) -> Signals:
        # The collector ends no Toolchain of an earlier test here, which would have this thread take
        # llvmlite's lock: an interrupt leaves that lock taken. The library's own Toolchain stays.
        gc.freeze()
        api, tools = ctypes.pythonapi, Toolchain()
        symbols = {
            name: ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0
            for name in ("PyObject_SetAttrString", "PyErr_SetInterruptEx")
        }
        symbols |= {"yes": id(True), "left": ctypes.addressof(self._left)}
        text = TEXT.replace("SIGALRM", str(int(signal.SIGALRM)))
        self._code = tools.linked([tools.object_code(text, 0)], symbols, ["trace"])
        self._before = sys.gettrace(), signal.signal(signal.SIGALRM, self._interrupt)
        api.PyEval_SetTrace(ctypes.c_void_p(self._code.addresses["trace"]), None)
        return self

    def __exit__(self, *_: object) -> None:
        trace, handler = self._before
        sys.settrace(trace)
        signal.signal(signal.SIGALRM, handler)

    def _interrupt(self, *_: object) -> None:
        if self._is_armed:
            raise Interrupt

    def at(self, number: int, work: Callable[[], object]) -> tuple[bool, int]:
        """Whether a signal before this instruction interrupts the work; how many it has."""
        left, self._is_armed = number, True
        self._left.value = number
        try:
            try:
                # A signal as a `with` begins or ends leaves its context variable changed.
                copy_context().run(work)
            finally:
                left, self._left.value = self._left.value, NEVER
        except Interrupt as error:
            self._kept = [error]  # with its frames, as an interactive session keeps them
            return True, number - left
        finally:
            self._is_armed = False
        return False, number - left

    def count(self, work: Callable[[], object]) -> int:
        """How many instructions a piece of work has; Python counts all from the second time on."""
        return max(self.at(NEVER - 1, work)[1] for _ in range(3))


@pytest.fixture
def signals() -> Iterator[Signals]:
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are for the main thread")
    with Signals() as signals:
        yield signals


def returns(work: Callable[[], object]) -> bool:
    """Whether another thread comes back from a piece of work."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_a_lock_at_each_instruction(signals: Signals) -> None:
    lock = ProcessLock()

    def work() -> None:
        lock.run(lambda: lock.run(lambda: 3))

    count = signals.count(work)
    assert count > 30
    interrupts = [signals.at(number, work)[0] for number in range(1, count)]
    assert sum(interrupts) > 0.8 * count
    assert returns(lambda: lock.run(lambda: None))


@pytest.mark.parametrize("function", [uninterrupted, begin_thread])
def test_threads_at_each_instruction(signals: Signals, function: Callable[..., Any]) -> None:
    before = {*threading.enumerate()}
    count = signals.count(lambda: function(lambda: None))
    assert count > 30
    for number in range(1, count):
        signals.at(number, lambda: function(lambda: None))
    end = monotonic() + 20
    # None of them waits for ever; one that has not yet begun could not be joined.
    while {*threading.enumerate()} - before and monotonic() < end:
        sleep(0.001)
    assert {*threading.enumerate()} <= before


def test_a_level_that_has_not_begun_does_not_run(signals: Signals) -> None:
    running = list[bool]()

    def work() -> None:
        try:
            with begin_level():
                pass
        except Interrupt as error:
            places = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            if "__exit__" not in places:  # which an interrupt keeps from its first step
                running.append(_RUNNING.get() is not None)
            raise

    count = signals.count(work)
    for number in range(1, count):
        signals.at(number, work)
    assert len(running) > 20
    assert not any(running)


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_first_calls(signals: Signals, backend: Any) -> None:
    x, functions = np.ones(3), list[Any]()

    def work() -> None:
        functions.append(fg.jit(lambda x: fnp.sum(fnp.sin(x) * x), backend=backend))
        functions[-1](x)

    work()  # which imports modules
    interrupts, count = 0, signals.count(work)
    for number in range(1, count, count // 25):
        interrupts += signals.at(number, work)[0]  # not where it meets a finalizer
        f = functions[-1]
        assert returns(lambda f=f: f(x))  # type: ignore[misc]
        assert float(f(x)) == float(f(x)) == float(fnp.sum(fnp.sin(x) * x))
    assert interrupts > 15

"""Locks that an interrupt or a fork leaves free, and threads that no interrupt meets half begun."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from random import Random
from threading import Thread
from time import sleep
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._base.locks import ProcessLock, begin_thread, uninterrupted
from tests.in_threads import in_threads

# Python cannot raise what interrupts a finalizer, or a weak reference's function.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Calls = Callable[[float, Callable[[], object]], None]


class Interrupt(BaseException):
    """An exception like KeyboardInterrupt."""


@pytest.fixture
def interrupted() -> Iterator[Calls]:
    """Call a function, which a timer interrupts after some seconds if it still runs."""
    if not hasattr(signal, "setitimer"):
        pytest.skip("there are no such signals")
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are for the main thread")
    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupt

    def call(seconds: float, work: Callable[[], object]) -> None:
        nonlocal armed
        try:
            armed = True
            # A signal right before a wait is seen only when another one ends the wait.
            signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
            work()
            armed = False
        except Interrupt as error:
            kept.append(error)  # with its frames, as an interactive session keeps them
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    kept: list[Interrupt] = []
    before = signal.signal(signal.SIGALRM, interrupt)
    yield call
    signal.signal(signal.SIGALRM, before)
    assert kept


def returns(work: Callable[[], object]) -> bool:
    """Whether another thread comes back from a piece of work."""
    thread = Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    return not thread.is_alive()


def test_one_thread_at_a_time() -> None:
    lock, numbers = ProcessLock(), [0]

    def add() -> None:
        number = numbers[0]
        sleep(0)
        numbers[0] = number + 1

    in_threads(lambda _: [lock.run(add) for _ in range(50)], 4)
    assert numbers == [200]


def test_a_thread_may_take_its_lock_again_and_errors_leave_it_free() -> None:
    lock = ProcessLock()
    assert lock.run(lambda: lock.run(lambda: 3)) == 3
    with pytest.raises(ZeroDivisionError):
        lock.run(lambda: lock.run(lambda: 1 // 0))
    assert returns(lambda: lock.run(lambda: None))


def test_a_forked_child_finds_it_free(monkeypatch: pytest.MonkeyPatch) -> None:
    lock, begun, goes_on = ProcessLock(), threading.Event(), threading.Event()
    holder = Thread(target=lambda: lock.run(lambda: [wait() for wait in (begun.set, goes_on.wait)]))
    holder.start()
    begun.wait()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        free = returns(lambda: lock.run(lambda: None))
    goes_on.set()
    holder.join()
    assert free


def test_interrupts_leave_a_lock_free(interrupted: Calls) -> None:
    lock, random = ProcessLock(), Random(0)
    for _ in range(300):
        interrupted(1e-6 + 1e-4 * random.random(), lambda: [lock.run(int) for _ in range(300)])
    assert returns(lambda: lock.run(lambda: None))


def test_work_goes_on_after_an_interrupt_where_no_signal_is_handled(interrupted: Calls) -> None:
    goes_on, ends = threading.Event(), list[bool]()

    def work() -> None:
        goes_on.wait()
        ends.append(threading.current_thread() is threading.main_thread())

    interrupted(0.01, lambda: uninterrupted(work))
    assert not ends
    goes_on.set()
    for _ in range(10_000):
        if not ends:
            sleep(0.001)
    assert ends == [False]


def test_uninterrupted_work_returns_and_raises() -> None:
    assert uninterrupted(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 // 0)
    names: list[str] = []
    thread = Thread(target=lambda: uninterrupted(lambda: names.append(thread.name)))
    thread.start()
    thread.join()
    assert names == [thread.name]


def test_a_thread_begins_though_an_interrupt_comes(interrupted: Calls) -> None:
    before = {*threading.enumerate()}

    def begin() -> None:
        for _ in range(3):
            begin_thread(lambda: None)

    for number in range(200):
        interrupted(1e-6 + 1e-6 * number, begin)
    for _ in range(20_000):  # none of them waits for ever
        if {*threading.enumerate()} <= before:
            break
        sleep(0.001)
    assert {*threading.enumerate()} <= before


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_first_calls_that_are_interrupted(interrupted: Calls, backend: Any) -> None:
    if backend == "native":
        pytest.importorskip("llvmlite")
    x, random = np.ones(3), Random(0)
    for _ in range(25):
        f = fg.jit(lambda x: fnp.sum(x * x), backend=backend)
        interrupted(1e-6 + 2e-3 * random.random(), lambda f=f: [f(x), f(x)])  # type: ignore[misc]
        assert float(f(x)) == float(f(x)) == 3.0
        assert returns(lambda f=f: f(x))  # type: ignore[misc]

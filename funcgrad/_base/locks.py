"""Locks, threads and cached properties that survive interrupts and forks.

An interrupt (Control-C) raises an exception between any two steps of the main thread. This may be
after ``with lock:`` has taken a lock and before its block begins (from Python 3.14 on), or before
the first step of Python code that releases it. Then other threads, or the next call, would wait for
ever. A thread may also fork while another thread holds a lock, and the child process lacks that
thread. So most shared data are published by one assignment or one method of a dict, and properties
are computed without a lock. ``ProcessLock`` serves the rest. Locks of other libraries, such as
those in ``Thread.start``, are taken in threads, which receive no signals.

>>> lock = ProcessLock()
>>> lock.run(lambda: "nobody else is here")
'nobody else is here'
>>> uninterrupted(lambda: "no signal is handled here")
'no signal is handled here'
"""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable
from contextvars import copy_context
from threading import Lock, Thread, get_ident, main_thread
from time import sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

T = TypeVar("T")
_PAUSE: Final = 1e-4
"""Seconds between two tests whether the lock is free."""

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class _LocklessProperty:
        """A property that is computed once, or several times by concurrent threads.

        Before Python 3.12 the standard library's has a lock, one for all instances.
        """

        def __init__(self, compute: Callable[..., Any]) -> None:
            self.compute, self.__doc__ = compute, compute.__doc__

        def __set_name__(self, owner: type[Any], name: str) -> None:
            self.name = name

        def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            return vars(instance).setdefault(self.name, self.compute(instance))

    cached_property = _LocklessProperty


class ProcessLock:
    """A reentrant lock, separate in each process.

    Threads that want the lock are in a queue, and the first one has it. A thread enters the queue
    inside the ``try`` whose ``finally`` leaves it by one C call. Interpreters handle signals after
    such a call, not between the end of a block and the call. So a thread always leaves the queue,
    whenever an interrupt arrives.

    The work may be interrupted anywhere, so it should publish its result in one step.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, dict[object, int]] = {}  # threads by claim, by process

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` while no other thread of this process holds the lock."""
        row, claim, thread = self._rows.setdefault(os.getpid(), {}), object(), get_ident()
        try:
            row[claim] = thread
            while list(row.values())[0] != thread:  # noqa: RUF015 - other threads change the row
                sleep(_PAUSE)
            return work()
        finally:
            row.pop(claim, None)


def uninterrupted(work: Callable[[], T]) -> T:
    """Run ``work`` where no signal is handled: in another thread if this is the main thread.

    An interrupt ends the wait, while ``work`` continues.
    """
    if get_ident() != main_thread().ident:
        return work()
    ended, results, errors = Lock(), list[T](), list[BaseException]()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.release()

    ended.acquire()
    try:
        start_new_thread(copy_context().run, (run,))
    except RuntimeError:  # no thread can start while Python exits
        return work()
    ended.acquire()
    if errors:
        raise errors.pop()
    return results.pop()


def begin_thread(
    work: Callable[[], object], name: str | None = None, daemon: bool = False
) -> Thread:
    """Start a thread. In ``Thread.start`` an interrupt could make it wait for ever.

    Raises
    ------
    RuntimeError
        Python exits, or the system has no more threads.
    """
    thread = Thread(target=work, name=name, daemon=daemon)
    uninterrupted(thread.start)
    return thread

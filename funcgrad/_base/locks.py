"""Locks, threads and cached properties that an interrupt, or a fork, leaves in order.

An interrupt, as by Control-C, raises an exception between any two steps of the main thread: also
after ``with lock:`` has taken a lock and before the block begins that would let go of it (from
Python 3.14 on), and before a first step of Python code that lets go. Then other threads would wait
for ever, or the next call. And a thread of a process may fork while another one holds a lock; the
child has no such thread. So most of the data that threads share are published by one assignment or
one method of a dict, and a property is computed without a lock. For the rest there is a lock; and
other libraries' locks, as ``Thread.start`` takes some, are left to threads, which have no signals.

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
"""Seconds between two looks at whether the lock is free."""

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class _LocklessProperty:
        """A property that is computed once; or several times at once, by threads that meet.

        The standard library's has a lock before Python 3.12, one for all instances.
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
    """A lock, another one in each process. A thread that has it may take it again.

    Those who want it stand in a row, and it is the first one's. One enters the row within the
    ``try`` whose end leaves it again, and leaves it by one call of C: interpreters look for signals
    after such a call, not between the end of a block and it. So an interrupt meets nobody who is
    in the row and does not leave it.

    The work may be interrupted anywhere: it should publish its result by one step.
    """

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[int, dict[object, int]] = {}  # of threads, by their claims, by process

    def run(self, work: Callable[[], T]) -> T:
        """Do some work, alone in this process."""
        row, claim, thread = self._rows.setdefault(os.getpid(), {}), object(), get_ident()
        try:
            row[claim] = thread
            while list(row.values())[0] != thread:  # noqa: RUF015 - other threads change the row
                sleep(_PAUSE)
            return work()
        finally:
            row.pop(claim, None)


def uninterrupted(work: Callable[[], T]) -> T:
    """Do some work where no signal is handled: in another thread, unless this is not the main one.

    An interrupt ends the wait for the work, which goes on.
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
    except RuntimeError:  # no thread begins any more when Python ends
        return work()
    ended.acquire()
    if errors:
        raise errors.pop()
    return results.pop()


def begin_thread(
    work: Callable[[], object], name: str | None = None, daemon: bool = False
) -> Thread:
    """Begin a thread, as ``Thread.start`` does: an interrupt there would have it wait for ever.

    Raises
    ------
    RuntimeError
        Python ends, or the system has no more threads.
    """
    thread = Thread(target=work, name=name, daemon=daemon)
    uninterrupted(thread.start)
    return thread

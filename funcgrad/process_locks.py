"""Locks and cached properties that a forked child finds free.

A thread of a process may fork while another one holds a lock. The child has no such thread, and
would wait for ever. So each process has a lock of its own for the same data, and a property is
computed without a lock.

>>> lock = ProcessLock()
>>> with lock.here:
...     pass
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any

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
    """A lock, another one in each process."""

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks = {os.getpid(): Lock()}

    @property
    def here(self) -> Lock:
        """The lock of this process.

        It is Python's own, since an interrupt may come between a line of Python that takes a lock
        and the next one, and would leave it taken.
        """
        return self._locks.get(os.getpid()) or self._locks.setdefault(os.getpid(), Lock())

"""Threads that wait in machine code for a part of a program's work.

``share`` calls ``function(begin, end, memory, environment)`` for ranges that cover some places.
Whoever is free takes the next range: the caller, and threads of the pool, which begin when they are
first needed and sleep between their turns. How many there are is read when it is called
(``thread_limits.py``), so code does not depend on it. None of them touches Python.

No core has two threads to run: while several threads of Python share work, each of them counts, and
those of the pool leave after their range. One call at a time has the pool; others do their work
by themselves.

A function returns 0, or the status of a program that leaves early; then no more ranges are begun,
and ``share`` returns the greatest status.

There is one pool a process. A forked child has none of its parent's threads and begins anew, and
when Python ends the threads sleep on, in code that is never freed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Mapping
from typing import Final

from funcgrad._backends.native import pool_text
from funcgrad._backends.native.processor import Code, Toolchain
from funcgrad._backends.thread_limits import LIMITS

_OF_THREADS: Final = (
    "clock_gettime",
    "free",
    "malloc",
    "memset",
    "pthread_cond_init",
    "pthread_cond_signal",
    "pthread_cond_timedwait",
    "pthread_cond_wait",
    "pthread_create",
    "pthread_detach",
    "pthread_getspecific",
    "pthread_key_create",
    "pthread_mutex_init",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_setspecific",
    "pthread_sigmask",
)

_NUMBERS: Final = "SIG_BLOCK", "MONOTONIC", "REALTIME"
"""Words of the text that stand for numbers of the system."""

_OF_PYTHON: Final = ("look", "look_between_calls", "refuse_memory")
"""Functions of the runtime that threads of the pool must not call."""


class ThreadPool:
    """The pool of this process, whose code is made when it is first asked for."""

    def __init__(self) -> None:
        self._code: Code | None = None

    def functions(self, tools: Toolchain, runtime: Mapping[str, int]) -> dict[str, int]:
        """The addresses of ``share``, and of functions of the runtime where work is shared.

        Parameters
        ----------
        tools : Toolchain
        runtime : mapping
            The addresses of the runtime's functions, which stay.
        """
        if not has_threads():
            return {"share": runtime["share_alone"]}
        code = self._code or tools.alone(lambda: self._make(tools, runtime))
        names = {name: code.addresses[f"pool_{name}"] for name in _OF_PYTHON}
        return {"share": code.addresses["share"], **names}

    def _make(self, tools: Toolchain, runtime: Mapping[str, int]) -> Code:
        if self._code is None:
            LIMITS.begin()
            symbols = {name: runtime[name] for name in _OF_PYTHON}
            symbols["words"] = LIMITS.words.ctypes.data
            library, text = ctypes.pythonapi, pool_text.POOL
            for name in _OF_THREADS:
                symbols[name] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
            numbers = signal.SIG_BLOCK, time.CLOCK_MONOTONIC, time.CLOCK_REALTIME
            for word, number in zip(_NUMBERS, numbers, strict=True):
                text = text.replace(word, str(int(number)))
            names = ["share", "begin", "renew", *[f"pool_{name}" for name in _OF_PYTHON]]
            code = tools.linked([tools.object_code(text, 2)], symbols, names)
            library.Py_IncRef(ctypes.py_object(code))  # threads sleep in it to the end
            ctypes.CFUNCTYPE(None)(code.addresses["begin"])()
            if hasattr(os, "register_at_fork"):
                renew = ctypes.CFUNCTYPE(None)(code.addresses["renew"])
                os.register_at_fork(after_in_child=renew)
            self._code = code
        return self._code


def has_threads() -> bool:
    """Whether the system has the threads that a pool needs."""
    return all(hasattr(ctypes.pythonapi, name) for name in _OF_THREADS)


POOL: Final = ThreadPool()

"""Run a loop on two threads: NumPy releases the interpreter's lock while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread


def on_two_threads(run: Callable[[int], None], blocks: int) -> None:
    """Call a function with the number of each block, for half of them on a second thread.

    If the process has only one core, this thread runs all blocks. Exceptions are passed on.

    >>> seen = []
    >>> on_two_threads(seen.append, 5)
    >>> sorted(seen)
    [0, 1, 2, 3, 4]
    """
    if _cores() < 2:
        for block in range(blocks):
            run(block)
        return
    half: Future[None] = Future()
    context = copy_context()  # it holds NumPy's error state

    def other() -> None:
        try:
            for block in range(blocks // 2, blocks):
                context.run(run, block)
        except BaseException as error:  # raised again on the waiting thread
            half.set_exception(error)
        else:
            half.set_result(None)

    thread = Thread(target=other)
    thread.start()
    try:
        for block in range(blocks // 2):
            run(block)
    finally:
        thread.join()
    half.result()


def _cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

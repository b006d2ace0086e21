"""Two threads for one loop: NumPy lets go of the interpreter while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from threading import Thread


def on_two_threads(run: Callable[[int], None], blocks: int) -> None:
    """Run a function for each block, by number, half of them on a thread of their own.

    Where the process has one core only, all of them run here. What a block raises is raised.

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
    context = copy_context()  # NumPy keeps there how it treats overflows

    def other() -> None:
        try:
            for block in range(blocks // 2, blocks):
                context.run(run, block)
        except BaseException as error:  # it is raised on the thread that waits for it
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
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

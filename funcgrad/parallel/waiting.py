"""Interruptible waits, which log their reason after ten seconds.

>>> Deadline("grad", timeout=1.0).until(lambda seconds: True, lambda: "a bus")
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import Final, TypeVar

from funcgrad._base.locks import begin_thread
from funcgrad.errors import WorkerError

T = TypeVar("T")
_SECONDS: Final = 10.0
_LOG: Final = logging.getLogger("funcgrad.parallel")


class Deadline:
    """The maximum time of a step, from now, and the seconds between log messages."""

    def __init__(self, operation: str, timeout: float | None, seconds: float = _SECONDS) -> None:
        self._operation, self._timeout, self._seconds = operation, timeout, seconds
        self._began = monotonic()

    def until(self, poll: Callable[[float], bool], event: Callable[[], str]) -> None:
        """Call ``poll`` until it returns true; it waits for at most the given seconds.

        Raises
        ------
        WorkerError
            The time of the step is up.
        """
        began, timeout = monotonic(), self._timeout
        while True:
            left = self._seconds
            if timeout is not None:
                left = min(left, max(0.0, self._began + timeout - monotonic()))
            if poll(left):
                return
            if timeout is not None and monotonic() - self._began >= timeout:
                raise WorkerError(
                    f"{self._operation}: the step has not ended in {timeout:g} s, and waits for"
                    f" {event()}. The arguments are unchanged: look at the workers, and call it"
                    " again."
                )
            _LOG.warning(
                "%s: for %.0f s waiting for %s", self._operation, monotonic() - began, event()
            )


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Call a function that may never return, in a daemon thread."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    begin_thread(run, daemon=True)
    return future

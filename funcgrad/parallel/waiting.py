"""Waiting with a way out: who waits says for what after ten seconds, and gives up when told to.

>>> Patience("grad", timeout=1.0).until(lambda seconds: True, lambda: "a bus")
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
_PATIENCE: Final = 10.0
_LOG: Final = logging.getLogger("funcgrad.parallel")


class Patience:
    """The time that a step may take, from now on, and the seconds between messages."""

    def __init__(self, operation: str, timeout: float | None, patience: float = _PATIENCE) -> None:
        self._operation, self._timeout, self._patience = operation, timeout, patience
        self._began = monotonic()

    def until(self, poll: Callable[[float], bool], what: Callable[[], str]) -> None:
        """Poll until something has happened; ``poll`` waits for at most some seconds.

        Raises
        ------
        WorkerError
            The time of the step is over.
        """
        began, timeout = monotonic(), self._timeout
        while True:
            left = self._patience
            if timeout is not None:
                left = min(left, max(0.0, self._began + timeout - monotonic()))
            if poll(left):
                return
            if timeout is not None and monotonic() - self._began >= timeout:
                raise WorkerError(
                    f"{self._operation}: the step has not ended in {timeout:g} s, and waits for"
                    f" {what()}. The arguments are as they were: look at the workers, and call it"
                    " again."
                )
            _LOG.warning(
                "%s: for %.0f s waiting for %s", self._operation, monotonic() - began, what()
            )


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Call what may never return in a thread that nobody has to wait for."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    begin_thread(run, daemon=True)
    return future

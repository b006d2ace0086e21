"""Waiting with a way out: who waits says for what after ten seconds, and gives up when told to.

>>> calls = iter([False, True])
>>> wait_until(lambda seconds: next(calls), lambda: "a bus", "grad", timeout=None, patience=0.0)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Final

from funcgrad.errors import WorkerError

PATIENCE: Final = 10.0
_LOG: Final = logging.getLogger("funcgrad.parallel")


def wait_until(
    poll: Callable[[float], bool],
    what: Callable[[], str],
    operation: str,
    timeout: float | None,
    patience: float = PATIENCE,
) -> None:
    """Poll until something has happened; a message is logged whenever patience ends.

    Parameters
    ----------
    poll : callable
        Waits for at most some seconds, and returns whether it has happened.
    what : callable
        Says what is waited for.
    operation : str
    timeout : float or None
        After how many seconds to give up.
    patience : float
        Seconds between messages.

    Raises
    ------
    WorkerError
        The time is over.
    """
    began = monotonic()
    while True:
        waited = monotonic() - began
        left = patience if timeout is None else min(patience, timeout - waited)
        if poll(max(left, 0.0)):
            return
        waited = monotonic() - began
        if timeout is not None and waited >= timeout:
            raise WorkerError(
                f"{operation}: nothing has come in {timeout:g} s, while waiting for {what()}. The"
                " arguments are as they were: look at the workers, and call it again."
            )
        _LOG.warning("%s: for %.0f s waiting for %s", operation, waited, what())

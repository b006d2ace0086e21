"""How far checks were from failing, for searches that climb towards the worst point.

A check notes, for each comparison, the disagreement divided by what is allowed. Who wants to know
the largest watches; the record is in a context variable, and elsewhere nothing is stored.

>>> with watched() as largest:
...     note(0.25)
...     note(0.125)
>>> largest()
0.25
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_RATIOS: Final[ContextVar[list[float] | None]] = ContextVar("funcgrad_disagreements", default=None)


def note(ratio: float) -> None:
    """Note a disagreement as a multiple of what is allowed; above 1 the check fails."""
    ratios = _RATIOS.get()
    if ratios is not None:
        ratios.append(ratio)


@contextmanager
def watched() -> Iterator[Callable[[], float]]:
    """Watch the checks of this context; yields a function that returns the largest ratio so far."""
    ratios: list[float] = []
    token = _RATIOS.set(ratios)
    try:
        yield lambda: max(ratios, default=0.0)
    finally:
        _RATIOS.reset(token)

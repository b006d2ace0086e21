"""How close checks were to failing, for searches that climb towards the worst point.

A check notes the ratio of each disagreement to the allowed one. ``watched`` gives the largest ratio
of a context; outside of it nothing is stored.

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
    """Note a disagreement as a multiple of the allowed one; above 1 the check fails."""
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

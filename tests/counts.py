"""Measure how work grows by counts, which are equal on every machine: no test measures time."""

import sys
from collections.abc import Callable
from typing import Any

LENGTHS = (16, 32, 64)
MOST = 2.6
"""Of a line twice as much is added from 32 to 64 as from 16 to 32; of n log n 2.4 times, of a
square 4 times."""


def added(amount: Callable[[int], float]) -> float:
    """The ratio of the work that the second doubling of the length adds to that of the first.

    Work that hardly grows may grow in steps, when the method changes.
    """
    first, second, third = [amount(length) for length in LENGTHS]
    return (third - second) / max(first / 2, second - first)


def calls_made(work: Callable[[], Any], of: Any = None) -> int:
    """Count the calls of functions of Python and of C, or the calls of one function."""
    count = 0

    def profile(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        if of is None:
            count += event in ("call", "c_call")
        else:
            count += event == "call" and frame.f_code is of.__code__

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count

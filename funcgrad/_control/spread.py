"""Flags of a carry, spread from step to step until they no longer change.

A flag says that a leaf of the carry is followed, has a tangent, has a batch, is read, or has a
cotangent of some kind. A step may pass the flag on to other leaves, so steps are repeated until one
adds nothing.

>>> closure([True, False, False], lambda flags: (None, [False, *flags[:-1]]))
([True, True, True], None)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import or_
from typing import Any, TypeVar

T = TypeVar("T")
Made = TypeVar("Made")


def closure(
    start: Sequence[T],
    step: Callable[[list[T]], tuple[Made, Iterable[T]]],
    join: Callable[[Any, Any], T] = or_,
) -> tuple[list[T], Made]:
    """Repeat a step that spreads flags over the leaves of a carry until it adds none.

    Parameters
    ----------
    start : sequence of flags
        The flag of each leaf of the carry at the beginning of the loop.
    step : callable
        From the flags before a step to what is made for such a step, for example its program, and
        to the flags after it. Flags beyond those of the carry are ignored.
    join : callable
        Joins the flags that a leaf has before and after a step.

    Returns
    -------
    flags, made
        The flags that hold at every step, and what ``step`` made for these.
    """
    flags = list(start)
    while True:
        made, after = step(flags)
        grown = [*map(join, flags, after)]
        if grown == flags:
            return flags, made
        flags = grown

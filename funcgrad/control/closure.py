"""Flags of a carry, spread from step to step until they no longer change.

A part of a carry is followed, has a tangent, has a batch, is read, or has a cotangent of some kind.
Each step may hand that on to other parts, so a loop asks again until a step adds nothing.

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
    """Let a step spread flags over the parts of a carry until it adds none.

    Parameters
    ----------
    start : sequence of flags
        One for each part of the carry, as the loop begins.
    step : callable
        From flags to what is made for a step that begins with them, such as its program, and to the
        flags after it. More flags than parts are ignored.
    join : callable
        The flag of a part that has one flag here and another there.

    Returns
    -------
    flags : list of flags
        As they are at every step.
    made : object
        What the step made for them.
    """
    flags = list(start)
    while True:
        made, after = step(flags)
        grown = [*map(join, flags, after)]
        if grown == flags:
            return flags, made
        flags = grown

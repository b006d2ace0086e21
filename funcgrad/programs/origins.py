"""The user's line that an operation comes from, also while a program is evaluated.

>>> import funcgrad as fg
>>> staged_line().startswith("<doctest")
True
"""

from __future__ import annotations

import sys
from types import FrameType

from funcgrad.programs.program import bound
from funcgrad.users_line import is_users, line_of_frame


def operations_line() -> str:
    """The user's line that the operation comes from which a transformation interprets.

    Returns
    -------
    str
        File and line; inside of a program, such as a jitted function's, the line that was staged.
        Empty where there is none. Lines of the transformation that asks do not count.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_users(frame):
        frame = frame.f_back
    return _line_around(frame)


def staged_line() -> str:
    """The user's line that runs, or that the equation which is being evaluated comes from."""
    return _line_around(sys._getframe(1))


def _line_around(frame: FrameType | None) -> str:
    while frame is not None and not is_users(frame):
        if frame.f_code is bound.__code__:
            source: str = frame.f_locals["equation"].source
            if source:
                return source
        frame = frame.f_back
    return line_of_frame(frame)

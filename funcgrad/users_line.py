"""Where in the user's code something happened.

>>> users_line().startswith("<doctest")
True
"""

import os
import sys
from os.path import basename, dirname
from types import FrameType
from typing import Final

import numpy

LIBRARIES: Final = tuple(
    dict.fromkeys(
        place + os.sep
        for file in (__file__, os.__file__, dirname(numpy.__file__))  # beside NumPy lie the others
        for place in (dirname(file), dirname(os.path.realpath(file)))
    )
)
"""Where the code lies that is not the user's."""

_HOME: Final = dirname(__file__) + os.sep


def is_users(frame: FrameType) -> bool:
    """Whether the code of a frame is the user's."""
    return not frame.f_code.co_filename.startswith(LIBRARIES)


def users_line() -> str:
    """File and line of the innermost frame that is the user's; empty if there is none.

    Not the user's are this library, the standard library and what is installed: between a
    function that is differentiated and this library there may be ``np.vectorize`` or SciPy.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return line_of_frame(frame)


def line_of_frame(frame: FrameType | None) -> str:
    """File and line of a frame; empty for none."""
    return f"{basename(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def libraries_calls() -> tuple[tuple[str, str], ...]:
    """The functions of other libraries between the user's line and this one, that nearest the
    user's first: the module of each, and the name that it is defined under there."""
    calls = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        if not frame.f_code.co_filename.startswith(_HOME):
            calls.append((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))
        frame = frame.f_back
    return tuple(reversed(calls)) if frame else ()

"""Find the user's line at which something happened.

>>> users_line().startswith("<doctest")
True
"""

import os
import sys
import warnings
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from os.path import dirname
from types import FrameType
from typing import Any, Final

import numpy

_ROOM: Final = dirname(__file__)

LIBRARIES: Final = tuple(
    dict.fromkeys(
        place + os.sep
        for file in (_ROOM, os.__file__, dirname(numpy.__file__))  # beside other packages
        for place in (dirname(file), dirname(os.path.realpath(file)))
    )
)
"""Folders of code that does not belong to the user."""

_HOME: Final = dirname(_ROOM) + os.sep


_NOT_USERS: Final = (*LIBRARIES, "funcgrad ")  # the last begins the names of generated code


def is_users(frame: FrameType) -> bool:
    """Whether a frame runs the user's code."""
    return not frame.f_code.co_filename.startswith(_NOT_USERS)


def users_line() -> str:
    """File and line of the innermost frame of the user's code; empty without one.

    This library, the standard library and installed packages do not count as the user's code:
    ``np.vectorize`` or SciPy may be between the user's function and this library.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    return line_of_frame(frame)


def line_of_frame(frame: FrameType | None) -> str:
    """File and line of a frame; empty for none."""
    return f"{frame.f_code.co_filename.rpartition(os.sep)[2]}:{frame.f_lineno}" if frame else ""


def arguments_of(frame: FrameType) -> tuple[Any, ...]:
    """The positional arguments of a function that is running, whatever their names are."""
    code = frame.f_code
    return tuple([frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]])


def named_arguments_of(frame: FrameType) -> dict[str, Any]:
    """All arguments of a running function by name; ``*args`` is a tuple, ``**kwargs`` a dict."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
    return {name: frame.f_locals.get(name) for name in code.co_varnames[:count]}


def wrapped_call(
    frame: FrameType,
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None:
    """The function that a wrapper calls, and its arguments; None for other functions.

    A wrapper is a function, or NumPy's protocol, with variables of these names.
    """
    function, args, kwargs = (frame.f_locals.get(key) for key in ("function", "args", "kwargs"))
    if callable(function) and isinstance(args, tuple) and isinstance(kwargs, dict):
        return function, args, kwargs
    return None


def variables_of(frame: FrameType) -> dict[str, Any]:
    """The variables of a running function: its own, those it closes over, and globals it names."""
    outside = frame.f_globals
    named = {name: outside[name] for name in frame.f_code.co_names if name in outside}
    return {**named, **frame.f_locals}


def shorten(error: BaseException) -> None:
    """Remove this library's frames from a traceback, except for the first and the last.

    The frames of the user and of other libraries stay. ``FUNCGRAD_TRACEBACKS=full`` in the
    environment keeps all.
    """
    trace = error.__traceback__
    if os.environ.get("FUNCGRAD_TRACEBACKS") == "full":
        return
    while trace is not None and (following := trace.tb_next) is not None:
        if following.tb_next is None or not _is_ours(following.tb_frame.f_code.co_filename):
            trace = following
        else:
            trace.tb_next = following.tb_next


def _is_ours(file: str) -> bool:
    return file.startswith((_HOME, "funcgrad "))  # also generated code


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line that called this library."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HOME):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def libraries_calls() -> tuple[tuple[str, str], ...]:
    """The functions of other libraries between the user's line and this one, as (module, name).

    The function that the user called comes first."""
    calls = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame):
        if not frame.f_code.co_filename.startswith(_HOME):
            calls.append((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname))
        frame = frame.f_back
    return tuple(reversed(calls)) if frame else ()

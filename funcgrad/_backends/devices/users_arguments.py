"""Refuse arrays of the host that a user passes beside values on a device; name the argument.

Arrays that a function of funcgrad makes for its own use, such as tables of indices, are copied to
the device. To tell them apart, this looks at the arguments of the function of funcgrad that the
user's code called: an operator, ``fnp.dot``, a pullback.

>>> import funcgrad.numpy as fnp
>>> _is_setting(fnp.roll, "shift"), _is_setting(fnp.quantile, "q")
(True, False)
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import numpy as np

from funcgrad._base.users_line import is_users, named_arguments_of, wrapped_call
from funcgrad._core import pytrees
from funcgrad._core.trace import NUMBERS, RAW, TracedValue, device_below
from funcgrad._transforms.stager import Stager
from funcgrad._transforms.transformed import Transformed
from funcgrad.errors import DeviceError

_SETTING: Final = re.compile(
    r"\b(Setting|PatternLike|AxisLike|ShapeLike|SupportsIndex|int|float)\b"
)
"""Types of arguments that are read on the host, where they may be arrays."""


def check_constant(operation: str, device: str, origin: str) -> None:
    """Refuse an array of the host in an operation on a device, if the user passed it.

    If a function of funcgrad called the user's function with it, such as a solver, the error names
    the argument of that function which has to be put on the device.

    Raises
    ------
    DeviceError
        The arguments of the function that the user's code called contain an array of the host.
    """
    called = _called(sys._getframe(1))
    if called is None:
        return
    for name, argument, array in _arrays(called):
        is_key = (array.shape, array.dtype) == ((2,), np.uint64)
        kind = "a key" if is_key else f"an array of shape {array.shape}"
        what = f"{name}: {argument}, {kind}," if argument else f"{name or operation}: {kind}"
        since = f" (put there at {origin})" if origin else ""
        remedy = _remedy_around(called.f_back, device) or (
            "Arrays are not copied silently: write"
            f" fg.put({argument or ('key' if is_key else 'x')}, {device!r}), before a loop if there"
            " is one. Numbers, lists of numbers and arrays without axes may be on the host."
        )
        raise DeviceError(f"{what} is on the host, another value on {device}{since}. {remedy}")


def _called(frame: FrameType | None) -> FrameType | None:
    """The function of funcgrad that the user's code called, from a frame inside of it."""
    called: FrameType | None = None
    while frame is not None and not is_users(frame):
        called, frame = frame, frame.f_back
    return None if frame is None else called


def _remedy_around(frame: FrameType | None, device: str) -> str:
    """Say which argument of a solver to put on the device, in a frame of a function that it called.

    The text is empty if nothing called the function, or if some argument is on the device.
    """
    while frame is not None and is_users(frame):
        frame = frame.f_back
    called = _called(frame)
    if called is None:
        return ""
    name, function, arguments = _call(called)
    starts = []
    for argument, value in arguments.items():
        if isinstance(value, Transformed) or callable(value) or _is_setting(function, argument):
            continue
        leaves = pytrees.flatten(value)[0]
        if any(isinstance(leaf, TracedValue) and device_below(leaf) for leaf in leaves):
            return ""
        values = list(map(_value_of, leaves))
        if values and all(type(x) in RAW for x in values):
            has_array = any(isinstance(x, np.ndarray) and x.ndim for x in values)
            starts.append((has_array, argument, value))
    if not starts:
        return ""
    _, argument, start = max(starts, key=lambda named: named[0])  # the first of several
    is_list = isinstance(start, list) and all(type(x) in NUMBERS for x in start)
    make = "fnp.asarray({}, device={!r})" if is_list else "fg.put({}, {!r})"
    if name.startswith("__"):  # of a transformed function
        return f"The transformed function got arrays of the host: fg.put(x, {device!r}) copies one."
    return (
        f"{name} computes where its arguments are, and they are on the host: pass"
        f" {make.format(argument, device)} to {name}."
    )


def _arrays(called: FrameType) -> Iterator[tuple[str, str, np.ndarray[Any, Any]]]:
    """The arrays of the host among the arguments of a call, each with the names of the function and
    of the argument, which are empty for operators."""
    name, function, arguments = _call(called)
    is_operator = name.startswith("__") or isinstance(arguments.get("self"), TracedValue)
    shown = "indexing" if name == "__getitem__" else "" if is_operator else name
    for argument, value in arguments.items():
        if isinstance(value, Transformed) or _is_setting(function, argument):
            continue
        leaves, structure = pytrees.flatten(value)
        for number, leaf in enumerate(leaves):
            array = _array_of(leaf)
            if array is not None and array.ndim:
                is_named = not is_operator and argument != "self"
                place = f"{argument}{structure.paths()[number]}" if is_named else ""
                yield shown, place, array


def _call(called: FrameType) -> tuple[str, Callable[..., Any] | None, Mapping[str, Any]]:
    """The name of the function that the user called, the function if it is known, and its
    arguments by name."""
    arguments = named_arguments_of(called)
    wrapped = wrapped_call(called)
    if wrapped is not None:
        function, args, kwargs = wrapped
        by_name = {f"args[{k}]": value for k, value in enumerate(args)} | kwargs
        with suppress(TypeError, ValueError):  # a function in C
            by_name = inspect.signature(function).bind(*args, **kwargs).arguments
        return function.__name__, function, by_name
    name = called.f_code.co_name
    if name == "__init__":  # the object is not a tree yet
        arguments.pop("self", None)
        name = called.f_code.co_qualname.removesuffix(".__init__")
    return name, called.f_globals.get(name), arguments


def _is_setting(function: Callable[..., Any] | None, argument: str) -> bool:
    """Whether a function reads an argument on the host, according to its type."""
    text = str(getattr(function, "__annotations__", {}).get(argument, ""))
    return "ArrayLike" not in text and _SETTING.search(text) is not None


def _array_of(leaf: object) -> np.ndarray[Any, Any] | None:
    """The array of the host that a leaf is, or that a tensor or a tracer holds."""
    value = _value_of(leaf)
    return value if isinstance(value, np.ndarray) else None


def _value_of(leaf: object) -> object:
    """Return the value inside a tensor or a tracer; any other object itself.

    It is None if a program is being written, in which an array only stands for a shape and a dtype.
    """
    while isinstance(leaf, TracedValue):
        trace = leaf._trace
        if isinstance(trace, Stager) and not trace.has_numbers:
            return None
        leaf = leaf._value
    return leaf

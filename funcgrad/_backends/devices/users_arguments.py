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
from funcgrad._core.trace import TracedValue
from funcgrad._transforms.transformed import Transformed
from funcgrad.errors import DeviceError

_SETTING: Final = re.compile(r"\b(Setting|AxisLike|ShapeLike|SupportsIndex|int|float)\b")
"""Types of arguments that are read on the host, where they may be arrays."""


def check_constant(operation: str, device: str, origin: str) -> None:
    """Refuse an array of the host in an operation on a device, if the user passed it.

    Raises
    ------
    DeviceError
        The arguments of the function that the user's code called contain an array of the host.
    """
    frame: FrameType | None = sys._getframe(1)
    called: FrameType | None = None
    while frame is not None and not is_users(frame):
        called, frame = frame, frame.f_back
    if frame is None or called is None:
        return
    for name, argument, array in _arrays(called):
        is_key = (array.shape, array.dtype) == ((2,), np.uint64)
        kind = "a key" if is_key else f"an array of shape {array.shape}"
        what = f"{name}: {argument}, {kind}," if argument else f"{name or operation}: {kind}"
        since = f" (put there at {origin})" if origin else ""
        raise DeviceError(
            f"{what} is on the host, another value on {device}{since}. Arrays are not copied"
            f" silently: write fg.put({argument or ('key' if is_key else 'x')}, {device!r}), before"
            " a loop if there is one. Numbers, lists of numbers and arrays without axes may be on"
            " the host."
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
    while isinstance(leaf, TracedValue):
        leaf = leaf._value
    return leaf if isinstance(leaf, np.ndarray) else None

"""A call that works for every public function: the first one in the examples of its docstring.

The examples run, and Python's profiler says with which arguments the function is called there, so
a function that is added tomorrow is called too.

>>> call = recorded_call(fg.nn.relu)
>>> call.function.__name__, call.arguments
('relu', {'x': [-1.0, 0.0, 2.0]})
"""

from __future__ import annotations

import doctest
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

import funcgrad as fg

__all__ = ["WorkingCall", "recorded_call"]


@dataclass(frozen=True)
class WorkingCall:
    """A function and arguments that it takes.

    Attributes
    ----------
    function : callable
    positional : tuple
    named : dict
    """

    function: Callable[..., Any]
    positional: tuple[Any, ...]
    named: dict[str, Any]


class _Stop(BaseException):
    """The function was called: the example has done what it is for."""


def _arguments(frame: FrameType, function: Callable[..., Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a function was called with, by the frame that has just begun."""
    values = frame.f_locals
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        value = values[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if value is not parameter.default:
                named[parameter.name] = value
        else:
            positional.append(value)
    defaults = [p.default for p in inspect.signature(function).parameters.values()]
    while positional and len(positional) <= len(defaults) and positional[-1] is defaults[len(positional)-1]:
        positional.pop()
    return tuple(positional), named


def recorded_calls(function: Callable[..., Any]) -> list[WorkingCall]:
    """The calls of a function in its examples."""
    inner = inspect.unwrap(function)
    code: CodeType = inner.__code__
    module = sys.modules[function.__module__]
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code and len(found) < 40:
            found.append(_arguments(frame, inner))

    names = dict(vars(module))
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(function) or ""):
        before = sys.getprofile()
        text = compile(example.source, "<example>", "single")
        hook, sys.displayhook = sys.displayhook, lambda _: None
        sys.setprofile(look)
        try:
            exec(text, names)
        except Exception:
            pass
        finally:
            sys.setprofile(before)
            sys.displayhook = hook
    return [WorkingCall(function, *call) for call in found]

"""Calls that work, for every public function: those in the examples of its docstring.

The examples run, and Python tells of each call, with its arguments, so a function that is added
tomorrow is called too.

>>> import funcgrad.numpy as fnp
>>> call = examples_of(fnp.tile)[0]
>>> call.positional, call.named
(([1.0, 2.0], (2, 2)), {})
"""

from __future__ import annotations

import doctest
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np

from funcgrad._core.trace import TracedValue
from funcgrad.tensor.tensor import Tensor
from tests.differential.samples import samples

_MOST_CALLS = 20
SAMPLES = samples()


@dataclass(frozen=True)
class WorkingCall:
    """Positional and named arguments with which a function works."""

    positional: tuple[Any, ...]
    named: Mapping[str, Any]

    @property
    def places(self) -> tuple[int | str, ...]:
        """Where there are arguments."""
        return (*range(len(self.positional)), *self.named)

    def __getitem__(self, place: int | str) -> Any:
        return self.positional[place] if isinstance(place, int) else self.named.get(place)

    def with_argument(self, place: int | str, value: Any) -> WorkingCall:
        """The call with another argument in one place."""
        if isinstance(place, str):
            return WorkingCall(self.positional, {**self.named, place: value})
        before, behind = self.positional[:place], self.positional[place + 1 :]
        return WorkingCall((*before, value, *behind), self.named)

    def in_arrays(self) -> WorkingCall:
        """The call with an array in the place of each tensor and each list of numbers."""
        named = {name: _in_array(value) for name, value in self.named.items()}
        return WorkingCall(tuple(map(_in_array, self.positional)), named)


def _in_array(value: Any) -> Any:
    if isinstance(value, list):
        with suppress(ValueError):
            array = np.asarray(value)
            return array if array.size and array.dtype.kind in "fc" else value
    return np.asarray(value) if type(value) is Tensor else value


def calls_of(path: str, function: Callable[..., Any]) -> Iterator[WorkingCall]:
    """Calls that may work: some examples use what is only there while they run."""
    calls = examples_of(function)
    for name, sample in SAMPLES.items():
        if name.split(" (")[0] == path:
            calls.append(WorkingCall(sample.args, sample.kwargs))
    for call in calls:
        yield call.in_arrays()
        yield call


def examples_of(function: Callable[..., Any]) -> list[WorkingCall]:
    """The calls of a function in the examples of its docstring."""
    inner: Any = inspect.unwrap(function)
    code, parameters = inner.__code__, inspect.signature(inner).parameters
    calls: list[WorkingCall] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is code and len(calls) < _MOST_CALLS:
            calls.append(_call(frame, parameters))

    names = dict(vars(sys.modules[function.__module__]))
    for example in doctest.DocTestParser().get_examples(inspect.getdoc(function) or ""):
        with _traced(look), suppress(Exception):  # some show an error
            exec(compile(example.source, "<example>", "single"), names)
    return calls


@contextmanager
def _traced(look: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """Tell a function of every call; what expressions come to is not shown.

    It is not told of returns and of functions in C, as by ``sys.setprofile``, which takes as long
    as the examples.
    """
    before, shown = sys.gettrace(), sys.displayhook
    sys.displayhook = lambda value: None
    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)
        sys.displayhook = shown


def _concrete(value: Any) -> Any:
    """The number behind a traced value, which ends with its transformation."""
    while isinstance(value, TracedValue) and type(value) is not Tensor:
        value = value._value
    return value


def _call(frame: FrameType, parameters: Mapping[str, inspect.Parameter]) -> WorkingCall:
    """What a function was called with, by its frame that has just begun, without defaults."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    by_name = False
    for name, parameter in parameters.items():
        value = _concrete(frame.f_locals[name])
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif value is parameter.default:
            by_name = True  # what comes after has to be named
        elif by_name or parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = value
        else:
            positional.append(value)
    return WorkingCall(tuple(positional), named)

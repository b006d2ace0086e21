"""Call every public function with one argument after the other replaced by an unsuitable value.

The results are the calls that end in an error that is not written for users: Python's or NumPy's,
raised inside of funcgrad.

>>> list(swept("fg.nn.relu", "eager"))
[]
"""

from __future__ import annotations

import inspect
import re
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad.errors import FuncgradError
from tests.test_names import MODULES
from tests.tools.refusals.changes import changes
from tests.tools.refusals.modes import called, followed
from tests.tools.refusals.working_calls import WorkingCall, calls_of

FUNCGRAD = str(Path(fg.__file__).parent)

ELSEWHERE = {
    "fg.errors": "no functions",
    "fg.extend": "declarations have tests of their own",
    "fg.interop": "tests/interop/ has their bad calls",
    "fg.interop.einops": "no arguments",
    "fg.interop.ipopt": "tests/interop/ has their bad calls",
    "fg.interop.nutpie": "tests/interop/ has their bad calls",
    "fg.interop.jax": "tests/interop/ has their bad calls",
    "fg.interop.onnx": "tests/interop/ has their bad calls",
    "fg.interop.torch": "tests/interop/ has their bad calls",
    "fg.testing": "slow checks, whose arguments tests/differential/test_odd_options.py changes",
    "fg.testing.laws": "tests/testing/test_laws.py has their bad calls",
    "fg.testing.strategies": "tests/testing/test_strategies.py has their bad calls",
}
IN_OTHER_WORDS = {
    "fg.numpy.can_cast": "NumPy's own about dtypes",
    "fg.numpy.finfo": "NumPy's own about dtypes",
    "fg.numpy.iinfo": "NumPy's own about dtypes",
    "fg.numpy.result_type": "NumPy's own about dtypes",
    "fg.tree.all": "Python's about the truth of a leaf",
}
"""Functions whose errors are raised by others."""

Place = int | str


@cache
def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by their paths, without NumPy's own."""
    return {
        f"{path}.{name}": value
        for path, module in MODULES.items()
        if path not in ELSEWHERE
        for name in module.__all__
        if inspect.isfunction(value := getattr(module, name))
        and value.__module__.startswith("funcgrad")
    }


@cache
def working_call(path: str) -> WorkingCall | None:
    """The first call of a function that works; None where there is none."""
    function = functions()[path]
    for call in calls_of(path, function):
        if _failure("eager", function, call, ()) is None:
            return call
    return None


def swept(path: str, mode: str, share: int = 1) -> Iterator[str]:
    """Calls of a public function that end in a raw error, one of ``share`` being tried."""
    call = working_call(path)
    if call is not None and path not in IN_OTHER_WORDS:
        yield from swept_function(path, functions()[path], call, mode, share)


def swept_function(
    path: str, function: Callable[..., Any], base: WorkingCall, mode: str, share: int = 1
) -> Iterator[str]:
    """The same, for any function with a call that works."""
    tried = [
        (places, change, call)
        for places, change, call in _changed(base, function)
        if zlib.crc32(f"{path} {mode} {places} {change}".encode()) % share == 0
    ]
    traced = followed(base)
    if not tried or (mode != "eager" and not traced):
        return
    if _failure(mode, function, base, traced) is not None:
        return  # a mode in which it has no meaning
    for places, change, call in tried:
        error = _failure(mode, function, call, traced)
        if error is not None and is_raw(error, function, places):
            yield f"{path}, {mode}, {places[0]} = {change}: {type(error).__name__}: {error}"


def _failure(
    mode: str, function: Callable[..., Any], call: WorkingCall, traced: tuple[Place, ...]
) -> Exception | None:
    """The error that a call ends in; None where it has a result."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            called(mode, function, call, traced)
        except Exception as error:
            return error
    return None


def _changed(
    base: WorkingCall, function: Callable[..., Any]
) -> Iterator[tuple[tuple[Place, ...], str, WorkingCall]]:
    """Calls with one argument changed, and with neighbours exchanged, and the places of these."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    count = len(base.positional)
    behind = list(inspect.signature(function).parameters.values())[count:]
    names = [parameter.name for parameter in behind if parameter.kind not in variadic]
    for place in (*range(count), *names):
        for change, value in changes(base[place]).items():
            yield (place,), change, base.with_argument(place, value)
    for place in range(count - 1):
        exchanged = base.with_argument(place, base[place + 1])
        yield (place, place + 1), "the next", exchanged.with_argument(place + 1, base[place])


def is_raw(error: Exception, function: Callable[..., Any], places: tuple[Place, ...]) -> bool:
    """Whether the words of an error are neither funcgrad's nor of a function of the user's."""
    if isinstance(error, (FuncgradError, MemoryError)):
        return False
    text = str(error)
    if text.startswith("The truth value of") and _has_flag(function, places):
        return False  # flags are read by their truth
    if isinstance(error, TypeError) and re.match(r"[\w.<>]+\(\) ", text):
        return False  # a function is named, which takes other arguments
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    inside = [place for place, name in enumerate(files) if name.startswith(FUNCGRAD)]
    beyond = files[inside[-1] + 1 :] if inside else files[-1:]
    return not any(_has_words(name) for name in beyond)


def _has_words(file: str) -> bool:
    """Whether an error of a file is in words for users: their own, or those of SciPy's solvers."""
    return file.startswith("<") or "/tests/" in file or "scipy/optimize" in file


def _has_flag(function: Callable[..., Any], places: tuple[Place, ...]) -> bool:
    parameters = inspect.signature(function).parameters
    named = list(parameters.values())
    chosen = [
        parameters[place] if isinstance(place, str) else named[min(place, len(named) - 1)]
        for place in places
    ]
    return any("bool" in str(parameter.annotation) for parameter in chosen)

"""What a function reads from outside of its arguments, watched for changes.

A staged function has the globals, the closed-over names and the arrays that it read baked in. A
``Capture`` is the list of all places that it may read, with what stood there, so that a later call
notices a name that was bound anew, an element or attribute that was replaced, and an array that
was written to.

>>> scale = np.array([2.0])
>>> watched = Capture(lambda x: scale * x)
>>> watched.unchanged()
True
>>> scale[0] = 3.0
>>> watched.unchanged()
False
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from funcgrad.border import is_frozen
from funcgrad.trace import TracedValue

__all__ = ["Capture"]

_ABSENT: Final = object()
_MOST: Final = 10_000
_LIBRARIES: Final = frozenset({*sys.stdlib_module_names, "funcgrad", "numpy"})
# The standard library and what is installed beside NumPy do not change under a running program.
_HOMES: Final = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parents[1],
        Path(np.__file__).resolve().parents[1],
        Path(os.__file__).resolve().parent,
    )
)
_CONSTANTS: Final = (bool, int, float, complex, str, bytes, type(None), type, np.generic)


class Capture:
    """The places outside of its arguments that a function may read, and what stood there.

    Followed are functions of the user, what they close over, and within lists, dicts, tuples,
    modules of the user and objects those parts that the code names.
    """

    __slots__ = ("_arrays", "_cells", "_lists", "_mappings", "_names", "_seen")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._lists: list[tuple[list[Any], tuple[Any, ...]]] = []
        self._mappings: list[tuple[Mapping[Any, Any], tuple[Any, ...]]] = []
        self._arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self._seen: set[int] = set()
        self._watch(function)

    def unchanged(self) -> bool:
        """Whether everything stands where it stood."""
        for names, name, value in self._names:
            if names.get(name, _ABSENT) is not value:
                return False
        for cell, value in self._cells:
            if _content(cell) is not value:
                return False
        for elements, before in self._lists:
            if not _same(elements, before):
                return False
        for mapping, before in self._mappings:
            if not _same(list(mapping.values()), before):
                return False
        return all(np.array_equal(_bits(array), before) for array, before in self._arrays)

    def _watch(self, root: Any) -> None:
        waiting: list[tuple[Any, frozenset[str]]] = [(root, frozenset())]
        while waiting and len(self._seen) < _MOST:
            value, read = waiting.pop()
            if isinstance(value, _CONSTANTS) or id(value) in self._seen:
                continue
            self._seen.add(id(value))
            waiting += [(part, read) for part in self._parts(value, read, waiting)]

    def _parts(self, value: Any, read: frozenset[str], waiting: list[Any]) -> Iterator[Any]:
        """Watch a value, and yield what is inside it."""
        if isinstance(value, FunctionType):
            if not value.__code__.co_filename.startswith(_HOMES):
                names = frozenset(_names_in(value.__code__))
                waiting += [(part, names) for part in self._read_by(value, names)]
        elif isinstance(value, np.ndarray):
            if not is_frozen(value):
                self._arrays.append((value, _bits(value).copy()))
        elif isinstance(value, TracedValue):
            return  # never changes
        elif isinstance(value, MethodType):
            yield from (value.__func__, value.__self__)
        elif isinstance(value, partial):
            yield from (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, list):
            self._lists.append((value, tuple(value)))
            yield from value
        elif isinstance(value, Mapping):
            self._mappings.append((value, tuple(value.values())))
            yield from value.values()
        elif isinstance(value, (tuple, set, frozenset)):
            yield from value
        elif isinstance(value, ModuleType):
            if not _of_library(value.__name__):
                yield from self._attributes(vars(value), read)
        elif hasattr(value, "__wrapped__"):
            yield value.__wrapped__
        elif hasattr(value, "__dict__") and not _of_library(type(value).__module__):
            own, shared = vars(value), vars(type(value))
            for name in read:
                if name in own or name in shared:  # an absent one may yet hide the class's
                    self._names.append((own, name, own.get(name, _ABSENT)))
                    self._names.append((shared, name, shared.get(name, _ABSENT)))
                    yield own.get(name, shared.get(name))

    def _attributes(self, attributes: Mapping[str, Any], read: frozenset[str]) -> Iterator[Any]:
        for name in read:
            if name in attributes:
                self._names.append((attributes, name, attributes[name]))
                yield attributes[name]

    def _read_by(self, function: FunctionType, names: frozenset[str]) -> Iterator[Any]:
        """What a function's code may read: globals, closed-over names and defaults."""
        yield from self._attributes(function.__globals__, names)
        for cell in function.__closure__ or ():
            content = _content(cell)
            self._cells.append((cell, content))
            if content is not _ABSENT:
                yield content
        yield from function.__defaults__ or ()
        yield from (function.__kwdefaults__ or {}).values()
        yield getattr(function, "__wrapped__", None)


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that code, and the functions inside it, look up."""
    waiting = [code]
    while waiting:
        inner = waiting.pop()
        yield from inner.co_names
        waiting += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return _ABSENT


def _same(now: list[Any], before: tuple[Any, ...]) -> bool:
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array, so that NaN equals itself."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _of_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES

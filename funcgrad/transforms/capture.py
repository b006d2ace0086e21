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
from operator import is_not
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from funcgrad.border import is_frozen
from funcgrad.trace import TracedValue

__all__ = ["Capture"]

_ABSENT: Final = object()
_MOST: Final = 10_000
_LIBRARIES: Final = frozenset({*sys.stdlib_module_names, "builtins", "funcgrad", "numpy"})
# The standard library and what is installed beside NumPy do not change under a running program.
_HOMES: Final = tuple(
    str(folder) + os.sep
    for folder in (
        Path(__file__).resolve().parents[1],
        Path(np.__file__).resolve().parents[1],
        Path(os.__file__).resolve().parent,
    )
)
_CONSTANTS: Final = (bool, int, float, complex, str, bytes, type(None), np.generic)


class Capture:
    """The places outside of its arguments that a function may read, and what stood there.

    Followed are functions and classes of the user, what they close over, everything inside of
    containers and of objects, and of modules the names that the code reads.

    Attributes
    ----------
    complete : bool
        False if there is more to watch than is reasonable, so that changes could go unnoticed.
    """

    __slots__ = ("_arrays", "_cells", "_contents", "_names", "_seen", "complete")

    def __init__(self, function: Callable[..., Any]) -> None:
        self._names: list[tuple[Mapping[str, Any], str, Any]] = []
        self._cells: list[tuple[Any, Any]] = []
        self._contents: list[tuple[Any, Callable[[Any], list[Any]], list[Any]]] = []
        self._arrays: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        self._seen: dict[Any, Any] = {}  # with the values, lest an address be used again
        self.complete = self._watch(function)

    def unchanged(self) -> bool:
        """Whether everything stands where it stood."""
        for names, name, value in self._names:
            if names.get(name, _ABSENT) is not value:
                return False
        for cell, value in self._cells:
            if _content(cell) is not value:
                return False
        for container, read, before in self._contents:
            now = read(container)
            if len(now) != len(before) or any(map(is_not, now, before)):
                return False
        return all(np.array_equal(_bits(array), before) for array, before in self._arrays)

    def _watch(self, root: Any) -> bool:
        waiting: list[tuple[Any, frozenset[str]]] = [(root, frozenset())]
        while waiting:
            value, read = waiting.pop()
            if isinstance(value, FunctionType):
                read = frozenset(_names_in(value.__code__))
            # One module may be read by several functions, each of which reads other names of it.
            key = (id(value), read) if isinstance(value, ModuleType) else id(value)
            if isinstance(value, _CONSTANTS) or key in self._seen:
                continue
            if len(self._seen) >= _MOST:
                return False
            self._seen[key] = value
            waiting += [(part, read) for part in self._parts(value, read)]
        return True

    def _parts(self, value: Any, read: frozenset[str]) -> Iterator[Any]:
        """Watch a value, and yield what is inside it."""
        if isinstance(value, FunctionType):
            if not value.__code__.co_filename.startswith(_HOMES):
                yield from self._read_by(value, read)
            yield getattr(value, "__wrapped__", None)  # the user's function inside grad(f)
        elif isinstance(value, np.ndarray):
            if not is_frozen(value):
                self._arrays.append((value, _bits(value).copy()))
        elif isinstance(value, TracedValue):
            return  # never changes
        elif isinstance(value, MethodType):
            yield from (value.__func__, value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, partial):
            yield from (value.func, *value.args, *value.keywords.values())
        elif isinstance(value, ModuleType):
            if not _of_library(value.__name__):
                yield from self._attributes(vars(value), read)
        elif isinstance(value, type):
            if not _of_library(value.__module__):
                yield from self._inside(vars(value), _entries)
                yield from value.__bases__
        elif isinstance(value, (list, tuple, set, frozenset)):
            yield from self._inside(value, list)
        elif isinstance(value, Mapping):
            yield from self._inside(value, _entries)
        elif hasattr(value, "__wrapped__"):
            yield value.__wrapped__
            yield from getattr(value, "_rules", ())  # those of a custom derivative
        elif not _of_library(type(value).__module__):
            yield type(value)
            yield from self._inside(value, _fields)

    def _inside(self, container: Any, read: Callable[[Any], list[Any]]) -> list[Any]:
        """Watch what is inside a container."""
        contents = read(container)
        self._contents.append((container, read, contents))
        return contents

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


def _entries(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys and the values of a mapping."""
    return [*mapping.keys(), *mapping.values()]


def _fields(value: Any) -> list[Any]:
    """The names and the values of an object's attributes, also of those in slots."""
    fields = _entries(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            fields.append(getattr(value, name, _ABSENT))
    return fields


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


def _bits(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array, so that NaN equals itself."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _of_library(module: str | None) -> bool:
    """Whether a module is of the standard library, funcgrad, or installed beside NumPy."""
    if (module or "").partition(".")[0] in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return file.startswith(_HOMES)

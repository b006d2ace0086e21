"""What a function reads from outside of its arguments, watched for changes.

A staged function has the globals, the closed-over names and the arrays that it read baked in. A
``Capture`` finds all places that it may read, so that a later call notices a name that was bound
anew, an element or attribute that was replaced, and an array that was written to.

>>> scale = np.array([2.0])
>>> watched = Capture(lambda x: scale * x)
>>> watched.unchanged()
True
>>> scale[0] = 3.0
>>> watched.unchanged()
False
"""

from __future__ import annotations

import builtins
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, Final

import numpy as np

from funcgrad.border import is_frozen
from funcgrad.programs import Program
from funcgrad.trace import TracedValue
from funcgrad.transforms.watch import Watch, content, entries

__all__ = ["Capture"]

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
_HOLDERS: Final = frozenset({"types.SimpleNamespace", "argparse.Namespace"})
"""Classes of the standard library whose objects have the attributes that users give them."""


class Capture:
    """The places outside of their arguments that functions may read, and what stood there.

    Followed are functions and classes of the user, what they close over, everything inside of
    containers and of objects, and of modules the names that the code reads.

    Parameters
    ----------
    *roots : object
        Functions, and other objects that they have at hand when they are called.

    Attributes
    ----------
    complete : bool
        False if there is more to watch than is reasonable, so that changes could go unnoticed.
    check : callable or None
        Says whether everything stands where it stood; None if nothing can change.
    """

    __slots__ = ("_watch", "check", "complete")

    def __init__(self, *roots: Any) -> None:
        self._watch = Watch()
        self.complete = self._follow(roots)
        self.check: Callable[[], bool] | None = self._watch.function() if self.complete else None

    def unchanged(self) -> bool:
        """Whether everything stands where it stood."""
        return self.check is None or self.check()

    def _follow(self, roots: tuple[Any, ...]) -> bool:
        seen: dict[Any, Any] = {}  # with the values, lest an address be used again
        waiting: list[tuple[Any, frozenset[str]]] = [(root, frozenset()) for root in roots]
        while waiting:
            value, read = waiting.pop()
            if isinstance(value, FunctionType):
                read = frozenset(_names_in(value.__code__))
            # One module may be read by several functions, each of which reads other names of it.
            key = (id(value), read) if isinstance(value, ModuleType) else id(value)
            if isinstance(value, _CONSTANTS) or key in seen:
                continue
            if len(seen) >= _MOST:
                return False
            seen[key] = value
            waiting += [(part, read) for part in self._parts(value, read)]
        return True

    def _parts(self, value: Any, read: frozenset[str]) -> Iterator[Any]:
        """Watch a value, and yield what is inside it."""
        if isinstance(value, FunctionType):
            yield from self._function(value, read)
        elif isinstance(value, np.ndarray):
            yield from self._array(value)
        elif isinstance(value, (TracedValue, Program)):
            return  # never changes
        elif isinstance(value, (MethodType, BuiltinMethodType, MethodWrapperType)):
            yield from (getattr(value, "__func__", None), value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, cached_property):
            yield value.func
        elif isinstance(value, partial):
            yield from (value.func, *value.args, value.keywords)
        elif isinstance(value, ModuleType):
            if not _of_library(value.__name__):
                yield from self._attributes(vars(value), read)
        elif isinstance(value, type):
            if not _of_library(value.__module__):
                self._watch.namespace(value)
                yield from (*vars(value).values(), *value.__bases__)
        elif hasattr(value, "__wrapped__"):
            yield value.__wrapped__
            yield from getattr(value, "_rules", ())  # those of a custom derivative
        else:
            yield from self._contents(value)
            yield from self._fields(value)

    def _function(self, function: FunctionType, names: frozenset[str]) -> Iterator[Any]:
        """What a function's code may read: globals, closed-over names, defaults, attributes."""
        cells = function.__closure__ or ()
        yield getattr(function, "__wrapped__", None)  # the user's function inside grad(f)
        yield from [content(cell) for cell in cells]
        code = function.__code__
        if code.co_filename.startswith(_HOMES):
            return
        watch = self._watch
        watch.attribute(function, "__code__")
        if code.co_argcount:
            watch.attribute(function, "__defaults__")
        if code.co_kwonlyargcount:
            watch.attribute(function, "__kwdefaults__")
        for cell in cells:
            watch.cell(cell)
        for name in names.difference(function.__globals__):
            if hasattr(builtins, name):  # a global of that name would be read in its place
                watch.entry(function.__globals__, name)
        yield from self._attributes(function.__globals__, names)
        yield from (*(function.__defaults__ or ()), function.__kwdefaults__, vars(function))

    def _array(self, array: np.ndarray[Any, Any]) -> Iterator[Any]:
        if array.dtype.hasobject:
            self._watch.contents(array, _elements)
            yield from _elements(array)
        elif not is_frozen(array):
            self._watch.array(array)

    def _contents(self, value: Any) -> Iterator[Any]:
        """What is inside of a container."""
        if isinstance(value, Mapping):
            self._watch.mapping(value)
            yield from entries(value)
        elif isinstance(value, (tuple, frozenset)):
            yield from value
        elif isinstance(value, (list, set, deque)):
            self._watch.contents(value, list)
            yield from value
        elif isinstance(value, bytearray):
            self._watch.buffer(value)

    def _fields(self, value: Any) -> Iterator[Any]:
        """The class and the attributes of an object, also those in slots.

        Those of libraries do not change, but this one's may hold functions of the user.
        """
        kind = type(value)
        own = not _of_library(kind.__module__)
        if own:
            yield kind
            self._watch.kind(value)
        elif not (
            kind.__module__.startswith("funcgrad.")
            or f"{kind.__module__}.{kind.__qualname__}" in _HOLDERS
        ):
            return
        fields = getattr(value, "__dict__", None)
        if fields is not None:
            self._watch.attribute(value, "__dict__")
            yield fields
        for name in _slots(kind):
            if own:
                self._watch.attribute(value, name)
            yield getattr(value, name, None)

    def _attributes(self, attributes: Mapping[str, Any], read: frozenset[str]) -> Iterator[Any]:
        for name in read.intersection(attributes):
            self._watch.entry(attributes, name)
            yield attributes[name]


def _elements(array: np.ndarray[Any, Any]) -> list[Any]:
    return list(array.flat)


def _slots(kind: type[Any]) -> Iterator[str]:
    """The names of the slots of a class and its bases, as they are stored."""
    for each in kind.__mro__:
        for name, member in vars(each).items():
            if isinstance(member, MemberDescriptorType):
                yield name


def _names_in(code: CodeType) -> Iterator[str]:
    """The names that code, and the functions inside it, look up."""
    waiting = [code]
    while waiting:
        inner = waiting.pop()
        yield from inner.co_names
        waiting += [constant for constant in inner.co_consts if isinstance(constant, CodeType)]


def _of_library(module: str | None) -> bool:
    """Whether a module is of the standard library, funcgrad, or installed beside NumPy."""
    if (module or "").partition(".")[0] in _LIBRARIES:
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return file.startswith(_HOMES)

"""What a function reads from outside of its arguments, watched for changes.

A staged function has the globals, the closed-over names and the arrays that it read baked in. A
``Capture`` finds all places that it may read, so that a later call notices a name that was bound
anew, an element or attribute that was replaced, and an array that was written to.

Of modules and objects only those attributes are watched whose names the code looks up, lest an
object's ``history`` that grows, which a function does not read, cost staging it again.

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
from abc import ABC, ABCMeta
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MappingView
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter, methodcaller
from threading import local
from types import (
    BuiltinMethodType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, Final, Generic, Protocol
from weakref import ProxyTypes
from weakref import ref as reference

import numpy as np

from funcgrad.border import is_frozen
from funcgrad.primitive import Primitive
from funcgrad.programs.program import Program
from funcgrad.staging.lookups import (
    Lookups,
    imported,
    inspects,
    is_foreign,
    is_library,
    is_library_class,
    is_library_code,
    lookups,
)
from funcgrad.staging.watch import Watch, chosen, content, entries
from funcgrad.trace import RAW, TracedValue

__all__ = ["Capture", "shared_generators"]

_MOST: Final = 10_000
_CONSTANTS: Final = frozenset({bool, int, float, complex, str, bytes, type(None), type(...)})
_HOLDERS: Final = frozenset(
    {
        "argparse.Namespace",
        "collections.UserList",
        "collections.UserString",
        "functools.partialmethod",
        "functools.singledispatchmethod",
        "types.SimpleNamespace",
    }
)
"""Classes of the standard library whose objects have attributes that users give them."""
_BASES: Final = frozenset({object, type, Generic, Protocol, ABC, ABCMeta})
"""Classes of the standard library that read no attributes of what is derived from them."""
_MAKING: Final = frozenset({"__init__", "__new__", "__post_init__"})
"""What runs only where an object is made."""
_INCIDENTAL: Final = frozenset(
    "__annotations__ __dict__ __doc__ __firstlineno__ __module__ __qualname__ __static_attributes__"
    " __weakref__".split()
)
"""What a class has besides what its author gave it."""
_GENERATORS: Final = frozenset(
    {"numpy.random._generator.Generator", "numpy.random.mtrand.RandomState", "random.Random"}
)
_RANDOM: Final = frozenset({"numpy.random", "random"})
"""Modules whose functions are methods of a generator."""
_ENVIRONMENT: Final = frozenset({"environ", "environb", "getenv", "getenvb"})


@dataclass(slots=True, eq=False)
class _Space:
    """Attributes, of which those are watched that code looks up.

    Attributes
    ----------
    values : mapping
    is_module : bool
    chosen : set of str
        Names to watch in any case.
    special : bool
        Whether the interpreter looks up those with two underscores on either side.
    watched : set of str
        The names that are watched already.
    """

    values: Mapping[str, Any]
    is_module: bool = False
    special: bool = True
    chosen: set[str] = field(default_factory=set)
    watched: set[str] = field(default_factory=set)

    def left(self, names: set[str] | None) -> list[str]:
        """The names to watch that are not yet; of all if ``names`` is None."""
        found = [name for name in list(self.values) if self._counts(name, names)]
        self.watched.update(found)
        return found

    def _counts(self, name: str, names: set[str] | None) -> bool:
        if name in self.watched or name in _INCIDENTAL:
            return False
        if names is None or name in names or name in self.chosen:
            return True
        return self.special and name.startswith("__") and name not in _MAKING


class Capture:
    """The places outside of their arguments that functions may read, and what stood there.

    Followed are functions and classes of the user, what they close over, and everything inside of
    containers; of objects, classes and modules what has a name that the code looks up.

    Parameters
    ----------
    *roots : object
        Functions, and other objects that they have at hand when they are called.

    Attributes
    ----------
    complete : bool
        False if there is more to watch than is reasonable, so that changes could go unnoticed.
    generators : list of object
        The generators of random numbers that the functions may draw from.
    check : callable or None
        Says whether everything stands where it stood; None if nothing can change.
    """

    __slots__ = (
        "_classes",
        "_inspects",
        "_library_kinds",
        "_names",
        "_reflects",
        "_spaces",
        "_watch",
        "check",
        "complete",
        "generators",
    )

    def __init__(self, *roots: Any) -> None:
        self._watch = Watch()
        self._names: set[str] = set()
        self._inspects = self._reflects = False
        self._spaces: list[_Space] = []
        self._classes: dict[type[Any], _Space] = {}
        self._library_kinds: dict[type[Any], bool] = {}
        self.generators: list[Any] = []
        try:
            self.complete = self._follow(roots)
        except Exception:  # an object of the user's that cannot be looked at
            self.complete = False
        self.check: Callable[[], bool] | None = self._watch.function() if self.complete else None
        del self._spaces, self._classes, self._names, self._library_kinds, self._watch

    def unchanged(self) -> bool:
        """Whether everything stands where it stood."""
        return self.check is None or self.check()

    def _follow(self, roots: tuple[Any, ...]) -> bool:
        seen: dict[int, Any] = {}  # with the values, lest an address be used again
        waiting = list(roots)
        while waiting:
            while waiting:
                value = waiting.pop()
                if _is_constant(value) or id(value) in seen:
                    continue
                if len(seen) >= _MOST:
                    return False
                seen[id(value)] = value
                waiting += self._parts(value)
            waiting = self._named()
        return True

    def _named(self) -> list[Any]:
        """What stands under the names that code has been found to look up since the last time."""
        found = []
        for space in self._spaces:
            everything = self._reflects if space.is_module else self._inspects
            for name in space.left(None if everything else self._names):
                self._watch.entry(space.values, name)
                found.append(space.values.get(name))
        return found

    def _parts(self, value: Any) -> Iterator[Any]:
        """Watch a value, and yield what is inside it."""
        if type(value) in ProxyTypes:
            yield value.__repr__.__self__
        elif isinstance(value, FunctionType):
            yield from self._function(value)
        elif isinstance(value, type):
            self._class(value, made=True)
            if not self._is_library(type(value)):
                self._class(type(value))
        elif isinstance(value, ModuleType):
            self._inspects |= is_foreign(value)
            if value.__name__ in _RANDOM:
                yield _shared_generator(value)
            if not is_library(value.__name__):
                self._watch.size(vars(value))
                self._spaces.append(_Space(vars(value), is_module=True, special=False))
                yield vars(value).get("__getattr__")
        elif isinstance(value, TracedValue):
            return  # never changes
        elif isinstance(value, Program):
            yield from [equation.operation for equation in value.equations]  # with rules, it may be
        elif not isinstance(value, Primitive):
            yield from self._held(value)
            yield from self._contents(value)
            yield from self._fields(value)

    def _function(self, function: FunctionType) -> Iterator[Any]:
        """What a function's code may read: globals, closed-over names, defaults, attributes."""
        code, cells = function.__code__, function.__closure__ or ()
        yield getattr(function, "__wrapped__", None)  # the user's function inside grad(f)
        for name, cell in zip(code.co_freevars, cells, strict=True):
            if name == "__class__":  # for super()
                self._class(content(cell))
            else:
                yield content(cell)
        if is_library_code(code):
            self._library(function)
            return
        watch, space = self._watch, function.__globals__
        watch.attribute(function, "__code__")
        if code.co_argcount:
            watch.attribute(function, "__defaults__")
        if code.co_kwonlyargcount:
            watch.attribute(function, "__kwdefaults__")
        for cell in cells:
            watch.cell(cell)
        found = lookups(code)
        self._looked_up(found)
        for name in found.globals:  # also those that are not there, or are builtins so far
            watch.entry(space, name)
            yield space.get(name)
        for name in found.random:
            yield getattr(space.get(name), "random", None)
        for name in imported(found.imports, space.get("__package__")):
            watch.entry(sys.modules, name)  # it may be staging that imports it
            yield sys.modules.get(name)
        if not found.attributes.isdisjoint(_ENVIRONMENT):
            yield os.environ
        yield from (*(function.__defaults__ or ()), function.__kwdefaults__, vars(function))

    def _looked_up(self, found: Lookups) -> None:
        self._names |= found.attributes
        self._inspects |= found.inspects
        self._reflects |= found.reflects
        if "type" in found.attributes or "__class__" in found.attributes:
            self._names |= _MAKING

    def _library(self, value: Any) -> None:
        """Note what functions of libraries, their classes and objects may read."""
        self._inspects |= is_foreign(value) or inspects(value)
        self._reflects |= inspects(value)

    def _class(self, kind: type[Any], made: bool = False) -> None:
        """Watch a class, and what makes objects of it if the code may do that."""
        if self._is_library(kind):
            self._library(kind)
            return
        space = self._classes.get(kind)
        if space is None:
            space = self._classes[kind] = _Space(vars(kind))
            self._spaces.append(space)
            self._watch.size(space.values)
            self._watch.attribute(kind, "__bases__")
            if isinstance(kind, ABCMeta):
                self._watch.subclasses()
            if self._reads_itself(kind):
                space.chosen.update(list(space.values))
        if made:
            space.chosen |= _MAKING
        for base in kind.__bases__:
            self._class(base, made)

    def _reads_itself(self, kind: type[Any]) -> bool:
        """Whether attributes are read by code that is not followed: that of a library's class."""
        above = [*kind.__mro__, *type.mro(type(kind))]
        return hasattr(kind, "__dataclass_fields__") or any(
            self._is_library(each) and each not in _BASES for each in above
        )

    def _held(self, value: Any) -> Iterator[Any]:
        """What objects hold that the interpreter, or the standard library, makes of functions."""
        if isinstance(value, (MethodType, BuiltinMethodType, MethodWrapperType)):
            self._library(value)
            yield from (getattr(value, "__func__", None), value.__self__)
        elif isinstance(value, (staticmethod, classmethod)):
            if isinstance(value, classmethod):
                self._names |= _MAKING  # cls()
            yield value.__func__
        elif isinstance(value, property):
            yield from (value.fget, value.fset)
        elif isinstance(value, cached_property):
            yield value.func
        elif isinstance(value, partial):
            yield from (value.func, *value.args, value.keywords)
        elif isinstance(value, (attrgetter, methodcaller)):
            texts = [text for text in value.__reduce__()[1] if isinstance(text, str)]
            self._names.update(*[text.split(".") for text in texts])
        elif isinstance(value, ContextVar):
            self._watch.same(value, chosen)
            yield chosen(value)
        elif isinstance(value, local):
            self._watch.contents(value, _of_thread)
            yield from _of_thread(value)
        elif isinstance(value, reference):
            yield value()
        elif isinstance(value, MappingView):
            yield getattr(value, "mapping", None)

    def _contents(self, value: Any) -> Iterator[Any]:
        """What is inside of a container."""
        if isinstance(value, np.ndarray):
            yield from self._array(value)
        elif value is os.environ:
            self._watch.environment()
        elif isinstance(value, Mapping):
            self._watch.mapping(value)
            yield from entries(value)
        elif isinstance(value, (tuple, frozenset)):
            yield from value
        elif isinstance(value, (list, set, deque)):
            self._watch.contents(value, list)
            yield from list(value)
        elif _has_buffer(value):
            self._watch.buffer(value)

    def _array(self, array: np.ndarray[Any, Any]) -> Iterator[Any]:
        if array.dtype.hasobject:
            self._watch.contents(array, _elements)
            yield from _elements(array)
        elif not is_frozen(array):
            self._watch.array(array)

    def _fields(self, value: Any) -> Iterator[Any]:
        """The class and the attributes of an object, also those in slots.

        Those of libraries do not change, but this one's may hold functions of the user.
        """
        kind = type(value)
        fields = getattr(value, "__dict__", None)
        if self._is_library(kind):
            yield from self._library_fields(value, fields or {})
            return
        self._class(kind)
        self._watch.kind(value)
        for name in _slots(kind):
            self._watch.attribute(value, name)
            yield getattr(value, name, None)
        if isinstance(fields, dict):
            self._watch.attribute(value, "__dict__")
            if self._reads_itself(kind):
                yield fields
            else:
                self._watch.size(fields)
                self._spaces.append(_Space(fields))

    def _library_fields(self, value: Any, fields: Mapping[str, Any]) -> Iterator[Any]:
        kind = type(value)
        self._library(kind)
        if f"{kind.__module__}.{kind.__qualname__}" in _GENERATORS:
            self.generators.append(value)
        yield getattr(value, "__self__", None)  # of methods that are compiled
        if "__wrapped__" in fields:
            # A function made of the user's, such as a jitted one or one with rules: what it keeps
            # for itself may change, and what the user gave it must not.
            self._watch.size(fields)
            for name in list(fields):
                if name in ("__wrapped__", "_rules") or not name.startswith("_"):
                    self._watch.entry(fields, name)
                    yield fields[name]
        elif kind.__module__.startswith(("funcgrad.", "numpy.ma")):  # a mask is an attribute
            yield fields
            yield from [getattr(value, name, None) for name in _slots(kind)]
        elif f"{kind.__module__}.{kind.__qualname__}" in _HOLDERS:
            self._watch.attribute(value, "__dict__")
            yield fields

    def _is_library(self, kind: type[Any]) -> bool:
        known = self._library_kinds.get(kind)
        if known is None:
            known = self._library_kinds[kind] = is_library_class(kind)
        return known


def _is_constant(value: Any) -> bool:
    kind = type(value)
    return kind in _CONSTANTS or (issubclass(kind, np.generic) and kind in RAW)


def shared_generators() -> list[Any]:
    """The generators of random numbers that all code shares, libraries that draw from them too."""
    places = (("numpy.random.mtrand", "_rand"), ("random", "_inst"))
    found = [getattr(sys.modules.get(module), name, None) for module, name in places]
    return [generator for generator in found if generator is not None]


def _shared_generator(module: ModuleType) -> Any:
    return getattr(module.random, "__self__", None)


def _elements(array: np.ndarray[Any, Any]) -> list[Any]:
    return list(array.flat)


def _of_thread(value: local) -> list[Any]:
    return entries(vars(value))


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _slots(kind: type[Any]) -> Iterator[str]:
    """The names of the slots of a class and its bases, as they are stored."""
    for each in kind.__mro__:
        for name, member in list(vars(each).items()):
            if isinstance(member, MemberDescriptorType):
                yield name

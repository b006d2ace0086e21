"""Values that may change, and one generated function that checks whether any has.

The function has one condition for each place, without a loop: most checks take 20 ns, and a loop
around them would double that.

>>> settings = {"scale": 2.0}
>>> watch = Watch()
>>> watch.about = "settings"
>>> watch.contents(settings, entries)
>>> unchanged = watch.function()
>>> unchanged()
True
>>> settings["scale"] = 3.0
>>> unchanged(), watch.changed()
(False, 'settings')
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from keyword import iskeyword
from operator import is_not
from types import CellType, FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.interface import MISS, OutsidePlaces
from funcgrad._core.users_values import FREE
from funcgrad._programs.equation import exact_key
from funcgrad._staging.generated import Body

ABSENT: Final = object()
"""Stands for the value of an attribute or entry that does not exist."""

PLAIN: Final = frozenset(FREE | {str, bytes, type(None), type(...)})
"""Types of scalars and strings: they never change and contain no other objects."""

_LAZY: Final = getattr(types, "LazyImportType", ABSENT)
"""The class of the objects that ``lazy import`` binds, from Python 3.15 on."""

_FEW: Final = 16
"""Containers of up to this many elements get a condition for each element."""


class Watch:
    """Collects conditions that hold as long as nothing has changed.

    Attributes
    ----------
    about : str
        The name by which code reaches the places that are added next.
    """

    __slots__ = ("_body", "_conditions", "_places", "about")

    def __init__(self) -> None:
        self._body = Body()
        self._conditions: dict[str, str] = {}
        self._places: dict[str, tuple[str, tuple[Any, ...]]] = {}  # for machine code
        self.about = ""

    def function(self) -> Callable[[], bool] | None:
        """A function that returns whether nothing has changed; None if nothing is watched."""
        return self._function([*self._conditions])

    def places(self) -> OutsidePlaces:
        """The watched places, for code that looks at objects in memory."""
        attributes, entries, sizes = [
            tuple([place for kind, place in self._places.values() if kind == wanted])
            for wanted in ("attributes", "entries", "sizes")
        ]
        others = [text for text in self._conditions if text not in self._places]
        return OutsidePlaces(attributes, entries, sizes, self._function(others))

    def _function(self, conditions: Sequence[str]) -> Callable[[], bool] | None:
        if not conditions:
            return None
        body = self._body.begun_anew()
        body.line("try:")
        body.line(f"return ({' and '.join(conditions)})", 2)
        # A missing place raises: a KeyError, an AttributeError, or an error of a user's class.
        body.line("except Exception:")
        body.line("return False", 2)
        return body.function("unchanged", "")

    def changed(self) -> str | None:
        """The name that leads to the first changed place; None if there is none."""
        for condition, about in self._conditions.items():
            with suppress(Exception):  # as above
                if self._body.value(condition):
                    continue
            return about
        return None

    def holds(self, condition: str, *values: object) -> str:
        """Watch that a condition holds: its text, with braces for the values."""
        return self._add(condition.format(*[self._body.literal(value) for value in values]))

    def attribute(self, owner: object, name: str) -> None:
        """Watch that an attribute stays the same object, or stays missing."""
        value = look(owner, name)
        if value is ABSENT or iskeyword(name):
            self.holds("{}({}, {}) is {}", look, owner, name, value)
        else:
            condition = self._is(f"{self._body.name(owner)}.{name}", value)
            if name in _IN_MEMORY.get(type(owner), ()):
                self._places[condition] = "attributes", (owner, name, value)

    def entry(self, mapping: Mapping[str, Any], key: str) -> None:
        """Watch that an entry of a mapping stays the same object, or stays missing."""
        value = mapping.get(key, ABSENT)
        if value is ABSENT:
            condition, value = self.holds("{} not in {}", key, mapping), MISS
        elif type(value) is _LAZY:  # the module comes into its place when code reads the name
            self.holds("type({}[{}]) is {}", mapping, key, _LAZY)
            return
        else:
            condition = self._is(f"{self._body.name(mapping)}[{key!r}]", value)
        if type(mapping) is dict:
            self._places[condition] = "entries", (mapping, key, value)

    def size(self, container: object, count: int) -> None:
        """Watch that a container keeps its number of elements."""
        condition = self.holds("len({}) == {}" if count else "not {}", container, count)
        if type(container) is dict:
            self._places[condition] = "sizes", (container, count)

    def contents(self, container: object, read: Callable[[Any], Sequence[Any] | None]) -> None:
        """Watch the objects in a container and their order, as the function ``read`` lists them."""
        kind, before = type(container), read(container) or ()
        # A copy, since another thread may change the container.
        parts = dict(container) if isinstance(container, dict) else dict(enumerate(before))
        if kind in (list, dict) and len(before) <= (_FEW if kind is list else 0):
            self.size(container, len(before))
        elif kind is dict and len(parts) <= _FEW and {*map(type, parts)} == {str}:
            self.holds("[*{}] == {}", container, list(parts))
        else:
            self.holds("{}({}({}), {})", _same, read, container, before)
            return
        for key, value in parts.items():
            self._is(f"{self._body.name(container)}[{key!r}]", value)

    def array(self, array: np.ndarray[Any, Any]) -> None:
        """Watch an array's bytes (so that NaN equals itself), its shape and its dtype."""
        tobytes = np.ndarray.tobytes  # a masked array overrides the method
        if array.dtype.kind in "biufc" and array.flags.forc:
            # The fastest exact comparison: 0.05 µs for tiny arrays, and no copy of large ones.
            lying = "{}" if array.flags.c_contiguous else "{}.T"
            self.holds(f"({{}} == {lying}) is True", bytearray(tobytes(array, "A")), array)
        else:
            self.holds("{}({}) == {}", tobytes, array, tobytes(array))
        self.holds("{}.shape == {}", array, array.shape)
        self.holds("{}.dtype == {}", array, array.dtype)

    def unset(self, variable: ContextVar[Any], read: Callable[[], object]) -> None:
        """Watch that a context variable is None, or a function that reads it returns None."""
        names = self._body.name(variable.get), self._body.name(read)
        self._add(f"({names[0]}() is None or {names[1]}() is None)")

    def _is(self, text: str, value: object) -> str:
        """Watch that an expression gives the same object, or an exactly equal scalar or string."""
        name = self._body.name(value)
        condition = f"{text} is {name}"
        if type(value) in PLAIN:
            condition = f"({condition} or {self._body.name(_alike)}({text}, {name}))"
        return self._add(condition)

    def _add(self, condition: str) -> str:
        self._conditions.setdefault(condition, self.about)
        return condition


_IN_MEMORY: Final[Mapping[type[Any], tuple[str, ...]]] = MappingProxyType(
    {FunctionType: ("__code__", "__defaults__", "__kwdefaults__"), CellType: ("cell_contents",)}
)
"""Attributes that are fields of CPython's objects."""


def entries(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys and the values of a mapping."""
    return [*mapping.keys(), *mapping.values()]


def look(owner: object, name: str) -> Any:
    """An attribute, or ``ABSENT``."""
    try:
        return getattr(owner, name, ABSENT)
    except ValueError:  # an empty cell: the closed-over name is not bound yet
        return ABSENT


def _same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether all objects are identical, or equal scalars and strings."""
    if len(now) != len(before):
        return False
    return not any(map(is_not, now, before)) or all(map(_alike, now, before))


def _alike(value: object, other: object) -> bool:
    """Whether two objects are identical, or exactly equal scalars or strings."""
    if value is other:
        return True
    return type(value) in PLAIN and exact_key(value) == exact_key(other)

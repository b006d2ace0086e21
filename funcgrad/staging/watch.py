"""Places that may change, and one function that says whether any has.

The function is written out, a condition for each place, since most places take 20 ns to look at: a
loop over them would take as long again for itself.

>>> settings = {"scale": 2.0}
>>> watch = Watch()
>>> watch.about = "settings"
>>> watch.mapping(settings)
>>> unchanged = watch.function()
>>> unchanged()
True
>>> settings["scale"] = 3.0
>>> unchanged(), watch.changed()
(False, 'settings')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from operator import is_not
from typing import Any, Final

import numpy as np

from funcgrad.programs.equation import exact_key
from funcgrad.staging.generated import Body
from funcgrad.users_values import FREE

__all__ = ["ABSENT", "PLAIN", "Watch", "entries", "look"]

ABSENT: Final = object()
"""What a place without anything holds."""

PLAIN: Final = frozenset(FREE | {str, bytes, type(None), type(...)})
"""The types of numbers and texts: objects that do not change, and hold no others."""

_FEW: Final = 16
"""Up to so many parts of a container are written out."""


class Watch:
    """Conditions in the making.

    Attributes
    ----------
    about : str
        The name by which code comes to the places that are watched next.
    """

    __slots__ = ("_body", "_conditions", "about")

    def __init__(self) -> None:
        self._body = Body()
        self._conditions: dict[str, str] = {}
        self.about = ""

    def function(self) -> Callable[[], bool] | None:
        """A function that says whether everything is as it was; None if nothing is watched."""
        if not self._conditions:
            return None
        body = self._body
        body.line("try:")
        body.line("return (", 2)
        for number, condition in enumerate(self._conditions):
            body.line(f"{'and ' if number else ''}{condition}", 3)
        body.line(")", 2)
        # What is gone raises, a KeyError or an AttributeError or whatever an object thinks fit.
        body.line("except Exception:")
        body.line("return False", 2)
        return body.function("unchanged", "")

    def changed(self) -> str | None:
        """The name of the first place that is not as it was."""
        for condition, about in self._conditions.items():
            try:
                if self._body.value(condition):
                    continue
            except Exception:  # as above
                pass
            return about
        return None

    def holds(self, condition: str, *values: object) -> None:
        """Watch that a condition holds, in which braces stand for these values."""
        self._add(condition.format(*[self._body.literal(value) for value in values]))

    def attribute(self, owner: object, name: str) -> None:
        """Watch which object an attribute is, or that there is none."""
        value = look(owner, name)
        if value is ABSENT or iskeyword(name):
            self.holds("{}({}, {}) is {}", look, owner, name, value)
        else:
            self._is(f"{self._body.name(owner)}.{name}", value)

    def entry(self, mapping: Mapping[str, Any], key: str) -> None:
        """Watch an entry of a mapping, or that there is none."""
        value = mapping.get(key, ABSENT)
        if value is not ABSENT:
            self._is(f"{self._body.name(mapping)}[{key!r}]", value)
        else:
            self._add(f"{key!r} not in {self._body.name(mapping)}")

    def mapping(self, mapping: Mapping[Any, Any]) -> None:
        """Watch the keys of a mapping, in their order, and the values."""
        plain = type(mapping) is dict and len(mapping) <= _FEW
        before = dict(mapping) if plain else {}  # another thread may be at it
        if not plain or any(type(key) is not str for key in before):
            self.contents(mapping, entries)
            return
        name = self._body.name(mapping)
        self._add(f"[*{name}] == {self._body.name(list(before))}" if before else f"not {name}")
        for key, value in before.items():
            self._is(f"{name}[{key!r}]", value)

    def contents(self, container: object, read: Callable[[Any], Sequence[Any] | None]) -> None:
        """Watch which objects, in which order, a function finds in a container."""
        name_of, before = self._body.name, read(container) or ()
        if read is list and type(container) is list and len(before) <= _FEW:
            self._add(f"len({name_of(container)}) == {len(before)}")
            for position, value in enumerate(before):
                self._is(f"{name_of(container)}[{position}]", value)
        else:
            found = f"{name_of(read)}({name_of(container)})"
            self._add(f"{name_of(_same)}({found}, {name_of(before)})")

    def array(self, array: np.ndarray[Any, Any]) -> None:
        """Watch an array's bytes, so that NaN equals itself, and how they are read."""
        name = self._body.name(array)
        flags = array.flags
        if array.dtype.kind in "biufc" and (flags.c_contiguous or flags.f_contiguous):
            # The quickest exact comparison: 0.05 µs for tiny arrays, and no copy of large ones.
            lying = name if flags.c_contiguous else f"{name}.T"
            before = bytearray(np.ndarray.tobytes(array, "A"))  # a masked array has its own
            self._add(f"({self._body.name(before)} == {lying}) is True")
        else:
            read = self._body.name(np.ndarray.tobytes)
            self._add(f"{read}({name}) == {self._body.name(np.ndarray.tobytes(array))}")
        self._add(f"{name}.shape == {array.shape!r}")
        self._add(f"{name}.dtype == {self._body.name(array.dtype)}")

    def _is(self, text: str, value: object) -> None:
        """Watch that an expression gives the same object, or a number or text just like it."""
        name = self._body.name(value)
        if type(value) in PLAIN:
            self._add(f"({text} is {name} or {self._body.name(_alike)}({text}, {name}))")
        else:
            self._add(f"{text} is {name}")

    def _add(self, condition: str) -> None:
        self._conditions.setdefault(condition, self.about)


def entries(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys and the values of a mapping."""
    return [*mapping.keys(), *mapping.values()]


def look(owner: object, name: str) -> Any:
    """An attribute, or ``ABSENT``."""
    try:
        return getattr(owner, name, ABSENT)
    except ValueError:  # the contents of a cell: of a closed-over name that is not bound yet
        return ABSENT


def _same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    """Whether all are the same objects; some containers make their texts and numbers anew."""
    if len(now) != len(before):
        return False
    return not any(map(is_not, now, before)) or all(map(_alike, now, before))


def _alike(value: object, other: object) -> bool:
    """Whether two objects are the same, or numbers or texts that cannot be told apart."""
    if value is other:
        return True
    return type(value) in PLAIN and exact_key(value) == exact_key(other)

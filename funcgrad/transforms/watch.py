"""Places that may change, and one function that says whether any has.

The function is written out, a condition for each place, since most places take 20 ns to look at: a
loop over them would take as long again for itself.

>>> settings = {"scale": 2.0}
>>> watch = Watch()
>>> watch.mapping(settings)
>>> unchanged = watch.function()
>>> unchanged()
True
>>> settings["scale"] = 3.0
>>> unchanged()
False
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from operator import is_not
from typing import Any, Final

import numpy as np

from funcgrad.transforms.generated import Body

__all__ = ["ABSENT", "Watch", "content", "entries"]

ABSENT: Final = object()
"""What a place without anything holds."""

_FEW: Final = 16
"""Up to so many parts of a container are written out."""

_INCIDENTAL: Final = frozenset(
    "__annotations__ __dict__ __doc__ __firstlineno__ __module__ __qualname__ __static_attributes__"
    " __weakref__".split()
)
"""What a class's namespace has besides what its author put there."""


class Watch:
    """Conditions in the making."""

    __slots__ = ("_body", "_conditions")

    def __init__(self) -> None:
        self._body = Body()
        self._conditions: list[str] = []

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

    def attribute(self, owner: Any, name: str) -> None:
        """Watch which object an attribute is."""
        value, name_of = getattr(owner, name, ABSENT), self._body.name
        if value is ABSENT or iskeyword(name):
            self._add(f"getattr({name_of(owner)}, {name!r}, {name_of(value)}) is {name_of(value)}")
        else:
            self._add(f"{name_of(owner)}.{name} is {name_of(value)}")

    def kind(self, value: Any) -> None:
        """Watch an object's class."""
        self._add(f"type({self._body.name(value)}) is {self._body.name(type(value))}")

    def entry(self, mapping: Mapping[str, Any], key: str) -> None:
        """Watch an entry of a mapping, or that there is none."""
        mapping_name = self._body.name(mapping)
        if key in mapping:
            self._add(f"{mapping_name}[{key!r}] is {self._body.name(mapping[key])}")
        else:
            self._add(f"{key!r} not in {mapping_name}")

    def cell(self, cell: Any) -> None:
        """Watch a closed-over name."""
        value, name_of = content(cell), self._body.name
        if value is ABSENT:
            self._add(f"{name_of(content)}({name_of(cell)}) is {name_of(value)}")
        else:
            self._add(f"{name_of(cell)}.cell_contents is {name_of(value)}")

    def mapping(self, mapping: Mapping[Any, Any]) -> None:
        """Watch the keys of a mapping, in their order, and the values."""
        plain = type(mapping) is dict and len(mapping) <= _FEW
        if not plain or any(type(key) is not str for key in mapping):
            self.contents(mapping, entries)
            return
        name_of = self._body.name
        if not mapping:
            self._add(f"not {name_of(mapping)}")
            return
        self._add(f"[*{name_of(mapping)}] == {name_of(list(mapping))}")
        for key, value in mapping.items():
            self._add(f"{name_of(mapping)}[{key!r}] is {name_of(value)}")

    def namespace(self, kind: type[Any]) -> None:
        """Watch the attributes and the bases of a class."""
        space, name_of = vars(kind), self._body.name
        self._add(f"len({name_of(space)}) == {len(space)}")
        for name in space:
            if name not in _INCIDENTAL:
                self.entry(space, name)
        self.attribute(kind, "__bases__")

    def contents(self, container: Any, read: Callable[[Any], Sequence[Any]]) -> None:
        """Watch which objects, in which order, a function finds in a container."""
        name_of = self._body.name
        before = read(container)
        if read is list and type(container) is list and len(before) <= _FEW:
            self._add(f"len({name_of(container)}) == {len(before)}")
            for position, value in enumerate(before):
                self._add(f"{name_of(container)}[{position}] is {name_of(value)}")
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
            before = bytearray(array.tobytes("A"))
            self._add(f"({self._body.name(before)} == {lying}) is True")
        else:
            self._add(f"{name}.tobytes() == {self._body.name(array.tobytes())}")
        self._add(f"{name}.shape == {array.shape!r}")
        self._add(f"{name}.dtype == {self._body.name(array.dtype)}")

    def buffer(self, buffer: bytearray) -> None:
        """Watch the bytes of a buffer."""
        self._add(f"{self._body.name(buffer)} == {self._body.name(bytes(buffer))}")

    def _add(self, condition: str) -> None:
        self._conditions.append(condition)


def entries(mapping: Mapping[Any, Any]) -> list[Any]:
    """The keys and the values of a mapping."""
    return [*mapping.keys(), *mapping.values()]


def content(cell: Any) -> Any:
    """What a closed-over name is bound to."""
    try:
        return cell.cell_contents
    except ValueError:  # a name that is not bound yet
        return ABSENT


def _same(now: Sequence[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and not any(map(is_not, now, before))

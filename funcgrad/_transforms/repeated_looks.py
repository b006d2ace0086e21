"""Looks at values that a Python loop repeats, and the values that the loop's function holds then.

A look is known by the frame that runs the user's function and by the place in its code. Where one
frame comes to one place again, a loop has made a step. A loop may be replaced by an operation only
if all that it carries from step to step is in the function's variables. So loops are left alone
that something else drives: a ``for``, a generator, or a function that calls back.

>>> def f(looks):
...     return looks.site(), looks.site()
>>> first, second = f(Looks())
>>> first.frame is second.frame, first.place == second.place
(True, False)
>>> held({"x": 2.0, "names": ["a", 3]}).values
{'x': 2.0, 'names[1]': 3}
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from types import CellType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._base.users_line import is_users, line_of_frame
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, TracedValue, Value, concrete

UserObject: TypeAlias = Any

_BRANCHES: Final = "POP_JUMP", "JUMP_IF", "UNARY_NOT", "TO_BOOL", "COMPARE_OP"
"""Instructions by which Python's own ``while`` and ``if`` ask for a truth value."""

_ENDS: Final = "RETURN", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_NO"
"""Instructions after which the next one does not run."""


_JUMPS: Final = "JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_NO", "NOT_TAKEN", "NOP"
"""Instructions that only some copies of a condition have."""

_MOST_OBJECTS: Final = 1000
"""The most objects that are looked into; objects of a function that reaches more may change."""


class LookSite(NamedTuple):
    """The place of a look: the user's frame, the place in its code, and the line."""

    frame: FrameType | None
    place: Hashable
    line: str


class CodeMap:
    """The instructions of a function, and which may run after which."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.instructions = [*dis.get_instructions(code)]
        self._positions = [*code.co_positions()]
        self._places: dict[int, tuple[Hashable, list[int]]] = {}
        self._steps: dict[int, list[int]] = {}
        for one, after in zip(self.instructions, [*self.instructions[1:], None], strict=True):
            jumps = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
            self._steps[one.offset] = [int(one.argval)] if jumps else []
            if after is not None and not one.opname.startswith(_ENDS):
                self._steps[one.offset].append(after.offset)
        for entry in getattr(dis.Bytecode(code), "exception_entries", ()):
            for offset in range(entry.start, entry.end, 2):
                if offset in self._steps:
                    self._steps[offset].append(entry.target)

    def place(self, offset: int) -> tuple[Hashable, list[int]]:
        """A place in the code, and the instructions there.

        Python writes the condition of a ``while`` more than once: before the first step, and where
        a step may end. All copies are one place.
        """
        known = self._places.get(offset)
        if known is None:
            known = self._places[offset] = self._find_place(self.beginning(offset))
        return known

    def beginning(self, offset: int) -> int:
        """Where the instruction begins that an offset, perhaps of its cache, belongs to."""
        return max(one.offset for one in self.instructions if one.offset <= offset)

    def _find_place(self, offset: int) -> tuple[Hashable, list[int]]:
        position = self._positions[offset // 2]
        if None in position:
            return offset, [offset]
        same = [
            one
            for one in self.instructions
            if self._positions[one.offset // 2] == position and not one.opname.startswith(_JUMPS)
        ]
        kinds = ["JUMP" if "JUMP" in one.opname else one.opname for one in same]
        offsets = [one.offset for one in same]
        if offset not in offsets:
            return offset, [offset]
        number, count = offsets.index(offset), len(same)
        periods = [k for k in range(1, count + 1) if not count % k]
        period = next(k for k in periods if kinds == kinds[:k] * (count // k))
        number %= period
        return (position, number), offsets[number::period]

    def leads(self, start: int, ends: Sequence[int]) -> bool:
        """Whether code may come from one instruction to some others."""
        start = self.beginning(start)
        waiting, seen = [start], {start}
        while waiting:
            for offset in self._steps.get(waiting.pop(), ()):
                if offset in ends:
                    return True
                if offset not in seen:
                    seen.add(offset)
                    waiting.append(offset)
        return False

    def obstacle(self, offset: int) -> str:
        """Why the variables do not tell all about a loop with a look at an instruction, if so."""
        offset = self.beginning(offset)
        flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        if self.code.co_flags & flags:
            return "it is in a generator"
        for one in self.instructions:
            if one.offset == offset and not one.opname.startswith(_BRANCHES):
                return "its condition is asked for in a call"
            is_for = one.opname == "FOR_ITER" and self.leads(one.offset, [offset])
            if is_for and self.leads(offset, [one.offset]):
                return "a `for` is around it in the same function"
        return ""


class Looks:
    """The places of looks in functions, each of which is read once."""

    def __init__(self) -> None:
        self._maps: dict[CodeType, CodeMap] = {}

    def map_of(self, frame: FrameType) -> CodeMap:
        """The instructions of a frame's function."""
        code = frame.f_code
        known = self._maps.get(code)
        if known is None:
            known = self._maps[code] = CodeMap(code)
        return known

    def site(self) -> LookSite:
        """The place at which the user's function looks at a value."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not is_users(frame):
            frame = frame.f_back
        if frame is None:
            return LookSite(None, None, "")
        place, _ = self.map_of(frame).place(frame.f_lasti)
        return LookSite(frame, (frame.f_code, place), line_of_frame(frame))

    def obstacle(self, frame: FrameType) -> str:
        """Why a loop with a look at a frame's place cannot be known by its variables, if so."""
        return self.map_of(frame).obstacle(frame.f_lasti)

    def has_left(self, frame: FrameType, start: Sequence[int]) -> bool:
        """Whether a function cannot come back to where the steps of a loop start."""
        return not self.map_of(frame).leads(frame.f_lasti, start)


class Held(NamedTuple):
    """The variables of a function at a look.

    Attributes
    ----------
    values : dict of str to value
        Numbers, arrays and tensors, by the names under which the function has them.
    others : dict of str to object
        Structures and other objects, which a loop must leave as they are.
    """

    values: dict[str, Value]
    others: dict[str, Any]

    def change(self, after: Held) -> str:
        """The name of an object that is another one afterwards; empty if there is none."""
        for name in {**self.others, **after.others}:
            if name not in self.others or name not in after.others:
                return name
            before, now = self.others[name], after.others[name]
            if before is not now and not (type(before) is type(now) and before == now):
                return name
        return ""


class _Object:
    """An object, equal only to itself."""

    def __init__(self, held_object: object) -> None:
        self.object = held_object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Object) and other.object is self.object

    def __hash__(self) -> int:
        return id(self.object)


def held(variables: Mapping[str, Any]) -> Held:
    """The values and the other objects that variables hold, also within objects and closures."""
    state, seen = Held({}, {}), set[int]()
    for name, value in variables.items():
        _look_into(name, value, state, seen)
    return state


def _look_into(name: str, x: UserObject, state: Held, seen: set[int]) -> None:
    if isinstance(x, TracedValue) or type(x) in RAW:
        state.values[name] = concrete(x)
        if isinstance(x, np.ndarray):
            state.others[name] = x.tobytes()  # NumPy's arrays can be written to
        return
    leaves, structure = pytrees.flatten(x)
    if not (len(leaves) == 1 and leaves[0] is x):
        state.others[name] = structure
        for path, leaf in zip(structure.paths(), leaves, strict=True):
            _look_into(name + path, leaf, state, seen)
        return
    if isinstance(x, (str, bytes, range)):
        state.others[name] = x
        return
    if hasattr(x, "__next__") or len(seen) > _MOST_OBJECTS:
        # An iterator does not show how far it is.
        state.others[name] = object()
        return
    state.others[name] = _Object(x)
    if id(x) in seen or isinstance(x, (type, ModuleType)):
        return
    seen.add(id(x))
    if isinstance(x, FunctionType):
        for variable, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            if cell != CellType():
                _look_into(f"{name}.{variable}", cell.cell_contents, state, seen)
        defaults = x.__defaults__, x.__kwdefaults__, x.__dict__
        _look_into(f"{name}.__defaults__", defaults, state, seen)
        return
    if isinstance(x, (MethodType, partial)) or type(x).__module__.startswith("funcgrad."):
        state.others[name] = type(x)  # a method is a new object each time
        attributes = "__self__", "func", "args", "keywords", "__wrapped__"
    else:
        if isinstance(x, (set, frozenset, bytearray)) or type(x).__module__ == "collections":
            state.others[f"{name}: members"] = [_Object(member) for member in x]
        slots = [slot for kind in type(x).__mro__ for slot in getattr(kind, "__slots__", ())]
        attributes = *getattr(x, "__dict__", {}), *slots
    for attribute in attributes:
        if hasattr(x, attribute):
            _look_into(f"{name}.{attribute}", getattr(x, attribute), state, seen)

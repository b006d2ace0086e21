"""Calls of programs that were read from a file, without their rules, which are Python functions.

They evaluate, batch and stage as before. Derivatives need the rule, so they raise: the derivatives
of the function's operations may differ from the rule, and would be silently wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import Trace, Value
from funcgrad._programs.equation import Params
from funcgrad._programs.program import Program
from funcgrad._transforms.call import Call
from funcgrad._transforms.checkpoint import CHECKPOINT
from funcgrad._transforms.composite import Recording
from funcgrad._transforms.flat_functions import FlatFunction, batched_flat
from funcgrad._transforms.frozen_calls import CUSTOM_CALL
from funcgrad.errors import DifferentiationError


class _SavedCall(Call):
    """A call without its rules."""

    __slots__ = ("_name", "_origin", "_run")

    def __init__(self, name: str, run: FlatFunction, origin: Hashable) -> None:
        self._name = name
        self._run = run
        self._origin = origin

    @property
    def name(self) -> str:
        return self._name

    @property
    def origin(self) -> Hashable:
        return self._origin

    @property
    def frozen(self) -> Any:
        return self

    def run(self, args: Sequence[Value]) -> list[Value]:
        return list(self._run(args))

    def record(self, args: Sequence[Value], followed: Sequence[bool]) -> Recording:
        raise DifferentiationError(
            f"{self._name}: this call was saved without its derivative rule, which is a Python"
            " function. Save the derivative's program, in which the rule has been applied, or stage"
            " the function again."
        )

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> Call:
        run = batched_flat(self._run, size, flags, around)
        return _SavedCall(self._name, run, (self._origin, size, tuple(flags)))

    def __eq__(self, other: object) -> bool:
        return self._origin == other._origin if isinstance(other, _SavedCall) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._name)  # its program stands beside it


def saved_call(name: str, parts: Mapping[str, Any]) -> tuple[Primitive, Params]:
    """The operation of a call in a file, and its parameters, from its name and program's fields."""
    program = Program(**parts)
    if name == CHECKPOINT.name:
        return CHECKPOINT, (("body", program),)
    call = _SavedCall(name, program.evaluate, ("saved", name, program))
    return CUSTOM_CALL, (("body", program), ("call", call))

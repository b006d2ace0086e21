"""The place where the steps of one function are written: its lines, its memory, its exits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from funcgrad.backends.native.function_text import FunctionText
from funcgrad.backends.native.native_module import Function, NativeModule
from funcgrad.backends.native.plan_steps import NativePlan
from funcgrad.shape import Spec

ALIGNMENT: Final = 64


class FunctionSite:
    """An unfinished function.

    Attributes
    ----------
    module : NativeModule
    plan : NativePlan
    lines : FunctionText
    pointers : dict
        The addresses of buffers, by their variables.
    size : int
        The bytes of the arena so far.
    work : int
        About how many operations on numbers a call takes so far.
    fails, misses : bool
        Whether it leaves by way of an exception, or of a guard that fails.
    """

    def __init__(self, module: NativeModule, plan: NativePlan) -> None:
        self.module, self.plan = module, plan
        self.lines = FunctionText()
        self.pointers: dict[int, str] = {}
        self.size = self.work = 0
        self.fails = self.misses = False

    # -------------------------------------------------------------------------------------- memory

    def in_arena(self, place: int, size: int) -> str:
        """The address of bytes in the arena, which grows to hold them."""
        self.size = max(self.size, place + size)
        return self.lines.address("%arena", place)

    def scratch(self, size: int) -> str:
        """Memory in the arena for one step, behind all intermediate results."""
        place = padded(self.size)
        return self.in_arena(place, padded(size))

    def bytes_of(self, buffer: int) -> int:
        """The bytes of a buffer, padded."""
        spec = self.plan.specs[buffer]
        return padded(prod(spec.shape) * spec.dtype.itemsize)

    def pointer(self, buffer: int) -> str:
        """The address of a buffer."""
        return self.pointers[buffer]

    def at(self, variable: int) -> str:
        """The address of a variable that lies in a buffer of its own."""
        return self.pointers[self.plan.views[variable].buffer]

    # -------------------------------------------------------------------------------- instructions

    def copy(self, target: str, source: str, spec: Spec) -> None:
        """Write a copy of an array that lies in C order."""
        size = prod(spec.shape) * spec.dtype.itemsize
        if size:
            self.lines.call("ptr", "memcpy", ("ptr", target), ("ptr", source), ("i64", str(size)))

    def array(self, kind: str, items: Sequence[str | int]) -> str:
        """Values side by side on the stack."""
        room = self.lines.room(f"[{len(items)} x {kind}]")
        for place, item in enumerate(items):
            self.lines.emit(f"store {kind} {item}, ptr {self.lines.address(room, place, kind)}")
        return room

    def continue_if(self, condition: str, otherwise: str = "failed") -> None:
        """Write an exit: leave with an exception, or as ``missed``, unless a condition holds."""
        after = self.lines.fresh_label("then")
        if otherwise == "failed":
            self.fails = True
        else:
            self.misses = True
        self.lines.branch(condition, after, otherwise)
        self.lines.begin_block(after)

    def called(self, function: Function, pointers: Sequence[str], arena: str) -> None:
        """Write a call of the function of a program."""
        arguments = ", ".join([f"ptr {pointer}" for pointer in (*pointers, arena)])
        status = self.lines.op(f"call i32 @{function.name}({arguments})")
        self.continue_if(self.lines.op(f"icmp eq i32 {status}, 0"))


def padded(size: int) -> int:
    """The bytes of memory that something takes, so that what comes next is aligned."""
    return -(-max(size, 1) // ALIGNMENT) * ALIGNMENT

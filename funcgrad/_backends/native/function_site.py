"""The place where the steps of one function are written: its lines, its memory, its exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import Function, NativeModule
from funcgrad._backends.native.plan_steps import NativePlan, Run, Step, buffers_read
from funcgrad._backends.native.sharing import ALIGNMENT, MemoryPlan, sharing_of
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._programs.equation import Equation

UNINTERRUPTED: Final = 1 << 22
"""About how many scalar operations are done between two looks for an interrupt."""

_WORTH_SHARING: Final = 200_000
"""Nanoseconds of work from which on threads share it: a million elements are read and written, or
80,000 are put into a few functions. A thread that sleeps begins some 25 µs after it is called, so
shorter work would gain less, and processor time would grow by more than a tenth."""

RANGES: Final = 8
"""The ranges for each thread, so that none waits long for one that began late."""

PATIENCE: Final = 100_000
"""Nanoseconds after which other threads join in work whose length is unknown."""

FAILED: Final = 1
MISSED: Final = 2
INTERRUPTED: Final = 4
"""The status of a function in which a step has raised an exception, or a guard fails, or a signal's
handler has raised an exception; else 0."""


@dataclass(frozen=True, slots=True)
class GrowingStack:
    """A stack that a loop writes row by row, beside the rows of its other stacks.

    Attributes
    ----------
    memory : str
        The address of the address of the memory of all of these stacks.
    count : str
        The address of the number of steps that there were.
    record : int
        The bytes from one row to the next.
    offset : int
        Where in a record the row of this stack begins.
    """

    memory: str
    count: str
    record: int
    offset: int

    def row(self, lines: FunctionText, memory: str, number: str) -> str:
        """Write the address of a row, given the address of the memory."""
        place = lines.op(f"mul i64 {number}, {self.record}")
        return lines.address(lines.address(memory, place), self.offset)


class FunctionSite:
    """An unfinished function.

    Attributes
    ----------
    module : NativeModule
    plan : NativePlan
    sharing : Sharing
    number : int
        The program's number in the module.
    lines : FunctionText
    pointers : dict
        The addresses of buffers, by their variables.
    memory : MemoryPlan
    position : int
        The number of the step that is being written.
    work : int
        About how many scalar operations a call takes so far.
    unknown : int
        How many of these are a guess.
    calls : int
        About how often functions of Python's are called so far.
    leaves : bool
        Whether it may leave early, with an exception, or because a guard fails.
    shares : bool
        Whether threads share some of its work that is known to take long.
    needs_caller : bool
        Whether threads of the pool cannot run it: it calls functions of Python's or NumPy's, or
        shares work itself.
    stacks : dict
        Stacks that grow, by their variables.
    nests : dict
        From steps, by ``id``, to a number that equal nests share.
    """

    def __init__(self, module: NativeModule, plan: NativePlan, number: int) -> None:
        self.module, self.plan, self.number = module, plan, number
        self._equations = {id(e): place for place, e in enumerate(plan.program.equations)}
        for step in plan.steps:
            if isinstance(step, Run):
                for place, program in enumerate(step.programs):
                    module.expect(program, (number, self.number_of(step.equation), place))
        self.sharing = sharing_of(plan, module)
        self.lines = FunctionText(module.arithmetic, module.definitions)
        self.pointers: dict[int, str] = {}
        self.memory = MemoryPlan()
        self.position = self.work = self.unknown = self.calls = 0
        self.leaves = self.shares = self.needs_caller = False
        self.stacks: dict[int, GrowingStack] = {}
        self.nests: dict[int, int] = {}
        self._status = ""
        self._held: list[str] = []
        self._moment = -1, 0, 0
        self._room: int | None = None

    def number_of(self, equation: Equation) -> int:
        """The number of an equation in the program."""
        return self._equations[id(equation)]

    # -------------------------------------------------------------------------------------- memory

    def in_memory(self, place: int) -> str:
        """The address of a place in memory that is planned."""
        base, offset = self.memory.located(place)  # a line also for 0, so that sizes have one text
        return self.lines.op(f"getelementptr i8, ptr {base}, i64 {offset}")

    def on_stack(self, size: int) -> str:
        """Memory on the stack."""
        whole = -(-size // ALIGNMENT) * ALIGNMENT  # as it is aligned; so that sizes have one text
        return self.lines.room(f"[{whole} x i8], align {ALIGNMENT}")

    def scratch(self, size: int) -> str:
        """Memory in the arena for the step that is being written."""
        return self.in_memory(self._in_arena(size))

    def shared_scratch(self, size: int) -> str:
        """Memory for a moment of this step: the same for all of them, each thread has its own."""
        if self._room is not None:
            assert size <= self._room
            return "%memory"
        position, _, there = self._moment
        if position != self.position or size > there:
            self._moment = self.position, self._in_arena(size), size
        return self.in_memory(self._moment[1])

    def _in_arena(self, size: int) -> int:
        return self.memory.place(size, self.position, self.position, self.memory.arena)

    def bytes_of(self, buffer: int) -> int:
        """The bytes of a buffer."""
        spec = self.plan.specs[buffer]
        return prod(spec.shape) * spec.dtype.itemsize

    def pointer(self, buffer: int) -> str:
        """The address of a buffer."""
        return self.pointers[buffer]

    def at(self, variable: int) -> str:
        """The address of a variable that lies in C order, in a window of a buffer."""
        view = self.plan.views[variable]
        place = view.offset * self.plan.specs[variable].dtype.itemsize
        return self.lines.address(self.pointers[view.buffer], place)

    # ------------------------------------------------------------------------------------- threads

    def is_shared(self, nanoseconds: float) -> bool:
        """Whether threads share work that takes about so long."""
        return nanoseconds >= _WORTH_SHARING

    def share(
        self,
        step: Step,
        count: int,
        write: Callable[[], None],
        ranges: int = RANGES,
        known: Sequence[str] = (),
        scratch: int = 0,
        patience: int = 0,
    ) -> None:
        """Write work that threads share, as a function for a range of it, and the call.

        Parameters
        ----------
        step : Step
            Reads and writes the buffers that the function knows.
        count : int
            The number of places in the work; one thread does a place, in any order.
        write : callable
            Writes the work on the places from ``%begin`` to ``%end``, one at least.
        ranges : int
            The ranges for each thread.
        known : sequence of str
            Other addresses that the function knows.
        scratch : int
            The bytes of memory that each thread has for a moment.
        patience : int
            So many nanoseconds the caller works before others join.
        """
        buffers = {*buffers_read(step, self.plan.views), *step.written}
        names = {"%arena", *known, *[self.pointers[buffer] for buffer in buffers]}
        known = sorted([name for name in names if name.startswith("%")])
        outside = self.lines, self.leaves, self._status
        self.lines, self.leaves = self.lines.inside(), False
        self._room = -(-scratch // ALIGNMENT) * ALIGNMENT
        write()
        leaves, status = self.leaves, "0"
        if leaves:
            self._leave(0)
            self.lines.begin_block("leave")
            status = self.lines.op(f"load i32, ptr {self._status}")
        function = self.add_work(self.lines, known, status)
        self.lines, self.leaves, self._status = outside
        self._room = None
        status = self.call_shared(function, known, count, ranges, scratch, patience)
        if leaves:
            self.continue_if(self.lines.op(f"icmp eq i32 {status}, 0"), status)

    def add_work(self, lines: FunctionText, known: Sequence[str], status: str = "0") -> str:
        """Add a function for a range of work, given its lines but the first and the last.

        Parameters
        ----------
        lines : FunctionText
        known : sequence of str
            The names of addresses, which it reads first.
        status : str
            Its result.

        Returns
        -------
        str
            Its name.
        """
        reads = []
        for place, name in enumerate(known):
            address = f"{name}.known"
            reads += [
                f"{address} = getelementptr ptr, ptr %known, i64 {place}",
                f"{name} = load ptr, ptr {address}",
            ]
        lines.insert_phis(0, reads)
        lines.emit(f"ret i32 {status}")
        name = f"work{len(self.module.texts)}"
        parameters = "i64 %begin, i64 %end, ptr %memory, ptr %known"
        self.module.add(f"define internal i32 @{name}({parameters}) nounwind", lines)
        return name

    def call_shared(
        self,
        function: str,
        known: Sequence[str],
        count: int,
        ranges: int = RANGES,
        scratch: int = 0,
        patience: int = 0,
    ) -> str:
        """Write the call of a function for work that threads share; returns its status.

        The number of threads is read then, so the code is the same for all of them.
        """
        self.shares |= not patience
        self.needs_caller = True
        memory = self.shared_scratch(scratch) if scratch else "null"
        self.module.declarations.add("@threads = external global i8")
        return self.lines.call(
            "i32",
            "share",
            ("ptr", f"@{function}"),
            ("ptr", self.array("ptr", known)),
            ("i64", str(count)),
            ("i64", str(ranges)),
            ("ptr", memory),
            ("i64", str(scratch)),
            ("ptr", "@threads"),
            ("i64", str(patience)),
        )

    # -------------------------------------------------------------------------------- instructions

    def copy(self, target: str, source: str, spec: Spec) -> None:
        """Write a copy of an array that lies in C order."""
        size = prod(spec.shape) * spec.dtype.itemsize
        if size:
            self.lines.call("ptr", "memcpy", ("ptr", target), ("ptr", source), ("i64", str(size)))

    def moved(self, target: str, source: str, spec: Spec) -> None:
        """Write a copy of an array, unless it lies there."""
        if target == source:
            return
        inputs = {self.pointers[place] for place in self.sharing.in_place.values()}
        if source not in inputs:
            self.copy(target, source, spec)
            return
        differ = self.lines.op(f"icmp ne ptr {target}, {source}")
        self.lines.when(differ, lambda: self.copy(target, source, spec))

    def clear(self, target: str, spec: Spec) -> None:
        """Write zeros into an array that lies in C order."""
        size = prod(spec.shape) * spec.dtype.itemsize
        if size:
            self.lines.call("ptr", "memset", ("ptr", target), ("i32", "0"), ("i64", str(size)))

    def array(self, kind: str, items: Sequence[str | int]) -> str:
        """Values side by side on the stack."""
        room = self.lines.room(f"[{len(items)} x {kind}]")
        for place, item in enumerate(items):
            self.lines.emit(f"store {kind} {item}, ptr {self.lines.address(room, place, kind)}")
        return room

    def continue_if(self, condition: str, status: str | int = FAILED) -> None:
        """Write an exit: leave with a status unless a condition holds."""
        self._exit(condition, lambda: self._leave(status))

    def require(self, memory: str) -> None:
        """Write an exit: leave with a ``MemoryError`` if memory was refused."""

        def leave() -> None:
            self.lines.call("void", "refuse_memory")
            self._leave(FAILED)

        self._exit(self.lines.op(f"icmp ne ptr {memory}, null"), leave)

    def _exit(self, condition: str, leave: Callable[[], None]) -> None:
        after, otherwise = self.lines.fresh_label("then"), self.lines.fresh_label("otherwise")
        self.lines.branch(condition, after, otherwise)
        self.lines.begin_block(otherwise)
        leave()
        self.lines.begin_block(after)

    def look(self) -> None:
        """Look for signals, such as an interrupt from the keyboard."""
        status = self.lines.call("i32", "look")
        self.continue_if(self.lines.op(f"icmp eq i32 {status}, 0"), INTERRUPTED)

    def count(self, function: Function, times: int) -> None:
        """Note that a function is called so often."""
        self.work += times * function.work
        self.unknown += times * function.unknown
        self.calls += times * function.calls

    def _leave(self, status: str | int) -> None:
        if not self.leaves:
            self.leaves, self._status = True, self.lines.room("i32")
        self.lines.emit(f"store i32 {status}, ptr {self._status}")
        self.lines.jump("leave")

    def called(
        self, function: Function, pointers: Sequence[str], arena: str, inline: bool = True
    ) -> None:
        """Write a call of the function of a program; where it leaves early, this one does, too."""
        self.shares |= function.shares
        self.needs_caller |= function.needs_caller
        arguments = ", ".join([f"ptr {pointer}" for pointer in (*pointers, arena)])
        how = "" if inline else " noinline"
        status = self.lines.op(f"call i32 @{function.name}({arguments}){how}")
        self.continue_if(self.lines.op(f"icmp eq i32 {status}, 0"), status)

    def held(self) -> str:
        """Room for the address of memory, null at first, that is freed where the function ends."""
        room = self.lines.room("ptr", "null")
        self._held.append(room)
        return room

    def finish(self) -> None:
        """Write the ends of the function."""
        self._free()
        self.lines.emit("ret i32 0")
        if self.leaves:
            self.lines.begin_block("leave")
            self._free()
            self.lines.emit(f"ret i32 {self.lines.op(f'load i32, ptr {self._status}')}")

    def _free(self) -> None:
        for room in self._held:
            memory = self.lines.op(f"load ptr, ptr {room}")
            self.lines.call("void", "free", ("ptr", memory))

"""The text of LLVM functions, written line by line.

>>> lines = FunctionText()
>>> x = lines.op("fadd double 1.0, 2.0")
>>> lines.emit(f"ret double {x}")
>>> print(lines.function("define double @three()"))
define double @three() {
entry:
  br label %start
start:
  %v1 = fadd double 1.0, 2.0
  ret double %v1
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from funcgrad._base.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How elements are computed.

    Attributes
    ----------
    fuses : bool
        Whether the processor multiplies and adds with one rounding.
    exact : bool
        Whether elements have NumPy's bits, so that transcendental functions are NumPy's.
    scales : bool
        Whether the processor multiplies by powers of two in one instruction (AVX-512).
    halves : bool
        Whether the processor converts half precision.
    """

    fuses: bool = False
    exact: bool = False
    scales: bool = False
    halves: bool = False


PLAIN: Final = Arithmetic()
"""Without anything that not every processor has."""

_LONG: Final = 200
"""The lines of a block that is long."""


@dataclass(frozen=True, slots=True)
class SharedFunction:
    """A function that many programs call, such as an exponential of vectors.

    Attributes
    ----------
    head : str
        The type of its result, its name and its parameters.
    text : str
        All of it but the word ``define``.
    declarations : frozenset of str
    uses : frozenset of str
        The names of the shared functions that it calls.
    """

    head: str
    text: str
    declarations: frozenset[str]
    uses: frozenset[str]


def needed(definitions: Mapping[str, SharedFunction], uses: Iterable[str]) -> list[SharedFunction]:
    """Shared functions, and those that they call in turn."""
    names, waiting = set[str](), [*uses]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            waiting += definitions[name].uses
    return [definitions[name] for name in sorted(names)]


def module_text(
    functions: Sequence[SharedFunction], declarations: Iterable[str], texts: Sequence[str]
) -> str:
    """The text of a module, which has shared functions of its own."""
    declared = {*declarations}.union(*[function.declarations for function in functions])
    shared = [f"define internal {function.text}" for function in functions]
    return "\n".join([*sorted(declared), *shared, *texts])


def symbols_in(declarations: Iterable[str]) -> list[str]:
    """The names that are declared, but LLVM's."""
    names = [declaration.split("@")[1] for declaration in declarations]
    names = [name.partition("(")[0].partition(" ")[0] for name in names]
    return [name for name in names if not name.startswith("llvm.")]


class FunctionText:
    """The lines of one unfinished function.

    Parameters
    ----------
    arithmetic : Arithmetic
    definitions : dict
        The functions that programs share, by name, as far as they are written.
    is_draft : bool
        Whether nobody reads the text, which is written to see whether it can be.

    Attributes
    ----------
    declarations : set of str
        The declarations of the functions that are called, as LLVM writes them.
    uses : set of str
        The names of the shared functions that it calls.
    block : str
        The label of the block that the next line belongs to, as a ``phi`` needs it.
    """

    __slots__ = (
        "_begun",
        "_count",
        "_lines",
        "_rooms",
        "_shared",
        "arithmetic",
        "block",
        "declarations",
        "definitions",
        "is_draft",
        "uses",
    )

    def __init__(
        self,
        arithmetic: Arithmetic = PLAIN,
        definitions: dict[str, SharedFunction] | None = None,
        is_draft: bool = False,
    ) -> None:
        self.is_draft = is_draft
        self.arithmetic = arithmetic
        self.definitions = {} if definitions is None else definitions
        self.declarations: set[str] = set()
        self.uses: set[str] = set()
        self.block = "start"
        self._shared: dict[str, str] = {}
        self._lines: list[str] = []
        self._rooms: list[str] = []
        self._count = self._begun = 0

    def use(
        self, name: str, head: str, write: Callable[[FunctionText], None], attribute: str = ""
    ) -> None:
        """Note that a shared function is called, and write it unless it is written.

        Parameters
        ----------
        name : str
            It says all that the function depends on.
        head : str
            The type of its result, its name and its parameters.
        write : callable
            Writes its lines.
        attribute : str
            An attribute for LLVM, such as ``alwaysinline``.
        """
        self.uses.add(name)
        if name not in self.definitions:
            lines = FunctionText(self.arithmetic, self.definitions)
            write(lines)
            text = lines.function(f"{head} nounwind {attribute}".rstrip())
            needs = frozenset(lines.declarations), frozenset(lines.uses)
            self.definitions[name] = SharedFunction(head, text, *needs)

    def inside(self) -> FunctionText:
        """The lines of another function of the module, in which names from here may be used."""
        lines = FunctionText(self.arithmetic, self.definitions)
        lines._count = self._count
        return lines

    def continued(self) -> FunctionText:
        """The lines that follow, for ``take``; they do not use values that ``shared`` knows."""
        lines = self.inside()
        lines.block = self.block
        return lines

    def take(self, lines: FunctionText) -> None:
        """Append the lines that follow."""
        if lines.block != self.block:
            self._begun, self.block = len(self._lines) + lines._begun, lines.block
        self._lines += lines._lines
        self._rooms += lines._rooms
        self._count, self._shared = lines._count, lines._shared
        self.declarations |= lines.declarations
        self.uses |= lines.uses

    def name(self) -> str:
        """A fresh name of a value."""
        self._count += 1
        return f"%v{self._count}"

    def fresh_label(self, word: str) -> str:
        """A fresh name of a block."""
        self._count += 1
        return f"{word}{self._count}"

    def emit(self, line: str) -> None:
        """Write an instruction that has no result."""
        self._lines.append(f"  {line}")

    def op(self, instruction: str) -> str:
        """Write an instruction, and return the name of its result."""
        result = self.name()
        self.emit(f"{result} = {instruction}")
        return result

    def shared(self, instruction: str) -> str:
        """Write an instruction that only computes: once in a block."""
        result = self._shared.get(instruction)
        if result is None:
            result = self._shared[instruction] = self.op(instruction)
        return result

    def has(self, instruction: str) -> bool:
        """Whether ``shared`` has written an instruction in this block."""
        return instruction in self._shared

    def call(self, result: str, function: str, *arguments: tuple[str, str]) -> str:
        """Write a call of a function by its name; the arguments are pairs of type and value."""
        types = ", ".join([kind for kind, _ in arguments])
        values = ", ".join([f"{kind} {value}" for kind, value in arguments])
        self.declarations.add(f"declare {result} @{function}({types})")
        line = f"call {result} @{function}({values})"
        if result == "void":
            self.emit(line)
            return ""
        return self.shared(line) if function.startswith("llvm.") else self.op(line)

    def masked_load(self, kind: str, place: str, mask: str, align: int) -> str:
        """Read the elements of a vector where a mask holds; the others are zeros."""
        flags, suffix = _of_vector(kind)
        name = f"llvm.masked.load.{suffix}.p0"
        self.declarations.add(f"declare {kind} @{name}(ptr, i32, {flags}, {kind})")
        return self.op(
            f"call {kind} @{name}(ptr {place}, i32 {align}, {flags} {mask}, {kind} zeroinitializer)"
        )

    def masked_store(self, kind: str, text: str, place: str, mask: str, align: int) -> None:
        """Write the elements of a vector where a mask holds."""
        flags, suffix = _of_vector(kind)
        name = f"llvm.masked.store.{suffix}.p0"
        self.declarations.add(f"declare void @{name}({kind}, ptr, i32, {flags})")
        self.emit(f"call void @{name}({kind} {text}, ptr {place}, i32 {align}, {flags} {mask})")

    def room(self, kind: str, first: str = "") -> str:
        """Memory on the stack that lasts as long as the call, with its first contents."""
        result = self.name()
        self._rooms.append(f"  {result} = alloca {kind}")
        if first:
            self._rooms.append(f"  store {kind} {first}, ptr {result}")
        return result

    def begin_block(self, label: str) -> None:
        """Begin a block."""
        self._begun = len(self._lines)
        self._lines.append(f"{label}:")
        self.block = label
        self._shared.clear()

    def end_long_block(self) -> None:
        """Go on in a new block, if this one has many lines.

        LLVM goes through the lines before a call again, in a block, where it does not optimize.
        """
        if len(self._lines) - self._begun > _LONG:
            label = self.fresh_label("on")
            self.jump(label)
            self.begin_block(label)

    def jump(self, label: str) -> None:
        """Go on in a block."""
        self.emit(f"br label %{label}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        """Go on in one of two blocks."""
        self.emit(f"br i1 {condition}, label %{then}, label %{otherwise}")

    def when(
        self,
        condition: str,
        write: Callable[[], object],
        otherwise: Callable[[], object] | None = None,
    ) -> None:
        """Write instructions that are done where a condition holds, and others for elsewhere."""
        some, after = self.fresh_label("some"), self.fresh_label("after")
        others = self.fresh_label("others") if otherwise else after
        self.branch(condition, some, others)
        for label, branch in ((some, write), (others, otherwise)):
            if branch is not None:
                self.begin_block(label)
                branch()
                self.jump(after)
        self.begin_block(after)

    def leave_unless(self, condition: str, label: str) -> None:
        """Go on where a condition holds, and else in a block that is written elsewhere."""
        after = self.fresh_label("then")
        self.branch(condition, after, label)
        self.begin_block(after)

    def apart(self, label: str, write: Callable[[], object]) -> None:
        """Write a block that only ``leave_unless`` leads to; behind it both ways go on.

        ``write`` can use only values from before ``leave_unless``, and makes all others itself.
        """
        after = self.fresh_label("after")
        self.jump(after)
        self.begin_block(label)
        write()
        self.jump(after)
        self.begin_block(after)

    def row(self, base: str, index: str | int, step: str | int, kind: str) -> str:
        """The address of a row, so many steps of some elements behind another."""
        if index in (0, "0") or step == 0:
            return base
        if isinstance(index, int) and isinstance(step, int):
            return self.address(base, index * step, kind)
        return self.address(base, self.times(index, step), kind)

    def times(self, index: str | int, step: str | int) -> str:
        """The product of an index and a step."""
        if step == 1 or index == 1:
            return str(index if step == 1 else step)
        if isinstance(step, int) and str(index).isdigit():
            return str(int(index) * step)
        return self.op(f"mul i64 {index}, {step}")

    def address(self, base: str, offset: str | int, kind: str = "i8") -> str:
        """The address so many elements of a type behind another."""
        if offset in (0, "0"):
            return base
        return self.op(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def counted(
        self,
        count: str | int,
        body: Callable[[str, Sequence[str]], Sequence[str]],
        carried: Sequence[tuple[str, str]] = (),
        step: int = 1,
        start: str | int = 0,
    ) -> list[str]:
        """Write a loop over an index that runs once at least.

        Parameters
        ----------
        count : str or int
            The index stays below it.
        body : callable
            Writes the lines of one step: from the index, and the values carried, to their next.
        carried : sequence of (type, value)
            The first values that are carried from step to step.
        step, start : int

        Returns
        -------
        list of str
            The values carried, after the last step.
        """
        if isinstance(count, int) and isinstance(start, int) and count <= start + step:
            return list(body(str(start), [first for _, first in carried]))
        before, head, after = self.block, self.fresh_label("loop"), self.fresh_label("after")
        self.jump(head)
        self.begin_block(head)
        index, following = self.name(), self.name()
        names = [self.name() for _ in carried]
        place = len(self._lines)
        outs = body(index, names)
        self.emit(f"{following} = add i64 {index}, {step}")
        more = self.op(f"icmp slt i64 {following}, {count}")
        end = self.block
        phis = [f"  {index} = phi i64 [{start}, %{before}], [{following}, %{end}]"]
        for name, (kind, first), out in zip(names, carried, outs, strict=True):
            phis.append(f"  {name} = phi {kind} [{first}, %{before}], [{out}, %{end}]")
        self._lines[place:place] = phis
        self.branch(more, head, after)
        self.begin_block(after)
        return list(outs)

    def insert_phis(self, place: int, phis: Sequence[str]) -> None:
        """Write instructions at a place that was marked before, where their block begins."""
        self._lines[place:place] = [f"  {phi}" for phi in phis]

    def mark(self) -> int:
        """The place of the next line, for ``insert_phis``."""
        return len(self._lines)

    def function(self, head: str) -> str:
        """The text of the function, given its first line without the brace."""
        lines = [f"{head} {{", "entry:", *self._rooms, "  br label %start", "start:", *self._lines]
        return "\n".join([*lines, "}"])


def _of_vector(kind: str) -> tuple[str, str]:
    """The type of a mask of a vector type, and the vector's name in names of functions.

    >>> _of_vector("<8 x double>")
    ('<8 x i1>', 'v8f64')
    """
    width, element = kind[1:-1].split(" x ")
    short = {"half": "f16", "float": "f32", "double": "f64"}.get(element, element)
    return f"<{width} x i1>", f"v{width}{short}"

"""Stacking: small operations that each step of an unrolled loop does, done once for all steps.

NumPy takes as long to call a function on ten numbers as on a hundred. Operations of one kind, of
which none depends on another, become one operation on an array of which they are the rows. Its
operands are stacked once, at the beginning of a chain; equations that read single rows get views.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(x):
...     total = 0.0
...     for _ in range(4):
...         x = fnp.sin(x)
...         total = total + fnp.exp(fnp.square(x) * 2.0 - 1.0)
...     return total
>>> stacked = stack_small_operations(fg.program(f)(fnp.ones(3)))
>>> names = [equation.operation.name for equation in stacked.equations]
>>> [names.count(name) for name in ("sin", "concatenate", "square", "multiply", "exp", "view")]
[4, 1, 1, 1, 1, 4]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from funcgrad.backends.numpy.graphs import connected, in_order
from funcgrad.backends.numpy.slices import Slices
from funcgrad.backends.numpy.stacks import FEWEST, Group, Slot, Stacks, find_stacks
from funcgrad.passes.costs import bytes_of, peak_bytes
from funcgrad.passes.dead_code import remove_dead_code
from funcgrad.passes.schedule import schedule
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.joining import concatenate
from funcgrad.primitives.structural import view
from funcgrad.programs.builder import Draft
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Shape
from funcgrad.structure import Movement

__all__ = ["stack_small_operations"]

_CALL: Final = 0.45
_VIEW: Final = 0.15
_FILL: Final = 0.65
_ROW: Final = 0.12
_JOIN: Final = 1.2
_PART: Final = 0.08
"""How many microseconds it takes to call an elementwise operation, to take a view, to fill a new
array, to take a row; to join arrays, and for each of them."""

_BYTES_IN_A_MICROSECOND: Final = 10_000
"""The bytes that NumPy copies, or adds, in the time of one or two calls of a function."""

_LEAST_GAIN: Final = 1.0
"""The least gain in microseconds for which equations are stacked."""

_LITTLE: Final = 2**21
"""Bytes that a program may need more than without stacking: some blocks of rows."""

_LONGEST: Final = 4_000
"""Longer programs are left alone: to look through them takes 80 µs an equation, which is paid back
when such a program has been called some hundreds of times."""

_UNKNOWN: Final = -(1 << 62)


def stack_small_operations(program: Program) -> Program:
    """Do small operations as rows of one, where that is quicker by what calls cost.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        The program itself where nothing is gained, where it is very long, or where large arrays
        would have to wait for small ones of other steps, so that more memory were needed at once.
    """
    if len(program.equations) > _LONGEST:
        return program
    stacked = _stacked(program)
    if stacked is program:
        return program
    stacked = schedule(stacked)
    most = peak_bytes(schedule(program)) + _LITTLE
    return stacked if peak_bytes(stacked) <= most else program


def _stacked(program: Program) -> Program:
    """Stack everything that can be stacked at once; the same object if there is nothing."""
    if len(program.equations) < 2 * FEWEST:
        return program
    stacks = find_stacks(program)
    if not stacks.groups:
        return program
    choice = _StackChoice(program, stacks)
    choice.settle()
    return _StackWriter(program, stacks, choice).finished() if any(choice.kept) else program


# ------------------------------------------------------------------------------ what is worth it


class _StackChoice:
    """The groups that become one equation.

    Attributes
    ----------
    kept : list of bool
        A flag for each group.
    slices : Slices
        The slices in the program.
    """

    __slots__ = ("_demands", "_groups", "_program", "_stacks", "kept", "slices")

    def __init__(self, program: Program, stacks: Stacks) -> None:
        self._program = program
        self.slices = Slices(program)
        self._stacks = stacks
        self._groups = stacks.groups
        self.kept = [True] * len(stacks.groups)
        # By variable, who reads it by itself, rather than as a row.
        self._demands = Counter({row: program.index.uses[row] for row in stacks.rows})
        for group in self._groups:
            for slot in group.slots:
                repeated = len(group.members) - 1 if len(slot) == 1 else 1
                self._demands.subtract(dict.fromkeys(slot, repeated))
        joins = {slot for group in self._groups for slot in self._joins(group)}
        self._demands.update([variable for slot in joins for variable in slot])

    def run(self, slot: Slot) -> tuple[int, int] | None:
        """The kept group whose neighbouring rows these variables are, and the first row."""
        found = self._stacks.runs.get(slot)
        return found if found is not None and self.kept[found[0]] else None

    def settle(self) -> None:
        """Drop those parts of the program that gain nothing as a whole, or get longer."""
        for part in self._parts():
            if not self._is_worth_it(part):
                for number in part:
                    self.kept[number] = False

    def _call_time(self, group: Group) -> float:
        """The time of one equation of a group."""
        operation = self._program.equations[group.members[0]].operation
        if not isinstance(operation.structure, Movement):
            return _CALL
        return _VIEW if operation.structure.is_view else _FILL

    def _join_time(self, slot: Slot) -> float:
        """The time to make one array of variables."""
        if self.slices.run(slot) is not None:
            return 2 * _VIEW
        size = len(slot) * bytes_of(self._program.index.specs[slot[0]])
        return _JOIN + _PART * len(slot) + size / _BYTES_IN_A_MICROSECOND

    def _joins(self, group: Group) -> list[Slot]:
        """The slots that a group needs joined."""
        return [slot for slot in group.slots if len(slot) > 1 and self.run(slot) is None]

    def _parts(self) -> list[list[int]]:
        """The connected parts of the groups: groups that read each other, or the same joins."""
        rows = self._stacks.rows
        links: list[list[Any]] = []
        for number, group in enumerate(self._groups):
            for slot in group.slots:
                sources = {rows[variable][0] for variable in slot if variable in rows}
                links.append([number, *[slot] * (len(slot) > 1), *sources])
        return connected([*range(len(self._groups))], links)

    def _is_worth_it(self, part: Sequence[int]) -> bool:
        """Whether groups whose rows no others read make the program quicker and no longer."""
        time, equations = 0.0, 0
        joined: Counter[Slot] = Counter()
        for number in part:
            group = self._groups[number]
            runs = [(slot, self.run(slot)) for slot in group.slots]
            views = sum(
                [len(slot) < len(self._groups[run[0]].members) for slot, run in runs if run]
            )
            results = [self._program.index.results[member].start for member in group.members]
            rows = sum([self._demands[variable] > 0 for variable in results])
            saved = len(group.members) - 1
            time += saved * self._call_time(group) - rows * _ROW - views * _VIEW
            equations += saved - rows - views
            joined.update(self._joins(group))
        uses = self._program.index.uses
        for slot, count in joined.items():
            time -= self._join_time(slot)
            equations -= 2
            if self.slices.run(slot) is not None:  # which nothing else may read
                equations += sum([uses[variable] <= count for variable in slot])
        return time >= _LEAST_GAIN and equations >= 0


# -------------------------------------------------------------------------------- the new program


class _StackWriter:
    """Writes the new program, equation by equation."""

    __slots__ = (
        "_choice",
        "_draft",
        "_joined",
        "_known",
        "_program",
        "_stacked",
        "_stacks",
    )

    def __init__(self, program: Program, stacks: Stacks, choice: _StackChoice) -> None:
        self._program = program
        self._stacks = stacks
        self._choice = choice
        self._draft = Draft(program)
        given = map(self._draft.constant, program.constants)
        self._known: list[int] = [*range(len(program.inputs)), *given]
        self._known += [_UNKNOWN] * (len(program.specs()) - len(self._known))
        self._stacked: dict[int, int] = {}  # by group
        self._joined: dict[Slot, int] = {}

    def finished(self) -> Program:
        """Write the program, with the kept groups in place of their members."""
        program, kept = self._program, self._choice.kept
        homes = {
            member: number
            for number, group in enumerate(self._stacks.groups)
            if kept[number]
            for member in group.members
        }
        for position in self._order(homes):
            if position in homes:
                self._write(homes[position])
            else:
                self._keep(position)
        outputs = [self._own(variable) for variable in program.outputs]
        guarded = [self._own(guard.variable) for guard in program.guards]
        return remove_dead_code(self._draft.finish(program, outputs, guarded))

    def _order(self, homes: Mapping[int, int]) -> list[int]:
        """Order the last members of groups and all other equations so that operands come first.

        Otherwise they stay in their order; one that has to wait comes as soon as it can.
        """
        maker_of = self._program.index.makers.__getitem__
        groups = self._stacks.groups
        place = {m: groups[number].members[-1] for m, number in homes.items()}
        needs: dict[int, set[int]] = {}
        for position, equation in enumerate(self._program.equations):
            node = place.get(position, position)
            needs.setdefault(node, set()).update(map(maker_of, equation.operands))
        nodes = {
            node: {place.get(position, position) for position in positions if position >= 0}
            for node, positions in needs.items()
        }
        return in_order(nodes, lambda node: node)

    # Variables.

    def _own(self, variable: int) -> int:
        """The new variable for an old one, which may be a row."""
        if self._known[variable] == _UNKNOWN:
            group, row = self._stacks.rows[variable]
            like = self._program.equations[self._program.index.makers[variable]]
            self._known[variable] = self._part(like, self._stacked[group], row)
        return self._known[variable]

    def _array(self, like: Equation, slot: Slot) -> int:
        """The new variable whose rows are these old ones."""
        found = self._choice.run(slot)
        if found is not None:
            group, first = found
            array = self._stacked[group]
            if len(slot) == self._draft.spec(array).shape[0]:
                return array
            return self._part(like, array, slice(first, first + len(slot)))
        if slot not in self._joined:
            self._joined[slot] = self._join(like, slot)
        return self._joined[slot]

    def _part(self, like: Equation, array: int, *key: int | slice) -> int:
        """The variable of a part that an index takes of a new variable."""
        return self._draft.put(like, view, [array], {"key": Key(key)})

    def _join(self, like: Equation, slot: Slot) -> int:
        specs, first = self._program.index.specs, self._choice.slices.run(slot)
        if first is None:
            parts = [self._own(variable) for variable in slot]
            joined = self._draft.put(like, concatenate, parts, {"axis": 0})
        else:
            joined = self._own(first.array)
            if first.key or len(slot) < specs[first.array].shape[0]:
                rows = slice(first.row, first.row + len(slot))
                joined = self._part(like, joined, rows, *first.key)
        return self._draft.reshaped(like, joined, (len(slot), *specs[slot[0]].shape))

    # Equations.

    def _keep(self, position: int) -> None:
        equation = self._program.equations[position]
        operands = tuple([self._own(variable) for variable in equation.operands])
        equation = equation.on(operands)
        start = self._program.index.results[position].start
        self._known[start : start + len(equation.results)] = self._draft.append(equation)

    def _write(self, number: int) -> None:
        """Write one equation for a group."""
        group = self._stacks.groups[number]
        like = self._program.equations[group.members[0]]
        operands = [
            self._own(slot[0]) if len(slot) == 1 else self._array(like, slot)
            for slot in group.slots
        ]
        shapes, params = self._batched(like, operands, [len(slot) > 1 for slot in group.slots])
        aligned = [
            self._draft.reshaped(like, operand, shape)
            for operand, shape in zip(operands, shapes, strict=True)
        ]
        self._stacked[number] = self._draft.put(like, like.operation, aligned, params)

    def _batched(
        self, like: Equation, operands: Sequence[int], stacked: Sequence[bool]
    ) -> tuple[list[Shape], dict[str, Any]]:
        """Shapes of operands and parameters, as the operation's own batching rule changes them."""
        found: list[tuple[list[Shape], dict[str, Any]]] = []

        def note(*args: Any, **params: Any) -> Any:
            found.append(([arg.shape for arg in args], params))
            return args[0]

        specs = [self._draft.spec(operand) for operand in operands]
        examples = [np.broadcast_to(np.zeros((), spec.dtype), spec.shape) for spec in specs]
        size = next(spec.shape[0] for spec, flag in zip(specs, stacked, strict=True) if flag)
        like.operation.batch(note, size, examples, stacked, dict(like.params))
        return found[-1]

"""Groups of small operations that could be rows of one; ``stacking`` decides which become one.

A *group* is made of equations that do the same, of which none depends on another, and which have
for each operand either the same variable or rows of one array: results of another group, or
variables that would have to be joined.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(x):
...     return [fnp.exp(fnp.square(part)) for part in fnp.split(x, 3)]
>>> found = find_stacks(fg.program(f)(fnp.ones(6)))
>>> [(group.members, group.slots) for group in found.groups]
[((3, 5, 7), ((1, 2, 3),)), ((4, 6, 8), ((4, 6, 8),))]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from funcgrad.backends.numpy.roles import roles
from funcgrad.passes.costs import bytes_of
from funcgrad.primitive import Primitive
from funcgrad.programs.equation import Equation, exact_key
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.structure import Elementwise, Movement, Reduction, Trait

__all__ = ["BLOCK_BYTES", "FEWEST", "Group", "Slot", "Stacks", "find_stacks"]

FEWEST: Final = 3
"""Two rows gain at most what it costs to stack them."""

BLOCK_BYTES: Final = 2**18
"""The most bytes that are joined in one array: calls are a small part of its time then, and larger
arrays cost more than they save, since the system has to find memory for them."""

_SMALL: Final = 2**13
"""The bytes of an array up to which the call takes longer than the work."""

_OTHER: Final = 1 << 62
"""Stands for the specs of arrays that are not small, or have no elements."""

Slot: TypeAlias = tuple[int, ...]
"""The variables that members of a group have for an operand: one for each, or one for all."""


@dataclass(frozen=True, slots=True)
class Group:
    """Equations that could be one.

    Attributes
    ----------
    members : tuple of int
        Positions, in the order of their rows.
    slots : tuple of Slot
        By operand.
    """

    members: tuple[int, ...]
    slots: tuple[Slot, ...]


@dataclass(slots=True)
class Stacks:
    """The groups of a program.

    Attributes
    ----------
    groups : list of Group
        Each comes after the groups that it reads.
    rows : dict
        For the result of a member the number of its group, and its row there.
    runs : dict
        For variables that are neighbouring rows of a group its number, and the first row.
    """

    groups: list[Group] = field(default_factory=list)
    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    runs: dict[Slot, tuple[int, int]] = field(default_factory=dict)


def find_stacks(program: Program) -> Stacks:
    """Find the groups of a program, without a look at what they cost.

    Equations on different sides of a guard or of a call with rules of its own are not grouped, nor
    those in the second run of a checkpointed function with others.
    """
    found = Stacks()
    kinds = _kinds(program)
    if max(kinds, default=-1) >= 0:
        for stretch in _stretches(program):
            _Search(program, kinds, stretch, found).run()
    return found


def _kinds(program: Program) -> list[int]:
    """A number for the kind of each equation; -1 where there are too few of that kind."""
    codes = _codes(program)
    rowwise: dict[Primitive, bool] = {}
    numbers: dict[Hashable, int] = {}
    found = []
    for results, equation in zip(program.index.results, program.equations, strict=True):
        operation, params, kind = equation.operation, equation.params, -1
        if operation not in rowwise:
            rowwise[operation] = _is_rowwise(operation)
        code = codes[results.start] if results else _OTHER
        if isinstance(operation.structure, Reduction):
            code = max(code, 0)  # it may give numbers, of which nothing is stacked again
        if rowwise[operation] and 0 <= code < _OTHER and results.start not in program.index.guarded:
            operands = tuple([codes[variable] for variable in equation.operands])
            is_movement = isinstance(operation.structure, Movement)
            if _OTHER not in operands and (len(operands) == 1 or not is_movement):
                # Keys, shapes and axes have no 2.0 in place of 2, and it takes long to look.
                own = exact_key(params) if params and not is_movement else params
                key = operation, own, code, operands
                kind = numbers.setdefault(key, len(numbers))
        found.append(kind)
    counts = Counter(found)
    return [kind if counts[kind] >= FEWEST else -1 for kind in found]


def _codes(program: Program) -> list[int]:
    """A number for the spec of each variable; for a number without axes one of its own, negative.

    All rows have to share such a variable: it may be weak, and broadcasts otherwise than a row.
    """
    numbers: dict[Hashable, int] = {}
    codes = []
    for variable, spec in enumerate(program.specs()):
        if spec.shape:
            key = spec.shape, spec.dtype  # hashed in a third of the time of the spec
            code = numbers.get(key)
            if code is None:
                code = len(numbers) if 0 < bytes_of(spec) <= _SMALL else _OTHER
                numbers[key] = code
            codes.append(code)
        else:
            codes.append(~variable)
    return codes


def _is_rowwise(operation: Primitive) -> bool:
    """Whether an operation does to each row of an array what it does to an array."""
    structure = operation.structure
    if Trait.UNEVEN in operation.traits:
        return False
    is_reduction = isinstance(structure, Reduction) and structure.ufunc is not None
    return is_reduction or isinstance(structure, Elementwise | Movement)


def _stretches(program: Program) -> Iterator[range]:
    """Positions between which equations may change their places."""
    start = epoch = 0
    for position, equation in enumerate(program.equations):
        if equation.epoch != epoch:
            yield range(start, position)
            start, epoch = position, equation.epoch
        is_guarded = not program.index.guarded.isdisjoint(program.index.results[position])
        if is_guarded or equation.operation.is_foreign or len(equation.results) != 1:
            yield range(start, position)
            start = position + 1
    yield range(start, len(program.equations))


class _Search:
    """Groups within one stretch of a program."""

    __slots__ = ("_found", "_kinds", "_program", "_stretch")

    def __init__(
        self, program: Program, kinds: Sequence[int], stretch: range, found: Stacks
    ) -> None:
        self._program = program
        self._kinds = kinds
        self._stretch = stretch
        self._found = found

    def run(self) -> None:
        """Add the groups to those found."""
        program, start, stop = self._program, self._stretch.start, self._stretch.stop
        counts = Counter(self._kinds[start:stop])
        kinds = [kind if counts[kind] >= FEWEST else -1 for kind in self._kinds[start:stop]]
        if max(kinds, default=-1) < 0:
            return
        before = []
        for equation in program.equations[start:stop]:
            makers = map(program.index.makers.__getitem__, equation.operands)
            before.append([maker - start for maker in makers if maker >= start])
        for members in roles(kinds, before):
            if len(members) >= FEWEST:
                self._group([start + member for member in members])

    def _group(self, members: Sequence[int]) -> None:
        """Sort the equations of a role by whose rows they read."""
        equations = self._program.equations
        columns = zip(*[equations[member].operands for member in members], strict=True)
        uses = [Counter(column) for column in columns]
        sorts: dict[Hashable, list[tuple[int, int]]] = {}
        again: Counter[Hashable] = Counter()
        for member in members:
            sources, row = self._sources(equations[member], uses)
            key = sources, again[sources, row]  # of what reads a row twice there are two groups
            again[sources, row] += 1
            sorts.setdefault(key, []).append((row, member))
        like = equations[members[0]]
        specs = [*like.results, *[self._program.index.specs[x] for x in like.operands]]
        step = BLOCK_BYTES // max(map(bytes_of, specs))
        for pairs in sorts.values():
            own = [member for _, member in sorted(pairs)]
            for start in range(0, len(own), step):
                self._append(own[start : start + step])

    def _sources(
        self, equation: Equation, uses: Sequence[Mapping[int, int]]
    ) -> tuple[Hashable, int]:
        """The arrays that the operands are rows of, as a key, and this equation's row number."""
        index, rows = self._program.index, self._found.rows
        counts = [count[variable] for count, variable in zip(uses, equation.operands, strict=True)]
        arrays = [bool(index.specs[variable].shape) for variable in equation.operands]
        most = max([FEWEST, *[n for n, flag in zip(counts, arrays, strict=True) if flag]])
        sources: list[Hashable] = []
        row = made = -1
        for count, variable in zip(counts, equation.operands, strict=True):
            if count >= most:
                sources.append((variable,))  # one for all
            elif variable in rows:
                group, place = rows[variable]
                sources.append(group)
                row = place if row < 0 else row
            else:
                position = index.makers[variable]
                kind = self._kinds[position] if position >= 0 else None
                operation = self._program.equations[position].operation
                sources.append(operation if kind == -1 else ("kind", kind))
                made = variable if made < 0 else made
        return tuple(sources), made if row < 0 else row

    def _append(self, members: Sequence[int]) -> None:
        """Add a group, if there is something to gain."""
        program, found = self._program, self._found
        operands = [program.equations[member].operands for member in members]
        columns = zip(*operands, strict=True)
        slots = [column[:1] if len({*column}) == 1 else column for column in columns]
        if len(members) < FEWEST or max(map(len, slots)) == 1:
            return
        self._put(Group(tuple(members), tuple(slots)))
        for row, member in enumerate(members):
            found.rows[program.index.results[member].start] = len(found.groups) - 1, row

    def _put(self, group: Group) -> None:
        """Add a group, and see which neighbouring rows it reads."""
        found = self._found
        found.groups.append(group)
        for slot in group.slots:
            number, first = found.rows.get(slot[0], (-1, 0))
            run = [(number, row) for row in range(first, first + len(slot))]
            if run == [found.rows.get(variable) for variable in slot]:
                found.runs[slot] = number, first

"""What passes that look at more than one equation ask of a program, and how they write the new one.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.numpy.sin(x * x) + x)(2.0)
>>> facts = Facts(staged)
>>> [facts.uses(variable) for variable in range(4)], facts.first_use(1)
([3, 1, 1, 1], 1)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, TypeAlias

from funcgrad.primitives.joining import concatenate
from funcgrad.primitives.keys import Key
from funcgrad.primitives.structural import reshape, view
from funcgrad.programs.builder import Draft
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Shape, Spec

__all__ = [
    "BLOCK_BYTES",
    "BYTES_IN_A_MICROSECOND",
    "Change",
    "Facts",
    "Slice",
    "Writer",
    "bytes_of",
    "rebuild",
]

BYTES_IN_A_MICROSECOND: Final = 10_000
"""What NumPy copies, or adds, while it could call a function once or twice."""

BLOCK_BYTES: Final = 2**18
"""No more is joined in one array: by then the calls are a small part of what is done with it, and
larger arrays cost more than that, since the system has to find memory for them."""


class Facts:
    """Who makes and who reads the variables of a program.

    Attributes
    ----------
    program : Program
    starts : list of int
        The first variable that each equation defines.
    guarded : frozenset of int
        The variables that guards look at, which have to stay what they are.
    """

    __slots__ = ("_first_use", "_makers", "_specs", "_uses", "guarded", "program", "starts")

    def __init__(self, program: Program) -> None:
        self.program = program
        index = program.index
        self._specs, self._makers, self._uses = index.specs, index.makers, index.uses
        self._first_use = [len(program.equations)] * len(index.specs)
        for position, equation in enumerate(program.equations):
            for variable in equation.operands:
                self._first_use[variable] = min(self._first_use[variable], position)
        self.starts = [results.start for results in index.results]
        self.guarded = index.guarded

    def spec(self, variable: int) -> Spec:
        """The shape and dtype of a variable."""
        return self._specs[variable]

    def uses(self, variable: int) -> int:
        """How often a variable is read, as an operand or as an output."""
        return self._uses[variable]

    def first_use(self, variable: int) -> int:
        """The position of the equation that reads it first; that after the last where none does."""
        return self._first_use[variable]

    def position(self, variable: int) -> int:
        """Where a variable is defined: -1 for an input or a constant."""
        return self._makers[variable]

    def maker(self, variable: int) -> Equation | None:
        """The equation that defines a variable, if one does."""
        position = self._makers[variable]
        return None if position < 0 else self.program.equations[position]

    def made_by(self, variable: int, operation: Any) -> Equation | None:
        """The equation that defines a variable, if it is of an operation."""
        maker = self.maker(variable)
        return maker if maker is not None and maker.operation is operation else None

    def epoch(self, variable: int) -> int:
        """The epoch of the equation that defines a variable."""
        maker = self.maker(variable)
        return 0 if maker is None else maker.epoch

    def slice_of(self, variable: int) -> Slice | None:
        """What a variable is of an array along its first axis, as in ``x[3]`` or ``x[3, 1:]``."""
        maker = self.made_by(variable, view)
        if maker is None:
            return None
        key = dict(maker.params)["key"]
        if not key or type(key[0]) is not int:
            return None
        array = maker.operands[0]
        return Slice((array, Key(key[1:])), key[0] % self._specs[array].shape[0])

    def slices(self, variables: Sequence[int]) -> Slice | None:
        """The first of variables that are ``x[n]``, ``x[n + 1]`` and so on of one array."""
        first = self.slice_of(variables[0])
        if first is None:
            return None
        for offset, variable in enumerate(variables):
            if self.slice_of(variable) != Slice(first.source, first.row + offset):
                return None
        return first


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an array at one place of its first axis.

    Attributes
    ----------
    source : tuple
        The array, and the index for its other axes.
    row : int
    """

    source: tuple[int, Key]
    row: int


class Writer:
    """Writes new equations in place of some equation, in terms of the old program's variables."""

    __slots__ = ("_draft", "_facts", "_joined", "_known")

    def __init__(self, draft: Draft, facts: Facts, known: list[int]) -> None:
        self._draft = draft
        self._facts = facts
        self._known = known
        self._joined: dict[tuple[int | None, tuple[int, ...]], int] = {}

    def __getitem__(self, variable: int) -> int:
        """The new variable for an old one."""
        return self._known[variable]

    def __setitem__(self, variable: int, new: int) -> None:
        self._known[variable] = new

    def append(self, like: Equation, operation: Any, operands: Sequence[int], **params: Any) -> int:
        """The variable of one more equation, which comes from where another one came from.

        Parameters
        ----------
        like : Equation
        operation : Primitive
        operands : sequence of int
            New variables.
        **params : any
        """
        specs = [self._draft.spec(operand) for operand in operands]
        equation = Equation(
            operation,
            tuple(operands),
            tuple(sorted(params.items())),
            (operation.result(*specs, **params),),
            like.source,
            like.epoch,
        )
        return self._draft.append(equation)[0]

    def reshaped(self, like: Equation, variable: int, shape: Shape) -> int:
        """A new variable in another shape."""
        if self._draft.spec(variable).shape == shape:
            return variable
        return self.append(like, reshape, [variable], shape=shape)

    def part(self, like: Equation, variable: int, *key: Any) -> int:
        """What an index takes of a new variable."""
        return self.append(like, view, [variable], key=Key(key))

    def joined(self, like: Equation, parts: Sequence[int], axis: int | None) -> int:
        """Old variables of one shape along an axis; None for an axis of its own.

        Slices of one array that follow each other are that array, and need no copy.
        """
        key = axis, tuple(parts)
        if key not in self._joined:
            self._joined[key] = self._join(like, parts, axis)
        return self._joined[key]

    def _join(self, like: Equation, parts: Sequence[int], axis: int | None) -> int:
        shape = self._facts.spec(parts[0]).shape
        first = self._facts.slices(parts) if axis in (None, 0) else None
        if first is not None:
            array, rest = first.source
            whole = self._known[array]
            if rest or len(parts) < self._facts.spec(array).shape[0]:
                whole = self.part(like, whole, slice(first.row, first.row + len(parts)), *rest)
        else:
            along = axis or 0
            variables = [self._own(like, part) for part in parts]
            whole = self.append(like, concatenate, variables, axis=along)
            if axis == 1:
                return whole
        merged = (len(parts), *shape) if axis is None else (len(parts) * shape[0], *shape[1:])
        return self.reshaped(like, whole, merged)

    def _own(self, like: Equation, variable: int) -> int:
        """A slice once more, which may be wanted before its place in the program."""
        found = self._facts.slice_of(variable)
        if found is None:
            return self._known[variable]
        array, rest = found.source
        return self.part(like, self._known[array], found.row, *rest)


Change: TypeAlias = Callable[[Writer], None]
"""Writes equations, and says by ``writer[old] = new`` which variables stand for others now."""


def rebuild(facts: Facts, changes: Mapping[int, Sequence[Change]], gone: Container[int]) -> Program:
    """The program with changes made before equations, and without some equations.

    Parameters
    ----------
    facts : Facts
    changes : mapping
        What to write before which equation; under their number what comes after the last.
    gone : container of int
        The positions of equations that go. Changes have to stand for what is read of them.
    """
    program = facts.program
    draft = Draft(program)
    known = [*range(len(program.inputs)), *map(draft.constant, program.constants)]
    known += [0] * (len(program.specs()) - len(known))
    writer = Writer(draft, facts, known)
    for position, equation in enumerate(program.equations):
        for change in changes.get(position, ()):
            change(writer)
        if position in gone:
            continue
        operands = tuple([known[variable] for variable in equation.operands])
        start = facts.starts[position]
        equation = equation.on(operands)
        known[start : start + len(equation.results)] = draft.append(equation)
    for change in changes.get(len(program.equations), ()):
        change(writer)
    outputs = [known[variable] for variable in program.outputs]
    return draft.finish(program, outputs, [known[guard.variable] for guard in program.guards])


def bytes_of(spec: Spec) -> int:
    """The memory that a variable takes."""
    return prod(spec.shape) * spec.dtype.itemsize

"""What passes that look at more than one equation ask of a program, and how they write the new one.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.numpy.sin(x * x) + x)(2.0)
>>> facts = Facts(staged)
>>> [facts.uses(variable) for variable in range(4)], facts.position(2)
([3, 1, 1, 1], 1)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from funcgrad.primitive import Primitive
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.structural import reshape, view
from funcgrad.programs.builder import Draft
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Shape, Spec

__all__ = [
    "BLOCK_BYTES",
    "BYTES_IN_A_MICROSECOND",
    "DraftWriter",
    "Facts",
    "Slice",
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

    __slots__ = ("_makers", "_specs", "_uses", "guarded", "program", "starts")

    def __init__(self, program: Program) -> None:
        self.program = program
        index = program.index
        self._specs, self._makers, self._uses = index.specs, index.makers, index.uses
        self.starts = [results.start for results in index.results]
        self.guarded = index.guarded

    def spec(self, variable: int) -> Spec:
        """The shape and dtype of a variable."""
        return self._specs[variable]

    def uses(self, variable: int) -> int:
        """How often a variable is read, as an operand or as an output."""
        return self._uses[variable]

    def position(self, variable: int) -> int:
        """Where a variable is defined: -1 for an input or a constant."""
        return self._makers[variable]

    def maker(self, variable: int) -> Equation | None:
        """The equation that defines a variable, if one does."""
        position = self._makers[variable]
        return None if position < 0 else self.program.equations[position]

    def slice_of(self, variable: int) -> Slice | None:
        """What a variable is of an array along its first axis, as in ``x[3]`` or ``x[3, 1:]``."""
        maker = self.maker(variable)
        if maker is None or maker.operation is not view:
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


class DraftWriter:
    """Writes new equations in place of some equation, in terms of the old program's variables."""

    __slots__ = ("_draft", "_facts", "_known")

    def __init__(self, draft: Draft, facts: Facts, known: list[int]) -> None:
        self._draft = draft
        self._facts = facts
        self._known = known

    def append(
        self, like: Equation, operation: Primitive, operands: Sequence[int], **params: Hashable
    ) -> int:
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
            operation.results(*specs, **params),
            like.source,
            like.epoch,
        )
        return self._draft.append(equation)[0]

    def reshaped(self, like: Equation, variable: int, shape: Shape) -> int:
        """A new variable in another shape."""
        if self._draft.spec(variable).shape == shape:
            return variable
        return self.append(like, reshape, [variable], shape=shape)

    def part(self, like: Equation, variable: int, *key: int | slice) -> int:
        """What an index takes of a new variable."""
        return self.append(like, view, [variable], key=Key(key))

    def rows(self, like: Equation, parts: Sequence[int]) -> int:
        """Old variables that are slices of one array and follow each other, as an array."""
        first = self._facts.slices(parts)
        assert first is not None
        array, rest = first.source
        whole = self._known[array]
        if rest or len(parts) < self._facts.spec(array).shape[0]:
            whole = self.part(like, whole, slice(first.row, first.row + len(parts)), *rest)
        return self.reshaped(like, whole, (len(parts), *self._facts.spec(parts[0]).shape))

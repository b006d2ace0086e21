"""Products that share a factor: ``a @ w``, ``b @ w``, ``c @ w`` are rows of one product.

A loop multiplies each step's input by the same matrix. Where the inputs do not depend on the
products, one call does what many did, reads the matrix once, and the results are views of its own.

>>> import funcgrad as fg
>>> def f(xs, w, h):
...     for x in xs:
...         h = fg.numpy.tanh(x @ w + h)
...     return h
>>> staged = fg.program(f)(fg.numpy.ones((4, 2, 3)), fg.numpy.ones((3, 5)), fg.numpy.ones((2, 5)))
>>> operations = [equation.operation.name for equation in merge_products(staged).equations]
>>> operations.count("matmul"), operations.count("concatenate")
(1, 0)
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Final

from funcgrad.passes.dead_code import remove_dead_code
from funcgrad.passes.facts import (
    BLOCK_BYTES,
    BYTES_IN_A_MICROSECOND,
    Change,
    Facts,
    Writer,
    bytes_of,
    rebuild,
)
from funcgrad.primitives.contraction import matmul
from funcgrad.primitives.structural import transpose
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["merge_products"]

_FEWEST: Final = 3
_CALL: Final = 0.8
"""What a product costs beside its arithmetic, in microseconds, less a view of a result."""


def merge_products(program: Program) -> Program:
    """Do products of many arrays with one matrix as one product.

    Results are rounded as if the terms of their sums had been added in another order: each is off
    by no more than ``n * eps * sum(abs(a * b))`` for sums of n terms, and is infinite or NaN where
    it was. Applied only where it is quicker, by what calls and copies were measured to cost.
    """
    again = True
    while again:
        program, again = _merged(program)
    return program


class _Family:
    """Products with one matrix, of which none depends on another.

    Attributes
    ----------
    members : list of int
        Positions.
    deadline : int
        The position of the equation that first reads one of the results.
    """

    __slots__ = ("deadline", "members")

    def __init__(self, member: int, deadline: int) -> None:
        self.members = [member]
        self.deadline = deadline


def _merged(program: Program) -> tuple[Program, bool]:
    """The program with families merged, and whether others can be once that is done."""
    if sum([equation.operation is matmul for equation in program.equations]) < _FEWEST:
        return program, False
    facts = Facts(program)
    changes: dict[int, list[Change]] = {}
    gone: set[int] = set()
    wanted: set[int] = set()
    again = False
    for family in _families(facts):
        if not _is_worth_it(facts, family):
            continue
        sources = {_source_position(facts, _factor(facts, m)) for m in family.members}
        # A factor that is such a product itself moves back, and may come too late: not both now.
        if sources & gone or wanted.intersection(family.members):
            again = True
            continue
        wanted |= sources
        merge = _Merge(facts, family)
        changes.setdefault(family.deadline, []).append(merge.write)
        for number, member in enumerate(family.members):
            if member > family.deadline:
                changes.setdefault(member, []).append(partial(merge.write_part, number))
        gone.update(family.members)
    return remove_dead_code(rebuild(facts, changes, gone)) if changes else program, again


def _families(facts: Facts) -> list[_Family]:
    """The products of the program by what they share, in order and as many together as may be."""
    found: list[_Family] = []
    running: dict[Hashable, _Family] = {}
    homes: dict[int, _Family] = {}
    for position, equation in enumerate(facts.program.equations):
        kind = _kind(facts, position, equation)
        if kind is None:
            continue
        deadline = facts.first_use(facts.starts[position])
        family = running.get(kind)
        ready = _source_position(facts, _factor(facts, position))
        largest = max(bytes_of(facts.spec(_factor(facts, position))), bytes_of(equation.results[0]))
        if (
            family is None
            or ready >= family.deadline
            or homes.get(ready) is family  # whose results are there at the deadline, not before
            or (len(family.members) + 1) * largest > BLOCK_BYTES
        ):
            running[kind] = family = _Family(position, deadline)
            found.append(family)
        else:
            family.members.append(position)
            family.deadline = min(family.deadline, deadline)
        homes[position] = family
    return found


def _kind(facts: Facts, position: int, equation: Equation) -> Hashable:
    """What products have in common that can be one; None where this is no such product."""
    if equation.operation is not matmul:
        return None
    x, y = [facts.spec(variable) for variable in equation.operands]
    result = facts.starts[position]
    if (
        x.dtype != y.dtype
        or x.dtype.char not in "fd"
        or (len(x.shape), len(y.shape)) not in ((1, 2), (2, 2), (2, 1))
        or 0 in x.shape + y.shape
        or not facts.uses(result)
        or result in facts.guarded
    ):
        return None
    side = int(len(y.shape) == 2)
    matrix, factor = equation.operands[side], equation.operands[1 - side]
    return matrix, side, facts.spec(factor).shape, equation.epoch, facts.epoch(factor)


def _factor(facts: Facts, position: int) -> int:
    """The factor that the products of a family do not share."""
    x, y = facts.program.equations[position].operands
    return y if len(facts.spec(y).shape) == 1 else x


def _source_position(facts: Facts, factor: int) -> int:
    """Where a factor could be there: a slice of an array, as soon as the array is."""
    found = facts.slice_of(factor)
    return facts.position(factor if found is None else found.source[0])


def _is_worth_it(facts: Facts, family: _Family) -> bool:
    count = len(family.members)
    if count < _FEWEST:
        return False
    factors = [_factor(facts, member) for member in family.members]
    copied = 0 if facts.slices(factors) else count * bytes_of(facts.spec(factors[0]))
    calls = 0.0 if facts.slices(factors) else 1 + 0.15 * count
    return (count - 1) * _CALL > calls + copied / BYTES_IN_A_MICROSECOND


class _Merge:
    """One product in place of a family."""

    __slots__ = ("_facts", "_family", "_whole")

    def __init__(self, facts: Facts, family: _Family) -> None:
        self._facts = facts
        self._family = family
        self._whole = -1

    def write(self, writer: Writer) -> None:
        """Write the product, and the results that stood before it."""
        facts, members = self._facts, self._family.members
        like = facts.program.equations[members[0]]
        factors = [_factor(facts, member) for member in members]
        shape = facts.spec(factors[0]).shape
        rows = writer.joined(like, factors, None if len(shape) == 1 else 0)
        x, y = like.operands
        matrix = writer[y]
        if len(facts.spec(y).shape) == 1:
            matrix = writer.append(like, transpose, [writer[x]], axes=(1, 0))
        result = facts.spec(facts.starts[members[0]]).shape
        product = writer.append(like, matmul, [rows, matrix])
        self._whole = writer.reshaped(like, product, (len(members), *result))
        for number, member in enumerate(members):
            if member < self._family.deadline:
                self.write_part(number, writer)

    def write_part(self, number: int, writer: Writer) -> None:
        """Write one of the results, as a view of the whole."""
        member = self._family.members[number]
        like = self._facts.program.equations[member]
        writer[self._facts.starts[member]] = writer.part(like, self._whole, number)

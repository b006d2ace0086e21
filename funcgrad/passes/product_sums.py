"""Sums of products: ``a @ b + c @ d + e @ f`` is one product of what is joined along the sum.

The gradient of a parameter that every step of a loop uses is such a sum, as are those of biases,
which are sums of sums. One product adds up as it goes, and makes no array for each term.

>>> import funcgrad as fg
>>> def f(hs, ds):
...     return sum([h.T @ d for h, d in zip(hs, ds)][1:], hs[0].T @ ds[0])
>>> staged = fg.program(f)(fg.numpy.ones((9, 2, 3)), fg.numpy.ones((9, 2, 4)))
>>> [equation.operation.name for equation in merge_sums_of_products(staged).equations]
['reshape', 'reshape', 'contract']
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Final, TypeAlias

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
from funcgrad.primitives.contraction import contract, matmul, split_subscripts
from funcgrad.primitives.elementwise import add, multiply
from funcgrad.primitives.reduction import reduce_sum
from funcgrad.primitives.structural import reshape, transpose
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["merge_sums_of_products"]

Axis: TypeAlias = int | None
"""The axis along which factors are joined; None for one of their own, which vectors need."""

_MAKERS: Final = frozenset({matmul, contract, reduce_sum})
"""What terms are results of, of which many can be one; without any of these no vectors are joined
either, nor columns multiplied by rows."""

_FEWEST: Final = 3
"""Two terms gain at most what calls cost that join them."""

_CALL: Final = 1.5
"""What a term costs in microseconds, of any size: a product or a sum, and an addition."""


def merge_sums_of_products(program: Program) -> Program:
    """Do sums of products of matrices, and of sums along an axis, in one.

    Results are rounded as if the terms of their sums had been added in another order: each is off
    by no more than ``n * eps * sum(abs(a * b))`` for sums of n terms in all, and is infinite or NaN
    where it was. Applied only where it is quicker, by what calls and copies were measured to cost.

    What checkpointed functions do again is not joined with what others do: the one is to be
    forgotten before the other begins.
    """
    if not any(equation.operation in _MAKERS for equation in program.equations):
        return program
    facts = Facts(program)
    sums = _sums(facts)
    joins = _Joins(facts)
    groups = [group for each in sums for group in each.groups]
    for group in sorted(groups, key=lambda group: group.rank(facts)):
        joins.consider(group)
    changes: dict[int, list[Change]] = {}
    gone: set[int] = set()
    for each in sums:
        if any(group.blocks for group in each.groups):
            for position, change in _Merge(facts, each).changes():
                changes.setdefault(position, []).append(change)
            gone.update(each.additions)
    return remove_dead_code(rebuild(facts, changes, gone)) if changes else program


# Sums and the terms of which they are made.


@dataclass(frozen=True, slots=True)
class _Factor:
    """What is joined of a term: a variable, and the axis that is summed over."""

    variable: int
    axis: Axis


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a sum: a variable, and what it is a product of, or the sum over an axis of.

    A vector is the only factor of itself. No factors: the term stays as it is.
    """

    variable: int
    factors: tuple[_Factor, ...] = ()


@dataclass(slots=True)
class _Group:
    """Terms of one sum that can be one, with an equation like that which it will be.

    Those of a block will be joined; there are no blocks where that is not worth it.
    """

    like: Equation
    terms: list[_Term] = field(default_factory=list)
    blocks: list[list[_Term]] = field(default_factory=list)

    @property
    def axes(self) -> list[Axis]:
        """For each factor of the terms the axis that it is joined along."""
        return [factor.axis for factor in self.terms[0].factors]

    def column(self, place: int) -> list[int]:
        """The factors at one place of all terms."""
        return [term.factors[place].variable for term in self.terms]

    def rank(self, facts: Facts) -> int:
        """Groups of low rank say in which order terms are joined; others follow."""
        if len(self.axes) == 1:
            return 3 if self.axes[0] is None else 2
        return int(all(facts.slice_of(each.variable) is None for each in self.terms[0].factors))


@dataclass(slots=True)
class _Sum:
    """A tree of additions.

    Attributes
    ----------
    root : int
        The position of the last addition.
    additions : list of int
        The positions of all.
    terms : list of _Term
        From left to right.
    groups : list of _Group
    """

    root: int
    additions: list[int]
    terms: list[_Term]
    groups: list[_Group] = field(default_factory=list)


def _sums(facts: Facts) -> list[_Sum]:
    """All trees of additions, each as large as may be."""
    equations = facts.program.equations
    inside: set[int] = set()
    found: list[_Sum] = []
    for root in range(len(equations) - 1, -1, -1):
        if root in inside or not _is_plain(facts, root):
            continue
        additions, terms = [root], list[_Term]()
        waiting = list(equations[root].operands)
        while waiting:
            variable = waiting.pop()
            position = facts.position(variable)
            if position >= 0 and facts.uses(variable) == 1 and _is_plain(facts, position):
                additions.append(position)
                waiting += equations[position].operands
            else:
                terms.append(_Term(variable, _factors(facts, variable)))
        inside.update(additions)
        found.append(_Sum(root, additions, terms[::-1]))
        _sort(facts, found[-1])
    return found[::-1]


def _is_plain(facts: Facts, position: int) -> bool:
    """Whether an equation adds two arrays without broadcasting or casting."""
    equation = facts.program.equations[position]
    if equation.operation is not add or facts.starts[position] in facts.guarded:
        return False
    result = equation.results[0]
    return (
        result.dtype.char in "fd"
        and not result.weak
        and all(facts.spec(variable) == result for variable in equation.operands)
    )


def _sort(facts: Facts, each: _Sum) -> None:
    """Group the terms of a sum by what they are."""
    found: dict[Hashable, _Group] = {}
    for term in each.terms:
        if not term.factors:
            continue
        maker = facts.maker(term.variable)
        itself = term.factors[0].variable == term.variable
        like = facts.program.equations[each.root] if itself or maker is None else maker
        parts = [(f.axis, facts.spec(f.variable), facts.epoch(f.variable)) for f in term.factors]
        key = tuple(parts), like.epoch, like.params if like.operation is reduce_sum else ()
        found.setdefault(key, _Group(like)).terms.append(term)
    each.groups += [group for group in found.values() if len(group.terms) >= _FEWEST]


def _factors(facts: Facts, variable: int) -> tuple[_Factor, ...]:
    """What a term is a product of, or a sum over an axis of."""
    maker = facts.maker(variable)
    shape = facts.spec(variable).shape
    itself = (_Factor(variable, None),) if len(shape) == 1 else ()
    if maker is None or facts.uses(variable) > 1 or variable in facts.guarded:
        return itself
    if maker.operation not in _MAKERS and (maker.operation is not multiply or len(shape) != 2):
        return itself
    specs = [facts.spec(operand) for operand in maker.operands]
    if any(spec.dtype != maker.results[0].dtype or 0 in spec.shape for spec in specs):
        return itself
    if maker.operation is matmul and all(len(spec.shape) == 2 for spec in specs):
        x, y = maker.operands
        return _untransposed(facts, x, 1), _untransposed(facts, y, 0)
    if maker.operation is contract:
        return _contracted(facts, maker)
    if maker.operation is multiply:
        return _outer(facts, maker)
    if maker.operation is reduce_sum and 0 in dict(maker.params)["axis"]:
        return (_Factor(maker.operands[0], 0),)
    return itself


def _untransposed(facts: Facts, variable: int, axis: int) -> _Factor:
    maker = facts.made_by(variable, transpose)
    if maker is None or dict(maker.params)["axes"] != (1, 0):
        return _Factor(variable, axis)
    return _Factor(maker.operands[0], 1 - axis)


def _contracted(facts: Facts, maker: Equation) -> tuple[_Factor, ...]:
    """A product of two matrices, or of two vectors with each other's numbers."""
    first, second, out = split_subscripts(dict(maker.params)["subscripts"])
    x, y = maker.operands
    if len(first) == len(second) == 1 and len(out) == 2:
        pair = _Factor(x, None), _Factor(y, None)
        return pair if first == out[0] else pair[::-1]
    summed = set(first) & set(second)
    if (len(first), len(second), len(out), len(summed)) != (2, 2, 2, 1) or summed & set(out):
        return ()
    letter = summed.pop()
    pair = (
        _untransposed(facts, x, first.index(letter)),
        _untransposed(facts, y, second.index(letter)),
    )
    return pair if out[0] in first else pair[::-1]


def _outer(facts: Facts, maker: Equation) -> tuple[_Factor, ...]:
    """A column times a row."""
    found: list[_Factor] = []
    rows, columns = maker.results[0].shape
    for shape in ((rows, 1), (1, columns)):
        for variable in maker.operands:
            spread = facts.made_by(variable, reshape)
            if spread is None or facts.spec(variable).shape != shape or rows == 1 or columns == 1:
                continue
            if len(facts.spec(spread.operands[0]).shape) == 1:
                found.append(_Factor(spread.operands[0], None))
    return tuple(found) if len(found) == 2 else ()


# Which of them to join, and in which order.


@dataclass(frozen=True, slots=True)
class _Order:
    """How variables are joined: their ranks, and how many at a time."""

    ranks: Mapping[int, int]
    step: int


class _Joins:
    """What is joined already, and costs nothing to be joined once more in the same order."""

    __slots__ = ("_facts", "_orders")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._orders: dict[Hashable, _Order] = {}

    def consider(self, group: _Group) -> None:
        """Put the terms of a group in order, and into blocks if it is worth to merge them."""
        columns = [(axis, group.column(place)) for place, axis in enumerate(group.axes)]
        known = [self._order(*column) for column in columns]
        if not any(known) and group.axes == [None]:
            return  # to join vectors takes as long as to add them
        terms, step = self._ordered(group, known)
        count = len(terms)
        blocks = [terms[start : start + step] for start in range(0, count, step)]
        size = bytes_of(group.like.results[0])
        gain = (count - len(blocks)) * (_CALL + size / BYTES_IN_A_MICROSECOND)
        missing = [column for column, order in zip(columns, known, strict=True) if order is None]
        if gain <= sum([self._cost(axis, column, len(blocks)) for axis, column in missing]):
            return
        group.blocks = blocks
        for place, axis in enumerate(group.axes):
            ranks = {term.factors[place].variable: rank for rank, term in enumerate(terms)}
            self._orders.setdefault((axis, frozenset(ranks)), _Order(ranks, step))

    def _order(self, axis: Axis, variables: list[int]) -> _Order | None:
        """The order in which variables are joined elsewhere."""
        order = self._orders.get((axis, frozenset(variables)))
        return order if order is not None and len(order.ranks) == len(variables) else None

    def _cost(self, axis: Axis, variables: list[int], blocks: int) -> float:
        """What it costs in microseconds to join variables."""
        if self._array(axis, variables) is not None:
            return 0.3 * blocks
        size = len(variables) * bytes_of(self._facts.spec(variables[0]))
        return blocks + 0.15 * len(variables) + size / BYTES_IN_A_MICROSECOND

    def _array(self, axis: Axis, variables: list[int]) -> Mapping[int, int] | None:
        """The ranks of variables that are slices of one array, which need not be joined."""
        found = [self._facts.slice_of(variable) for variable in variables]
        slices = [each for each in found if each is not None]
        rows = [each.row for each in slices]
        if axis == 1 or len(slices) < len(found) or len({each.source for each in slices}) > 1:
            return None
        if sorted(rows) != list(range(min(rows), min(rows) + len(rows))):
            return None
        return dict(zip(variables, rows, strict=True))

    def _ordered(self, group: _Group, known: Sequence[_Order | None]) -> tuple[list[_Term], int]:
        """The terms as they lie in an array or are joined elsewhere, and how many at a time."""
        largest = 1
        ranks: Mapping[int, int] | None = None
        side = 0
        for place, axis in enumerate(group.axes):
            column = group.column(place)
            array = self._array(axis, column)
            if array is None:
                largest = max(largest, bytes_of(self._facts.spec(column[0])))
            elif ranks is None:
                ranks, side = array, place
        step = max(1, BLOCK_BYTES // largest)
        for place, order in enumerate(known):
            if order is not None and ranks is None:
                ranks, side, step = order.ranks, place, order.step
        if ranks is None:
            return sorted(group.terms, key=lambda term: term.factors[0].variable), step
        chosen = ranks
        return sorted(group.terms, key=lambda term: chosen[term.factors[side].variable]), step


class _Merge:
    """One product in place of each block of a sum, and the sum of those and of the other terms."""

    __slots__ = ("_facts", "_left", "_sum", "_total")

    def __init__(self, facts: Facts, each: _Sum) -> None:
        self._facts = facts
        self._sum = each
        self._total: int | None = None
        self._left = 0

    def changes(self) -> list[tuple[int, Change]]:
        """What to write and where: as soon as it is known, so that no more is kept than was."""
        found: list[tuple[int, Change]] = []
        merged: set[int] = set()
        for group in self._sum.groups:
            for block in group.blocks:
                joined = _Group(group.like, block)
                merged.update([term.variable for term in block])
                found.append((self._place(block), partial(self._write, partial(_product, joined))))
        for term in self._sum.terms:
            if term.variable not in merged:
                plain = partial(_itself, term.variable)
                found.append((self._place([term]), partial(self._write, plain)))
        self._left = len(found)
        return sorted(found, key=itemgetter(0))

    def _place(self, terms: Sequence[_Term]) -> int:
        return max([self._facts.first_use(term.variable) for term in terms])

    def _write(self, make: Callable[[Writer], int], writer: Writer) -> None:
        """Write some of the terms, and add them to those before."""
        root = self._facts.program.equations[self._sum.root]
        new = make(writer)
        total = new if self._total is None else writer.append(root, add, [self._total, new])
        self._total = total
        self._left -= 1
        if not self._left:
            writer[self._facts.starts[self._sum.root]] = total


def _itself(variable: int, writer: Writer) -> int:
    return writer[variable]


def _product(group: _Group, writer: Writer) -> int:
    """The sum of the terms of a block."""
    axes = group.axes
    joined = [
        writer.joined(group.like, group.column(place), axis) for place, axis in enumerate(axes)
    ]
    if axes == [None]:
        return writer.append(group.like, reduce_sum, joined, axis=(0,), keepdims=False)
    if len(axes) == 1:
        return writer.append(group.like, reduce_sum, joined, **dict(group.like.params))
    if axes == [1, 0]:
        return writer.append(group.like, matmul, joined)
    first, second = "ik" if axes[0] == 1 else "ki", "jk" if axes[1] == 1 else "kj"
    return writer.append(group.like, contract, joined, subscripts=f"{first},{second}->ij")

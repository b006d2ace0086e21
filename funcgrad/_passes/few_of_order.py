"""Select the first or the last elements of an order, where nobody reads the others.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.numpy.argsort(x)[-3:])(fg.numpy.ones(100))
>>> print(select(staged).to_text(sources=False))
program <lambda>(x: float64[100]) -> int64[3]
  a: int64[3] = part_of_order x axis=0 count=3 descending=False last=True
  return a

``sort(x)[:3]`` gathers the elements at these places. A partition of a short line is a sort, which
machine code has; so is a partition of a long line if only its first or last elements are read.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final, NamedTuple

from funcgrad._core.specs import Shape
from funcgrad._core.structure.index_maps import dense_strides
from funcgrad._core.structure.structures import Movement
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.indexing import deposit, gather
from funcgrad._primitives.sorting import (
    argpartition,
    argsort,
    indices_along,
    order_of_sorted,
    part_of_order,
    sort,
)
from funcgrad._primitives.structural import flip, place, reshape, view
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_LEAST: Final = 64
_SHARE: Final = 4
"""The shortest line, and its least share, from which on a selection is quicker than an order."""

_ONE, _MANY = 16, 64
"""The shares of one line, and of one among many lines, from which on a selection and a gather are
quicker than a sort, or than a partition."""

_SHORT: Final = 200
"""Sorts of lines up to this length are quicker, as machine code, than calls of a partition."""


def select(program: Program) -> Program:
    """Replace orders if only their first or last elements are read."""
    return improve(program, SELECTING)


class _Range(NamedTuple):
    """Places along an axis: ``first``, ``first + step`` and so on; the step is 1 or -1.

    The axis is gone from the result if there is one place, and ``is_dropped``.
    """

    first: int
    step: int
    length: int
    is_dropped: bool = False

    @property
    def lowest(self) -> int:
        return min(self.first, self.first + self.step * (self.length - 1))

    @property
    def highest(self) -> int:
        return max(self.first, self.first + self.step * (self.length - 1))


def _selected(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``argsort(x)[:k]`` and ``sort(x)[:k]``, also backwards, and from the end."""
    if len(equation.operands) != 1:
        return None
    middle = order = bench.makers[equation.operands[0]]
    if middle is not None and middle.operation not in _ORDERS and len(middle.operands) == 1:
        order = bench.makers[middle.operands[0]]
    if middle is None or order is None or order.operation not in _ORDERS:
        return None
    if bench.uses[middle.operands[0]] > 1 and middle is not order:
        return None
    params = dict(order.params)
    x, axis, descending = order.operands[0], params["axis"], params.get("descending", False)
    shape = bench.specs[x].shape
    outer, size = _range(bench, equation, axis), shape[axis]
    inner = _Range(0, 1, size) if middle is order else _range(bench, middle, axis)
    if outer is None or inner is None or inner.is_dropped or size < _LEAST:
        return None
    places = outer._replace(
        first=inner.first + inner.step * outer.first, step=inner.step * outer.step
    )
    is_last = size - places.lowest <= places.highest
    count = size - places.lowest if is_last else places.highest + 1
    share = _SHARE
    if order.operation is not argsort:
        share = _ONE if size == prod(shape) else _MANY
        if prod(shape[axis + 1 :]) != 1:
            return None
    if size < share * count or not bench.is_read_once(equation.operands[0]):
        return None
    settings = ("axis", axis), ("count", count), ("descending", descending), ("last", is_last)
    out = bench.put(equation, part_of_order, (x,), settings)
    if order.operation is sort:
        indices = indices_along(shape, out, axis)
        numbers = [out if a == axis else bench.constant(n) for a, n in enumerate(indices)]
        unique = ("axis", 0), ("unique", True)
        out = bench.put(equation, gather, (x, *numbers), unique)
    begin = places.first - (size - count if is_last else 0)
    return _taken(bench, equation, out, axis, places._replace(first=begin))


_ORDERS: Final = frozenset({argsort, argpartition, order_of_sorted, sort})
"""Orders, and elements in order."""


def _taken(bench: Workbench, like: Equation, x: int, axis: int, places: _Range) -> int:
    """Some places of an array along an axis."""
    shape = bench.specs[x].shape
    if places.is_dropped or places.length < shape[axis]:
        stop = places.first + places.step * places.length
        taken = slice(places.first, stop if stop >= 0 else None, places.step)
        key = Key((*[slice(None)] * axis, places.first if places.is_dropped else taken))
        return bench.put(like, view, (x,), (("key", key),))
    return x if places.step > 0 else bench.put(like, flip, (x,), (("axis", (axis,)),))


def _range(bench: Workbench, equation: Equation, axis: int) -> _Range | None:
    """The range of an axis that a movement takes, if it takes all of the others."""
    piece, shape = bench.rearrangement(equation), bench.specs[equation.operands[0]].shape
    out = equation.results[0].shape
    if piece is None or piece.shape != out or axis >= len(shape):
        return None
    others, strides = (*shape[:axis], *shape[axis + 1 :]), piece.strides
    is_dropped = out == others
    if not is_dropped:
        if len(out) != len(shape) or not out[axis] or out != _with(shape, axis, out[axis]):
            return None
        strides = (*strides[:axis], *strides[axis + 1 :])
    along = dense_strides(shape)[axis]
    if not along or piece.start % along or strides != _without(dense_strides(shape), axis):
        return None
    if is_dropped or out[axis] == 1:
        return _Range(piece.start // along, 1, 1, is_dropped)
    if abs(piece.strides[axis]) != along:
        return None
    return _Range(piece.start // along, piece.strides[axis] // along, out[axis])


def _with(shape: Shape, axis: int, size: int) -> Shape:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], *shape[axis + 1 :])


def _short(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a partition of short lines as a sort."""
    (x,), axis = equation.operands, dict(equation.params)["axis"]
    if bench.specs[x].shape[axis] > _SHORT:
        return None
    return bench.put(equation, argsort, (x,), (("axis", axis), ("descending", False)))


def _gathered(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a range of elements, which a permutation gathers, as a gather from that range."""
    maker = bench.is_made_by(equation.operands[0], gather) if equation.operands else None
    if maker is None or len(equation.operands) != 1 or not dict(maker.params)["unique"]:
        return None
    x, *indices = maker.operands
    shape = maker.results[0].shape
    if len(indices) != len(bench.specs[x].shape) or not any(
        bench.is_made_by(index, argpartition) for index in indices
    ):
        return None
    for axis in range(len(shape)):
        places = _range(bench, equation, axis)
        if places is not None and bench.is_read_once(equation.operands[0]):
            parts = [_part_of(bench, equation, index, shape, axis, places) for index in indices]
            return bench.put(equation, gather, (x, *parts), maker.params)
    return None


def _part_of(
    bench: Workbench, like: Equation, index: int, shape: Shape, axis: int, places: _Range
) -> int:
    """The part of an index that selects the places of a range."""
    size = bench.specs[index].shape
    along = axis - len(shape) + len(size)
    if along < 0:
        return index
    if size[along] == 1:
        places = _Range(0, 1, 1, places.is_dropped)
    return _taken(bench, like, index, along, places)


def _deposited(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite the deposit of zeros around some elements: only these are deposited."""
    values, *indices = equation.operands
    params = dict(equation.params)
    maker, wide = bench.makers[values], bench.specs[values].shape
    if maker is not None and maker.operation is reshape:
        maker = bench.makers[maker.operands[0]]
    if maker is None or maker.operation is not place or params["axis"]:
        return None
    key, shape = dict(maker.params)["key"], maker.results[0].shape
    if len(params["shape"]) != len(indices):
        return None
    if any(bench.specs[index].shape != wide for index in indices):
        return None
    parts = []
    for index in indices:
        if shape != wide:
            index = bench.put(equation, reshape, (index,), (("shape", shape),))
        parts.append(bench.put(equation, view, (index,), (("key", _plain(key, shape)),)))
    return bench.put(equation, deposit, (maker.operands[0], *parts), equation.params)


def _plain(key: Key, shape: Shape) -> Key:
    """A key in the form that ``_taken`` writes, so that equal parts are one equation."""
    if len(key) > len(shape) or any(type(entry) not in (int, slice) for entry in key):
        return key
    entries = []
    for entry, size in zip(key, shape, strict=False):
        if type(entry) is slice and (entry.step or 1) > 0:
            ends = entry.indices(size)
            entry = slice(None) if ends == (0, size, 1) else slice(*ends)
        entries.append(entry)
    return Key(entries)


SELECTING: Final[Rules] = MappingProxyType(
    {Movement: (_selected, _gathered), argpartition: (_short,), deposit: (_deposited,)}
)

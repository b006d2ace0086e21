"""Select the first or the last elements of an order, where nobody reads the others.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.numpy.argsort(x)[-3:])(fg.numpy.ones(100))
>>> print(select(staged).to_text(sources=False))
program <lambda>(x: float64[100]) -> int64[3]
  a: int64[3] = part_of_order x axis=0 count=3 descending=False last=True
  return a
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

from funcgrad._core.structure.index_maps import dense_strides
from funcgrad._core.structure.structures import Movement
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.sorting import argsort, part_of_order
from funcgrad._primitives.structural import flip
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_LEAST: Final = 64
_SHARE: Final = 4
"""The shortest line, and its least share, from which on a selection is quicker than a sort."""


def select(program: Program) -> Program:
    """Replace orders if only their first or last elements are read."""
    return improve(program, SELECTING)


class _Range(NamedTuple):
    """Places along an axis: ``first``, ``first + step`` and so on; the step is 1 or -1."""

    first: int
    step: int
    length: int


def _selected(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``argsort(x)[:k]``, also backwards, and from the end."""
    if len(equation.operands) != 1:
        return None
    middle = order = bench.makers[equation.operands[0]]
    if middle is not None and middle.operation is not argsort and len(middle.operands) == 1:
        order = bench.makers[middle.operands[0]]
    if middle is None or order is None or order.operation is not argsort:
        return None
    if bench.uses[middle.operands[0]] > 1 and middle is not order:
        return None
    if not bench.is_read_once(equation.operands[0]):
        return None
    x, (axis, descending) = order.operands[0], [value for _, value in order.params]
    outer, size = _range(bench, equation, axis), bench.specs[x].shape[axis]
    inner = _Range(0, 1, size) if middle is order else _range(bench, middle, axis)
    if outer is None or inner is None or size < max(_LEAST, _SHARE * outer.length):
        return None
    first, step = inner.first + inner.step * outer.first, inner.step * outer.step
    lowest = first if step > 0 else first - outer.length + 1
    if lowest not in (0, size - outer.length):
        return None
    params = ("axis", axis), ("count", outer.length), ("descending", descending)
    out = bench.put(equation, part_of_order, (x,), (*params, ("last", lowest > 0)))
    return out if step > 0 else bench.put(equation, flip, (out,), (("axis", (axis,)),))


def _range(bench: Workbench, equation: Equation, axis: int) -> _Range | None:
    """The range of an axis that a movement takes, if it takes all of the others."""
    piece, shape = bench.rearrangement(equation), bench.specs[equation.operands[0]].shape
    out = equation.results[0].shape
    if piece is None or len(out) != len(shape) or piece.shape != out or not out[axis]:
        return None
    if out != (*shape[:axis], out[axis], *shape[axis + 1 :]):
        return None
    along = dense_strides(shape)[axis]
    step = 1 if out[axis] == 1 or piece.strides[axis] == along else -1
    strides = [*dense_strides(shape)]
    strides[axis] = 0 if out[axis] == 1 else step * along
    if piece.strides != tuple(strides) or not along or piece.start % along:
        return None
    return _Range(piece.start // along, step, out[axis])


SELECTING: Final[Rules] = MappingProxyType({Movement: (_selected,)})

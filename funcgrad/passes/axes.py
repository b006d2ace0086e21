"""Axes: reductions that keep or drop theirs, and chains of reshapes, transpositions and indices.

No number is computed otherwise. A reduction with ``keepdims`` has the numbers of the one without.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(x):
...     return fnp.sum(x, axis=1)[:, None], x[1:][0]
>>> print(merge_moves(fg.program(f)(fg.tensor([[1.0, 2.0], [3.0, 4.0]]))).to_text(sources=False))
program f(x: float64[2,2]) -> float64[2,1], float64[2]
  a: float64[2,1] = sum x axis=(1,) keepdims=True
  b: float64[2] = view x key=(1, slice(None, None, None))
  return a, b
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitives import reduction as red
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.keys import Key
from funcgrad.primitives.structural import place, reshape, transpose, view
from funcgrad.programs.equation import Equation, Params
from funcgrad.programs.program import Program
from funcgrad.shape import Shape, Spec, reduced_shape

__all__ = ["MOVES", "merge_moves"]

_REDUCTIONS: Final = frozenset(
    {red.reduce_sum, red.reduce_mean, red.reduce_var, red.reduce_std, red.logsumexp}
    | {red.reduce_max, red.reduce_min, red.reduce_any, red.reduce_all, red.count_nonzero}
    | {red.position_of_max, red.position_of_min}
)
_CHOOSING: Final = frozenset({red.reduce_max, red.reduce_min, red.reduce_any, red.reduce_all})
"""Reductions of equal elements to such an element; the sum of a single -0.0 is 0.0."""


def merge_moves(program: Program) -> Program:
    """Let one operation do what several do that move elements, a reduction included."""
    return improve(program, MOVES)


# ------------------------------------------------------------------------- reshapes, transpositions


def _reshaped(bench: Workbench, equation: Equation) -> int | None:
    """Of two reshapes the last one says all."""
    maker = bench.is_made_by(equation.operands[0], reshape)
    return None if maker is None else _as_reshape(bench, equation, maker.operands[0])


def _as_reshape(bench: Workbench, equation: Equation, x: int) -> int:
    result = equation.results[0]
    if bench.specs[x] == result:
        return x
    return bench.put(equation, reshape, (x,), (("shape", result.shape),))


def _transposed(bench: Workbench, equation: Equation) -> int | None:
    """Two transpositions are one."""
    maker = bench.is_made_by(equation.operands[0], transpose)
    if maker is None:
        return None
    first, second = dict(maker.params)["axes"], dict(equation.params)["axes"]
    axes = tuple([first[axis] for axis in second])
    return bench.put(equation, transpose, maker.operands, (("axes", axes),))


# --------------------------------------------------------------------------------------- reductions


def _with_keepdims(params: Params, keepdims: bool) -> Params:
    return tuple([(name, keepdims if name == "keepdims" else value) for name, value in params])


def _reduction_of(bench: Workbench, variable: int) -> Equation | None:
    maker = bench.makers[variable]
    return maker if maker is not None and maker.operation in _REDUCTIONS else None


def _known(bench: Workbench, equation: Equation, params: Params) -> int | None:
    return bench.known(equation, equation.operation, equation.operands, params)


def _reduced(bench: Workbench, equation: Equation) -> int | None:
    """A reduction whose axes a reshape puts back, or takes away."""
    maker = _reduction_of(bench, equation.operands[0])
    if maker is None:
        return None
    params = dict(maker.params)
    x, result = bench.specs[maker.operands[0]], equation.results[0]
    keepdims = not params["keepdims"]
    if reduced_shape(x.shape, params["axis"], keepdims) != result.shape:
        return None
    others = _with_keepdims(maker.params, keepdims)
    if not bench.is_read_once(equation.operands[0]) and _known(bench, maker, others) is None:
        return None
    return bench.put(equation, maker.operation, maker.operands, others)


def _reduced_before(bench: Workbench, equation: Equation) -> int | None:
    """A reduction that has been done, but for the axes that it keeps."""
    if bench.current < 0:  # a rule wants it this way
        return None
    keepdims = not dict(equation.params)["keepdims"]
    known = _known(bench, equation, _with_keepdims(equation.params, keepdims))
    return None if known is None or not bench.uses[known] else _as_reshape(bench, equation, known)


def _choice(bench: Workbench, equation: Equation) -> int | None:
    """A reduction that chooses among equal elements: over no axis, axes of one, broadcast axes."""
    axes, x = dict(equation.params)["axis"], equation.operands[0]
    shape = bench.specs[x].shape
    if bench.specs[x].dtype != equation.results[0].dtype:  # whether any number is not zero
        return None
    if all(shape[axis] == 1 for axis in axes):
        return _as_reshape(bench, equation, x)
    maker = bench.is_made_by(x, broadcast_to)
    if maker is None or 0 in shape:
        return None
    small = bench.specs[maker.operands[0]]
    own = (1,) * (len(shape) - len(small.shape)) + small.shape
    result = equation.results[0]
    if small.weak or any(own[axis] != 1 for axis in axes):
        return None
    inner = tuple([n for axis, n in enumerate(own) if axis not in axes])
    if prod(inner) != prod(result.shape):  # more remains to be broadcast than was reduced
        if not bench.is_read_once(x):
            return None
        reshaped = _put_reshape(bench, equation, maker.operands[0], inner)
        return bench.put(equation, broadcast_to, (reshaped,), (("shape", result.shape),))
    return _as_reshape(bench, equation, maker.operands[0])


def _put_reshape(bench: Workbench, equation: Equation, x: int, shape: Shape) -> int:
    own = bench.specs[x]
    if own.shape == shape:
        return x
    return bench.put(equation, reshape, (x,), (("shape", shape),), Spec(shape, own.dtype))


# ------------------------------------------------------------------------------------------ indices


def _is_reshape(shape: Shape, key: Sequence[Any]) -> bool:
    """Whether a basic index takes every element in order, whatever it does to axes of size 1."""
    entries = _entries(shape, [entry for entry in key if entry is not None])
    return all(
        entry.indices(size) == (0, size, 1) if type(entry) is slice else size == 1
        for entry, size in zip(entries, shape, strict=True)
    )


def _entries(shape: Shape, key: Sequence[Any]) -> list[Any]:
    """An integer or a slice for each axis."""
    entries = list(key)
    missing = len(shape) - sum([entry is not ... for entry in entries])
    at = entries.index(...) if ... in entries else len(entries)
    entries[at : at + 1] = [slice(None)] * missing
    return entries


def _index_of_reduction(bench: Workbench, equation: Equation) -> int | None:
    """An index that only adds or drops axes, where a reduction or a reshape can do it as well."""
    x = equation.operands[0]
    if _reduction_of(bench, x) is None and bench.is_made_by(x, reshape) is None:
        return None
    if not _is_reshape(bench.specs[x].shape, dict(equation.params)["key"]):
        return None
    return _as_reshape(bench, equation, x)


def _placed_everywhere(bench: Workbench, equation: Equation) -> int | None:
    """Elements that are placed into zeros of which none remain."""
    params = dict(equation.params)
    shape, x = params["shape"], equation.operands[0]
    if not _is_reshape(shape, params["key"]):
        return None
    return _as_reshape(bench, equation, x)


def _index_of_index(bench: Workbench, equation: Equation) -> int | None:
    maker = bench.is_made_by(equation.operands[0], view)
    if maker is None:
        return None
    source = bench.specs[maker.operands[0]].shape
    key = _composed(source, dict(maker.params)["key"], dict(equation.params)["key"])
    return None if key is None else bench.put(equation, view, maker.operands, (("key", key),))


def _placed_twice(bench: Workbench, equation: Equation) -> int | None:
    maker = bench.is_made_by(equation.operands[0], place)
    if maker is None:
        return None
    params = dict(equation.params)
    key = _composed(params["shape"], params["key"], dict(maker.params)["key"])
    if key is None:
        return None
    return bench.put(equation, place, maker.operands, (("key", key), ("shape", params["shape"])))


def _composed(shape: Shape, first: Key, second: Key) -> Key | None:
    """The key of ``x[first][second]``, where both are integers and slices only."""
    if None in first or None in second:
        return None
    entries = _entries(shape, first)
    ranges = [range(size)[entry] for entry, size in zip(entries, shape, strict=True)]
    sizes = tuple([len(each) for each in ranges if isinstance(each, range)])
    rest = iter(_entries(sizes, second))
    chosen = [each[next(rest)] if isinstance(each, range) else each for each in ranges]
    return Key(map(_entry, chosen, shape))


def _entry(indices: range | int, size: int) -> slice | int:
    """An entry of a key for the indices that it is to choose."""
    if isinstance(indices, int):
        return indices
    if not indices:
        return slice(0, 0)
    if indices == range(size):
        return slice(None)
    stop = indices.stop if indices.stop >= 0 else None
    return slice(indices.start, stop, None if indices.step == 1 else indices.step)


MOVES: Final[Rules] = MappingProxyType(
    {
        **{
            reduction: (_choice, _reduced_before) if reduction in _CHOOSING else (_reduced_before,)
            for reduction in _REDUCTIONS
        },
        reshape: (_reshaped, _reduced),
        transpose: (_transposed,),
        view: (_index_of_reduction, _index_of_index),
        place: (_placed_everywhere, _placed_twice),
    }
)

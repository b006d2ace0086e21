"""Equations on arrays of many rows: how each is done with the rows last, and what either costs.

An array *has rows* if its first axis is one of rows; with the *rows last* that axis comes behind
the others. Costs are estimated in microseconds. They leave out what is the same in both layouts,
which is all work on single numbers: what differs is how often NumPy begins a loop.

>>> _loops((1000, 25, 10), [(1000, 1, 10), (1, 25, 10)])
25000
>>> _loops((25, 10, 1000), [(1, 10, 1000), (25, 10, 1)])
250
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from funcgrad.primitive import Primitive
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.contraction import contract, matmul, split_subscripts
from funcgrad.primitives.elementwise import batch_elementwise
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.joining import concatenate, stack
from funcgrad.primitives.products import plan_product
from funcgrad.primitives.reduction import (
    batch_reduction,
    position_of_max,
    position_of_min,
    reduce_max,
    reduce_min,
    reduce_sum,
)
from funcgrad.primitives.rows import many_rows
from funcgrad.primitives.structural import (
    assemble,
    cast_discrete,
    cast_inexact,
    place,
    reshape,
    transpose,
    unfollowed,
    view,
)
from funcgrad.programs.equation import Equation
from funcgrad.shape import Shape, Spec

__all__ = ["Product", "Rowwise", "Site", "Total", "product_time", "site_of", "turned"]

_LOOP: Final = 0.006
"""To begin an inner loop of an elementwise operation."""

_LEADING: Final = 0.015
"""To begin one of a reduction over leading axes."""

_ROW: Final = 0.03
"""To reduce one row."""

_CALL_OF_BLAS: Final = 0.8
_ROW_IN_BLAS: Final = 0.006
"""To sum many short rows, see ``primitives/rows.py``, and for each that is not one of a matrix."""

_COLUMN: Final = 0.0006
"""For each number, to copy rows to columns, of which the extrema are found sooner."""

_MANY: Final = 64
_SHORT: Final = 32
"""How many rows are reduced so, and up to which length."""

_POSITION: Final = 0.001
"""For each number, to find a greatest one along another axis than the last: NumPy copies."""

_STRIDE: Final = 0.0005
"""For each number that a product of stacks of matrices does not read or write as it lies."""

_COPY: Final = 1.0
_COPY_NUMBER: Final = 0.002
"""To copy an array for such a product, or as its result is not in C order, and for each number."""

_CALL: Final = 0.2
"""To reshape an operand to a column."""


@dataclass(frozen=True, slots=True)
class Rowwise:
    """An equation whose result has rows, made of those of its operands.

    Attributes
    ----------
    result : int
    rows : tuple of int
        The operands that have rows; others are the same for all rows.
    params : mapping
        Those with the rows last.
    times : tuple of two float
        What it costs with the rows first, and last.
    """

    result: int
    rows: tuple[int, ...]
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Total:
    """An equation that reads the rows of its operand as they lie; its result has none.

    Attributes
    ----------
    operand : int
    params : mapping
        Those with the rows last.
    times : tuple of two float
        What it costs with the rows first, and last.
    """

    operand: int
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two arrays, which reads and writes rows as they lie, where there are any.

    Attributes
    ----------
    operands : tuple of two int
    result : int
    letters : tuple of three str
        The subscripts of the operands and of the result, with the rows first.
    """

    operands: tuple[int, ...]
    result: int
    letters: tuple[str, str, str]


Site: TypeAlias = Rowwise | Total | Product


def turned(parts: Sequence[Any]) -> tuple[Any, ...]:
    """What belongs to the axes of an array, with that of the rows last.

    >>> turned((1000, 25, 10))
    (25, 10, 1000)
    """
    return (*parts[1:], *parts[:1])


def site_of(
    equation: Equation, shapes: Sequence[Shape], result: int, with_rows: Container[int]
) -> Site | None:
    """How an equation is done with rows last; None where it is not.

    Parameters
    ----------
    equation : Equation
        Of a primitive.
    shapes : sequence of Shape
        Of the operands.
    result : int
        The variable that it defines.
    with_rows : container of int
        The variables that have rows.
    """
    operation = equation.operation
    if operation in (contract, matmul):
        letters = _letters(equation, *shapes)
        return None if letters is None else Product(equation.operands, result, letters)
    if _is_elementwise(operation) and result in with_rows:
        return _elementwise(equation, shapes, result)
    if not equation.operands or any(v not in with_rows for v in equation.operands):
        return None
    if operation.batch is batch_reduction:
        return _reduction(equation, shapes[0], result)
    found = _moved(equation, shapes, result) if result in with_rows else None
    if found is not None or operation is not transpose:
        return found
    axes = _axes_with_rows_last(dict(equation.params)["axes"])
    return Total(equation.operands[0], {"axes": axes}, (0.0, 0.0))


# ------------------------------------------------------------------------ elementwise operations

_COPIES: Final = frozenset({broadcast_to, cast_inexact, cast_discrete, unfollowed})


def _is_elementwise(operation: Primitive) -> bool:
    return operation.batch is batch_elementwise or operation in _COPIES


def _elementwise(equation: Equation, shapes: Sequence[Shape], result: int) -> Rowwise:
    own = equation.results[0].shape
    rows = [
        variable
        for variable, shape in zip(equation.operands, shapes, strict=True)
        if len(shape) == len(own) and shape[0] == own[0]
    ]
    times = (_LOOP, _LOOP)
    if any(shape and shape != own for shape in shapes):
        padded = [(1,) * (len(own) - len(shape)) + shape for shape in shapes if shape]
        columns = sum([shape[0] == 1 < prod(shape) for shape in padded])
        last = _LOOP * _loops(turned(own), [turned(shape) for shape in padded])
        times = (_LOOP * _loops(own, padded), last + _CALL * columns)
    params = dict(equation.params)
    if equation.operation is broadcast_to:
        params["shape"] = turned(own)
    return Rowwise(result, tuple(rows), params, times)


def _loops(shape: Shape, operands: Sequence[Shape]) -> int:
    """How many inner loops an operation on operands of one rank has.

    Axes along which each operand either goes on or stays where it is are one in memory.
    """
    inner = 1
    known: list[bool] = []
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            goes_on = [own[axis] > 1 for own in operands]
            if known and known != goes_on:
                break
            inner, known = inner * shape[axis], goes_on
    return prod(shape) // inner


# ------------------------------------------------------------------------------------ reductions


def _reduction(equation: Equation, shape: Shape, result: int) -> Site:
    operation, params = equation.operation, dict(equation.params)
    dtype = equation.results[0].dtype  # a sum of bool is one of integers: neither uses BLAS
    axes = params["axis"]
    params["axis"] = tuple(sorted([(axis - 1) % len(shape) for axis in axes]))
    times = (
        _reduction_time(operation, Spec(shape, dtype), axes),
        _reduction_time(operation, Spec(turned(shape), dtype), params["axis"]),
    )
    if 0 in axes:
        return Total(equation.operands[0], params, times)
    return Rowwise(result, equation.operands, params, times)


def _reduction_time(operation: Primitive, spec: Spec, axes: tuple[int, ...]) -> float:
    """What it costs to begin with each of the stretches of numbers that lie side by side."""
    shape = spec.shape
    along = [axis in axes for axis in range(len(shape)) if shape[axis] > 1] or [False]
    sizes = [size for size in shape if size > 1]
    inner = 1
    while sizes and along[len(sizes) - 1] == along[-1]:
        inner *= sizes.pop()
    rows, over_rows = prod(sizes), along[-1]
    if operation in (position_of_max, position_of_min):
        return 0.0 if over_rows else _POSITION * prod(shape)
    if not over_rows:
        return _LEADING * rows
    if operation is reduce_sum and many_rows(shape, spec.dtype.char, axes):
        return _CALL_OF_BLAS + _ROW_IN_BLAS * rows * (len(shape) > 2)
    if operation in (reduce_sum, reduce_max, reduce_min) and inner <= _SHORT and rows >= _MANY:
        return _COLUMN * prod(shape)
    return _ROW * rows


# ------------------------------------------------------------------------- moves within the rows

Params: TypeAlias = "Mapping[str, Any]"


def _axes_with_rows_last(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([(axis - 1) % len(axes) for axis in axes])


def _turned_axis(params: Params, _: Shape) -> Params | None:
    return {"axis": params["axis"] - 1} if params["axis"] > 0 else None


def _turned_axes(params: Params, _: Shape) -> Params | None:
    axes = params["axes"]
    return {"axes": turned(_axes_with_rows_last(axes))} if axes[0] == 0 else None


def _turned_shape(params: Params, _: Shape) -> Params | None:
    return {"shape": turned(params["shape"])}


def _turned_key(params: Params, shape: Shape) -> Params | None:
    """For an index that takes all rows."""
    key = params["key"]
    if key and type(key[0]) is slice and key[0].indices(shape[0]) == (0, shape[0], 1):
        key = key[1:]
    elif not key or key[0] is not ... or sum([e is not None for e in key[1:]]) >= len(shape):
        return None
    return {"key": Key((*key, slice(None)))}


def _turned_place(params: Params, _: Shape) -> Params | None:
    found = _turned_key(params, params["shape"])
    return None if found is None else {**found, "shape": turned(params["shape"])}


def _turned_keys(params: Params, _: Shape) -> Params | None:
    shape = params["shape"]
    found = [_turned_key({"key": key}, shape) for key in params["keys"]]
    if None in found:
        return None
    return {"keys": tuple([key["key"] for key in found if key]), "shape": turned(shape)}


_MOVES: Final[Mapping[Any, Callable[[Params, Shape], Params | None]]] = MappingProxyType(
    {
        concatenate: _turned_axis,
        stack: _turned_axis,
        transpose: _turned_axes,
        reshape: _turned_shape,
        view: _turned_key,
        place: _turned_place,
        assemble: _turned_keys,
    }
)
"""``(params, shape of the first operand) -> params with rows last``; None if rows do not stay."""

_COPYING: Final = frozenset({concatenate, stack, place, assemble})


def _moved(equation: Equation, shapes: Sequence[Shape], result: int) -> Rowwise | None:
    operation, own = equation.operation, equation.results[0].shape
    if operation not in _MOVES or any(shape[0] != own[0] for shape in shapes):
        return None
    params = _MOVES[operation](dict(equation.params), shapes[0])
    if params is None:
        return None
    times = (0.0, 0.0)
    if operation in _COPYING:
        times = (_LOOP * prod(own[:-1]), _LOOP * prod(own[1:]))
    return Rowwise(result, equation.operands, params, times)


# ----------------------------------------------------------------------------- products of arrays


def _letters(equation: Equation, x: Shape, y: Shape) -> tuple[str, str, str] | None:
    """The subscripts of a product of arrays; None where stacks of matrices are broadcast."""
    if equation.operation is contract:
        return split_subscripts(dict(equation.params)["subscripts"])
    if x[:-2] and y[:-2] and x[:-2] != y[:-2]:
        return None
    stacked = "defghijklmnopqrstuvwxyz"[: max(len(x), len(y), 2) - 2]
    first = (stacked * (len(x) > 2)) + "ab"[2 - min(len(x), 2) :]
    second = (stacked * (len(y) > 2)) + "bc"[: min(len(y), 2)]
    return first, second, stacked + "a" * (len(x) > 1) + "c" * (len(y) > 1)


def product_time(letters: tuple[str, str, str], x: Spec, y: Spec) -> float:
    """What it costs that arrays do not lie as a product of theirs wants them to.

    Parameters
    ----------
    letters : tuple of three str
        The subscripts of the operands and of the result, as they lie.
    x, y : Spec
    """
    first, second, out = letters
    sizes = dict(zip(first + second, x.shape + y.shape, strict=True))
    is_complex = "c" in (x.dtype.kind, y.dtype.kind)
    product = plan_product(f"{first},{second}->{out}", x.shape, y.shape, is_complex)
    if product is None:  # a loop over all indices
        order = out + "".join([c for c in first if c not in out])
        shapes = [tuple([sizes[c] if c in own else 1 for c in order]) for own in letters]
        return _LOOP * _loops(tuple([sizes[c] for c in order]), shapes)
    sides = (product.right, product.left) if product.swapped else (product.left, product.right)
    arranged = [(side.axes, side.dense) for side in sides]
    arranged.append((product.axes, product.target is None))
    pairs = zip(letters, arranged, strict=True)
    return sum([_stride_time(prod([sizes[c] for c in own]), *each) for own, each in pairs])


def _stride_time(size: int, axes: Sequence[int] | None, copied: bool) -> float:
    """What it costs that a stack of so many numbers is not in its order.

    That matrices are transposed costs nothing where they need not be copied.
    """
    if axes is None:
        return 0.0
    if copied:
        return _COPY + _COPY_NUMBER * size
    lead = len(axes) - 2
    return 0.0 if tuple(axes) == (*range(lead), lead + 1, lead) else _STRIDE * size

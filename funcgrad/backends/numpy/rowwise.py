"""Equations on arrays of many rows: how each is done with the rows last, and the cost of both ways.

An array *has rows* if its first axis counts many rows; with *rows last* that axis is moved to the
end. Costs are estimated in microseconds. They omit the work on single numbers, which is the same in
both layouts, and count the inner loops that NumPy starts, which differ.

>>> _loops((1000, 25, 10), [(1000, 1, 10), (1, 25, 10)])
25000
>>> _loops((25, 10, 1000), [(1, 10, 1000), (25, 10, 1)])
250
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from funcgrad.folds import GREATEST, LEAST, SUM
from funcgrad.primitive import Primitive
from funcgrad.primitives.movement import behind
from funcgrad.primitives.products import plan_product
from funcgrad.primitives.rows import many_rows
from funcgrad.primitives.structural import transpose
from funcgrad.programs.equation import Equation
from funcgrad.programs.structures import axes_along, letters_of, rearranged
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Shape, Spec
from funcgrad.structure import Contraction, Elementwise, Movement, Reduction

_LOOP: Final = 0.006
"""The time to start an inner loop of an elementwise operation."""

_LEADING: Final = 0.015
"""The time to start an inner loop of a reduction over leading axes."""

_ROW: Final = 0.03
"""The time to reduce one row."""

_CALL_OF_BLAS: Final = 0.8
_ROW_IN_BLAS: Final = 0.006
"""The time to sum many short rows by BLAS (``primitives/rows.py``), and for each row of arrays that
are not matrices."""

_COLUMN: Final = 0.0006
"""The time per number to copy rows to columns, which are then reduced faster."""

_MANY: Final = 64
_SHORT: Final = 32
"""The fewest rows that are reduced as columns, and the greatest length of such rows."""

_POSITION: Final = 0.001
"""The time per number of ``argmax`` along an axis that is not the last: NumPy copies."""

_STRIDE: Final = 0.0005
"""The time per number that a product of stacks of matrices reads or writes with a stride."""

_COPY: Final = 1.0
_COPY_NUMBER: Final = 0.002
"""The time to copy an array for a product of stacks, or its result to C order; and per number."""

_CALL: Final = 0.2
"""The time to reshape an operand to a column."""


@dataclass(frozen=True, slots=True)
class Rowwise:
    """An equation whose result has rows, each computed from the same row of its operands.

    Attributes
    ----------
    result : int
    rows : tuple of int
        The operands that have rows; the others are the same for all rows.
    params : mapping
        The parameters with the rows last.
    times : tuple of two float
        The cost with the rows first, and last.
    """

    result: int
    rows: tuple[int, ...]
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Total:
    """An equation that reads rows in either layout, and whose result has no rows.

    Attributes
    ----------
    operand : int
    operation : Primitive
        The operation with the rows last.
    params : mapping
        Its parameters with the rows last.
    times : tuple of two float
        The cost with the rows first, and last.
    """

    operand: int
    operation: Primitive
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two arrays, which reads and writes arrays with rows in either layout.

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


def site_of(
    equation: Equation, specs: Sequence[Spec], result: int, with_rows: Container[int]
) -> Site | None:
    """How an equation is done with rows last; None if it cannot be.

    Parameters
    ----------
    equation : Equation
    specs : sequence of Spec
        Specs by variable.
    result : int
        The variable that the equation defines.
    with_rows : container of int
        The variables that have rows; they are not empty.
    """
    structure, operands = equation.operation.structure, equation.operands
    if isinstance(structure, Contraction):
        letters = letters_of(equation, specs)
        return None if letters is None else Product(operands, result, letters)
    shapes = [specs[variable].shape for variable in operands]
    params: Mapping[str, Any] | None = None
    if result in with_rows:
        if isinstance(structure, Elementwise):
            params = dict(equation.params)
        elif isinstance(structure, Movement) and structure.rows_last is not None:
            params = structure.rows_last(*shapes, **dict(equation.params))
    if params is not None:
        site = _within_rows(equation, shapes, result, params)
        return site if all(variable in with_rows for variable in site.rows) else None
    if not operands or any(variable not in with_rows for variable in operands):
        return None
    if isinstance(structure, Reduction):
        return _reduction(equation, structure, shapes[0], result)
    piece = rearranged(equation, specs)
    axes = None if piece is None else axes_along(piece, shapes[0])
    if axes is None or None in axes or len(axes) != len(shapes[0]):
        return None
    order = tuple([(axis - 1) % len(axes) for axis in axes if axis is not None])
    return Total(operands[0], transpose, {"axes": order}, (0.0, 0.0))


# -------------------------------------------------------------------- operations within the rows


def _within_rows(
    equation: Equation, shapes: Sequence[Shape], result: int, params: Mapping[str, Any]
) -> Rowwise:
    result_shape = equation.results[0].shape
    aligns = isinstance(equation.operation.structure, Elementwise)
    rows = [
        variable
        for variable, shape in zip(equation.operands, shapes, strict=True)
        if shape[:1] == result_shape[:1] and (not aligns or len(shape) == len(result_shape))
    ]
    return Rowwise(result, tuple(rows), params, _times(equation, shapes))


def _times(equation: Equation, shapes: Sequence[Shape]) -> tuple[float, float]:
    result_shape, structure = equation.results[0].shape, equation.operation.structure
    if isinstance(structure, Movement) and structure.is_view:
        return 0.0, 0.0
    if not all(_broadcasts(shape, result_shape) for shape in shapes):
        return _LOOP * prod(result_shape[:-1]), _LOOP * prod(result_shape[1:])
    if all(not shape or shape == result_shape for shape in shapes):
        return _LOOP, _LOOP
    padded = [(1,) * (len(result_shape) - len(shape)) + shape for shape in shapes if shape]
    columns = sum([shape[0] == 1 < prod(shape) for shape in padded])
    last = _LOOP * _loops(behind(result_shape), [behind(shape) for shape in padded])
    return _LOOP * _loops(result_shape, padded), last + _CALL * columns


def _broadcasts(shape: Shape, result_shape: Shape) -> bool:
    ones = len(result_shape) - len(shape)
    return ones >= 0 and all(n in (1, m) for n, m in zip(shape, result_shape[ones:], strict=True))


def _loops(shape: Shape, operands: Sequence[Shape]) -> int:
    """How many inner loops an operation on operands of one rank has.

    Adjacent axes are one loop if each operand either has both of them or is broadcast along both.
    """
    inner = 1
    known: list[bool] = []
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            has_axis = [operand[axis] > 1 for operand in operands]
            if known and known != has_axis:
                break
            inner, known = inner * shape[axis], has_axis
    return prod(shape) // inner


# ------------------------------------------------------------------------------------ reductions


def _reduction(equation: Equation, structure: Reduction, shape: Shape, result: int) -> Site:
    operation, params = equation.operation, dict(equation.params)
    dtype = equation.results[0].dtype  # a sum of bool is one of integers: neither uses BLAS
    axes = params["axis"]
    params["axis"] = tuple(sorted([(axis - 1) % len(shape) for axis in axes]))
    is_position = structure.fold is not None and structure.fold.finish is not None
    times = (
        _reduction_time(structure, is_position, Spec(shape, dtype), axes),
        _reduction_time(structure, is_position, Spec(behind(shape), dtype), params["axis"]),
    )
    if 0 in axes:
        return Total(equation.operands[0], operation, params, times)
    return Rowwise(result, equation.operands, params, times)


def _reduction_time(
    structure: Reduction, is_position: bool, spec: Spec, axes: tuple[int, ...]
) -> float:
    """The time that a reduction takes to start its inner loops."""
    shape = spec.shape
    along = [axis in axes for axis in range(len(shape)) if shape[axis] > 1] or [False]
    sizes = [size for size in shape if size > 1]
    inner = 1
    while sizes and along[len(sizes) - 1] == along[-1]:
        inner *= sizes.pop()
    rows, over_rows = prod(sizes), along[-1]
    if is_position:
        return 0.0 if over_rows else _POSITION * prod(shape)
    if not over_rows:
        return _LEADING * rows
    if structure.fold is SUM and many_rows(shape, spec.dtype.char, axes):
        return _CALL_OF_BLAS + _ROW_IN_BLAS * rows * (len(shape) > 2)
    by_columns = structure.fold in (SUM, GREATEST, LEAST)
    if by_columns and inner <= _SHORT and rows >= _MANY:
        return _COLUMN * prod(shape)
    return _ROW * rows


# ----------------------------------------------------------------------------- products of arrays


def product_time(letters: tuple[str, str, str], x: Spec, y: Spec) -> float:
    """The time that a product loses because its arrays are not in the order that BLAS needs.

    Parameters
    ----------
    letters : tuple of three str
        The subscripts of the operands and of the result, in their layouts.
    x, y : Spec
    """
    first, second, out = letters
    sizes = dict(zip(first + second, x.shape + y.shape, strict=True))
    is_complex = "c" in (x.dtype.kind, y.dtype.kind)
    product = plan_product(f"{first},{second}->{out}", x.shape, y.shape, is_complex)
    if product is None:  # a loop over all indices
        order = out + "".join([c for c in first if c not in out])
        shapes = [
            tuple([sizes[c] if c in subscripts else 1 for c in order]) for subscripts in letters
        ]
        return _LOOP * _loops(tuple([sizes[c] for c in order]), shapes)
    sides = (product.right, product.left) if product.swapped else (product.left, product.right)
    arranged = [(side.axes, side.dense) for side in sides]
    arranged.append((product.axes, product.target is None))
    pairs = zip(letters, arranged, strict=True)
    return sum(
        [
            _stride_time(prod([sizes[c] for c in subscripts]), *layout)
            for subscripts, layout in pairs
        ]
    )


def _stride_time(size: int, axes: Sequence[int] | None, copied: bool) -> float:
    """The time lost by a stack of ``size`` numbers whose axes are permuted by ``axes``.

    Transposed matrices cost nothing unless they are copied.
    """
    if axes is None:
        return 0.0
    if copied:
        return _COPY + _COPY_NUMBER * size
    lead = len(axes) - 2
    return 0.0 if tuple(axes) == (*range(lead), lead + 1, lead) else _STRIDE * size

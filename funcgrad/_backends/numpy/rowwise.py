"""How equations compute with the rows of their arrays last, and the cost of both layouts.

An array *has rows* if its first axis counts many rows. With *rows last* that axis is moved to the
end. A cost is the estimated time, in microseconds, for the inner loops that NumPy starts. It omits
the work on single elements, which is the same in both layouts, and products, since BLAS reads both.

>>> _loops((1000, 25, 10), [(1000, 1, 10), (1, 25, 10)])
25000
>>> _loops((25, 10, 1000), [(1, 10, 1000), (25, 10, 1)])
250
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any, Final, TypeAlias

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.structures import Contraction, Elementwise, Movement, Reduction
from funcgrad._primitives.movement import behind
from funcgrad._primitives.structural import transpose
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import axes_along, letters_of, rearranged

_LOOP: Final = 0.006
"""The time to start an inner loop of an elementwise operation."""

_ROW: Final = 0.03
"""The time to start an inner loop of a reduction."""

_CALL: Final = 0.2
"""The time to reshape an operand to a column."""


@dataclass(frozen=True, slots=True)
class Rowwise:
    """An equation whose result has rows, each computed from the same row of its operands.

    Attributes
    ----------
    result : int
    rows : tuple of int
        The operands that have rows. All rows share the other operands.
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
    """An equation that reads rows in either layout, and has a result without rows.

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
    """A product of two arrays. It reads and writes arrays with rows in either layout.

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
    """Find how an equation computes with rows last; None if it cannot.

    Parameters
    ----------
    equation : Equation
    specs : sequence of Spec
        Specs by variable.
    result : int
        The variable that the equation defines.
    with_rows : container of int
        The variables that have rows. None of them is empty.
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
        return _reduction(equation, shapes[0], result)
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
    """Count the inner loops of an operation on operands of one rank.

    Adjacent axes are one loop if each operand either has both axes or is broadcast along both.
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


def _reduction(equation: Equation, shape: Shape, result: int) -> Site:
    operation, params = equation.operation, dict(equation.params)
    axes = params["axis"]
    params["axis"] = tuple(sorted([(axis - 1) % len(shape) for axis in axes]))
    times = _reduction_time(shape, axes), _reduction_time(behind(shape), params["axis"])
    if 0 in axes:
        return Total(equation.operands[0], operation, params, times)
    return Rowwise(result, equation.operands, params, times)


def _reduction_time(shape: Shape, axes: tuple[int, ...]) -> float:
    """Estimate the time to start the inner loops of a reduction, each over adjacent axes."""
    along = [axis in axes for axis in range(len(shape)) if shape[axis] > 1] or [False]
    sizes = [size for size in shape if size > 1]
    while sizes and along[len(sizes) - 1] == along[-1]:
        sizes.pop()
    return _ROW * prod(sizes)

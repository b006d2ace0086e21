"""Broadcasts and reshapes move towards the results, so that operations work on the smaller arrays.

Only operations whose result for an element is exact, or the nearest number, move past them: others,
such as ``exp``, may round otherwise where arrays lie otherwise in memory.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(x, row):
...     return fnp.broadcast_to(row * 3.0, x.shape) * 0.1
>>> print(sink_broadcasts(fg.program(f)(fnp.ones((4, 2)), fnp.ones(2))).to_text(sources=False))
program f(x: float64[4,2], row: float64[2]) -> float64[4,2]
  a = constant 3.0
  b = constant 0.1
  c: float64[2] = multiply row a
  d: float64[2] = multiply c b
  e: float64[4,2] = broadcast_to d shape=(4, 2)
  return e
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitive import Primitive
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.structural import reshape
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Shape, Spec
from funcgrad.structure import Trait

__all__ = ["SINKING", "sink_broadcasts"]


def sink_broadcasts(program: Program) -> Program:
    """Let elementwise operations of real numbers work on small operands, and broadcast after them.

    Where all operands are broadcast, or reshaped from one shape, that is done once, after the
    operation; and so where one operand is reshaped, along axes that no other has.
    """
    return improve(program, SINKING)


def _shape_of(bench: Workbench, operands: tuple[int, ...]) -> Shape:
    return np.broadcast_shapes(*[bench.specs[variable].shape for variable in operands])


def _is_real(bench: Workbench, operands: tuple[int, ...]) -> bool:
    return all(bench.specs[variable].dtype.kind != "c" for variable in operands)


def _sunk(bench: Workbench, equation: Equation) -> int | None:
    """An operation on operands that all are broadcast, or that all are reshaped from one shape."""
    operands, result = equation.operands, equation.results[0]
    operation: Primitive | None = None
    for variable in operands:
        if bench.specs[variable].shape:
            maker = bench.makers[variable]
            if maker is None or (operation is not None and maker.operation is not operation):
                return None
            operation = maker.operation
    if operation is None or operation not in (broadcast_to, reshape):
        return None
    if not _is_real(bench, operands) or result.dtype.kind == "c":
        return None
    smaller = [_operand(bench, variable) for variable in operands]
    pairs = list(zip(operands, smaller, strict=True))
    moved = {x for x, small in pairs if x != small}
    if not all(bench.is_read_once(variable) for variable in moved):
        return None
    if any(bench.specs[small].weak != bench.specs[x].weak for x, small in pairs):
        return None
    shapes = {bench.specs[small].shape for small in smaller if bench.specs[small].shape}
    if operation is reshape and (len(moved) < 2 or len(shapes) > 1):
        return None
    shape = _shape_of(bench, tuple(smaller))
    if operation is reshape and np.prod(shape) != np.prod(result.shape):
        return None
    inner = bench.put(
        equation, equation.operation, tuple(smaller), equation.params, Spec(shape, result.dtype)
    )
    if shape == result.shape:
        return inner
    return bench.put(equation, operation, (inner,), (("shape", result.shape),))


def _expanded(bench: Workbench, equation: Equation) -> int | None:
    """An operation on one operand that is reshaped, none of whose other operands has the axes that
    this changes: they align with the last ones, which stay."""
    result = equation.results[0]
    for place, variable in enumerate(equation.operands):
        maker = bench.makers[variable]
        if maker is None or maker.operation is not reshape or not bench.is_read_once(variable):
            continue
        (inner,) = maker.operands
        others = [v for k, v in enumerate(equation.operands) if k != place]
        same = _common(bench.specs[inner].shape, bench.specs[variable].shape)
        if (
            bench.specs[variable].shape != result.shape
            or not all(
                _fits(bench.specs[other].shape, bench.specs[inner].shape, same) for other in others
            )
            or not _is_real(bench, equation.operands)
            or bench.specs[inner].weak
            or inner in others
        ):
            continue
        smaller = (*equation.operands[:place], inner, *equation.operands[place + 1 :])
        spec = Spec(bench.specs[inner].shape, result.dtype)
        made = bench.put(equation, equation.operation, smaller, equation.params, spec)
        return bench.put(equation, reshape, (made,), (("shape", result.shape),))
    return None


def _fits(other: Shape, inner: Shape, same: int) -> bool:
    """Whether an operand has only axes of size 1 before the last ones that stay the same."""
    return len(other) <= len(inner) and all(
        size == 1 for size in other[: max(len(other) - same, 0)]
    )


def _common(first: Shape, second: Shape) -> int:
    """How many of the last axes of two shapes are the same."""
    count = 0
    for own, other in zip(reversed(first), reversed(second), strict=False):
        if own != other:
            break
        count += 1
    return count


def _operand(bench: Workbench, variable: int) -> int:
    """The variable that an operand with axes is broadcast or reshaped from; else the operand."""
    maker = bench.makers[variable] if bench.specs[variable].shape else None
    return variable if maker is None else maker.operands[0]


SINKING: Final[Rules] = MappingProxyType({Trait.ROUNDED_ONCE: (_sunk, _expanded)})
"""For operations whose elements do not depend on how their operands lie in memory. Those of
``fmax`` and ``fmin`` do: between zeros of either sign they choose by the place in the array."""

"""Move reshapes towards the results, so that operations work on arrays with fewer axes.

Only correctly rounded operations are done before a reshape: others, such as ``exp``, may round
differently if an array has another layout in memory.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(x, row):
...     return fnp.reshape(fnp.sin(x), (4, 1, 2)) * row
>>> print(sink_reshapes(fg.program(f)(fnp.ones((4, 2)), fnp.ones(2))).to_text(sources=False))
program f(x: float64[4,2], row: float64[2]) -> float64[4,1,2]
  a: float64[4,2] = sin x
  b: float64[4,2] = multiply a row
  c: float64[4,1,2] = reshape b shape=(4, 1, 2)
  return c
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.structures import Movement, Trait
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.structural import reshape
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import keeps_order
from funcgrad._programs.program import Program


def sink_reshapes(program: Program) -> Program:
    """Do real elementwise operations first, and reshape the result.

    One operand is reshaped along axes that no other operand has, or the only operand is. Then the
    result is reshaped instead.
    """
    return improve(program, SINKING)


def _moved_from(bench: Workbench, variable: int) -> int | None:
    """The operand of the movement with one operand that makes a variable, or None."""
    maker = bench.makers[variable]
    if maker is None or len(maker.operands) != 1:
        return None
    structure = maker.operation.structure
    return maker.operands[0] if isinstance(structure, Movement) else None


def _is_as_large(bench: Workbench, variable: int, inner: int) -> bool:
    return prod(bench.specs[inner].shape) == prod(bench.specs[variable].shape)


def _is_reshape(bench: Workbench, variable: int, inner: int) -> bool:
    if not _is_as_large(bench, variable, inner):
        return False  # a quick test first
    piece = bench.rearranged(variable)
    return piece is not None and keeps_order(piece, bench.specs[inner].shape)


def _expanded(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite an operation with one reshaped operand, if no other operand has the changed axes.

    The others align with the last axes, which the reshape keeps."""
    specs, result = bench.specs, equation.results[0]
    for place, variable in enumerate(equation.operands):
        inner = _moved_from(bench, variable)
        if inner is None or specs[variable].shape != result.shape:
            continue
        if not _is_as_large(bench, variable, inner):
            continue
        others = [v for k, v in enumerate(equation.operands) if k != place]
        inner_shape = specs[inner].shape
        same = _common(inner_shape, specs[variable].shape)
        if (
            not all(_fits(specs[other].shape, inner_shape, same) for other in others)
            or not _is_real(bench, equation.operands)
            or specs[inner].weak
            or inner in others
            or not _is_reshape(bench, variable, inner)
            or not bench.is_read_once(variable)
        ):
            continue
        smaller = (*equation.operands[:place], inner, *equation.operands[place + 1 :])
        spec = Spec(inner_shape, result.dtype)
        made = bench.put(equation, equation.operation, smaller, equation.params, spec)
        return bench.put(equation, reshape, (made,), (("shape", result.shape),))
    return None


def _is_real(bench: Workbench, operands: tuple[int, ...]) -> bool:
    return all(bench.specs[variable].dtype.kind != "c" for variable in operands)


def _fits(other: Shape, inner: Shape, same: int) -> bool:
    """Whether an operand has only axes of size 1 before the last ``same`` axes."""
    return len(other) <= len(inner) and all(
        size == 1 for size in other[: max(len(other) - same, 0)]
    )


def _common(first: Shape, second: Shape) -> int:
    """The number of trailing axes that two shapes have in common."""
    count = 0
    for size, other in zip(reversed(first), reversed(second), strict=False):
        if size != other:
            break
        count += 1
    return count


SINKING: Final[Rules] = MappingProxyType({Trait.ROUNDED_ONCE: (_expanded,)})
"""Rules for operations whose results do not depend on the layout of arrays in memory. ``fmax`` and
``fmin`` do: the place in the array decides between zeros of different sign."""

"""Loops over stacks of matrices as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.views import View
from funcgrad._core.specs import Shape


def each_example(
    site: FunctionSite,
    stack: Shape,
    arrays: Sequence[tuple[View, int]],
    dtype: np.dtype[Any],
    body: Callable[[Sequence[str]], None],
    span: tuple[str, str] | None = None,
) -> None:
    """Write loops over a stack.

    Parameters
    ----------
    site : FunctionSite
    stack : tuple of int
    arrays : sequence of (View, int)
        With the number of axes of an example. The others broadcast to the stack.
    dtype : dtype
    body : callable
        Writes the code of one example, from the addresses of its arrays.
    span : (begin, end), optional
        The steps of the first loop that are written.
    """
    one = FloatRegisters(site.lines, dtype, 1, site.module.fuses)
    outermost = first_loop(stack)
    strides = [_stack_strides(view, core, len(stack)) for view, core in arrays]

    def loops(axis: int, pointers: Sequence[str]) -> None:
        if axis == len(stack):
            body(pointers)
            return
        if stack[axis] == 1:
            loops(axis + 1, pointers)
            return

        def step(index: str, _: Sequence[str]) -> Sequence[str]:
            moved = [
                one.row(pointer, index, steps[axis]) if steps[axis] else pointer
                for pointer, steps in zip(pointers, strides, strict=True)
            ]
            loops(axis + 1, moved)
            return ()

        start, stop = span if span is not None and axis == outermost else (0, stack[axis])
        site.lines.counted(stop, step, start=start)

    loops(0, [one.at(site.pointer(view.buffer), view.offset) for view, _ in arrays])


def first_loop(stack: Shape) -> int | None:
    """The axis of a stack that the first loop goes along."""
    return next((axis for axis, size in enumerate(stack) if size != 1), None)


def _stack_strides(view: View, core: int, rank: int) -> list[int]:
    count = len(view.shape) - core
    axes = zip(view.shape[:count], view.strides[:count], strict=True)
    return [0] * (rank - count) + [0 if size == 1 else stride for size, stride in axes]

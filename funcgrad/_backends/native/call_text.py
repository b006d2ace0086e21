"""Calls of NumPy as text, and loops over stacks of matrices.

Its inner loops run over whole arrays; operations without one are called back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import memory_type
from funcgrad._backends.native.plan_steps import AxisSweep, Callback, EquationStep, Sweep
from funcgrad._backends.native.same_bits import AddingLoop
from funcgrad._backends.native.symbol_table import loop_recipes
from funcgrad._backends.native.views import View
from funcgrad._core.specs import Shape

_OPERATIONS: Final = 8
"""About how many operations on numbers an element of an inner loop takes: a nanosecond."""

_STRETCH: Final = 1024
"""Elements of an array that one call of an inner loop does, as a whole."""


def write_sweep(site: FunctionSite, step: Sweep) -> None:
    """Write the call of a ufunc's inner loop."""
    specs = [site.plan.specs[v] for v in (*step.operands, step.variable)]
    pointers = [*map(site.at, step.operands), site.pointer(step.variable)]
    strides = [spec.dtype.itemsize if spec.shape else 0 for spec in specs]
    count = prod(specs[-1].shape)
    site.work += _OPERATIONS * count
    if not step.may_raise and site.is_shared(count):
        _share_sweep(site, step, strides, count)
        return
    call_loop(site, step.ufunc, step.dtypes, pointers, [count], strides)
    if step.may_raise:  # such as a power of an integer, which may be refused
        raised = site.lines.call("i1", "has_raised")
        site.continue_if(site.lines.op(f"xor i1 {raised}, true"))


def _share_sweep(site: FunctionSite, step: Sweep, strides: Sequence[int], count: int) -> None:
    """Write the call of an inner loop for ranges of an array, which threads share."""

    def write() -> None:
        lines = site.lines
        first, end = [lines.op(f"mul i64 {place}, {_STRETCH}") for place in ("%begin", "%end")]
        end = lines.call("i64", "llvm.smin.i64", ("i64", end), ("i64", str(count)))
        pointers = [
            lines.address(pointer, lines.op(f"mul i64 {first}, {stride}"))
            for pointer, stride in zip(
                [*map(site.at, step.operands), site.pointer(step.variable)], strides, strict=True
            )
        ]
        stretch = lines.op(f"sub i64 {end}, {first}")
        call_loop(site, step.ufunc, step.dtypes, pointers, [stretch], strides)

    site.share(step, -(-count // _STRETCH), write)


def write_axis_sweep(site: FunctionSite, step: AxisSweep) -> None:
    """Write the call of NumPy's inner loop over the lines of an array along an axis."""
    lines, loop, shape = site.lines, step.loop, site.plan.specs[step.operand].shape
    outer, inner = prod(shape[: loop.axis]), prod(shape[loop.axis + 1 :])
    counts = [shape[loop.axis], site.plan.specs[step.variable].shape[loop.axis]]
    before, _, after = [dtype.itemsize for dtype in step.dtypes]
    number = np.asarray(loop.number).item()  # of Python, as recipes are written to disk
    factor = site.module.symbol("factor", ("number", number, step.dtypes[1].char))
    source, target = site.at(step.operand), site.pointer(step.variable)
    along = [inner * before, inner * after]
    sizes = [count * size for count, size in zip(counts, along, strict=True)]
    site.work += _OPERATIONS * prod(shape)

    def call(source: str, target: str, count: int, steps: Sequence[int]) -> None:
        strides = [steps[0], 0, steps[1], *along]
        pointers = [source, factor, target]
        call_loop(site, loop.ufunc, step.dtypes, pointers, [count, *counts], strides)

    def block(index: str, _: Sequence[str]) -> Sequence[str]:
        places = [lines.op(f"mul i64 {index}, {size}") for size in sizes]
        call(
            lines.address(source, places[0]),
            lines.address(target, places[1]),
            inner,
            [before, after],
        )
        return ()

    if inner == 1:
        call(source, target, outer, sizes)
    else:
        lines.counted(outer, block)
    raised = lines.call("i1", "has_raised")  # it may lack memory
    site.continue_if(lines.op(f"xor i1 {raised}, true"))


def write_adding_loop(site: FunctionSite, step: AddingLoop) -> None:
    """Write the call of NumPy's inner loop of a sum or a product."""
    spec, out = site.plan.specs[step.variable], site.pointer(step.variable)
    kind = memory_type(spec.dtype)
    pointers = [site.lines.address(site.pointer(v.buffer), v.offset, kind) for v in step.operands]
    site.work += _OPERATIONS * prod(step.counts)
    dtypes = (spec.dtype,) * 3
    if step.ufunc.signature is not None:
        call_loop(site, step.ufunc, dtypes, [*pointers, out], step.counts, step.steps)
        return
    site.clear(out, spec)
    (outer, inner), (row, column, *steps) = step.counts, step.steps

    def block(index: str, _: Sequence[str]) -> Sequence[str]:
        there = site.lines.row(out, index, row, "i8")
        moved = site.lines.row(pointers[0], index, column, "i8")
        call_loop(site, step.ufunc, dtypes, [there, moved, there], [inner], steps)
        return ()

    if outer == 1:
        block("0", ())
    else:
        site.lines.counted(outer, block)


def call_loop(
    site: FunctionSite,
    ufunc: np.ufunc,
    dtypes: Sequence[np.dtype[Any]],
    pointers: Sequence[str],
    counts: Sequence[int | str],
    steps: Sequence[int],
    anywhere: bool = False,
) -> None:
    """Write the call of a ufunc's inner loop, of which the plan has asked that it is there.

    Parameters
    ----------
    site : FunctionSite
    ufunc : ufunc
    dtypes : sequence of dtype
        Of the operands and results.
    pointers : sequence of str
    counts : sequence of int or str
        How often the loop runs; of a gufunc then the sizes of its core axes.
    steps : sequence of int
        In bytes, from one run to the next; of a gufunc then along the core axes.
    anywhere : bool
        Whether threads of the pool may call it, because it neither calls Python nor has threads.
    """
    recipes = loop_recipes(ufunc, dtypes)
    symbols = [site.module.symbol(f"{ufunc.__name__}_", recipe) for recipe in recipes]
    name, data = [*symbols, "null"][:2]
    site.needs_caller |= not anywhere
    arrays = site.array("ptr", pointers)
    numbers, strides = site.array("i64", counts), site.array("i64", steps)
    site.lines.emit(f"call void {name}(ptr {arrays}, ptr {numbers}, ptr {strides}, ptr {data})")


def write_callback(site: FunctionSite, step: Callback) -> None:
    """Write the call of a function that evaluates an operation on arrays over native memory."""
    site.module.callbacks.append(f"{step.equation.name}: {step.reason}")
    site.calls += 1
    call_back(site, step, [site.at(operand) for operand in step.equation.operands])


def call_back(
    site: FunctionSite, step: EquationStep, operands: Sequence[str], rank: int = 0
) -> None:
    """Write the call of a function that evaluates an operation on arrays over native memory.

    Parameters
    ----------
    site : FunctionSite
    step : EquationStep
    operands : sequence of str
        The addresses of the operands, in C order.
    rank : int
        The number of axes of a stack of which only those examples are written whose results are
        NaN so far.
    """
    pointers = [
        pointer
        for variable, pointer in zip(step.equation.operands, operands, strict=True)
        if variable not in site.plan.constants  # which the function has
    ]
    results = range(step.variable, step.variable + len(step.equation.results))
    pointers += [site.pointer(result) for result in results]
    place = site.number, site.number_of(step.equation)
    status = site.lines.call(
        "i32",
        "call_back",
        ("ptr", site.module.symbol("step", ("callback", *place, rank))),
        ("ptr", site.array("ptr", pointers)),
        ("ptr", site.module.symbol("arrays", ("arrays", *place))),
    )
    site.continue_if(site.lines.op(f"icmp eq i32 {status}, 0"))


def call_back_at(
    site: FunctionSite, step: EquationStep, label: str, reason: str | None = None
) -> None:
    """Write the call of a function at a label that ``leave_unless`` leads to.

    The addresses of operands are made at the label: values from behind the loops are unknown there.
    There is a reason, unless the function always raises an error.
    """
    if reason is not None:
        site.module.recourses.append(f"{step.equation.name}: {reason}")

    def call() -> None:
        call_back(site, step, [site.at(operand) for operand in step.equation.operands])

    site.lines.apart(label, call)


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
    kind, lines, outermost = memory_type(dtype), site.lines, first_loop(stack)
    strides = [_stack_strides(view, core, len(stack)) for view, core in arrays]

    def loop(axis: int, inside: Callable[[Sequence[str]], None], pointers: Sequence[str]) -> None:
        def step(index: str, _: Sequence[str]) -> Sequence[str]:
            moved = [
                lines.row(pointer, index, steps[axis], kind)
                for pointer, steps in zip(pointers, strides, strict=True)
            ]
            inside(moved)
            return ()

        start, stop = span if span is not None and axis == outermost else (0, stack[axis])
        lines.counted(stop, step, start=start)

    # A function that calls itself by name would hold itself, and with the site all constants.
    write = body
    for axis in reversed(range(len(stack))):
        if stack[axis] != 1:
            write = partial(loop, axis, write)
    write([lines.address(site.pointer(v.buffer), v.offset, kind) for v, _ in arrays])


def first_loop(stack: Shape) -> int | None:
    """The axis of a stack that the first loop goes along."""
    return next((axis for axis, size in enumerate(stack) if size != 1), None)


def _stack_strides(view: View, core: int, rank: int) -> list[int]:
    count = len(view.shape) - core
    axes = zip(view.shape[:count], view.strides[:count], strict=True)
    return [0] * (rank - count) + [0 if size == 1 else stride for size, stride in axes]

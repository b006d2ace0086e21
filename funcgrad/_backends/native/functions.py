"""A function of LLVM's for each program: its steps in order, and memory for their results.

A function takes pointers to inputs, outputs and an *arena*: the memory of intermediate results, in
which those that are not alive at once share their place. It returns 0; or 1 where a step has raised
an exception of Python's, 2 where a guard fails, or 4 where a signal has brought an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.call_text import (
    write_adding_loop,
    write_axis_sweep,
    write_callback,
    write_sweep,
)
from funcgrad._backends.native.equal_nests import note_nests, write_nest
from funcgrad._backends.native.factor_text import write_elimination, write_factor_use, write_gufunc
from funcgrad._backends.native.fold_text import write_finite_pass, write_folding, write_scanning
from funcgrad._backends.native.function_site import MISSED, UNINTERRUPTED, FunctionSite
from funcgrad._backends.native.function_text import FunctionText, symbols_in
from funcgrad._backends.native.indexed_text import write_gathering, write_scattering
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.loop_text import write_run
from funcgrad._backends.native.native_module import Function, NativeModule
from funcgrad._backends.native.plan_check import check_memory, check_places, check_plan
from funcgrad._backends.native.plan_steps import (
    AxisSweep,
    Callback,
    Drawing,
    Elimination,
    FactorUse,
    Fill,
    FinitePass,
    Folding,
    Gathering,
    GufuncLoop,
    MatrixProduct,
    Nest,
    RowProduct,
    Run,
    Scanning,
    Scattering,
    Sorting,
    Step,
    Sweep,
)
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.product_text import write_product
from funcgrad._backends.native.random_text import write_drawing
from funcgrad._backends.native.rank_text import write_ranks
from funcgrad._backends.native.row_text import write_row_product
from funcgrad._backends.native.same_bits import AddingLoop
from funcgrad._backends.native.selection_text import write_selection
from funcgrad._backends.native.sharing import LARGE, SMALL
from funcgrad._backends.native.sort_planning import narrows, selects
from funcgrad._backends.native.sort_text import write_sorting
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._backends.native.window_text import write_window_product
from funcgrad._hooks.requested_checks import is_verified
from funcgrad._programs.equation import Guard
from funcgrad._programs.program import Program


def write_function(module: NativeModule, program: Program, number: int) -> Function:
    """Write the function of a program into a module."""
    must_conform = is_verified()
    plan = plan_of(program.verify() if must_conform else program, module.arithmetic)
    if must_conform:
        check_plan(plan)
    site = FunctionSite(module, plan, number)
    inputs = [f"%i{k}" for k in range(len(program.inputs))]
    outputs = [f"%o{k}" for k in range(len(site.plan.outputs))]
    site.pointers.update(enumerate(inputs))
    site.pointers.update(zip(site.plan.outputs, outputs, strict=True))
    _place_constants(site)
    places = _place_intermediates(site)
    if must_conform:
        check_memory(plan, site.sharing, places)
    _check(site, site.plan.guards.get(-1, ()))
    note_nests(site)
    looked = 0
    for position, step in enumerate(site.plan.steps):
        site.position = position
        site.lines.end_long_block()
        if site.work - looked >= UNINTERRUPTED:
            site.look()
            looked = site.work
        _WRITERS[type(step)](site, step)
        _check(site, site.plan.guards.get(position, ()))
    site.finish()
    if must_conform:
        check_places(site.memory.placed)
    parameters = _parameters(site, inputs, outputs)
    name = f"f{number}"
    module.add(f"define internal i32 @{name}({parameters}) nounwind", site.lines)
    site.needs_caller |= not _OF_PYTHON.isdisjoint(symbols_in(site.lines.declarations))
    amounts = site.memory.size, site.work, site.unknown, site.calls
    flags = site.shares, site.needs_caller
    return Function(name, program, *amounts, site.sharing.in_place, *flags)


def _parameters(site: FunctionSite, inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """A function's parameters. LLVM learns that writing outputs changes no inputs.

    The gradient of a hidden Markov model takes 0.65 of the time so.
    """
    in_place = {outputs[place] for place in site.sharing.in_place}
    words = [f"ptr {name}" for name in inputs]
    for name in (*outputs, "%arena"):
        words.append(f"ptr {name}" if name in in_place else f"ptr noalias {name}")
    return ", ".join(words)


def write_module(module: NativeModule, program: Program) -> Function:
    """Write the function ``program``, which takes tables of the addresses of inputs and outputs."""
    function, lines = module.function(program), FunctionText()
    arguments = [
        lines.op(f"load ptr, ptr {lines.address(table, place, 'ptr')}")
        for table, count in (("%ins", len(program.inputs)), ("%outs", len(program.outputs)))
        for place in range(count)
    ]
    pointers = ", ".join([f"ptr {pointer}" for pointer in (*arguments, "%arena")])
    lines.emit(f"ret i32 {lines.op(f'call i32 @{function.name}({pointers})')}")
    module.add("define i32 @program(ptr %ins, ptr %outs, ptr %arena) nounwind", lines)
    return function


def _write_fill(site: FunctionSite, step: Fill) -> None:
    site.clear(site.pointer(step.variable), site.plan.specs[step.variable])


_OF_PYTHON: Final = frozenset({"call_back", "has_raised"})


def _write_order(site: FunctionSite, step: Sorting) -> None:
    shape = site.plan.specs[step.equation.operands[0]].shape
    if step.form.ranks is not None and narrows(step.form, shape):
        write_ranks(site, step)
    else:
        (write_selection if selects(step.form, shape) else write_sorting)(site, step)


_ON_STACK: Final = 128
"""The most small results of a function that lie on the stack. Many, as of steps that are written
out, take less time where they share memory."""

_MANY: Final = 300
"""From so many small buffers of one size on, these have memory to themselves."""

_WRITERS: Final[Mapping[type[Step], Callable[[FunctionSite, Any], None]]] = MappingProxyType(
    {
        Nest: write_nest,
        Fill: _write_fill,
        Sweep: write_sweep,
        AxisSweep: write_axis_sweep,
        AddingLoop: write_adding_loop,
        Callback: write_callback,
        Run: write_run,
        Elimination: write_elimination,
        FactorUse: write_factor_use,
        MatrixProduct: write_product,
        WindowProduct: write_window_product,
        RowProduct: write_row_product,
        Sorting: _write_order,
        GufuncLoop: write_gufunc,
        Gathering: write_gathering,
        Scattering: write_scattering,
        Scanning: write_scanning,
        Folding: write_folding,
        FinitePass: write_finite_pass,
        Drawing: write_drawing,
    }
)
"""How the steps of a plan are written."""


# ------------------------------------------------------------------------------------------- memory


def _place_constants(site: FunctionSite) -> None:
    first = len(site.plan.program.inputs)
    for place, constant in enumerate(site.plan.program.constants):
        number = constant.value
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            continue  # fits no int64, so only the text of a formula has it: x / 2**64
        recipe = "constant", site.number, place
        site.pointers[first + place] = site.module.symbol("constant", recipe)


def _place_intermediates(site: FunctionSite) -> dict[int, int]:
    """Give each intermediate result a place in memory that is free while it is alive.

    Small ones lie on the stack, if there are few. Buffers that share memory have one place, for
    all of their lives. Returns the places.
    """
    roots, lives, places = site.sharing.roots, dict(site.plan.lives), dict[int, int]()
    for buffer, root in roots.items():
        (begin, end), (first, last) = lives[buffer], lives[root]
        lives[root] = min(begin, first), max(end, last)
    for place, buffer in enumerate(site.plan.outputs):
        size = site.bytes_of(buffer)
        if size >= LARGE and place not in site.sharing.in_place:
            begin = lives[buffer][0]
            places[buffer] = site.memory.add_output(site.pointers[buffer], size, begin)
    growing = {v for step in site.plan.steps if isinstance(step, Run) for v in step.growing}
    waiting = {*lives} - growing - {*roots} - {*site.pointers}
    small = sorted([buffer for buffer in waiting if site.bytes_of(buffer) <= SMALL])
    if len(small) <= _ON_STACK:
        site.pointers.update({buffer: site.on_stack(site.bytes_of(buffer)) for buffer in small})
        waiting -= {*small}
    ordered = sorted(waiting, key=lambda buffer: (-site.bytes_of(buffer), lives[buffer]))
    for size, alike in groupby(ordered, site.bytes_of):
        buffers = list(alike)
        if size < LARGE and len(buffers) >= _MANY:
            together = site.memory.place_many(size, [lives[buffer] for buffer in buffers])
            places.update(zip(buffers, together, strict=True))
        else:
            for buffer in buffers:
                places[buffer] = site.memory.place(size, *lives[buffer])
        for buffer in buffers:
            site.pointers[buffer] = site.in_memory(places[buffer])
    for buffer, root in roots.items():
        site.pointers[buffer] = site.pointers[root]
    return places


def _check(site: FunctionSite, guards: Sequence[Guard]) -> None:
    for guard in guards:
        site.continue_if(_holds(site, guard), MISSED)


def _holds(site: FunctionSite, guard: Guard) -> str:
    """A truth value: whether the function would go the same way."""
    view = site.plan.views[guard.variable]
    dtype = site.plan.specs[guard.variable].dtype
    lanes = Lanes(site.lines, 1)
    x, value = lanes.load(site.pointer(view.buffer), dtype, view.offset), guard.value
    if guard.use == "bool":
        truth = lanes.astype(x, np.dtype(np.bool_))
        return truth.text if value else site.lines.op(f"xor i1 {truth.text}, true")
    if guard.use in ("int", "index"):
        return lanes.equal(lanes.trunc(x) if dtype.kind == "f" else x, value).text
    if dtype.kind != {bool: "b", int: dtype.kind, float: "f"}.get(type(value)):
        return "false"
    if dtype.kind != "f":
        return lanes.equal(x, value).text
    if value != value:  # every NaN is one
        return lanes.isnan(x).text
    integer = np.dtype(f"i{dtype.itemsize}")
    return (lanes.cast("bitcast", x, integer) == int(dtype.type(value).view(integer))).text

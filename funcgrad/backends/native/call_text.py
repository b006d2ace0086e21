"""Calls of NumPy as text: its inner loops over whole arrays, and operations called back."""

from __future__ import annotations

from math import prod

import numpy as np

from funcgrad.backends.native.callbacks import callback_of
from funcgrad.backends.native.cpython import inner_loop
from funcgrad.backends.native.function_site import FunctionSite
from funcgrad.backends.native.plan_steps import Callback, Sweep


def write_sweep(site: FunctionSite, step: Sweep) -> None:
    """Write the call of a ufunc's inner loop."""
    loop = inner_loop(step.ufunc, step.dtypes)
    assert loop is not None  # the plan has asked
    specs = [site.plan.specs[v] for v in (*step.operands, step.variable)]
    pointers = [*map(site.at, step.operands), site.pointer(step.variable)]
    strides = [spec.dtype.itemsize if spec.shape else 0 for spec in specs]
    count = prod(specs[-1].shape)
    name = site.module.symbol(f"{step.ufunc.__name__}_", loop[0], step.ufunc)
    data = "null"
    if loop[1]:
        data = site.module.symbol(f"{step.ufunc.__name__}_data_", loop[1], step.ufunc)
    arrays = site.array("ptr", pointers)
    counts, steps = site.array("i64", [count]), site.array("i64", strides)
    site.lines.emit(f"call void {name}(ptr {arrays}, ptr {counts}, ptr {steps}, ptr {data})")
    if step.dtypes[-1].kind != "f":  # such as a power of an integer, which may be refused
        error = site.lines.call("ptr", "PyErr_Occurred")
        site.continue_if(site.lines.op(f"icmp eq ptr {error}, null"))


def write_callback(site: FunctionSite, step: Callback) -> None:
    """Write the call of a function that evaluates an operation on arrays over native memory."""
    plan, equation = site.plan, step.equation
    known = {
        place: plan.program.constants[operand - len(plan.program.inputs)].value
        for place, operand in enumerate(equation.operands)
        if operand in plan.constants
    }
    specs = [plan.specs[operand] for operand in equation.operands]
    function = callback_of(equation, specs, known)
    site.module.callbacks.append(equation.name)
    arrays = [
        (specs[place], site.at(operand))
        for place, operand in enumerate(equation.operands)
        if place not in known
    ]
    results = range(step.variable, step.variable + len(equation.results))
    arrays += [(plan.specs[result], site.pointer(result)) for result in results]
    pointers = site.array("ptr", [pointer for _, pointer in arrays])
    words = [len(arrays)]
    for spec, _ in arrays:
        descr = np.dtype(spec.dtype)
        site.module.referents.append(descr)
        words += [id(descr), len(spec.shape), *spec.shape]
    table = np.array(words, np.int64)
    status = site.lines.call(
        "i32",
        "call_back",
        ("ptr", site.module.symbol("step", id(function), function)),
        ("ptr", pointers),
        ("ptr", site.module.symbol("arrays", table.ctypes.data, table)),
    )
    site.continue_if(site.lines.op(f"icmp eq i32 {status}, 0"))

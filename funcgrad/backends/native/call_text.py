"""Calls of NumPy as text: its inner loops over whole arrays, and operations called back."""

from __future__ import annotations

from math import prod

import numpy as np

from funcgrad.backends.native.callbacks import callback_of
from funcgrad.backends.native.cpython import inner_loop
from funcgrad.backends.native.function_site import FunctionSite
from funcgrad.backends.native.plan_steps import Callback, Sweep
from funcgrad.shape import Spec


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
    made = [_as_array(site, spec, pointer) for spec, pointer in arrays]
    target = site.module.symbol("step", id(function), function)
    pointers = site.array("ptr", made)
    outcome = site.lines.call(
        "ptr",
        "PyObject_Vectorcall",
        ("ptr", target),
        ("ptr", pointers),
        ("i64", str(len(made))),
        ("ptr", "null"),
    )
    for array in made:
        site.lines.call("void", "Py_DecRef", ("ptr", array))
    site.continue_if(site.lines.op(f"icmp ne ptr {outcome}, null"))
    site.lines.call("void", "Py_DecRef", ("ptr", outcome))


def _as_array(site: FunctionSite, spec: Spec, pointer: str) -> str:
    """An ndarray over native memory."""
    lines, dtype = site.lines, np.dtype(spec.dtype)
    descr = site.module.symbol("dtype", id(dtype), dtype)
    kind = site.module.symbol("ndarray", id(np.ndarray), np.ndarray)
    lines.call("void", "Py_IncRef", ("ptr", descr))
    dimensions = site.array("i64", spec.shape) if spec.shape else "null"
    array = lines.call(
        "ptr",
        "PyArray_NewFromDescr",
        ("ptr", kind),
        ("ptr", descr),
        ("i32", str(len(spec.shape))),
        ("ptr", dimensions),
        ("ptr", "null"),
        ("ptr", pointer),
        ("i32", "1281"),  # in C order, aligned, may be written to
        ("ptr", "null"),
    )
    site.continue_if(lines.op(f"icmp ne ptr {array}, null"))
    return array

"""Read ``If``, ``Loop`` and ``Scan``: graphs inside become functions of control flow."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._core.trace import RAW, concrete
from funcgrad.interop.onnx.element_reader import cast
from funcgrad.interop.onnx.reader_parts import OperatorNode, Read, Value, numbers


def _is_known(x: Value) -> bool:
    """Whether a value's numbers are known, whatever transformation runs."""
    return type(concrete(x)) in RAW


def _run(node: OperatorNode, graph: str, inputs: list[Value]) -> list[Value]:
    assert node.run is not None
    return node.run(node.get(graph), inputs)


def _chosen(node: OperatorNode, condition: Value) -> tuple[Value, ...]:
    if _is_known(condition):
        taken = "then_branch" if bool(np.asarray(condition).reshape(())) else "else_branch"
        return tuple(_run(node, taken, []))
    return cond(
        fnp.reshape(condition, ()),
        lambda: tuple(map(fnp.asarray, _run(node, "then_branch", []))),
        lambda: tuple(map(fnp.asarray, _run(node, "else_branch", []))),
    )


def _looped(node: OperatorNode, limit: Value = None, condition: Value = None, *carry: Value) -> Any:
    """A loop: counted ones scan, others run while the condition holds."""
    start = [fnp.asarray(x) for x in carry]
    count = None if limit is None else numbers(node, limit, "M")[0]
    stacked = len(node.outputs) - len(start)
    if count is not None and _never_ends(node) and _is_true(condition):
        return _counted(node, count, start)
    if stacked:
        return _by_python(node, count, condition, start)

    def goes_on(state: Any) -> Any:
        place, going, _ = state
        return going if count is None else going & (place < count)

    def step(state: Any) -> Any:
        place, going, values = state
        going, *values = _run(node, "body", [place, going, *values])
        return place + 1, fnp.astype(fnp.reshape(going, ()), bool), list(map(fnp.asarray, values))

    going = fnp.asarray(True) if condition is None else fnp.reshape(condition, ())
    state = (fnp.asarray(np.int64(0)), fnp.astype(going, bool), start)
    return tuple(while_loop(goes_on, step, state)[2])


def _is_true(condition: Value) -> bool:
    return condition is None or (_is_known(condition) and bool(np.asarray(condition).all()))


def _never_ends(node: OperatorNode) -> bool:
    """Whether the body hands the condition on as it came, or always returns true."""
    body = node.get("body")
    name = body.output[0].name
    makers = {out: entry for entry in body.node for out in entry.output}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    return bool(name == body.input[1].name)


def _counted(node: OperatorNode, count: int, start: list[Value]) -> tuple[Value, ...]:
    carried = len(start)

    def step(values: Any, place: Any) -> Any:
        _, *outs = _run(node, "body", [place, np.asarray(True), *values])
        outs = list(map(fnp.asarray, outs))
        return outs[:carried], tuple(outs[carried:])

    last, stacks = scan(step, start, np.arange(max(count, 0)))
    return (*last, *stacks)


def _by_python(
    node: OperatorNode, count: int | None, condition: Value, values: list[Value]
) -> tuple[Value, ...]:
    """A loop of Python's, for stacks whose number of rows the condition decides."""
    rows: list[list[Value]] = []
    place, going = 0, condition is None or bool(numbers(node, condition, "cond")[0])
    while going and (count is None or place < count):
        flag, *outs = _run(node, "body", [np.int64(place), np.asarray(True), *values])
        values, row = outs[: len(values)], outs[len(values) :]
        rows.append(row)
        going = bool(numbers(node, flag, "cond")[0])
        place += 1
    if not rows:
        return (*values, *[_no_rows(node, x) for x in node.get("body").output[1 + len(values) :]])
    return (*values, *[fnp.stack(list(column)) for column in zip(*rows, strict=True)])


def _no_rows(node: OperatorNode, info: Any) -> Value:
    """A stack without rows, of the shape and dtype that the body declares for them."""
    kind = info.type.tensor_type
    sizes = [entry.dim_value for entry in kind.shape.dim]
    if not kind.elem_type or 0 in sizes:
        raise node.unread("it takes no step, and the shapes of its stacks are not known")
    return cast(node, fnp.zeros((0, *sizes)), kind.elem_type)


def _scanned(node: OperatorNode, *inputs: Value) -> tuple[Value, ...]:
    if node.version < 9:
        raise node.unread("scans of batches, before version 9, are not there")
    through = node.get("num_scan_inputs")
    start, arrays = inputs[: len(inputs) - through], inputs[len(inputs) - through :]
    axes = node.get("scan_input_axes") or [0] * through
    backwards = node.get("scan_input_directions") or [0] * through
    rows = [
        fnp.flip(moved, 0) if flag else moved
        for moved, flag in zip(
            [fnp.moveaxis(x, axis, 0) for x, axis in zip(arrays, axes, strict=True)],
            backwards,
            strict=True,
        )
    ]
    carried = len(start)

    def step(values: Any, row: Any) -> Any:
        outs = list(map(fnp.asarray, _run(node, "body", [*values, *row])))
        return outs[:carried], tuple(outs[carried:])

    last, stacks = scan(step, [fnp.asarray(x) for x in start], tuple(rows))
    out_axes = node.get("scan_output_axes") or [0] * len(stacks)
    out_backwards = node.get("scan_output_directions") or [0] * len(stacks)
    ordered = [
        fnp.moveaxis(fnp.flip(x, 0) if flag else x, 0, axis)
        for x, axis, flag in zip(stacks, out_axes, out_backwards, strict=True)
    ]
    return (*last, *ordered)


LOOPS: Final[Mapping[str, Read]] = MappingProxyType(
    {"If": _chosen, "Loop": _looped, "Scan": _scanned}
)

"""Write loops and branches: ONNX's ``Scan``, ``Loop`` and ``If``, with subgraphs.

Subgraphs read outer values by name, so values that all steps share are not inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Choice, Loop
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol

_BOOL: Final = np.dtype(np.bool_)
_INT32: Final = np.dtype(np.int32)
_INT64: Final = np.dtype(np.int64)

WriteProgram: TypeAlias = Callable[[GraphWriter, Any, Sequence[Symbol]], list[Symbol]]
"""A function from a graph, a program and its inputs to its outputs."""


def chosen(
    writer: GraphWriter,
    choice: Choice,
    operands: Sequence[Symbol],
    specs: Sequence[Spec],
    write: WriteProgram,
) -> list[Symbol]:
    """The results of the branch that the first operand selects; several branches are nested."""
    number = writer.cast_to(writer.reshaped(operands[0], ()), _INT64)
    return _chosen(writer, number, list(choice.branches), 0, operands[1:], specs, write)


def _chosen(
    writer: GraphWriter,
    number: Symbol,
    branches: Sequence[Any],
    first: int,
    operands: Sequence[Symbol],
    specs: Sequence[Spec],
    write: WriteProgram,
) -> list[Symbol]:
    if len(branches) == 1:
        outs = write(writer, branches[0], operands)
        return [_as(writer, out, spec) for out, spec in zip(outs, specs, strict=True)]
    least = writer.constant(first, _INT64)
    is_first = writer.node("LessOrEqual", [number, least], Spec((), _BOOL))
    graphs = []
    for group, start in ((branches[:1], first), (branches[1:], first + 1)):
        inside = writer.inside("branch")
        outs = _chosen(inside, number, group, start, operands, specs, write)
        graphs.append(inside.graph(outs))
    then, other = graphs
    return writer.nodes_of("If", [is_first], specs, then_branch=then, else_branch=other)


def _as(writer: GraphWriter, value: Symbol, spec: Spec) -> Symbol:
    return writer.expanded(writer.cast_to(value, spec.dtype), spec.shape)


def looped(
    writer: GraphWriter,
    loop: Loop,
    operands: Sequence[Symbol],
    specs: Sequence[Spec],
    write: WriteProgram,
) -> list[Symbol]:
    """The final carry, and the stacks."""
    shared, carry, arrays = loop.parts(operands)
    if loop.condition is not None:
        return _loop(writer, loop, shared, carry, specs, write)
    if not arrays and not loop.length:
        return [*carry, *[writer.constant(np.zeros(s.shape, s.dtype)) for s in specs[len(carry) :]]]
    return _scan(writer, loop, shared, carry, arrays, specs, write)


def _row_specs(loop: Loop) -> list[Spec]:
    body = loop.body.specs()
    return [body[variable] for variable in loop.body.outputs[loop.carried :]]


def _scan(
    writer: GraphWriter,
    loop: Loop,
    shared: Sequence[Symbol],
    carry: Sequence[Symbol],
    arrays: Sequence[Symbol],
    specs: Sequence[Spec],
    write: WriteProgram,
) -> list[Symbol]:
    count = len(arrays)
    if not count:  # ONNX needs at least one scanned array
        arrays = [writer.constant(np.arange(loop.length or 0))]
    body = writer.inside("step")
    states = [body.input("", _plain(x.spec)) for x in carry]
    slices = [body.input("", Spec(x.shape[1:], x.dtype)) for x in arrays]
    outs = write(body, loop.body, [*shared, *states, *slices[:count]])
    rows = _row_specs(loop)
    outs = [
        _as(body, out, spec)
        for out, spec in zip(outs, [*[x.spec for x in carry], *rows], strict=True)
    ]
    if loop.reverse:  # ONNX's reference evaluator does not run backwards
        arrays = [_reversed(writer, x) for x in arrays]
    results = writer.nodes_of(
        "Scan", [*carry, *arrays], specs, body=body.graph(outs), num_scan_inputs=len(arrays)
    )
    return _in_order(writer, loop, results)


def _plain(spec: Spec) -> Spec:
    return Spec(spec.shape, spec.dtype)


def _loop(
    writer: GraphWriter,
    loop: Loop,
    shared: Sequence[Symbol],
    carry: Sequence[Symbol],
    specs: Sequence[Spec],
    write: WriteProgram,
) -> list[Symbol]:
    body = writer.inside("step")
    body.input("", Spec((), _INT64))
    body.input("", Spec((), _BOOL))
    states = [body.input("", _plain(x.spec)) for x in carry]
    outs = write(body, loop.body, [*shared, *states])
    wanted = [*[x.spec for x in carry], *_row_specs(loop)]
    outs = [_as(body, out, spec) for out, spec in zip(outs, wanted, strict=True)]
    goes_on = _truth(body, loop.condition, [*shared, *outs[: loop.carried]], write)
    begins = _truth(writer, loop.condition, [*shared, *carry], write)
    results = writer.nodes_of(
        "Loop", [None, begins, *carry], specs, body=body.graph([goes_on, *outs])
    )
    return _in_order(writer, loop, results)


def _in_order(writer: GraphWriter, loop: Loop, results: list[Symbol]) -> list[Symbol]:
    """Put the rows of stacks in order: a reversed loop makes the last row first."""
    if not loop.reverse:
        return results
    stacks = [_reversed(writer, x) for x in results[loop.carried :]]
    return [*results[: loop.carried], *stacks]


def _reversed(writer: GraphWriter, x: Symbol) -> Symbol:
    bounds = [writer.integers([number]) for number in (-1, -(2**31), 0, -1)]
    return writer.node("Slice", [x, *bounds], x.spec)


def _truth(
    writer: GraphWriter, condition: Any, operands: Sequence[Symbol], write: WriteProgram
) -> Symbol:
    (out,) = write(writer, condition, operands)
    return writer.cast_to(writer.reshaped(out, ()), _BOOL)

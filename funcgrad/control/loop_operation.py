"""The operations behind ``fg.scan`` and ``fg.while_loop`` in programs.

``LOOP`` runs a ``Loop``, whose fields are its parameters. Reverse mode goes back through it in one
of two ways. Where the number of steps is known, the loop stacks residuals, and the way back is
another loop that reads them (``scan_reverse.py``). Where it is not known, ``UNWIND`` runs the loop
once more, keeps its states or some of them, and goes back through them, from the last to the first,
with cotangents. A step of that way back is a program, which is differentiated like any other: in
forward mode the way back carries tangents as well, in reverse mode it has more turns
(``sweeps.py``, ``sweep_reverse.py``). So derivatives are right even where a body calls a user's
rules, which need not be the derivative of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from funcgrad.control.closure import closure
from funcgrad.control.invariants import hoisted
from funcgrad.control.operation import (
    ControlRecording,
    Params,
    Rules,
    Values,
    check_linear,
    control_primitive,
)
from funcgrad.control.scan_reverse import ScanRecording
from funcgrad.control.sweep_reverse import reached, unwind
from funcgrad.control.sweeps import Sweeps
from funcgrad.control.transformed_loops import batched, leaner, pushed
from funcgrad.control.values import as_spec, result_specs, stacked
from funcgrad.control.written_sweeps import written
from funcgrad.errors import DifferentiationError, ProgramError
from funcgrad.primitive import Primitive
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.structural import view
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, shape_of
from funcgrad.structure import Loop
from funcgrad.trace import Value
from funcgrad.transforms.masked import Cotangent

ROWS: Final = 1024
"""The number of rows in the spec of a stack where the number of steps is not known."""


def apply_loop(values: Values, loop: Loop) -> list[Value]:
    """Run a loop, and return its results.

    Equations with the same value at every step run once, before a loop of a known number of steps.
    """
    inputs = loop.body.inputs[: loop.shared + loop.carried]
    fitted = [as_spec(x, spec) for x, spec in zip(values, inputs, strict=False)]
    operands = [*fitted, *values[len(fitted) :]]
    if loop.length:
        arguments = operands[loop.shared :]
        loop, shared = hoisted(loop, operands[: loop.shared])
        operands = [*shared, *arguments]
    return list(LOOP(*operands, **loop.params()))


def _run(values: Values, params: Params) -> list[Value]:
    loop = Loop(**params)
    shared, carry, xs = loop.parts(values)
    length = shape_of(xs[0])[0] if xs and loop.length is None else loop.length or 0
    body, condition, carried = loop.body, loop.condition, loop.carried
    row_specs = result_specs(body)[carried:]
    rows: list[Sequence[Value]] = []
    known = range(length)[:: -1 if loop.reverse else 1]
    for step in known if condition is None else count():
        state = [*shared, *carry]
        if condition is not None and not condition.evaluate(state)[0]:
            break
        for x in xs:
            state.append(x[step] if type(x) is np.ndarray else view(x, key=Key((step,))))
        carry = body.evaluate(state)
        if row_specs:
            rows.append(carry[carried:])
            carry = carry[:carried]
    columns = [[row[k] for row in rows] for k in range(len(row_specs))]
    ordered = [column[::-1] if loop.reverse else column for column in columns]
    return [*carry, *map(stacked, ordered, row_specs)]


def _result(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    loop = Loop(**params)
    shared, carry, xs = loop.parts(specs)
    length = ROWS if loop.length is None else loop.length
    for x in xs:
        if x.shape[:1] != (length,):
            raise ProgramError(f"a loop of {length} steps over an array of shape {x.shape}")
    outs = loop.body.results(*shared, *carry, *[Spec(x.shape[1:], x.dtype) for x in xs])
    if outs[: loop.carried] != tuple(carry):
        raise ProgramError("the body of a loop changes the kind of what it carries")
    if loop.condition is not None:
        goes_on = loop.condition.results(*shared, *carry)
        if len(goes_on) != 1 or goes_on[0].shape or goes_on[0].dtype != bool:
            raise ProgramError("the condition of a loop is no truth value")
    stacks = [Spec((length, *out.shape), out.dtype) for out in outs[loop.carried :]]
    return (*outs[: loop.carried], *stacks)


def _push(values: Values, tangents: Values, params: Params) -> tuple[list[Value], list[Value]]:
    loop, operands, results = pushed(Loop(**params), [t is not None for t in tangents])
    moved = operands.filled(values, tangents)
    return results.taken_apart(apply_loop(operands.joined(values, moved), loop))


def _batch(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    batch = batched(Loop(**params), size, flags)
    return batch.results(apply_loop(batch.operands(values, flags), batch.loop))


def _check_linear(followed: Sequence[bool], params: Params) -> None:
    loop = Loop(**params)
    shared, carry, xs = loop.parts(followed)
    name = "fg.scan" if loop.condition is None else "fg.while_loop"
    state, _ = closure(carry, partial(_linear_step, name, loop.body, shared, xs))
    if loop.condition is not None:
        check_linear(name, loop.condition, [*shared, *state])


def _linear_step(
    name: str,
    program: Program,
    before: Sequence[bool],
    after: Sequence[bool],
    state: Sequence[bool],
) -> tuple[None, list[bool]]:
    return None, check_linear(name, program, [*before, *state, *after])


def _record(values: Values, followed: Sequence[bool], params: Params) -> ControlRecording:
    loop = Loop(**params)
    if loop.condition is None:
        return ScanRecording(values, followed, loop, apply_loop)
    return SweepsRecording(values, followed, Sweeps(loop))


def _runs(**params: Any) -> list[tuple[Program, int | None]]:
    loop = Loop(**params)
    condition = [] if loop.condition is None else [(loop.condition, None)]
    return [*condition, (loop.body, loop.length)]


def _leaner(read: Sequence[bool], **params: Any) -> tuple[Params, list[int], list[int]] | None:
    loop = Loop(**params)
    lean = None if _has_unknown_rows(loop) else leaner(loop, read)
    return None if lean is None else (lean[0].params(), *lean[1:])


def _label(**params: Any) -> str:
    loop = Loop(**params)
    if _has_unknown_rows(loop):
        return "stacking_scan" if loop.condition is None else "stacking_while"
    return "scan" if loop.condition is None else "while_loop"


def _has_unknown_rows(loop: Loop) -> bool:
    """Whether specs of arrays or stacks have ``ROWS`` rows: such a loop is for compilers alone."""
    is_along_arrays = loop.condition is None
    return loop.length is None and (is_along_arrays or len(loop.body.outputs) > loop.carried)


LOOP: Final = control_primitive(
    "loop",
    Rules(_run, _record, _push, _batch, _check_linear, _run),
    _result,
    _runs,
    leaner=_leaner,
    form=lambda **params: Loop(**params),
    label=_label,
)
"""A program that runs again and again, a number of times or as long as a condition holds."""


# ------------------------------------------------------------------------------- the loop backwards


def _swept(values: Values, sweeps: Sweeps) -> list[Value]:
    """Run sweeps and return their results; sweeps without turns run as a loop."""
    if not sweeps.turns:
        return apply_loop(values, sweeps.loop)
    return list(UNWIND(*values, **sweeps.params()))


def _evaluate_unwind(values: Values, params: Params) -> list[Value]:
    return Sweeps.of(params).run(values)


def _form_of_unwind(**params: Any) -> Program | None:
    return written(Sweeps.of(params), LOOP)


def _begins(**params: Any) -> tuple[Primitive, Params, int]:
    loop = Sweeps.of(params).loop
    return LOOP, loop.params(), len(loop.body.inputs)


def _result_unwind(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    sweeps = Sweeps.of(params)
    result_parts: list[Spec] = []
    for number, program in enumerate(sweeps.programs):
        carried = sweeps.parts(specs)[1 + number]
        outs = program.results(*specs[: len(program.inputs)])
        if outs != tuple(carried):
            raise ProgramError("the way back through a loop changes the kind of what it carries")
        result_parts += carried if number >= sweeps.first else ()
    return tuple(result_parts)


def _push_sweeps(
    values: Values, tangents: Values, sweeps: Sweeps
) -> tuple[list[Value], list[Value]]:
    moved, layout = sweeps.pushed([t is not None for t in tangents])
    outs = _swept(layout.joined(values, layout.filled(values, tangents)), moved)
    return layout.taken_apart(outs, 1 + sweeps.first)


def _push_unwind(
    values: Values, tangents: Values, params: Params
) -> tuple[list[Value], list[Value]]:
    return _push_sweeps(values, tangents, Sweeps.of(params))


class SweepsRecording(ControlRecording):
    """The record of a loop of unknown length, or of a way back; it holds operands and no states."""

    __slots__ = ("_followed", "_recorded", "_sweeps", "_values", "connected", "outs")

    def __init__(self, values: Values, followed: Sequence[bool], sweeps: Sweeps) -> None:
        self._values, self._sweeps = values, sweeps
        self._followed, ends = reached(sweeps, followed)
        self._recorded = sweeps.recorded(self._followed)
        self.outs = _swept(values, self._recorded)
        connected: list[int] = []
        start = 0
        for program, places in list(zip(sweeps.programs, ends, strict=True))[sweeps.first :]:
            connected += [start + k for k in places]
            start += len(program.outputs)
        self.connected = tuple(connected)

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        result_cts = iter(cts)
        every = [
            [next(result_cts) if number >= self._sweeps.first else None for _ in program.outputs]
            for number, program in enumerate(self._sweeps.programs)
        ]
        both = self._sweeps, self._recorded
        return unwind(self._values, self._followed, every, both, _swept)

    def push(self, tangents: Values) -> list[Value]:
        return _push_sweeps(self._values, tangents, self._sweeps)[1]


def _record_unwind(values: Values, followed: Sequence[bool], params: Params) -> ControlRecording:
    return SweepsRecording(values, followed, Sweeps.of(params))


def _batch_unwind(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    batch = Sweeps.of(params).batched(size, flags)
    return _swept(batch.operands(values, flags), batch.sweeps), batch.results


def _check_linear_unwind(followed: Sequence[bool], params: Params) -> None:
    sweeps = Sweeps.of(params)
    count = len(sweeps.loop.body.inputs)
    if any(followed[:count]):
        raise DifferentiationError(
            "linear_transpose: the function is not linear: the derivative of a loop is not linear"
            " in the loop's operands, which depend on the function's own."
        )
    flags = [False] * count
    for turn, carried in zip(sweeps.turns, sweeps.parts(followed)[2:], strict=True):
        flags += closure(carried, partial(_linear_step, "fg.while_loop", turn, flags, ()))[0]


def _programs(**params: object) -> list[tuple[Program, int | None]]:
    """Return the programs of sweeps, each with an unknown number of runs."""
    return [(param, None) for _, param in sorted(params.items()) if isinstance(param, Program)]


UNWIND: Final = control_primitive(
    "unwind",
    Rules(
        _evaluate_unwind,
        _record_unwind,
        _push_unwind,
        _batch_unwind,
        _check_linear_unwind,
        _evaluate_unwind,
    ),
    _result_unwind,
    _programs,
    form=_form_of_unwind,
    begins=_begins,
)
"""A loop whose length depends on the data, and the ways back through its states."""

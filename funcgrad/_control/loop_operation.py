"""The operations behind ``fg.scan`` and ``fg.while_loop`` in programs.

``LOOP`` runs a ``Loop``, whose fields are its parameters. Reverse mode goes back through it in one
of two ways. Where the number of steps is known, the loop stacks residuals, and the way back is
another loop that reads them (``scan_reverse.py``). Where it is not known, no spec says how long a
stack is. ``WHILE_REVERSE`` then runs the loop once more, keeps its states or some of them, and goes
back through them, from the last to the first, with cotangents (``while_reverse.py``). A step of
the way back is a program, differentiated like any other: in forward mode the way back carries
tangents as well, in reverse mode it has more sweeps. So derivatives are right even where a body
calls a user's rules, which need not be the derivative of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

import numpy as np

from funcgrad._control.examples import differs, may_run_apart, over_examples, together
from funcgrad._control.operation import ControlCall, Params, Values, check_linear, control_primitive
from funcgrad._control.scan_reverse import ScanRecording
from funcgrad._control.spread import spread
from funcgrad._control.sweeps import Sweeps
from funcgrad._control.sweeps_as_loops import as_loops
from funcgrad._control.transformed_loops import batched, hoisted, leaner
from funcgrad._control.values import LoopSteps, stacked
from funcgrad._control.while_reverse import SweepsRecording, push_sweeps
from funcgrad._core.context import current, entered
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, dtype_of, is_inexact, shape_of
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Trace, Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.structural import view
from funcgrad._programs.equation import as_spec
from funcgrad._programs.program import Program
from funcgrad._transforms.composite import Interpreter, Recording
from funcgrad._transforms.flat_functions import run_batched
from funcgrad.errors import DifferentiationError, ProgramError

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


class LoopCall(ControlCall):
    """A loop; its parameters are the fields of a ``Loop``."""

    __slots__ = ("loop",)

    def __init__(self, primitive: Primitive, params: Params) -> None:
        super().__init__(primitive, params)
        self.loop = Loop(**params)

    @property
    def sweeps(self) -> Sweeps:
        """The loop, and the sweeps after it: ``LOOP`` has none."""
        return Sweeps(self.loop)

    def run(self, args: Values) -> list[Value]:
        loop = self.loop
        if loop.examples:
            return self.run_together(args)
        _, _, xs = loop.parts(args)
        length = shape_of(xs[0])[0] if xs and loop.length is None else loop.length or 0
        known = range(length)[:: -1 if loop.reverse else 1]
        steps = LoopSteps(self.label(), known if loop.condition is None else count())
        return run_steps(steps, loop, args)

    def results(self, *specs: Spec) -> tuple[Spec, ...]:
        loop = self.loop
        shared, carry, xs = loop.parts(specs)
        length = ROWS if loop.length is None else loop.length
        for x in xs:
            if x.shape[:1] != (length,):
                raise ProgramError(f"a loop of {length} steps over an array of shape {x.shape}")
        inputs = loop.body.inputs[loop.shared + loop.carried :]
        slices = [
            Spec(x.shape[1:], x.dtype, spec.weak) for x, spec in zip(xs, inputs, strict=False)
        ]
        outs = loop.body.results(*shared, *carry, *slices)
        if outs[: loop.carried] != tuple(carry):
            raise ProgramError("the body of a loop changes the shape or dtype of its carry")
        if loop.condition is not None:
            goes_on = loop.condition.results(*shared, *carry)
            if len(goes_on) != 1 or goes_on[0].shape or goes_on[0].dtype != bool:
                raise ProgramError("the condition of a loop is not one truth value")
        stacks = [Spec((length, *out.shape), out.dtype) for out in outs[loop.carried :]]
        return (*outs[: loop.carried], *stacks)

    def record_flagged(self, args: Values, flags: Sequence[bool]) -> Recording:
        record = (
            ScanRecording(args, flags, self.loop, apply_loop)
            if self.loop.condition is None
            else SweepsRecording(args, flags, self.sweeps, apply_sweeps)
        )
        return Recording(record.outs, record.pull, record.push, record.connected)

    def push_fitted(self, args: Values, tangents: Values) -> tuple[list[Value], list[Value]]:
        return push_sweeps(args, self.sweeps, tangents, apply_sweeps)

    def run_together(self, args: Values) -> list[Value]:
        """Run all steps of a loop over examples at once."""
        with entered(current()._replace(by_example=False)):
            return together(self.loop.length or 0, self.loop).evaluate(args)

    def record_in(self, recorder: Interpreter, args: Values) -> list[Value]:
        shared = args[: self.loop.shared]
        if self.loop.examples and any(
            recorder.index_of(arg) >= 0 and is_inexact(dtype_of(arg)) for arg in shared
        ):
            # Each example would add to the cotangents of shared values: matrices, which all
            # examples together add as one product.
            return self.run_together(args)
        return super().record_in(recorder, args)

    def batch(
        self, size: int, args: Values, flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[list[Value], list[bool]]:
        if may_run_apart(size, args, [program for program, _ in self.runs()]):
            count = len(self.loop.body.inputs)
            if differs(self.loop, flags[:count]):
                return self._by_example(size, args, flags)
        if self.loop.examples:
            one = together(self.loop.length or 0, self.loop)
            return run_batched(one.evaluate, size, args, flags)
        batch = batched(self.sweeps, size, flags)
        return batch.results(apply_sweeps(batch.operands(args, flags), batch.sweeps))

    def _by_example(
        self, size: int, args: Values, flags: Sequence[bool]
    ) -> tuple[list[Value], list[bool]]:
        values, loop = over_examples(
            lambda operands: list(self.primitive(*operands, **self.params)),
            self.loop.body.name,
            size,
            args,
            flags,
        )
        return apply_loop(values, loop), [True] * len(loop.body.outputs)

    def require_linear(self, followed: Sequence[bool]) -> None:
        loop = self.loop
        shared, carry, xs = loop.parts(followed)
        name = "fg.scan" if loop.condition is None else "fg.while_loop"
        state, _ = spread(carry, partial(_linear_step, name, loop.body, shared, xs))
        if loop.condition is not None:
            check_linear(name, loop.condition, [*shared, *state])

    def runs(self) -> list[tuple[Program, int | None]]:
        loop = self.loop
        condition = [] if loop.condition is None else [(loop.condition, None)]
        return [*condition, (loop.body, loop.length)]

    def form(self) -> Loop | Program | None:
        return self.loop

    def leaner(self, read: Sequence[bool]) -> tuple[Params, list[int], list[int]] | None:
        lean = None if self._has_unknown_rows else leaner(self.loop, read)
        return None if lean is None else (lean[0].params(), *lean[1:])

    def replayed(self) -> Params:
        if self.loop.condition is None:
            return self.params
        return {**self.params, "replayed": True}

    def label(self) -> str:
        if self._has_unknown_rows:
            return "stacking_scan" if self.loop.condition is None else "stacking_while"
        return "scan" if self.loop.condition is None else "while_loop"

    @property
    def _has_unknown_rows(self) -> bool:
        """Whether specs of arrays or stacks have ``ROWS`` rows: only compilers make such loops."""
        loop = self.loop
        return loop.length is None and (
            loop.condition is None or len(loop.body.outputs) > loop.carried
        )


def run_steps(steps: LoopSteps, loop: Loop, args: Values) -> list[Value]:
    """Run a loop step by step; return its results."""
    shared, carry, xs = loop.parts(args)
    body, condition, carried = loop.body, loop.condition, loop.carried
    row_specs = body.output_specs[carried:]
    rows: list[Sequence[Value]] = []
    for step in steps:
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


def _linear_step(
    name: str,
    program: Program,
    before: Sequence[bool],
    after: Sequence[bool],
    state: Sequence[bool],
) -> tuple[None, list[bool]]:
    return None, check_linear(name, program, [*before, *state, *after])


def _together(size: int, **params: Any) -> Program:
    return together(size, Loop(**params))


LOOP: Final = control_primitive("loop", LoopCall, together=_together)
"""A program that runs again and again, a number of times or as long as a condition holds."""


# ------------------------------------------------------------------------------- the loop backwards


class WhileReverseCall(LoopCall):
    """A loop whose length depends on the data, and the sweeps after it."""

    __slots__ = ()

    def __init__(self, primitive: Primitive, params: Params) -> None:
        loop_params = {name: params[name] for name in Loop._fields if name in params}
        super().__init__(primitive, loop_params)
        self.params = params

    @property
    def sweeps(self) -> Sweeps:
        return Sweeps.of(self.loop, self.params)

    def run(self, args: Values) -> list[Value]:
        return self.sweeps.run(args)

    def results(self, *specs: Spec) -> tuple[Spec, ...]:
        sweeps = self.sweeps
        result_parts: list[Spec] = []
        for number, program in enumerate(sweeps.programs):
            carried = sweeps.parts(specs)[1 + number]
            if program.results(*specs[: len(program.inputs)]) != tuple(carried):
                raise ProgramError(
                    "the way back through a loop changes the shape or dtype of its carry"
                )
            result_parts += carried if number >= sweeps.first else ()
        return tuple(result_parts)

    def require_linear(self, followed: Sequence[bool]) -> None:
        sweeps = self.sweeps
        count = len(sweeps.loop.body.inputs)
        if any(followed[:count]):
            raise DifferentiationError(
                "linear_transpose: the function is not linear: the derivative of a loop is not"
                " linear in the loop's operands, which depend on the arguments of the function."
            )
        flags = [False] * count
        for program, carried in zip(sweeps.later, sweeps.parts(followed)[2:], strict=True):
            flags += spread(carried, partial(_linear_step, "fg.while_loop", program, flags, ()))[0]

    def runs(self) -> list[tuple[Program, int | None]]:
        body, *later = self.sweeps.programs
        return [(program, None) for program in (body, self.loop.condition, *later)]

    def form(self) -> Program | None:
        return as_loops(self.sweeps, LOOP)

    def leaner(self, read: Sequence[bool]) -> None:
        return None

    def label(self) -> str:
        return self.primitive.name


def apply_sweeps(values: Values, sweeps: Sweeps) -> list[Value]:
    """Run sweeps, and return their results; a loop without later sweeps runs as a loop."""
    if not sweeps.later:
        return apply_loop(values, sweeps.loop)
    return list(WHILE_REVERSE(*values, **sweeps.params()))


def _begins(**params: Any) -> tuple[Primitive, Params, int]:
    loop = WhileReverseCall(WHILE_REVERSE, params).loop
    return LOOP, loop.params(), len(loop.body.inputs)


WHILE_REVERSE: Final = control_primitive("while_reverse", WhileReverseCall, _begins)
"""A loop whose length depends on the data, and the sweeps back through its states."""

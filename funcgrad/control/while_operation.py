"""The operations behind ``fg.while_loop`` in programs.

``WHILE`` is the loop. Its derivative in reverse mode is another operation, ``UNWIND``: it runs the
loop once more, keeps its states or some of them, and goes back through them, from the last to the
first, with cotangents. The number of steps need not be known before. A step of the way back is a
program, which is differentiated as any other: in forward mode the way back carries tangents as
well, in reverse mode it has more turns (``sweeps.py``, ``sweep_reverse.py``). So derivatives are
right also where a body has rules of the user's, which need not be the derivative of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from funcgrad.control.operation import (
    ControlRecording,
    Params,
    Rules,
    Values,
    check_linear,
    control_primitive,
)
from funcgrad.control.sweep_reverse import reached, unwind
from funcgrad.control.sweeps import Sweeps
from funcgrad.control.values import as_spec
from funcgrad.control.while_loops import WhileLoop
from funcgrad.control.written_sweeps import written
from funcgrad.errors import DifferentiationError, ProgramError
from funcgrad.primitive import Primitive
from funcgrad.programs.program import Program
from funcgrad.shape import Spec
from funcgrad.structure import Loop
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.masked import Cotangent


class WhileSettings(NamedTuple):
    """The parameters of a loop: its programs, and how many states reverse mode holds at once."""

    loop: WhileLoop
    checkpoints: int | None

    @classmethod
    def of(cls, params: Params) -> WhileSettings:
        """Read the settings back from an equation's parameters."""
        loop = WhileLoop(params["cond"], params["body"], params["consts"])
        return cls(loop, params["checkpoints"])

    def params(self) -> dict[str, Any]:
        """The parameters of an equation."""
        return {**self.loop._asdict(), "checkpoints": self.checkpoints}

    def over(self, loop: WhileLoop) -> WhileSettings:
        """Replace the loop."""
        return self._replace(loop=loop)

    def sweeps(self) -> Sweeps:
        """The loop as sweeps: one sweep, without turns."""
        return Sweeps(self.loop, (), self.checkpoints, 0)


def apply_while(values: Values, settings: WhileSettings) -> list[Value]:
    """Run a loop, and return the last carry."""
    inputs = settings.loop.body.inputs
    operands = [as_spec(x, spec) for x, spec in zip(values, inputs, strict=True)]
    return list(WHILE(*operands, **settings.params()))


def _evaluate(values: Values, params: Params) -> list[Value]:
    loop = WhileSettings.of(params).loop
    return loop.run(*loop.parts(values))


def _result(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    loop = WhileSettings.of(params).loop
    outs = loop.body.results(*specs)
    goes_on = loop.cond.results(*specs)
    if outs != tuple(specs[loop.consts :]):
        raise ProgramError("the body of a loop changes the kind of what it carries")
    if len(goes_on) != 1 or goes_on[0].shape or goes_on[0].dtype != bool:
        raise ProgramError("the condition of a loop is no truth value")
    return outs


def _form(**params: Any) -> Loop:
    loop = WhileSettings.of(params).loop
    return Loop(loop.body, loop.consts, len(loop.body.outputs), None, loop.cond)


def _push(values: Values, tangents: Values, params: Params) -> tuple[list[Value], list[Value]]:
    settings = WhileSettings.of(params)
    loop, layout = settings.loop.pushed([t is not None for t in tangents])
    moved = [zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    outs = apply_while(layout.joined(values, moved), settings.over(loop))
    return layout.taken_apart(outs, 1)


def _batch(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    settings = WhileSettings.of(params)
    batched = settings.loop.batched(size, flags)
    outs = apply_while(batched.operands(values, flags), settings.over(batched.loop))
    return outs[len(outs) - len(batched.state) :], list(batched.state)


def _check_linear(followed: Sequence[bool], params: Params) -> None:
    loop = WhileSettings.of(params).loop
    consts, state = map(list, loop.parts(followed))
    while True:
        out_flags = check_linear("fg.while_loop", loop.body, [*consts, *state])
        grown = list(map(max, state, out_flags))
        if grown == state:
            break
        state = grown
    check_linear("fg.while_loop", loop.cond, [*consts, *state])


class WhileRecording(ControlRecording):
    """The record of a loop, which keeps its operands and none of its states."""

    __slots__ = ("_followed", "_params", "_recorded", "_settings", "_values", "connected", "outs")

    def __init__(self, values: Values, followed: Sequence[bool], params: Params) -> None:
        self._values = values
        self._params = params
        self._settings = settings = WhileSettings.of(params)
        self._followed, (ends,) = reached(settings.sweeps(), followed)
        self.connected = tuple(ends)
        self._recorded = settings.sweeps().recorded(self._followed)
        self.outs = apply_while(values, settings.over(self._recorded.loop))

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        again = self._settings.sweeps()
        return unwind(self._values, self._followed, [cts], (again, self._recorded), _swept)

    def push(self, tangents: Values) -> list[Value]:
        return _push(self._values, tangents, self._params)[1]


# ------------------------------------------------------------------------------- the loop backwards


def _swept(values: Values, sweeps: Sweeps) -> list[Value]:
    """Run sweeps, and return their results."""
    return list(UNWIND(*values, **sweeps.params()))


def _evaluate_unwind(values: Values, params: Params) -> list[Value]:
    return Sweeps.of(params).run(values)


def _written(**params: object) -> Program | None:
    return written(params)


def _begins(**params: object) -> tuple[Primitive, Params, int]:
    sweeps = Sweeps.of(params)
    loop = sweeps.loop
    return WHILE, WhileSettings(loop, sweeps.checkpoints).params(), len(loop.body.inputs)


def _result_unwind(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    sweeps = Sweeps.of(params)
    result_specs: list[Spec] = []
    for number, program in enumerate(sweeps.programs):
        carried = sweeps.parts(specs)[1 + number]
        outs = program.results(*specs[: len(program.inputs)])
        if outs != tuple(carried):
            raise ProgramError("the way back through a loop changes the kind of what it carries")
        result_specs += carried if number >= sweeps.first else ()
    return tuple(result_specs)


def _push_unwind(
    values: Values, tangents: Values, params: Params
) -> tuple[list[Value], list[Value]]:
    sweeps, layout = Sweeps.of(params).pushed([t is not None for t in tangents])
    moved = [zeros_like(x) if t is None else t for x, t in zip(values, tangents, strict=True)]
    outs = _swept(layout.joined(values, moved), sweeps)
    return layout.taken_apart(outs, 1 + sweeps.first)


class UnwindRecording(ControlRecording):
    """The record of a way back through a loop."""

    __slots__ = ("_followed", "_params", "_recorded", "_sweeps", "_values", "connected", "outs")

    def __init__(self, values: Values, followed: Sequence[bool], params: Params) -> None:
        self._values = values
        self._params = params
        self._sweeps = sweeps = Sweeps.of(params)
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
        return _push_unwind(self._values, tangents, self._params)[1]


def _batch_unwind(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    batched = Sweeps.of(params).batched(size, flags)
    return _swept(batched.operands(values, flags), batched.sweeps), batched.results


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
        state = list(carried)
        while True:
            out_flags = check_linear("fg.while_loop", turn, [*flags, *state])
            grown = [*map(max, state, out_flags)]
            if grown == state:
                break
            state = grown
        flags += state


def _leaner(read: Sequence[bool], **params: Any) -> tuple[Params, list[int], list[int]] | None:
    settings = WhileSettings.of(params)
    loop, operands, results = settings.loop.leaner(read)
    return None if loop is settings.loop else (settings.over(loop).params(), operands, results)


WHILE: Final = control_primitive(
    "while_loop",
    Rules(_evaluate, WhileRecording, _push, _batch, _check_linear, _evaluate),
    _result,
    lambda **params: [(params["cond"], None), (params["body"], None)],
    leaner=_leaner,
    form=_form,
)
"""A loop whose length depends on the data."""


def _programs(**params: object) -> list[tuple[Program, int | None]]:
    """The programs of sweeps."""
    return [(param, None) for _, param in sorted(params.items()) if isinstance(param, Program)]


UNWIND: Final = control_primitive(
    "unwind",
    Rules(
        _evaluate_unwind,
        UnwindRecording,
        _push_unwind,
        _batch_unwind,
        _check_linear_unwind,
        _evaluate_unwind,
    ),
    _result_unwind,
    _programs,
    written=_written,
    begins=_begins,
)
"""A loop whose length depends on the data, and the ways back through its states."""

"""Programs of a solver's own: its loop over a user's function, outside of ``jit``.

A solver calls a user's function some hundred times, from a loop in Python. The loop as a program
has the same bits, and takes a tenth of the time or less; as machine code
(`_backends/improving_runs.py`) it takes a hundredth. So it is staged as soon as it comes again, and
kept. Whatever cannot be staged runs as before, without a warning: functions that branch on values,
print, or hold objects that may change.

>>> import funcgrad as fg
>>> programs = LoopPrograms()
>>> def halved(f, tensors):  # a solver
...     (x,) = tensors
...     return [fg.while_loop(lambda c: c > 1.0, lambda c: c - f(c), x)]
>>> [programs.results(lambda x: x / 2, [fg.tensor(10.0)], (), halved) for _ in range(2)]
[None, [Tensor(0.625)]]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import CodeType
from typing import Any, Final, TypeAlias, TypeVar

from funcgrad._backends.choice import chosen_backend
from funcgrad._backends.improving_runs import ImprovingRun
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import quiet
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.trace import RAW, Value, concrete, device_among, running_traces
from funcgrad._hooks.key_uses import current_uses
from funcgrad._hooks.result_watch import WATCH, WATCHING
from funcgrad._passes.pipeline import optimize, simplified
from funcgrad._programs.program import Program
from funcgrad._staging.capture import Capture
from funcgrad._staging.derived import ProgramCall, Run, by_numpy
from funcgrad._staging.eagerness import EAGER
from funcgrad._staging.entry import argument_type
from funcgrad._staging.function_parts import FunctionParts, NoPartsError, acts, function_parts
from funcgrad._transforms.probe import running_probes
from funcgrad._transforms.stage import stage
from funcgrad._transforms.stager import Stager
from funcgrad._transforms.with_derivative import example
from funcgrad.errors import CheckError
from funcgrad.tensor.tensor import Tensor, wrap

T = TypeVar("T")
Loop: TypeAlias = Callable[[Callable[..., Any], list[Tensor]], Any]
"""A solver: from the user's function and other arguments to its results, a pytree."""

_MOST: Final = 32
"""The most programs that are kept, and the most keys that are remembered."""

_MOST_UNUSED: Final = 4
"""The most programs of one function's code that nobody has used again."""


@dataclass(slots=True, eq=False)
class _LoopProgram:
    call: ProgramCall
    result: Structure
    check: Callable[[], bool] | None
    code: CodeType
    was_used: bool = False
    changes: int = 0


class LoopPrograms:
    """The programs of a solver, for the functions that it was last called with."""

    def __init__(self) -> None:
        self._programs: dict[Hashable, _LoopProgram | None] = {}
        self._seen: dict[Hashable, None] = {}

    def results(
        self,
        function: Callable[..., Any] | FunctionParts,
        args: Sequence[Tensor],
        options: Hashable,
        loop: Loop,
        at_once: bool = False,
    ) -> Any:
        """The results of ``loop(function, args)`` by a program; None if there is none.

        Parameters
        ----------
        function : callable or FunctionParts
            The user's.
        args : sequence of Tensor
        options : hashable
            All else that ``loop`` depends on.
        loop : callable
        at_once : bool
            Whether the loop is staged at the first call, and compiled by the default backend. Then
            results agree with the loop in Python to rounding: for loops that take a second there.

        Raises
        ------
        DeviceError
            A tensor is on a device, and the user passed an array of the host.
        """
        if _is_elsewhere():
            return None
        try:
            parts = function if isinstance(function, FunctionParts) else function_parts(function)
        except NoPartsError:
            return None
        values = [concrete(x) for x in (*args, *parts.tensors)]
        device = device_among(values)
        if device is not None:  # which would take all arrays along
            device.refuse_arguments("a solver")
        examples = [example(value) for value in values]
        types = tuple([argument_type(value) for value in examples])
        key = parts.key, options, at_once, types
        program = self._program(key, parts, values, examples, loop, at_once)
        if program is None:
            return None
        try:
            with quiet():
                outs = [wrap(out) for out in program.call.apply(values)]
        except Exception:  # the loop in Python raises it again, at the user's line
            return None
        return pytrees.unflatten(program.result, outs)

    def _program(
        self,
        key: Hashable,
        parts: FunctionParts,
        values: Sequence[Value],
        examples: Sequence[Value],
        loop: Loop,
        at_once: bool,
    ) -> _LoopProgram | None:
        """The program for a key, made when the key comes again; None if there is none.

        The results of a program for raw values have the bits of the loop in Python. Derivatives
        add in another order, so that they come from the program at the first time, too.
        """
        before = None
        if key in self._programs:
            before = self._programs.pop(key)
            self._programs[key] = before  # the latest is the last
            if before is None:
                return None
            if before.check is None or before.check():
                before.was_used = True
                return before
        elif not at_once and all(type(value) in RAW for value in values) and key not in self._seen:
            _add(self._seen, key, None)
            return None
        made = None
        if at_once or self._is_worth_it(before, parts):
            made = _made(parts, examples, loop, at_once)
        if made is not None and before is not None:
            made.changes = before.changes + 1
        _add(self._programs, key, made)
        return made

    def _is_worth_it(self, before: _LoopProgram | None, parts: FunctionParts) -> bool:
        """Whether programs are likely to be used again: not if outside values always change."""
        if before is not None:
            return before.changes < _MOST_UNUSED
        programs = [program for program in list(self._programs.values()) if program is not None]
        unused = [program for program in programs if not program.was_used]
        return len([1 for program in unused if program.code is parts.code]) < _MOST_UNUSED


def _add(made: dict[Hashable, T], key: Hashable, value: T) -> None:
    for oldest in list(made)[: 1 - _MOST]:
        made.pop(oldest, None)
    made[key] = value


def _by_default(program: Program) -> Run:
    """Compile by the default backend, or else by NumPy's."""
    backend = chosen_backend(None, "a solver")
    if not backend.supports(program):
        return by_numpy(program, False)[1].run
    try:
        return backend.compile(backend.prepare(program, False)).run
    except CheckError:  # of a pass, which ``fg.testing.validated`` asked for
        raise
    except Exception:  # it could not be compiled
        return by_numpy(program, False)[1].run


def _is_elsewhere() -> bool:
    """Whether the loop is staged as a part of a program, or somebody looks at its steps."""
    if WATCHING.begun and WATCH.get() is not None:
        return True
    if EAGER.get() or running_probes() or current_uses() is not None:
        return True
    return any(isinstance(trace, Stager) for trace in running_traces())


def _made(
    parts: FunctionParts, examples: Sequence[Value], loop: Loop, at_once: bool
) -> _LoopProgram | None:
    """Stage a loop; None if its function may not be staged."""
    from funcgrad._backends.numpy.prepare import prepared_exactly

    count = len(examples) - len(parts.tensors)
    tensors = [wrap(value) for value in examples]

    def run(*args: Tensor) -> Any:
        return loop(parts.joined(args[count:]), list(args[:count]))

    function = parts.joined(tensors[count:])
    capture = Capture(function)
    if not capture.complete or any(map(acts, capture.codes)):
        return None
    try:
        staged = capture.run(lambda: stage("jit", run, tuple(tensors), {}))
        if staged is None or staged.guards or not staged.is_raw:
            return None
        if capture.drew() or capture.draws or not capture.unchanged():
            return None
        if at_once:
            program = optimize(staged)
            call = ProgramCall(program, _by_default, _by_default(program))
        else:
            program = simplified(staged)
            improving = ImprovingRun(prepared_exactly(program))
            call = ProgramCall(program, lambda derived: by_numpy(derived, False)[1].run, improving)
    except CheckError:  # as above
        raise
    except Exception:  # the loop in Python runs, or raises it again
        return None
    return _LoopProgram(call, staged.result, capture.check, parts.code)

"""Where an operation runs: the user's line, the loop step, the batch, the derivative.

Functions record nothing for this while they run. It is read from the call stack, and only while a
function is replayed.

>>> from inspect import currentframe
>>> context(currentframe()).line.startswith("<doctest")
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from funcgrad._base.users_line import arguments_of, is_users, line_of_frame
from funcgrad._control.loop_operation import run_steps
from funcgrad._control.python_loops import looped
from funcgrad._control.values import LoopSteps
from funcgrad._control.whiles import counting_up, repeating
from funcgrad._core.primitive import Primitive
from funcgrad._programs.equation import bound
from funcgrad._transforms.batcher import Batcher
from funcgrad._transforms.checkpoint_entry import CheckpointEntry
from funcgrad._transforms.entries import Entry, OperationEntry
from funcgrad._transforms.quick_entries import QuickEntry, push_product, push_quick
from funcgrad._transforms.record import MultiResult


class Location(NamedTuple):
    """Where an operation runs.

    Attributes
    ----------
    line : str
        The user's file and line.
    derivative : str
        ``"pull"`` or ``"tangent"`` if the operation belongs to the derivative rule of another one.
    entry : object
        The primitive and the result of that other operation.
    steps : tuple of pairs
        The loops around it, the outermost first: their names, and the indices of the steps.
    sizes : tuple of int
        The sizes of the batches around it, the outermost first; they are the first axes.
    """

    line: str
    derivative: str = ""
    entry: tuple[Any, Any] | None = None
    steps: tuple[tuple[str, int], ...] = ()
    sizes: tuple[int, ...] = ()


def _codes(*functions: Callable[..., Any]) -> frozenset[CodeType]:
    return frozenset([function.__code__ for function in functions])


# The functions of the engine that are known here. Each one is given the record that is read.
_PULLS: Final = _codes(QuickEntry.pull, Entry.pull, MultiResult.pull)
_PUSHES: Final = _codes(OperationEntry.push, MultiResult.push, push_quick, push_product)
_LOOPS: Final = _codes(looped, counting_up, repeating, run_steps)
_BATCHES: Final = _codes(Batcher.process, Batcher.process1, Batcher.process2, Batcher.process_call)
_AGAIN: Final = CheckpointEntry.again.__code__


def _differentiated(arguments: Sequence[object]) -> tuple[Primitive, object] | None:
    """The operation that a function differentiates, and its result, by the function's arguments."""
    record, *_, last = arguments
    if isinstance(record, Primitive):
        return record, last
    if isinstance(record, MultiResult):
        return record.primitive, record.outs
    if isinstance(record, (QuickEntry, OperationEntry)):
        return record.primitive, record.out
    return None


def context(frame: FrameType | None, stop: CodeType | None = None) -> Location:
    """Read where an operation runs, from its frame up to a frame of the code ``stop``."""
    line, derivative, entry = "", "", None
    steps: list[tuple[str, int]] = []
    sizes: list[int] = []
    batches: list[Any] = []
    while frame is not None and frame.f_code is not stop:
        code = frame.f_code
        if not line and not derivative and (code in _PULLS or code in _PUSHES):
            entry = _differentiated(arguments_of(frame))
            if entry is not None:
                derivative = "pull" if code in _PULLS else "tangent"
        elif code in _LOOPS:
            running: LoopSteps = arguments_of(frame)[0]
            if running.number is not None:
                steps.append((running.operation, running.number))
        elif code is _AGAIN:
            steps += reversed(arguments_of(frame)[0].steps)
        elif code in _BATCHES:
            batch = arguments_of(frame)[0]
            if not any(batch is other for other in batches):
                batches.append(batch)
                sizes.append(batch.size)
        elif not line and code is bound.__code__:
            line = arguments_of(frame)[0].source
        elif not line and is_users(frame):
            line = line_of_frame(frame)
        frame = frame.f_back
    while not line and not derivative and frame is not None:  # the function itself has no line
        line = line_of_frame(frame) if is_users(frame) else ""
        frame = frame.f_back
    return Location(line, derivative, entry, tuple(reversed(steps)), tuple(sizes))

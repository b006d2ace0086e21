"""Where an operation runs: the user's line, the loop step, the batch, the derivative.

Functions record nothing for this while they run. It is read from the call stack, and only while a
function is replayed.

>>> from inspect import currentframe
>>> context(currentframe()).line.startswith("<doctest")
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, FrameType, MappingProxyType
from typing import Any, Final, NamedTuple

from funcgrad._base.users_line import is_users, line_of_frame
from funcgrad._control.loop_operation import LoopCall
from funcgrad._control.python_loops import looped
from funcgrad._control.whiles import counting_up, masked_steps, repeating
from funcgrad._programs.equation import bound
from funcgrad._transforms.batch import Batcher
from funcgrad._transforms.checkpoint import CheckpointEntry
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


_Read = Callable[[Mapping[str, Any]], Any]


def _of_entry(names: Mapping[str, Any]) -> tuple[Any, Any] | None:
    entry = names["self"]
    primitive = getattr(entry, "primitive", None)
    out = getattr(entry, "out", None)
    return None if primitive is None else (primitive, entry.outs if out is None else out)


def _of_names(names: Mapping[str, Any]) -> tuple[Any, Any]:
    return names["primitive"], names["out"]


_DERIVATIVES: Final[Mapping[CodeType, tuple[str, _Read]]] = MappingProxyType(
    {
        QuickEntry.pull.__code__: ("pull", _of_entry),
        Entry.pull.__code__: ("pull", _of_entry),
        MultiResult.pull.__code__: ("pull", _of_entry),
        OperationEntry.push.__code__: ("tangent", _of_entry),
        MultiResult.push.__code__: ("tangent", _of_entry),
        push_quick.__code__: ("tangent", _of_names),
        push_product.__code__: ("tangent", _of_names),
    }
)
"""The functions that run derivatives of operations, and how to read the operation from them."""

_LOOPS: Final[Mapping[CodeType, _Read]] = MappingProxyType(
    {
        looped.__code__: lambda names: (names["operation"], names.get("step")),
        counting_up.__code__: lambda names: ("fori_loop", names.get("number")),
        repeating.__code__: lambda names: (names["operation"], names.get("number")),
        masked_steps.__code__: lambda names: (names["operation"], names.get("number")),
        LoopCall.run.__code__: lambda names: (names["self"].label(), names.get("step")),
    }
)
"""The functions that run loops, and how to read the step from them."""

_BATCHES: Final = frozenset(
    method.__code__
    for method in (Batcher.process, Batcher.process1, Batcher.process2, Batcher.process_call)
)


def context(frame: FrameType | None, stop: CodeType | None = None) -> Location:
    """Read where an operation runs, from its frame up to a frame of the code ``stop``."""
    line, derivative, entry = "", "", None
    steps: list[tuple[str, int]] = []
    sizes: list[int] = []
    batches: list[Any] = []
    while frame is not None and frame.f_code is not stop:
        code = frame.f_code
        if not line and code in _DERIVATIVES and not derivative:
            word, read = _DERIVATIVES[code]
            entry = read(frame.f_locals)
            derivative = word if entry is not None else ""
        elif code in _LOOPS:
            name, step = _LOOPS[code](frame.f_locals)
            if step is not None:
                steps.append((name, step))
        elif code is CheckpointEntry.again.__code__:
            steps += reversed(frame.f_locals["self"].steps)
        elif code in _BATCHES:
            batch = frame.f_locals["self"]
            if not any(batch is other for other in batches):
                batches.append(batch)
                sizes.append(batch.size)
        elif not line and code is bound.__code__:
            line = frame.f_locals["equation"].source
        elif not line and is_users(frame):
            line = line_of_frame(frame)
        frame = frame.f_back
    while not line and not derivative and frame is not None:  # the function itself has no line
        line = line_of_frame(frame) if is_users(frame) else ""
        frame = frame.f_back
    return Location(line, derivative, entry, tuple(reversed(steps)), tuple(sizes))

"""One immutable record for each context: who interprets, where entries go, who takes part.

A transformation enters a changed record for the time of a call; threads and asynchronous tasks have
records of their own. The running levels have a variable of their own in ``trace``, since each
gradient sets that.

>>> with repeated("second run"):
...     current().rerun
'second run'
>>> current().rerun is None
True
>>> with delegated("trace", "stager"):
...     delegate("trace"), delegate("another")
('stager', None)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeAlias

from funcgrad._core.trace import Value

Interpreter: TypeAlias = Any
"""A trace of a class in a layer above this one."""


class Context(NamedTuple):
    """Who interprets operations, where entries go, and who takes part.

    Attributes
    ----------
    delegates : tuple of (trace, trace or None, bool)
        Traces, each with the trace that interprets for it, the innermost first, and whether only
        calls whose pullback may be nonlinear are delegated.
    asides : tuple of (tape, list or None)
        Tapes, each with the list that its entries go to; None where its values are only read.
    active_examples : value, optional
        Which examples of a batch take part, as a truth value that the batch follows; None for all.
    rerun : object, optional
        An object that identifies a repeated run, as of a checkpoint; None in first runs. Staging
        puts repeated operations in another epoch, so that they are not merged with the first.
    probes : ProbeSet, optional
        The names that the innermost gradient, or checkpoint, that is running asks for.
    stages_branches : bool
        Whether choices stage functions that do not run.
    by_example : bool
        Whether loops and choices that differ from example to example of a staged batch are staged
        for one example.
    """

    delegates: tuple[tuple[object, Interpreter, bool], ...] = ()
    asides: tuple[tuple[object, list[Any] | None], ...] = ()
    active_examples: Value | None = None
    rerun: object | None = None
    probes: Any = None
    stages_branches: bool = True
    by_example: bool = True


_FIRST: Final = Context()
_CONTEXT: Final[ContextVar[Context]] = ContextVar("funcgrad_context", default=_FIRST)

current: Final[Callable[[], Context]] = _CONTEXT.get
"""The record of this context."""


class entered:  # noqa: N801 - used as a function: `with entered(context)`
    """Within this context, another record holds."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Context) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = _CONTEXT.set(self._context)

    def __exit__(self, *_: object) -> None:
        _CONTEXT.reset(self._token)


def repeated(run: object) -> AbstractContextManager[None]:
    """Within this context, operations are repeated, as by a checkpoint; ``run`` identifies it."""
    return entered(current()._replace(rerun=run))


# -------------------------------------------------------------------------------- who interprets


def delegated(trace: object, to: Interpreter) -> AbstractContextManager[None]:
    """Within this context, let another trace interpret operations on a trace's tracers only.

    A function that is staged by itself may close over tracers of the transformation around it.
    Operations on these belong to the staged function, too. The other trace has to be the next one
    inside: tracers of traces in between must not hold its tracers. With None for the other trace,
    the trace interprets them itself again.
    """
    return all_delegated((trace,), to)


def all_delegated(
    traces: Sequence[object], to: Interpreter, only_nonlinear: bool = False
) -> AbstractContextManager[None]:
    """Within this context, let another trace interpret for several traces.

    With ``only_nonlinear`` they delegate only calls whose pullback may be nonlinear.
    """
    context = current()
    delegates = *[(trace, to, only_nonlinear) for trace in traces], *context.delegates
    return entered(context._replace(delegates=delegates))


def delegate(trace: object, is_linear: bool = True) -> Interpreter:
    """The trace that interprets for another in this context; None if none does.

    It interprets an operation, or a call whose pullback may be nonlinear.
    """
    for owner, to, only_nonlinear in current().delegates:
        if owner is trace and not (only_nonlinear and is_linear):
            return to
    return None


def holds_linear(trace: object) -> bool:
    """Whether a trace delegates calls in this context, except those that are surely linear."""
    return delegate(trace, is_linear=False) is not delegate(trace)


def within_linear() -> AbstractContextManager[None]:
    """Within this context, in a call that is linear, no trace delegates only calls."""
    context = current()
    delegates = tuple([entry for entry in context.delegates if not entry[2]])
    return entered(context._replace(delegates=delegates))

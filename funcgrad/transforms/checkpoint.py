"""``checkpoint``: remember a call instead of what happened in it.

In reverse mode the call's entries are set aside and dropped; the pullback runs the function again,
with the tracers it had, to get them back. Values that the function closes over are followed like
its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial, wraps
from types import CellType, FunctionType
from typing import Any, ParamSpec, TypeVar

from funcgrad import trees
from funcgrad.tensor import wrap
from funcgrad.trace import (
    RAW,
    Trace,
    Value,
    begin_level,
    current_rerun,
    rerun,
    resume,
    running_traces,
)
from funcgrad.transforms.arguments import call_values, check_function, values_of
from funcgrad.transforms.collage import finished
from funcgrad.transforms.probe import probe_again, running_probes
from funcgrad.transforms.pull import Cotangents, Entry, accumulate, pull_back
from funcgrad.transforms.record import Recorder
from funcgrad.transforms.replay import Tangents, push_through

__all__ = ["checkpoint", "run_segment"]

P = ParamSpec("P")
R = TypeVar("R")


class _Sparse(dict[int, Any]):
    """Cotangents by variable, of which a segment has few of all there are."""

    __slots__ = ()

    def __missing__(self, index: int) -> None:
        return None


class _Segment:
    """A call that can be run again on the tracers it was recorded with.

    ``traces`` are those that ran during the call, from the innermost to the recorder's: tracers of
    theirs that the function was given, or closes over, mean the same when it runs again.
    """

    __slots__ = ("probes", "run", "traces")

    def __init__(self, run: Callable[[], list[Value]], traces: tuple[Trace, ...]) -> None:
        self.run = run
        self.traces = traces
        self.probes = running_probes()

    def again(self) -> tuple[list[Entry], list[int]]:
        """The entries of the call, and the variables of its results."""
        recorder: Any = self.traces[-1]
        with begin_level(), probe_again(self.probes), rerun(object()), recorder.aside() as entries:
            resume(self.traces)
            outs = self.run()
        return entries, [recorder.index_of(own) for own in _tracers(recorder, outs)]

    def push_aside(self, tangents: Tangents) -> list[Value]:
        """The results' tangents, from those of all that the call reads."""
        entries, outs = self.again()
        local = dict(tangents)
        push_through(entries, local)
        return [local.get(index) for index in outs]


def _pull_segment(cotangents: Cotangents, cts: Any, entry: Entry) -> None:
    segment: _Segment = entry[3]
    entries, outs = segment.again()
    found = _Sparse()
    seeds = [(i, ct) for i, ct in zip(outs, cts, strict=True) if i >= 0 and ct is not None]
    pull_back(reversed(entries), found, seeds)
    for index, ct in found.items():
        if ct is not None:
            accumulate(cotangents, index, finished(ct))


def _replace(recorder: Recorder, value: Value, new: Callable[[Value], Value]) -> Value:
    """A value with something new for the recorder's tracers in it, looking into inner tracers."""
    trace = None if type(value) in RAW else value._trace
    if trace is None or trace.level < recorder.level:
        return value
    if trace is recorder:
        return new(value)
    return trace.rebuild(value, lambda inner: _replace(recorder, inner, new))


def _tracers(recorder: Recorder, values: Sequence[Value]) -> list[Value]:
    """The recorder's tracers in values, in the order in which ``_replace`` comes to them."""
    found: list[Value] = []

    def keep(own: Value) -> Value:
        found.append(own)
        return own

    for value in values:
        _replace(recorder, value, keep)
    return found


def run_segment(
    function: Callable[[Sequence[Value]], list[Value]], args: Sequence[Value]
) -> list[Value]:
    """Run a function of values without its entries, if anything records, and record that it ran.

    It may close over values of the transformations that run.
    """
    traces = running_traces()
    staged = traces[0].process_segment(function, args) if traces else None
    if staged is not None:
        return staged
    run = partial(function, args)
    places = [k for k, trace in enumerate(traces) if isinstance(trace, Recorder)]
    if not places:
        return run()
    recorder: Any = traces[places[0]]
    with recorder.aside():
        outs = run()
    found = [own._data for own in _tracers(recorder, outs)]
    if not found:
        return outs
    segment = _Segment(run, tuple(traces[: places[0] + 1]))
    results = iter(recorder.segment(_pull_segment, segment, found))
    return [_replace(recorder, out, lambda own: next(results)) for out in outs]


def _as_now(f: Any, known: dict[int, Any]) -> Any:
    """A function that closes over what it closes over now, and so do functions among that.

    A variable of a loop has its last value when the function is run again.
    """
    if not isinstance(f, FunctionType) or f.__closure__ is None:
        return f
    if id(f) not in known:
        cells = tuple([CellType() for _ in f.__closure__])
        own = FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, cells)
        own.__kwdefaults__ = f.__kwdefaults__
        own.__dict__.update(f.__dict__)
        known[id(f)] = own
        for cell, given in zip(cells, f.__closure__, strict=True):
            with suppress(ValueError):  # one that is empty so far
                cell.cell_contents = _as_now(given.cell_contents, known)
    return known[id(f)]


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """A function that reverse mode runs again rather than remembers.

    Parameters
    ----------
    f : callable
        Of pytrees, returning a pytree. It has to be pure, since it runs once more in every
        pullback. The names that it closes over stand there for what they stand for when it is
        called, so it may be made in a loop; lists and objects must not have changed.

    Returns
    -------
    callable
        The same function. A record holds its arguments and its results only; pulling back through
        it costs one more evaluation. Forward mode needs no memory anyway, and is as ever.

    Notes
    -----
    Where to place checkpoints: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000.
    Under nested reverse mode the innermost derivative saves the memory.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: fg.checkpoint(lambda y: (y * y) * y)(x))(2.0)
    Tensor(12.0)
    """
    check_function("checkpoint", f)

    @wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = trees.flatten((args, kwargs))
        values = call_values("checkpoint", f, leaves, structure)
        found: list[trees.Structure] = []
        again = _as_now(f, {})

        def run(own: Sequence[Value]) -> list[Value]:
            inner_args, inner_kwargs = trees.unflatten(structure, [wrap(x) for x in own])
            call: Callable[..., Any] = f if current_rerun() is None else again
            out_leaves, out_structure = trees.flatten(call(*inner_args, **inner_kwargs))
            found[:] = [out_structure]
            return values_of("checkpoint", out_leaves, out_structure, lambda: "the result")

        outs = run_segment(run, values)
        result: R = trees.unflatten(found[0], [wrap(out) for out in outs])
        return result

    return checkpointed

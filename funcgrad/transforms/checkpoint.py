"""``checkpoint``: remember a call instead of what happened in it.

In reverse mode the call's entries are set aside and dropped; the pullback runs the function again,
with the tracers it had, to get them back. Values that the function closes over are followed like
its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from funcgrad import trees
from funcgrad.tensor import wrap
from funcgrad.trace import Value, begin_level
from funcgrad.transforms.arguments import call_values, values_of
from funcgrad.transforms.call import Call, bind_call
from funcgrad.transforms.flat import FlatFunction, batched_flat
from funcgrad.transforms.forward import Pusher
from funcgrad.transforms.masked import Patchwork
from funcgrad.transforms.probe import probe_again, running_probes
from funcgrad.transforms.pull import Cotangents, Entry, accumulate, pull_back
from funcgrad.transforms.record import Recorder
from funcgrad.transforms.replay import Tangents, push_through

__all__ = ["checkpoint"]

P = ParamSpec("P")
R = TypeVar("R")


class _Sparse(dict[int, Any]):
    """Cotangents by variable, of which a segment has few of all there are."""

    __slots__ = ()

    def __missing__(self, index: int) -> None:
        return None


class _Segment:
    """A call that can be run again on the tracers it was recorded with."""

    __slots__ = ("args", "call", "probes", "recorder")

    def __init__(self, call: CheckpointCall, recorder: Recorder, args: Sequence[Value]) -> None:
        self.call = call
        self.recorder = recorder
        self.args = args
        self.probes = running_probes()

    def again(self) -> tuple[list[Entry], list[int]]:
        """The entries of the call, and the variables of its results."""
        with begin_level(), probe_again(self.probes), self.recorder.aside() as entries:
            outs = self.call.run(self.args)
        return entries, [self.recorder.index_of(out) for out in outs]

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
    pull_back(entries, found, seeds)
    for index, ct in found.items():
        if ct is not None:
            accumulate(cotangents, index, ct.settle() if type(ct) is Patchwork else ct)


class CheckpointCall(Call):
    """A call of a function that reverse mode records without its insides."""

    __slots__ = ("function",)

    def __init__(self, function: FlatFunction) -> None:
        self.function = function

    def run(self, args: Sequence[Value]) -> list[Value]:
        return list(self.function(args))

    def record_in(self, recorder: Any, args: Sequence[Value]) -> list[Value]:
        with recorder.aside():
            outs = self.run(args)
        data = [recorder.inner(out) for out in outs]
        segment = _Segment(self, recorder, args)
        results: list[Value] = recorder.segment(_pull_segment, segment, data)
        return results

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[list[Value], Sequence[Value]]:
        with begin_level() as level:
            pusher = Pusher(level)
            try:
                outs = self.run([pusher.dual(x, t) for x, t in zip(args, tangents, strict=True)])
            finally:
                pusher.close()
        parts = [pusher.parts(out) for out in outs]
        return [primal for primal, _ in parts], [tangent for _, tangent in parts]

    def batched(self, size: int, flags: Sequence[bool]) -> Call:
        return CheckpointCall(batched_flat(self.function, size, flags))


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """A function that reverse mode runs again rather than remembers.

    Parameters
    ----------
    f : callable
        Of pytrees, returning a trees. It has to be pure, since it runs once more in every
        pullback.

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

    @wraps(f)
    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = trees.flatten((args, kwargs))
        values = call_values("checkpoint", f, leaves, structure)
        found: list[trees.Structure] = []

        def run(inner: Sequence[Value]) -> Sequence[Value]:
            inner_args, inner_kwargs = trees.unflatten(structure, [wrap(x) for x in inner])
            call: Callable[..., Any] = f
            out_leaves, out_structure = trees.flatten(call(*inner_args, **inner_kwargs))
            found[:] = [out_structure]
            return values_of("checkpoint", out_leaves, out_structure, lambda: "the result")

        outs = bind_call(CheckpointCall(run), values)
        result: R = trees.unflatten(found[0], [wrap(out) for out in outs])
        return result

    return checkpointed

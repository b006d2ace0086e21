"""Operations that transformations meet as a whole: loops, jitted programs, calls with rules.

Such an operation is a ``Composite``: a value that knows how it is evaluated, recorded, pushed and
batched. A program or a user's function becomes one, as a NumPy function becomes a primitive. The
innermost trace among its arguments interprets it, as any operation; the trace asks the
operation in turn, and reverse mode keeps one ``CompositeEntry``.

>>> class Square(Composite):
...     def run(self, args):
...         return [args[0] * args[0]]
...
...     def record(self, args, followed):
...         (x,) = args
...         return Recording([x * x], lambda cts: [2 * x * cts[0]], lambda ts: [2 * x * ts[0]])
>>> import funcgrad as fg
>>> fg.grad(lambda x: fg.tensor(bind_composite(Square(), [x])[0]))(3.0)
Tensor(6.0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import shape_of
from funcgrad._core.trace import RAW, Trace, Value, innermost
from funcgrad._primitives.logic import logical_or
from funcgrad._primitives.reduction import reduce_any
from funcgrad._transforms.accumulation import Variables, accumulate
from funcgrad._transforms.entries import Entry, plus
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad.errors import TracerError

Map: TypeAlias = Callable[[list[Value]], Sequence[Value]]
"""A linear map between lists of tangents or cotangents, in which None is a structural zero."""

Interpreter: TypeAlias = Any
"""A recorder, a pusher, a batcher or a stager, whose classes are in layers above this one."""


class ClosureError(TracerError):
    """A call closes over a value of a transformation further in than those it takes part in."""


class Recording(NamedTuple):
    """An operation as reverse mode keeps it: its results, and its linear maps.

    Attributes
    ----------
    outs : list of values
        The results.
    pull : callable
        From the cotangents of all results to the cotangents of the arguments.
    push : callable
        From the tangents of the arguments to the tangents of all results.
    connected : sequence of int, optional
        The places of the results that depend on the followed arguments; by default all.
    """

    outs: Sequence[Value]
    pull: Map
    push: Map
    connected: Sequence[int] | None = None


class Composite:
    """An operation that transformations meet as a whole.

    Attributes
    ----------
    is_linear : bool
        Whether its pullback is linear for certain: the pullback of a sum is the sum of pullbacks.
    """

    __slots__ = ()

    @property
    def is_linear(self) -> bool:
        return True

    def run(self, args: Sequence[Value]) -> list[Value]:
        """The results, operation by operation, under whatever transformations run further out."""
        raise NotImplementedError

    def evaluate(self, args: Sequence[Value]) -> list[Value]:
        """The results for values that no transformation follows."""
        return self.run(args)

    def record(self, args: Sequence[Value], followed: Sequence[bool]) -> Recording:
        """The results and the linear maps, where reverse mode follows some of the arguments."""
        raise NotImplementedError

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """The results and their tangents, from the arguments and theirs."""
        recording = self.record(args, [tangent is not None for tangent in tangents])
        return recording.outs, recording.push(tangents)

    def batch(
        self, size: int, args: Sequence[Value], flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        """The results on a batch, and which of them carry it on axis 0, as flagged arguments do.

        ``around`` is the trace of the batch.
        """
        raise NotImplementedError

    def record_in(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Append the operation to a recorder's entries, and return tracers of the results."""
        operands = [recorder.index_of(arg) for arg in args]
        inner = [recorder.inner(arg) for arg in args]
        recording = self.record(inner, [operand >= 0 for operand in operands])
        return recorder.append_whole(recording, operands)

    def record_linearly(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Record as ``record_in`` does, while a linear function of the arguments is transposed."""
        return self.run(args)

    def push_in(self, pusher: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Push the tangents of forward mode's tracers, and return tracers of the results."""
        parts = [pusher.parts(arg) for arg in args]
        outs, tangents = self.push([primal for primal, _ in parts], [t for _, t in parts])
        return [pusher.dual(out, tangent) for out, tangent in zip(outs, tangents, strict=True)]

    def batch_in(self, batcher: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Run on the batch that tracers stand for, and return tracers of the results."""
        parts = [batcher.parts(arg) for arg in args]
        values, flags = [value for value, _ in parts], [flag for _, flag in parts]
        outs, out_flags = self.batch(batcher.size, values, flags, batcher)
        return [
            batcher.follow(out) if flag else out for out, flag in zip(outs, out_flags, strict=True)
        ]

    def interpret(self, trace: Interpreter, args: Sequence[Value]) -> list[Value]:
        """The results under a transformation that has no meaning for it as a whole."""
        return self.run(args)


def bind_composite(whole: Composite, args: Sequence[Value]) -> list[Value]:
    """Run an operation under the transformation of the innermost tracer among its arguments."""
    trace = innermost_trace(args)
    return whole.evaluate(args) if trace is None else trace.process_call(whole, args)


@dataclass(slots=True, eq=False)
class CompositeEntry(Entry):
    """An operation with linear maps of its own; its variable stands for the list of its results."""

    operands: Sequence[int]
    pull_map: Map
    push_map: Map
    count: int  # of the results

    def push(self, tangents: Variables) -> Sequence[Value]:
        operand_tangents = [tangents[operand] for operand in self.operands]
        if all(tangent is None for tangent in operand_tangents):
            return [None] * self.count
        return self.push_map(operand_tangents)

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        for operand, g in zip(self.operands, self.pull_map(ct), strict=True):
            if operand >= 0 and g is not None:
                accumulate(cotangents, operand, g)


@dataclass(slots=True, eq=False)
class ResultEntry(Entry):
    """One of the results of an operation that was recorded as a whole."""

    call: int  # the operation's variable
    position: int
    count: int  # of all results
    closed_over: int  # the variable of a closed-over value that is returned unchanged, or -1

    def push(self, tangents: Variables) -> Value:
        return plus(tangents[self.call][self.position], tangents[self.closed_over])

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        if type(ct) is Masked and type(ct.mask) in RAW and not np.any(ct.mask):
            return  # wholly absent, which a rule could not tell from zeros
        if cotangents[self.call] is None:
            cotangents[self.call] = [None] * self.count
        cotangents[self.call][self.position] = ct
        if self.closed_over >= 0:
            accumulate(cotangents, self.closed_over, ct)


def where_present(pull: Map) -> Map:
    """A pullback that knows nothing of masks: it returns absent cotangents if all are absent.

    A mask that is followed by a transformation, as in a batch, may be empty for some examples.
    """

    def pull_present(cts: list[Value]) -> Sequence[Value]:
        reached, pulled = _any_present(cts), pull(cts)
        if reached is None:
            return pulled
        return [
            None
            if ct is None
            else ct.select(reached)
            if type(ct) is Masked
            else Masked(ct, reached, False)
            for ct in pulled
        ]

    return pull_present


def _any_present(cts: Sequence[Cotangent]) -> Value | None:
    """A truth value, false where all cotangents are absent; None if one is surely present."""
    reached: Value | None = None
    for ct in cts:
        if ct is None:
            continue
        if type(ct) is not Masked or type(ct.mask) in RAW:
            return None
        axes = tuple(range(len(shape_of(ct.mask))))
        present = reduce_any(ct.mask, axis=axes, keepdims=False)
        reached = present if reached is None else logical_or(reached, present)
    return reached


def innermost_trace(args: Sequence[Value]) -> Trace | None:
    """The innermost trace among some values; None when all are concrete."""
    trace: Trace | None = None
    for arg in args:
        other = None if type(arg) in RAW else arg._trace
        if other is not None and other is not trace:
            trace = other if trace is None else innermost(trace, other)
    return trace


def check_closure(level: int, outs: Sequence[Value]) -> None:
    """Refuse results that belong to a later transformation than a call's arguments do.

    Such a value did not come in as an argument, so the function closes over it.
    """
    for out in outs:
        other = None if out is None or type(out) in RAW else out._trace
        if other is not None and other.level > level:
            raise ClosureError(
                "A function with a custom rule closes over a value of a transformation that runs"
                " inside of those that its arguments belong to. Pass that value as an argument."
            )

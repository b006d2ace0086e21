"""Whole calls as operations: what custom rules, checkpoints and probes have in common.

A ``Call`` is to a user's function what a primitive is to a NumPy function: the innermost trace
among the arguments asks it how to evaluate, record, push or batch itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from funcgrad.errors import TracerError
from funcgrad.primitives.logic import logical_or
from funcgrad.primitives.reduction import reduce_any
from funcgrad.primitives.selection import where
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec, shape_of
from funcgrad.trace import RAW, Trace, Value, innermost
from funcgrad.transforms.accumulation import Variables, accumulate
from funcgrad.transforms.entries import Entry, plus
from funcgrad.transforms.masked import Cotangent, Masked, plain
from funcgrad.transforms.tape import reading

Map: TypeAlias = Callable[[list[Value]], Sequence[Value]]
"""A linear map between lists of tangents or cotangents, in which None is a structural zero."""


Recording: TypeAlias = "Callable[[Sequence[Value]], tuple[list[Value], Map, Map]]"
"""From arguments to results, the pullback of cotangents and the pushforward of tangents."""


class Sizes(NamedTuple):
    """How many arguments a call has, how many values it closes over, how many results.

    The last arguments, ``known`` many, stand for values that were closed over before.
    """

    args: int
    closed: int
    outs: int
    known: int


class ClosureError(TracerError):
    """A call closes over a value of a transformation inside of those of its arguments."""


@dataclass(frozen=True, slots=True)
class Part:
    """The function of a call, or one of its rules, as it was staged.

    Attributes
    ----------
    program : Program
        Its last inputs are the values that the function closes over.
    closed : tuple of values
        These values.
    present : tuple of bool
        Which results are values; the others are None.
    results : tuple of values
        The results for the arguments that it was staged with.
    """

    program: Any
    closed: tuple[Value, ...]
    present: tuple[bool, ...]
    results: tuple[Value, ...]


class Call:
    """A function of values to a list of values, with rules of its own.

    Attributes
    ----------
    is_staged : bool
        Whether its function may be staged, rather than only run.
    is_linear : bool
        Whether its pullback is linear for certain: the pullback of a sum is the sum of pullbacks.
    frozen : Call, optional
        The call as a value, see ``explicit.py``, if everything that goes in is an argument.
    result_specs : sequence of Spec, optional
        The specs of its results, where they are known before it runs.
    """

    __slots__ = ()
    is_staged: ClassVar[bool] = True
    has_linear_pullback: ClassVar[bool] = True
    frozen: Any = None

    @property
    def is_linear(self) -> bool:
        return self.has_linear_pullback

    @property
    def result_specs(self) -> Sequence[Spec] | None:
        return None

    @property
    def name(self) -> str:
        """Its name in print."""
        raise NotImplementedError

    @property
    def origin(self) -> Hashable:
        """A key of the rules: calls with equal keys, for the same shapes, follow the same rules."""
        return id(self)

    def run(self, args: Sequence[Value]) -> list[Value]:
        """The results, under whatever transformations run further out."""
        raise NotImplementedError

    def record(self, args: Sequence[Value]) -> tuple[list[Value], Map, Map]:
        """The results, the pullback of their cotangents and the pushforward of tangents."""
        raise NotImplementedError

    def record_in(self, recorder: Any, args: Sequence[Value]) -> list[Value]:
        """Append the call to a recorder's entries, and return tracers of the results."""
        record = self.recording_of([recorder.index_of(arg) >= 0 for arg in args])
        outs, pull, push = record([recorder.inner(arg) for arg in args])
        check_closure(recorder.level, outs)
        operands = [recorder.index_of(arg) for arg in args]
        entry = CallEntry(operands, reading(recorder, pull), reading(recorder, push))
        results: list[Value] = recorder.append_call(entry, outs)
        return results

    def recording_of(self, followed: Sequence[bool]) -> Recording:
        """How it is recorded where these arguments are followed; by default ``record``."""
        return self.record

    def record_linearly(self, recorder: Any, args: Sequence[Value]) -> list[Value]:
        """Record as ``record_in`` does, while a linear function of the arguments is transposed."""
        return self.record_in(recorder, args)

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[list[Value], Sequence[Value]]:
        """The results and their tangents."""
        outs, _, push = self.record(args)
        return outs, push(tangents)

    def stage_rules(
        self, stage: Callable[..., Part], args: Sequence[Value], outs: Sequence[Value]
    ) -> Sequence[Part]:
        """The rules as programs, staged by ``stage(rule, values, linear)``; empty without rules.

        The last ``linear`` values are tangents or cotangents.
        """
        return ()

    def over(self, function: Any) -> Call:
        """This call with another function to compute the results; its rules stay."""
        raise NotImplementedError

    @classmethod
    def opened(
        cls, signature: Any, origin: Hashable, function: Any, rules: Sequence[Any], sizes: Sizes
    ) -> Call:
        """A call of this kind, with the values that it closed over as further arguments.

        The function and the rules take two lists: their arguments, and the values closed over.
        """
        raise NotImplementedError

    def adopt(self, other: Any) -> None:
        """Note that another call, with the same results, replaces this one."""

    def bound(self) -> Call:
        """The call that a program runs in the place of this one."""
        return self

    def within(self, frames: Sequence[Any]) -> tuple[Call, tuple[Value, ...]]:
        """The call as it runs in the rules of others, and its further operands there."""
        return self, ()

    def __repr__(self) -> str:
        return f"<call {self.name}>"

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> Call:
        """Batch the call: its flagged arguments and all its results carry the batch on axis 0.

        Values that its rules close over and that belong to the trace ``around``, which batches the
        call, are batched likewise.
        """
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class CallEntry(Entry):
    """A call that brings its own linear maps; its variable stands for the list of its results."""

    operands: Sequence[int]
    pull_map: Map
    push_map: Map

    def push(self, tangents: Variables) -> Sequence[Value]:
        return self.push_map([tangents[operand] for operand in self.operands])

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        reached = _any_present(ct)
        for operand, g in zip(self.operands, self.pull_map(ct), strict=True):
            if operand >= 0 and g is not None:
                if reached is not None:
                    g = Masked(where(reached, plain(g), 0), reached)
                accumulate(cotangents, operand, g)


def _any_present(cts: Sequence[Cotangent]) -> Value | None:
    """A truth value that is false where all cotangents are absent; None if one is surely present.

    A mask that is followed by a transformation, as in a batch, may be empty for some examples.
    """
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


@dataclass(slots=True, eq=False)
class ResultEntry(Entry):
    """One of the results of a call."""

    call: int  # the call's variable
    position: int
    count: int  # of all results
    closed_over: int  # the variable of what the function closes over and returns, or -1

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


def bind_call(call: Call, args: Sequence[Value]) -> list[Value]:
    """Run a call under the transformation of the innermost tracer among its arguments."""
    trace = innermost_trace(args)
    return call.run(args) if trace is None else trace.process_call(call, args)

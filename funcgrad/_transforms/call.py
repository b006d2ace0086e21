"""Calls of functions that bring rules of their own, as custom rules, solutions and probes do.

A ``Call`` runs functions of the user's. These may close over traced values, and their rules may run
when the transformations that those belong to have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, NamedTuple

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Trace, Value
from funcgrad._transforms.active_examples import with_stand_ins
from funcgrad._transforms.composite import (
    ClosureError,
    Composite,
    Interpreter,
    Recording,
    bind_composite,
    check_closure,
    where_present,
)
from funcgrad._transforms.factors import fit_tangent
from funcgrad._transforms.tape import reading
from funcgrad.errors import DifferentiationError


class Sizes(NamedTuple):
    """How many arguments a call has, how many values it closes over, how many results.

    The last ``known`` arguments stand for values that were closed over before.
    """

    args: int
    closed: int
    outs: int
    known: int


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


class Call(Composite):
    """A function of values to a list of values, with rules of its own.

    Attributes
    ----------
    is_staged : bool
        Whether its function may be staged, rather than only run.
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

    def batch(
        self, size: int, args: Sequence[Value], flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[Sequence[Value], Sequence[bool]]:
        outs = bind_composite(self.batched(size, flags, around), args)
        if around is not None:
            check_closure(around.level - 1, outs)
        return outs, [True] * len(outs)

    def record_in(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        args = with_stand_ins(args)
        operands = [recorder.index_of(arg) for arg in args]
        inner = [recorder.inner(arg) for arg in args]
        recording = self.record(inner, [operand >= 0 for operand in operands])
        check_closure(recorder.level, recording.outs)
        return recorder.append_whole(by_rules(recorder, recording), operands)

    def record_linearly(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        return self.record_in(recorder, args)

    def push_in(self, pusher: Interpreter, args: Sequence[Value]) -> list[Value]:
        parts = [pusher.parts(arg) for arg in args]
        try:
            outs, tangents = self.push([primal for primal, _ in parts], [t for _, t in parts])
        except DifferentiationError as error:
            # Tangents of closed-over values may have met tangents of the arguments.
            raise ClosureError(str(error)) from error
        check_closure(pusher.level, [*outs, *tangents])
        results = []
        for out, tangent in zip(outs, tangents, strict=True):
            # A result, and the rule, may depend on a value followed here that they close over.
            primal, more = pusher.parts(out)
            if tangent is not None:
                tangent = fit_tangent(pusher.parts(tangent)[0], primal)
                more = tangent if more is None else more + tangent
            results.append(pusher.dual(primal, more))
        return results

    def batch_in(self, batcher: Interpreter, args: Sequence[Value]) -> list[Value]:
        return super().batch_in(batcher, with_stand_ins(args))

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
        """The call that a program runs instead of this one."""
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


def by_rules(recorder: Interpreter, recording: Recording) -> Recording:
    """A recording whose maps are rules that run later, and that know nothing of masks."""
    pull = where_present(reading(recorder, recording.pull))
    return Recording(recording.outs, pull, reading(recorder, recording.push))

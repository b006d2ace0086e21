"""A call with rules of its own: how each trace meets it.

A ``Call`` runs functions of the user's. These may close over traced values, and its rules may run
when the transformations that those belong to have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

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
from funcgrad._transforms.recorded import reading
from funcgrad.errors import DifferentiationError

Values: TypeAlias = Sequence[Value]
Flags: TypeAlias = Sequence[bool]
"""Which of some values carry the batch on axis 0."""


class Call(Composite):
    """A function of values to a list of values, with rules of its own.

    Attributes
    ----------
    name : str
        Its name in print.
    has_linear_pullback : bool
        Whether its pullback is linear if the pullbacks of all calls in its rules are.
    result_specs : sequence of Spec, optional
        The specs of its results, where they are known before it runs.
    """

    __slots__ = ()
    has_linear_pullback: ClassVar[bool] = True

    @property
    def is_linear(self) -> bool:
        return self.has_linear_pullback

    @property
    def result_specs(self) -> Sequence[Spec] | None:
        return None

    @property
    def name(self) -> str:
        raise NotImplementedError

    def batched(self, size: int, flags: Flags, around: Trace | None = None) -> Call:
        """Batch the call: its flagged arguments and all its results carry the batch on axis 0.

        Values that its rules close over and that belong to the trace ``around``, which batches the
        call, are batched likewise.
        """
        raise NotImplementedError

    def batch(
        self, size: int, args: Values, flags: Flags, around: Trace | None = None
    ) -> tuple[Values, Flags]:
        outs = bind_composite(self.batched(size, flags, around), args)
        if around is not None:
            check_closure(around.level - 1, outs)
        return outs, [True] * len(outs)

    def record_in(self, recorder: Interpreter, args: Values) -> list[Value]:
        args = with_stand_ins(args)
        operands = [recorder.index_of(arg) for arg in args]
        inner = [recorder.inner(arg) for arg in args]
        recording = self.record(inner, [operand >= 0 for operand in operands])
        check_closure(recorder.level, recording.outs)
        return recorder.append_whole(by_rules(recorder, recording), operands)

    def record_linearly(self, recorder: Interpreter, args: Values) -> list[Value]:
        return self.record_in(recorder, args)

    def push_in(self, pusher: Interpreter, args: Values) -> list[Value]:
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

    def batch_in(self, batcher: Interpreter, args: Values) -> list[Value]:
        return super().batch_in(batcher, with_stand_ins(args))

    def bound(self) -> Call:
        """The call that a program runs in whose equation this one is."""
        return self

    def within(self, frames: Sequence[Any]) -> tuple[Call, tuple[Value, ...]]:
        """The call as it runs in the rules of others, and its further operands there."""
        return self, ()

    def __repr__(self) -> str:
        return f"<call {self.name}>"


def by_rules(recorder: Interpreter, recording: Recording) -> Recording:
    """A recording whose maps are rules that run later, and that know nothing of masks."""
    pull = where_present(reading(recorder, recording.pull))
    return Recording(recording.outs, pull, reading(recorder, recording.push))

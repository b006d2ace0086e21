"""Solutions as calls: a solution has the derivative of its equation; its solver is not
differentiated.

A ``SolutionCall`` is a call with a pushforward. The solution of a linear system is linear in the
right-hand side, so reverse mode transposes the call as a whole: its transpose is the solution of
the transposed system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.context import delegate
from funcgrad._core.specs import Spec
from funcgrad._core.trace import RAW, Trace, Value, concrete
from funcgrad._primitives.joining import stack
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import unfollowed
from funcgrad._transforms.call import by_rules
from funcgrad._transforms.calls import JvpCall, Part, RuleCall, Rules, Stage, filled
from funcgrad._transforms.closed_calls import bind_closure
from funcgrad._transforms.composite import (
    Interpreter,
    Recording,
    bind_composite,
    check_closure,
    innermost_trace,
)
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.flat_functions import CallSignature, batched_flat
from funcgrad._transforms.masked import fit_cotangent
from funcgrad.errors import BatchError, DifferentiationError
from funcgrad.tensor.tensor import wrap


class SolutionSignature(CallSignature):
    """The signature of a solution: the specs of its results, and how many arguments it is linear
    in.

    Attributes
    ----------
    specs : list of Spec
        The specs of the solution, the first results. Later results have no derivative.
    has_aux : bool
        Whether the call has later results.
    linear : int
        The call is linear in this number of first arguments.
    """

    __slots__ = ("has_aux", "linear")

    def __init__(self, name: str, specs: Sequence[Spec], linear: int, has_aux: bool) -> None:
        super().__init__(name, pytrees.structure(()), ())
        self.specs = list(specs)
        self.linear = linear
        self.has_aux = has_aux


class SolutionCall(JvpCall):
    """The solution of an equation; its rules are ``(rule, transposed)``.

    ``rule(arguments + tangents) -> results + tangents``, where a tangent may be None.
    ``transposed(other arguments + cotangents) -> cotangents`` of the arguments that the call is
    linear in; None where it is linear in none.
    """

    __slots__ = ()

    @property
    def is_linear(self) -> bool:
        return self.frozen is None or self.frozen.is_linear

    @property
    def result_specs(self) -> Sequence[Spec] | None:
        return None if self.signature.has_aux else self.signature.specs

    def run(self, args: Sequence[Value]) -> list[Value]:
        """Solve; values that the solver closes over have no derivative, except by the rule."""
        outs = super().run(args)
        return [out if type(out) in RAW else unfollowed(out) for out in outs]

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        # Values that solvers close over have no derivative.
        if all(tangent is None for tangent in tangents[: len(args) - self.closed]):
            outs: Sequence[Value] = bind_composite(self, args)
            return outs, [None] * len(outs)
        outs, pushed = super().push(args, tangents)
        return outs, self._without_aux(pushed)

    def _without_aux(self, tangents: Sequence[Value]) -> list[Value]:
        count = len(self.signature.specs)
        return [*tangents[:count], *[None] * (len(tangents) - count)]

    def record_linearly(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Record the solution of a linear system as a linear map of the right-hand side."""
        count, transposed = self.signature.linear, self.rules[1]
        if transposed is None or any(recorder.index_of(arg) >= 0 for arg in args[count:]):
            raise DifferentiationError(
                f"linear_transpose: the function is not linear: {self.name} is linear in a"
                " right-hand side only."
            )
        inner = [recorder.inner(arg) for arg in args]
        params = inner[count:]
        zeros = [zeros_like(value) for value in inner[:count]]

        def pull(cts: list[Value]) -> list[Value]:
            pairs = zip(cts, self.signature.specs, strict=False)
            fitted_cts = [fit_cotangent(ct, spec) for ct, spec in pairs]
            return [*transposed([*params, *fitted_cts]), *[None] * len(params)]

        def push(tangents: list[Value]) -> list[Value]:
            pairs = zip(tangents, zeros, strict=False)
            filled_tangents = [zero if tangent is None else tangent for tangent, zero in pairs]
            return self._without_aux(bind_composite(self, [*filled_tangents, *params]))

        # The solution for a right-hand side of zero is zero.
        outs = [np.zeros(spec.shape, spec.dtype)[()] for spec in self.signature.specs]
        if self.signature.has_aux:
            outs = bind_composite(self, [*zeros, *params])
        operands = [recorder.index_of(arg) for arg in args]
        recording = by_rules(recorder, Recording(outs, pull, push))
        return recorder.append_whole(recording, operands)

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> RuleCall:
        call = super().batched(size, flags, around)
        signature = self.signature
        specs = [replace(spec, shape=(size, *spec.shape)) for spec in signature.specs]
        call.function = partial(self._batch, size, flags, around)
        call.signature = SolutionSignature(self.name, specs, signature.linear, signature.has_aux)
        return call

    def batched_rules(self, size: int, flags: Sequence[bool], around: Trace | None) -> Rules:
        (rule,) = super().batched_rules(size, flags, around)
        if self.rules[1] is None:
            return rule, None
        return rule, partial(self._transposed_batch, size, flags, around)

    def _batch(
        self, size: int, flags: Sequence[bool], around: Trace | None, args: Sequence[Value]
    ) -> Sequence[Value]:
        """Return the solutions for a batch: at once, or one by one if the solver needs values."""
        try:
            return batched_flat(self.function, size, flags, around)(args)
        except Exception:  # any, since libraries may replace the error that was raised within them
            if not size:
                return self._none(flags, args)
        solutions = [
            self.function([concrete(wrap(x)[k]) if flag else x for x, flag in flagged_args])
            for k, flagged_args in [(k, [*zip(args, flags, strict=True)]) for k in range(size)]
        ]
        return [stack(*layers, axis=0) for layers in zip(*solutions, strict=True)]

    def _none(self, flags: Sequence[bool], args: Sequence[Value]) -> list[Value]:
        """Return the solutions for an empty batch."""
        if self.signature.has_aux:
            raise BatchError(
                f"{self.name}: in an empty batch the solver, which takes examples one by one, is"
                " not called, so the structure of aux is unknown."
            )
        return [np.zeros((0, *spec.shape), spec.dtype) for spec in self.signature.specs]

    def _transposed_batch(
        self, size: int, flags: Sequence[bool], around: Trace | None, values: Sequence[Value]
    ) -> list[Value]:
        count = self.signature.linear
        operand_flags = [*flags[count:], *[True] * count]
        pulled = batched_flat(self.rules[1], size, operand_flags, around)(values)
        return [
            ct if flag else reduce_sum(ct, axis=(0,), keepdims=False)
            for ct, flag in zip(pulled, flags, strict=False)
        ]

    def staged_rules(
        self, stage: Stage, args: Sequence[Value], outs: Sequence[Value]
    ) -> Sequence[Part]:
        staged = [*super().staged_rules(stage, args, outs)]
        if self.rules[1] is not None:
            count = self.signature.linear
            cts = [np.ones(spec.shape, spec.dtype)[()] for spec in self.signature.specs]
            staged.append(stage(self.rules[1], [*args[count:], *cts], count))
        return staged

    @classmethod
    def rules_with_closed(
        cls, signature: Any, function: Any, rules: Sequence[Any], args: int, outs: int
    ) -> Rules:
        """Return the rules of a call of programs.

        Values that solvers close over have no derivative, except by the rule.
        """

        def rule(values: Sequence[Value]) -> list[Value]:
            half = len(values) // 2
            primals, tangents = values[:args], values[half : half + args]
            return rules[0]([*primals, *filled(tangents, primals)], values[args:half])

        def transposed(values: Sequence[Value]) -> list[Value]:
            params, cts = args - signature.linear, len(values) - signature.linear
            return rules[1]([*values[:params], *values[cts:]], values[params:cts])

        return rule, transposed if signature.linear else None


def solution_of(call: SolutionCall, args: Sequence[Value]) -> list[Value]:
    """Return the results of a call; closed-over traced values of its solver become arguments."""
    return bind_closure(call, args, _solution_of)


def _solution_of(call: RuleCall, args: Sequence[Value]) -> list[Value]:
    trace: Trace | None = innermost_trace(args)
    while interpreter := delegate(trace, call.is_linear):  # as in a branch that is staged
        trace = interpreter
    outs = bind_composite(call, args)
    check_closure(-1 if trace is None else trace.level, outs)
    return outs

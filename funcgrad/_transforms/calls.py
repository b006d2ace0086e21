"""Calls as records: a function and its rules, as custom rules and solutions have.

The rules of a ``RuleCall`` are functions of flat values; ``custom.py`` makes them from the user's
functions. Its class says which rules it has, and how they serve each transformation.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import NUMBERS, Trace, Value, running_traces
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._programs.equation import spec_inside
from funcgrad._programs.extract import rewired
from funcgrad._programs.program import Program
from funcgrad._transforms.active_examples import examples_at
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.batcher import Batched, Batcher
from funcgrad._transforms.call import Call, Flags, Values
from funcgrad._transforms.composite import Interpreter, Recording, bind_composite
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.flat_functions import (
    FlatFunction,
    batched_flat,
    pull_values,
    push_values,
    run_batched,
    run_pushed,
)
from funcgrad._transforms.linear import LinearRecorder
from funcgrad._transforms.masked import (
    broadcast,
    fit,
    fit_cotangent,
    fitted_present,
    plain,
    values_there,
)
from funcgrad._transforms.paths import Group, Path, joined
from funcgrad._transforms.record import transpose_map
from funcgrad._transforms.transformed import LinearMap
from funcgrad.errors import DifferentiationError, EscapedTracerError

Rules: TypeAlias = tuple[Any, ...]
"""The rules of a call: functions, whose arguments and results depend on its kind."""


class Part(NamedTuple):
    """A function of a call as staged: its program's last inputs are the values it closes over.

    The results are those for the values that it was staged with. Those that are not ``present`` are
    None, which the program does not return.
    """

    program: Program
    closed: Values = ()
    results: Values = ()
    present: tuple[bool, ...] = ()


Stage: TypeAlias = Callable[..., Part]
"""``stage(rule, values, linear, stager)``; the last ``linear`` values are (co)tangents."""


def with_closed(program: Program, closed: Values, order: Values) -> Program:
    """Let the last inputs of a program stand for the values in ``order``, not for ``closed``."""
    if len(order) == len(closed) and all(map(is_, order, closed)):
        return program
    count = len(program.inputs) - len(closed)
    places = {id(value): place for place, value in enumerate(order, count)}
    inputs = [*program.inputs[:count], *map(spec_inside, order)]
    return rewired(program, inputs, [*range(count), *[places[id(value)] for value in closed]])


@dataclass(slots=True, eq=False, repr=False)
class RuleCall(Call):
    """A function together with its rules.

    Attributes
    ----------
    function : callable
        From the arguments to the results.
    signature : CallSignature
    origin : hashable
        A key of the rules: calls with equal keys, for the same shapes, follow the same rules.
    rules : tuple of callables
    closed : int
        So many of the last arguments are values that the function closes over. The rules are not
        for them: derivatives with respect to them come from the function's own operations.
    frozen : FrozenCall, optional
        The call as a value, if everything that goes in is an argument.
    """

    function: FlatFunction
    signature: Any
    origin: Hashable
    rules: Rules
    closed: int = 0
    frozen: Any = None

    @property
    def name(self) -> str:
        return self.signature.name

    def run(self, args: Values) -> list[Value]:
        return list(self.function(args))

    def adopt(self, other: RuleCall) -> None:
        """Note that another call, with the same results, replaces this one."""
        self.signature.result = other.signature.result

    def batched(self, size: int, flags: Flags, around: Trace | None = None) -> RuleCall:
        function = batched_flat(self.function, size, flags, around)
        origin = (self.origin, size, tuple(flags))
        rules = self.batched_rules(size, flags, around)
        return type(self)(function, self.signature, origin, rules, self.closed)

    def record(self, args: Values, followed: Flags) -> Recording:
        count = len(followed) - self.closed
        if not self.closed or any(followed[:count]):
            return self.record_by_rule(args)
        # Transformations further out follow the arguments, if any does, and use the rule.
        outs, closed = bind_composite(self, args), args[count:]
        specs = [spec_of(out) for out in outs]

        def function(values: Values) -> list[Value]:
            return self.run([*args[:count], *values])

        def pull(cts: list[Value]) -> list[Value]:
            return [*[None] * count, *pull_values(function, closed, fitted_present(cts, specs))]

        return Recording(outs, pull, lambda ts: push_values(function, closed, ts[count:]))

    def record_by_rule(self, args: Values) -> Recording:
        """Record by the rule."""
        raise NotImplementedError

    def batched_rules(self, size: int, flags: Flags, around: Trace | None) -> Rules:
        """The rules of the call on a batch."""
        raise NotImplementedError

    def staged_rules(self, stage: Stage, args: Values, outs: Values) -> Sequence[Part]:
        """The rules as programs, with the values that they close over, for such arguments."""
        raise NotImplementedError

    @classmethod
    def rules_with_closed(
        cls, signature: Any, function: Any, rules: Sequence[Any], args: int, outs: int
    ) -> Rules:
        """The rules, where values that the call closes over are further arguments.

        ``function`` and ``rules`` run programs: they take two lists, their arguments and the values
        closed over. ``args`` and ``outs`` count the arguments and the results.
        """
        raise NotImplementedError


class JvpCall(RuleCall):
    """A call with a pushforward: ``rule(arguments + tangents) -> results + tangents``.

    A tangent that is None is a structural zero.
    """

    __slots__ = ()

    @property
    def is_linear(self) -> bool:
        # A rule may call a function whose pullback is not linear; its program tells.
        return self.frozen is not None and self.frozen.is_linear

    def push(self, args: Values, tangents: list[Value]) -> tuple[Values, Values]:
        count = len(args) - self.closed
        if not self.closed or any(tangent is not None for tangent in tangents[:count]):
            return self._apply(args, tangents)
        return super().push(args, tangents)

    def _apply(self, args: Values, tangents: Values) -> tuple[Any, Any]:
        both = self.rules[0]([*args, *tangents])
        return list(both[: len(both) // 2]), list(both[len(both) // 2 :])

    def record_by_rule(self, args: Values) -> Recording:
        followed = [k for k, x in enumerate(args) if is_inexact(dtype_of(x))]
        flags = [k in followed for k in range(len(args))]
        try:
            recorder, record, (outs, out_tangents) = LinearRecorder.run(
                lambda zeros: self._apply(args, zeros), [*map(zeros_like, args)], flags
            )
        except DifferentiationError as error:
            reason = str(error).removeprefix("linear_transpose: ")
            raise DifferentiationError(
                f"{self.name}: reverse mode needs a rule that is linear in the tangents, but"
                f" {reason}"
            ) from error
        if any(recorder.index_of(out) >= 0 for out in outs):
            raise DifferentiationError(
                f"{self.name}: the result that the rule returns depends on the tangents; only the"
                " second part of the pair may."
            )
        indices = [recorder.index_of(tangent) for tangent in out_tangents]
        specs = [spec_of(recorder.inner(tangent)) for tangent in out_tangents]

        def pull(cts: list[Value]) -> list[Value]:
            pulled: list[Value] = [None] * len(args)
            try:
                leaf_cts = record.pull(indices, fitted_present(cts, specs))
            except EscapedTracerError as error:
                raise EscapedTracerError(
                    f"{self.name}: the rule uses a traced value whose transformation has ended when"
                    " the pullback runs. Make it an argument of the function."
                ) from error
            for k, ct in zip(followed, leaf_cts, strict=True):
                shape = shape_of(args[k])
                pulled[k] = None if ct is None else broadcast(fit(ct, args[k], shape), shape)
            return pulled

        return Recording(outs, pull, lambda ts: record.push(indices, [ts[k] for k in followed]))

    def record_linearly(self, recorder: Interpreter, args: Values) -> list[Value]:
        """Record the function's own operations.

        A linear function is its own derivative. The rule may call the function on the tangent, and
        recording that call by the rule would never end.
        """
        return self.run(args)

    def batched_rules(self, size: int, flags: Flags, around: Trace | None) -> Rules:
        def rule(values: Values) -> list[Value]:
            tangents = values[len(flags) :]
            # A shared argument may have a tangent for each example, and then is repeated.
            tangent_flags = [
                t is not None and (flag or len(shape_of(t)) > len(shape_of(x)))
                for x, t, flag in zip(values, tangents, flags, strict=False)
            ]
            return list(batched_flat(self.rules[0], size, [*flags, *tangent_flags], around)(values))

        return (rule,)

    def staged_rules(self, stage: Stage, args: Values, outs: Values) -> Sequence[Part]:
        return [stage(self.rules[0], [*args, *map(zeros_like, args)], len(args))]

    @classmethod
    def rules_with_closed(
        cls, signature: Any, function: Any, rules: Sequence[Any], args: int, outs: int
    ) -> Rules:
        def rule(values: Values) -> list[Value]:
            half = len(values) // 2
            primals, closed, tangents = values[:args], values[args:half], values[half:]
            both = rules[0]([*primals, *filled(tangents[:args], primals)], closed)
            more = push_values(partial(function, primals), closed, tangents[args:])
            pairs = zip(both[outs:], more, strict=True)
            return [*both[:outs], *[t if m is None else t + m for t, m in pairs]]

        return (rule,)


def filled(tangents: Values, primals: Values) -> list[Value]:
    """Tangents with zeros in place of None."""
    there = values_there(tangents)
    pairs = zip(tangents, primals, strict=True)
    return [zeros_like(x, there) if tangent is None else tangent for tangent, x in pairs]


class VjpCall(RuleCall):
    """A call with a pullback; its rules are ``(forward, backward)``.

    ``forward(arguments) -> (results, residuals)``, where the residuals are a tree.
    ``backward(residuals, cotangents) -> cotangents`` of the arguments, None for a zero.
    """

    __slots__ = ()
    has_linear_pullback = False  # a rule may clip its cotangents

    def record_by_rule(self, args: Values) -> Recording:
        forward, backward = self.rules
        outs, residuals = forward(args)
        specs = [spec_of(out) for out in outs]
        sources = [spec_of(arg) for arg in args]

        def pull(cts: list[Value]) -> list[Value]:
            pairs = zip(filled(cts, specs), specs, strict=True)  # None is zero
            return backward(residuals, [fit_cotangent(ct, spec) for ct, spec in pairs])

        def pull_some(cts: list[Value]) -> list[Value]:
            pulled = backward(residuals, filled(cts, specs))
            pairs = zip(pulled, sources, strict=True)
            return [ct if is_inexact(source.dtype) else None for ct, source in pairs]

        def push(tangents: list[Value]) -> list[Value]:
            followed = [k for k, spec in enumerate(specs) if is_inexact(spec.dtype)]
            pairs = zip(tangents, sources, strict=True)
            seeds = [spec.dtype.type(t) if type(t) in NUMBERS else t for t, spec in pairs]
            pushed = transpose_map(pull_some, specs, followed, seeds)
            return fitted_present([None if t is None else plain(t) for t in pushed], specs)

        return Recording(outs, pull, push)

    def batched_rules(self, size: int, flags: Flags, around: Trace | None) -> Rules:
        def forward(args: Values) -> tuple[Values, Any]:
            saved: list[tuple[Any, Any]] = []  # for each path that examples take, by itself

            def save(inputs: Values) -> list[Value]:
                outs, residuals = self.rules[0](inputs)
                saved.append((residuals, running_traces()[0]))
                return outs

            return batched_flat(save, size, flags, around)(args), saved

        def backward(saved: Sequence[tuple[Any, Batcher]], cts: Values) -> list[Value]:
            paths = [self._pulled_along(*path, cts) for path in saved]
            parts = paths[0].outcome if len(paths) == 1 else joined(paths, size)
            return [
                _to_shared(ct, carries, flag, size)
                for (ct, carries), flag in zip(parts, flags, strict=True)
            ]

        return forward, backward

    def _pulled_along(
        self, residuals: object, batcher: Batcher, cts: Values
    ) -> Path[Sequence[tuple[Value, bool]]]:
        """Pull cotangents of a batch back for those examples whose residuals a trace has saved."""
        # A pullback among them may read tracers of this batch, which has ended, so it stays whole.
        leaves, structure = pytrees.flatten(residuals, lambda x: isinstance(x, LinearMap))
        parts = [batcher.parts(x) if type(x) is Batched else (x, False) for x in leaves]
        rows = batcher.rows

        def pull(values: Values) -> list[Value]:
            count = len(parts)
            return self.rules[1](pytrees.unflatten(structure, values[:count]), values[count:])

        some = cts if rows is None else [examples_at(ct, rows) for ct in cts]
        values = [*[x for x, _ in parts], *some]
        carried = [*[flag for _, flag in parts], *[True] * len(cts)]
        pulled = run_batched(pull, batcher.size, values, carried, batcher)
        group = Group(np.arange(batcher.size) if rows is None else rows)
        return Path(group, [*zip(*pulled, strict=True)])

    def staged_rules(self, stage: Stage, args: Values, outs: Values) -> Sequence[Part]:
        cts = [np.ones(shape_of(out), dtype_of(out))[()] for out in outs]

        def forward(inputs: Values) -> tuple[list[Value], Part]:
            """The results and those values that the pullback closes over; also the pullback."""
            results, residuals = self.rules[0](inputs)
            stager = running_traces()[0]
            pull = partial(self.rules[1], residuals)
            pullback = stage(pull, cts, len(cts), stager)
            saved = [value for value in pullback.closed if value._trace is stager]
            closed = [value for value in pullback.closed if value._trace is not stager]
            program = with_closed(pullback.program, pullback.closed, [*saved, *closed])
            return [*results, *saved], pullback._replace(program=program, closed=closed)

        saving = WithAux(forward)
        return [stage(saving, args), saving.aux]

    @classmethod
    def rules_with_closed(
        cls, signature: Any, function: Any, rules: Sequence[Any], args: int, outs: int
    ) -> Rules:
        def forward(values: Values) -> tuple[list[Value], Any]:
            primals, closed = values[:args], values[args:]
            saved = rules[0](primals, closed)
            return saved[:outs], (saved[outs:], primals, closed)

        def backward(residuals: Sequence[Any], cts: Values) -> list[Value]:
            saved, primals, closed = residuals
            pulled = rules[1]([*cts, *saved], closed)
            return [*pulled, *pull_values(partial(function, primals), closed, cts)]

        return forward, backward


class ThroughCall(VjpCall):
    """A call with a pullback; its tangents are pushed through its function."""

    __slots__ = ()

    def record_by_rule(self, args: Values) -> Recording:
        recording = super().record_by_rule(args)
        return recording._replace(push=partial(push_values, self.run, args))

    def push(self, args: Values, tangents: list[Value]) -> tuple[Values, Values]:
        return run_pushed(self.run, args, tangents)


def _to_shared(ct: Value, carries: bool, batched: bool, size: int) -> Value:
    """A cotangent batched as its argument is: repeated along the batch, or summed over it."""
    if ct is None or carries == batched:
        return ct
    if batched:
        return broadcast_to(ct, shape=(size, *shape_of(ct)))
    return reduce_sum(ct, axis=(0,), keepdims=False)

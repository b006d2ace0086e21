"""Calls of functions with custom rules: how each kind evaluates, records, pushes and is batched.

``custom.py`` makes them from the user's functions; here rules are functions of flat values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import NUMBERS, Trace, Value, running_traces
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.call import Call, Part, Sizes
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
from funcgrad._transforms.masked import broadcast, fit, fit_cotangent, fitted_present, plain
from funcgrad._transforms.record import transpose_linear
from funcgrad.errors import DifferentiationError, EscapedTracerError, TracerError
from funcgrad.tensor.tensor import Tensor, wrap


class CallSignature:
    """The trees of the arguments and of the result of a call, whose values are flat lists."""

    __slots__ = ("arguments", "name", "result", "specs")

    def __init__(self, name: str, arguments: Structure, values: Sequence[Value]) -> None:
        self.name = name
        self.arguments = arguments
        self.specs = [spec_of(value) for value in values]
        self.result: Structure | None = None

    def args(self, values: Sequence[Value]) -> tuple[Any, ...]:
        """Put values together to the trees of the arguments."""
        return pytrees.unflatten(self.arguments, [wrap(x) for x in values])

    def out(self, tree: Any) -> list[Value]:
        """Flatten a result to values, and keep its structure."""
        leaves, structure = pytrees.flatten(tree)
        self.result = structure
        return values_of(self.name, leaves, structure, lambda: "the function's result")


class _CustomCall(Call):
    """A call with a rule of either kind: it runs the function itself, and has its signature.

    The last ``closed`` arguments are values that the function closes over. The rule is not for
    them: derivatives with respect to them come from the function's own operations.
    """

    __slots__ = ("_origin", "closed", "frozen", "function", "signature")

    def __init__(
        self, function: FlatFunction, signature: CallSignature, origin: Hashable, closed: int = 0
    ) -> None:
        self.function = function
        self.signature = signature
        self.closed = closed
        self.frozen = None
        self._origin = origin

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def origin(self) -> Hashable:
        return self._origin

    def run(self, args: Sequence[Value]) -> list[Value]:
        return list(self.function(args))

    def adopt(self, other: _CustomCall) -> None:
        self.signature.result = other.signature.result

    def over(self, function: FlatFunction) -> Call:
        call = copy(self)
        call.function = function
        return call

    def record(self, args: Sequence[Value], followed: Sequence[bool]) -> Recording:
        count = len(followed) - self.closed
        if not self.closed or any(followed[:count]):
            return self._record_by_rule(args)
        return self._record_closed(count, args)

    def _record_by_rule(self, args: Sequence[Value]) -> Recording:
        """Record by the rule."""
        raise NotImplementedError

    def _record_closed(self, count: int, args: Sequence[Value]) -> Recording:
        """Record the call as a function of the values that it closes over.

        The first ``count`` values are its arguments, in which transformations around use the rule.
        """
        outs = bind_composite(self, args)
        specs = [spec_of(out) for out in outs]
        function, closed = self._of_closed(args[:count]), args[count:]

        def pull(cts: list[Value]) -> list[Value]:
            return [*[None] * count, *pull_values(function, closed, fitted_present(cts, specs))]

        def push(tangents: list[Value]) -> list[Value]:
            return push_values(function, closed, tangents[count:])

        return Recording(outs, pull, push)

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        count = len(args) - self.closed
        if not self.closed or any(tangent is not None for tangent in tangents[:count]):
            return self._push_by_rule(args, tangents)
        function = self._of_closed(args[:count])
        return bind_composite(self, args), push_values(function, args[count:], tangents[count:])

    def _push_by_rule(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Push by the rule."""
        recording = self._record_by_rule(args)
        return recording.outs, recording.push(tangents)

    def _of_closed(self, arguments: Sequence[Value]) -> FlatFunction:
        """The function of the values that it closes over, at these arguments."""
        return lambda closed: self.run([*arguments, *closed])


class JvpCall(_CustomCall):
    """A call with a pushforward: ``rule(arguments + tangents) -> results + tangents``.

    The tangents of closed-over values may be None for structural zeros; all may be where the rule
    ``takes_none``.
    """

    takes_none: ClassVar[bool] = False
    __slots__ = ("rule",)

    @property
    def is_linear(self) -> bool:
        # A rule may call a function whose pullback is not linear; its program tells.
        return self.frozen is not None and self.frozen.is_linear

    def __init__(
        self,
        function: FlatFunction,
        signature: CallSignature,
        origin: Hashable,
        rule: FlatFunction,
        closed: int = 0,
    ) -> None:
        super().__init__(function, signature, origin, closed)
        self.rule = rule

    def _apply(self, args: Sequence[Value], tangents: Sequence[Value]) -> tuple[Any, Any]:
        both = self.rule([*args, *tangents])
        return list(both[: len(both) // 2]), list(both[len(both) // 2 :])

    def _push_by_rule(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        needed = 0 if self.takes_none else len(args) - self.closed
        directions = [
            zeros_like(x) if t is None and k < needed else t
            for k, (x, t) in enumerate(zip(args, tangents, strict=True))
        ]
        return self._apply(args, directions)

    def _record_by_rule(self, args: Sequence[Value]) -> Recording:
        followed = [k for k, x in enumerate(args) if is_inexact(dtype_of(x))]
        flags = [k in followed for k in range(len(args))]
        try:
            recorder, record, (outs, out_tangents) = LinearRecorder.run(
                lambda zeros: self._apply(args, zeros), [*map(zeros_like, args)], flags
            )
        except DifferentiationError as error:
            reason = str(error).removeprefix("linear_transpose: ")
            raise DifferentiationError(
                f"{self.signature.name}: reverse mode needs a rule that is linear in the"
                f" tangents, but {reason}"
            ) from error
        if any(recorder.index_of(out) >= 0 for out in outs):
            raise DifferentiationError(
                f"{self.signature.name}: the result that the rule returns depends on the tangents;"
                " only the second part of the pair may."
            )
        indices = [recorder.index_of(tangent) for tangent in out_tangents]
        specs = [spec_of(recorder.inner(tangent)) for tangent in out_tangents]

        def pull(cts: list[Value]) -> list[Value]:
            pulled: list[Value] = [None] * len(args)
            try:
                leaf_cts = record.pull(indices, fitted_present(cts, specs))
            except EscapedTracerError as error:
                raise EscapedTracerError(
                    f"{self.signature.name}: the rule uses a traced value whose transformation has"
                    " ended when the pullback runs. Make it an argument of the function."
                ) from error
            for k, ct in zip(followed, leaf_cts, strict=True):
                shape = shape_of(args[k])
                pulled[k] = None if ct is None else broadcast(fit(ct, args[k], shape), shape)
            return pulled

        def push(tangents: list[Value]) -> list[Value]:
            return record.push(indices, [tangents[k] for k in followed])

        return Recording(outs, pull, push)

    def record_linearly(self, recorder: Interpreter, args: Sequence[Value]) -> list[Value]:
        """Record the function's own operations.

        A linear function is its own derivative. The rule may call the function on the tangent, and
        recording that call by the rule would never end.
        """
        return self.run(args)

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> Call:
        function = batched_flat(self.function, size, flags, around)

        def rule(values: Sequence[Value]) -> list[Value]:
            tangents = values[len(flags) :]
            # A shared argument may have a tangent for each example, and then is repeated.
            tangent_flags = [
                t is not None and (flag or len(shape_of(t)) > len(shape_of(x)))
                for x, t, flag in zip(values, tangents, flags, strict=False)
            ]
            return list(batched_flat(self.rule, size, [*flags, *tangent_flags], around)(values))

        origin = (self._origin, size, tuple(flags))
        return JvpCall(function, self.signature, origin, rule, self.closed)

    def stage_rules(
        self, stage: Callable[..., Part], args: Sequence[Value], outs: Sequence[Value]
    ) -> Sequence[Part]:
        return [stage(self.rule, [*args, *map(zeros_like, args)], len(args))]

    @classmethod
    def opened(
        cls, signature: Any, origin: Hashable, function: Any, rules: Sequence[Any], sizes: Sizes
    ) -> Call:
        def rule(values: Sequence[Value]) -> list[Value]:
            half = sizes.args + sizes.closed
            args, more = values[: sizes.args], values[sizes.args : half]
            pairs = zip(args, values[half : half + sizes.args], strict=True)
            directions = [zeros_like(x) if t is None else t for x, t in pairs]
            both = rules[0]([*args, *directions], more)
            outs, tangents = both[: len(both) // 2], both[len(both) // 2 :]
            closed_tangents = push_values(
                partial(function, args), more, values[half + sizes.args :]
            )
            sums = [
                t if m is None else t + m for t, m in zip(tangents, closed_tangents, strict=True)
            ]
            return [*outs, *sums]

        joined, closed = _taking_one_list(function, sizes.args), sizes.closed + sizes.known
        return JvpCall(joined, signature, origin, rule, closed)


class _Residuals(NamedTuple):
    """The residuals of a call without those that are tensors, which pass through programs.

    Attributes
    ----------
    outs : int
        The number of the call's results, which come before the residuals.
    structure : Structure
        The tree of all residuals.
    others : list
        Its leaves, with None for tensors.
    traced : list of bool
        Which leaves are tensors.
    """

    outs: int
    structure: Structure
    others: list[Any]
    traced: list[bool]


class VjpCall(_CustomCall):
    """A call with ``forward(args) -> results + residuals`` and its pullback.

    ``backward(residuals + cotangents) -> cotangents of the arguments``, None for a zero.
    """

    __slots__ = ("backward", "forward")

    has_linear_pullback = False  # a rule may clip its cotangents

    def __init__(
        self,
        function: FlatFunction,
        signature: CallSignature,
        origin: Hashable,
        forward: Callable[[Sequence[Value]], tuple[list[Value], Any]],
        backward: Callable[[Any, Sequence[Value]], list[Value]],
        closed: int = 0,
    ) -> None:
        super().__init__(function, signature, origin, closed)
        self.forward = forward
        self.backward = backward

    def _record_by_rule(self, args: Sequence[Value]) -> Recording:
        outs, residuals = self.forward(args)
        specs = [spec_of(out) for out in outs]
        sources = [spec_of(arg) for arg in args]

        def pull(cts: list[Value]) -> list[Value]:
            pairs = zip(cts, specs, strict=True)
            seeds = [fit_cotangent(ct, spec) for ct, spec in pairs]  # None is zero
            return self.backward(residuals, seeds)

        def push(tangents: list[Value]) -> list[Value]:
            followed = [k for k, spec in enumerate(specs) if is_inexact(spec.dtype)]

            def backward(*cts: Value) -> list[Value]:
                seeds = [zeros_like(spec) for spec in specs]
                for k, ct in zip(followed, cts, strict=True):
                    seeds[k] = ct
                pulled = self.backward(residuals, seeds)
                return [
                    ct if is_inexact(spec.dtype) else None
                    for ct, spec in zip(pulled, sources, strict=True)
                ]

            pushed: list[Value] = [None] * len(specs)
            seeds = [
                spec.dtype.type(t) if type(t) in NUMBERS else t
                for t, spec in zip(tangents, sources, strict=True)
            ]
            transposed = transpose_linear(backward, [specs[k] for k in followed], seeds)
            for k, tangent in zip(followed, transposed, strict=True):
                if tangent is not None:  # else zero
                    pushed[k] = fit_cotangent(plain(tangent), specs[k])
            return pushed

        return Recording(outs, pull, push)

    def _saving(self, args: Sequence[Value]) -> tuple[list[Value], _Residuals]:
        """The results and the residuals that are tensors; and the other residuals."""
        outs, tree = self.forward(args)
        leaves, structure = pytrees.flatten(tree)
        traced = [isinstance(leaf, Tensor) for leaf in leaves]
        others = [None if flag else leaf for leaf, flag in zip(leaves, traced, strict=True)]
        tensors = [leaf for leaf, flag in zip(leaves, traced, strict=True) if flag]
        return [*outs, *tensors], _Residuals(len(outs), structure, others, traced)

    def _restoring(self, residuals: _Residuals, values: Sequence[Value]) -> list[Value]:
        """The results of ``backward`` for residuals and cotangents in one list of values."""
        remaining = iter(values)
        restored = [
            wrap(next(remaining)) if flag else leaf
            for leaf, flag in zip(residuals.others, residuals.traced, strict=True)
        ]
        return self.backward(pytrees.unflatten(residuals.structure, restored), list(remaining))

    def batched(self, size: int, flags: Sequence[bool], around: Trace | None = None) -> Call:
        def forward(args: Sequence[Value]) -> tuple[list[Value], Any]:
            def save(inputs: Sequence[Value]) -> tuple[list[Value], tuple[_Residuals, Trace]]:
                trace = running_traces()[0]
                values, others = self._saving(inputs)
                return values, (others, trace)

            saving = WithAux(save)
            values, carried = run_batched(saving, size, args, flags, around)
            others, trace = saving.aux
            count = others.outs
            outs = batched_flat(list, size, carried[:count])(values[:count])
            return list(outs), (values[count:], carried[count:], others, trace)

        def backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
            saved, carried, others, trace = residuals
            flags_in = [*carried, *[True] * len(cts)]
            pulled, flags_out = run_batched(
                partial(self._restoring, others), size, [*saved, *cts], flags_in, trace
            )
            return [
                _to_shared(ct, flag_out, flag_in, size)
                for ct, flag_out, flag_in in zip(pulled, flags_out, flags, strict=True)
            ]

        function = batched_flat(self.function, size, flags, around)
        origin = (self._origin, size, tuple(flags))
        return type(self)(function, self.signature, origin, forward, backward, self.closed)

    def stage_rules(
        self, stage: Callable[..., Part], args: Sequence[Value], outs: Sequence[Value]
    ) -> Sequence[Part]:
        saving = WithAux(self._saving)
        forward = stage(saving, args)
        if any(map(callable, saving.aux.others)):
            raise TracerError(
                f"{self.name}: the fwd rule hands a function to bwd, which may hold traced values"
                " that nobody sees. Hand tensors to it, and make the function in bwd."
            )
        cts = [np.ones(shape_of(out), dtype_of(out))[()] for out in outs]
        saved = forward.results[len(outs) :]
        return [forward, stage(partial(self._restoring, saving.aux), [*saved, *cts], len(cts))]

    @classmethod
    def opened(
        cls, signature: Any, origin: Hashable, function: Any, rules: Sequence[Any], sizes: Sizes
    ) -> Call:
        def forward(values: Sequence[Value]) -> tuple[list[Value], Any]:
            args, more = values[: sizes.args], values[sizes.args :]
            saved = rules[0](args, more)
            return saved[: sizes.outs], (saved[sizes.outs :], args, more)

        def backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
            saved, args, more = residuals
            pulled = rules[1]([*saved, *cts], more)
            return [*pulled, *pull_values(partial(function, args), more, cts)]

        joined, closed = _taking_one_list(function, sizes.args), sizes.closed + sizes.known
        return cls(joined, signature, origin, forward, backward, closed)


class ThroughCall(VjpCall):
    """A call with a pullback; its tangents are pushed through its function."""

    __slots__ = ()

    def _record_by_rule(self, args: Sequence[Value]) -> Recording:
        recording = super()._record_by_rule(args)
        return recording._replace(push=partial(push_values, self.run, args))

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        return run_pushed(self.run, args, tangents)


def _taking_one_list(function: Callable[..., Any], count: int) -> FlatFunction:
    """Join the two lists that a function takes: the first ``count`` values are the first list."""
    return lambda values: function(values[:count], values[count:])


def _to_shared(ct: Value, carries: bool, batched: bool, size: int) -> Value:
    """A cotangent batched as its argument is: repeated along the batch, or summed over it."""
    if ct is None or carries == batched:
        return ct
    if batched:
        return broadcast_to(ct, shape=(size, *shape_of(ct)))
    return reduce_sum(ct, axis=(0,), keepdims=False)

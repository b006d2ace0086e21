"""Custom rules: ``custom_jvp`` and ``custom_vjp``.

Either rule serves both modes: a ``custom_jvp`` rule is linear in its tangents, so recording and
transposing it gives the pullback; a ``custom_vjp`` pullback is linear in its cotangents, so its
transpose gives the pushforward. Rules are ordinary functions, so they can be differentiated again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from funcgrad import trees
from funcgrad.border import operand
from funcgrad.errors import DifferentiationError, ShapeError
from funcgrad.primitives.reduction import broadcast_to, reduce_sum
from funcgrad.shape import Spec, dtype_of, is_inexact, shape_of, spec_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import Value, begin_level, concrete
from funcgrad.transforms.arguments import values_of
from funcgrad.transforms.call import Call, Map, bind_call
from funcgrad.transforms.flat import FlatFunction, batched_flat, run_batched
from funcgrad.transforms.linear import LinearRecorder
from funcgrad.transforms.push import zeros_like
from funcgrad.transforms.record import settled, transpose_linear
from funcgrad.transforms.replay import push_through
from funcgrad.trees import Structure

__all__ = ["custom_jvp", "custom_vjp"]

P = ParamSpec("P")
R = TypeVar("R")


class _Signature:
    """How the flat values of one call are arranged: the arguments' tree, and the result's."""

    __slots__ = ("arguments", "name", "result", "specs")

    def __init__(self, name: str, arguments: Structure, values: Sequence[Value]) -> None:
        self.name = name
        self.arguments = arguments
        self.specs = [spec_of(value) for value in values]
        self.result: Structure | None = None

    def args(self, values: Sequence[Value]) -> tuple[Any, ...]:
        """Values as the arguments they stand for."""
        args: tuple[Any, ...] = trees.unflatten(self.arguments, [wrap(x) for x in values])
        return args

    def out(self, tree: Any) -> list[Value]:
        """The values of a result, whose structure is kept."""
        leaves, structure = trees.flatten(tree)
        self.result = structure
        return values_of(self.name, leaves, structure, lambda: "the function's result")


def _pair(name: str, rule: str, out: Any, parts: str) -> Any:
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise DifferentiationError(
            f"{name}: the {rule} has to return a pair {parts}, but it returned"
            f" {type(out).__name__}."
        )
    return out


class _CustomCall(Call):
    """What both kinds of rule share: running the function itself, and its signature."""

    __slots__ = ("function", "signature")

    def __init__(self, function: FlatFunction, signature: _Signature) -> None:
        self.function = function
        self.signature = signature

    def run(self, args: Sequence[Value]) -> list[Value]:
        return list(self.function(args))


class _JvpCall(_CustomCall):
    """A call with a pushforward: ``rule(arguments + tangents) -> results + tangents``."""

    __slots__ = ("rule",)

    def __init__(self, function: FlatFunction, signature: _Signature, rule: FlatFunction) -> None:
        super().__init__(function, signature)
        self.rule = rule

    def _apply(self, args: Sequence[Value], tangents: Sequence[Value]) -> tuple[Any, Any]:
        both = self.rule([*args, *tangents])
        return list(both[: len(both) // 2]), list(both[len(both) // 2 :])

    def push(
        self, args: Sequence[Value], tangents: list[Value]
    ) -> tuple[list[Value], Sequence[Value]]:
        given = [zeros_like(x) if t is None else t for x, t in zip(args, tangents, strict=True)]
        return self._apply(args, given)

    def record(self, args: Sequence[Value]) -> tuple[list[Value], Map, Map]:
        followed = [k for k, x in enumerate(args) if is_inexact(dtype_of(x))]
        with begin_level() as level:
            recorder = LinearRecorder(level)
            try:
                zeros = [zeros_like(x) for x in args]
                for k in followed:
                    zeros[k] = recorder.follow(zeros[k])
                outs, out_tangents = self._apply(args, zeros)
            except DifferentiationError as error:
                reason = str(error).removeprefix("linear_transpose: ")
                raise DifferentiationError(
                    f"{self.signature.name}: reverse mode needs a rule that is linear in the"
                    f" tangents, but {reason}"
                ) from error
            finally:
                record = recorder.close()
        if any(recorder.index_of(out) >= 0 for out in outs):
            raise DifferentiationError(
                f"{self.signature.name}: the result that the rule returns depends on the tangents;"
                " only the second part of the pair may."
            )
        indices = [recorder.index_of(tangent) for tangent in out_tangents]
        specs = [spec_of(recorder.inner(tangent)) for tangent in out_tangents]

        def pull(cts: list[Value]) -> list[Value]:
            pairs = zip(cts, specs, strict=True)
            seeds = [None if ct is None else settled(ct, spec) for ct, spec in pairs]
            pulled: list[Value] = [None] * len(args)
            for k, ct in zip(followed, record.pull(indices, seeds), strict=True):
                pulled[k] = None if ct is None else settled(ct, args[k])
            return pulled

        def push(tangents: list[Value]) -> list[Value]:
            known = dict(zip(record.inputs, [tangents[k] for k in followed], strict=True))
            push_through(record.entries, known)
            return [known.get(index) for index in indices]

        return outs, pull, push

    def batched(self, size: int, flags: Sequence[bool]) -> Call:
        function = batched_flat(self.function, size, flags)

        def rule(values: Sequence[Value]) -> list[Value]:
            tangents = values[len(flags) :]
            # A shared argument may have a tangent for each example, and then is repeated.
            own = [
                flag or len(shape_of(t)) > len(shape_of(x))
                for x, t, flag in zip(values, tangents, flags, strict=False)
            ]
            return list(batched_flat(self.rule, size, [*flags, *own])(values))

        return _JvpCall(function, self.signature, rule)


class _VjpCall(_CustomCall):
    """A call with ``forward(args) -> results + residuals`` and its pullback.

    ``backward(residuals + cotangents) -> cotangents of the arguments``, None for a zero.
    """

    __slots__ = ("backward", "forward")

    def __init__(
        self,
        function: FlatFunction,
        signature: _Signature,
        forward: Callable[[Sequence[Value]], tuple[list[Value], Any]],
        backward: Callable[[Any, Sequence[Value]], list[Value]],
    ) -> None:
        super().__init__(function, signature)
        self.forward = forward
        self.backward = backward

    def record(self, args: Sequence[Value]) -> tuple[list[Value], Map, Map]:
        outs, residuals = self.forward(args)
        specs = [spec_of(out) for out in outs]
        sources = [spec_of(arg) for arg in args]

        def pull(cts: list[Value]) -> list[Value]:
            pairs = zip(cts, specs, strict=True)
            given = [_zeros(spec) if ct is None else settled(ct, spec) for ct, spec in pairs]
            return self.backward(residuals, given)

        def push(tangents: list[Value]) -> list[Value]:
            followed = [k for k, spec in enumerate(specs) if is_inexact(spec.dtype)]

            def backward(*cts: Value) -> list[Value]:
                given = [_zeros(spec) for spec in specs]
                for k, ct in zip(followed, cts, strict=True):
                    given[k] = ct
                pulled = self.backward(residuals, given)
                return [
                    ct if is_inexact(spec.dtype) else None
                    for ct, spec in zip(pulled, sources, strict=True)
                ]

            pushed: list[Value] = [None] * len(specs)
            transposed = transpose_linear(backward, [specs[k] for k in followed], tangents)
            for k, tangent in zip(followed, transposed, strict=True):
                pushed[k] = tangent
            return pushed

        return outs, pull, push

    def batched(self, size: int, flags: Sequence[bool]) -> Call:
        def forward(args: Sequence[Value]) -> tuple[list[Value], Any]:
            kept: list[Any] = []

            def run(values: Sequence[Value]) -> list[Value]:
                outs, residuals = self.forward(values)
                leaves, structure = trees.flatten(residuals)
                traced = [isinstance(leaf, Tensor) for leaf in leaves]
                kept[:] = [len(outs), structure, leaves, traced]
                saved = [leaf for leaf, flag in zip(leaves, traced, strict=True) if flag]
                return [*outs, *saved]

            values, carried = run_batched(run, size, args, flags)
            count, structure, leaves, traced = kept
            outs = batched_flat(list, size, carried[:count])(values[:count])
            return list(outs), (values[count:], carried[count:], structure, leaves, traced)

        def backward(residuals: Any, cts: Sequence[Value]) -> list[Value]:
            saved, carried, structure, leaves, traced = residuals

            def run(values: Sequence[Value]) -> list[Value]:
                own = iter(values)
                restored = [
                    wrap(next(own)) if flag else leaf
                    for leaf, flag in zip(leaves, traced, strict=True)
                ]
                return self.backward(trees.unflatten(structure, restored), list(own))

            flags_in = [*carried, *[True] * len(cts)]
            pulled, flags_out = run_batched(run, size, [*saved, *cts], flags_in)
            return [
                _to_shared(ct, flag_out, flag_in, size)
                for ct, flag_out, flag_in in zip(pulled, flags_out, flags, strict=True)
            ]

        return _VjpCall(batched_flat(self.function, size, flags), self.signature, forward, backward)


def _zeros(spec: Spec) -> Value:
    return np.zeros(spec.shape, spec.dtype)[()]


def _to_shared(ct: Value, carries: bool, batched: bool, size: int) -> Value:
    """Give a cotangent the batch that its argument has, or sum the batch that it has not."""
    if ct is None or carries == batched:
        return ct
    if batched:
        return broadcast_to(ct, shape=(size, *shape_of(ct)))
    return reduce_sum(ct, axis=(0,), keepdims=False)


class _Custom(Generic[P, R]):
    """A function that carries a rule."""

    _kind = ""

    def __init__(self, f: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        if not callable(f):
            raise DifferentiationError(f"{self._kind}: expected a function, got {f!r}.")
        self._function = f
        self._static = tuple(nondiff_argnums)
        self._rules: tuple[Callable[..., Any], ...] = ()
        update_wrapper(self, f, updated=())  # a custom function's attributes are its own
        self.__name__: str = getattr(f, "__name__", type(f).__name__)

    def _define(self, *rules: Callable[..., Any]) -> None:
        if self._rules:
            raise DifferentiationError(
                f"{self._kind}: {self.__name__} has its rule already; a rule is given once."
            )
        if not all(callable(rule) for rule in rules):
            raise DifferentiationError(f"{self._kind}: the rules have to be functions.")
        self._rules = rules

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._rules:
            raise DifferentiationError(
                f"{self._kind}: {self.__name__} has no rule yet; give it one with"
                f" {self.__name__}.{'defvjp(fwd, bwd)' if 'vjp' in self._kind else 'defjvp(rule)'}."
            )
        name = f"{self._kind} {self.__name__}"
        positional = _bound(name, self._function, args, kwargs)
        static = self._static_arguments(name, positional)
        given = tuple(arg for k, arg in enumerate(positional) if k not in static)
        leaves, structure = trees.flatten(given)
        values = values_of(name, leaves, structure, lambda: "arguments")
        signature = _Signature(name, structure, values)

        def function(inner: Sequence[Value]) -> list[Value]:
            call: Callable[..., Any] = self._function
            return signature.out(call(*_merged(static, signature.args(inner))))

        outs = bind_call(self._call(function, signature, static), values)
        assert signature.result is not None
        result: R = trees.unflatten(signature.result, [wrap(out) for out in outs])
        return result

    def _static_arguments(self, name: str, positional: tuple[Any, ...]) -> dict[int, Any]:
        for k in self._static:
            if not 0 <= k < len(positional):
                raise DifferentiationError(
                    f"{name}: nondiff_argnums names argument {k}, but there are {len(positional)}"
                    " positional arguments, counted from 0."
                )
        return {k: positional[k] for k in self._static}

    def _call(self, function: FlatFunction, signature: _Signature, static: dict[int, Any]) -> Call:
        raise NotImplementedError


class custom_jvp(_Custom[P, R]):  # noqa: N801 - a decorator
    """A function with a derivative rule of its own, given as a pushforward.

    Parameters
    ----------
    f : callable
        Of pytrees, returning a trees.
    nondiff_argnums : sequence of int
        Positions of arguments that are no arrays, such as functions and flags. The rule gets them
        first.

    Notes
    -----
    Reverse mode follows when the rule is linear in its tangents, which it has to be anyway. A
    tangent that is zero by structure arrives as zeros. What ``f`` and the rule close over is
    differentiated through the rule's own operations; it may belong to a transformation around those
    that the arguments belong to, not to one inside, and not to the same ``vmap``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> @fg.custom_jvp
    ... def cube(x):
    ...     return x * x * x
    >>> @cube.defjvp
    ... def cube_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return cube(x), 3 * x * x * t
    >>> fg.grad(cube)(2.0), fg.grad(fg.grad(cube))(2.0)
    (Tensor(12.0), Tensor(12.0))
    """

    _kind = "custom_jvp"

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: ``rule(primals, tangents) -> (result, tangent of the result)``."""
        self._define(rule)
        return rule

    def _call(self, function: FlatFunction, signature: _Signature, static: dict[int, Any]) -> Call:
        (rule,) = self._rules

        def flat_rule(values: Sequence[Value]) -> list[Value]:
            half = len(values) // 2
            primals, tangents = signature.args(values[:half]), signature.args(values[half:])
            returned = rule(*static.values(), primals, tangents)
            out, tangent = _pair(signature.name, "rule", returned, "(result, tangent)")
            outs = signature.out(out)
            assert signature.result is not None
            given = trees.flatten_like(signature.result, tangent, f"{signature.name}: tangent")
            return [*outs, *_fitted(signature, given, outs)]

        return _JvpCall(function, signature, flat_rule)


class custom_vjp(_Custom[P, R]):  # noqa: N801 - a decorator
    """A function with a derivative rule of its own, given as a pullback.

    Parameters
    ----------
    f : callable
        Of pytrees, returning a trees.
    nondiff_argnums : sequence of int
        Positions of arguments that are no arrays, such as functions and flags. ``bwd`` gets them
        first.

    Notes
    -----
    Forward mode follows too, by transposing ``bwd``, which is linear in the cotangent. Derivatives
    of higher order differentiate ``fwd`` and ``bwd``. For what they close over see ``custom_jvp``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> @fg.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda residuals, ct: (ct.clip(-1.0, 1.0),))
    >>> fg.grad(lambda x: 5.0 * clipped(x))(2.0)
    Tensor(1.0)
    """

    _kind = "custom_vjp"

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the rule.

        Parameters
        ----------
        fwd : callable
            With the signature of the function; it returns ``(result, residuals)``, a pytree of
            what ``bwd`` needs.
        bwd : callable
            ``bwd(residuals, cotangent)`` returns a tuple with the cotangent of each argument, None
            for a zero.
        """
        self._define(fwd, bwd)

    def _call(self, function: FlatFunction, signature: _Signature, static: dict[int, Any]) -> Call:
        fwd, bwd = self._rules

        def forward(args: Sequence[Value]) -> tuple[list[Value], Any]:
            returned = fwd(*_merged(static, signature.args(args)))
            out, residuals = _pair(signature.name, "fwd rule", returned, "(result, residuals)")
            return signature.out(out), residuals

        def backward(residuals: Any, cts: Sequence[Value]) -> list[Value]:
            assert signature.result is not None
            ct = trees.unflatten(signature.result, [wrap(x) for x in cts])
            return _pulled(signature, bwd(*static.values(), residuals, ct))

        return _VjpCall(function, signature, forward, backward)


def _fitted(signature: _Signature, tangents: Sequence[Any], outs: Sequence[Value]) -> list[Value]:
    assert signature.result is not None
    name = f"{signature.name}: tangent"
    values = values_of(signature.name, tangents, signature.result, lambda: "tangent")
    for value, out, path in zip(values, outs, signature.result.paths(), strict=True):
        if shape_of(value) != shape_of(out):
            raise ShapeError(
                f"{name}{path}: expected shape {shape_of(out)}, as the result's, got"
                f" {shape_of(value)}."
            )
    return values


def _pulled(signature: _Signature, cts: Any) -> list[Value]:
    """The leaves of what ``bwd`` returned: one for each argument leaf, None for a zero."""
    arguments = trees.unflatten(signature.arguments, [None] * signature.arguments.num_leaves)
    if not isinstance(cts, (tuple, list)) or len(cts) != len(arguments):
        raise DifferentiationError(
            f"{signature.name}: the bwd rule has to return a tuple with a cotangent for each of the"
            f" {len(arguments)} argument(s), but it returned"
            f" {len(cts) if isinstance(cts, (tuple, list)) else type(cts).__name__}."
        )
    name = f"{signature.name}: cotangent"
    leaves = trees.broadcast_prefix(tuple(cts), signature.arguments, name)
    values = [None if leaf is None else concrete(operand(leaf, name)) for leaf in leaves]
    paths = signature.arguments.paths()
    for value, spec, path in zip(values, signature.specs, paths, strict=True):
        if value is not None and shape_of(value) != spec.shape:
            raise ShapeError(
                f"{name}{path}: expected shape {spec.shape}, as the argument's, got"
                f" {shape_of(value)}. The bwd rule returns a cotangent for each argument."
            )
    return values


def _bound(name: str, f: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> tuple[Any, ...]:
    """All arguments by position, with defaults filled in where some were passed by keyword."""
    if not kwargs:
        return tuple(args)
    bound = inspect.signature(f).bind(*args, **kwargs)
    if bound.kwargs:
        raise DifferentiationError(
            f"{name}: a rule knows arguments by their position, but {', '.join(bound.kwargs)} can"
            " only be passed by keyword. Make them ordinary parameters, or close over them."
        )
    bound.apply_defaults()
    return bound.args


def _merged(static: dict[int, Any], rest: Sequence[Any]) -> list[Any]:
    merged = list(rest)
    for position in sorted(static):
        merged.insert(position, static[position])
    return merged

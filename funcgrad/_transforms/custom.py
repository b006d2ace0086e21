"""Custom rules: ``custom_jvp`` and ``custom_vjp``.

Either rule serves both modes: a ``custom_jvp`` rule is linear in its tangents, so recording and
transposing it gives the pullback; a ``custom_vjp`` pullback is linear in its cotangents, so its
transpose gives the pushforward. Rules are ordinary functions, so they can be differentiated again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Sequence
from functools import reduce, update_wrapper
from operator import add, index
from typing import Any, Generic, Literal, ParamSpec, SupportsIndex, TypeVar, overload

from funcgrad._core import pytrees
from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import described, operand
from funcgrad._hints.lookup import decorating
from funcgrad._transforms.arguments import check_function, is_whole, values_of
from funcgrad._transforms.calls import JvpCall, RuleCall, ThroughCall, VjpCall, filled
from funcgrad._transforms.closed_calls import bind_closure
from funcgrad._transforms.flat_functions import CallSignature, FlatFunction
from funcgrad._transforms.transformed import importable_name
from funcgrad.errors import ArgumentError, DifferentiationError, EscapedTracerError, ShapeError
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")
R = TypeVar("R")


class _Custom(Generic[P, R]):
    """A function that carries a rule."""

    _kind = ""

    def __init__(self, f: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> None:
        check_function(self._kind, f)
        self._function = f
        several = isinstance(nondiff_argnums, (tuple, list))
        if not several or not all(map(is_whole, nondiff_argnums)):
            raise DifferentiationError(
                f"{self._kind}: nondiff_argnums has to be a tuple of integers, got"
                f" {nondiff_argnums!r}."
            )
        self._static = tuple(map(index, nondiff_argnums))
        self._rules: tuple[Callable[..., Any], ...] = ()
        update_wrapper(self, f, updated=())  # a custom function's attributes are its own
        self.__name__: str = getattr(f, "__name__", type(f).__name__)

    def _define(self, *rules: Callable[..., Any]) -> None:
        if self._rules:
            raise DifferentiationError(
                f"{self._kind}: {self.__name__} already has a rule, and it keeps it. For another"
                f" rule decorate the function again, by {self._kind}, and define the rule then; in"
                " a notebook run the cell of the function again."
            )
        for rule in rules:
            check_function(f"{self._kind} {self.__name__}: rule", rule)
        self._rules = rules

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not self._rules:
            raise DifferentiationError(
                f"{self._kind}: {self.__name__} has no rule yet; define one with"
                f" {self.__name__}.{'defvjp(fwd, bwd)' if 'vjp' in self._kind else 'defjvp(rule)'}."
            )
        name = f"{self._kind} {self.__name__}"
        positional = by_position(name, self._function, args, kwargs)
        static = self._static_arguments(name, positional)
        dynamic = tuple(arg for k, arg in enumerate(positional) if k not in static)
        leaves, structure = pytrees.flatten(dynamic)
        values = values_of(name, leaves, structure, lambda: "arguments")
        signature = CallSignature(name, structure, values)

        def function(inner: Sequence[Value]) -> list[Value]:
            run: Callable[..., Any] = self._function
            return signature.out(run(*_merged(static, signature.args(inner))))

        call = self._call(function, signature, static)
        outs = bind_closure(call, values)
        assert signature.result is not None
        return pytrees.unflatten(signature.result, [wrap(out) for out in outs])

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return importable_name(self) or super().__reduce_ex__(protocol)

    def _static_arguments(self, name: str, positional: tuple[Any, ...]) -> dict[int, Any]:
        for k in self._static:
            if not 0 <= k < len(positional):
                raise DifferentiationError(
                    f"{name}: nondiff_argnums names argument {k}, but there are {len(positional)}"
                    " positional arguments, counted from 0."
                )
        return {k: positional[k] for k in self._static}

    def _origin(self, static: dict[int, Any]) -> Hashable:
        """A key that is equal for two calls if they follow the same rules."""
        return id(self), tuple([(place, id(value)) for place, value in static.items()])

    def _call(
        self, function: FlatFunction, signature: CallSignature, static: dict[int, Any]
    ) -> RuleCall:
        raise NotImplementedError


class CustomJvp(_Custom[P, R]):
    """A function with a derivative rule that is a pushforward; see ``custom_jvp``."""

    _kind = "custom_jvp"

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Give the rule: ``rule(primals, tangents) -> (result, tangent of the result)``."""
        self._define(rule)
        return rule

    def defjvps(self, *rules: Callable[..., Any] | None) -> None:
        """Give a rule for each argument, as in JAX.

        Parameters
        ----------
        *rules : callable or None
            ``rule(tangent, result, *args)`` returns the tangent of the result for the tangent of
            one argument. Their sum is the derivative; None is a derivative of 0.

        Raises
        ------
        DifferentiationError
            There is not one rule for each argument, or some are in ``nondiff_argnums``.

        Examples
        --------
        >>> import funcgrad as fg
        >>> product = fg.custom_jvp(lambda x, y: x * y)
        >>> product.defjvps(lambda t, out, x, y: t * y, lambda t, out, x, y: t * x)
        >>> fg.grad(product, argnums=(0, 1))(2.0, 3.0)
        (Tensor(3.0), Tensor(2.0))
        """
        place = f"{self._kind} {self.__name__}"
        if self._static:
            raise DifferentiationError(
                f"{place}: defjvps cannot be used with nondiff_argnums; write one rule of all"
                " arguments, by defjvp."
            )
        for rule in rules:
            if rule is not None:
                check_function(f"{place}: rule", rule)

        def all_rules(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            if len(rules) != len(primals):
                raise DifferentiationError(
                    f"{place}: defjvps was given {len(rules)} rules, but there are {len(primals)}"
                    " arguments. Pass None for an argument whose derivative is 0."
                )
            out: Any = self(*primals)  # type: ignore[call-arg]  # as they were passed
            terms = [
                rule(tangent, out, *primals)
                for rule, tangent in zip(rules, tangents, strict=True)
                if rule is not None
            ]
            if not terms:
                return out, pytrees.map(lambda x: 0.0 * wrap(x), out)
            return out, pytrees.map(lambda *parts: reduce(add, parts), *terms)

        self._define(all_rules)

    def _call(
        self, function: FlatFunction, signature: CallSignature, static: dict[int, Any]
    ) -> RuleCall:
        (rule,) = self._rules

        def flat_rule(values: Sequence[Value]) -> list[Value]:
            half = len(values) // 2
            primals = signature.args(values[:half])
            tangents = signature.args(filled(values[half:], values[:half]))
            returned = rule(*static.values(), primals, tangents)
            out, tangent = _pair(signature.name, "rule", returned, "(result, tangent)")
            outs = signature.out(out)
            assert signature.result is not None
            tangents_out = pytrees.flatten_like(
                signature.result, tangent, f"{signature.name}: tangent"
            )
            return [*outs, *checked_tangents(signature, tangents_out, outs)]

        return JvpCall(function, signature, self._origin(static), (flat_rule,))


class CustomVjp(_Custom[P, R]):
    """A function with a derivative rule that is a pullback; see ``custom_vjp``."""

    _kind = "custom_vjp"

    def __init__(
        self,
        f: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        forward: Literal["transpose", "through"] = "transpose",
    ) -> None:
        super().__init__(f, nondiff_argnums)
        if not isinstance(forward, str) or forward not in ("transpose", "through"):
            raise ArgumentError(
                f"{self._kind}: forward has to be 'transpose' or 'through', got {forward!r}."
            )
        self._call_kind = ThroughCall if forward == "through" else VjpCall

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Give the rule.

        Parameters
        ----------
        fwd : callable
            A function with the same signature that returns ``(result, residuals)``. The residuals
            are a pytree of the values that ``bwd`` needs.
        bwd : callable
            ``bwd(residuals, cotangent)`` returns a tuple with the cotangent of each argument; None
            stands for zero.
        """
        self._define(fwd, bwd)

    def _call(
        self, function: FlatFunction, signature: CallSignature, static: dict[int, Any]
    ) -> RuleCall:
        fwd, bwd = self._rules

        def forward(args: Sequence[Value]) -> tuple[list[Value], Any]:
            returned = fwd(*_merged(static, signature.args(args)))
            out, residuals = _pair(signature.name, "fwd rule", returned, "(result, residuals)")
            return signature.out(out), residuals

        def backward(residuals: Any, cts: Sequence[Value]) -> list[Value]:
            assert signature.result is not None
            ct = pytrees.unflatten(signature.result, [wrap(x) for x in cts])
            try:
                return checked_cotangents(signature, bwd(*static.values(), residuals, ct))
            except EscapedTracerError as error:
                raise EscapedTracerError(
                    f"{signature.name}: the bwd rule uses a traced value whose transformation has"
                    " ended; bwd runs when the pullback does. What it needs of the call has to be"
                    " an argument of the function, which fwd hands to bwd as a residual."
                ) from error

        return self._call_kind(function, signature, self._origin(static), (forward, backward))


@overload
def custom_jvp(f: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> CustomJvp[P, R]: ...
@overload
def custom_jvp(
    *, nondiff_argnums: Sequence[int] = ()
) -> Callable[[Callable[P, R]], CustomJvp[P, R]]: ...
@decorating
def custom_jvp(f: Callable[P, R], nondiff_argnums: Sequence[int] = ()) -> CustomJvp[P, R]:
    """Define a custom derivative rule for a function, in forward mode (JVP).

    Use it where the derivative of the function's own operations is inaccurate, slow or not defined.
    Reverse mode follows from the rule.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree.
    nondiff_argnums : sequence of int
        Positions of arguments that are not arrays, such as functions and flags. The rule takes
        them first.

    Returns
    -------
    callable
        A function with the signature of ``f``; its methods ``defjvp(rule)`` and
        ``defjvps(*rules)`` give it its rule.

    Raises
    ------
    DifferentiationError
        ``nondiff_argnums`` is not a tuple of integers. A call raises it if the function has no rule
        yet, or if the rule's results do not match the function's results.

    Notes
    -----
    The rule has to be linear in the tangents. Reverse mode records its operations on the tangents
    and transposes them. The rule of a linear function may call the function itself:
    ``f.defjvp(lambda primals, tangents: (f(*primals), f(*tangents)))``. A structural zero arrives
    as an array of zeros. The rule covers the arguments only: derivatives with respect to values
    that ``f`` closes over come from the function's own operations.

    A program contains ``f`` and its rule as programs. The outside values that they read are fixed
    when they are staged; if they use the value of an argument in Python, the program keeps a guard.
    A rule that uses values of tangents or cotangents in Python, or that cannot be staged, stays a
    Python function, which reads outside values when a derivative is taken.

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
    return CustomJvp(f, nondiff_argnums)


@overload
def custom_vjp(
    f: Callable[P, R],
    nondiff_argnums: Sequence[int] = (),
    forward: Literal["transpose", "through"] = "transpose",
) -> CustomVjp[P, R]: ...
@overload
def custom_vjp(
    *, nondiff_argnums: Sequence[int] = (), forward: Literal["transpose", "through"] = "transpose"
) -> Callable[[Callable[P, R]], CustomVjp[P, R]]: ...
@decorating
def custom_vjp(
    f: Callable[P, R],
    nondiff_argnums: Sequence[int] = (),
    forward: Literal["transpose", "through"] = "transpose",
) -> CustomVjp[P, R]:
    """Define a custom derivative rule for a function, in reverse mode (VJP).

    Use it to clip or replace a gradient, or where you know a cheaper pullback.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree.
    nondiff_argnums : sequence of int
        Positions of arguments that are not arrays, such as functions and flags. ``bwd`` takes them
        first.
    forward : {"transpose", "through"}
        How forward mode computes tangents. ``"transpose"`` transposes ``bwd``, which is linear in
        the cotangent. ``"through"`` ignores the rule and pushes tangents through the operations of
        ``f``: for rules that save memory in reverse mode, or that are not the true derivative.

    Returns
    -------
    callable
        A function with the signature of ``f``; its method ``defvjp(fwd, bwd)`` gives it
        its rule.

    Raises
    ------
    DifferentiationError
        ``nondiff_argnums`` is not a tuple of integers. A call raises it if the function has no rule
        yet, or if the rule's results do not match the function's results.
    ArgumentError
        ``forward`` is neither of the two.

    Notes
    -----
    Higher derivatives differentiate ``fwd`` and ``bwd``. For values that they close over, and for
    programs, see the notes of ``custom_jvp``. Outside programs, ``bwd`` runs when the pullback runs
    and reads outside names at that time; let ``fwd`` pass it the values of the call as residuals.

    Examples
    --------
    >>> import funcgrad as fg
    >>> @fg.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda residuals, ct: (ct.clip(-1.0, 1.0),))
    >>> fg.grad(lambda x: 5.0 * clipped(x))(2.0)
    Tensor(1.0)

    A rule that only reverse mode uses:

    >>> halved = fg.custom_vjp(lambda x: x * x, forward="through")
    >>> halved.defvjp(lambda x: (x * x, x), lambda x, ct: (x * ct,))
    >>> fg.grad(halved)(3.0), fg.jvp(halved, (3.0,), (1.0,))[1]
    (Tensor(3.0), Tensor(6.0))
    """
    return CustomVjp(f, nondiff_argnums, forward)


def _pair(name: str, rule: str, out: Any, parts: str) -> Any:
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise DifferentiationError(
            f"{name}: the {rule} has to return a pair {parts}, but it returned {described(out)}."
        )
    return out


def checked_tangents(
    signature: CallSignature, tangents: Sequence[Any], outs: Sequence[Value]
) -> list[Value]:
    assert signature.result is not None
    name = f"{signature.name}: tangent"
    values = values_of(signature.name, tangents, signature.result, lambda: "tangent")
    for value, out, path in zip(values, outs, signature.result.paths(), strict=True):
        if shape_of(value) != shape_of(out):
            raise ShapeError(
                f"{name}{path}: expected shape {shape_of(out)}, the shape of the result, got"
                f" {shape_of(value)}."
            )
    return values


def checked_cotangents(signature: CallSignature, cts: Any, rule: str = "bwd rule") -> list[Value]:
    """The leaves of a pullback's result: one for each leaf of the arguments, None for a zero."""
    arguments = pytrees.unflatten(signature.arguments, [None] * signature.arguments.num_leaves)
    if not isinstance(cts, (tuple, list)) or len(cts) != len(arguments):
        raise DifferentiationError(
            f"{signature.name}: the {rule} has to return a tuple with a cotangent for each of the"
            f" {len(arguments)} argument(s), but it returned"
            f" {len(cts) if isinstance(cts, (tuple, list)) else described(cts)}."
        )
    name = f"{signature.name}: cotangent"
    leaves = pytrees.broadcast_prefix(tuple(cts), signature.arguments, name)
    values = [None if leaf is None else concrete(operand(leaf, name)) for leaf in leaves]
    paths = signature.arguments.paths()
    for value, spec, path in zip(values, signature.specs, paths, strict=True):
        if value is not None and shape_of(value) != spec.shape:
            raise ShapeError(
                f"{name}{path}: expected shape {spec.shape}, the shape of the argument, got"
                f" {shape_of(value)}. The {rule} returns a cotangent for each argument."
            )
    return values


def by_position(
    name: str, f: Callable[..., Any], args: Sequence[Any], kwargs: Any
) -> tuple[Any, ...]:
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


def _merged(static: dict[int, Any], dynamic: Sequence[Any]) -> list[Any]:
    merged = list(dynamic)
    for position in sorted(static):
        merged.insert(position, static[position])
    return merged

"""The operation that runs a function of another library on arrays, for one example or a batch.

Its parameters hold the function and its rules, so programs keep it as one equation.

>>> from funcgrad._core import pytrees
>>> half = ForeignOperation("half", lambda x: x / 2, None)
>>> one = pytrees.structure(0)
>>> half.call([np.ones(2)], pytrees.structure((0,)), one, [Spec((2,), np.dtype(float))])
[array([0.5, 0.5])]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.primitive import DISCRETE, Differential, Linearized, Primitive
from funcgrad._core.specs import Shape, Spec, is_inexact, shape_of, spec_of
from funcgrad._core.structure.structures import FOREIGN
from funcgrad._core.trace import NUMBERS, Raw, TracedValue, Value, concrete, is_followed
from funcgrad._core.users_values import freeze, in_native_order, read_only, with_apart
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import reshape
from funcgrad._programs.origins import operations_line
from funcgrad._transforms.custom import checked_cotangents, checked_tangents
from funcgrad._transforms.factors import fit_tangent, zeros_like
from funcgrad._transforms.flat_functions import CallSignature, batched_flat
from funcgrad._transforms.linear import linear_transpose
from funcgrad._transforms.masked import fit_cotangent
from funcgrad.errors import DifferentiationError, DtypeError, LeafError, ShapeError, TreeError
from funcgrad.tensor.tensor import wrap

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ForeignOperation:
    """A function of another library that takes and returns pytrees of arrays.

    Attributes
    ----------
    name : str
    function : callable
    of_batches : callable or None
        The function of a batch: arrays have one more axis, the first. None if the function runs for
        one example after the other.
    jvp, vjp : callable, optional
        See ``foreign``.
    """

    name: str
    function: Callable[..., Any]
    of_batches: Callable[..., Any] | None
    jvp: Callable[..., Any] | None = None
    vjp: Callable[..., Any] | None = None

    def call(
        self,
        arrays: Sequence[Array],
        arguments: pytrees.Structure,
        result: pytrees.Structure,
        specs: Sequence[Spec],
    ) -> list[Array]:
        """Return the leaves of the function's result, checked against their specs."""
        return self._run(self.function, arrays, arguments, result, specs)

    def call_batch(
        self,
        arrays: Sequence[Array],
        flags: Sequence[bool],
        size: int,
        arguments: pytrees.Structure,
        result: pytrees.Structure,
        specs: Sequence[Spec],
    ) -> list[Array]:
        """Return the leaves for a batch: arrays whose flag is set have the examples on axis 0."""
        stacked = [Spec((size, *spec.shape), spec.dtype) for spec in specs]
        if not size:
            return [np.empty(spec.shape, spec.dtype) for spec in stacked]
        if self.of_batches is not None:
            repeated = [
                x if flag else np.broadcast_to(x, (size, *x.shape))
                for x, flag in zip(arrays, flags, strict=True)
            ]
            return self._run(self.of_batches, repeated, arguments, result, stacked)
        outs = [np.empty(spec.shape, spec.dtype) for spec in stacked]
        for k in range(size):
            example = [x[k, ...] if flag else x for x, flag in zip(arrays, flags, strict=True)]
            for out, leaf in zip(outs, self.call(example, arguments, result, specs), strict=True):
                out[k] = leaf
        return outs

    def _run(
        self,
        function: Callable[..., Any],
        arrays: Sequence[Array],
        arguments: pytrees.Structure,
        result: pytrees.Structure,
        specs: Sequence[Spec],
    ) -> list[Array]:
        try:
            out = function(*pytrees.unflatten(arguments, arrays))
        except Exception as error:
            taken = ", ".join(f"{x.dtype}[{','.join(map(str, x.shape))}]" for x in arrays)
            error.add_note(f"{self.at()}: the function raised this for {taken}.")
            raise
        return self._checked(out, result, specs)

    def at(self) -> str:
        """Return the function's name and the user's line that calls it, for errors."""
        line = operations_line()
        return f"foreign {self.name} (at {line})" if line else f"foreign {self.name}"

    def _checked(self, out: Any, result: pytrees.Structure, specs: Sequence[Spec]) -> list[Array]:
        """Return the leaves of a result as arrays that other code cannot write to.

        Raises
        ------
        TreeError, LeafError, ShapeError, DtypeError
            They differ from ``result``.
        """
        try:
            leaves = pytrees.flatten_like(result, out, "the result")
        except TreeError as error:
            raise TreeError(
                f"{self.at()}: the tree of the function's result differs from result=. {error}"
            ) from None
        return [
            self._checked_leaf(leaf, spec, path)
            for leaf, spec, path in zip(leaves, specs, result.paths(), strict=True)
        ]

    def _checked_leaf(self, leaf: Any, spec: Spec, path: str) -> Array:
        if isinstance(leaf, TracedValue) and is_followed(leaf):
            raise LeafError(
                f"{self.at()}: result{path} is a traced value that the function closes over. Make"
                " it an argument, so that the function gets a NumPy array."
            )
        try:
            array = in_native_order(np.asarray(leaf))
        except Exception as error:  # arrays of other libraries may raise anything
            raise LeafError(
                f"{self.at()}: result{path} is of type {type(leaf).__name__}, which does not"
                f" convert to an array: {error}"
            ) from error
        if array.shape != spec.shape:
            raise ShapeError(
                f"{self.at()}: result{path} has shape {array.shape}, but result= says"
                f" {spec.shape}. Correct result= or the function."
            )
        fits = type(leaf) in NUMBERS and np.can_cast(array.dtype, spec.dtype, "same_kind")
        if array.dtype != spec.dtype and not fits:
            raise DtypeError(
                f"{self.at()}: result{path} has dtype {array.dtype}, but result= says"
                f" {spec.dtype}. Correct result=, or return .astype({str(spec.dtype)!r})."
            )
        return freeze(array.astype(spec.dtype, copy=False))


def _evaluate(
    *args: Raw,
    operation: ForeignOperation,
    arguments: pytrees.Structure,
    result: pytrees.Structure,
    specs: tuple[Spec, ...],
    size: int,
    flags: tuple[bool, ...],
    linear: tuple[int, ...],
) -> tuple[Raw, ...]:
    arrays = [read_only(np.asarray(x)) for x in args]
    if size < 0:
        outs = operation.call(arrays, arguments, result, specs)
    else:
        outs = operation.call_batch(arrays, flags, size, arguments, result, specs)
    return tuple([out[()] if not out.shape else out for out in outs])


def _result(*_: Spec, specs: tuple[Spec, ...], size: int, **__: Hashable) -> tuple[Spec, ...]:
    lead = () if size < 0 else (size,)
    return tuple([Spec((*lead, *spec.shape), spec.dtype) for spec in specs])


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> tuple[Value, ...]:
    """Batch by one axis: a batch of batches is one batch of all examples."""
    inner: int = params["size"]
    if inner < 0:
        outs: Any = primitive(*args, **{**params, "size": size, "flags": tuple(batched)})
        return tuple(outs)
    flags: tuple[bool, ...] = params["flags"]
    joined = [
        _joined(x, flag, carried, size, inner)
        for x, flag, carried in zip(args, batched, flags, strict=True)
    ]
    both = tuple([flag or carried for flag, carried in zip(batched, flags, strict=True)])
    outs = primitive(*joined, **{**params, "size": size * inner, "flags": both})
    return tuple([reshape(out, shape=(size, inner, *shape_of(out)[1:])) for out in outs])


def _joined(x: Value, flag: bool, carried: bool, size: int, inner: int) -> Value:
    """Join both batch axes of an argument; unchanged if it has neither."""
    if not flag and not carried:
        return x
    shape = shape_of(x)
    core: Shape = shape[flag + carried :]
    if flag and not carried:
        x = reshape(x, shape=(size, 1, *core))
    if not (flag and carried):
        x = broadcast_to(x, shape=(size, inner, *core))
    return reshape(x, shape=(size * inner, *core))


def _label(operation: ForeignOperation, **_: Hashable) -> str:
    return f"foreign {operation.name}"


def _push(tangents: Sequence[Value], outs: Any, *args: Value, **params: Any) -> tuple[Value, ...]:
    site, count = _ForeignCall(**params), len(args)
    if all(t is None or k in site.linear for k, t in enumerate(tangents)):
        moved = [
            (zeros_like(x) if t is None else fit_tangent(t, x)) if k in site.linear else x
            for k, (t, x) in enumerate(zip(tangents, args, strict=True))
        ]
        pushed: Any = FOREIGN_FUNCTION(*moved, **params)
        return tuple(pushed)
    filled = [
        zeros_like(x) if t is None else fit_tangent(t, x)
        for t, x in zip(tangents, args, strict=True)
    ]

    def push(values: Sequence[Value]) -> list[Value]:
        primals, moved = values[:count], values[count + len(outs) :]
        return site.pushed(primals, values[count : count + len(outs)], moved)

    values = [*args, *outs, *filled]
    if site.size < 0:
        return tuple(push(values))
    flags = [*site.flags, *[True] * len(outs), *site.flags]
    return tuple(batched_flat(push, site.size, flags)(values))


def _pull(cts: Sequence[Value], outs: Any, *args: Value, **params: Any) -> tuple[Value, ...]:
    site, count = _ForeignCall(**params), len(args)
    seeds = [fit_cotangent(ct, spec_of(out)) for ct, out in zip(cts, outs, strict=True)]

    def pull(values: Sequence[Value]) -> list[Value]:
        primals, seeds = values[:count], values[count + len(outs) :]
        return site.pulled(primals, values[count : count + len(outs)], seeds)

    values = [*args, *outs, *seeds]
    if site.size < 0:
        return tuple(pull(values))
    flags = [*site.flags, *[True] * (2 * len(outs))]
    pulled = batched_flat(pull, site.size, flags)(values)
    return tuple(
        [
            ct if flag else reduce_sum(ct, axis=(0,), keepdims=False)
            for ct, flag in zip(pulled, site.flags, strict=True)
        ]
    )


@dataclass(frozen=True, slots=True)
class _ForeignCall:
    """A call of a foreign function; its rules are functions of flat values here."""

    operation: ForeignOperation
    arguments: pytrees.Structure
    result: pytrees.Structure
    specs: tuple[Spec, ...]
    size: int
    flags: tuple[bool, ...]
    linear: tuple[int, ...]

    def _signature(self, args: Sequence[Value]) -> CallSignature:
        signature = CallSignature(f"foreign {self.operation.name}", self.arguments, args)
        signature.result = self.result
        return signature

    def _tree(self, values: Sequence[Value]) -> Any:
        return pytrees.unflatten(self.result, [wrap(x) for x in values])

    def pushed(
        self, args: Sequence[Value], outs: Sequence[Value], tangents: Sequence[Value]
    ) -> list[Value]:
        """Return the tangents of the results, given the tangents of the arguments."""
        signature = self._signature(args)
        if self.operation.jvp is not None:
            primals, moved = signature.args(args), signature.args(tangents)
            returned = self.operation.jvp(primals, self._tree(outs), moved)
            leaves = pytrees.flatten_like(self.result, returned, f"{signature.name}: tangent")
            return checked_tangents(signature, leaves, outs)
        if self.operation.vjp is None:
            raise self._refusal()

        def pull(cts: list[Value]) -> list[Any]:
            seeds = _mixed(cts, self.specs)
            return _inexact(map(wrap, self.pulled(args, outs, seeds)), signature.specs)

        try:
            (transposed,) = linear_transpose(pull, _inexact(outs, self.specs))(
                _inexact(tangents, signature.specs)
            )
        except DifferentiationError as error:
            reason = str(error).removeprefix("linear_transpose: ")
            raise DifferentiationError(
                f"{self.operation.at()}: forward mode transposes the rule vjp=, and {reason} Give"
                " jvp=, too. Or, if the rule passes its cotangent to another foreign function, say"
                " there by linear_in= in which arguments it is linear."
            ) from error
        return _mixed([concrete(t) for t in transposed], self.specs)

    def pulled(
        self, args: Sequence[Value], outs: Sequence[Value], cts: Sequence[Value]
    ) -> list[Value]:
        """Return the cotangents of the arguments, given the cotangents of the results."""
        signature = self._signature(args)
        if self.operation.vjp is not None:
            returned = self.operation.vjp(signature.args(args), self._tree(outs), self._tree(cts))
            values = checked_cotangents(signature, returned, "vjp")
            pairs = zip(values, signature.specs, strict=True)
            return [fit_cotangent(ct, spec) for ct, spec in pairs]
        if self.operation.jvp is None:
            raise self._refusal()

        def push(tangents: list[Value]) -> list[Any]:
            moved = _mixed(tangents, signature.specs)
            return _inexact(map(wrap, self.pushed(args, outs, moved)), self.specs)

        (transposed,) = linear_transpose(push, _inexact(args, signature.specs))(
            _inexact(cts, self.specs)
        )
        return _mixed([concrete(t) for t in transposed], signature.specs)

    def _refusal(self) -> DifferentiationError:
        return DifferentiationError(
            f"{self.operation.at()}: it has no derivative. Pass a rule to foreign, by jvp= or vjp=,"
            " or numerical=True for finite differences. If you want no derivative, put"
            " fg.stop_gradient around the arguments."
        )


def _inexact(values: Iterable[Any], specs: Sequence[Spec]) -> list[Any]:
    """Return the floating-point and complex values."""
    return [x for x, spec in zip(values, specs, strict=True) if is_inexact(spec.dtype)]


def _mixed(values: Iterable[Value], specs: Sequence[Spec]) -> list[Value]:
    """Insert zeros for integer and boolean values."""
    remaining = iter(values)
    return [next(remaining) if is_inexact(spec.dtype) else zeros_like(spec) for spec in specs]


def _declared(differential: Differential) -> Primitive:
    return Primitive(
        "foreign",
        with_apart(_evaluate),
        _result,
        differential,
        _batch,
        traits=FOREIGN,
        label=_label,
    )


FOREIGN_FUNCTION: Final = _declared(
    Linearized(_push, pull=_pull, linear_in=lambda *, linear, **_: linear, mixes=True)
)
FOREIGN_DISCRETE: Final = _declared(DISCRETE)
"""For results that are all integer or boolean."""


def apply_foreign(
    operation: ForeignOperation,
    values: Sequence[Value],
    arguments: pytrees.Structure,
    result: pytrees.Structure,
    specs: Sequence[Spec],
    linear: tuple[int, ...] = (),
) -> list[Value]:
    """Run the function on values, under the transformations that trace them.

    ``linear`` are the leaves of the arguments in which the function is linear, for any values of
    the others.
    """
    is_smooth = any(is_inexact(spec.dtype) for spec in specs)
    outs: Any = (FOREIGN_FUNCTION if is_smooth else FOREIGN_DISCRETE)(
        *values,
        operation=operation,
        arguments=arguments,
        result=result,
        specs=tuple(specs),
        size=-1,
        flags=(),
        linear=linear,
    )
    return list(outs)

"""Pushing tangents forward through one operation: forward mode's half of every differential.

A tangent is None where it is zero by structure; else it has the shape and the dtype of its primal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.primitive import (
    DISCRETE,
    OPPOSITE,
    SAME,
    Linear,
    Linearized,
    Partials,
    Primitive,
    Selection,
)
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.reduction import reduce_sum
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import cast
from funcgrad.shape import dtype_of, expand, is_inexact, shape_of
from funcgrad.trace import RAW, Value, bind
from funcgrad.transforms.factors import operands_of_factors
from funcgrad.transforms.pull import keep

__all__ = ["push_forward", "settle", "times", "zeros_like"]


def push_forward(
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Value],
    out: Value,
    params: Mapping[str, Any],
) -> Value:
    """The tangent of an operation's output, or None.

    Parameters
    ----------
    primitive : Primitive
    primals : sequence of values
    tangents : sequence of values or None
    out : value
        The output for the primals.
    params : mapping
    """
    differential = primitive.differential
    if differential is DISCRETE or not is_inexact(dtype_of(out)):
        return None
    if len(tangents) == 1:
        if tangents[0] is None:
            return None
        if type(differential) is Linear:  # as every operation that only moves elements
            return settle(bind(primitive, (tangents[0],), params), out)
    elif all(tangent is None for tangent in tangents):
        return None
    push: Any = _PUSHES[type(differential)]
    tangent = push(differential, primitive, primals, tangents, out, params)
    return None if tangent is None else settle(tangent, out)


def settle(tangent: Value, primal: Value) -> Value:
    """A tangent in the shape and the dtype of its primal."""
    kind = type(tangent)
    if kind is type(primal) and kind in RAW:  # the commonest cases, without detours
        if kind is not np.ndarray:
            return tangent
        if tangent.dtype is primal.dtype and tangent.shape == primal.shape:
            return tangent
    dtype = dtype_of(primal)
    if dtype_of(tangent) != dtype:
        tangent = cast(tangent, dtype=dtype)
    shape = shape_of(primal)
    if shape_of(tangent) == shape:
        return tangent
    if type(tangent) in RAW:
        return expand(tangent, shape)
    return broadcast_to(tangent, shape=shape)


def times(tangent: Value, factor: Any, *values: Value) -> Value:
    """A tangent times an elementwise operation's factor for it, given output and arguments."""
    if factor is SAME:
        return tangent
    return -tangent if factor is OPPOSITE else tangent * factor(*values)


def _sum(terms: Sequence[Value]) -> Value:
    total = None
    for term in terms:
        total = term if total is None else total + term
    return total


def _push_partials(
    partials: Partials,
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Value],
    out: Value,
    params: Mapping[str, Any],
) -> Value:
    if partials.reduces:
        return _push_reduction(partials, primals[0], tangents[0], out, params)
    terms = []
    values = operands_of_factors(partials, primals, out)
    for tangent, factor in zip(tangents, partials.factors, strict=True):
        if tangent is not None and factor is not None:
            if callable(factor):
                factor = factor(out, *values, **params)
            terms.append(_scaled(tangent, factor, partials.selects))
    return _sum(terms)


def _push_reduction(
    partials: Partials, x: Value, tangent: Value, out: Value, params: Mapping[str, Any]
) -> Value:
    """The sum of factor times tangent over the axes that the operation reduces."""
    factor: Any = partials.factors[0]
    axis, keepdims = params["axis"], params["keepdims"]
    if callable(factor):
        factor = factor(keep(out, shape_of(x), params), x, **params)
        if type(factor) is float:  # as that of a mean, which is left for the few sums
            return reduce_sum(tangent, axis=axis, keepdims=keepdims) * factor
    return reduce_sum(_scaled(tangent, factor, partials.selects), axis=axis, keepdims=keepdims)


def _scaled(tangent: Value, factor: Any, selects: bool) -> Value:
    if factor is SAME:
        return tangent
    if factor is OPPOSITE:
        return -tangent
    if isinstance(factor, Selection):
        return where(factor.mask, tangent, 0) * factor.weight
    if selects:
        return where(factor, tangent, 0)
    return tangent * factor


def _push_linear(
    linear: Linear,
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Value],
    out: Value,
    params: Mapping[str, Any],
) -> Value:
    routes = linear.routes(len(primals))
    followed = [
        tangent is not None and transpose is not None
        for tangent, transpose in zip(tangents, routes, strict=True)
    ]
    if linear.jointly:
        replaced = [
            tangent if follow else zeros_like(x) if transpose is not None else x
            for x, tangent, follow, transpose in zip(
                primals, tangents, followed, routes, strict=True
            )
        ]
        return bind(primitive, tuple(replaced), params) if any(followed) else None
    return _sum(
        [
            bind(primitive, (*primals[:k], tangents[k], *primals[k + 1 :]), params)
            for k, follow in enumerate(followed)
            if follow
        ]
    )


def zeros_like(x: Value) -> Value:
    """Zeros in the shape and the dtype of a value."""
    return np.zeros(shape_of(x), dtype_of(x))[()]


def _push_linearized(
    linearized: Linearized,
    primitive: Primitive,
    primals: Sequence[Value],
    tangents: Sequence[Value],
    out: Value,
    params: Mapping[str, Any],
) -> Value:
    given = tuple(
        tangent if is_inexact(dtype_of(x)) else None
        for tangent, x in zip(tangents, primals, strict=True)
    )
    return linearized.push(given, out, *primals, **params)


_PUSHES: Final = MappingProxyType(
    {Partials: _push_partials, Linear: _push_linear, Linearized: _push_linearized}
)

"""What the rules of ``axes.py``, ``sink.py`` and ``relax.py`` apply to; see ``parts.py``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives import reduction as red
from funcgrad.primitives import selection as chosen
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.keys import Key
from funcgrad.primitives.structural import place
from tests.passes.parts import (
    Form,
    Pick,
    as_matrix,
    called,
    column,
    flat,
    full,
    is_unary,
    row,
    spread,
)

# ----------------------------------------------------------------------------------------- axes


def _two_reshapes(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    between = fnp.reshape(x, pick((-1,), (1, -1), (*x.shape, 1), (-1, 1)))
    return fnp.reshape(pick(lambda: between, lambda: ew.square(between)), x.shape)


def _two_transpositions(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    deep = fnp.stack([x, y, x])
    axes = pick((1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2))
    again = pick((1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0))
    turned = fnp.transpose(fnp.transpose(deep, axes), again)
    return pick(lambda: turned[0], lambda: turned[:, 1], lambda: x.T.T)


def _reducing(operation: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    if operation in (red.reduce_var, red.reduce_std):
        return operation(x, axis=axis, correction=0, keepdims=keepdims)
    return operation(x, axis=axis, keepdims=keepdims)


def _reduction_for(operation: Any, x: Any, y: Any) -> Any:
    """What an operation can reduce."""
    return x > y if operation in (red.reduce_any, red.reduce_all) else x


def _reduced_once_more(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    value, axis = _reduction_for(operation, x, y), pick((0,), (1,), (0, 1))
    first = pick(True, False)
    if operation in (red.position_of_max, red.position_of_min):
        axis = axis[:1]
    kept = _reducing(operation, value, axis, first)
    other = _reducing(operation, value, pick(axis, axis, (1,)), not first)
    if first:
        kept, other = other, kept
    back = kept if axis == (0, 1) else fnp.expand_dims(kept, axis)
    return as_matrix(pick(lambda: back * other, lambda: other + spread(back, x)) * 1.0, x, y)


def _reduced_and_reshaped(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    operation = pick(red.reduce_sum, red.reduce_max, red.reduce_mean, red.position_of_max)
    axis = pick(0, 1)
    kept = pick(True, False)
    reduced = _reducing(operation, x, (axis,), kept)
    columns = fnp.reshape(reduced, pick((-1,), (1, -1), (-1, 1)))
    return pick(lambda: columns * x, lambda: columns * x + spread(columns, x))


def _indexed_reduction(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    operation = pick(red.reduce_sum, red.reduce_max, red.logsumexp)
    reduced = pick(
        lambda: _reducing(operation, x, (1,), True)[:, 0],
        lambda: _reducing(operation, x, (1,), False)[:, None],
        lambda: _reducing(operation, x, (0,), True)[0],
        lambda: _reducing(operation, x, (0,), False)[None, ::-1],
        lambda: fnp.reshape(x, (*x.shape, 1))[..., 0],
        lambda: fnp.reshape(x, (1, *x.shape))[0, 1:],
        lambda: fnp.reshape(x, (1, *x.shape))[0],
    )
    return pick(lambda: reduced * x[: len(reduced)], lambda: reduced[-1:] + x)[-1] * x


def _chosen_extremum(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    value = _reduction_for(operation, x, y)
    wide = fnp.broadcast_to(value, (2, *x.shape))
    reduced = pick(
        lambda: _reducing(operation, value[:, :1], (1,), pick(True, False)),
        lambda: _reducing(operation, wide, (0,), pick(True, False)),
        lambda: _reducing(operation, fnp.broadcast_to(value[:1], wide.shape), (0, 1), False),
        lambda: _reducing(operation, fnp.broadcast_to(value[0], wide.shape), (0,), False),
        lambda: _reducing(operation, fnp.broadcast_to(value[:, :1], x.shape), (0,), True),
        lambda: _reducing(operation, fnp.broadcast_to(value[:, :1], x.shape), (1,), False),
        lambda: _reducing(operation, value, (), False),
        lambda: spread(_reducing(operation, wide, (0,), True), wide),
    )
    return as_matrix((reduced * 1.0)[(0,) * max(reduced.ndim - 2, 0)], x, y)


def _index_of_index(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    deep = fnp.stack([x, y, x, y])
    first = pick(slice(1, None), slice(None, None, -1), slice(None, 3), slice(None, None, 2), ...)
    part = deep[first, pick(slice(None), slice(None, None, -1), slice(0, 2))]
    again = part[pick(0, -1, 1, slice(1), slice(None, None, -1), slice(-1, None))]
    last = again[-1] if again.ndim == 3 else again
    return as_matrix(last[:1, :1], x, y) * pick(lambda: x, lambda: last[-1, 0])


def _placed_whole(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    keys = ((slice(None), slice(None)), (..., slice(None)), (slice(0, 9),))
    return pick(
        lambda: place(x, key=Key(pick(*keys)), shape=x.shape),
        lambda: place(x[0], key=Key((0,)), shape=(1, *x[0].shape)) * x,
        lambda: place(x[:, :1], key=Key((slice(None), 0, None)), shape=x[:, :1].shape) * y,
        lambda: place(x, key=Key((slice(None, None, -1),)), shape=x.shape),
    )


def _placed_again(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    part = x[pick(slice(0, 2), slice(None, None, 2))]
    rows = pick(slice(1, 3), slice(0, 2), slice(None, None, 2), slice(2, 0, -1))
    inner = place(part, key=Key((rows,)), shape=(4, x.shape[1]))
    outer = place(inner, key=Key((slice(None, None, -1), 1)), shape=(4, 3, x.shape[1]))
    return pick(lambda: outer[:3, 1], lambda: outer[2, 1] + x, lambda: inner[1:] * y)


# ----------------------------------------------------------------------------------------- sink


def _redundantly(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    wide = pick(
        lambda: spread(row(y, pick), x),
        lambda: spread(column(y, pick), x),
        lambda: broadcast_to(y, shape=x.shape),
        lambda: full(pick(0.5, -0.0, 0.0, 3.0), x),
        lambda: np.broadcast_to(np.array([0.0, -0.0, 0.0], x.dtype), x.shape),
    )
    first = pick(lambda: x, lambda: spread(row(x, pick), x))
    operands = pick((first, wide), (wide, first), (wide, wide))
    if is_unary(operation):
        operands = (broadcast_to(x, shape=x.shape), y)
    return as_matrix(called(operation, pick, *operands), x, y)


def _all_sunk(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    parts = pick(
        lambda: (spread(row(x, pick), x), spread(row(y, pick), y)),
        lambda: (spread(row(x, pick), x), spread(column(y, pick), y)),
        lambda: (spread(row(x, pick), x), pick(2.0, 0.5)),
        lambda: (flat(x), flat(y)),
        lambda: (flat(x), flat(y.T)),
        lambda: (flat(x), spread(x[0, 0], flat(y))),
        lambda: (fnp.reshape(x, (3, 1, 3)), fnp.reshape(y, (1, 3, 3))),
    )
    if is_unary(operation):
        parts = (spread(pick(lambda: row(x, pick), lambda: column(x, pick)), x), parts[1])
    if operation is chosen.where:
        parts = (*parts, fnp.broadcast_to(x[0, :1] == 1, parts[0].shape))
    value = called(operation, pick, *parts)
    value = fnp.reshape(value, x.shape) if value.size == x.size else value[0]
    return as_matrix(value, x, y)


def _expanded(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    other = pick(0.5, y[0, 0], y[0, :1])
    value = pick(
        lambda: called(operation, pick, flat(x), other),
        lambda: called(operation, pick, *(flat(x), other)[:: 1 if is_unary(operation) else -1]),
        lambda: called(operation, pick, fnp.reshape(x, (3, 1, 3)), y[0]),
        lambda: called(operation, pick, fnp.reshape(x, (3, 1, 3)), y[:, :1]),
        lambda: called(operation, pick, fnp.reshape(x, (1, 3, 3)), y),
        lambda: called(operation, pick, fnp.reshape(x, (3, 1, 3)), fnp.reshape(y, (3, 1, 3))),
    )
    value = fnp.reshape(value, x.shape) if value.size == x.size else value[0]
    return as_matrix(value, x, y)


# ---------------------------------------------------------------------------------------- relax


def _factors_merged(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    first, second = pick(0.3, 0.7, -3.0), pick(0.7, 1.3, -0.1)
    inner = pick(
        lambda: first * x, lambda: x / first, lambda: first / x, lambda: x + x, lambda: x * first
    )
    return pick(lambda: operation(second, inner), lambda: operation(inner, second))


def _divided(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    return pick(lambda: x / 0.3, lambda: x / -7.0, lambda: 0.3 / x)


def _small_factors(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    first, second = pick(y[0], y[:, :1]), pick(x[0], y[0], x[1:2], x[0, 0])
    inner = pick(lambda: x * first, lambda: first * x, lambda: x / first)
    return pick(lambda: operation(inner, second), lambda: operation(second, inner))


def _common_factor(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    first, second = pick((x[0], y[0]), (y, x[0]), (x[:, :1], y), (x, y), (y, y))
    second = second * 0.01  # what cancels leaves a zero of either sign, which may be divided by
    one, other = pick((x * first, x * second), (first * x, x * second), (y * first, second * y))
    return operation(one, other)


def _scaled_sum(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    axis = pick((0,), (1,))
    small = pick(0.3, x[:1], y[:, :1], y[0, 0], x[0])
    product = pick(lambda: x * small, lambda: small * x)
    kept = pick(True, False)
    total = operation(product, axis=axis, keepdims=kept)
    return as_matrix(total, x, y) + pick(lambda: 0.0, lambda: as_matrix(total, x, y))


def _sum_of_equals(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    wide = pick(
        lambda: fnp.broadcast_to(x, (4, *x.shape)), lambda: spread(x[0], x), lambda: x[:, :1] * 1.0
    )
    total = operation(wide, axis=(0,), keepdims=pick(True, False))
    return as_matrix(total[0] if total.ndim == 3 else total, x, y)


def _summed_product(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    wide = fnp.concatenate([y, x, y, x, y], axis=1)
    product, axis = pick(
        lambda: (x @ wide, (0,)),
        lambda: (wide.T @ x, (1,)),
        lambda: (fnp.einsum("ij,jk->ki", x, wide), (1,)),
        lambda: (wide.T @ wide, (0, 1)),
        lambda: (fnp.stack([x, y]) @ wide, (0, 1)),
    )
    total = operation(product, axis=axis, keepdims=pick(True, False)) / 64
    return as_matrix(fnp.ravel(fnp.broadcast_to(total, total.shape or (1,)))[:1], x, y)


MOVING: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "axes._reshaped": _two_reshapes,
        "axes._transposed": _two_transpositions,
        "axes._reduced": _reduced_and_reshaped,
        "axes._reduced_before": _reduced_once_more,
        "axes._choice": _chosen_extremum,
        "axes._index_of_reduction": _indexed_reduction,
        "axes._index_of_index": _index_of_index,
        "axes._placed_everywhere": _placed_whole,
        "axes._placed_twice": _placed_again,
        "sink._redundant": _redundantly,
        "sink._sunk": _all_sunk,
        "sink._expanded": _expanded,
        "relax._merged": _factors_merged,
        "relax._reciprocal": _divided,
        "relax._grouped": _small_factors,
        "relax._shared": _common_factor,
        "relax._scaled_sum": _scaled_sum,
        "relax._repeated": _sum_of_equals,
        "relax._summed_product": _summed_product,
    }
)
"""By the name of a rule, what it is made for."""

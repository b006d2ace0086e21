"""Forms that the rules of ``sink.py``, ``relax.py`` and some others apply to; see ``parts.py``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives.blocks import spread_block, take_block
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.indexing import deposit
from funcgrad._primitives.structural import place
from funcgrad.tensor.tensor import wrap
from tests.passes.parts import Form, Pick, as_matrix, called, flat, is_unary

# ----------------------------------------------------------------------------------------- sink


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


def _few_of_many(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Elements at the first or the last places of an order, or from its middle."""
    line = fnp.concatenate([fnp.reshape(x, (-1,))] * 5 + [fnp.reshape(y, (-1,))] * 5)
    order, size = fnp.argsort(line, descending=pick(False, True)), x.size
    places = pick(
        lambda: order[:size],
        lambda: order[-size:],
        lambda: order[::-1][:size],
        lambda: order[-size:][::-1],
        lambda: fnp.flip(order)[:size],
        lambda: order[5 : size + 5],
        lambda: order[: 2 * size : 2],
    )
    return fnp.reshape(line[places], x.shape)


def _few_in_order(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Elements at the ends of lines that are in order, as are all of a partition by all places."""
    line = fnp.concatenate([x] * 15 + [y] * 15, axis=1) + x.dtype.type(0)  # without -0.0
    line = pick(lambda: line, lambda: fnp.concatenate([line] * 3, axis=1)[:1])
    places = tuple(range(line.shape[1] - 1))
    ordered = pick(lambda: fnp.sort(line), lambda: fnp.partition(line, places))
    few = pick(
        lambda: ordered[:, :1],
        lambda: ordered[:, -1:],
        lambda: ordered[:, 0],
        lambda: ordered[..., ::-1][..., :1],
        lambda: ordered[..., ::-1][0, -1:],
    )
    return fnp.broadcast_to(fnp.ravel(few)[:1], x.shape)


def _few_deposited(_: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Elements that are added to the places of the first ones of an order, or of a square."""
    rows, columns = pick((slice(0, 2), slice(1, 3)), (1, slice(None)), (slice(None), -1))
    square = wrap(place(y[rows, columns], key=Key((rows, columns)), shape=x.shape))
    order = fnp.argsort(x, axis=pick(0, 1))
    lines = fnp.broadcast_to(np.arange(3), x.shape)
    return pick(
        lambda: deposit(square, lines, order, axis=0, unique=False, shape=x.shape),
        lambda: fnp.reshape(
            deposit(flat(square), flat(order * 3 + lines), axis=0, unique=False, shape=(9,)),
            x.shape,
        ),
    )


def _blocks_of_blocks(operation: Any, x: Any, y: Any, pick: Pick) -> Any:
    """Blocks along two axes, or twice along one, from starts that are or are not known."""
    axes, mode = pick((0, 1), (1, 0), (0, 0)), pick("clip", "raise")
    value = x
    if operation is take_block:
        wide = fnp.concatenate([x, y])
        value = fnp.concatenate([wide, wide[::-1]], axis=1)
    for size, axis in enumerate(axes):
        start = pick(0, 1, -1, fnp.minimum(fnp.sum(x == y), 1), -fnp.minimum(fnp.sum(y == y), 1))
        where = {"axes": (axis,), "mode": pick(mode, mode, "clip")}
        if operation is take_block:
            value = take_block(value, start, sizes=(5 - size,), **where)
        else:
            shape = [*value.shape]
            shape[axis] += 1
            value = spread_block(value, start, shape=tuple(shape), **where)
    return value[:3, :3]


MOVING: Final[Mapping[str, Form]] = MappingProxyType(
    {
        "sink._expanded": _expanded,
        "relax._grouped": _small_factors,
        "relax._shared": _common_factor,
        "relax._scaled_sum": _scaled_sum,
        "relax._summed_product": _summed_product,
        "few_of_order._selected": _few_of_many,
        "few_of_order._gathered": _few_in_order,
        "few_of_order._short": _few_in_order,
        "few_of_order._deposited": _few_deposited,
        "simplify._nested_blocks": _blocks_of_blocks,
    }
)
"""By the name of a rule, what it is made for."""

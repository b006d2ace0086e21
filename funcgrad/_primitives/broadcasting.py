"""Broadcasting, which is the transpose of a sum.

>>> sum_to(np.ones((2, 3)), (3,))
array([2., 2., 2.])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, expand, shape_of
from funcgrad._core.structure.structures import OWNS, Movement
from funcgrad._core.trace import Value
from funcgrad._primitives.movement import behind
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.rows import total, total_of_leading
from funcgrad._primitives.structural import reshape


def sum_to(x: Value, shape: Shape) -> Value:
    """Sum a value to a shape that broadcasts to its own: the transpose of broadcasting."""
    x_shape = shape_of(x)
    lead = len(x_shape) - len(shape)
    if type(x) is np.ndarray:
        if x_shape[lead:] == shape:
            return total_of_leading(x, lead)
        if not lead and x_shape[:-1] == shape[:-1]:
            return total(x, (len(x_shape) - 1,), True)
    axes = tuple(range(lead)) + tuple(
        i for i, (n, m) in enumerate(zip(x_shape[lead:], shape, strict=True), lead) if n != m
    )
    if type(x) is np.ndarray:
        return np.add.reduce(x, axes).reshape(shape)
    summed = reduce_sum(x, axis=axes, keepdims=False)
    return summed if shape_of(summed) == shape else reshape(summed, shape=shape)


def _broadcast_batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """The batch axis precedes the axes that broadcasting adds."""
    x, shape = args[0], params["shape"]
    added = len(shape) + 1 - len(shape_of(x))
    if added:
        x = reshape(x, shape=(size,) + (1,) * added + shape_of(x)[1:])
    return primitive(x, shape=(size, *shape))


def _broadcast_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(6)
    square = (2,), (2, 2)
    wider = ((3,), (2, 3)), ((), (2,)), ((2, 1), (4, 2, 3)), ((2,), (2,)), ((1,), (0,)), square
    for x_shape, shape in wider:
        yield Sample((rng.standard_normal(x_shape),), {"shape": shape})
        yield Sample((1j * rng.standard_normal(x_shape),), {"shape": shape})
    yield Sample((1.5,), {"shape": (3,)})
    yield Sample((np.arange(6.0)[::-2],), {"shape": (2, 3)})


def _rows_last(x: Shape, shape: Shape) -> dict[str, Any] | None:
    """The parameters with rows last; None if another axis happens to have the number of rows."""
    if not shape or (x[:1] == shape[:1] and len(x) < len(shape)):
        return None
    return {"shape": behind(shape)}


def _expanded(x: Spec, shape: Shape) -> Spec:
    if np.broadcast_shapes(x.shape, shape) != shape:  # the first raises this error, too
        raise ValueError(f"the shape {x.shape} could not be broadcast to {shape}")
    return Spec(shape, x.dtype)


broadcast_to: Primitive = Primitive(
    "broadcast_to",
    expand,
    _expanded,
    Linear((lambda ct, x, shape: sum_to(ct, shape_of(x)),), structural=True),
    _broadcast_batch,
    _broadcast_samples,
    lambda x, shape: f"np.empty({shape}, {x.dtype})\n{{out}}[...] = {x}",
    structure=Movement(lambda result, x, shape: [(result, x)], rows_last=_rows_last),
    traits=OWNS,
)

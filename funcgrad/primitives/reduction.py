"""Reductions, and ``broadcast_to``, which is the transpose of a sum.

>>> reduce_sum(np.ones((2, 3)), axis=(1,), keepdims=False)
array([3., 3.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from funcgrad.primitive import (
    DISCRETE,
    SAME,
    Factor,
    Linear,
    Partials,
    Primitive,
    Sample,
    Selection,
)
from funcgrad.primitives.structural import reshape
from funcgrad.shape import Shape, Spec, expand, reduced_shape, shape_of
from funcgrad.trace import Value

__all__ = ["broadcast_to", "reduce_any", "reduce_max", "reduce_sum", "reduction", "sum_to"]


def reduction(
    name: str,
    evaluate: Callable[..., Any],
    *,
    factor: Factor,
    selects: bool = False,
    samples: Callable[[], Iterable[Sample]] = tuple,
) -> Primitive:
    """Declare a reduction with the parameters ``axis`` (a tuple, not negative) and ``keepdims``.

    Parameters
    ----------
    name : str
    evaluate : callable
        ``(x, axis, keepdims) -> raw value``.
    factor : callable
        ``(output, x, axis, keepdims) -> factor``: the output's tangent is the sum over ``axis`` of
        factor times tangent. The output comes with the reduced axes kept.
    selects : bool
        Whether the factor is a mask or a ``Selection``.
    samples : callable
    """

    def result(x: Spec, axis: tuple[int, ...], keepdims: bool) -> Spec:
        example = np.ones((1,) * len(x.shape), x.dtype)
        dtype = np.asarray(evaluate(example, axis=axis, keepdims=keepdims)).dtype
        return Spec(reduced_shape(x.shape, axis, keepdims), dtype)

    differential = (
        DISCRETE if factor is None else Partials((factor,), selects=selects, reduces=True)
    )
    return Primitive(name, evaluate, result, differential, batch_reduction, samples)


def batch_reduction(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Every axis is one further back."""
    return primitive(args[0], **{**params, "axis": tuple(a + 1 for a in params["axis"])})


def _reductions(*, low: float = -3.0, high: float = 3.0) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        for shape, axis in (
            ((4,), (0,)),
            ((3, 4), (1,)),
            ((3, 4), (0, 1)),
            ((2, 3, 4), (2, 0)),
            ((), ()),
            ((3, 4), ()),
        ):
            for keepdims in (False, True):
                params = {"axis": axis, "keepdims": keepdims}
                yield Sample((rng.uniform(low, high, shape),), params)

    return samples


reduce_sum = reduction(
    "sum",
    lambda x, axis, keepdims: np.add.reduce(x, axis, None, None, keepdims),
    factor=SAME,
    samples=_reductions(),
)
reduce_max = reduction(
    "max",
    lambda x, axis, keepdims: np.maximum.reduce(x, axis, None, None, keepdims),
    factor=lambda y, x, axis, keepdims: _share(x == y, axis),
    selects=True,
    samples=_reductions(),
)
reduce_any = reduction(
    "any",
    lambda x, axis, keepdims: np.logical_or.reduce(x, axis, None, None, keepdims),
    factor=None,
)


def _share(best: Value, axis: tuple[int, ...]) -> Selection:
    """Ties share the cotangent equally: the subgradient of least norm."""
    return Selection(best, 1 / reduce_sum(best, axis=axis, keepdims=True))


def sum_to(x: Value, shape: Shape) -> Value:
    """Sum a value to a shape that broadcasts to its own: the transpose of broadcasting."""
    own = shape_of(x)
    lead = len(own) - len(shape)
    axes = tuple(range(lead)) + tuple(
        i for i, (n, m) in enumerate(zip(own[lead:], shape, strict=True), lead) if n != m
    )
    if type(x) is np.ndarray:
        return np.add.reduce(x, axes).reshape(shape)
    summed = reduce_sum(x, axis=axes, keepdims=False)
    return summed if shape_of(summed) == shape else reshape(summed, shape=shape)


broadcast_to = Primitive(
    "broadcast_to",
    expand,
    lambda x, shape: Spec(shape, x.dtype),
    Linear((lambda ct, x, shape: sum_to(ct, shape_of(x)),), structural=True),
    lambda primitive, size, args, batched, params: primitive(
        reshape(
            args[0],
            shape=(size,)
            + (1,) * (len(params["shape"]) + 1 - len(shape_of(args[0])))
            + shape_of(args[0])[1:],
        ),
        shape=(size, *params["shape"]),
    ),
)

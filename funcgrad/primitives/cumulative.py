"""Running sums and products, and the product of all elements.

Their derivatives hold where factors are zero, at every order: the product of the *other* elements
is multiplied out, never divided out.

>>> cumulative_sum(np.array([1.0, 2.0, 3.0]), axis=0, reverse=False)
array([1., 3., 6.])
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad.primitive import Linear, Linearized, Primitive, Sample
from funcgrad.primitives.joining import concatenate, stack
from funcgrad.primitives.keys import Key
from funcgrad.primitives.reduction import numbers, reduce_text, reduction
from funcgrad.primitives.structural import reshape, transpose, view
from funcgrad.shape import Shape, Spec, dtype_of, shape_of
from funcgrad.trace import RAW, Value

__all__ = ["cumulative_prod", "cumulative_sum", "reduce_prod"]

_multiply: Final[Any] = np.multiply.reduce


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """The axis is one further back."""
    return primitive(args[0], **{**params, "axis": params["axis"] + 1})


def _arrays() -> Iterator[tuple[Any, int]]:
    rng = np.random.default_rng(31)
    for shape, axis in (((5,), 0), ((2, 3), 1), ((4, 2), 0), ((1,), 0), ((0, 2), 0), ((2, 0), 0)):
        yield rng.uniform(-2, 2, shape), axis
    yield rng.uniform(-2, 2, (4, 6))[::-2, ::3], 1
    yield rng.uniform(-2, 2, (2, 3)) + 1j * rng.uniform(-2, 2, (2, 3)), 1
    yield np.array([2.0, 0.0, 3.0, 0.0, 5.0]), 0
    yield np.arange(4, dtype=np.int8), 0


# Running sums.


def _cumulative_sum(x: Any, axis: int, reverse: bool) -> Any:
    if not reverse:
        return np.add.accumulate(x, axis)
    return np.flip(np.add.accumulate(np.flip(x, axis), axis), axis)


def _cumulative_source(x: Any, axis: int, reverse: bool) -> str:
    if not reverse:
        return f"np.add.accumulate({x}, {axis})"
    backwards = ":, " * axis + "::-1"
    return f"np.add.accumulate({x}[{backwards}], {axis})[{backwards}]"


def _sum_samples() -> Iterator[Sample]:
    for x, axis in _arrays():
        yield Sample((x,), {"axis": axis, "reverse": False})
        yield Sample((x,), {"axis": axis, "reverse": True})


cumulative_sum: Primitive = Primitive(
    "cumsum",
    _cumulative_sum,
    lambda x, axis, reverse: Spec(x.shape, np.add.accumulate(np.zeros(1, x.dtype)).dtype),
    Linear(
        (lambda ct, x, axis, reverse: cumulative_sum(ct, axis=axis, reverse=not reverse),),
        structural=True,
    ),
    _batch,
    _sum_samples,
    _cumulative_source,
)


# Running products.


def _along(axis: int, start: int | None, stop: int | None, step: int | None = None) -> Key:
    return Key((*(slice(None),) * axis, slice(start, stop, step)))


def _push_product(tangents: tuple[Value, ...], out: Value, x: Value, axis: int) -> Value:
    """The product rule for windows that end at each element and double in length.

    It is the scan of Hillis and Steele, "Data parallel algorithms", Communications of the ACM 29
    (1986), for pairs of a product and its tangent.
    """
    size = shape_of(x)[axis]
    product, tangent = x, tangents[0]
    length = 1
    while length < size:
        head, tail, before = (
            _along(axis, None, length),
            _along(axis, length, None),
            _along(axis, None, size - length),
        )
        longer, shorter = view(product, key=tail), view(product, key=before)
        tangent = concatenate(
            view(tangent, key=head),
            view(tangent, key=tail) * shorter + longer * view(tangent, key=before),
            axis=axis,
        )
        product = concatenate(view(product, key=head), longer * shorter, axis=axis)
        length *= 2
    return tangent


def _product_samples() -> Iterator[Sample]:
    for x, axis in _arrays():
        yield Sample((x,), {"axis": axis})
    yield Sample((np.array([np.inf, 0.0, np.nan]),), {"axis": 0}, smooth=False)


cumulative_prod: Primitive = Primitive(
    "cumprod",
    lambda x, axis: np.multiply.accumulate(x, axis),
    lambda x, axis: Spec(x.shape, np.multiply.accumulate(np.zeros(1, x.dtype)).dtype),
    Linearized(_push_product),
    _batch,
    _product_samples,
    lambda x, axis: f"np.multiply.accumulate({x}, {axis})",
)


# The product of all elements.


def _others(y: Value, x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    """For each element the product of those that it is multiplied with."""
    shape = shape_of(x)
    if not axis:
        return np.ones(shape, dtype_of(x))
    order = (*[a for a in range(len(shape)) if a not in axis], *axis)
    moved: Shape = tuple([shape[a] for a in order])
    lead = moved[: len(shape) - len(axis)]
    rows = reshape(transpose(x, axes=order), shape=(*lead, prod(moved[len(lead) :])))
    # Where no derivative of the factor is wanted, NumPy's running products give it quicker.
    products = _running_others(rows) if type(rows) in RAW else _pairwise_others(rows)
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    return transpose(reshape(products, shape=moved), axes=inverse)


def _running_others(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Along the last axis: the product of what is before, times that of what is after."""
    products = np.ones(x.shape, x.dtype)
    np.multiply.accumulate(x[..., :-1], -1, out=products[..., 1:])
    products[..., :-1] *= np.multiply.accumulate(x[..., :0:-1], -1)[..., ::-1]
    return products


def _pairwise_others(x: Value) -> Value:
    """The same by multiplications of pairs, and of pairs of pairs, which differentiate again."""
    shape = shape_of(x)
    lead, size = shape[:-1], shape[-1]
    if size < 2:
        return np.ones(shape, dtype_of(x))
    paired = size // 2 * 2
    even = view(x, key=Key((..., slice(0, paired, 2))))
    odd = view(x, key=Key((..., slice(1, paired, 2))))
    rest = view(x, key=Key((..., slice(paired, None))))
    last = len(lead)
    above = _pairwise_others(concatenate(even * odd, rest, axis=last))
    pairs = view(above, key=Key((..., slice(None, paired // 2))))
    mixed = reshape(stack(pairs * odd, pairs * even, axis=last + 1), shape=(*lead, paired))
    return concatenate(mixed, view(above, key=Key((..., slice(paired // 2, None)))), axis=last)


def _prod_samples() -> Iterator[Sample]:
    yield from numbers()()
    for row in ([2.0, 0, 3], [0.0, 0, 3], [0.0, 0, 0], [1.0, 2, 3, 4, 5, 6, 7], [3.0], [2.0, 5]):
        yield Sample((np.array([row, row[::-1]]),), {"axis": (1,), "keepdims": False})


reduce_prod: Primitive = reduction(
    "prod",
    lambda x, axis, keepdims: _multiply(x, axis, None, None, keepdims),
    factor=_others,
    samples=_prod_samples,
    source=reduce_text("multiply"),
)

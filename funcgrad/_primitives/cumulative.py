"""Cumulative sums and products, and the product of all elements.

Their derivatives are right for zero factors, at every order: the product of the *other* elements is
computed by multiplication, never by division. The tangents of cumulative products are a linear
recurrence, which is a separate primitive and its own derivative, so all orders take linear time.

>>> cumulative_sum(np.array([1.0, 2.0, 3.0]), axis=0, reverse=False)
array([1., 3., 6.])
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import DISCRETE, Linear, Linearized, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.folds import GREATEST, PRODUCT, SUM
from funcgrad._core.structure.structures import OWNS, Opaque, Scan, mixing
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import absolute
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.logic import equal, isfinite
from funcgrad._primitives.recurrence import (
    all_finite,
    arrays_and_axes,
    batch_along_axis,
    conjugate,
    recurrence,
    shifted,
)
from funcgrad._primitives.reduction import (
    count_nonzero,
    reduce_all,
    reduce_sum,
    reduce_text,
    reduction,
)
from funcgrad._primitives.reduction_samples import numbers
from funcgrad._primitives.rounding import binary_exponent, ldexp, rint
from funcgrad._primitives.selection import maximum, minimum, where
from funcgrad._primitives.structural import cast, inverse_axes, move_axis, reshape, transpose, view
from funcgrad._primitives.transcendental import log2

_multiply: Final[Any] = np.multiply.reduce

_INT32: Final = np.dtype(np.int32)
_INT64: Final = np.dtype(np.int64)
_FLOAT64: Final = np.dtype(np.float64)
_FAR: Final = 5000
"""An exponent that no product of two elements has."""
_AWAY: Final = 1 << 40
"""An exponent that no product of an array has."""


# Cumulative sums.


def _cumulative_sum(x: Raw, axis: int, reverse: bool) -> Raw:
    if not reverse:
        return np.add.accumulate(x, axis)
    return np.flip(np.add.accumulate(np.flip(x, axis), axis), axis)


def _sum_samples() -> Iterator[Sample]:
    for x, axis in arrays_and_axes():
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
    batch_along_axis,
    _sum_samples,
    structure=Scan(SUM),
    traits=OWNS,
)


def _running_max(x: Raw, axis: int, reverse: bool) -> Raw:
    turned = np.flip(x, axis) if reverse else x
    out = np.maximum.accumulate(turned, axis)
    return np.flip(out, axis) if reverse else out


def _integer_samples() -> Iterator[Sample]:
    for sample in _sum_samples():
        x = np.asarray(sample.args[0].real * 9, np.int64)
        yield Sample((x,), sample.params, smooth=False)


running_max: Primitive = Primitive(
    "running_max",
    _running_max,
    lambda x, axis, reverse: x,
    DISCRETE,
    batch_along_axis,
    _integer_samples,
    structure=Scan(GREATEST),
    traits=OWNS,
)
"""The greatest integer up to each place."""


# Cumulative products.


def _push_product(tangents: tuple[Value, ...], out: Value, x: Value, axis: int) -> Value:
    """The tangent of cumulative products, from y[i] = x[i] y[i - 1]."""
    changes = tangents[0] * shifted(out, axis, 1.0, backward=False)
    return recurrence(x, changes, axis=axis, reverse=False)


def _factors(ct: Value, x: Value, axis: int) -> tuple[Value, Value]:
    """For each element, the sum over later elements, and the product of earlier ones."""
    behind = shifted(conjugate(x), axis, 0.0, backward=True)
    later = recurrence(behind, ct, axis=axis, reverse=True)
    return later, conjugate(shifted(cumulative_prod(x, axis=axis), axis, 1.0, backward=False))


def _in_precision_of(ct: Value, x: Value) -> Value:
    """Factors in the dtype of products with a cotangent."""
    dtype = np.result_type(dtype_of(ct), dtype_of(x))
    return x if dtype_of(x) == dtype else cast(x, dtype=dtype)


def _pulled(ct: Raw, x: Raw, axis: int) -> Raw:
    """The cotangent of factors: by division if that is accurate, else factor by factor."""
    x = _in_precision_of(ct, x)
    if x.dtype.kind == "f" and x.dtype == ct.dtype and x.size:
        quick = _divided(ct, x, axis)
        if quick is not None:
            return quick
    later, before = _factors(ct, x, axis)
    out = later * before
    return _pulled_in_range(out, ct, x, axis) if out.dtype.kind == "f" else out


def _pulled_body(ct: Value, x: Value, axis: int) -> Value:
    if 0 in shape_of(x):
        return NotImplemented
    x = _in_precision_of(ct, x)
    later, before = _factors(ct, x, axis)
    out = later * before
    return pulled_in_range(out, ct, x, axis=axis) if dtype_of(out).kind == "f" else out


def _pulled_in_range(out: Raw, ct: Raw, x: Raw, axis: int) -> Raw:
    """The products, again with unbounded exponents if some are not finite."""
    if all_finite(out) or not (all_finite(x) and all_finite(ct)):
        return np.array(out)
    return _scaled_products(ct, x, axis)


def _scaled_products(ct: Value, x: Value, axis: int) -> Value:
    """The later sums times the earlier products, all scaled by powers of two to be near 1.

    The product of the elements up to k, with 1 for zeros, is about 2^exponents[k]; a sum is scaled
    by its greatest term before the next zero.
    """
    dtype = np.result_type(dtype_of(ct), dtype_of(x))
    ct, x = [cast(array, dtype=_FLOAT64) for array in (ct, x)]
    zero, empty = equal(x, 0), equal(ct, 0)
    logarithms = log2(absolute(where(zero, 1.0, x)))
    exponents = cast(rint(cumulative_sum(logarithms, axis=axis, reverse=False)), dtype=_INT64)
    earlier = shifted(exponents, axis, 0, backward=False)
    factors = _scaled(x, earlier - exponents)
    before = shifted(cumulative_prod(factors, axis=axis), axis, 1.0, backward=False)
    zeros = _AWAY * cumulative_sum(cast(zero, dtype=_INT64), axis=axis, reverse=False)
    sizes = where(empty, -_AWAY // 2, exponents + cast(binary_exponent(ct), dtype=_INT64)) - zeros
    scales = running_max(sizes, axis=axis, reverse=True) + zeros
    behind = _scaled(
        shifted(factors, axis, 0.0, backward=True), shifted(scales, axis, 0, backward=True) - scales
    )
    later = recurrence(behind, _scaled(ct, exponents - scales), axis=axis, reverse=True)
    return cast(_scaled(before * later, earlier - exponents + scales), dtype=dtype)


def _scaled(x: Value, exponents: Value) -> Value:
    return ldexp(x, cast(minimum(maximum(exponents, -_FAR), _FAR), dtype=_INT32))


def _in_range_body(out: Value, ct: Value, x: Value, axis: int) -> Value:
    def lanes(x: Value) -> Value:
        return reduce_all(isfinite(x), axis=(axis,), keepdims=True)

    again = ~lanes(out) & lanes(x) & lanes(ct)
    return where(again, _scaled_products(ct, x, axis), out)


def _divided(ct: Raw, x: Raw, axis: int) -> Raw | None:
    """The sum of all later cumulative products over the element, in two passes.

    This is as accurate as the recurrence, unless factors are far from 1, or products underflow and
    would grow again, or overflow: then the result is None.
    """
    limits = np.finfo(x.dtype)
    span = 2.0 ** (limits.maxexp // 50)
    sizes = x if np.minimum.reduce(x, None) > 0 else np.abs(x)
    greatest, least = np.maximum.reduce(sizes, None), np.minimum.reduce(sizes, None)
    if not 1 / span <= least <= greatest <= span:
        return None
    products = np.multiply.accumulate(x, axis)
    if greatest > 1:
        sizes = np.abs(products) if np.minimum.reduce(products, None) < 0 else products
        if np.minimum.reduce(sizes, None) < limits.tiny * span:
            return None
    products *= ct
    leading = (slice(None),) * axis
    backwards = (*leading, slice(None, None, -1))
    sums = np.add.accumulate(products[backwards], axis)[backwards]
    if not np.all(np.isfinite(sums[(*leading, slice(1))])):
        return None
    sums /= x
    return sums


def _push_pulled(tangents: tuple[Value, ...], out: Value, ct: Value, x: Value, axis: int) -> Value:
    if tangents[1] is None:
        return pulled_products(tangents[0], x, axis=axis)
    x = _in_precision_of(ct, x)
    later, before = _factors(ct, x, axis)
    dx, products = _in_precision_of(ct, tangents[1]), cumulative_prod(x, axis=axis)
    behind = shifted(conjugate(x), axis, 0.0, backward=True)
    change = shifted(conjugate(dx), axis, 0.0, backward=True)
    change = change * shifted(later, axis, 0.0, backward=True)
    change = recurrence(
        behind, change if tangents[0] is None else tangents[0] + change, axis=axis, reverse=True
    )
    pushed = _push_product((dx,), products, x, axis)
    return change * before + later * conjugate(shifted(pushed, axis, 0.0, backward=False))


def _pull_pulled(v: Value, out: Value, ct: Value, x: Value, axis: int) -> tuple[Value, Value]:
    x = _in_precision_of(ct, x)
    later, before = _factors(ct, x, axis)
    for_ct = recurrence(x, v * conjugate(before), axis=axis, reverse=False)
    by_later = conjugate(for_ct) * shifted(later, axis, 0.0, backward=True)
    by_before = shifted(conjugate(v) * later, axis, 0.0, backward=True)
    for_x = shifted(by_later, axis, 0.0, backward=False)
    return for_ct, for_x + pulled_products(by_before, x, axis=axis)


def _pulled_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(41)
    for x, axis in arrays_and_axes():
        if x.dtype.kind in "fc":
            ct = rng.uniform(-2, 2, x.shape).astype(x.dtype)
            yield Sample((ct, x), {"axis": axis})
            yield Sample((ct, x / 9), {"axis": axis})


def _in_range_samples() -> Iterator[Sample]:
    for sample in _pulled_samples():
        (ct, x), axis = sample.args, sample.params["axis"]
        if x.dtype.kind == "f":
            later, before = _factors(ct, x, axis)
            yield Sample((later * before, ct, x), sample.params)


pulled_in_range: Primitive = Primitive(
    "pulled_in_range",
    _pulled_in_range,
    lambda out, ct, x, axis: out,
    Linear((lambda v, out, ct, x, axis: v, None, None)),
    batch_along_axis,
    _in_range_samples,
    structure=Opaque(keeps_finite=True),
    traits=OWNS,
    body=_in_range_body,
)
"""Products that ``pulled_products`` is made of, computed again if some overflow."""

pulled_products: Primitive = Primitive(
    "pulled_products",
    _pulled,
    lambda ct, x, axis: Spec(x.shape, np.result_type(ct.dtype, x.dtype)),
    Linearized(_push_pulled, _pull_pulled, linear_in=(0,)),
    batch_along_axis,
    _pulled_samples,
    structure=Opaque(letters=lambda ct, x, axis: (mixing(x, (axis,))[0], *mixing(x, (axis,)))),
    body=_pulled_body,
)
"""The cotangent of the factors of cumulative products: the transpose of the pushforward."""


def _product_samples() -> Iterator[Sample]:
    for x, axis in arrays_and_axes():
        yield Sample((x,), {"axis": axis})
    yield Sample((np.array([np.inf, 0.0, np.nan]),), {"axis": 0}, smooth=False)


cumulative_prod: Primitive = Primitive(
    "cumprod",
    lambda x, axis: np.multiply.accumulate(x, axis),
    lambda x, axis: Spec(x.shape, np.multiply.accumulate(np.zeros(1, x.dtype)).dtype),
    Linearized(_push_product, lambda ct, out, x, axis: (pulled_products(ct, x, axis=axis),)),
    batch_along_axis,
    _product_samples,
    lambda x, axis: f"np.multiply.accumulate({x}, {axis})",
    structure=Scan(PRODUCT),
    traits=OWNS,
)


# The product of all elements.

_FEW: Final = 16


def _products_of_others(x: Raw) -> Raw:
    """For each element the product of all others, by pairs, and pairs of pairs, of elements that
    are not zero; 0 where another one is."""
    out = np.empty_like(x)
    zero = x == 0
    if not np.count_nonzero(zero):
        _multiply_pairs(x, out)
        return out
    _multiply_pairs(np.where(zero, x.dtype.type(1), x), out)
    others = np.add.reduce(zero, 0) - zero
    nothing = np.add.reduce(x * 0, 0)  # NaN beside infinities
    return np.where(others > 0, nothing, out)


def _multiply_pairs(x: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """The first half of the elements is paired with the second; an odd one joins the first pair.

    For few elements: (product of those before) × (product of those after). All halves of the result
    are written in place: fresh memory would take longer than the products.
    """
    if len(x) <= _FEW:
        out[:1] = 1
        np.multiply.accumulate(x[:-1], 0, out=out[1:])
        out[:-1] *= np.multiply.accumulate(x[:0:-1], 0)[::-1]
        return
    half = len(x) // 2
    first, second, odd = x[:half], x[half : 2 * half], x[2 * half :]
    pairs, others = first * second, out[:half]
    pairs[: len(odd)] *= odd
    _multiply_pairs(pairs, others)
    out[2 * half :] = others[: len(odd)] * first[: len(odd)] * second[: len(odd)]
    others[: len(odd)] *= odd
    np.multiply(others, first, out[half : 2 * half])
    others *= second


_MODERATE: Final = 16
"""Exponents up to which elements are multiplied unscaled: their long products usually stay within
bounds, while products of fractions between 1/2 and 1 would underflow."""


def _push_others(tangents: tuple[Value, ...], out: Value, x: Value) -> Value:
    """Push a tangent through the products of all other elements.

    Huge and tiny elements are scaled by powers of two first, so that products do not overflow and
    then meet a factor 0.
    """
    if dtype_of(x).kind == "c":
        return _others_of((x, tangents[0]))[1]
    exponent = binary_exponent(x)
    exponent = exponent * (absolute(exponent) > _MODERATE)
    inner = ldexp(x, -exponent), ldexp(tangents[0], -exponent)
    outside = reduce_sum(exponent, axis=(0,), keepdims=True) - exponent
    return ldexp(_others_of(inner)[1], outside)


def _others_of(x: tuple[Value, ...]) -> tuple[Value, ...]:
    """The products of the others, in primitives, with tangents if there are any."""
    shape = shape_of(x[0])
    if shape[0] < 2:
        return np.ones(shape, dtype_of(x[0])), *[tangent * 0 for tangent in x[1:]]
    half = shape[0] // 2
    first, second, alone = [
        _rows(x, *ends) for ends in ((0, half), (half, 2 * half), (2 * half, None))
    ]
    others = _others_of(_joined(_times(first, second), alone))
    pairs, unpaired = _rows(others, 0, half), _rows(others, half, None)
    return _joined(_times(pairs, second), _times(pairs, first), unpaired)


def _rows(x: tuple[Value, ...], start: int, stop: int | None) -> tuple[Value, ...]:
    return tuple([view(array, key=Key((slice(start, stop),))) for array in x])


def _times(x: tuple[Value, ...], y: tuple[Value, ...]) -> tuple[Value, ...]:
    (u, *du), (v, *dv) = x, y
    return u * v, *[left * v + u * right for left, right in zip(du, dv, strict=True)]


def _joined(*ends: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple([concatenate(*arrays, axis=0) for arrays in zip(*ends, strict=True)])


def _others_body(x: Value) -> Value:
    zero = equal(x, 0)
    (products,) = _others_of((where(zero, dtype_of(x).type(1), x),))
    others = count_nonzero(zero, axis=(0,), keepdims=True) - zero
    nothing = reduce_sum(x * 0, axis=(0,), keepdims=True)  # NaN beside infinities
    return where(others > 0, nothing, products)


def _others_samples() -> Iterator[Sample]:
    for x, axis in arrays_and_axes():
        if x.dtype.kind in "fc":
            yield Sample((np.moveaxis(x, axis, 0),))
    yield Sample((np.array([0.0, 3.0, 0.0, 2.0, 1.5]),))


product_of_others: Primitive = Primitive(
    "product_of_others",
    _products_of_others,
    lambda x: x,
    Linearized(_push_others),
    lambda primitive, size, args, batched, params: move_axis(
        primitive(move_axis(args[0], 0, 1)), 1, 0
    ),
    _others_samples,
    structure=Opaque(letters=lambda x: mixing(x, (0,))),
    body=_others_body,
)
"""For each element the product of all others along the first axis."""


def _others(y: Value, x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    """For each element the product of its other factors."""
    shape = shape_of(x)
    if not axis:
        return np.ones(shape, dtype_of(x))
    order = (*axis, *[a for a in range(len(shape)) if a not in axis])
    moved: Shape = tuple([shape[a] for a in order])
    rows = (prod(moved[: len(axis)]), *moved[len(axis) :])
    if order == tuple(range(len(shape))):  # as for axis=None: the order is unchanged
        return reshape(product_of_others(reshape(x, shape=rows)), shape=shape)
    products = product_of_others(reshape(transpose(x, axes=order), shape=rows))
    return transpose(reshape(products, shape=moved), axes=inverse_axes(order))


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
    fold=PRODUCT,
    traits=OWNS,
)

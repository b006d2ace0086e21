"""Reductions.

Every reduction has the parameters ``axis``, a tuple of non-negative axes, and ``keepdims``. Its
differential is a sum over these axes of factor times tangent.

>>> reduce_sum(np.ones((2, 3)), axis=(1,), keepdims=False)
array([3., 3.])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import (
    DISCRETE,
    SAME,
    Factor,
    Kinks,
    OperandText,
    Partials,
    Primitive,
    Sample,
    Selection,
)
from funcgrad._core.specs import (
    Shape,
    Spec,
    check_axes,
    dtype_of,
    is_inexact,
    reduced_shape,
    shape_of,
)
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, Reduction, Trait
from funcgrad._core.trace import RAW, Raw, Value
from funcgrad._primitives.complexes import conj, real
from funcgrad._primitives.elementwise import log
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.kinks import distance_to_cut, is_complex
from funcgrad._primitives.logic import isfinite, isinf, logical_or
from funcgrad._primitives.reduction_samples import numbers
from funcgrad._primitives.rows import extremum, many_rows, total
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape, unfollowed, view
from funcgrad._primitives.transcendental import exp, sqrt

Axes = tuple[int, ...]


def reduction(
    name: str,
    evaluate: Callable[..., Any],
    *,
    factor: Factor,
    selects: bool = False,
    samples: Callable[[], Iterable[Sample]] = tuple,
    source: Callable[..., str | None] | None = None,
    fold: Fold | None = None,
    traits: Trait = Trait.NONE,
    body: Callable[..., Value] | None = None,
    kinks: Kinks | None = None,
) -> Primitive:
    """Declare a reduction with the parameters ``axis`` (a tuple, not negative) and ``keepdims``.

    Parameters
    ----------
    evaluate : callable
        ``(x, axis, keepdims, **params) -> raw value``.
    factor : callable
        ``(output, x, axis, keepdims, **params) -> factor``: the output's tangent is the sum over
        ``axis`` of factor times tangent. The output is given with the reduced axes kept. None for a
        discrete result.
    selects : bool
        Whether the factor is a mask or a ``Selection``.
    name, samples, source, fold, traits, body, kinks
        See ``Primitive``, and ``Reduction``.

    Returns
    -------
    Primitive

    >>> import funcgrad as fg
    >>> total = reduction("total", np.sum, factor=lambda *_, **__: fg.extend.SAME)
    >>> fg.extend.apply(total, [1.0, 2.0], axis=(0,), keepdims=False)
    Tensor(3.0)
    """

    def result(x: Spec, axis: Axes, keepdims: bool, **params: Hashable) -> Spec:
        example = np.ones((1,) * len(x.shape), x.dtype)
        with np.errstate(all="ignore"):  # one element has no variance with a correction
            value = evaluate(example, axis=axis, keepdims=keepdims, **params)
        return Spec(reduced_shape(x.shape, axis, keepdims), dtype_of(value))

    partials = Partials((factor,), selects=selects, reduces=True)
    return Primitive(
        name,
        evaluate,
        result,
        DISCRETE if factor is None else partials,
        batch_reduction,
        samples,
        source,
        structure=Reduction(fold),
        traits=traits,
        body=body,
        kinks=kinks,
    )


_owning: Final = partial(reduction, traits=OWNS)


def batch_reduction(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Shift axes by one: the batch is axis 0."""
    check_axes(primitive.name, params["axis"], len(shape_of(args[0])) - 1)
    axis = tuple([a + 1 for a in params["axis"]])
    return primitive(args[0], **{**params, "axis": axis})


# Typed as Any: NumPy's stubs know these parameters by name only, and by name they cost 0.1 µs more.
_add: Final[Any] = np.add.reduce
_maximum: Final[Any] = np.maximum.reduce
_minimum: Final[Any] = np.minimum.reduce
_and: Final[Any] = np.logical_and.reduce
_or: Final[Any] = np.logical_or.reduce


def reduce_text(ufunc: str) -> Callable[..., str]:
    """The text of a reduction by a ufunc."""

    def source(x: OperandText, axis: Axes, keepdims: bool) -> str:
        arguments = [str(x), str(axis[0] if len(axis) == 1 else axis)]
        arguments += ["None", "None", "True"] * keepdims
        return f"np.{ufunc}.reduce({', '.join(arguments)})"

    return source


_sum_text = reduce_text("add")


# Sums and means.


def _sum_source(x: OperandText, axis: Axes, keepdims: bool) -> str:
    shape = x.spec.shape
    if many_rows(shape, x.spec.dtype.char, axis):
        return f"{x} @ np.ones({(shape[-1], 1) if keepdims else shape[-1]}, {x.dtype})"
    return _sum_text(x, axis, keepdims)


reduce_sum: Primitive = _owning(
    "sum", total, factor=SAME, samples=numbers(), source=_sum_source, fold=folds.SUM
)


def _count(shape: Shape, axis: Axes) -> int:
    """The number of elements that are reduced to one."""
    return prod([shape[a] for a in axis])


def _working_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]] | None:
    """The dtype in which NumPy computes a mean; None for the array's own dtype."""
    if dtype.kind in "fc":
        return np.float32 if dtype.char == "e" else None
    return np.float64


def _wide(x: Value) -> Value:
    dtype = _working_dtype(dtype_of(x))
    return x if dtype is None else cast(x, dtype=np.dtype(dtype))


def _in(x: Value, dtype: np.dtype[Any]) -> Value:
    return x if dtype_of(x) == dtype else cast(x, dtype=dtype)


def _mean_body(x: Value, axis: Axes, keepdims: bool) -> Value:
    mean = reduce_sum(_wide(x), axis=axis, keepdims=keepdims) / _count(shape_of(x), axis)
    return _in(mean, dtype_of(x)) if is_inexact(dtype_of(x)) else mean


def _mean(x: Raw, axis: Axes, keepdims: bool) -> Raw:
    dtype = dtype_of(x)
    mean = _add(x, axis, _working_dtype(dtype), None, keepdims) / _count(shape_of(x), axis)
    return mean.astype(dtype) if dtype.char == "e" else mean


reduce_mean: Primitive = _owning(
    "mean",
    _mean,
    # An empty reduction has no gradient, so any factor will do.
    factor=lambda _, _x, axis, keepdims: 1 / (_count(shape_of(_x), axis) or 1),
    samples=numbers(empty=False),
    body=_mean_body,
)


def _freedom(shape: Shape, axis: Axes, correction: float) -> np.float64:
    """The divisor of a sum of squares, as a NumPy scalar, by which division by 0 is allowed."""
    return np.float64(max(_count(shape, axis) - correction, 0))


def _first(axis: Axes, rank: int) -> tuple[slice, ...]:
    return tuple([slice(1) if i in axis else slice(None) for i in range(rank)])


def _var(x: Raw, axis: Axes, keepdims: bool, correction: float) -> Raw:
    x = np.asarray(x)
    dtype = _working_dtype(x.dtype)
    wide = x if dtype is None else x.astype(dtype)
    # Subtract the first element, so that the variance of equal elements is exactly 0: a rounding
    # error would have a derivative.
    apart = wide - wide[_first(axis, x.ndim)]
    apart = apart - _add(apart, axis, None, None, True) / _count(x.shape, axis)
    squares = apart.real**2 + apart.imag**2 if apart.dtype.kind == "c" else apart * apart
    total = _add(squares, axis, None, None, keepdims)
    freedom = _freedom(x.shape, axis, correction)
    return (total / freedom).astype(x.real.dtype if x.dtype.kind in "fc" else np.float64)


def _deviations(x: Value, axis: Axes) -> Value:
    """The conjugate distances from the mean: factors are conjugated on the way back."""
    # Subtract the first element: rounding of a mean may exceed differences of nearly equal
    # elements.
    apart = x - unfollowed(view(x, key=Key(_first(axis, len(shape_of(x))))))
    apart = apart - reduce_mean(apart, axis=axis, keepdims=True)
    return conj(apart) if dtype_of(x).kind == "c" else apart


def _var_body(x: Value, axis: Axes, keepdims: bool, correction: float) -> Value:
    apart = _deviations(_wide(x), axis)
    total = reduce_sum(real(apart * conj(apart)), axis=axis, keepdims=keepdims)
    var = total / float(_freedom(shape_of(x), axis, correction))
    return _in(var, np.dtype(dtype_of(x).char.lower())) if is_inexact(dtype_of(x)) else var


def _var_factor(y: Value, x: Value, axis: Axes, keepdims: bool, correction: float) -> Value:
    # A Python number, which does not widen float32.
    return _deviations(x, axis) * float(2 / _freedom(shape_of(x), axis, correction))


def _std_factor(y: Value, x: Value, axis: Axes, keepdims: bool, correction: float) -> Value:
    """A kink if all elements are equal: the subgradient of least norm and its derivative are 0."""
    inverse = float(1 / _freedom(shape_of(x), axis, correction))
    return _deviations(x, axis) * (inverse / where(y == 0, np.inf, y))


def _std_samples() -> Iterator[Sample]:
    for sample in numbers(empty=False, ties=True, correction=0.5)():
        single = sample.params["axis"] == ()  # deviates by nothing: a kink
        yield Sample(sample.args, sample.params, sample.smooth and not single)


_DISPERSED: Final = numbers(empty=False, correction=0)
reduce_var: Primitive = _owning("var", _var, factor=_var_factor, samples=_DISPERSED, body=_var_body)
reduce_std: Primitive = _owning(
    "std",
    lambda x, axis, keepdims, correction: np.sqrt(_var(x, axis, keepdims, correction)),
    factor=_std_factor,
    samples=_std_samples,
    body=lambda x, **params: sqrt(reduce_var(x, **params)),
    kinks=Kinks(lambda x, **params: reduce_std(x, **params)),
)


# Extrema.


def _gap(x: Value, axis: Axes, sign: int) -> Value:
    """The distance from the greatest element (with the sign -1 the least) to the next one."""
    x = sign * (real(x) if is_complex(x) else x)
    top = reduce_max(x, axis=axis, keepdims=True)
    best = x == top
    second = reduce_max(where(best, -np.inf, x), axis=axis, keepdims=True)
    count = reduce_sum(best, axis=axis, keepdims=True)
    return where(count > 1, top - top, top - second)


_GAP_OF_GREATEST: Final = Kinks(lambda x, axis, keepdims: _gap(x, axis, 1))
_GAP_OF_LEAST: Final = Kinks(lambda x, axis, keepdims: _gap(x, axis, -1))


def _greatest(y: Value, x: Value, axis: Axes, keepdims: bool) -> Value:
    """Ties share the cotangent equally: the subgradient of least norm. NaN counts as extreme."""
    best = x == y
    if type(best) in RAW and np.count_nonzero(best) == np.size(y) == np.count_nonzero(y == y):
        return best  # no ties, no NaN
    best = logical_or(best, x != x)
    count = reduce_sum(best, axis=axis, keepdims=True)
    if type(count) in RAW and np.all(count == 1):
        return best
    # Shares are rounded once, on the smaller array: in float16 a count above 65504 is infinite.
    return Selection(best, _in(1.0 / count, dtype_of(x)))


reduce_max: Primitive = _owning(
    "max",
    lambda x, axis, keepdims: extremum(_maximum, x, axis, keepdims),
    factor=_greatest,
    selects=True,
    samples=numbers(empty=False, imaginary=False, ties=True),
    fold=folds.GREATEST,
    kinks=_GAP_OF_GREATEST,
)
reduce_min: Primitive = _owning(
    "min",
    lambda x, axis, keepdims: extremum(_minimum, x, axis, keepdims),
    factor=_greatest,
    selects=True,
    samples=numbers(empty=False, imaginary=False, ties=True),
    fold=folds.LEAST,
    kinks=_GAP_OF_LEAST,
)


def _logsumexp(x: Raw, axis: Axes, keepdims: bool) -> Raw:
    x = np.asarray(x)
    if x.dtype.kind not in "fc":
        x = x.astype(np.float64)
    top = _maximum(x.real, axis, None, None, True, -np.inf)
    shift = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):  # the logarithm of no summand, or of zeros, is -inf
        total = np.log(_add(np.exp(x - shift), axis, None, None, keepdims))
    return total + shift.reshape(total.shape)


def _logsumexp_body(x: Value, axis: Axes, keepdims: bool) -> Value:
    x = x if is_inexact(dtype_of(x)) else cast(x, dtype=np.dtype(np.float64))
    # An empty array has no maximum, but the sum 0.
    greatest = reduce_max if _count(shape_of(x), axis) else reduce_sum
    top = greatest(real(x), axis=axis, keepdims=True)
    shift = where(isfinite(top), top, 0)
    total = log(reduce_sum(exp(x - shift), axis=axis, keepdims=keepdims))
    return total + reshape(shift, shape=shape_of(total))


def _softmax(y: Value, x: Value, axis: Axes, keepdims: bool) -> Value:
    """The share of each summand; the limits where summands are infinite or all of them zero."""
    if type(y) in RAW and np.all(np.abs(y) < 16):
        return exp(x - y)
    share = exp(x - where(isinf(y), np.inf, y))  # one common error if y is large
    if dtype_of(x).kind != "c":
        share = where(x == np.inf, 1.0, share)
    total = reduce_sum(share, axis=axis, keepdims=True)
    return share / where(total == 0, 1.0, total)


def _cut_of_logsumexp(x: Value, axis: Axes, keepdims: bool) -> Value:
    """Distance of a complex sum from the cut of its logarithm."""
    if not is_complex(x):
        return ()
    return distance_to_cut(exp(logsumexp(x, axis=axis, keepdims=keepdims).imag * 1j))


def _logsumexp_samples() -> Iterator[Sample]:
    yield from numbers(empty=False)()
    for x in (np.zeros((2, 0)), np.full((1, 2), -np.inf), np.array([[1.0, np.inf, np.inf]])):
        yield Sample((x,), {"axis": (1,), "keepdims": False}, smooth=False)


logsumexp: Primitive = _owning(
    "logsumexp",
    _logsumexp,
    factor=_softmax,
    samples=_logsumexp_samples,
    body=_logsumexp_body,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(_cut_of_logsumexp),
)
"""Computes ``log(sum(exp(x)))`` without overflow. If all summands are zero (``x`` is -inf), the
derivative is zero; infinite elements share it."""


# Truth, counts and positions.

reduce_any: Primitive = _owning(
    "any",
    lambda x, axis, keepdims: _or(x, axis, np.bool_, None, keepdims),
    factor=None,
    samples=numbers(),
    source=reduce_text("logical_or"),
    fold=folds.ANY,
    kinks=Kinks(lambda x, **_: x),
)
reduce_all: Primitive = _owning(
    "all",
    lambda x, axis, keepdims: _and(x, axis, np.bool_, None, keepdims),
    factor=None,
    samples=numbers(),
    source=reduce_text("logical_and"),
    fold=folds.ALL,
    kinks=Kinks(lambda x, **_: x),
)
count_nonzero: Primitive = _owning(
    "count_nonzero",
    lambda x, axis, keepdims: _add(np.not_equal(x, 0), axis, np.intp, None, keepdims),
    factor=None,
    samples=numbers(),
    fold=folds.COUNT,
    kinks=Kinks(lambda x, **_: x),
)


def _position(name: str, find: Callable[..., Any], fold: Fold, kinks: Kinks) -> Primitive:
    """A reduction over one axis to the index of an extremum."""

    def samples() -> Iterator[Sample]:
        for sample in numbers(empty=False)():
            if len(sample.params["axis"]) == 1:
                yield sample

    return _owning(
        name,
        lambda x, axis, keepdims: find(x, axis[0], keepdims=keepdims),
        factor=None,
        samples=samples,
        source=lambda x, axis, keepdims: (
            f"{x}.{name}({axis[0]}{', keepdims=True' if keepdims else ''})"
        ),
        fold=fold,
        kinks=kinks,
    )


position_of_max: Primitive = _position("argmax", np.argmax, folds.FIRST_GREATEST, _GAP_OF_GREATEST)
position_of_min: Primitive = _position("argmin", np.argmin, folds.FIRST_LEAST, _GAP_OF_LEAST)

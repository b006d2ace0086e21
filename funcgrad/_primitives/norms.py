"""Lengths of vectors, and their directions, without intermediate overflow.

The derivative of a length is the direction; at the origin it is the least subgradient, 0. The
tangent of a direction is the part of the vector's tangent across the direction, over the length.

>>> length(np.array([3e200, 4e200]), axis=(0,), keepdims=False)
np.float64(5e+200)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.floating_errors import ignoring
from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, reduced_shape, shape_of
from funcgrad._core.structure.structures import OWNS, Opaque, mixing
from funcgrad._core.trace import Value
from funcgrad._primitives.complexes import imag, real
from funcgrad._primitives.elementwise import absolute
from funcgrad._primitives.matrices import Array, batch_matrices, conjugate, real_dtype, real_part
from funcgrad._primitives.reduction import batch_reduction, reduce_sum
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape
from funcgrad._primitives.transcendental import sqrt
from funcgrad.errors import DtypeError

Axes = tuple[int, ...]


def _scaled(x: Array, axis: Axes) -> tuple[Any, Any]:
    """Values over a power of two near their maximum, which is the second result."""
    if x.dtype.kind == "c":  # absolute values may overflow
        sizes = np.maximum(np.abs(x.real), np.abs(x.imag))
    else:
        sizes = np.abs(x)
    size = np.max(sizes, axis, keepdims=True, initial=0)
    exponent = np.where(np.isfinite(size) & (size > 0), np.frexp(size)[1], 0)
    half = np.ldexp(np.ones_like(size), -(exponent // 2))  # twice: 2 ** 1074 overflows
    other_half = np.ldexp(np.ones_like(size), -(exponent - exponent // 2))
    scaled = np.empty_like(x)
    parts = [(x.real, scaled.real), (x.imag, scaled.imag)] if x.dtype.kind == "c" else [(x, scaled)]
    for source, target in parts:  # an infinity times a complex 1 would have a part that is NaN
        np.multiply(source * half, other_half, out=target)
    return scaled, exponent


def _squares(x: Array, axis: Axes, keepdims: bool) -> Any:
    lead = x.ndim - len(axis)
    if not lead:
        line = x.ravel("K")
        product = np.vdot(line, line).real if x.dtype.kind == "c" else line.dot(line)
        return product.reshape((1,) * x.ndim) if keepdims else product
    if axis == tuple(range(lead, x.ndim)):  # scalar products, which take one pass
        rows = x if lead == x.ndim - 1 else x.reshape(*x.shape[:lead], prod(x.shape[lead:]))
        products = np.vecdot(rows, rows).real
        return products.reshape(reduced_shape(x.shape, axis, True)) if keepdims else products
    squares = _parts_squared(x) if x.dtype.kind == "c" else x * x
    return np.sum(squares, axis, keepdims=keepdims)


def _parts_squared(x: Array) -> Any:
    return x.real**2 + x.imag**2


def _root_of_scaled(x: Array, axis: Axes) -> Any:
    """The lengths of scaled vectors. Products of complex infinities have parts that are NaN."""
    if x.dtype.kind == "c":
        return np.sqrt(np.sum(_parts_squared(x), axis, keepdims=True))
    return np.sqrt(_squares(x, axis, True))


_TINY: Final = MappingProxyType({char: np.finfo(char).tiny.item() for char in "efdgFDG"})
_LEAST: Final = MappingProxyType(
    {char: (np.finfo(char).tiny / np.finfo(char).eps).item() for char in "efdg"}
)
"""By dtype: the size below which values, or sums of squares, lose digits."""


def _all_between(x: Array, least: float, absolute: bool = False) -> bool:
    """Whether all values, or all absolute values, are finite and greater than a bound."""
    if x.size == 1:  # a tenth of the time
        number = abs(float(x)) if x.ndim == 0 else abs(x.item())
        return bool(least < number < np.inf)
    sizes = np.abs(x) if absolute else x
    count = np.count_nonzero  # which takes a third of the time of a reduction
    return bool(count(sizes > least) == x.size and count(sizes < np.inf) == x.size)


def _require_floating(operation: str, *arrays: Array | Spec) -> None:
    for x in arrays:
        if x.dtype.char not in _TINY:
            raise DtypeError(
                f"{operation}: takes floats or complex numbers, not {x.dtype}: squares of integers"
                " may overflow. Convert them first, as in x.astype(float)."
            )


def _length_spec(x: Spec, axis: Axes, keepdims: bool) -> Spec:
    _require_floating("length", x)
    return Spec(reduced_shape(x.shape, axis, keepdims), real_dtype(x.dtype))


def _directed_spec(c: Spec, x: Spec, axis: Axes) -> Spec:
    _require_floating("directed", c, x)
    return Spec(x.shape, np.result_type(c.dtype, x.dtype))


def _length(x: Array, axis: Axes, keepdims: bool) -> Any:
    _require_floating("length", x)
    with ignoring():
        squares = _squares(x, axis, keepdims)
        least = _LEAST[squares.dtype.char]
        if _all_between(squares, least):
            return np.sqrt(squares)
        usual = (squares > least) & (squares < np.inf)
        scaled, exponent = _scaled(x, axis)
        root = _root_of_scaled(scaled, axis)
        exact = np.ldexp(root, exponent)
        exact = exact if keepdims else exact.reshape(squares.shape)
        return np.where(usual, np.sqrt(squares), exact)[()]


def _directed(c: Array, x: Array, axis: Axes) -> Any:
    _require_floating("directed", c, x)
    with ignoring():
        is_one = len(axis) == x.ndim  # NumPy divides by a number in half the time
        squares = _squares(x, axis, not is_one)
        if _all_between(squares, _LEAST[squares.dtype.char]):
            root = np.sqrt(squares)
            factor = c.reshape(())[()] if is_one else c
            over = root / factor
            if _all_between(over, _TINY[over.dtype.char], absolute=True):
                return x / over  # one pass instead of two
            return x / root * factor
        scaled = _scaled(x, axis)[0]
        root = _root_of_scaled(scaled, axis)
        return scaled / np.where(root == 0, 1, root) * c


# ----------------------------------------------------------------------------- for compilers

_LARGE: Final = 2.0**480
_SMALL: Final = 2.0**-480
_DOWN: Final = 2.0**-560
_UP: Final = 2.0**600
"""Sizes of float64 values beyond which they are scaled before they are squared. So no square loses
digits, and no sum of up to 2**60 squares overflows (Blue, "A portable Fortran program to find the
Euclidean norm of a vector", 1978)."""


def _squares_in_one_pass(x: Value, axis: Axes) -> tuple[Value, Value, Value]:
    """Sums of squares, with their axes, of values that may be scaled.

    Also whether they are scaled down, since some are large, and whether they are scaled up, since
    all are small; None if the dtype needs no scales. The sums for the three classes of sizes are
    taken in one pass, which costs less than a branch where vectors are short, and less than a
    second pass where they are long. Nothing overflows on the way.
    """

    def total(square: Callable[[Value], Value]) -> Value:
        parts = (real(x), imag(x)) if dtype_of(x).kind == "c" else (x,)
        squares = [square(y) for y in parts]
        summed = squares[0] if len(squares) == 1 else squares[0] + squares[1]
        return reduce_sum(summed, axis=axis, keepdims=True)

    if dtype_of(x).char not in "dD":

        def wide_square(y: Value) -> Value:
            wide = cast(y, dtype=np.dtype(np.float64))
            return wide * wide

        return total(wide_square), None, None

    def large_square(y: Value) -> Value:
        scaled = where(absolute(y) > _LARGE, y, 0.0) * _DOWN
        return scaled * scaled

    def small_square(y: Value) -> Value:
        scaled = where(absolute(y) < _SMALL, y, 0.0) * _UP
        return scaled * scaled

    def usual_square(y: Value) -> Value:  # and NaN
        size = absolute(y)
        usual = where((size > _LARGE) | (size < _SMALL), 0.0, y)
        return usual * usual

    usual, large, small = total(usual_square), total(large_square), total(small_square)
    is_large = large > 0
    is_small = (usual == 0) & (large == 0)
    beside_large = where(is_large, usual, 0.0) * _DOWN * _DOWN
    beside_usual = where(is_small, 0.0, small) * (1 / _UP) * (1 / _UP)
    squares = where(is_large, large + beside_large, where(is_small, small, usual + beside_usual))
    return squares, is_large, is_small


def _is_written(x: Value) -> bool:
    return dtype_of(x).char in "efdFD"


def _length_body(x: Value, axis: Axes, keepdims: bool) -> Value:
    if not _is_written(x):
        return NotImplemented
    squares, is_large, is_small = _squares_in_one_pass(x, axis)
    root = sqrt(squares)
    if is_large is None:
        size = cast(root, dtype=real_dtype(dtype_of(x)))
    else:
        size = root * where(is_large, 1 / _DOWN, where(is_small, 1 / _UP, 1.0))
    return size if keepdims else reshape(size, shape=reduced_shape(shape_of(x), axis, False))


def _directed_body(c: Value, x: Value, axis: Axes) -> Value:
    if not _is_written(x):
        return NotImplemented
    squares, is_large, is_small = _squares_in_one_pass(x, axis)
    inverse = 1.0 / where(squares == 0, 1.0, sqrt(squares))
    if is_large is None:
        return cast(x * inverse, dtype=dtype_of(x)) * c
    return x * where(is_small, _UP, 1.0) * inverse * where(is_large, _DOWN, 1.0) * c


def _direction(x: Value, axis: Axes) -> Value:
    ones = np.ones(reduced_shape(shape_of(x), axis, keepdims=True), real_dtype(dtype_of(x)))
    return directed(ones, x, axis=axis)


def _across(change: Value, out: Value, x: Value, axis: Axes) -> Value:
    """The part of a change across a direction, over the length; 0 at the origin."""
    along = real_part(reduce_sum(conjugate(out) * change, axis=axis, keepdims=True))
    size = length(x, axis=axis, keepdims=True)
    at_origin = size == 0
    return where(at_origin, 0, (change - out * along) / where(at_origin, 1, size))


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(111)
    for number, (shape, axis) in enumerate(
        (((3,), (0,)), ((2, 3), (1,)), ((2, 3), (0, 1)), ((2, 0), (0,)), ((0, 2), (1,)))
    ):
        params = {"axis": axis, "keepdims": number % 2 == 1}
        x = rng.standard_normal(shape)
        yield Sample((x,), params)
        if number < 3:
            yield Sample((x + 1j * x[::-1] ** 2,), params)
    yield Sample((rng.standard_normal((4, 9))[::-2, ::3],), {"axis": (1,), "keepdims": False})
    yield Sample((rng.standard_normal((3, 2)),), {"axis": (0,), "keepdims": False})
    yield Sample((np.array([3e200, 4e200]),), {"axis": (0,), "keepdims": False})
    yield Sample((np.zeros((2, 3)),), {"axis": (1,), "keepdims": False}, smooth=False)
    for edge in (np.inf, np.nan, 1e-320):
        far = np.array([edge, 1e-320])
        yield Sample((far,), {"axis": (0,), "keepdims": False}, smooth=False)


def _push_length(
    tangents: tuple[Value, ...], out: Value, x: Value, axis: Axes, keepdims: bool
) -> Value:
    along = conjugate(_direction(x, axis)) * tangents[0]
    return real_part(reduce_sum(along, axis=axis, keepdims=keepdims))


def _length_letters(x: Shape, axis: Sequence[int], keepdims: bool) -> tuple[str, str]:
    before, after = mixing(x, axis)
    remaining = [c for k, c in enumerate(after) if keepdims or k not in axis]
    return before, "".join(remaining)


length: Primitive = Primitive(
    "length",
    _length,
    _length_spec,
    Linearized(
        _push_length,
        lambda ct, out, x, axis, keepdims: (
            directed(
                reshape(ct, shape=reduced_shape(shape_of(x), axis, keepdims=True)), x, axis=axis
            ),
        ),
        mixes=True,
    ),
    batch_reduction,
    _samples,
    structure=Opaque(counted=0, letters=_length_letters),
    body=_length_body,
    kinks=Kinks(lambda x, axis, keepdims: length(x, axis=axis, keepdims=keepdims)),
    traits=OWNS,
)
"""The square root of the sum of squares of absolute values along axes."""


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    further = {"axis": tuple([a + 1 for a in params["axis"]])}
    return batch_matrices(primitive, size, args, batched, further)


def _push_directed(
    tangents: tuple[Value, ...], out: Value, c: Value, x: Value, axis: Axes
) -> Value:
    dc, dx = tangents
    change = None if dc is None else directed(dc, x, axis=axis)
    if dx is None:
        return change
    turned = c * _across(dx, _direction(x, axis), x, axis)
    return turned if change is None else change + turned


def _pull_directed(
    ct: Value, out: Value, c: Value, x: Value, axis: Axes
) -> tuple[Callable[[], Value], Callable[[], Value]]:
    def of_number() -> Value:
        along = conjugate(_direction(x, axis)) * ct
        return real_part(reduce_sum(along, axis=axis, keepdims=True))

    return of_number, lambda: c * _across(ct, _direction(x, axis), x, axis)


def _directed_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(112)
    for sample in _samples():
        (x,), axis = sample.args, sample.params["axis"]
        c = rng.standard_normal(reduced_shape(x.shape, axis, keepdims=True))
        if sample.smooth or not np.any(x):
            yield Sample((c, x), {"axis": axis}, smooth=sample.smooth)
    yield Sample((np.array([0.0]), np.array([3.0, 4.0])), {"axis": (0,)})


directed: Primitive = Primitive(
    "directed",
    _directed,
    _directed_spec,
    Linearized(_push_directed, _pull_directed, linear_in=(0,), mixes=True),
    _batch,
    _directed_samples,
    structure=Opaque(counted=1, letters=lambda _, x, axis: (mixing(x, axis)[0], *mixing(x, axis))),
    body=_directed_body,
    kinks=Kinks(lambda c, x, axis: length(x, axis=axis, keepdims=True)),
    traits=OWNS,
)
"""A real number times the direction of a vector: the vector over its length, or 0."""

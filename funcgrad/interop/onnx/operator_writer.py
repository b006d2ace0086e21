"""Operations without a structure that ONNX has operators for: convolutions, sorts, windows.

Each is written by a function of the graph, the operands, the specs of the results and the
parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from funcgrad._backends.array_code.moved_boxes import moved
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.index_maps import Piece
from funcgrad._primitives.activations import relu, sigmoid
from funcgrad._primitives.convolution import convolve, correlate, spread
from funcgrad._primitives.determinants import det
from funcgrad._primitives.elementwise import sign
from funcgrad._primitives.rounding import ceil
from funcgrad._primitives.sliding import overlapped, sliding_windows, window_shares, window_sums
from funcgrad._primitives.sorting import argsort, order_of_sorted, part_of_order, sort
from funcgrad.interop.onnx.fold_writer import in_signed_order
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol, UnwritableError

_INT64: Final = np.dtype(np.int64)

WriteOperation: TypeAlias = Callable[..., Symbol]
"""``(writer, spec of the result, *operands, **params)`` to the result."""


def _float(name: str) -> WriteOperation:
    """A floating-point operator that equals the operation everywhere."""

    def write(writer: GraphWriter, spec: Spec, x: Symbol) -> Symbol:
        if x.dtype.kind != "f" or spec.weak:
            raise UnwritableError("only for floating-point dtypes")
        return writer.node(name, [x], spec)

    return write


# -------------------------------------------------------------------------------- convolutions


def _check_convolved(spec: Spec, *operands: Symbol) -> None:
    """Refuse other dtypes, for matrix products: onnxruntime convolves only float16 and float32."""
    if spec.dtype.char not in "ef" or any(x.dtype != spec.dtype for x in operands):
        raise UnwritableError("only for float16 and float32")


def _convolved(
    writer: GraphWriter,
    spec: Spec,
    x: Symbol,
    kernel: Symbol,
    strides: Shape,
    dilations: Shape,
    groups: int,
) -> Symbol:
    if 0 in (*x.shape, *kernel.shape, *spec.shape):
        return writer.expanded(writer.constant(np.zeros(1, spec.dtype)), spec.shape)
    _check_convolved(spec, x, kernel)
    line = () if strides else (1,)  # ONNX needs at least one axis
    x = writer.reshaped(x, (*x.shape, *line))
    kernel = writer.reshaped(kernel, (*kernel.shape, *line))
    out = writer.node(
        "Conv",
        [x, kernel],
        Spec((*spec.shape, *line), spec.dtype),
        kernel_shape=kernel.shape[2:],
        strides=strides or (1,),
        dilations=dilations or (1,),
        group=groups,
    )
    return writer.reshaped(out, spec.shape)


def _spread(
    writer: GraphWriter,
    spec: Spec,
    y: Symbol,
    kernel: Symbol,
    shape: Shape,
    strides: Shape,
    dilations: Shape,
    groups: int,
) -> Symbol:
    if 0 in (*y.shape, *kernel.shape, *spec.shape):
        return writer.expanded(writer.constant(np.zeros(1, spec.dtype)), spec.shape)
    _check_convolved(spec, y, kernel)
    line = () if strides else (1,)
    reach = [
        stride * (count - 1) + dilation * (size - 1) + 1
        for stride, count, dilation, size in zip(
            strides, y.shape[2:], dilations, kernel.shape[2:], strict=True
        )
    ]
    short = Spec((*spec.shape[:2], *reach, *line), spec.dtype)
    out = writer.node(
        "ConvTranspose",
        [writer.reshaped(y, (*y.shape, *line)), writer.reshaped(kernel, (*kernel.shape, *line))],
        short,
        kernel_shape=[*kernel.shape[2:], *line],
        strides=strides or (1,),
        dilations=dilations or (1,),
        group=groups,
    )
    out = writer.reshaped(out, (*spec.shape[:2], *reach))
    behind = [n - m for n, m in zip(shape, reach, strict=True)]
    if any(behind):
        pads = writer.integers([*[0] * len(spec.shape), 0, 0, *behind])
        out = writer.node("Pad", [out, pads], spec)
    return out


def _correlated(
    writer: GraphWriter,
    spec: Spec,
    x: Symbol,
    y: Symbol,
    sizes: Shape,
    strides: Shape,
    dilations: Shape,
    groups: int,
) -> Symbol:
    """A convolution with the kernel y, of x with batch and channel axes swapped."""
    if 0 in (*x.shape, *y.shape, *spec.shape):
        return writer.expanded(writer.constant(np.zeros(1, spec.dtype)), spec.shape)
    _check_convolved(spec, x, y)
    batch, channels, *space = x.shape
    count = channels // groups
    x = writer.reshaped(x, (batch, groups, count, *space))
    x = writer.permuted(x, (2, 1, 0, *range(3, len(space) + 3)))
    x = writer.reshaped(x, (count, groups * batch, *space))
    kernel = writer.permuted(y, (1, 0, *range(2, len(y.shape))))
    places = [
        (n - stride * (m - 1) - 1) // dilation + 1
        for n, m, stride, dilation in zip(space, y.shape[2:], strides, dilations, strict=True)
    ]
    wide = Spec((count, y.shape[1], *places), spec.dtype)
    out = _convolved(writer, wide, x, kernel, dilations, strides, groups)
    for axis, size in enumerate(sizes):
        out = writer.sliced(out, axis + 2, 0, size)
    return writer.permuted(out, (1, 0, *range(2, len(out.shape))))


# ------------------------------------------------------------------------------------- windows


def _overlapped(
    writer: GraphWriter, spec: Spec, y: Symbol, shape: Shape, strides: Shape, dilations: Shape
) -> Symbol:
    """The transpose of sliding windows: their index map, read backwards, with sums."""
    rank = len(strides)
    sizes = y.shape[len(y.shape) - 2 * rank : len(y.shape) - rank]
    pieces = sliding_windows.structure.pieces(  # type: ignore[union-attr]  # a movement
        y.shape, spec.shape, sizes=sizes, strides=strides, dilations=dilations
    )
    back = [Piece(1, p.shape, p.to, p.to_strides, p.start, p.strides) for p in pieces or ()]
    return moved(writer, [y, y], back, spec, adds=True)


def _summed(
    writer: GraphWriter, spec: Spec, x: Symbol, sizes: Shape, strides: Shape, dilations: Shape
) -> Symbol:
    if not sizes:
        return x
    lead = len(spec.shape) - len(sizes)
    shape = (*spec.shape[:lead], *sizes, *spec.shape[lead:])
    pieces = sliding_windows.structure.pieces(  # type: ignore[union-attr]  # a movement
        shape, x.shape, sizes=sizes, strides=strides, dilations=dilations
    )
    windows = moved(writer, [x], pieces or (), Spec(shape, x.dtype), adds=False)
    axes = writer.integers(range(lead, lead + len(sizes)))
    wide = np.dtype(np.int64) if x.dtype.kind in "iu" else x.dtype
    total = writer.node(
        "ReduceSum", [writer.cast_to(windows, wide), axes], Spec(spec.shape, wide), keepdims=0
    )
    return writer.cast_to(total, spec.dtype)


def _shared(
    writer: GraphWriter,
    spec: Spec,
    y: Symbol,
    shape: Shape,
    sizes: Shape,
    strides: Shape,
    dilations: Shape,
) -> Symbol:
    if not sizes:
        return y
    lead = len(y.shape) - len(sizes)
    y = writer.reshaped(y, (*y.shape[:lead], *[1] * len(sizes), *y.shape[lead:]))
    y = writer.expanded(y, (*y.shape[:lead], *sizes, *y.shape[lead + len(sizes) :]))
    return _overlapped(writer, spec, y, shape, strides, dilations)


# -------------------------------------------------------------------------------------- orders


def _ordered(writer: GraphWriter, x: Symbol, axis: int, descending: bool) -> tuple[Symbol, Symbol]:
    """Sorted values and their positions, stable."""
    wide = {"u4": np.int64, "i4": np.int32}.get(x.dtype.str[1:], np.int32)
    keys = x
    if x.dtype == np.uint64:
        keys = in_signed_order(writer, x)
    elif x.dtype.kind != "f" and x.dtype != np.int64:
        keys = writer.cast_to(x, np.dtype(wide))
    count = writer.integers([x.shape[axis]])
    specs = [Spec(x.shape, keys.dtype), Spec(x.shape, _INT64)]
    values, places = writer.nodes_of(
        "TopK", [keys, count], specs, axis=axis, largest=int(descending)
    )
    if x.dtype == np.uint64:
        return in_signed_order(writer, values), places
    return writer.cast_to(values, x.dtype), places


def _sorted(writer: GraphWriter, spec: Spec, x: Symbol, axis: int, descending: bool) -> Symbol:
    return _ordered(writer, x, axis, descending)[0] if prod(x.shape) else x


def _order(
    writer: GraphWriter, spec: Spec, x: Symbol, *_: Symbol, axis: int, descending: bool
) -> Symbol:
    if not prod(x.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    return writer.cast_to(_ordered(writer, x, axis, descending)[1], spec.dtype)


def _part_of_order(
    writer: GraphWriter, spec: Spec, x: Symbol, axis: int, descending: bool, count: int, last: bool
) -> Symbol:
    if not prod(spec.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    order, size = _ordered(writer, x, axis, descending)[1], x.shape[axis]
    first = size - count if last else 0
    bounds = [writer.integers([place]) for place in (first, first + count, axis)]
    some = writer.node("Slice", [order, *bounds], Spec(spec.shape, _INT64))
    return writer.cast_to(some, spec.dtype)


def _determinant(writer: GraphWriter, spec: Spec, x: Symbol, failed: str = "raise") -> Symbol:
    if x.dtype.char not in "ef" or not x.shape[-1]:  # runtimes lack float64
        raise UnwritableError("only for matrices of float16 and float32")
    return writer.node("Det", [x], spec)


OPERATORS: Final[Mapping[Primitive, WriteOperation]] = MappingProxyType(
    {
        argsort: _order,
        ceil: _float("Ceil"),
        convolve: _convolved,
        correlate: _correlated,
        det: _determinant,
        order_of_sorted: _order,
        overlapped: _overlapped,
        part_of_order: _part_of_order,
        relu: _float("Relu"),
        sigmoid: _float("Sigmoid"),
        sign: _float("Sign"),
        sort: _sorted,
        spread: _spread,
        window_shares: _shared,
        window_sums: _summed,
    }
)
"""If a writer raises ``UnwritableError``, the operation is written by its structure."""

"""Write gathers and scatters: integers choose positions in the flattened array.

If the integers index a single axis and the other axes are whole, ONNX's ``Gather`` takes them
unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.moved_boxes import offsets, window
from funcgrad._core.specs import Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import IndexArray, Places, dense_strides
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol, UnwritableError

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)


def gathered(writer: GraphWriter, places: Places, operands: Sequence[Symbol], spec: Spec) -> Symbol:
    """The elements of the first operand at the positions that the other operands choose."""
    x = operands[0]
    if not prod(spec.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    plain = _along_axis(writer, places, operands, spec)
    if plain is not None:
        return plain
    numbers, inside = _numbers(writer, places, operands)
    numbers = writer.expanded(numbers, spec.shape)
    flat = writer.reshaped(x, (prod(x.shape),))
    if inside is not None:  # append a zero for positions outside; the array may be empty
        flat = writer.joined([flat, writer.constant(np.zeros(1, x.dtype))], 0)
        outside = writer.constant(np.full((1,) * len(spec.shape), prod(x.shape), np.int64))
        numbers = _where(writer, inside, numbers, outside)
    return writer.taken(flat, numbers)


def _along_axis(
    writer: GraphWriter, places: Places, operands: Sequence[Symbol], spec: Spec
) -> Symbol | None:
    """``Gather`` along an axis, if the integers choose only along that axis."""
    if len(places.indices) != 1 or places.start or places.indices[0].mode != "raise":
        return None
    (index,) = places.indices
    x, integers = operands[0], operands[index.operand]
    steps = dense_strides(x.shape)
    axis = next((a for a, n in enumerate(x.shape) if (n, steps[a]) == index[2:4]), None)
    if axis is None:
        return None
    behind = len(x.shape) - axis - 1
    chosen = places.shape[axis : len(places.shape) - behind]
    strides = (0,) * axis + dense_strides(chosen) + (0,) * behind
    around = steps[:axis] + (0,) * len(chosen) + steps[axis + 1 :]
    whole = tuple([0 if n == 1 else s for n, s in zip(places.shape, around, strict=True)])
    shape = x.shape[:axis] + chosen + x.shape[axis + 1 :]
    at = tuple([0 if n == 1 else s for n, s in zip(places.shape, index.strides, strict=True)])
    if chosen != integers.shape or shape != places.shape or at != strides:
        return None
    if whole != places.strides:
        return None
    integers = writer.cast_to(integers, _INT64)
    return writer.node("Gather", [x, integers], spec, axis=axis)


def _where(writer: GraphWriter, condition: Symbol, x: Symbol, y: Symbol) -> Symbol:
    shape = np.broadcast_shapes(condition.shape, x.shape, y.shape)
    return writer.node("Where", [condition, x, y], Spec(shape, x.dtype))


def _node(writer: GraphWriter, name: str, x: Symbol, y: Symbol, dtype: np.dtype[Any]) -> Symbol:
    return writer.node(name, [x, y], Spec(np.broadcast_shapes(x.shape, y.shape), dtype))


def _numbers(
    writer: GraphWriter, places: Places, operands: Sequence[Symbol]
) -> tuple[Symbol, Symbol | None]:
    """The flat positions of the chosen elements, and a mask of those inside; None if all are."""
    total = offsets(writer, places.shape, places.start, places.strides)
    valid: Symbol | None = None
    for index in places.indices:
        place, inside = _place(writer, index, _lined_up(writer, index, places, operands))
        step = _node(writer, "Mul", place, writer.constant(index.step, _INT64), _INT64)
        total = writer.added(total, step)
        if inside is not None:
            valid = inside if valid is None else _node(writer, "And", valid, inside, _BOOL)
    return total, valid


def _lined_up(
    writer: GraphWriter, index: IndexArray, places: Places, operands: Sequence[Symbol]
) -> Symbol:
    """The integers of an index array, with axes of size 1 where they are constant."""
    integers = writer.cast_to(operands[index.operand], _INT64)
    shape = tuple([n if s else 1 for n, s in zip(places.shape, index.strides, strict=True)])
    return window(writer, integers, shape, 0, index.strides)


def _place(
    writer: GraphWriter, index: IndexArray, integers: Symbol
) -> tuple[Symbol, Symbol | None]:
    """The positions that integers choose along an axis, by the mode of the index array."""
    size = writer.constant(index.size, _INT64)
    zero, last = writer.constant(0, _INT64), writer.constant(max(index.size - 1, 0), _INT64)
    if index.mode == "wrap":
        return _node(writer, "Mod", integers, size, _INT64), None
    if index.mode == "clip":
        return _bounded(writer, integers, zero, last), None
    negative = _node(writer, "Less", integers, zero, _BOOL)
    counted = _where(writer, negative, writer.added(integers, size), integers)
    if index.mode == "raise":
        return counted, None
    low = _node(writer, "GreaterOrEqual", counted, zero, _BOOL)
    inside = _node(writer, "And", low, _node(writer, "Less", counted, size, _BOOL), _BOOL)
    return _bounded(writer, counted, zero, last), inside


def _bounded(writer: GraphWriter, x: Symbol, low: Symbol, high: Symbol) -> Symbol:
    return _node(writer, "Min", _node(writer, "Max", x, low, _INT64), high, _INT64)


# ------------------------------------------------------------------------------------ scatters


def scattered(
    writer: GraphWriter,
    places: Places,
    fold: Fold | None,
    base: Symbol | None,
    updates: Symbol,
    operands: Sequence[Symbol],
    spec: Spec,
) -> Symbol:
    """The base, or zeros, with updates at chosen positions."""
    size = prod(spec.shape)
    wide = np.dtype(np.int32) if spec.dtype.itemsize < 4 and spec.dtype.kind != "f" else spec.dtype
    options = _options(fold)
    dtype = wide if options else spec.dtype
    flat = writer.constant(np.zeros(1, dtype))
    if base is None:
        flat = writer.expanded(flat, (size,))
    else:
        flat = writer.reshaped(writer.cast_to(writer.cast_to(base, spec.dtype), dtype), (size,))
    if not prod(places.shape):
        return writer.reshaped(writer.cast_to(flat, spec.dtype), spec.shape)
    numbers, inside = _numbers(writer, places, operands)
    numbers = writer.expanded(numbers, places.shape)
    if inside is not None:  # updates outside go to an element that is dropped
        flat = writer.joined([flat, writer.constant(np.zeros(1, dtype))], 0)
        numbers = _where(writer, inside, numbers, writer.constant(size, _INT64))
    updates = writer.cast_to(writer.cast_to(updates, spec.dtype), dtype)
    updates = writer.reshaped(writer.expanded(updates, places.shape), (prod(places.shape),))
    numbers = writer.reshaped(numbers, updates.shape)
    out = writer.node(
        "ScatterElements", [flat, numbers, updates], Spec(flat.shape, dtype), axis=0, **options
    )
    out = writer.sliced(out, 0, 0, size)
    return writer.reshaped(writer.cast_to(out, spec.dtype), spec.shape)


def _options(fold: Fold | None) -> dict[str, str]:
    if fold is None:
        return {}
    for known, name in (
        (folds.SUM, "add"),
        (folds.PRODUCT, "mul"),
        (folds.GREATEST, "max"),
        (folds.LEAST, "min"),
    ):
        if fold is known:
            return {"reduction": name}
    raise UnwritableError("ONNX scatters with add, mul, max and min, and no other fold")

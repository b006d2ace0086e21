"""Write reductions and scans as nodes, from their folds, and sums of products from their letters.

ONNX has operators for sums, products, extrema, their positions, and cumulative sums. Any other fold
halves the elements until one is left. Any other scan is a ``Scan``, whose graph combines the state
so far with the next element. Sums of products are ``MatMul`` if the letters match matrix products,
else ``Einsum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import LETTERS
from funcgrad.interop.onnx.element_algebra import Element, ElementAlgebra
from funcgrad.interop.onnx.graph_writer import (
    GraphWriter,
    Symbol,
    cast_to,
    expanded,
    joined,
    reshaped,
    sliced,
)

_BOOL: Final = np.dtype(np.bool_)
_INT32: Final = np.dtype(np.int32)
_INT64: Final = np.dtype(np.int64)

_WIDE: Final = MappingProxyType(
    {"i1": "i4", "u1": "i4", "i2": "i4", "u2": "i4", "u4": "i8", "u8": "i8", "b1": "i4"}
)
"""Dtypes for which some runtimes lack reductions and products, and the dtypes to compute in."""


def reduced(
    writer: GraphWriter, fold: Fold, x: Symbol, spec: Spec, axis: Sequence[int], keepdims: bool
) -> Symbol:
    """The result of a reduction."""
    out = _reduced(writer, fold, x, spec, tuple(axis), keepdims)
    return reshaped(writer, cast_to(writer, out, spec.dtype), spec.shape)


def _reduced(
    writer: GraphWriter, fold: Fold, x: Symbol, spec: Spec, axis: tuple[int, ...], keepdims: bool
) -> Symbol:
    for known, write in _OPERATORS:
        if fold is known:
            return write(writer, x, spec, axis)
    if fold is folds.FIRST_GREATEST or fold is folds.FIRST_LEAST:
        return _place(writer, "ArgMax" if fold is folds.FIRST_GREATEST else "ArgMin", x, axis)
    return _folded(writer, fold, x, spec, axis)


def _with_axes(shape: Shape, axis: Sequence[int]) -> Shape:
    return tuple([1 if a in axis else n for a, n in enumerate(shape)])


def _operator(name: str) -> Callable[..., Symbol]:
    """An ONNX reduction, in the dtype of the result."""

    def write(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
        code = f"{spec.dtype.kind}{spec.dtype.itemsize}"
        x = cast_to(writer, cast_to(writer, x, spec.dtype), np.dtype(_WIDE.get(code, code)))
        if not axis:
            return x
        result = Spec(_with_axes(x.shape, axis), x.dtype)
        return writer.node(name, [x, writer.integers(axis)], result, keepdims=1)

    return write


def in_signed_order(writer: GraphWriter, x: Symbol) -> Symbol:
    """Map uint64 to int64 in the same order, and back."""
    least = writer.constant(-(2**63), _INT64)
    if x.dtype == _INT64:
        turned = writer.node("BitwiseXor", [x, least], Spec(x.shape, _INT64))
        return cast_to(writer, turned, np.dtype(np.uint64))
    return writer.node("BitwiseXor", [cast_to(writer, x, _INT64), least], Spec(x.shape, _INT64))


def _extremal(name: str) -> Callable[..., Symbol]:
    plain = _operator(name)

    def write(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
        if spec.dtype != np.uint64:
            return plain(writer, x, spec, axis)
        signed = in_signed_order(writer, x)
        return in_signed_order(writer, plain(writer, signed, Spec(spec.shape, _INT64), axis))

    return write


def _logical(name: str) -> Callable[..., Symbol]:
    def write(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
        truth = ElementAlgebra(writer).astype(ElementAlgebra(writer).element(x), _BOOL)
        return _operator(name)(writer, truth.symbol, Spec(spec.shape, _INT32), axis)

    return write


def _counted(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
    truth = cast_to(writer, x, _BOOL)
    return _operator("ReduceSum")(writer, truth, Spec(spec.shape, _INT64), axis)


_OPERATORS: Final = (
    (folds.SUM, _operator("ReduceSum")),
    (folds.PRODUCT, _operator("ReduceProd")),
    (folds.GREATEST, _extremal("ReduceMax")),
    (folds.LEAST, _extremal("ReduceMin")),
    (folds.ALL, _logical("ReduceMin")),
    (folds.ANY, _logical("ReduceSum")),  # the maximum of an empty axis is not a boolean
    (folds.COUNT, _counted),
)


def _in_a_row(writer: GraphWriter, x: Symbol, axis: Sequence[int]) -> tuple[Symbol, int]:
    """Merge the reduced axes into a last axis; return its length, too."""
    free = [a for a in range(len(x.shape)) if a not in axis]
    order = [*free, *axis]
    if order != list(range(len(x.shape))):
        moved = Spec(tuple([x.shape[a] for a in order]), x.dtype)
        x = writer.node("Transpose", [x], moved, perm=order)
    count = int(np.prod([x.shape[len(free) + k] for k in range(len(axis))]))
    return reshaped(writer, x, (*x.shape[: len(free)], count)), count


def _place(writer: GraphWriter, name: str, x: Symbol, axis: Sequence[int]) -> Symbol:
    """The position of an extremum, or of the first NaN, which ONNX leaves open."""
    row, _ = _in_a_row(writer, x, axis)
    spec = Spec(row.shape[:-1], _INT64)

    def place(operator: str, values: Symbol) -> Symbol:
        if values.dtype == np.uint64:
            values = in_signed_order(writer, values)
        if values.dtype == np.uint32:
            values = cast_to(writer, values, _INT64)
        if values.dtype.kind == "b" or (values.dtype.itemsize < 4 and values.dtype.kind in "iu"):
            values = cast_to(writer, values, _INT32)
        return writer.node(operator, [values], spec, axis=-1, keepdims=0)

    plain = place(name, row)
    if x.dtype.kind != "f":
        return plain
    nan = cast_to(writer, writer.node("IsNaN", [row], Spec(row.shape, _BOOL)), _INT32)
    first = place("ArgMax", nan)
    last = writer.integers([-1])
    some = writer.node("ReduceMax", [nan, last], Spec(spec.shape, _INT32), keepdims=0)
    return writer.node("Where", [cast_to(writer, some, _BOOL), first, plain], spec)


def _folded(writer: GraphWriter, fold: Fold, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
    """Any fold: combine neighbours until one element is left."""
    m = ElementAlgebra(writer)
    row, count = _in_a_row(writer, x, axis)
    if not count:
        return expanded(writer, writer.constant(fold.identity, spec.dtype), row.shape[:-1])
    places = m.element(writer.constant(np.arange(count)))
    state = fold.of(m, spec.dtype, places, m.element(row))
    states = [_whole(m, portion, row.shape) for portion in _parts(state)]
    while (size := states[0].shape[-1]) > 1:
        states = _halved(m, fold, states, size, isinstance(state, tuple))
    out = fold.element(m, tuple(states) if isinstance(state, tuple) else states[0])
    return m.symbol(out, spec.dtype)


def _halved(
    m: ElementAlgebra, fold: Fold, states: list[Element], size: int, several: bool
) -> list[Element]:
    """Combine neighbours, in order; one element may be left over."""
    pairs = size // 2

    def every_second(portion: Element, first: int) -> Element:
        last = len(portion.shape) - 1
        return m.element(sliced(m.writer, portion.symbol, last, first, pairs, 2))

    earlier, later = [[every_second(portion, first) for portion in states] for first in (0, 1)]
    both = fold.combine(
        m, *[tuple(portion) if several else portion[0] for portion in (earlier, later)]
    )
    out = [_whole(m, portion, (*states[0].shape[:-1], pairs)) for portion in _parts(both)]
    if size % 2:
        axis = len(states[0].shape) - 1
        ends = [sliced(m.writer, portion.symbol, axis, size - 1, 1) for portion in states]
        out = [
            m.element(joined(m.writer, [m.symbol(portion, end.dtype), end], axis))
            for portion, end in zip(out, ends, strict=True)
        ]
    return out


def _parts(state: Any) -> tuple[Any, ...]:
    return state if isinstance(state, tuple) else (state,)


def _whole(m: ElementAlgebra, portion: Any, shape: Shape) -> Element:
    """A part of a state, broadcast to a shape."""
    symbol = portion.symbol if isinstance(portion, Element) else m.writer.constant(portion)
    return m.element(expanded(m.writer, symbol, shape))


# ------------------------------------------------------------------------------------- scans


def scanned(
    writer: GraphWriter,
    fold: Fold,
    operands: Sequence[Symbol],
    spec: Spec,
    axis: int,
    reverse: bool,
) -> Symbol:
    """The result of a scan along an axis."""
    code = f"{spec.dtype.kind}{spec.dtype.itemsize}"
    if fold is folds.SUM:
        wide = np.dtype(_WIDE.get(code, code))
        x = cast_to(writer, cast_to(writer, operands[0], spec.dtype), wide)
        along = [x, writer.constant(axis, _INT64)]
        out = writer.node("CumSum", along, Spec(spec.shape, wide), reverse=int(reverse))
        return cast_to(writer, out, spec.dtype)
    if not spec.shape[axis]:
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    m = ElementAlgebra(writer)
    rank = len(spec.shape)
    front = [axis, *[a for a in range(rank) if a != axis]]
    rows = [_turned(writer, expanded(writer, x, spec.shape), front) for x in operands]
    rows = [_flipped(writer, x) if reverse else x for x in rows]
    count, *narrow = rows[0].shape
    places = m.element(writer.constant(np.arange(count).reshape(count, *[1] * (rank - 1))))
    state = fold.of(m, spec.dtype, places, *map(m.element, rows))
    several = isinstance(state, tuple)
    parts = [_whole(m, portion, rows[0].shape).symbol for portion in _parts(state)]
    if count > 1:
        begin = [reshaped(writer, sliced(writer, x, 0, 0, 1), tuple(narrow)) for x in parts]
        later = [sliced(writer, x, 0, 1, count - 1) for x in parts]
        steps = _scan(writer, fold, begin, later, several)
        firsts = [sliced(writer, x, 0, 0, 1) for x in parts]
        parts = [joined(writer, [x, y], 0) for x, y in zip(firsts, steps, strict=True)]
    states = [m.element(portion) for portion in parts]
    out = m.symbol(fold.element(m, tuple(states) if several else states[0]), spec.dtype)
    out = _flipped(writer, out) if reverse else out
    return _turned(writer, out, [front.index(a) for a in range(rank)])


def _turned(writer: GraphWriter, x: Symbol, order: Sequence[int]) -> Symbol:
    if list(order) == list(range(len(order))):
        return x
    spec = Spec(tuple([x.shape[a] for a in order]), x.dtype)
    return writer.node("Transpose", [x], spec, perm=list(order))


def _flipped(writer: GraphWriter, x: Symbol) -> Symbol:
    return sliced(writer, x, 0, x.shape[0] - 1, x.shape[0], -1)


def _scan(
    writer: GraphWriter,
    fold: Fold,
    begin: Sequence[Symbol],
    later: Sequence[Symbol],
    several: bool,
) -> list[Symbol]:
    """ONNX's ``Scan``: the states after the first one, along axis 0."""
    body = writer.inside("combine")
    m = ElementAlgebra(body)
    carry, rows = [[body.input("", Spec(x.shape, x.dtype)) for x in begin] for _ in range(2)]
    states = [
        tuple(map(m.element, portion)) if several else m.element(portion[0])
        for portion in (carry, rows)
    ]
    outs = [
        m.symbol(_whole(m, portion, x.shape), x.dtype)
        for portion, x in zip(_parts(fold.combine(m, *states)), begin, strict=True)
    ]
    specs = [Spec(x.shape, x.dtype) for x in (*begin, *later)]
    graph, count = body.graph([*outs, *outs]), len(begin)
    results = writer.nodes_of("Scan", [*begin, *later], specs, body=graph, num_scan_inputs=count)
    return results[count:]


# ------------------------------------------------------------------------------------ products


def multiplied(
    writer: GraphWriter, operands: Sequence[Symbol], letters: Sequence[str], spec: Spec
) -> Symbol:
    """The result of a contraction, from the letters of the operands and of the result."""
    code = f"{spec.dtype.kind}{spec.dtype.itemsize}"
    wide = np.dtype(_WIDE.get(code, code))
    *names, result = letters
    operands = [cast_to(writer, cast_to(writer, x, spec.dtype), wide) for x in operands]
    operands, names = _without_ones(writer, operands, names)
    out = None
    if spec.shape and 0 not in (*operands[0].shape, *operands[1].shape):
        out = _matrices(writer, operands, names, result, Spec(spec.shape, wide))
    if out is None:
        out = _einsum(writer, operands, names, result, Spec(spec.shape, wide))
    return cast_to(writer, out, spec.dtype)


def _without_ones(
    writer: GraphWriter, operands: Sequence[Symbol], names: Sequence[str]
) -> tuple[list[Symbol], list[str]]:
    """Drop axes of size 1 that broadcast: in ONNX each letter has a single size."""
    sizes: dict[str, set[int]] = {}
    for x, text in zip(operands, names, strict=True):
        for letter, n in zip(text, x.shape, strict=True):
            sizes.setdefault(letter, set()).add(n)
    values, texts = [], []
    for x, text in zip(operands, names, strict=True):
        keep = [a for a, c in enumerate(text) if not (x.shape[a] == 1 and len(sizes[c]) > 1)]
        values.append(reshaped(writer, x, tuple([x.shape[a] for a in keep])))
        texts.append("".join([text[a] for a in keep]))
    return values, texts


def _matrices(
    writer: GraphWriter, operands: Sequence[Symbol], names: Sequence[str], result: str, spec: Spec
) -> Symbol | None:
    """A product of matrices or stacks of matrices, perhaps transposed, or None."""
    first, second = names
    inner = [c for c in first if c in second and c not in result]
    if len(inner) != 1 or len(set(first)) != len(first) or len(set(second)) != len(second):
        return None
    (k,) = inner
    rows, columns = [c for c in first if c not in second], [c for c in second if c not in first]
    stack = [c for c in first if c in second and c != k]
    if len(rows) > 1 or len(columns) > 1 or any(c not in result for c in (*rows, *columns)):
        return None
    if result != "".join([*stack, *rows, *columns]):
        return None
    x = _ordered(writer, operands[0], first, "".join([*stack, *rows, k]))
    y = _ordered(writer, operands[1], second, "".join([*stack, k, *columns]))
    # Vectors as matrices: onnxruntime 1.32 fuses a transposition and a product by a vector wrongly.
    if not rows:
        x = reshaped(writer, x, (*x.shape[:-1], 1, x.shape[-1]))
    if not columns:
        y = reshaped(writer, y, (*y.shape, 1))
    stacked = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = writer.node("MatMul", [x, y], Spec((*stacked, x.shape[-2], y.shape[-1]), spec.dtype))
    return reshaped(writer, out, spec.shape)


def _ordered(writer: GraphWriter, x: Symbol, letters: str, wanted: str) -> Symbol:
    if letters == wanted:
        return x
    order = [letters.index(c) for c in wanted]
    spec = Spec(tuple([x.shape[a] for a in order]), x.dtype)
    return writer.node("Transpose", [x], spec, perm=order)


def _einsum(
    writer: GraphWriter, operands: Sequence[Symbol], names: Sequence[str], result: str, spec: Spec
) -> Symbol:
    present = [c for c in result if any(c in text for text in names)]
    used = sorted({*names[0], *names[1], *result})
    renamed = dict(zip(used, LETTERS, strict=False))
    texts = ["".join([renamed[c] for c in text]) for text in (*names, present)]
    sizes = dict(zip(result, spec.shape, strict=True))
    shape = tuple([sizes[c] for c in present])
    equation = f"{texts[0]},{texts[1]}->{texts[2]}"
    out = writer.node("Einsum", operands, Spec(shape, spec.dtype), equation=equation)
    with_ones = tuple([sizes[c] if c in present else 1 for c in result])
    return expanded(writer, reshaped(writer, out, with_ones), spec.shape)

"""Write reductions and scans as nodes, from their folds, and sums of products from their letters.

ONNX has operators for sums, products, extrema, their positions, and cumulative sums. Any other fold
halves the elements until one is left. Any other scan is a ``Scan``, whose graph combines the state
so far with the next element. Sums of products are ``MatMul`` if the letters match matrix products,
else ``Einsum``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._backends.array_code.halves import halved, in_a_row, parts_of, whole
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import LETTERS
from funcgrad.interop.onnx.element_algebra import ElementAlgebra
from funcgrad.interop.onnx.graph_writer import GraphWriter, Symbol

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
    return writer.reshaped(writer.cast_to(out, spec.dtype), spec.shape)


def _reduced(
    writer: GraphWriter, fold: Fold, x: Symbol, spec: Spec, axis: tuple[int, ...], keepdims: bool
) -> Symbol:
    for known, write in _OPERATORS:
        if fold is known:
            return write(writer, x, spec, axis)
    if fold is folds.FIRST_GREATEST or fold is folds.FIRST_LEAST:
        return _place(writer, "ArgMax" if fold is folds.FIRST_GREATEST else "ArgMin", x, axis)
    return halved(ElementAlgebra(writer), fold, x, spec, axis)


def _with_axes(shape: Shape, axis: Sequence[int]) -> Shape:
    return tuple([1 if a in axis else n for a, n in enumerate(shape)])


def _operator(name: str) -> Callable[..., Symbol]:
    """An ONNX reduction, in the dtype of the result."""

    def write(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
        code = f"{spec.dtype.kind}{spec.dtype.itemsize}"
        x = writer.cast_to(writer.cast_to(x, spec.dtype), np.dtype(_WIDE.get(code, code)))
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
        return writer.cast_to(turned, np.dtype(np.uint64))
    return writer.node("BitwiseXor", [writer.cast_to(x, _INT64), least], Spec(x.shape, _INT64))


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
        return _operator(name)(writer, truth.array, Spec(spec.shape, _INT32), axis)

    return write


def _counted(writer: GraphWriter, x: Symbol, spec: Spec, axis: Sequence[int]) -> Symbol:
    truth = writer.cast_to(x, _BOOL)
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


def _place(writer: GraphWriter, name: str, x: Symbol, axis: Sequence[int]) -> Symbol:
    """The position of an extremum, or of the first NaN, which ONNX leaves open."""
    row, _ = in_a_row(writer, x, axis)
    spec = Spec(row.shape[:-1], _INT64)

    def place(operator: str, values: Symbol) -> Symbol:
        if values.dtype == np.uint64:
            values = in_signed_order(writer, values)
        if values.dtype == np.uint32:
            values = writer.cast_to(values, _INT64)
        if values.dtype.kind == "b" or (values.dtype.itemsize < 4 and values.dtype.kind in "iu"):
            values = writer.cast_to(values, _INT32)
        return writer.node(operator, [values], spec, axis=-1, keepdims=0)

    plain = place(name, row)
    if x.dtype.kind != "f":
        return plain
    nan = writer.cast_to(writer.node("IsNaN", [row], Spec(row.shape, _BOOL)), _INT32)
    first = place("ArgMax", nan)
    last = writer.integers([-1])
    some = writer.node("ReduceMax", [nan, last], Spec(spec.shape, _INT32), keepdims=0)
    return writer.node("Where", [writer.cast_to(some, _BOOL), first, plain], spec)


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
        x = writer.cast_to(writer.cast_to(operands[0], spec.dtype), wide)
        along = [x, writer.constant(axis, _INT64)]
        out = writer.node("CumSum", along, Spec(spec.shape, wide), reverse=int(reverse))
        return writer.cast_to(out, spec.dtype)
    if not spec.shape[axis]:
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    m = ElementAlgebra(writer)
    rank = len(spec.shape)
    front = [axis, *[a for a in range(rank) if a != axis]]
    rows = [writer.permuted(writer.expanded(x, spec.shape), front) for x in operands]
    rows = [_flipped(writer, x) if reverse else x for x in rows]
    count, *narrow = rows[0].shape
    places = m.element(writer.constant(np.arange(count).reshape(count, *[1] * (rank - 1))))
    state = fold.of(m, spec.dtype, places, *map(m.element, rows))
    several = isinstance(state, tuple)
    parts = [whole(m, portion, rows[0].shape).array for portion in parts_of(state)]
    if count > 1:
        begin = [writer.reshaped(writer.sliced(x, 0, 0, 1), tuple(narrow)) for x in parts]
        later = [writer.sliced(x, 0, 1, count - 1) for x in parts]
        steps = _scan(writer, fold, begin, later, several)
        firsts = [writer.sliced(x, 0, 0, 1) for x in parts]
        parts = [writer.joined([x, y], 0) for x, y in zip(firsts, steps, strict=True)]
    states = [m.element(portion) for portion in parts]
    out = m.array(fold.element(m, tuple(states) if several else states[0]), spec.dtype)
    out = _flipped(writer, out) if reverse else out
    return writer.permuted(out, [front.index(a) for a in range(rank)])


def _flipped(writer: GraphWriter, x: Symbol) -> Symbol:
    return writer.sliced(x, 0, x.shape[0] - 1, x.shape[0], -1)


def _scan(
    writer: GraphWriter, fold: Fold, begin: Sequence[Symbol], later: Sequence[Symbol], several: bool
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
        m.array(whole(m, portion, x.shape), x.dtype)
        for portion, x in zip(parts_of(fold.combine(m, *states)), begin, strict=True)
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
    operands = [writer.cast_to(writer.cast_to(x, spec.dtype), wide) for x in operands]
    operands, names = _without_ones(writer, operands, names)
    out = None
    if spec.shape and 0 not in (*operands[0].shape, *operands[1].shape):
        out = _matrices(writer, operands, names, result, Spec(spec.shape, wide))
    if out is None:
        out = _einsum(writer, operands, names, result, Spec(spec.shape, wide))
    return writer.cast_to(out, spec.dtype)


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
        values.append(writer.reshaped(x, tuple([x.shape[a] for a in keep])))
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
        x = writer.reshaped(x, (*x.shape[:-1], 1, x.shape[-1]))
    if not columns:
        y = writer.reshaped(y, (*y.shape, 1))
    stacked = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = writer.node("MatMul", [x, y], Spec((*stacked, x.shape[-2], y.shape[-1]), spec.dtype))
    return writer.reshaped(out, spec.shape)


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
    return writer.expanded(writer.reshaped(out, with_ones), spec.shape)

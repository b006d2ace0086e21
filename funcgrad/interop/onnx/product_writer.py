"""Write sums of products as ``MatMul`` where the letters are those of matrices, else ``Einsum``."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import LETTERS
from funcgrad.interop.onnx.graph_writer import (
    GraphWriter,
    Symbol,
    cast_to,
    expanded,
    reshaped,
)

_WIDE: Final = MappingProxyType(
    {"i1": "i4", "u1": "i4", "i2": "i4", "u2": "i4", "u4": "i8", "u8": "i8", "b1": "i4"}
)


def multiplied(
    writer: GraphWriter, operands: Sequence[Symbol], letters: Sequence[str], spec: Spec
) -> Symbol:
    """The result of a contraction: letters of both operands, and of the result."""
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
    """Leave out axes of one element that go along with any: ONNX has one size for each letter."""
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
    """A product of (stacks of) matrices, perhaps transposed, or None."""
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
        x = reshaped(writer, x, (1, *x.shape))
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

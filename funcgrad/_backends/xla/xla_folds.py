"""Reductions and scans from folds, and sums of products from letters, in ``jax.lax``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.array_code.halves import halved, in_a_row, parts_of, whole
from funcgrad._backends.xla.xla_algebra import XlaAlgebra
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._core.specs import Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)


def reduced(m: XlaAlgebra, fold: Fold, x: Array, spec: Spec, axis: Sequence[int]) -> Array:
    """The result of a reduction."""
    return m.writer.reshaped(
        m.writer.cast_to(_reduced(m, fold, x, spec, axis), spec.dtype), spec.shape
    )


def _reduced(m: XlaAlgebra, fold: Fold, x: Array, spec: Spec, axis: Sequence[int]) -> Array:
    writer, lax = m.writer, m.writer.lax
    for known, name in _REDUCTIONS:
        if fold is known and not (name in ("max", "min") and spec.dtype.kind == "c"):
            if fold is folds.COUNT:
                x = writer.cast_to(x, _BOOL)
            x = writer.cast_to(x, spec.dtype)
            if x.dtype == np.float16 and name in ("sum", "prod"):  # as NumPy sums
                x = writer.cast_to(x, np.dtype(np.float32))
            if x.dtype == _BOOL:
                name = "or" if name in ("sum", "max") else "and"
            return getattr(lax, f"reduce_{name}")(x, [*axis])
    places = {folds.FIRST_GREATEST: "argmax", folds.FIRST_LEAST: "argmin"}
    for known, name in places.items():
        if fold is known and x.dtype.kind != "c":
            if x.dtype == _BOOL:
                x = writer.cast_to(x, np.dtype(np.uint8))
            if len(axis) != 1:
                x, _ = in_a_row(writer, x, axis)
                axis = [len(x.shape) - 1]
            return getattr(lax, name)(x, axis[0], _INT64)
    return halved(m, fold, x, spec, axis)


_REDUCTIONS: Final = (
    (folds.SUM, "sum"),
    (folds.PRODUCT, "prod"),
    (folds.GREATEST, "max"),
    (folds.LEAST, "min"),
    (folds.ALL, "min"),
    (folds.ANY, "max"),
    (folds.COUNT, "sum"),
)


# -------------------------------------------------------------------------------------- scans


def scanned(
    m: XlaAlgebra, fold: Fold, operands: Sequence[Array], spec: Spec, axis: int, reverse: bool
) -> Array:
    """The result of a scan along an axis; any fold is a loop, whose order is NumPy's."""
    writer, lax = m.writer, m.writer.lax
    rows = [writer.expanded(x, spec.shape) for x in operands]
    if not spec.shape[axis]:
        return np.zeros(spec.shape, spec.dtype)
    for known, name in ((folds.SUM, "cumsum"), (folds.PRODUCT, "cumprod")):
        if fold is known and spec.dtype.kind not in "b":
            x = writer.cast_to(rows[0], spec.dtype)
            return getattr(lax, name)(x, axis, reverse)
    for known, name in ((folds.GREATEST, "cummax"), (folds.LEAST, "cummin")):
        if fold is known and spec.dtype.kind in "iuf":
            return getattr(lax, name)(writer.cast_to(rows[0], spec.dtype), axis, reverse)
    front = [axis, *[a for a in range(len(spec.shape)) if a != axis]]
    rows = [writer.permuted(x, front) for x in rows]
    count = spec.shape[axis]
    line = np.arange(count).reshape(count, *[1] * (len(front) - 1))
    places = m.element(line[::-1].copy() if reverse else line)
    state = fold.of(m, spec.dtype, places, *map(m.element, rows))
    several = isinstance(state, tuple)
    parts = [whole(m, portion, rows[0].shape).array for portion in parts_of(state)]

    def step(carry: Any, row: Any) -> Any:
        states = [tuple(map(m.element, s)) if several else m.element(s[0]) for s in (carry, row)]
        outs = parts_of(fold.combine(m, *states))
        arrays = [m.array(whole(m, o, x.shape), x.dtype) for o, x in zip(outs, carry, strict=True)]
        return arrays, arrays

    first = [x[-1 if reverse else 0] for x in parts]
    others = [x[:-1] if reverse else x[1:] for x in parts]
    _, stacks = lax.scan(step, first, others, reverse=reverse)
    ends = [lax.expand_dims(x, (0,)) for x in first]
    pairs = zip(stacks, ends, strict=True) if reverse else zip(ends, stacks, strict=True)
    states = [m.element(writer.joined([*pair], 0)) for pair in pairs]
    out = m.array(fold.element(m, tuple(states) if several else states[0]), spec.dtype)
    return writer.permuted(out, [front.index(a) for a in range(len(front))])


# ----------------------------------------------------------------------------------- products


def multiplied(
    m: XlaAlgebra, operands: Sequence[Array], letters: Sequence[str], spec: Spec
) -> Array:
    """The result of a contraction, from the letters of the operands and of the result."""
    writer, lax = m.writer, m.writer.lax
    dtype = np.dtype(np.int32) if spec.dtype == _BOOL else spec.dtype
    pairs = [_before_turn(writer, *pair) for pair in zip(operands, letters, strict=False)]
    operands, letters = [x for x, _ in pairs], [*[text for _, text in pairs], letters[2]]
    first, second = [writer.cast_to(writer.cast_to(x, spec.dtype), dtype) for x in operands]
    sizes: dict[str, int] = {}
    for x, text in zip((first, second), letters, strict=False):
        for letter, n in zip(text, x.shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1)) if n else 0
    (x, a), (y, b) = [
        _narrow(m, array, text, letters[2] + other, sizes)
        for array, text, other in ((first, *letters[:2]), (second, letters[1], letters[0]))
    ]
    summed = [c for c in a if c in b and c not in letters[2]]
    batch = [c for c in a if c in b and c in letters[2]]
    places = [[text.index(c) for c in group] for group in (summed, batch) for text in (a, b)]
    wide = np.dtype(np.float32) if dtype == np.float16 else None
    out = lax.dot_general(
        x,
        y,
        ((places[0], places[1]), (places[2], places[3])),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=wide,
    )
    axes = [*batch, *[c for c in a if c not in b], *[c for c in b if c not in a]]
    out = writer.permuted(out, [axes.index(c) for c in letters[2] if c in axes])
    with_ones = tuple([sizes[c] if c in axes else 1 for c in letters[2]])
    return writer.cast_to(writer.expanded(writer.reshaped(out, with_ones), spec.shape), spec.dtype)


def _before_turn(writer: XlaWriter, x: Array, text: str) -> tuple[Array, str]:
    """An operand and its letters; a transposed one before it was transposed."""
    if id(x) not in writer.turned:
        return x, text
    _, x, order = writer.turned[id(x)]
    return x, "".join([text[order.index(axis)] for axis in range(len(order))])


def _narrow(
    m: XlaAlgebra, x: Array, text: str, others: str, sizes: Mapping[str, int]
) -> tuple[Array, str]:
    """An operand with each letter once: diagonals taken, axes that only it has summed."""
    writer, lax = m.writer, m.writer.lax
    keep = [a for a, c in enumerate(text) if not (x.shape[a] == 1 and sizes[c] != 1)]
    x, text = (
        writer.reshaped(x, tuple([x.shape[a] for a in keep])),
        "".join([text[a] for a in keep]),
    )
    while len({*text}) < len(text):
        letter = next(c for c in text if text.count(c) > 1)
        first = text.index(letter)
        second = text.index(letter, first + 1)
        order = [a for a in range(len(text)) if a not in (first, second)]
        n = x.shape[first]
        x = writer.reshaped(
            writer.permuted(x, [first, second, *order]), (n * n, *[x.shape[a] for a in order])
        )
        x = writer.sliced(x, 0, 0, n, n + 1)
        text = letter + "".join([text[a] for a in order])
    alone = [a for a, c in enumerate(text) if c not in others]
    if alone:
        x = lax.reduce_sum(x, alone)
    return x, "".join([c for c in text if c in others])

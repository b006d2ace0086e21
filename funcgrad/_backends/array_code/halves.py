"""Reductions by any fold: neighbours are combined, and half as many states are left.

A library has sums, products and extrema itself. All other folds are written by ``halved``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._backends.array_code.array_writer import Array, ArrayWriter
from funcgrad._backends.array_code.ufunc_algebra import Element, UfuncAlgebra
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.folds import Fold


def in_a_row(writer: ArrayWriter, x: Array, axis: Sequence[int]) -> tuple[Array, int]:
    """Merge the reduced axes into a last axis; return its length, too."""
    free = [a for a in range(len(x.shape)) if a not in axis]
    x = writer.permuted(x, [*free, *axis])
    count = prod(x.shape[len(free) :])
    return writer.reshaped(x, (*x.shape[: len(free)], count)), count


def halved(m: UfuncAlgebra, fold: Fold, x: Array, spec: Spec, axis: Sequence[int]) -> Array:
    """Any fold: combine neighbours until one element is left."""
    writer = m.writer
    row, count = in_a_row(writer, x, axis)
    if not count:
        return writer.expanded(writer.constant(fold.identity, spec.dtype), row.shape[:-1])
    places = m.element(writer.constant(np.arange(count)))
    state = fold.of(m, spec.dtype, places, m.element(row))
    states = [whole(m, portion, row.shape) for portion in parts_of(state)]
    while (size := states[0].shape[-1]) > 1:
        states = _halved(m, fold, states, size, isinstance(state, tuple))
    out = fold.element(m, tuple(states) if isinstance(state, tuple) else states[0])
    return m.array(out, spec.dtype)


def _halved(
    m: UfuncAlgebra, fold: Fold, states: list[Element], size: int, several: bool
) -> list[Element]:
    """Combine neighbours, in order; one element may be left over."""
    pairs = size // 2

    def every_second(portion: Element, first: int) -> Element:
        last = len(portion.shape) - 1
        return m.element(m.writer.sliced(portion.array, last, first, pairs, 2))

    earlier, later = [[every_second(portion, first) for portion in states] for first in (0, 1)]
    both = fold.combine(
        m, *[tuple(portion) if several else portion[0] for portion in (earlier, later)]
    )
    out = [whole(m, portion, (*states[0].shape[:-1], pairs)) for portion in parts_of(both)]
    if size % 2:
        axis = len(states[0].shape) - 1
        ends = [m.writer.sliced(portion.array, axis, size - 1, 1) for portion in states]
        out = [
            m.element(m.writer.joined([m.array(portion, end.dtype), end], axis))
            for portion, end in zip(out, ends, strict=True)
        ]
    return out


def parts_of(state: Any) -> tuple[Any, ...]:
    return state if isinstance(state, tuple) else (state,)


def whole(m: UfuncAlgebra, portion: Any, shape: Shape) -> Element:
    """A part of a state, broadcast to a shape."""
    symbol = portion.array if isinstance(portion, Element) else m.writer.constant(portion)
    return m.element(m.writer.expanded(symbol, shape))

"""Write random words as the formula of their blocks: the same bits, from the same keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.specs import Spec
from funcgrad.interop.onnx.element_algebra import ElementAlgebra
from funcgrad.interop.onnx.graph_writer import (
    GraphWriter,
    Symbol,
    cast_to,
    expanded,
    joined,
    reshaped,
    sliced,
)

_UINT64: Final = np.dtype(np.uint64)


def random_words(
    writer: GraphWriter,
    block: Callable[..., Sequence[Any]],
    params: Mapping[str, Any],
    operands: Sequence[Symbol],
    spec: Spec,
) -> Symbol:
    """Random words of a shape, see ``structure.Random``."""
    m = ElementAlgebra(writer)
    key = cast_to(writer, operands[0], _UINT64)
    lead = key.shape[:-1]
    first, second = [
        reshaped(writer, sliced(writer, key, len(lead), place, 1), lead) for place in (0, 1)
    ]
    if len(operands) > 1:
        count, stack = spec.shape[-1], spec.shape[:-1]
        numbers = cast_to(writer, operands[1], _UINT64)
    else:
        count = prod(spec.shape[len(lead) :])
        blocks = -(-count // _words(block, params))
        stack = (*lead, blocks)
        first, second = [reshaped(writer, word, (*lead, 1)) for word in (first, second)]
        numbers = writer.constant(np.arange(blocks, dtype=np.uint64))
    if not prod(spec.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    words = [
        reshaped(writer, expanded(writer, m.symbol(word, _UINT64), stack), (*stack, 1))
        for word in block(m, *map(m.element, (first, second, numbers)), **params)
    ]
    together = joined(writer, words, len(stack))
    if len(operands) == 1:
        together = reshaped(writer, together, (*lead, stack[-1] * len(words)))
    together = sliced(writer, together, len(together.shape) - 1, 0, count)
    return reshaped(writer, together, spec.shape)


def _words(block: Callable[..., Sequence[Any]], params: Mapping[str, Any]) -> int:
    """How many words a block has."""
    zero = np.zeros((), np.uint64)
    with np.errstate(all="ignore"):
        return len(block(intrinsics, zero, zero, zero, **params))

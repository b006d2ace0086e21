"""Cotangents that are absent for whole examples of a stack, through operations that mix elements.

An operation on matrices mixes the elements of each matrix, and no two matrices of a stack. So where
nothing of an example's results has a cotangent, nothing of its arguments has one, though numbers
of that example be NaN; and what examples share gets a sum of the others.

>>> ct = Masked(np.array([1.0, 0.0]), np.array([True, False]))
>>> _present_examples([ct], [np.ones(2)], (0,))
array([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from funcgrad.primitives.broadcasting import broadcast_to, sum_to
from funcgrad.primitives.logic import logical_or
from funcgrad.primitives.reduction import reduce_any
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import reshape
from funcgrad.shape import Shape, dtype_of, shape_of
from funcgrad.trace import RAW, Value
from funcgrad.transforms.masked import Cotangent, Masked, broadcast, fit_cotangent

__all__ = ["pulled_by_example"]


def pulled_by_example(
    transposed: Callable[..., Sequence[Value]],
    cores: tuple[Sequence[int], Sequence[int]],
    cts: Sequence[Cotangent | None],
    outs: Sequence[Value],
    primals: Sequence[Value],
) -> Sequence[Value]:
    """The cotangents of arguments: none for an example of whose results none has one."""
    full = [None if ct is None else fit_cotangent(ct, x) for ct, x in zip(cts, outs, strict=True)]
    flags = _present_examples(cts, outs, cores[0]) if cores[0] else None
    if flags is None:
        return transposed(tuple(full), tuple(outs), *primals)
    stacks = [shape_of(x)[: len(shape_of(x)) - r] for x, r in zip(primals, cores[1], strict=True)]
    shared = any(stack != shape_of(flags) for stack in stacks)
    results = tuple(_without_absent(flags, outs, cores[0], shared))
    arguments = _without_absent(flags, primals, cores[1], shared)
    pulled = transposed(tuple(full), results, *arguments)
    return _where_present(flags, pulled, primals, cores[1])


def _present_examples(
    cts: Sequence[Cotangent | None], outs: Sequence[Value], ranks: Sequence[int]
) -> Value | None:
    """Flags of the examples of which a cotangent is present; None where that is sure of all.

    Parameters
    ----------
    cts, outs : sequences
        Of the results.
    ranks : sequence of int
        How many axes of each are not the stack's.
    """
    flags: Value | None = None
    for ct, out, rank in zip(cts, outs, ranks, strict=True):
        if ct is None:
            continue
        if type(ct) is not Masked:
            return None
        mask, count = broadcast(ct.mask, shape_of(out)), len(shape_of(out))
        present = reduce_any(mask, axis=tuple(range(count - rank, count)), keepdims=False)
        flags = present if flags is None else logical_or(flags, present)
    if flags is None or (type(flags) in RAW and np.all(flags)):
        return None
    return flags


def _without_absent(
    flags: Value, values: Sequence[Value], ranks: Sequence[int], shared: bool
) -> list[Value]:
    """Values of which those of absent examples are finite, where examples share an argument.

    A pullback then sums over examples, and NaN of an absent one would reach the sum.
    """
    if not shared:
        return list(values)
    return [_harmless(flags, x, rank) for x, rank in zip(values, ranks, strict=True)]


def _harmless(flags: Value, x: Value, rank: int) -> Value:
    shape = shape_of(x)
    core = shape[len(shape) - rank :]
    if shape[: len(shape) - rank] != shape_of(flags):  # several examples have it
        return x
    is_square = rank == 2 and core[0] == core[1]
    other = np.eye(core[0], dtype=dtype_of(x)) if is_square else np.ones(core, dtype_of(x))
    return where(_spread(flags, core), x, other)


def _spread(flags: Value, core: Shape) -> Value:
    lead: Shape = shape_of(flags)
    kept = reshape(flags, shape=lead + (1,) * len(core))
    return broadcast_to(kept, shape=lead + core)


def _where_present(
    flags: Value, pulled: Sequence[Value], primals: Sequence[Value], ranks: Sequence[int]
) -> list[Cotangent | Callable[[], Cotangent]]:
    """Cotangents of arguments, absent where no example that has them is present."""

    def masked(g: Value, x: Value, rank: int) -> Cotangent:
        shape: Shape = shape_of(x)
        mask = _spread(flags, shape[len(shape) - rank :])
        if shape_of(mask) != shape:
            mask = sum_to(mask, shape) != 0
        g = g() if callable(g) else g
        return None if g is None else Masked(where(mask, g, 0), mask)

    triples = zip(pulled, primals, ranks, strict=True)
    return [
        partial(masked, *triple) if callable(triple[0]) else masked(*triple) for triple in triples
    ]

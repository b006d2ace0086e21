"""Cotangents that are absent for whole examples of a stack, through operations that mix elements.

An operation on matrices mixes the elements of each matrix, but no two matrices of a stack, as the
``cores`` of its structure say. So where no result of an example has a cotangent, no argument of it
has one, even if its values are NaN or the derivative refuses them: the derivative is then computed
at the values of an example that is present.

>>> ct = Masked(np.array([1.0, 0.0]), np.array([True, False]))
>>> _present_examples([ct], [np.ones(2)], (2,))
array([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TypeAlias

import numpy as np

from funcgrad._core.specs import Shape, shape_of
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives.broadcasting import broadcast_to, sum_to
from funcgrad._primitives.logic import logical_or
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.stand_in_examples import with_stand_in
from funcgrad._primitives.structural import reshape
from funcgrad._transforms.active_examples import none_active, with_active
from funcgrad._transforms.masked import Cotangent, Masked, broadcast, chosen, plain

Transposed: TypeAlias = Callable[
    [Sequence["Cotangent | None"], Sequence[Value], Sequence[Value]], Sequence[Value]
]
"""``(cotangents, results, arguments)`` to cotangents of the arguments. One of these may be a
function without arguments, which is called if anything follows that argument."""


def pulled_by_example(
    transposed: Transposed,
    cores: Sequence[int],
    cts: Sequence[Cotangent | None],
    outs: Sequence[Value],
    primals: Sequence[Value],
) -> Sequence[Cotangent | Callable[[], Cotangent]]:
    """The cotangents of arguments, absent for examples whose results have no cotangent.

    ``transposed`` is called with results and arguments in which absent examples have a present
    one's values. ``cores`` has the number of axes of each argument that are not the stack's; it is
    empty where there is no stack, which is the first axes of results and cotangents.
    """
    if not cores or not all(ct is None or type(ct) is Masked for ct in cts):
        return transposed(cts, outs, primals)
    stacks = [_stack(x, core) for x, core in zip(primals, cores, strict=True)]
    flags = _present_examples(cts, outs, np.broadcast_shapes(*stacks))
    if flags is None:
        return transposed(cts, outs, primals)
    for ct in cts:
        plain(ct)  # is selected among all examples, not among those that are active below
    anyone = reduce_any(flags, axis=tuple(range(len(shape_of(flags)))), keepdims=False)
    if none_active(anyone):
        return [None] * len(primals)
    owners = [_reduced(flags, stack) for stack in stacks]
    with with_active(anyone):  # of a batch around, to which there is one stack
        pulled = transposed(
            cts,
            [_of_present(flags, out) for out in outs],
            [_of_present(mask, x) for mask, x in zip(owners, primals, strict=True)],
        )
    return [
        partial(_made, anyone, mask, g, x) if callable(g) else _chosen(mask, g, x)
        for mask, g, x in zip(owners, pulled, primals, strict=True)
    ]


def _stack(x: Value, core: int) -> Shape:
    shape: Shape = shape_of(x)
    return shape[: len(shape) - core]


def _present_examples(
    cts: Sequence[Cotangent | None], outs: Sequence[Value], stack: Shape
) -> Value | None:
    """Flags of the examples that have a cotangent; None where all surely have one."""
    flags: Value | None = None
    for ct, out in zip(cts, outs, strict=True):
        if ct is None:
            continue
        mask = broadcast(ct.mask, shape_of(out))
        axes = tuple(range(len(stack), len(shape_of(out))))
        present = reduce_any(mask, axis=axes, keepdims=False)
        flags = present if flags is None else logical_or(flags, present)
    if flags is None or (type(flags) in RAW and np.all(flags)):
        return None
    return flags


def _reduced(flags: Value, stack: Shape) -> Value:
    """Reduce flags to a smaller stack, whose examples are broadcast: any use of one counts."""
    return flags if shape_of(flags) == stack else sum_to(flags, stack) != 0


def _of_present(flags: Value, x: Value) -> Value:
    """Replace the values of absent examples by the values of a present one."""
    stack, shape = shape_of(flags), shape_of(x)
    if not stack:
        return x
    count, core = prod(stack), shape[len(stack) :]
    flat = with_stand_in(reshape(flags, shape=(count,)), reshape(x, shape=(count, *core)))
    return reshape(flat, shape=shape)


def _made(anyone: Value, flags: Value, make: Callable[[], Value], x: Value) -> Cotangent:
    with with_active(anyone):
        g = make()
    return _chosen(flags, g, x)


def _chosen(flags: Value, g: Value, x: Value) -> Cotangent:
    """The cotangent of an argument, masked to the examples that are present."""
    if g is None:
        return None
    stack, shape = shape_of(flags), shape_of(x)
    wide = reshape(flags, shape=(*stack, *(1,) * (len(shape) - len(stack))))
    return chosen(broadcast(g, shape), broadcast_to(wide, shape=shape))

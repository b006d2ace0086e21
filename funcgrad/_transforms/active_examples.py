"""The examples of a batch that take part in a function, while it runs for all of them.

Where each example of ``vmap`` chooses a branch, or ends a loop, by itself, functions run for all
examples, and some do not take part. For an operation that may refuse their values, and for its
derivative, the values of an example that takes part replace theirs.

>>> import numpy as np
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def inverse(x):
...     return fg.cond(fnp.linalg.det(x) != 0, fnp.linalg.inv, lambda x: x, x)
>>> fg.vmap(inverse)(np.array([np.zeros((1, 1)), 2.0 * np.eye(1)]))
Tensor([[[0. ]],
        [[0.5]]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Any

import numpy as np

from funcgrad._core.context import current, entered
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import shape_of
from funcgrad._core.structure.structures import Factored, Opaque
from funcgrad._core.trace import RAW, Trace, Value
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.logic import logical_and
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.selection import where
from funcgrad._primitives.stand_in_examples import stand_in_of
from funcgrad._primitives.structural import unfollowed


def with_active(mask: Value) -> AbstractContextManager[None]:
    """Within this context, only examples for which a truth value holds take part.

    A truth value that is the same for all changes nothing.
    """
    context = current()
    if is_batched(mask):
        context = context._replace(active_examples=active_mask(mask))
    return entered(context)


def active_mask(mask: Value) -> Value:
    """A truth value that holds for the examples that take part."""
    around = current().active_examples
    return mask if around is None else logical_and(around, mask)


def is_batched(value: Value) -> bool:
    """Whether a value stands for many examples that a running ``vmap`` follows."""
    return bool(batches_of(value))


def none_active(mask: Value) -> bool:
    """Whether a truth value is known to hold for no example."""
    while type(mask) not in RAW and mask._trace.is_batch:
        mask = mask._trace.inner(mask)
    return type(mask) in RAW and not np.any(mask)


def refuses_numbers(operation: Primitive) -> bool:
    """Whether an operation may refuse some values, by its declaration.

    Formulas, sums, products and rearrangements are defined for all values.
    """
    return isinstance(operation.structure, Opaque | Factored) or operation.is_foreign


def with_stand_ins(values: Sequence[Value]) -> tuple[Value, ...]:
    """Replace the values of inactive examples by the values of an active one."""
    context = current()
    mask = context.active_examples
    if mask is None:
        return tuple(values)
    with entered(context._replace(active_examples=None)):
        return tuple([_with_stand_in(mask, x) for x in values])


def _with_stand_in(mask: Value, x: Value) -> Value:
    """Replace elements outside a mask; they then have no derivative."""
    mask, batches = _without(mask, _traces(x)), batches_of(x)
    while type(mask) not in RAW and mask._trace.is_batch and mask._trace not in batches:
        mask = _anyone(mask)
    if type(mask) in RAW or not mask._trace.is_batch or shape_of(mask._value) == (0,):
        return x
    values = unfollowed(x)
    inside = [*takewhile(lambda trace: trace.is_batch, _traces(values))]
    if mask._trace not in inside:
        return x  # a program is written for single examples
    return where(mask, x, _stand_in(mask, values))


def _without(mask: Value, traces: Sequence[Trace]) -> Value:
    """A mask whose tracers stand for many, or belong to some traces.

    A checkpoint stages operations, and evaluates them on values without its tracers.
    """
    if type(mask) in RAW or mask._trace.is_remote:
        return mask
    inside = _without(mask._value, traces)
    if not mask._trace.is_batch and mask._trace not in traces:
        return inside
    return mask if inside is mask._value else mask._trace.rebuild(mask, lambda _: inside)


def _stand_in(mask: Value, x: Value) -> Value:
    """The values that stand in for examples outside a mask."""
    if x._trace is not mask._trace:  # within that batch
        return x._trace.rebuild(x, lambda inside: _stand_in(mask, inside))
    inner = mask._trace.inner
    return _with_stand_in(_anyone(mask), stand_in_of(inner(mask), inner(x)))


def _anyone(mask: Value) -> Value:
    """Whether any example of the innermost batch takes part, as a value of the traces around."""
    return reduce_any(mask._trace.inner(mask), axis=(0,), keepdims=False)


def batches_of(x: Value) -> list[Trace]:
    """The traces, the innermost first, in which a value stands for many."""
    return [trace for trace in _traces(x) if trace.is_batch]


def _traces(x: Value) -> list[Trace]:
    """The traces that follow a value, the innermost first."""
    traces: list[Trace] = []
    while type(x) not in RAW and x._trace is not None:
        traces.append(x._trace)
        x = x._value
    return traces


def examples_at(data: Value, rows: np.ndarray[Any, Any]) -> Value:
    """Some examples of a batch on axis 0."""
    return gather(data, rows, axis=0, unique=True)


def errors_of(
    size: int,
    values: Sequence[Value],
    flags: Sequence[bool],
    retry: Callable[[int, Sequence[Value]], object],
) -> tuple[np.ndarray[Any, Any], list[str]]:
    """The place of each example's error in a list of their names; the first, "", is none.

    ``retry`` runs an operation for some examples. Values with a flag have the batch on axis 0.
    """
    kinds: dict[str, int] = {"": 0}
    answers = np.zeros(size, np.int64)
    waiting = [np.arange(size)]
    while waiting:
        rows = waiting.pop()
        pairs = zip(values, flags, strict=True)
        some = [examples_at(value, rows) if flag else value for value, flag in pairs]
        try:
            retry(len(rows), some)
        except Exception as failure:
            half = len(rows) // 2
            if half:
                waiting += [rows[half:], rows[:half]]
            else:
                answers[rows] = kinds.setdefault(type(failure).__name__, len(kinds))
    return answers, [*kinds]

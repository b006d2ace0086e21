"""Python numbers that differ between the examples of a batch, as loops and branches return them.

A Python number is weak: it takes an array's dtype. A batch of numbers is an array, which would not.
So a number's tracer has a trace just inside of the batch, which converts the array to the dtype of
the other operands. Operations that are not elementwise take the array.

>>> import funcgrad as fg
>>> x = fg.tensor(np.array([3.0, -3.0], np.float32))
>>> fg.vmap(lambda x: fg.cond(x > 0, lambda: 1.0, lambda: 2.0) * x)(x).dtype
dtype('float32')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, dtype_of
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Trace, Value, bind
from funcgrad._core.users_values import is_weak
from funcgrad._primitives.structural import cast
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.composite import Composite, bind_composite
from funcgrad.tensor.tensor import Tensor

_new: Final[Any] = object.__new__


class BatchedNumber(Tensor):
    """A Python number of one example; inside is the tracer of an array's element."""

    __slots__ = ("_trace",)


class NumberTrace(Trace):
    """The trace of a batch's Python numbers.

    Parameters
    ----------
    batch : Trace
        The trace of ``vmap``.
    """

    __slots__ = ()
    title = "vmap"
    has_numbers = True

    def __init__(self, batch: Trace) -> None:
        super().__init__(batch.level + 1)

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Apply an operation to arrays, in the dtype that Python numbers would take."""
        values = [*map(self.inner, args)]
        if not isinstance(primitive.structure, Elementwise):
            return bind(primitive, tuple(values), params)
        flags = [type(arg) is BatchedNumber or is_weak(arg) for arg in args]
        others = {dtype_of(x) for x, flag in zip(values, flags, strict=True) if not flag}
        if not others:
            out = bind(primitive, tuple(values), params)
            return _number(out) if primitive.operator else out
        for k, arg in enumerate(args):
            if type(arg) is BatchedNumber:
                dtype = np.result_type(*others, dtype_of(arg).type(0).item())
                values[k] = cast(values[k], dtype=dtype)
        return bind(primitive, tuple(values), params)

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        """Let an operation that is met as a whole take the arrays."""
        return bind_composite(call, [*map(self.inner, args)])


def with_numbers(values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    """Make Python numbers of the flagged tracers of a batch."""
    return [_number(x) if flag else x for x, flag in zip(values, flags, strict=True)]


def _number(value: Value) -> Value:
    batch: Any = getattr(value, "_trace", None)
    if batch is None or not batch.is_batch:
        return value
    if batch.numbers is None:
        batch.numbers = NumberTrace(batch)
    tracer: BatchedNumber = _new(BatchedNumber)
    tracer._value, tracer._trace = value, batch.numbers
    return tracer


def specs_with_numbers(values: Sequence[Value]) -> list[Spec]:
    """The specs of values, weak for Python numbers."""
    specs = [(x, spec_inside(x)) for x in values]
    return [replace(spec, weak=True) if type(x) is BatchedNumber else spec for x, spec in specs]

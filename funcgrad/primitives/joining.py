"""Joining arrays: primitives of any number of arguments, linear in all of them together.

>>> concatenate(np.zeros(2), np.ones(1), axis=0)
array([0., 0., 1.])
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np

from funcgrad.primitive import OperandText, Primitive, Sample, linear_in_all
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.structural import view
from funcgrad.shape import Spec, shape_of
from funcgrad.structure import Movement
from funcgrad.trace import Raw, Value


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Every part needs the batch axis, and the axis of the operation is one further back."""
    parts = [
        part if flag else broadcast_to(part, shape=(size, *shape_of(part)))
        for part, flag in zip(args, batched, strict=True)
    ]
    return primitive(*parts, axis=params["axis"] + 1)


def _along(axis: int, entry: int | slice) -> Key:
    return Key((*(slice(None),) * axis, entry))


def _sections(ct: Value, *parts: Value, axis: int) -> list[Value]:
    stops = list(accumulate([shape_of(part)[axis] for part in parts]))
    bounds = zip([0, *stops], stops, strict=False)
    return [view(ct, key=_along(axis, slice(start, stop))) for start, stop in bounds]


def _layers(ct: Value, *parts: Value, axis: int) -> list[Value]:
    return [view(ct, key=_along(axis, position)) for position in range(len(parts))]


def _concatenated(*parts: Spec, axis: int) -> Spec:
    shape = parts[0].shape
    size = sum(part.shape[axis] for part in parts)
    dtype = np.result_type(*(part.dtype for part in parts))
    return Spec((*shape[:axis], size, *shape[axis + 1 :]), dtype)


def _stacked(*parts: Spec, axis: int) -> Spec:
    shape = parts[0].shape
    dtype = np.result_type(*(part.dtype for part in parts))
    return Spec((*shape[:axis], len(parts), *shape[axis:]), dtype)


def _concatenate_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 3))
    yield Sample((x, x[::-1, ::-1]), {"axis": 0})
    yield Sample((x, rng.standard_normal((2, 1)), x[:, :0]), {"axis": 1})
    yield Sample((x,), {"axis": 0})
    yield Sample((x, 1j * x), {"axis": 1})


def _stack_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 3))
    yield Sample((x, x[::-1, ::-1]), {"axis": 0})
    yield Sample((x, x, -x), {"axis": 2})
    yield Sample((1.5, np.float64(2.0), np.array(3.0)), {"axis": 0})
    yield Sample((x,), {"axis": 1})
    yield Sample((x[:0], x[:0]), {"axis": 1})
    yield Sample((x, 1j * x), {"axis": 1})


def _section_windows(result: Raw, *parts: Raw, axis: int) -> Iterator[tuple[Any, Any]]:
    stop = 0
    for part in parts:
        start, stop = stop, stop + part.shape[axis]
        yield result[_along(axis, slice(start, stop))], part


def _layer_windows(result: Raw, *parts: Raw, axis: int) -> Iterator[tuple[Any, Any]]:
    for position, part in enumerate(parts):
        yield result[(*_along(axis, position), ...)], part


def _rows_last(*_: Any, axis: int) -> dict[str, Any] | None:
    return {"axis": axis - 1} if axis else None


concatenate: Primitive = Primitive(
    "concatenate",
    lambda *parts, axis: np.concatenate(parts, axis),
    _concatenated,
    linear_in_all(_sections),
    _batch,
    _concatenate_samples,
    lambda *parts, axis: f"np.concatenate([{', '.join(map(str, parts))}], {axis})",
    structure=Movement(_section_windows, rows_last=_rows_last, owns=True),
)


def _stack_source(*parts: OperandText, axis: int) -> str:
    key = ", ".join([":"] * axis + ["None"])  # np.stack does the same, in three times the time
    return f"np.concatenate([{', '.join([f'{part.array}[{key}]' for part in parts])}], {axis})"


stack: Primitive = Primitive(
    "stack",
    lambda *parts, axis: np.stack(parts, axis),
    _stacked,
    linear_in_all(_layers),
    _batch,
    _stack_samples,
    _stack_source,
    structure=Movement(_layer_windows, rows_last=_rows_last, owns=True),
)

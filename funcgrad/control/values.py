"""Values and specs that go in and out of programs.

>>> as_spec(2, Spec((), np.dtype(np.float32)))
np.float32(2.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.structural import cast
from funcgrad.programs.equation import spec_inside
from funcgrad.shape import Spec, shape_of
from funcgrad.trace import RAW, Value

__all__ = ["as_spec", "batched_spec", "strong", "with_batch"]


def as_spec(value: Value, spec: Spec) -> Value:
    """A value in the dtype, and of the weakness, that a program's input has."""
    own = spec_inside(value)
    if own == spec or (spec.weak and own.dtype == spec.dtype and type(value) not in RAW):
        return value
    if type(value) in RAW and not own.shape:
        made: Any = spec.dtype.type(value)
        return made.item() if spec.weak else made
    return cast(value, dtype=spec.dtype)


def strong(spec: Spec) -> Spec:
    """The spec of an array or a number of a dtype that counts."""
    return replace(spec, weak=False) if spec.weak else spec


def batched_spec(spec: Spec, size: int, flag: bool) -> Spec:
    """The spec of a value that has a batch on axis 0, where it is flagged."""
    return Spec((size, *spec.shape), spec.dtype) if flag else spec


def with_batch(
    values: Sequence[Value], flags: Sequence[bool], wanted: Sequence[bool], size: int
) -> list[Value]:
    """Values, those that are wanted with a batch and have none repeated along axis 0."""
    return [
        broadcast_to(value, shape=(size, *shape_of(value))) if want and not flag else value
        for value, flag, want in zip(values, flags, wanted, strict=True)
    ]

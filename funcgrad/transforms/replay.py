"""Pushing tangents forward through a record: what ``linearize`` returns.

The record keeps the values at which it was made, so nothing is evaluated again.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from funcgrad.trace import Value
from funcgrad.transforms.pull import (
    Entry,
    pull_bilinear,
    pull_binary,
    pull_bundle,
    pull_mark,
    pull_projection,
    pull_unary,
)
from funcgrad.transforms.push import push_forward

__all__ = ["Tangents", "push_through"]

Tangents = MutableMapping[int, Value]
_NO_PARAMS: Final[Mapping[str, Any]] = MappingProxyType({})


def push_through(entries: Sequence[Entry], tangents: Tangents) -> None:
    """Add the tangents of all variables that entries define to those of their operands.

    Parameters
    ----------
    entries : sequence of Entry
    tangents : mutable mapping
        By variable; what is missing has no tangent.
    """
    for entry in entries:
        pull, index = entry[:2]
        if pull is pull_unary:
            _, _, primitive, operand, x, out = entry
            tangent = push_forward(primitive, (x,), (tangents.get(operand),), out, _NO_PARAMS)
        elif pull is pull_binary or pull is pull_bilinear:
            _, _, primitive, first, second, x, y, out = entry
            pair = tangents.get(first), tangents.get(second)
            tangent = push_forward(primitive, (x, y), pair, out, _NO_PARAMS)
        elif pull is pull_bundle:
            tangent = entry[4]([tangents.get(operand) for operand in entry[2]])
        elif pull is pull_projection:
            tangent = _sum(tangents[entry[2]][entry[3]], tangents.get(entry[5]))
        elif pull is pull_mark:
            tangent = tangents.get(entry[2])
        elif len(entry) == 4:  # a call that pushes tangents by itself, see checkpoint
            tangent = entry[3].push_aside(tangents)
        else:
            _, _, primitive, operands, primals, out, params = entry
            given = tuple([tangents.get(operand) for operand in operands])
            tangent = push_forward(primitive, primals, given, out, params)
        if tangent is not None:
            tangents[index] = tangent


def _sum(first: Value, second: Value) -> Value:
    if first is None or second is None:
        return second if first is None else first
    return first + second

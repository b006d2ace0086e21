"""Functions from lists of values to lists of values: what calls are made of.

Their batching and their derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from funcgrad.trace import Value, begin_level
from funcgrad.transforms.batch import Batcher
from funcgrad.transforms.forward import Pusher
from funcgrad.transforms.masked import fit_cotangent
from funcgrad.transforms.record import Recorder

__all__ = ["FlatFunction", "batched_flat", "pull_values", "push_values", "run_batched"]

FlatFunction: TypeAlias = Callable[[Sequence[Value]], Sequence[Value]]


def run_batched(
    function: FlatFunction, size: int, args: Sequence[Value], flags: Sequence[bool]
) -> tuple[list[Value], list[bool]]:
    """Run a function on a batch.

    Parameters
    ----------
    function : callable
    size : int
    args : sequence of values
    flags : sequence of bool
        Which arguments carry the batch, on axis 0.

    Returns
    -------
    outs : list of values
        None stays None.
    flags : list of bool
        Which results carry the batch, on axis 0.
    """
    with begin_level() as level:
        batcher = Batcher(level, size)
        try:
            outs = function(
                [
                    batcher.follow(arg) if flag and arg is not None else arg
                    for arg, flag in zip(args, flags, strict=True)
                ]
            )
        finally:
            batcher.close()
    parts = [(None, False) if out is None else batcher.parts(out) for out in outs]
    return [value for value, _ in parts], [flag for _, flag in parts]


def batched_flat(function: FlatFunction, size: int, flags: Sequence[bool]) -> FlatFunction:
    """The function on a batch, with the batch on axis 0 of every result."""

    def batched(args: Sequence[Value]) -> list[Value]:
        with begin_level() as level:
            batcher = Batcher(level, size)
            try:
                outs = function(
                    [
                        batcher.follow(arg) if flag else arg
                        for arg, flag in zip(args, flags, strict=True)
                    ]
                )
                return [batcher.batch_of(out) for out in outs]
            finally:
                batcher.close()

    return batched


def push_values(
    function: FlatFunction, args: Sequence[Value], tangents: Sequence[Value]
) -> list[Value]:
    """The tangents of a function's results, for such of its arguments; None is a zero."""
    with begin_level() as level:
        pusher = Pusher(level)
        try:
            outs = function([pusher.dual(x, t) for x, t in zip(args, tangents, strict=True)])
        finally:
            pusher.close()
    return [pusher.parts(out)[1] for out in outs]


def pull_values(function: FlatFunction, args: Sequence[Value], cts: Sequence[Value]) -> list[Value]:
    """The cotangents of a function's arguments, for such of its results; None is a zero."""
    with begin_level() as level:
        recorder = Recorder(level)
        try:
            outs = function([recorder.follow(arg) for arg in args])
        finally:
            record = recorder.close()
    pulled = record.pull([recorder.index_of(out) for out in outs], cts)
    return [
        None if ct is None else fit_cotangent(ct, x) for ct, x in zip(pulled, args, strict=True)
    ]

"""Random words as text: blocks of a cipher, as many at once as a register has lanes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.plan_steps import Drawing
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import merged, walk
from funcgrad._core.specs import Shape
from funcgrad._core.structure.index_maps import dense_strides

_WORD = np.dtype(np.uint64)


def write_drawing(site: FunctionSite, step: Drawing) -> None:
    """Write random words: consecutive blocks, or blocks that integers choose."""
    site.work += 40 * prod(site.plan.specs[step.variable].shape)
    if len(step.equation.operands) == 1:
        _write_stream(site, step)
    else:
        _write_chosen(site, step)


def _key(lanes: Lanes, address: str) -> tuple[Value, Value]:
    """The two words of a key, in all lanes."""
    first, second = [lanes.splat(lanes.single.load(address, _WORD, k)) for k in range(2)]
    return first, second


def _write_stream(site: FunctionSite, step: Drawing) -> None:
    """Write blocks 0, 1, 2 and so on for each key.

    The last ones are computed on the stack, since not all of their words are wanted.
    """
    lines, operand = site.lines, step.equation.operands[0]
    keys, target = prod(site.plan.specs[operand].shape[:-1]), site.pointer(step.variable)
    count = prod(site.plan.specs[step.variable].shape) // keys
    width = 1
    while width < site.module.bits // 64 and width * step.size < count:
        width *= 2
    lanes, together = Registers(lines, width), width * step.size
    room = lines.room(f"[{together} x i64]")

    def one_key(index: str, _: Sequence[str]) -> Sequence[str]:
        source = lines.address(site.at(operand), lines.op(f"mul i64 {index}, 2"), "i64")
        key = _key(lanes, source)
        begin = lines.address(target, lines.op(f"mul i64 {index}, {count}"), "i64")

        def blocks(start: str, _: Sequence[str]) -> Sequence[str]:
            first = Value(lines.op(f"udiv i64 {start}, {step.size}"), _WORD, lanes.single)
            number = lanes.splat(first) + lanes.listed(range(width), _WORD)
            wanted = lines.op(f"sub i64 {count}, {start}")
            is_partial = lines.op(f"icmp slt i64 {wanted}, {together}")
            there = lines.address(begin, start, "i64")
            place = lines.op(f"select i1 {is_partial}, ptr {room}, ptr {there}")
            for k, word in enumerate(step.block(lanes, *key, number)):
                lanes.scattered(lines.address(place, k, "i64"), word, step.size)

            def copy() -> None:
                size = lines.op(f"mul i64 {wanted}, {_WORD.itemsize}")
                lines.call("ptr", "memcpy", ("ptr", there), ("ptr", room), ("i64", size))

            lines.when(is_partial, copy)
            return ()

        lines.counted(count, blocks, step=together)
        return ()

    lines.counted(keys, one_key)


def _write_chosen(site: FunctionSite, step: Drawing) -> None:
    """Write the first words of the blocks that the second operand chooses."""
    lines, plan = site.lines, site.plan
    keys, numbers = step.equation.operands
    *leading, words = plan.specs[step.variable].shape
    dtype, lanes = plan.specs[numbers].dtype, Registers(lines, 1)
    key_strides = [2 * stride for stride in _broadcast(plan.specs[keys].shape[:-1], len(leading))]
    strides = [
        key_strides,
        _broadcast(plan.specs[numbers].shape, len(leading)),
        [words * stride for stride in dense_strides(leading)],
    ]
    sizes, strides = merged(leading, *strides)

    def one(at: Sequence[str]) -> None:
        key = _key(lanes, lines.address(site.at(keys), at[0], "i64"))
        number = lanes.load(site.at(numbers), dtype, at[1])
        block = step.block(lanes, *key, lanes.astype(number, _WORD))
        for k, word in enumerate(block[:words]):
            place = lines.address(site.pointer(step.variable), at[2], "i64")
            lanes.store(place, word, k)

    walk(lines, sizes, strides, ["0"] * len(strides), one)


def _broadcast(shape: Shape, rank: int) -> list[int]:
    """Strides of an array beside arrays of a rank; 0 along axes of size 1."""
    return [*[0] * (rank - len(shape)), *dense_strides(shape)]

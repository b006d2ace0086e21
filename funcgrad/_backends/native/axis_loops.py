"""Walks through arrays: loops over axes, along which several places move at once.

>>> merged((2, 3, 4), (12, 4, 1), (0, 0, 0))  # one axis suffices
([24], [[1], [0]])
>>> merged((2, 3, 1), (3, 1, 0), (1, 2, 0))
([2, 3], [[3, 1], [1, 2]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from funcgrad._backends.native.function_text import FunctionText


def merged(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """A walk with as few axes as possible: sizes, and strides for each place that moves."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        here = [along[axis] for along in strides]
        if sizes and all(
            before[-1] == step * size for before, step in zip(steps, here, strict=True)
        ):
            sizes[-1] *= size
            for before, step in zip(steps, here, strict=True):
                before[-1] = step
        else:
            sizes.append(size)
            for before, step in zip(steps, here, strict=True):
                before.append(step)
    return sizes, steps


def walk(
    lines: FunctionText,
    sizes: Sequence[int],
    strides: Sequence[Sequence[int]],
    places: Sequence[str],
    step: Callable[[Sequence[str]], None],
) -> None:
    """Write loops over axes, the last one innermost; none of them is empty.

    Parameters
    ----------
    lines : FunctionText
    sizes : sequence of int
    strides : sequence of sequence of int
        For each place how far it moves along each axis.
    places : sequence of str
        Where they begin.
    step : callable
        Writes what is done at the places.
    """
    if not sizes:
        step(places)
        return

    def one(index: str, _: Sequence[str]) -> Sequence[str]:
        moved = [
            shifted(lines, place, index, along[0])
            for place, along in zip(places, strides, strict=True)
        ]
        walk(lines, sizes[1:], [along[1:] for along in strides], moved, step)
        return ()

    lines.counted(sizes[0], one)


def shifted(lines: FunctionText, place: str, index: str, stride: int) -> str:
    """Write a place so many strides further on."""
    if not stride:
        return place
    offset = index if stride == 1 else lines.op(f"mul i64 {index}, {stride}")
    return offset if place == "0" else lines.op(f"add i64 {place}, {offset}")

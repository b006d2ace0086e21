"""The sizes of windows that slide over arrays, and places in these arrays as text.

A window that moves by several elements reads every second or third element. Such arrays are
divided into *phases*, arrays of the elements of equal remainder, in which windows move by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.window_steps import WindowProduct


class WindowSizes:
    """The sizes of windows, and how the places of their elements follow from their numbers.

    Attributes
    ----------
    examples, groups, channels, filters : int
        Channels and filters of one group.
    space, sizes, places : tuple of int
        The sizes of x, of a window, and the numbers of windows, along each axis.
    taps, count : int
        The elements of a window, and the windows of an example.
    phases, box : tuple of int
        How many phases windows read, and their sizes. If windows move by one, there is one phase.
    strides : tuple of int
        The strides of a phase.
    area, channel : int
        The elements of a phase, and of all of them.
    line : int
        The length of the joined rows of places.
    reach : int
        How far the last element of a window lies behind the first one, in a phase.
    products : int
        The products of elements for a group of an example.
    """

    def __init__(self, step: WindowProduct) -> None:
        (self.examples, channels, *space), kernel, y = [step.shapes[name] for name in "xky"]
        self.groups, self.space, self.sizes, self.places = (
            step.form.groups,
            tuple(space),
            kernel[2:],
            y[2:],
        )
        self.channels, self.filters = channels // self.groups, kernel[0] // self.groups
        self.taps, self.count = prod(self.sizes), prod(self.places)
        self.products = self.filters * self.channels * self.taps * self.count
        self.dilations = step.form.dilations
        axes = zip(step.form.strides, self.places, strict=True)
        self.moves = tuple([1 if count == 1 else stride for stride, count in axes])
        furthest = [d * (n - 1) for d, n in zip(self.dilations, self.sizes, strict=True)]
        pairs = zip(self.moves, furthest, strict=True)
        self.phases = tuple([min(move, far + 1) for move, far in pairs])
        self.box = tuple([-(-n // move) for n, move in zip(self.space, self.moves, strict=True)])
        self.strides, self.area = strides_of(self.box), prod(self.box)
        self.phase_strides = tuple([stride * self.area for stride in strides_of(self.phases)])
        self.channel = self.area * prod(self.phases)
        self.line = 1 + _sum([n - 1 for n in self.places], self.strides)
        steps = [far // move for far, move in zip(furthest, self.moves, strict=True)]
        self.reach = _sum(steps, self.strides)

    @property
    def group_sizes(self) -> tuple[int, int]:
        """The elements of a group of an example, in x and in y."""
        return self.channels * prod(self.space), self.filters * self.count

    @property
    def has_phases(self) -> bool:
        """Whether x is divided into phases."""
        return max(self.moves) > 1

    @property
    def fills_phases(self) -> bool:
        """Whether windows read elements of each phase."""
        axes = zip(self.moves, self.dilations, self.sizes, strict=True)
        return all(len({d * w % move for w in range(n)}) == move for move, d, n in axes)


def strides_of(sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple([*accumulate(reversed(sizes[1:]), int.__mul__, initial=1)][::-1])


def _sum(numbers: Sequence[int], strides: Sequence[int]) -> int:
    return sum([number * stride for number, stride in zip(numbers, strides, strict=True)])


def loops(
    lines: FunctionText,
    sizes: Sequence[int | str],
    body: Callable[[list[str]], None],
    indices: Sequence[str] = (),
) -> None:
    """Write loops over axes, none of them empty."""
    if not sizes:
        body([*indices])
        return

    def one(index: str, _: Sequence[str]) -> Sequence[str]:
        loops(lines, sizes[1:], body, [*indices, index])
        return ()

    lines.counted(sizes[0], one)


def place_of(lines: FunctionText, indices: Sequence[str], strides: Sequence[int]) -> str:
    """The number of elements in front of a place."""
    place = "0"
    for index, stride in zip(indices, strides, strict=True):
        if index != "0" and stride:
            offset = lines.times(index, stride)
            place = offset if place == "0" else lines.op(f"add i64 {place}, {offset}")
    return place

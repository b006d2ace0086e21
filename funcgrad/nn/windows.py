"""Normalize the options of convolutions and pooling to one integer for each axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from funcgrad._core.specs import Shape, shape_of
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.structural import place, view
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integers, is_integer, sequence

_MOST: Final = 2**31 - 1

Sizes: TypeAlias = int | Sequence[int]
Padding: TypeAlias = str | int | Sequence[int] | Sequence[tuple[int, int]]


def numbers_of(x: Sizes, rank: int, least: int, operation: str, argument: str) -> tuple[int, ...]:
    """Return an integer for each of ``rank`` axes; a single integer is for all.

    Raises
    ------
    ShapeError
        The count of integers is not the count of axes, or an integer is too small or too large.
    """
    numbers = integers(x, operation, argument)
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank:
        raise ShapeError(
            f"{operation}: {argument} has {len(numbers)} integers, {numbers}, for"
            f" {_axes(rank)}. Give one for each, or one for all."
        )
    if min(numbers, default=least) < least:
        raise ShapeError(f"{operation}: {argument} has to be at least {least}, but is {numbers}.")
    if max(numbers, default=0) > _MOST:
        raise ShapeError(f"{operation}: {argument} is {numbers}, which is more than {_MOST}.")
    return numbers


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def padding_of(
    padding: Padding, sizes: Shape, window: Shape, strides: Shape, dilations: Shape, operation: str
) -> tuple[tuple[int, int], ...]:
    """The padding before and behind each axis.

    Parameters
    ----------
    padding : {"valid", "same"}, int, sequence of int, or of pairs
        "valid" adds nothing. With "same" the size of the result is the size divided by the stride,
        rounded up; an odd padding is larger behind the axis.
    sizes, window, strides, dilations : tuple of int
    operation : str

    Raises
    ------
    ArgumentError, ShapeError
    """
    rank = len(sizes)
    if isinstance(padding, str):
        if padding.lower() == "valid":
            return ((0, 0),) * rank
        if padding.lower() != "same":
            raise ArgumentError(
                f"{operation}: padding has to be 'valid', 'same', or integers, not {padding!r}."
            )
        margins = []
        for size, width, stride, dilation in zip(sizes, window, strides, dilations, strict=True):
            count = -(-size // stride)
            total = max((count - 1) * stride + dilation * (width - 1) + 1 - size, 0)
            margins.append((total // 2, total - total // 2))
        return tuple(margins)
    if not is_integer(padding):
        parts = sequence(padding, operation, "padding")
        if not all(map(is_integer, parts)):
            pairs = [numbers_of(pair, 2, 0, operation, "padding") for pair in parts]
            if len(pairs) != rank:
                raise ShapeError(
                    f"{operation}: padding has {len(pairs)} pairs for {_axes(rank)}. Give one each."
                )
            return tuple([(before, behind) for before, behind in pairs])
    return tuple([(n, n) for n in numbers_of(padding, rank, 0, operation, "padding")])  # type: ignore[arg-type]  # no pairs


def padded(value: Value, widths: Sequence[tuple[int, int]]) -> Value:
    """Pad the last axes of an array with zeros; negative widths crop it."""
    shape = shape_of(value)
    lead, sizes = shape[: len(shape) - len(widths)], shape[len(shape) - len(widths) :]
    if any(before < 0 or behind < 0 for before, behind in widths):
        inner = [
            slice(max(-before, 0), size + min(behind, 0))
            for size, (before, behind) in zip(sizes, widths, strict=True)
        ]
        value = view(value, key=Key((..., *inner)))
        widths = [(max(before, 0), max(behind, 0)) for before, behind in widths]
        sizes = shape_of(value)[len(lead) :]
    if not any(map(any, widths)):
        return value
    key = [slice(before, before + size) for size, (before, _) in zip(sizes, widths, strict=True)]
    outer = [size + sum(width) for size, width in zip(sizes, widths, strict=True)]
    return place(value, key=Key((*(slice(None),) * len(lead), *key)), shape=(*lead, *outer))


def check_window(
    sizes: Shape, window: Shape, dilations: Shape, widths: Sequence[tuple[int, int]], operation: str
) -> None:
    """Check that a window fits on the axes, unless an axis is empty.

    Raises
    ------
    ShapeError
        A window is empty, or larger than the padded axis.
    """
    if 0 in window:
        raise ShapeError(f"{operation}: a window of {window} is empty.")
    fits = [
        size + sum(width) > dilation * (n - 1)
        for size, width, dilation, n in zip(sizes, widths, dilations, window, strict=True)
    ]
    if not all(fits) and 0 not in sizes:
        raise ShapeError(
            f"{operation}: a window of {window} with the dilation {dilations} is larger than the"
            f" sizes {sizes} with the padding {tuple(widths)}."
        )

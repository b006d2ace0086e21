"""How images go on beyond their edges, and options that all functions of images share.

>>> import funcgrad.numpy as fnp
>>> extended(fnp.asarray([1.0, 2.0, 3.0]), [(2, 1)], ["reflect"], 0.0)
Tensor([2., 1., 1., 2., 3., 3.])
>>> folded(fnp.asarray([-1.0, 3.5]), 3, "mirror")
Tensor([1. , 0.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import checked_dtype, operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.options import integers
from funcgrad.tensor.tensor import ArrayLike, Tensor

Modes: TypeAlias = str | Sequence[str]

MODES: Final = (
    "reflect",
    "grid-mirror",
    "constant",
    "grid-constant",
    "nearest",
    "mirror",
    "wrap",
    "grid-wrap",
)

_PADDED: Final = MappingProxyType(
    {
        "reflect": "symmetric",
        "grid-mirror": "symmetric",
        "constant": "constant",
        "grid-constant": "constant",
        "nearest": "edge",
        "mirror": "reflect",
        "wrap": "wrap",
        "grid-wrap": "wrap",
    }
)
"""The names of the modes in ``fnp.pad``."""


def mode_of(name: str, mode: object) -> str:
    """Check a mode.

    Raises
    ------
    ArgumentError
        It is unknown.
    """
    if isinstance(mode, str) and mode in MODES:
        return mode
    raise ArgumentError(f"{name}: the mode is one of {', '.join(MODES)}, not {mode!r}.")


def image_of(name: str, value: ArrayLike, output: DTypeLike | None = None) -> Tensor:
    """A real or complex image; integers and truth values become float64.

    Raises
    ------
    ArgumentError
        ``output`` is an array, which cannot be written to.
    DtypeError
        The image is neither real nor complex, or ``output`` cannot hold it.
    """
    if isinstance(output, np.ndarray | Tensor):
        raise ArgumentError(
            f"{name}: output is a dtype or None: tensors never change. Take the result instead."
        )
    image = fnp.asarray(operand(value, name))
    if image.dtype.kind not in "biufc":
        raise DtypeError(f"{name}: takes a real or complex image, not {image.dtype}.")
    if image.dtype.kind in "biu":
        image = image.astype(np.float64)
    if output is None:
        return image
    dtype = checked_dtype(output, name)
    if dtype.kind not in "fc" or (image.dtype.kind == "c" and dtype.kind != "c"):
        raise DtypeError(
            f"{name}: output is a real or complex dtype that holds {image.dtype}, not {dtype}."
            " Round the result with fnp.rint, and convert it with astype."
        )
    return image.astype(dtype)


def axes_of(name: str, axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """Axes of an image; by default all.

    Raises
    ------
    ArgumentError
        An axis occurs twice.
    """
    if axes is None:
        return [*range(rank)]
    chosen = integers(axes, name, "axes")
    numbers = [normalize_axis(axis, rank, name) for axis in chosen]
    if len({*numbers}) < len(numbers):
        raise ArgumentError(f"{name}: the axes {chosen} are not all different.")
    return numbers


def per_axis(name: str, argument: str, value: object, count: int) -> list[Any]:
    """An option for each axis, from one for all or a sequence.

    Raises
    ------
    ShapeError
        The sequence has another length.
    """
    if isinstance(value, np.ndarray | Tensor) and value.shape:
        value = [value[number] for number in range(value.shape[0])]
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ShapeError(
            f"{name}: {argument} is one option, or one for each of {count} axes, not {len(value)}."
        )
    return [*value]


def extended(
    x: Tensor, widths: Sequence[tuple[int, int]], modes: Sequence[str], cval: ArrayLike
) -> Tensor:
    """An image with elements added before and behind along each axis."""
    for axis, (width, mode) in enumerate(zip(widths, modes, strict=True)):
        if width == (0, 0):
            continue
        pairs = [(0, 0)] * axis + [width] + [(0, 0)] * (x.ndim - axis - 1)
        name = _PADDED[mode]
        options = {"constant_values": cval} if name == "constant" else {}
        x = fnp.pad(x, pairs, mode=name, **options)
    return x


def folded(at: Tensor, size: int, mode: str) -> Tensor:
    """Coordinates outside of an axis, moved to equivalent ones; integers stay integers.

    The modes "constant" and "grid-constant" move nothing.
    """
    if mode in ("constant", "grid-constant"):
        return at
    if size == 1:
        return at * 0
    if mode == "nearest":
        return fnp.clip(at, 0, size - 1)
    if mode == "mirror":
        around = fnp.abs(at) % (2 * size - 2)
        return fnp.minimum(around, 2 * size - 2 - around)
    if mode in ("reflect", "grid-mirror"):
        around = at % (2 * size)
        # The edges are half a step beyond the elements: -0.5 stays.
        return fnp.where(
            at.dtype.kind == "f" and around > 2 * size - 0.5,
            around - 2 * size,
            fnp.minimum(around, 2 * size - 1 - around),
        )
    if mode == "grid-wrap":
        return at % size
    period = size - 1  # in the mode "wrap" the last element takes the place of the first
    below = at + period * (fnp.floor(-at / period) + 1)
    above = at - period * fnp.floor(at / period)
    return fnp.where(at < 0, below, fnp.where(at > period, above, at))

"""Convolutions as layers, with their kernel and bias; channels come before the sizes.

>>> import funcgrad as fg
>>> layer = Conv.init(fg.random.key(0), 3, 8, (5, 5), padding="same")
>>> layer(fg.numpy.ones((2, 3, 16, 16))).shape
(2, 8, 16, 16)
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad.errors import ShapeError
from funcgrad.frozen_dataclasses import pytree, static_field
from funcgrad.nn.convolution import conv, conv_transpose
from funcgrad.nn.initializers import he_normal, zeros
from funcgrad.nn.layer_parts import check_leaves, drawn
from funcgrad.nn.windows import Padding
from funcgrad.numpy.options import integer, is_integer, natural, sequence
from funcgrad.tensor import Tensor
from funcgrad.users_values import ArrayLike


@pytree
class Conv:
    """A convolution; see ``conv``.

    Parameters
    ----------
    kernel : Tensor, shape (filters, channels / groups, *window)
        As the weight of ``torch.nn.Conv2d``.
    bias : Tensor, shape (filters,), optional
    stride, padding, dilation, groups
        Static options of ``conv``: integers, tuples or words.

    Examples
    --------
    >>> import funcgrad as fg
    >>> Conv(fg.tensor([[[1.0, 1.0]]]))(fg.tensor([[[1.0, 2.0, 4.0]]]))
    Tensor([[[3., 6.]]])
    """

    kernel: Tensor
    bias: Tensor | None = None
    stride: int | tuple[int, ...] = static_field(default=1)
    padding: Padding = static_field(default=0)
    dilation: int | tuple[int, ...] = static_field(default=1)
    groups: int = static_field(default=1)

    sizes_by_axis = MappingProxyType({"channels": 1})

    def __post_init__(self) -> None:
        check_leaves(self)

    @classmethod
    def init(
        cls,
        key: ArrayLike,
        channels: int,
        filters: int,
        window: tuple[int, ...],
        *,
        bias: bool = True,
        initializer: Callable[..., Tensor] = he_normal,
        dtype: DTypeLike = np.float64,
        stride: int | tuple[int, ...] = 1,
        padding: Padding = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
    ) -> Conv:
        """Draw a kernel; the bias is 0. Other options are the static fields."""
        kernel = _kernel(initializer, key, window, _share(channels, groups), filters, dtype)
        offsets = zeros(None, filters, dtype) if bias else None
        return cls(kernel, offsets, stride, padding, dilation, groups)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the layer to an array of shape ``(batch, channels, *sizes)``."""
        return conv(
            x,
            self.kernel,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )


@pytree
class ConvTranspose:
    """The transpose of a convolution; see ``conv_transpose``.

    Parameters
    ----------
    kernel : Tensor, shape (channels, filters / groups, *window)
        As the weight of ``torch.nn.ConvTranspose2d``.
    bias : Tensor, shape (filters,), optional
    stride, padding, output_padding, dilation, groups
        Static options of ``conv_transpose``: integers, tuples or words.

    Examples
    --------
    >>> import funcgrad as fg
    >>> ConvTranspose(fg.tensor([[[1.0, 1.0]]]), stride=2)(fg.tensor([[[1.0, 2.0]]]))
    Tensor([[[1., 1., 2., 2.]]])
    """

    kernel: Tensor
    bias: Tensor | None = None
    stride: int | tuple[int, ...] = static_field(default=1)
    padding: Padding = static_field(default=0)
    output_padding: int | tuple[int, ...] = static_field(default=0)
    dilation: int | tuple[int, ...] = static_field(default=1)
    groups: int = static_field(default=1)

    sizes_by_axis = MappingProxyType({"channels": 1})

    def __post_init__(self) -> None:
        check_leaves(self)

    @classmethod
    def init(
        cls,
        key: ArrayLike,
        channels: int,
        filters: int,
        window: tuple[int, ...],
        *,
        bias: bool = True,
        initializer: Callable[..., Tensor] = he_normal,
        dtype: DTypeLike = np.float64,
        stride: int | tuple[int, ...] = 1,
        padding: Padding = 0,
        output_padding: int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
    ) -> ConvTranspose:
        """Draw a kernel; the bias is 0. Other options are the static fields."""
        kernel = _kernel(initializer, key, window, channels, _share(filters, groups), dtype)
        turned = fnp.swapaxes(kernel, 0, 1)
        offsets = zeros(None, filters, dtype) if bias else None
        return cls(turned, offsets, stride, padding, output_padding, dilation, groups)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the layer to an array of shape ``(batch, channels, *sizes)``."""
        return conv_transpose(
            x,
            self.kernel,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=self.output_padding,
            dilation=self.dilation,
            groups=self.groups,
        )


def _share(count: int, groups: int) -> int:
    channels, parts = (
        natural(count, "Conv.init", "channels"),
        integer(groups, "Conv.init", "groups"),
    )
    if parts < 1 or channels % parts:
        raise ShapeError(f"Conv.init: {channels} channels cannot be divided into {parts} groups.")
    return channels // parts


def _kernel(
    initializer: Callable[..., Tensor],
    key: ArrayLike,
    window: tuple[int, ...],
    inputs: int,
    outputs: int,
    dtype: DTypeLike,
) -> Tensor:
    """Draw a kernel with inputs and outputs last, as initializers count them, then first."""
    if is_integer(window):
        raise ShapeError(
            f"Conv.init: the window has a size for each axis, as (3, 3), got {window}."
        )
    sizes = [
        natural(size, "Conv.init", "window") for size in sequence(window, "Conv.init", "window")
    ]
    fans = natural(inputs, "Conv.init", "channels"), natural(outputs, "Conv.init", "filters")
    kernel = drawn(initializer, key, (*sizes, *fans), dtype, "Conv.init")
    return fnp.moveaxis(kernel, (-1, -2), (0, 1))

"""Convolution layers, with their kernel and bias; channels come before the sizes.

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
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import LeafError, ShapeError
from funcgrad.nn.convolution import conv, conv_transpose
from funcgrad.nn.initializers import he_normal, zeros
from funcgrad.nn.layer_parts import check_leaves, drawn
from funcgrad.nn.windows import Padding, numbers_of, padding_of
from funcgrad.numpy.options import choice, integer, integers, is_integer, natural, sequence
from funcgrad.tensor.tensor import Tensor, wrap


@pytree
class Conv:
    """Convolution over one or several axes; see ``conv``.

    The layer of image and signal networks: each filter looks at a small window, with the same
    weights at every position. The number of axes follows from the window.

    Parameters
    ----------
    kernel : Tensor, shape (filters, channels / groups, *window)
        The layout of ``torch.nn.Conv2d.weight``.
    bias : Tensor, shape (filters,), optional
    stride, padding, dilation, groups
        Static options of ``conv``: integers, tuples or words.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        Static: the values of the padding. They are 0, the array reflected at its edge elements, the
        edge elements repeated, or the elements of the opposite end.

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
    padding_mode: str = static_field(default="zeros")

    sizes_by_axis = MappingProxyType({"channels": 1})

    def __post_init__(self) -> None:
        check_leaves(self)
        _check_options(self, stride=1, dilation=1, groups=1)
        choice(self.padding_mode, tuple(_MODES), "Conv", "padding_mode")

    @classmethod
    @answering
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
        padding_mode: str = "zeros",
    ) -> Conv:
        """Draw a kernel and start with a bias of 0. The other options are the static fields."""
        _share("filters", filters, groups)
        inputs = _share("channels", channels, groups)
        kernel = _kernel(initializer, key, window, inputs, filters, dtype)
        offsets = zeros(key, filters, dtype) if bias else None
        return cls(kernel, offsets, stride, padding, dilation, groups, padding_mode)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Apply the layer to an array of shape ``(batch, channels, *sizes)``."""
        padded = self.padding_mode != "zeros"
        return conv(
            self._padded(x) if padded else x,
            self.kernel,
            self.bias,
            stride=self.stride,
            padding=0 if padded else self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def _padded(self, x: ArrayLike) -> Tensor:
        value, window = wrap(operand(x, "Conv")), self.kernel.shape[2:]
        rank = len(window)
        strides = numbers_of(self.stride, rank, 1, "Conv", "stride")
        dilations = numbers_of(self.dilation, rank, 1, "Conv", "dilation")
        sizes = value.shape[value.ndim - rank :]
        widths = padding_of(self.padding, sizes, window, strides, dilations, "Conv")
        before = ((0, 0),) * (value.ndim - rank)
        return fnp.pad(value, (*before, *widths), mode=_MODES[self.padding_mode])


@pytree
class ConvTranspose:
    """Transposed convolution, which enlarges its input; see ``conv_transpose``.

    Parameters
    ----------
    kernel : Tensor, shape (channels, filters / groups, *window)
        The layout of ``torch.nn.ConvTranspose2d.weight``.
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
        _check_options(self, stride=1, output_padding=0, dilation=1, groups=1)

    @classmethod
    @answering
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
        """Draw a kernel and start with a bias of 0. The other options are the static fields."""
        _share("channels", channels, groups)
        outputs = _share("filters", filters, groups)
        kernel = _kernel(initializer, key, window, channels, outputs, dtype)
        turned = fnp.swapaxes(kernel, 0, 1)
        offsets = zeros(key, filters, dtype) if bias else None
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


_MODES = MappingProxyType(
    {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
)
"""``fnp.pad``'s mode for each padding mode of PyTorch."""


def _check_options(layer: Conv | ConvTranspose, **least: int) -> None:
    """Check the static integers, and that there is one bias for each filter."""
    name = type(layer).__name__
    integer(layer.groups, name, "groups")
    for option, smallest in least.items():
        numbers = integers(getattr(layer, option), name, option)
        numbers_of(numbers, len(numbers), smallest, name, option)
    for field in ("kernel", "bias"):
        array = getattr(layer, field)
        if array is not None and not hasattr(array, "shape"):
            raise LeafError(f"{name}: the {field} has to be one array, got {array!r:.200}.")
    shape, bias = layer.kernel.shape, layer.bias
    if len(shape) < 2:
        raise ShapeError(f"{name}: the kernel has an axis of filters and one of channels: {shape}.")
    if bias is not None:
        lead = bias.ndim - 1  # axes of an ensemble
        is_turned = isinstance(layer, ConvTranspose)
        place, factor = (lead + 1, layer.groups) if is_turned else (lead, 1)
        filters = shape[place] * factor if 0 <= place < len(shape) else 0
        if bias.shape != (*shape[:lead], filters):
            raise ShapeError(
                f"{name}: the kernel of shape {shape} has {filters} filters, and the bias the shape"
                f" {bias.shape}."
            )


def _share(name: str, count: int, groups: int) -> int:
    """Return the number of channels or filters in a group."""
    number, parts = natural(count, "Conv.init", name), integer(groups, "Conv.init", "groups")
    if parts < 1 or number % parts:
        raise ShapeError(f"Conv.init: {number} {name} cannot be divided into {parts} groups.")
    return number // parts


def _kernel(
    initializer: Callable[..., Tensor],
    key: ArrayLike,
    window: tuple[int, ...],
    inputs: int,
    outputs: int,
    dtype: DTypeLike,
) -> Tensor:
    """Draw a kernel with inputs and outputs last, as initializers expect, and move them first."""
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

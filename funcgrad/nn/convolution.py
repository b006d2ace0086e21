"""Convolutions over any number of axes; channels come before these axes, as in PyTorch.

As in all libraries for neural networks, the kernel is not flipped.

>>> import funcgrad as fg
>>> conv(fg.tensor([[[1.0, 2.0, 4.0, 8.0]]]), [[[-1.0, 1.0]]])
Tensor([[[1., 2., 4.]]])
"""

from __future__ import annotations

from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.convolution import convolve, spread
from funcgrad._primitives.elementwise import add
from funcgrad._primitives.structural import reshape
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.nn.windows import Padding, Sizes, check_window, numbers_of, padded, padding_of
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over one or several axes (the kernel is not flipped).

    ``y[n, o, p] = bias[o] + sum over c, w of x[n, c, stride * p + dilation * w] kernel[o, c, w]``

    Parameters
    ----------
    x : array_like, shape (batch, channels, *sizes) or (channels, *sizes)
        Real or complex.
    kernel : array_like, shape (filters, channels / groups, *window)
        The window has as many axes as there are sizes.
    bias : array_like, shape (filters,), optional
    stride : int or sequence of int
        The step by which the window moves.
    padding : int, sequence of int, sequence of pairs, "valid" or "same"
        The number of zeros added before and after each axis. "valid" adds none; "same" gives a
        result whose size is the size of ``x`` divided by the stride, rounded up.
    dilation : int or sequence of int
        The distance between neighbouring elements of the window.
    groups : int
        The number of groups into which channels and filters are divided; a filter reads only the
        channels of its own group.

    Returns
    -------
    Tensor, shape (batch, filters, *places) or (filters, *places)
        ``(size + padding - dilation * (window - 1) - 1) // stride + 1`` places along each axis.

    Raises
    ------
    ShapeError
        The shapes do not fit each other, or the window is larger than the padded axes.
    ArgumentError
        ``padding`` is an unknown word.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> image = fnp.arange(16.0).reshape(1, 1, 4, 4)
    >>> conv(image, fnp.ones((1, 1, 2, 2)), stride=2)
    Tensor([[[[10., 18.],
              [42., 50.]]]])
    """
    value, weights, single = _operands(x, kernel, "conv")
    shape, window = shape_of(value), shape_of(weights)
    parts = _groups(groups, window[0], "filters of the kernel", "conv")
    if shape[1] != window[1] * parts:
        raise ShapeError(
            f"conv: x has {shape[1]} channels, and the kernel takes {window[1] * parts}:"
            f" {window[1]} in each of {parts} groups. The shapes are {shape_of(x)} and {window};"
            " x is (batch, channels, *sizes), the kernel (filters, channels / groups, *window)."
        )
    rank = len(window) - 2
    strides = numbers_of(stride, rank, 1, "conv", "stride")
    dilations = numbers_of(dilation, rank, 1, "conv", "dilation")
    widths = padding_of(padding, shape[2:], window[2:], strides, dilations, "conv")
    check_window(shape[2:], window[2:], dilations, widths, "conv")
    convolved = convolve(
        padded(value, widths), weights, strides=strides, dilations=dilations, groups=parts
    )
    return _finished(convolved, bias, single, "conv")


@answering
def conv_transpose(
    x: ArrayLike,
    kernel: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Transposed convolution: each element of ``x``, times the kernel, is added to the result.

    It enlarges images: with a stride of 2 the result is about twice as long as ``x`` (decoders,
    generators).

    With the same options it is the pullback of ``conv`` with respect to ``x``, so it maps the shape
    of the result of ``conv`` to the shape of its argument.

    Parameters
    ----------
    x : array_like, shape (batch, channels, *sizes) or (channels, *sizes)
    kernel : array_like, shape (channels, filters / groups, *window)
    bias : array_like, shape (filters,), optional
    stride, padding, dilation, groups
        The options of the convolution that is transposed, see ``conv``; with "same" the result is
        as long as x times the stride.
    output_padding : int or sequence of int
        How many places to add to the result. With a stride above 1, ``conv`` maps arguments of
        several lengths to the same length; this option chooses among them.

    Returns
    -------
    Tensor, shape (batch, filters, *places) or (filters, *places)
        ``(size - 1) * stride + dilation * (window - 1) + 1 - padding + output_padding`` places.

    Raises
    ------
    ShapeError
        The shapes do not fit each other.

    Examples
    --------
    >>> conv_transpose([[[1.0, 2.0]]], [[[1.0, 1.0, 1.0]]], stride=2)
    Tensor([[[1., 1., 3., 2., 2.]]])
    """
    name = "conv_transpose"
    value, weights, single = _operands(x, kernel, name)
    shape, window = shape_of(value), shape_of(weights)
    parts = _groups(groups, shape[1], "channels of x", name)
    if shape[1] != window[0]:
        raise ShapeError(
            f"{name}: x has {shape[1]} channels, and the kernel takes {window[0]}. The shapes are"
            f" {shape_of(x)} and {window}; x is (batch, channels, *sizes), the kernel (channels,"
            " filters / groups, *window)."
        )
    rank = len(window) - 2
    strides = numbers_of(stride, rank, 1, name, "stride")
    dilations = numbers_of(dilation, rank, 1, name, "dilation")
    more = numbers_of(output_padding, rank, 0, name, "output_padding")
    sizes = tuple([size * step for size, step in zip(shape[2:], strides, strict=True)])
    widths = padding_of(padding, sizes, window[2:], strides, dilations, name)
    full = [
        max((size - 1) * step + gap * (width - 1) + 1, 0) if size else 0
        for size, step, gap, width in zip(shape[2:], strides, dilations, window[2:], strict=True)
    ]
    cut = [(-before, extra - behind) for (before, behind), extra in zip(widths, more, strict=True)]
    if any(
        size - before - behind + extra < 0
        for size, (before, behind), extra in zip(full, widths, more, strict=True)
    ):
        raise ShapeError(
            f"{name}: the result would have a negative size: of {tuple(full)} places the padding"
            f" {widths} is cut off."
        )
    scattered = spread(
        value, weights, shape=tuple(full), strides=strides, dilations=dilations, groups=parts
    )
    return _finished(padded(scattered, cut), bias, single, name)


def _operands(x: ArrayLike, kernel: ArrayLike, name: str) -> tuple[Value, Value, bool]:
    """Convert the operands; add a batch axis to the first, and say whether it had none."""
    value, weights = operand(x, name), operand(kernel, name)
    rank, window = len(shape_of(value)), shape_of(weights)
    if len(window) < 2 or rank not in (len(window), len(window) - 1):
        raise ShapeError(
            f"{name}: x of shape {shape_of(value)} and a kernel of shape {window} do not fit. x is"
            " (batch, channels, *sizes), or without a batch, and the kernel has as many axes as"
            " that: filters, channels, and one for each size."
        )
    for array in (value, weights):
        if dtype_of(array).kind == "b":
            raise DtypeError(f"{name}: takes numbers, not booleans. Convert them with astype.")
    if rank == len(window):
        return value, weights, False
    return reshape(value, shape=(1, *shape_of(value))), weights, True


def _groups(groups: int, count: int, items: str, name: str) -> int:
    parts = integer(groups, name, "groups")
    if parts < 1 or count % parts:
        raise ShapeError(f"{name}: {count} {items} cannot be divided into {parts} groups.")
    return parts


def _finished(filtered: Value, bias: ArrayLike | None, single: bool, name: str) -> Tensor:
    """Add the bias, and remove the batch axis if there was none."""
    shape = shape_of(filtered)
    if bias is not None:
        offsets = operand(bias, name)
        if shape_of(offsets) != shape[1:2]:
            raise ShapeError(
                f"{name}: the bias has the shape {shape_of(offsets)}; there are {shape[1]} filters,"
                f" so it has to have {shape[1:2]}."
            )
        filtered = add(filtered, reshape(offsets, shape=(shape[1], *(1,) * (len(shape) - 2))))
    return wrap(reshape(filtered, shape=shape[1:]) if single else filtered)

"""Sliding windows over an array.

>>> sliding_window_view([1.0, 2.0, 3.0, 4.0], 2)
Tensor([[1., 2.],
        [2., 3.],
        [3., 4.]])
"""

from __future__ import annotations

from funcgrad._core.specs import AxisLike, ShapeLike, normalize_axis
from funcgrad._core.users_values import operand
from funcgrad._primitives.sliding import sliding_windows
from funcgrad.errors import ShapeError
from funcgrad.numpy.creation import asarray, zeros
from funcgrad.numpy.manipulation import moveaxis
from funcgrad.numpy.options import integers
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

__all__ = ["sliding_window_view"]

__dir__ = __all__.copy  # completion shows the public names, without the modules


def sliding_window_view(
    x: ArrayLike, window_shape: ShapeLike, axis: AxisLike = None, *, subok: bool = False
) -> Tensor:
    """All windows of a given shape, along new axes at the end.

    Parameters
    ----------
    x : array_like
    window_shape : int or sequence of int
        The sizes of a window along the axes.
    axis : int, sequence of int, or None
        The axes along which windows slide; None means all. An axis that is named twice gives
        windows of windows.
    subok : bool
        Ignored.

    Returns
    -------
    Tensor
        Each axis is shorter by the size of the window less one.

    Raises
    ------
    ShapeError
        Sizes and axes differ in number, or a window is larger than the array.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: sliding_window_view(x, 2).sum())(fg.tensor([1.0, 2.0, 3.0]))
    Tensor([1., 2., 1.])
    """
    name = "sliding_window_view"
    value = asarray(operand(x, name))
    sizes = integers(window_shape, name, "window_shape")
    signed_axes = range(value.ndim) if axis is None else integers(axis, name, "axis")
    axes = [normalize_axis(number, value.ndim, name) for number in signed_axes]
    if len(sizes) != len(axes):
        raise ShapeError(f"{name}: a window of {len(sizes)} axes does not fit {len(axes)} axes.")
    for along, size in zip(axes, sizes, strict=True):
        if not 0 <= size <= value.shape[along]:
            raise ShapeError(
                f"{name}: a window of the size {size} does not fit axis {along}, which has"
                f" {value.shape[along]} elements left."
            )
        if size:
            rows = moveaxis(value, along, -1)
            windows = sliding_windows(rows, sizes=(size,), strides=(1,), dilations=(1,))
            value = moveaxis(wrap(windows), -1, along)
        else:
            lead, behind = value.shape[:along], value.shape[along + 1 :]
            value = zeros((*lead, value.shape[along] + 1, *behind, 0), value.dtype)
    return value

"""Functions of the shapes of arrays, which do not depend on values.

>>> shape([[1, 2]]), broadcast_shapes((2, 1), 3)
((1, 2), (2, 3))
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

from funcgrad._core import specs as _shapes
from funcgrad._core.specs import Shape, ShapeLike, normalize_axis, shape_of
from funcgrad._core.users_values import operand
from funcgrad.numpy.options import shape_argument
from funcgrad.tensor.tensor import ArrayLike, Tensor


def shape(a: ArrayLike) -> Shape:
    """The shape: a tuple of the sizes of the axes.

    Examples
    --------
    >>> shape([[1, 2]])
    (1, 2)
    """
    return shape_of(operand(a, "shape"))


def ndim(a: ArrayLike) -> int:
    """The number of axes.

    Examples
    --------
    >>> ndim([[1, 2]])
    2
    """
    return len(shape_of(operand(a, "ndim")))


def size(a: ArrayLike, axis: SupportsIndex | None = None) -> int:
    """The number of elements, or the size of an axis.

    Examples
    --------
    >>> size([[1, 2]]), size([[1, 2]], 0)
    (2, 1)
    """
    sizes = shape_of(operand(a, "size"))
    if axis is None:
        return int(np.prod(sizes))
    return sizes[normalize_axis(axis, len(sizes), "size")]


def broadcast_shapes(*args: ShapeLike) -> Shape:
    """The shape to which several shapes broadcast.

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    Examples
    --------
    >>> broadcast_shapes((3, 1), (4,), 1)
    (3, 4)
    """
    shapes = [shape_argument(shape, "broadcast_shapes") for shape in args]
    return _shapes.broadcast_shapes("broadcast_shapes", *shapes)


def isscalar(element: object) -> bool:
    """Whether an object is a number or a string rather than an array; 0-d tensors are scalars.

    Examples
    --------
    >>> import funcgrad as fg
    >>> isscalar(3.0), isscalar(fg.tensor(3.0))
    (True, True)
    """
    return not element.ndim if isinstance(element, Tensor) else np.isscalar(element)


def iterable(y: object) -> bool:
    """Whether an object can be iterated over; tensors with axes can.

    Examples
    --------
    >>> import funcgrad as fg
    >>> iterable(fg.tensor([1.0])), iterable(fg.tensor(1.0))
    (True, False)
    """
    return bool(y.ndim) if isinstance(y, Tensor) else np.iterable(y)

"""Initial parameters: functions of a key and a shape.

A kernel has the shape ``(..., inputs, outputs)``, as ``x @ kernel`` needs it. Axes before the last
two are a receptive field, such as the window of a convolution, whose size multiplies both.

>>> from funcgrad.tensor import tensor
>>> kernel = glorot_uniform(tensor([0, 0], dtype="uint64"), (64, 10))
>>> bool((abs(kernel) <= np.sqrt(6 / 74)).all())
True
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import DTypeLike

from funcgrad.errors import ShapeError
from funcgrad.numpy.creation import made
from funcgrad.philox import as_dtype, as_shape, standard_normal, standard_uniform
from funcgrad.shape import Shape, ShapeLike
from funcgrad.tensor import Tensor
from funcgrad.users_values import ArrayLike


def glorot_uniform(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Uniform numbers of variance ``2 / (inputs + outputs)``, for tanh and the like.

    Parameters
    ----------
    key : key
        From ``fg.random``.
    shape : tuple of int
        At least two axes.
    dtype : dtype
        A real floating-point dtype.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        There are fewer than two axes, so the numbers of inputs and outputs are unknown.

    Notes
    -----
    Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    AISTATS 2010.

    Examples
    --------
    >>> from funcgrad.tensor import tensor
    >>> glorot_uniform(tensor([0, 0], dtype="uint64"), (2, 2), "float32").dtype
    dtype('float32')
    """
    sizes = as_shape(shape, "glorot_uniform")
    inputs, outputs = _fans(sizes, "glorot_uniform")
    return _uniform(key, sizes, dtype, (inputs + outputs) / 2, "glorot_uniform")


def glorot_normal(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Normal numbers of variance ``2 / (inputs + outputs)``; see ``glorot_uniform``.

    Examples
    --------
    >>> from funcgrad.tensor import tensor
    >>> glorot_normal(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    sizes = as_shape(shape, "glorot_normal")
    inputs, outputs = _fans(sizes, "glorot_normal")
    return _normal(key, sizes, dtype, (inputs + outputs) / 2, "glorot_normal")


def he_uniform(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Uniform numbers of variance ``2 / inputs``; see ``he_normal``.

    Examples
    --------
    >>> from funcgrad.tensor import tensor
    >>> he_uniform(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    sizes = as_shape(shape, "he_uniform")
    return _uniform(key, sizes, dtype, _fans(sizes, "he_uniform")[0] / 2, "he_uniform")


def he_normal(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Normal numbers of variance ``2 / inputs``, for relu and the like.

    Parameters
    ----------
    key : key
        From ``fg.random``.
    shape : tuple of int
        At least two axes.
    dtype : dtype
        A real floating-point dtype.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        There are fewer than two axes, so the numbers of inputs and outputs are unknown.

    Notes
    -----
    He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015. The normal distribution is not
    truncated.

    Examples
    --------
    >>> from funcgrad.tensor import tensor
    >>> he_normal(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    sizes = as_shape(shape, "he_normal")
    return _normal(key, sizes, dtype, _fans(sizes, "he_normal")[0] / 2, "he_normal")


def zeros(key: ArrayLike | None, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Zeros, for biases. The key is ignored; it is there for the common signature.

    Examples
    --------
    >>> zeros(None, 2)
    Tensor([0., 0.])
    """
    return made(np.zeros, "zeros", as_shape(shape, "zeros"), as_dtype(dtype, "fc", "zeros", key))


def ones(key: ArrayLike | None, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Ones, for scales. The key is ignored; it is there for the common signature.

    Examples
    --------
    >>> ones(None, 2)
    Tensor([1., 1.])
    """
    return made(np.ones, "ones", as_shape(shape, "ones"), as_dtype(dtype, "fc", "ones", key))


def _fans(shape: Shape, initializer: str) -> tuple[int, int]:
    if len(shape) < 2:
        raise ShapeError(
            f"{initializer}: a kernel has the shape (..., inputs, outputs), got {shape}. For a bias"
            " take zeros."
        )
    field = math.prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


def _uniform(
    key: ArrayLike, shape: Shape, dtype: DTypeLike, precision: float, initializer: str
) -> Tensor:
    """Draw from the uniform distribution of mean 0 and variance ``1 / precision``."""
    wanted = as_dtype(dtype, "f", initializer, key)
    bound = math.sqrt(3 / precision) if precision else 0.0  # without elements nothing matters
    return standard_uniform(key, shape, wanted, initializer) * (2 * bound) - bound


def _normal(
    key: ArrayLike, shape: Shape, dtype: DTypeLike, precision: float, initializer: str
) -> Tensor:
    wanted = as_dtype(dtype, "f", initializer, key)
    deviation = math.sqrt(1 / precision) if precision else 0.0
    return standard_normal(key, shape, wanted, initializer) * deviation

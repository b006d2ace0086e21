"""Initializers: functions of a key and a shape that draw the first parameters.

A kernel has the shape ``(..., inputs, outputs)``, as in ``x @ kernel``. Axes before the last two
are a receptive field, such as the window of a convolution; its size multiplies both.

>>> from funcgrad.tensor.tensor import tensor
>>> kernel = glorot_uniform(tensor([0, 0], dtype="uint64"), (64, 10))
>>> bool((abs(kernel) <= np.sqrt(6 / 74)).all())
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, ShapeLike
from funcgrad._core.trace import beside, device_below
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy import linalg
from funcgrad.numpy.creation import made
from funcgrad.numpy.options import choice, real_number
from funcgrad.random.philox import as_dtype, as_shape, standard_normal, standard_uniform
from funcgrad.scipy import special
from funcgrad.tensor.tensor import Tensor

# The standard deviation of a standard normal variable restricted to [-2, 2].
_CUT_DEVIATION: Final = 0.8796256610342398


@answering
def glorot_uniform(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw uniform values with the variance ``2 / (inputs + outputs)`` (Glorot, Xavier).

    For layers before ``tanh`` or ``sigmoid``: activations and gradients keep their size from layer
    to layer. Before ``relu`` use ``he_uniform``.

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
        There are fewer than two axes, so inputs and outputs cannot be counted.

    Notes
    -----
    Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks",
    AISTATS 2010.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> glorot_uniform(tensor([0, 0], dtype="uint64"), (2, 2), "float32").dtype
    dtype('float32')
    """
    return _scaled("glorot_uniform", _uniform, 1.0, "fan_avg", key, shape, dtype)


@answering
def glorot_normal(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw normal values with the variance ``2 / (inputs + outputs)``; see ``glorot_uniform``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> glorot_normal(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    return _scaled("glorot_normal", _normal, 1.0, "fan_avg", key, shape, dtype)


@answering
def he_uniform(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw uniform values with the variance ``2 / inputs``; see ``he_normal``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> he_uniform(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    return _scaled("he_uniform", _uniform, 2.0, "fan_in", key, shape, dtype)


@answering
def he_normal(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw normal values with the variance ``2 / inputs`` (He, Kaiming).

    For layers before ``relu``, which halves the mean square of its input: activations keep their
    size from layer to layer.

    Parameters
    ----------
    key, shape, dtype
        As for ``glorot_uniform``.

    Returns
    -------
    Tensor

    Notes
    -----
    He, Zhang, Ren, Sun, "Delving deep into rectifiers", ICCV 2015. The normal distribution is not
    truncated.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> he_normal(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    return _scaled("he_normal", _normal, 2.0, "fan_in", key, shape, dtype)


@answering
def lecun_uniform(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw uniform values with the variance ``1 / inputs``; see ``lecun_normal``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> lecun_uniform(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    return _scaled("lecun_uniform", _uniform, 1.0, "fan_in", key, shape, dtype)


@answering
def lecun_normal(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Draw normal values with the variance ``1 / inputs`` (LeCun).

    For layers without an activation, and before ``selu``.

    Parameters
    ----------
    key, shape, dtype
        As for ``glorot_uniform``.

    Returns
    -------
    Tensor

    Notes
    -----
    LeCun, Bottou, Orr, Müller, "Efficient backprop", 1998. The normal distribution is not
    truncated.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> lecun_normal(tensor([0, 0], dtype="uint64"), (3, 4)).shape
    (3, 4)
    """
    return _scaled("lecun_normal", _normal, 1.0, "fan_in", key, shape, dtype)


@answering
def variance_scaling(
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike = np.float64,
    *,
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
) -> Tensor:
    """Draw values with the variance ``scale / n``, where ``n`` counts inputs or outputs.

    The Glorot, He and LeCun initializers are special cases. ``functools.partial`` turns it into an
    initializer.

    Parameters
    ----------
    key : key
        From ``fg.random``.
    shape : tuple of int
        At least two axes.
    dtype : dtype
        A real floating-point dtype.
    scale : float
        At least 0.
    mode : {"fan_in", "fan_out", "fan_avg"}
        ``n`` is the number of inputs, the number of outputs, or the mean of both.
    distribution : {"truncated_normal", "normal", "uniform"}
        "truncated_normal" has no values beyond two standard deviations; its variance is ``scale /
        n``, too.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        The mode or distribution is unknown, or the scale is negative.
    ShapeError
        There are fewer than two axes, so inputs and outputs cannot be counted.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> variance_scaling(tensor([0, 0], dtype="uint64"), (3, 4), scale=2.0).shape
    (3, 4)
    """
    word = choice(mode, tuple(_MODES), "variance_scaling", "mode")
    draws = {"truncated_normal": _truncated, "normal": _normal, "uniform": _uniform}
    draw = draws[choice(distribution, tuple(draws), "variance_scaling", "distribution")]
    factor = real_number(scale, "variance_scaling", "scale")
    if factor < 0:
        raise ArgumentError(f"variance_scaling: scale has to be at least 0, got {factor}.")
    return _scaled("variance_scaling", draw, factor, word, key, shape, dtype)


@answering
def truncated_normal(
    key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64, *, stddev: float = 1.0
) -> Tensor:
    """Draw normal values within two standard deviations.

    Parameters
    ----------
    key : key
        From ``fg.random``.
    shape : tuple of int
        Any number of axes.
    dtype : dtype
        A real floating-point dtype.
    stddev : float
        The standard deviation before the tails are cut off; afterwards it is 0.88 times as large.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> drawn = truncated_normal(tensor([0, 0], dtype="uint64"), 1000, stddev=0.1)
    >>> bool((abs(drawn) <= 0.2).all())
    True
    """
    sizes = as_shape(shape, "truncated_normal")
    deviation = real_number(stddev, "truncated_normal", "stddev")
    return _cut_normal(key, sizes, dtype, "truncated_normal") * deviation


@answering
def orthogonal(
    key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = np.float64, *, scale: float = 1.0
) -> Tensor:
    """Draw a random matrix with orthonormal columns, or orthonormal rows if there are fewer rows.

    It keeps the norm of vectors, so recurrent networks and deep linear ones neither explode nor
    vanish. The matrix is uniformly distributed (Haar measure).

    Parameters
    ----------
    key : key
        From ``fg.random``.
    shape : tuple of int
        At least two axes; the axes before the last one count as rows.
    dtype : dtype
        A floating-point dtype, real or complex.
    scale : float
        Factor of the matrix.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        There are fewer than two axes.

    Notes
    -----
    Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear
    neural networks", ICLR 2014; Mezzadri, "How to generate random matrices from the classical
    compact groups", Notices of the AMS 54 (2007), for the signs that make the distribution uniform.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> matrix = orthogonal(tensor([0, 0], dtype="uint64"), (3, 2))
    >>> bool(abs(matrix.T @ matrix - np.eye(2)).max() < 1e-12)
    True
    """
    sizes, factor = as_shape(shape, "orthogonal"), real_number(scale, "orthogonal", "scale")
    _fans(sizes, "orthogonal")
    kind = as_dtype(dtype, "fc", "orthogonal", key)
    rows, columns = math.prod(sizes[:-1]), sizes[-1]
    long, short = max(rows, columns), min(rows, columns)
    computed = np.dtype(np.float32) if kind == np.float16 else kind
    basis, triangle = linalg.qr(standard_normal(key, (long, short), computed, "orthogonal"))
    diagonal = fnp.diagonal(triangle)
    matrix = basis * (diagonal / fnp.abs(diagonal))
    turned = matrix if rows >= columns else fnp.conj(matrix).T
    return (turned * factor).reshape(sizes).astype(kind)


@answering
def zeros(key: ArrayLike | None, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Return zeros, for biases. They are on the device of the key, which is not used otherwise.

    Examples
    --------
    >>> zeros(None, 2)
    Tensor([0., 0.])
    """
    return _filled(0, key, shape, dtype, "zeros")


@answering
def ones(key: ArrayLike | None, shape: ShapeLike, dtype: DTypeLike = np.float64) -> Tensor:
    """Return ones, for scales. They are on the device of the key, which is not used otherwise.

    Examples
    --------
    >>> ones(None, 2)
    Tensor([1., 1.])
    """
    return _filled(1, key, shape, dtype, "ones")


def _filled(
    number: int, key: ArrayLike | None, shape: ShapeLike, dtype: DTypeLike, initializer: str
) -> Tensor:
    """Zeros or ones, where the key is."""
    sizes, kind = as_shape(shape, initializer), as_dtype(dtype, "fc", initializer, key)
    if isinstance(key, Tensor) and device_below(key) is not None:
        return fnp.full(sizes, beside(kind.type(number), key))
    return made(np.full, initializer, sizes, number, kind)


_MODES: Final[Mapping[str, Callable[[int, int], float]]] = MappingProxyType(
    {
        "fan_in": lambda inputs, outputs: inputs,
        "fan_out": lambda inputs, outputs: outputs,
        "fan_avg": lambda inputs, outputs: (inputs + outputs) / 2,
    }
)
"""The divisor of the variance, from the counts of inputs and outputs."""


def _scaled(
    initializer: str,
    draw: Callable[[ArrayLike, Shape, DTypeLike, float, str], Tensor],
    scale: float,
    mode: str,
    key: ArrayLike,
    shape: ShapeLike,
    dtype: DTypeLike,
) -> Tensor:
    """Draw values with the variance ``scale / n``, where ``n`` follows from the mode."""
    sizes = as_shape(shape, initializer)
    fan = _MODES[mode](*_fans(sizes, initializer))
    if not scale:
        return zeros(key, sizes, as_dtype(dtype, "f", initializer, key))
    return draw(key, sizes, dtype, fan / scale, initializer)


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
    bound = math.sqrt(3 / precision) if precision else 0.0  # of an empty array
    return standard_uniform(key, shape, wanted, initializer) * (2 * bound) - bound


def _normal(
    key: ArrayLike, shape: Shape, dtype: DTypeLike, precision: float, initializer: str
) -> Tensor:
    wanted = as_dtype(dtype, "f", initializer, key)
    deviation = math.sqrt(1 / precision) if precision else 0.0
    return standard_normal(key, shape, wanted, initializer) * deviation


def _truncated(
    key: ArrayLike, shape: Shape, dtype: DTypeLike, precision: float, initializer: str
) -> Tensor:
    deviation = math.sqrt(1 / precision) / _CUT_DEVIATION if precision else 0.0
    return _cut_normal(key, shape, dtype, initializer) * deviation


def _cut_normal(key: ArrayLike, shape: Shape, dtype: DTypeLike, initializer: str) -> Tensor:
    """Draw standard normal values within [-2, 2], as quantiles of uniform values."""
    wanted = as_dtype(dtype, "f", initializer, key)
    tail = special.ndtr(-2.0)
    uniform = standard_uniform(key, shape, np.dtype(np.float64), initializer)
    return fnp.clip(special.ndtri(tail + (1 - 2 * tail) * uniform), -2.0, 2.0).astype(wanted)

"""Losses: one number for each example, to be averaged as you like.

>>> cross_entropy([[0.0, 0.0], [0.0, -np.inf]], [1, 0])
Tensor([0.69314718, 0.        ])
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.foreign_names import answering
from funcgrad.numpy.creation import made
from funcgrad.numpy.options import integer
from funcgrad.primitives.elementwise import square
from funcgrad.primitives.logic import equal, logical_and
from funcgrad.primitives.logits import log_total, real_value, relative_logits
from funcgrad.primitives.reduction import reduce_sum
from funcgrad.primitives.selection import where
from funcgrad.primitives.sorting import take_along_axis
from funcgrad.primitives.structural import cast, reshape
from funcgrad.scipy.precision import real_numbers
from funcgrad.shape import Shape, dtype_of, normalize_axis, shape_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import RAW, Value, bind1, concrete
from funcgrad.users_values import ArrayLike, checked_dtype, operand


@answering
def one_hot(
    labels: ArrayLike, num_classes: int, dtype: DTypeLike = np.float64, axis: SupportsIndex = -1
) -> Tensor:
    """1 at the position that a label names, else 0.

    Parameters
    ----------
    labels : array_like of int
        Labels from 0 to ``num_classes - 1``; any other, such as -1 for "unknown", gives only zeros.
    num_classes : int
        The size of the new axis.
    dtype : dtype
    axis : int
        The place of the new axis.

    Returns
    -------
    Tensor

    Raises
    ------
    DtypeError
        The labels are no integers.
    ArgumentError
        The number of classes is negative.

    Examples
    --------
    >>> one_hot([2, 0], 3)
    Tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    value = operand(labels, "one_hot")
    if dtype_of(value).kind not in "iu":
        raise DtypeError(f"one_hot: labels have to be integers, got {dtype_of(value)}.")
    count, kind = integer(num_classes, "one_hot", "num_classes"), checked_dtype(dtype, "one_hot")
    if count < 0:
        raise ArgumentError(f"one_hot: num_classes has to be at least 0, got {count}.")
    shape = shape_of(value)
    place = normalize_axis(axis, len(shape) + 1, "one_hot")
    positions = reshape(value, shape=(*shape[:place], 1, *shape[place:]))
    classes = np.asarray(made(np.arange, "one_hot", count)).reshape(
        (count,) + (1,) * (len(shape) - place)
    )
    hot: Tensor = wrap(cast(equal(positions, classes), dtype=kind))
    return hot


@answering
def cross_entropy(logits: ArrayLike, labels: ArrayLike, axis: SupportsIndex = -1) -> Tensor:
    """Minus the logarithm of the probability that softmax gives to the right class.

    Parameters
    ----------
    logits : array_like
        Unnormalized logarithms of probabilities. Minus infinity masks a class: it costs nothing
        unless it is the right one, and its gradient is 0.
    labels : array_like
        Either integers, the numbers of the right classes, of the shape of ``logits`` without the
        axis; or floating-point numbers, the probabilities of the classes, of the shape of
        ``logits``. The probabilities need not sum to 1 (they are weights); one of 0 costs nothing.
    axis : int
        The axis of the classes.

    Returns
    -------
    Tensor
        The loss of each example: the shape of ``logits`` without the axis.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DtypeError
        The labels are neither integers nor real.
    ArgumentError
        A label names no class. (Labels that ``vmap`` batches are not checked.)

    Examples
    --------
    >>> cross_entropy([0.0, np.log(3.0)], 1)
    Tensor(0.2876820)
    >>> cross_entropy([0.0, np.log(3.0)], [0.5, 0.5])
    Tensor(0.8369882)
    """
    value = operand(labels, "cross_entropy")
    scores = real_value(logits, "cross_entropy")
    shape = shape_of(scores)
    place = normalize_axis(axis, len(shape), "cross_entropy")
    kind = dtype_of(value).kind
    if kind in "iu":
        _check_labels(value, shape, place)
        relative = relative_logits(scores, (place,), "cross_entropy")
        positions = reshape(value, shape=(*shape[:place], 1, *shape[place + 1 :]))
        chosen = take_along_axis(relative, positions, place, unique=True)
        return _dropped(log_total(relative, (place,), keepdims=True) - chosen, place)
    if kind != "f":
        raise DtypeError(
            "cross_entropy: labels have to be integers, the numbers of the right classes, or"
            f" floating-point probabilities; got {dtype_of(value)}."
        )
    if shape_of(value) != shape:
        raise ShapeError(
            f"cross_entropy: probabilities of shape {shape_of(value)} do not fit logits of shape"
            f" {shape}; the shapes have to be equal."
        )
    relative = relative_logits(scores, (place,), "cross_entropy")
    costs = log_total(relative, (place,), keepdims=True) - relative
    impossible = logical_and(equal(value, 0), equal(costs, np.inf))  # 0 * inf, and costs nothing
    total = reduce_sum(value * where(impossible, 0, costs), axis=(place,), keepdims=False)
    result: Tensor = wrap(total)
    return result


def _dropped(x: Value, axis: int) -> Tensor:
    """Remove an axis of size 1."""
    shape = shape_of(x)
    result: Tensor = wrap(reshape(x, shape=shape[:axis] + shape[axis + 1 :]))
    return result


def _check_labels(labels: Value, shape: Shape, axis: int) -> None:
    expected = shape[:axis] + shape[axis + 1 :]
    if shape_of(labels) != expected:
        hint = " One-hot labels have to be of a floating dtype." * (shape_of(labels) == shape)
        raise ShapeError(
            f"cross_entropy: integer labels of shape {shape_of(labels)} do not fit logits of shape"
            f" {shape} with the classes on axis {axis}; expected shape {expected}.{hint}"
        )
    raw = concrete(labels)
    if type(raw) in RAW and np.size(raw) and not 0 <= np.min(raw) <= np.max(raw) < shape[axis]:
        raise ArgumentError(
            f"cross_entropy: labels have to be from 0 to {shape[axis] - 1}, got labels from"
            f" {np.min(raw)} to {np.max(raw)}."
        )


def squared_error(predictions: ArrayLike, targets: ArrayLike) -> Tensor:
    """The squared difference, element by element.

    Parameters
    ----------
    predictions, targets : array_like
        Real arrays of equal shapes: broadcasting (n, 1) against (n,) has hidden many a mistake.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The shapes differ.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [1.0, 4.0])
    Tensor([0., 4.])
    """
    first, second = real_numbers("squared_error", predictions, targets)
    if first.shape != second.shape:
        raise ShapeError(
            f"squared_error: the predictions' shape {first.shape} and the targets' shape"
            f" {second.shape} differ; reshape one of them."
        )
    error: Tensor = wrap(bind1(square, first - second))
    return error

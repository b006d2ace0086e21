"""Losses: one number for each example, to be averaged as you like.

>>> cross_entropy([[0.0, 0.0], [0.0, -np.inf]], [1, 0])
Tensor([0.69314718, 0.        ])
"""

from __future__ import annotations

from operator import index
from typing import Any, SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.border import ArrayLike, operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.nn.activations import log_softmax
from funcgrad.nn.logits import real_tensor, relative_logits
from funcgrad.primitives.structural import cast
from funcgrad.shape import Shape, dtype_of, normalize_axis, shape_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import RAW, Value, concrete

__all__ = ["cross_entropy", "one_hot", "squared_error"]


def one_hot(
    labels: ArrayLike, num_classes: int, dtype: Any = np.float64, axis: SupportsIndex = -1
) -> Tensor:
    """1 at the position that a label names, else 0.

    Parameters
    ----------
    labels : array_like of int
        From 0 to ``num_classes - 1``; any other, as -1 for "unknown", gives zeros only.
    num_classes : int
        The size of the new axis.
    dtype : dtype
    axis : int
        Where the new axis goes.

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
    EXC funcgrad.nn.losses.cross_entropy cross_entropy([0.0, np.log(3.0)], [0.5, 0.5])
     name 'flog' is not defined
    Tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    value = operand(labels, "one_hot")
    if dtype_of(value).kind not in "iu":
        raise DtypeError(f"one_hot: labels have to be integers, got {dtype_of(value)}.")
    count = index(num_classes)
    if count < 0:
        raise ArgumentError(f"one_hot: num_classes has to be at least 0, got {count}.")
    rank = len(shape_of(value)) + 1
    place = normalize_axis(axis, rank, "one_hot")
    classes = np.arange(count).reshape((count,) + (1,) * (rank - place - 1))
    hot: Tensor = fnp.expand_dims(wrap(value), axis=place) == classes
    return wrap(cast(hot, dtype=np.dtype(dtype)))


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
        A label names no class. (Labels that ``vmap`` batches are not looked at.)

    Examples
    --------
    >>> cross_entropy([0.0, np.log(3.0)], 1)
    Tensor(0.2876820)
    >>> cross_entropy([0.0, np.log(3.0)], [0.5, 0.5])
    Tensor(0.8369882)
    """
    value = operand(labels, "cross_entropy")
    own = real_tensor(logits, "cross_entropy")
    place = normalize_axis(axis, own.ndim, "cross_entropy")
    kind = dtype_of(value).kind
    if kind in "iu":
        _check_labels(value, own.shape, place)
        shifted, axes = relative_logits(own, place, "cross_entropy")
        total = fnp.log(fnp.sum(fnp.exp(shifted), axis=axes))
        chosen = fnp.take_along_axis(shifted, fnp.expand_dims(wrap(value), axis=place), axis=place)
        return total - fnp.squeeze(chosen, axis=place)
    if kind != "f":
        raise DtypeError(
            "cross_entropy: labels have to be integers, the numbers of the right classes, or"
            f" floating-point probabilities; got {dtype_of(value)}."
        )
    if shape_of(value) != own.shape:
        raise ShapeError(
            f"cross_entropy: probabilities of shape {shape_of(value)} do not fit logits of shape"
            f" {own.shape}; the shapes have to be equal."
        )
    weights: Tensor = wrap(value)
    logs = log_softmax(own, axis=place)
    impossible = (weights == 0) & (logs == -np.inf)  # 0 * inf, and it costs nothing
    return -fnp.sum(weights * fnp.where(impossible, 0, logs), axis=place)


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
        Real, and of equal shapes: broadcasting (n, 1) against (n,) has hidden many a mistake.

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
    first = real_tensor(predictions, "squared_error")
    second = real_tensor(targets, "squared_error")
    if first.shape != second.shape:
        raise ShapeError(
            f"squared_error: the predictions' shape {first.shape} and the targets' shape"
            f" {second.shape} differ; reshape one of them."
        )
    return (first - second) ** 2

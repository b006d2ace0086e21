"""Losses of probability distributions, given labels or other distributions.

Each example has one loss. Average them as you like; with a mask by ``.mean(where=mask)``.

>>> cross_entropy([[0.0, 0.0], [0.0, -np.inf]], [1, 0])
Tensor([0.69314718, 0.        ])
"""

from __future__ import annotations

from typing import Final, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import (
    AxisLike,
    Shape,
    dtype_of,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    shape_of,
)
from funcgrad._core.users_values import ArrayLike, checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logic import equal, logical_and
from funcgrad._primitives.logits import log_total, real_value, relative_logits
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.selection import where as chosen_where
from funcgrad._primitives.sorting import take_along_axis
from funcgrad._primitives.structural import cast, reshape
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.nn.loss_parts import check_classes, mask_of, masked, pair_of, parameter, widened_mask
from funcgrad.numpy.creation import made
from funcgrad.numpy.options import integer
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def one_hot(
    labels: ArrayLike, num_classes: int, dtype: DTypeLike = np.float64, axis: SupportsIndex = -1
) -> Tensor:
    """One-hot encoding of labels: 1 at the index of the label, else 0.

    Parameters
    ----------
    labels : array_like of int
        Labels from 0 to ``num_classes - 1``; others, such as -1 for "unknown", give only zeros.
    num_classes : int
        The size of the new axis.
    dtype : dtype
    axis : int
        The position of the new axis.

    Returns
    -------
    Tensor

    Raises
    ------
    DtypeError
        The labels are not integers.
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
    return wrap(cast(equal(positions, classes), dtype=kind))


@answering
def cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    smoothing: ArrayLike = 0.0,
    where: ArrayLike | None = None,
) -> Tensor:
    """Cross-entropy of logits: ``-log(softmax(logits)[label])``.

    The usual loss of classifiers with one right class for each example. It is ``logsumexp(logits) -
    logits[label]``, so nothing overflows or underflows. With labels that are probabilities it is
    ``-sum(labels * log_softmax(logits))``.

    Parameters
    ----------
    logits : array_like
        Scores of the classes. Minus infinity masks a class: it adds nothing to the loss unless it
        is the right class, and its gradient is 0.
    labels : array_like
        Either integers, the indices of the right classes, of the shape of ``logits`` without the
        axis; or floating-point probabilities of the classes, of the shape of ``logits``. The
        probabilities need not sum to 1 (they are weights); a probability of 0 adds nothing.
    axis : int
        The axis of the classes.
    smoothing : float or 0-d tensor
        From 0 to 1: how much of each label is spread evenly over all classes. A masked class gets a
        share, too; then the loss is infinite.
    where : array_like of bool, optional
        Which examples count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their logits and labels are. Average by ``.mean(where=mask)``.

    Returns
    -------
    Tensor
        The loss of each example: the shape of ``logits`` without the axis.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DtypeError
        The labels are neither integers nor real, or the mask is not boolean.
    ArgumentError
        A label or the smoothing is out of range.
    ConditionError
        The same, for labels inside ``jit`` or ``vmap``, which are checked when the program runs.

    Examples
    --------
    >>> cross_entropy([0.0, np.log(3.0)], 1)
    Tensor(0.2876820)
    >>> cross_entropy([0.0, np.log(3.0)], [0.5, 0.5])
    Tensor(0.8369882)
    >>> labels = np.array([1, -1])  # the second is unknown
    >>> cross_entropy([[0.0, np.log(3.0)], [0.0, 0.0]], labels, where=labels >= 0)
    Tensor([0.2876820, 0.       ])
    """
    value = operand(labels, "cross_entropy")
    scores = wrap(real_value(logits, "cross_entropy"))
    place = normalize_axis(axis, scores.ndim, "cross_entropy")
    share = None if type(smoothing) in (int, float) and smoothing == 0 else smoothing
    if share is not None:
        share = parameter("cross_entropy", "smoothing", share, scores, most=1.0)
    counted = mask_of("cross_entropy", where, scores.shape[:place] + scores.shape[place + 1 :])
    shown = masked(scores, widened_mask(counted, place))
    kind = dtype_of(value).kind
    if kind in "iu":
        _check_shape_of_labels(shape_of(value), scores.shape, place)
        numbers = masked(wrap(value), counted)
        numbers = check_classes("cross_entropy", numbers, scores.shape[place], _HINT)
        if share is None:
            return masked(_of_numbers(shown, numbers, place), counted)
        value = one_hot(numbers, scores.shape[place], scores.dtype, axis=place)
    elif kind != "f":
        raise DtypeError(
            "cross_entropy: labels have to be integers, the indices of the right classes, or"
            f" floating-point probabilities; got {dtype_of(value)}."
        )
    if shape_of(value) != scores.shape:
        axes = (len(shape_of(value)), scores.ndim)
        hint = " Logits come first: cross_entropy(logits, labels)." if axes[0] > axes[1] else ""
        if axes[0] < axes[1]:
            hint = " Labels that are indices of classes are integers: labels.astype(int)."
        raise ShapeError(
            f"cross_entropy: probabilities of shape {shape_of(value)} do not fit logits of shape"
            f" {scores.shape}; the shapes have to be equal.{hint}"
        )
    weights = masked(wrap(value), widened_mask(counted, place))
    if share is not None:
        weights = (1 - share) * weights + share / max(scores.shape[place], 1)
    return masked(_of_weights(shown, weights, place), counted)


_HINT: Final = " For a label that means that there is none, write where=labels >= 0."


def _of_numbers(scores: Tensor, numbers: Tensor, place: int) -> Tensor:
    """Return the loss for labels that are indices of classes."""
    relative = relative_logits(scores, (place,), "cross_entropy")
    shape = scores.shape
    positions = reshape(numbers, shape=(*shape[:place], 1, *shape[place + 1 :]))
    chosen = take_along_axis(relative, positions, place, unique=True)
    cost = log_total(relative, (place,), keepdims=True) - chosen
    return wrap(reshape(cost, shape=shape[:place] + shape[place + 1 :]))


def _of_weights(scores: Tensor, weights: Tensor, place: int) -> Tensor:
    """Return the loss for labels that are probabilities of classes."""
    relative = relative_logits(scores, (place,), "cross_entropy")
    costs = log_total(relative, (place,), keepdims=True) - relative
    impossible = logical_and(equal(weights, 0), equal(costs, np.inf))  # 0 * inf counts as 0
    total = reduce_sum(weights * chosen_where(impossible, 0, costs), axis=(place,), keepdims=False)
    return wrap(total)


def _check_shape_of_labels(labels: Shape, logits: Shape, axis: int) -> None:
    expected = logits[:axis] + logits[axis + 1 :]
    if labels != expected:
        hint = " One-hot labels have to be of a floating dtype." * (labels == logits)
        hint += " Logits come first: cross_entropy(logits, labels)." * (len(labels) > len(logits))
        raise ShapeError(
            f"cross_entropy: integer labels of shape {labels} do not fit logits of shape"
            f" {logits} with the classes on axis {axis}; expected shape {expected}.{hint}"
        )


@answering
def kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: AxisLike = -1,
    *,
    log_target: bool = False,
    where: ArrayLike | None = None,
) -> Tensor:
    """Kullback-Leibler divergence: ``sum(targets * (log(targets) - log_predictions))``.

    How much a predicted distribution differs from the target: 0 if they are equal. Use it to match
    another distribution, as in knowledge distillation or variational inference.

    Parameters
    ----------
    log_predictions : array_like
        Logarithms of probabilities, such as ``log_softmax(logits)``; minus infinity is a
        probability of 0.
    targets : array_like
        Probabilities of the shape of ``log_predictions``; not negative. A target of 0 adds nothing,
        whatever its prediction, and has the derivative 0. If a prediction is 0 and its target is
        not, the divergence is infinite.
    axis : int or tuple of int
        The axes over which the probabilities sum to 1.
    log_target : bool
        Whether ``targets`` are logarithms too.
    where : array_like of bool, optional
        Which examples count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their probabilities are.

    Returns
    -------
    Tensor
        One divergence for each example: the shape of ``targets`` without the axes.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.

    Notes
    -----
    Kullback, Leibler, "On information and sufficiency", Ann. Math. Statist. 22 (1951).

    Examples
    --------
    >>> from math import inf, log
    >>> kl_divergence([log(0.5), log(0.5), -inf], [1.0, 0.0, 0.0])
    Tensor(0.69314718)
    """
    names = ("log_predictions", "targets")
    logs, shares = pair_of("kl_divergence", names, log_predictions, targets)
    axes = normalize_axes(axis, logs.ndim, "kl_divergence")
    shape = reduced_shape(logs.shape, axes, False)
    counted = mask_of("kl_divergence", where, shape)
    wide = widened_mask(counted, axes)
    logs, shares = masked(logs, wide), masked(shares, wide)
    is_none = shares == -np.inf if log_target else shares == 0
    known = fnp.where(is_none, 0 if log_target else 1, shares)
    weights, log_weights = (fnp.exp(known), known) if log_target else (known, fnp.log(known))
    terms = weights * (log_weights - fnp.where(is_none, 0, logs))  # 0 for a target of 0
    total: Tensor = fnp.sum(terms, axis=axes)
    return masked(total, counted)

"""Classification losses: binary cross-entropy, focal losses, and the hinge loss.

Labels may be integers, booleans, or probabilities. With a mask, average by ``.mean(where=mask)``.

>>> sigmoid_binary_cross_entropy([0.0, np.inf, -1000.0], [1, 1, 0])
Tensor([0.69314718, 0.        , 0.        ])
"""

from __future__ import annotations

from math import log
from typing import Final, SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value, relative_logits
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.nn.activations import relu, sigmoid, softplus
from funcgrad.nn.loss_parts import (
    check_classes,
    check_when_run,
    class_labels,
    mask_of,
    masked,
    parameter,
    scores_and_labels,
    widened_mask,
)
from funcgrad.tensor.tensor import Tensor, wrap

_FAR: Final = 800.0
"""The logit beyond which a probability in double precision is 0 or 1."""


@answering
def sigmoid_binary_cross_entropy(
    logits: ArrayLike, labels: ArrayLike, *, where: ArrayLike | None = None
) -> Tensor:
    """Binary cross-entropy of logits: ``-log`` of the probability of the right class.

    ``-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits))``, without overflow
    or cancellation. Use it for two classes, or for several labels that are independent of each
    other.

    Parameters
    ----------
    logits : array_like
        Real; ``sigmoid(logits)`` is the probability of class 1. An infinite logit is certain: its
        loss is 0 if it is right, with the slope 0, and infinite if it is wrong, with the slope 1 or
        -1.
    labels : array_like
        1 or 0 (integers or booleans), or probabilities of class 1, of the shape of ``logits``. The
        term of a probability of 0 is 0, and so is its derivative.
    where : array_like of bool, optional
        Which elements count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their arguments are.

    Returns
    -------
    Tensor
        The loss of each element.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.
    ArgumentError
        An integer label is neither 0 nor 1.
    ConditionError
        The same, for labels inside ``jit`` or ``vmap``, which are checked when the program runs.

    Examples
    --------
    >>> sigmoid_binary_cross_entropy([0.0, 2.0], [1, 0])
    Tensor([0.69314718, 2.12692801])
    """
    name = "sigmoid_binary_cross_entropy"
    scores, shares, counted = _logits_and_shares(name, logits, labels, where)
    return masked(_binary(*_sides(scores, shares)), counted)


def _logits_and_shares(
    name: str, logits: ArrayLike, labels: ArrayLike, where: ArrayLike | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return logits and labels, 0 where they do not count, and the mask."""
    scores, shares = scores_and_labels(name, ("logits", "labels"), logits, labels)
    counted = mask_of(name, where, scores.shape)
    scores, shares = masked(scores, counted), masked(shares, counted)
    if dtype_of(operand(labels, name)).kind in "iu":
        check_classes(name, shares, 2, " Of labels -1 and 1 write (labels + 1) / 2.")
    return scores, shares, counted


def _sides(scores: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logit of the likelier class, and the label's share of the other class."""
    is_second = scores < 0
    return fnp.where(is_second, -scores, scores), fnp.where(is_second, shares, 1 - shares)


def _binary(size: Tensor, unlikely: Tensor) -> Tensor:
    """Return the cross-entropy; a share of 0 of an infinite cost is 0."""
    cost = fnp.where((unlikely == 0) & (size == np.inf), 0, size)
    return unlikely * cost + softplus(-size)


@answering
def sigmoid_focal_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: ArrayLike | None = None,
    gamma: ArrayLike = 2.0,
    where: ArrayLike | None = None,
) -> Tensor:
    """Focal loss of logits: ``(1 - p)**gamma * -log(p)``, where ``p = P(right class)``.

    Examples that the model gets right already count little, so the many easy examples (background
    in object detection) do not drown the few hard ones.

    Parameters
    ----------
    logits, labels : array_like
        As for ``sigmoid_binary_cross_entropy``. For a label between 0 and 1, each of the two
        classes is the wrong one with its share.
    alpha : float or 0-d tensor, optional
        From 0 to 1: the weight of class 1; class 0 has the weight ``1 - alpha``. By default both
        classes have the weight 1.
    gamma : float or 0-d tensor
        The exponent, at least 0; 0 gives the cross-entropy.
    where : array_like of bool, optional
        Which elements count, as for ``sigmoid_binary_cross_entropy``.

    Returns
    -------
    Tensor
        The loss of each element.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, an option is not a number, or the mask is not boolean.
    ArgumentError
        An option is out of bounds, or an integer label is neither 0 nor 1.
    ConditionError
        The same, for labels inside ``jit`` or ``vmap``, which are checked when the program runs.

    Notes
    -----
    Lin, Goyal, Girshick, He, Dollar, "Focal loss for dense object detection", ICCV 2017.

    Examples
    --------
    >>> sigmoid_focal_loss([0.0, 4.0], [1, 1])
    Tensor([1.73286795e-01, 5.87156972e-06])
    """
    name = "sigmoid_focal_loss"
    scores, shares, counted = _logits_and_shares(name, logits, labels, where)
    power = parameter(name, "gamma", gamma, scores)
    if alpha is None:
        return masked(_focal(scores, shares, power), counted)
    share = parameter(name, "alpha", alpha, scores, most=1.0)
    weight = share * shares + (1 - share) * (1 - shares)
    return masked(weight * _focal(scores, shares, power), counted)


def _focal(scores: Tensor, shares: Tensor, power: Tensor) -> Tensor:
    """Compute the focal loss by regions, so that no infinite cost is multiplied by a slope of 0."""
    size, unlikely = _sides(scores, shares)
    is_right, is_far = unlikely <= fnp.exp(-size), size > _FAR
    # The likelier class is right: take the power of the other, small probability in logarithms.
    close = fnp.where(is_right & ~is_far, size, 0)
    limit = 0.98 * log(np.finfo(scores.dtype).max)
    growth = fnp.expm1(fnp.where(close > limit, limit, close))
    excess = fnp.log1p(fnp.where(is_right, unlikely, 0) * growth)
    factor = fnp.exp(power * (excess - softplus(close)))
    right = fnp.where(is_far, 0, factor * _binary(close, unlikely))
    # It is wrong, or partly wrong: the other probability is not small, and constant far out.
    apart = fnp.where(is_right | is_far, 0, size)
    wrong = sigmoid(-apart) + unlikely * fnp.tanh(apart / 2)
    other = fnp.power(wrong, power) * _binary(apart, unlikely)
    amiss = fnp.where(is_right, 1, unlikely)
    beyond = fnp.where(is_far, size, 1) * fnp.power(amiss, 1 + power)
    return fnp.where(is_right, right, fnp.where(is_far, beyond, other))


@answering
def softmax_focal_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    gamma: ArrayLike = 2.0,
    where: ArrayLike | None = None,
) -> Tensor:
    """Focal loss of softmax: ``(1 - p)**gamma * -log(p)``, where ``p = P(right class)``.

    For imbalanced classes: examples that the model gets right already count little. With two
    classes, or independent labels, use ``sigmoid_focal_loss``.

    Parameters
    ----------
    logits : array_like
        Scores of the classes, the arguments of ``softmax``. Minus infinity masks a class.
    labels : array_like of int
        The index of the right class of each example: the shape of ``logits`` without the axis.
    axis : int
        The axis of the classes.
    gamma : float or 0-d tensor
        The exponent, at least 0; 0 gives the cross-entropy.
    where : array_like of bool, optional
        Which examples count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their logits and labels are.

    Returns
    -------
    Tensor
        The loss of each example: the shape of ``logits`` without the axis.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DtypeError
        Logits are complex, labels are not integers, or the mask is not boolean.
    ArgumentError
        A label is out of range, or the exponent is negative.
    ConditionError
        The same, for labels inside ``jit`` or ``vmap``, which are checked when the program runs.

    Notes
    -----
    Lin, Goyal, Girshick, He, Dollar, "Focal loss for dense object detection", ICCV 2017. The right
    class and all others together count as two classes, whose logit is the margin: the right logit
    minus the ``logsumexp`` of the others. All digits are right at any probability.

    Examples
    --------
    >>> softmax_focal_loss([[0.0, 0.0], [50.0, 0.0]], [1, 0], gamma=1.0)
    Tensor([3.46573590e-01, 3.72007598e-44])
    """
    name = "softmax_focal_loss"
    scores = wrap(real_value(logits, name))
    place = normalize_axis(axis, scores.ndim, name)
    power = parameter(name, "gamma", gamma, scores)
    numbers = class_labels(name, labels)
    shape = scores.shape[:place] + scores.shape[place + 1 :]
    if numbers.shape != shape:
        raise ShapeError(
            f"{name}: labels of shape {numbers.shape} do not fit logits of shape {scores.shape}"
            f" with the classes on axis {place}; expected shape {shape}."
        )
    counted = mask_of(name, where, shape)
    numbers = check_classes(name, masked(numbers, counted), scores.shape[place], _HINT)
    margin = _margin(masked(scores, widened_mask(counted, place)), numbers, place)
    return masked(_focal(margin, fnp.ones((), margin.dtype), power), counted)


_HINT: Final = " For a label that means that there is none, write where=labels >= 0."


def _margin(scores: Tensor, numbers: Tensor, place: int) -> Tensor:
    """Return the right logit minus the ``logsumexp`` of the other logits."""
    relative = wrap(relative_logits(scores, (place,), "softmax_focal_loss"))
    positions = fnp.expand_dims(numbers, place)
    classes = fnp.arange(shape_of(relative)[place])
    is_right = positions == classes.reshape((-1,) + (1,) * (relative.ndim - place - 1))
    right = fnp.sum(fnp.where(is_right, relative, 0), axis=place)
    others = fnp.logsumexp(fnp.where(is_right, -np.inf, relative), axis=place)
    return right - others


@answering
def hinge_loss(
    predictions: ArrayLike, targets: ArrayLike, *, where: ArrayLike | None = None
) -> Tensor:
    """Hinge loss, element-wise: ``max(0, 1 - targets * predictions)``.

    The loss of support vector machines: predictions on the right side of the margin cost nothing.

    Parameters
    ----------
    predictions : array_like
        Real; the sign is the class.
    targets : array_like
        1 or -1 (integers too), of the shape of ``predictions``.
    where : array_like of bool, optional
        Which elements count, as for ``sigmoid_binary_cross_entropy``.

    Returns
    -------
    Tensor
        The loss of each element. At the kink, where the loss becomes 0, its slope is 0 (the
        subgradient of least norm).

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.
    ArgumentError
        An integer target is neither 1 nor -1.
    ConditionError
        The same, for targets inside ``jit`` or ``vmap``, which are checked when the program runs.

    Examples
    --------
    >>> hinge_loss([2.0, 0.5, 0.5], [1, 1, -1])
    Tensor([0. , 0.5, 1.5])
    """
    names = ("predictions", "targets")
    first, second = scores_and_labels("hinge_loss", names, predictions, targets)
    counted = mask_of("hinge_loss", where, first.shape)
    if dtype_of(operand(targets, "hinge_loss")).kind in "iub":
        _check_signs(second if counted is None else fnp.where(counted, second, 1))
    return masked(relu(1 - masked(first, counted) * masked(second, counted)), counted)


def _check_signs(targets: Tensor) -> None:
    raw = concrete(targets)
    if type(raw) not in RAW:
        needed = "hinge_loss: targets have to be 1 or -1"
        check_when_run(fnp.absolute(targets) == 1, needed, target=targets)
        return
    values = np.asarray(raw)
    wrong = values[np.abs(values) != 1]
    if wrong.size:
        raise ArgumentError(
            f"hinge_loss: targets have to be 1 or -1, got {wrong[0]:g}. Of classes 0 and 1 write"
            " 2 * targets - 1."
        )

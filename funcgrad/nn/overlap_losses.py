"""Losses of areas: how little of two sets, by shares of their elements, is in both.

>>> dice_loss([1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
Tensor(0.0)
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike, normalize_axes
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.nn.loss_parts import mask_of, masked, parameter, scores_and_labels
from funcgrad.tensor.tensor import Tensor


@answering
def dice_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    axis: AxisLike = -1,
    *,
    smooth: ArrayLike = 1.0,
    alpha: ArrayLike = 0.5,
    beta: ArrayLike = 0.5,
    where: ArrayLike | None = None,
) -> Tensor:
    """1 minus the coefficient of Dice, of probabilities: how little two areas overlap.

    Parameters
    ----------
    predictions : array_like
        Probabilities, as of ``sigmoid`` or ``softmax``, rather than logits.
    targets : array_like
        1 for what belongs to the area, else 0 (integers and truth values too), or probabilities, of
        the shape of ``predictions``.
    axis : int or tuple of int
        The axes of the elements of an area: ``(1, 2)`` for images of shape ``(batch, height, width,
        classes)``, and the result is for each image and class.
    smooth : float or 0-d tensor
        At least 0: added to numerator and denominator. Two empty areas have the loss 0 in any case.
    alpha, beta : float or 0-d tensor
        At least 0: the weights of false positives and of false negatives. With 1/2 for both it is
        Dice's coefficient, with 1 the index of Jaccard, and with others that of Tversky.
    where : array_like of bool, optional
        Which elements count: it broadcasts to the shape of ``predictions``. Others belong to
        neither area, and have the derivative 0, whatever their numbers are.

    Returns
    -------
    Tensor
        The shape of ``predictions`` without the axes. For areas that are sets, with true positives
        TP and so on, ``1 - (TP + smooth) / (TP + alpha * FP + beta * FN + smooth)``.

    Raises
    ------
    ShapeError
        The shapes differ, or that of the mask does not fit.
    DtypeError
        An array is complex, a number none, or the mask not of truth values.
    ArgumentError
        A number is negative.

    Notes
    -----
    Milletari, Navab, Ahmadi, "V-Net", 3DV 2016; Salehi, Erdogmus, Gholipour, "Tversky loss function
    for image segmentation", MLMI 2017.

    Examples
    --------
    >>> dice_loss([0.5, 1.0, 0.0], [1, 1, 0], smooth=0.0)
    Tensor(0.14285714)
    """
    name = "dice_loss"
    shares, truths = scores_and_labels(name, ("predictions", "targets"), predictions, targets)
    axes = normalize_axes(axis, shares.ndim, name)
    extra = parameter(name, "smooth", smooth, shares)
    weight, other_weight = [
        parameter(name, word, value, shares) for word, value in (("alpha", alpha), ("beta", beta))
    ]
    counted = mask_of(name, where, shares.shape)
    shares, truths = masked(shares, counted), masked(truths, counted)
    both = fnp.sum(shares * truths, axis=axes)
    wrong = weight * fnp.sum(shares * (1 - truths), axis=axes)
    wrong = wrong + other_weight * fnp.sum((1 - shares) * truths, axis=axes)
    whole = both + wrong + extra
    is_empty = whole == 0
    return fnp.where(is_empty, 0, wrong / fnp.where(is_empty, 1, whole))

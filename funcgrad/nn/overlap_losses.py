"""Overlap losses for segmentation: how little two areas overlap.

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
    """Dice loss: 1 minus the Dice coefficient of a predicted and a true area.

    For segmentation, where an area is small compared with the background: correct background does
    not count. For predictions with true positives TP, false positives FP and false negatives FN the
    loss is ``1 - (TP + smooth) / (TP + alpha * FP + beta * FN + smooth)``.

    Parameters
    ----------
    predictions : array_like
        Probabilities, such as ``sigmoid(logits)``; not logits.
    targets : array_like
        1 inside the area, else 0 (integers or booleans), or probabilities; of the shape of
        ``predictions``.
    axis : int or tuple of int
        The axes over which an area extends. For images of shape ``(batch, height, width, classes)``
        it is ``(1, 2)``, and each image and class has a loss.
    smooth : float or 0-d tensor
        At least 0; added to numerator and denominator. Two empty areas always have the loss 0.
    alpha, beta : float or 0-d tensor
        At least 0: the weights of false positives and false negatives. With 1/2 for both the
        fraction is the Dice coefficient, with 1 the Jaccard index, otherwise the Tversky index.
    where : array_like of bool, optional
        Which elements count; it broadcasts to the shape of ``predictions``. The others belong to
        neither area and have the derivative 0, whatever their values are.

    Returns
    -------
    Tensor
        The loss of each area: the shape of ``predictions`` without the axes.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, an option is not a number, or the mask is not boolean.
    ArgumentError
        An option is negative.

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

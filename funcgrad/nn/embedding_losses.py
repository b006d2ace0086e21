"""Losses of embedding vectors: by the angles or the distances between them.

Vectors lie along one axis, and each vector has one loss. Norms are exact at any scale, so no small
epsilon is needed. The zero vector has the direction 0, with the derivative 0.

>>> cosine_similarity([[3e200, 4e200], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]])
Tensor([0.6, 0. ])
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad._primitives.norms import directed
from funcgrad.errors import ShapeError
from funcgrad.nn.activations import relu, softplus
from funcgrad.nn.loss_parts import (
    check_equal_shapes,
    class_labels,
    mask_of,
    masked,
    pair_of,
    parameter,
    widened_mask,
)
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def cosine_similarity(
    predictions: ArrayLike,
    targets: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    where: ArrayLike | None = None,
) -> Tensor:
    """Cosine of the angle between two vectors: ``x @ y / (norm(x) * norm(y))``.

    A measure of similarity that ignores the lengths of the vectors: 1 for equal directions, 0 for
    right angles, -1 for opposite directions.

    Parameters
    ----------
    predictions, targets : array_like
        Real arrays of equal shapes. The cosine with a zero vector is 0, and so is its derivative
        with respect to both vectors (the subgradient of least norm). A vector with an infinity has
        no direction: the cosine and its derivatives are NaN.
    axis : int
        The axis along which the vectors lie.
    where : array_like of bool, optional
        Which vectors count; it broadcasts to the shape of the result. The result and the derivative
        of the others are 0, whatever their elements are.

    Returns
    -------
    Tensor
        From -1 to 1, of the shape of ``predictions`` without the axis.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.

    Examples
    --------
    >>> cosine_similarity([1.0, 1.0], [0.0, 2.0])
    Tensor(0.70710678)
    """
    return _cosine("cosine_similarity", predictions, targets, axis, where, 0)


@answering
def cosine_distance(
    predictions: ArrayLike,
    targets: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    where: ArrayLike | None = None,
) -> Tensor:
    """Cosine distance: 1 minus ``cosine_similarity``.

    Parameters
    ----------
    predictions, targets, axis, where
        As for ``cosine_similarity``. The distance to a zero vector is 1.

    Returns
    -------
    Tensor
        From 0 (equal directions) to 2 (opposite directions), of the shape of ``predictions``
        without the axis.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.

    Examples
    --------
    >>> cosine_distance([1.0, 0.0], [[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]][2])
    Tensor(2.0)
    """
    return _cosine("cosine_distance", predictions, targets, axis, where, 1)


def _cosine(
    operation: str,
    predictions: ArrayLike,
    targets: ArrayLike,
    axis: SupportsIndex,
    where: ArrayLike | None,
    minuend: int,
) -> Tensor:
    """Return the cosine, or 1 minus the cosine."""
    first, second = pair_of(operation, ("predictions", "targets"), predictions, targets)
    place = normalize_axis(axis, first.ndim, operation)
    counted = mask_of(operation, where, first.shape[:place] + first.shape[place + 1 :])
    wide = widened_mask(counted, place)
    turned = [_direction(masked(x, wide), place) for x in (first, second)]
    cosine = fnp.sum(turned[0] * turned[1], axis=place)
    return masked(1 - cosine if minuend else cosine, counted)


def _direction(x: Tensor, axis: int) -> Tensor:
    """Divide vectors by their norms; zero vectors stay 0."""
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return wrap(directed(np.ones(shape, x.dtype), x, axis=(axis,)))


@answering
def triplet_margin_loss(
    anchors: ArrayLike,
    positives: ArrayLike,
    negatives: ArrayLike,
    axis: SupportsIndex = -1,
    *,
    norm_degree: float = 2,
    margin: ArrayLike = 1.0,
    where: ArrayLike | None = None,
) -> Tensor:
    """Triplet loss: the positive should be closer to the anchor than the negative, by a margin.

    ``max(0, norm(anchor - positive) - norm(anchor - negative) + margin)``. It trains embeddings
    (faces, products) in which examples of one class are neighbours.

    Parameters
    ----------
    anchors, positives, negatives : array_like
        Real arrays of equal shapes. Equal vectors have the distance 0, with the derivative 0 (the
        subgradient of least norm).
    axis : int
        The axis along which the vectors lie.
    norm_degree : float
        The order of the norm: ``ord`` of ``fnp.linalg.norm``.
    margin : float or 0-d tensor
        At least 0.
    where : array_like of bool, optional
        Which triplets count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their elements are.

    Returns
    -------
    Tensor
        The shape of ``anchors`` without the axis. At the kink, where the loss becomes 0, its slope
        is 0.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.
    ArgumentError
        The margin is negative, or the order of the norm is unknown.

    Notes
    -----
    Balntas, Riba, Ponsa, Mikolajczyk, "Learning local feature descriptors with triplets and shallow
    convolutional neural networks", BMVC 2016. Other libraries add a small epsilon to the distances;
    this function does not.

    Examples
    --------
    >>> triplet_margin_loss([0.0, 0.0], [3.0, 4.0], [0.0, 2.0])
    Tensor(4.0)
    """
    name = "triplet_margin_loss"
    first, second, third = real_numbers(name, anchors, positives, negatives)
    check_equal_shapes(name, ("anchors", "positives"), first, second)
    check_equal_shapes(name, ("anchors", "negatives"), first, third)
    place = normalize_axis(axis, first.ndim, name)
    apart = parameter(name, "margin", margin, first)
    counted = mask_of(name, where, first.shape[:place] + first.shape[place + 1 :])
    anchor, near, far = [masked(x, widened_mask(counted, place)) for x in (first, second, third)]
    distance = fnp.linalg.norm(anchor - near, norm_degree, place)
    other = fnp.linalg.norm(anchor - far, norm_degree, place)
    return masked(relu(distance - other + apart), counted)


@answering
def ntxent(
    embeddings: ArrayLike,
    labels: ArrayLike,
    temperature: ArrayLike = 0.07,
    *,
    where: ArrayLike | None = None,
) -> Tensor:
    """NT-Xent, a contrastive loss: embeddings with equal labels should point the same way.

    For two embeddings i and j with one label it is ``-log(e_ij / (e_ij + sum over k of e_ik))``,
    where ``e_ij = exp(cosine(i, j) / temperature)`` and k runs over the embeddings with other
    labels. It trains representations without classes: two augmented views of one image get one
    label (SimCLR).

    Parameters
    ----------
    embeddings : array_like, shape (..., examples, features)
        Real. The cosine with a zero vector is 0.
    labels : array_like of int, shape (..., examples)
        Any integers; examples with equal labels belong together.
    temperature : float or 0-d tensor
        Positive.
    where : array_like of bool, optional
        Which examples count; it broadcasts to ``(..., examples)``. The others are not compared, and
        their loss and derivative are 0.

    Returns
    -------
    Tensor, shape (..., examples)
        For each example, the mean over the other examples of its label; 0 if it has none.

    Raises
    ------
    ShapeError
        The shapes do not fit.
    DtypeError
        Embeddings are complex, labels are not integers, or the mask is not boolean.
    ArgumentError
        The temperature is not positive.

    Notes
    -----
    Chen, Kornblith, Norouzi, Hinton, "A simple framework for contrastive learning of visual
    representations", ICML 2020. The mean of the results is the value of ``optax.losses.ntxent`` if
    all labels are equally frequent.

    Examples
    --------
    >>> ntxent([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [0, 0, 1], 1.0)
    Tensor([0.31326169, 0.31326169, 0.        ])
    """
    vectors, numbers = wrap(real_value(embeddings, "ntxent")), class_labels("ntxent", labels)
    if vectors.ndim < 2 or numbers.shape != vectors.shape[:-1]:
        raise ShapeError(
            f"ntxent: embeddings of shape {vectors.shape} and labels of shape {numbers.shape} do"
            " not fit: expected (..., examples, features) and (..., examples)."
        )
    heat = parameter("ntxent", "temperature", temperature, vectors, open_below=True)
    counted = mask_of("ntxent", where, numbers.shape)
    turned = _direction(masked(vectors, widened_mask(counted, -1)), vectors.ndim - 1)
    nearness = turned @ turned.mT / heat
    is_alike = numbers[..., :, None] == numbers[..., None, :]
    is_other = ~is_alike
    is_alike = is_alike & ~np.eye(numbers.shape[-1], dtype=bool)
    if counted is not None:
        is_both = counted[..., :, None] & counted[..., None, :]
        is_alike, is_other = is_alike & is_both, is_other & is_both
    others = fnp.logsumexp(fnp.where(is_other, nearness, -np.inf), axis=-1, keepdims=True)
    costs = fnp.where(is_alike, softplus(others - nearness), 0)
    count = fnp.maximum(fnp.sum(is_alike, axis=-1), 1).astype(vectors.dtype)
    return fnp.sum(costs, axis=-1) / count

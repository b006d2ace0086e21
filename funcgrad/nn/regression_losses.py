"""Regression losses: a function of each difference between prediction and target.

Each element has one loss. With a mask, average by ``.mean(where=mask)``:

>>> from math import nan
>>> mask = [True, True, False]
>>> squared_error([1.0, 2.0, nan], [0.0, 0.0, 0.0], where=mask).mean(where=mask)
Tensor(2.5)
"""

from __future__ import annotations

from math import log
from typing import Final

import funcgrad.numpy as fnp
from funcgrad._core.trace import bind1
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.elementwise import square
from funcgrad.nn.loss_parts import mask_of, masked, pair_of, parameter
from funcgrad.scipy.special.entropies import huber
from funcgrad.tensor.tensor import Tensor, wrap

_NAMES: Final = ("predictions", "targets")


@answering
def squared_error(
    predictions: ArrayLike, targets: ArrayLike, *, where: ArrayLike | None = None
) -> Tensor:
    """Squared error, element-wise: ``(predictions - targets)**2``.

    The usual loss of regression; its mean is the mean squared error. Outliers dominate it: see
    ``huber_loss``.

    Parameters
    ----------
    predictions, targets : array_like
        Real arrays of equal shapes. They do not broadcast: (n, 1) against (n,) is usually a
        mistake.
    where : array_like of bool, optional
        Which elements count; it broadcasts to the shape of the result. The loss and the derivative
        of the others are 0, whatever their arguments are.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.

    Examples
    --------
    >>> squared_error([1.0, 2.0], [1.0, 4.0])
    Tensor([0., 4.])
    """
    first, second = pair_of("squared_error", _NAMES, predictions, targets)
    counted = mask_of("squared_error", where, first.shape)
    difference = masked(first, counted) - masked(second, counted)
    error: Tensor = wrap(bind1(square, difference))
    return masked(error, counted)


@answering
def huber_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    delta: ArrayLike = 1.0,
    where: ArrayLike | None = None,
) -> Tensor:
    """Huber loss, element-wise: quadratic up to ``delta``, linear beyond.

    Robust regression: for small differences it is ``d**2 / 2``; outliers pull with the bounded
    slope ``delta``.

    Parameters
    ----------
    predictions, targets : array_like
        Real arrays of equal shapes.
    delta : float or 0-d tensor
        Positive: the difference at which the line begins, and its slope. At that point the first
        derivatives of both formulas agree; the second derivative is 1, from the square.
    where : array_like of bool, optional
        Which elements count, as for ``squared_error``.

    Returns
    -------
    Tensor
        ``d**2 / 2`` for differences of magnitude ``d`` up to ``delta``, else
        ``delta * (d - delta / 2)``.

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, ``delta`` is not a real number, or the mask is not boolean.
    ArgumentError
        ``delta`` is not positive.

    Notes
    -----
    Huber, "Robust estimation of a location parameter", Ann. Math. Statist. 35 (1964).
    ``smooth_l1_loss`` of PyTorch is this loss divided by ``delta``.

    Examples
    --------
    >>> huber_loss([1.0, 4.0], [0.5, 1.0])
    Tensor([0.125, 2.5  ])
    """
    first, second = pair_of("huber_loss", _NAMES, predictions, targets)
    bound = parameter("huber_loss", "delta", delta, first, open_below=True)
    counted = mask_of("huber_loss", where, first.shape)
    return masked(huber(bound, masked(first, counted) - masked(second, counted)), counted)


@answering
def log_cosh(
    predictions: ArrayLike, targets: ArrayLike, *, where: ArrayLike | None = None
) -> Tensor:
    """Log-cosh loss, element-wise: ``log(cosh(predictions - targets))``.

    A smooth relative of ``huber_loss``: close to ``d**2 / 2`` for small differences and to
    ``abs(d) - log(2)`` for large ones. It is accurate to all digits in both ranges, and does not
    overflow.

    Parameters
    ----------
    predictions, targets : array_like
        Real arrays of equal shapes.
    where : array_like of bool, optional
        Which elements count, as for ``squared_error``.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The shapes differ, or the mask does not broadcast.
    DtypeError
        An array is complex, or the mask is not boolean.

    Examples
    --------
    >>> log_cosh([1e-10, 1000.0], [0.0, 0.0])
    Tensor([5.00000000e-21, 9.99306853e+02])
    """
    first, second = pair_of("log_cosh", _NAMES, predictions, targets)
    counted = mask_of("log_cosh", where, first.shape)
    difference = masked(first, counted) - masked(second, counted)
    is_small = fnp.abs(difference) <= 1
    near, far = fnp.where(is_small, difference, 0), fnp.where(is_small, 1, difference)
    size = fnp.abs(far)
    # cosh(x) = 1 + 2 sinh(x/2)**2 = exp(|x|) (1 + exp(-2|x|)) / 2
    small = fnp.log1p(2 * fnp.square(fnp.sinh(near / 2)))
    large = size + (fnp.log1p(fnp.exp(-2 * size)) - log(2))
    return masked(fnp.where(is_small, small, large), counted)

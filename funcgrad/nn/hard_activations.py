"""Piecewise linear activations: cheap replacements of smooth ones, which saturate exactly.

Where two pieces meet the slope is the smaller one in magnitude. Arguments are real arrays; integers
become float64, and NaN stays.

>>> hard_tanh([-2.0, 0.5, 2.0])
Tensor([-1. ,  0.5,  1. ])
"""

from __future__ import annotations

from typing import Final

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.logits import real_value
from funcgrad.tensor.tensor import Tensor, wrap


def relu6(x: ArrayLike) -> Tensor:
    """``relu`` capped at 6: ``min(max(x, 0), 6)``.

    Common in networks for low precision, which need bounded activations. The derivative at 0 and at
    6 is 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> relu6([-1.0, 2.0, 9.0])
    Tensor([0., 2., 6.])
    """
    return _between(wrap(real_value(x, "relu6")), 0.0, 6.0)


def sparse_sigmoid(x: ArrayLike) -> Tensor:
    """A straight line from 0 at -1 to 1 at 1: ``min(max((x + 1) / 2, 0), 1)``.

    The derivative of ``sparse_plus``, and ``sparsemax`` of two classes with the logits 0 and x. The
    derivative at -1 and at 1 is 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> sparse_sigmoid([-2.0, 0.0, 0.5])
    Tensor([0.  , 0.5 , 0.75])
    """
    return (_between(wrap(real_value(x, "sparse_sigmoid")), -1.0, 1.0) + 1.0) / 2.0


def sparse_plus(x: ArrayLike) -> Tensor:
    """A ``relu`` with a round bend: 0 below -1, ``(x + 1)**2 / 4``, and ``x`` above 1.

    It relates to ``sparsemax`` as ``softplus`` to ``softmax``. Its first derivative is continuous.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Martins, Astudillo, "From softmax to sparsemax", ICML 2016.

    Examples
    --------
    >>> sparse_plus([-2.0, 0.0, 3.0])
    Tensor([0.  , 0.25, 3.  ])
    """
    value = wrap(real_value(x, "sparse_plus"))
    bend = _between(value, -1.0, 1.0) + 1.0
    return fnp.where(value >= 1.0, value, bend * bend / 4.0)


def hard_tanh(x: ArrayLike) -> Tensor:
    """Clip to [-1, 1]: ``min(max(x, -1), 1)``, a piecewise linear ``tanh``.

    The derivative at -1 and at 1 is 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> hard_tanh([-2.0, 0.5])
    Tensor([-1. ,  0.5])
    """
    return _between(wrap(real_value(x, "hard_tanh")), -1.0, 1.0)


def hard_sigmoid(x: ArrayLike) -> Tensor:
    """Piecewise linear sigmoid: ``relu6(x + 3) / 6``, a line from 0 at -3 to 1 at 3.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Howard et al., "Searching for MobileNetV3", ICCV 2019.

    Examples
    --------
    >>> hard_sigmoid([-4.0, 0.0, 3.0])
    Tensor([0. , 0.5, 1. ])
    """
    value = wrap(real_value(x, "hard_sigmoid"))
    inner = fnp.where(fnp.abs(value) >= 3, 0, value)
    return fnp.where(value <= -3, 0, fnp.where(value >= 3, 1, (inner + 3) / 6))


def hard_silu(x: ArrayLike) -> Tensor:
    """Hard swish: ``x * hard_sigmoid(x)``, which is 0 below -3, and ``x`` above 3.

    At -3 the derivative is 0, at 3 it is 1.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Howard et al., "Searching for MobileNetV3", ICCV 2019.

    Examples
    --------
    >>> hard_silu([-4.0, 1.5, 5.0])
    Tensor([0.   , 1.125, 5.   ])
    """
    value = wrap(real_value(x, "hard_silu"))
    inner = fnp.where(fnp.abs(value) >= 3, 0, value)  # the square of a large value overflows
    return fnp.where(value <= -3, 0, fnp.where(value >= 3, value, inner * (inner + 3) / 6))


hard_swish: Final = hard_silu


def _between(value: Tensor, low: float, high: float) -> Tensor:
    """Clip, without a derivative at the ends: comparisons keep NaN in the innermost branch."""
    return fnp.where(value <= low, low, fnp.where(value >= high, high, value))

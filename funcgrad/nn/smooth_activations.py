"""Smooth activations: relatives of ``elu``, ``softplus`` and ``tanh``.

Arguments are real arrays; integers become float64. Values and slopes at infinity are the limits.

>>> from math import inf
>>> softsign([-inf, 0.0, 1.0])
Tensor([-1. ,  0. ,  0.5])
"""

from __future__ import annotations

from typing import Final

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad.nn.activations import elu, softplus
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap

# The fixed point of mean 0 and variance 1 (Klambauer et al., appendix A1).
_ALPHA: Final = 1.6732632423543772
_SCALE: Final = 1.0507009873554805

# Beyond this, exponentials have vanished, in double precision too.
_FAR: Final = 800.0


def selu(x: ArrayLike) -> Tensor:
    """Scaled exponential linear unit: ``1.0507 * elu(x, 1.6733)``.

    If inputs have mean 0 and variance 1, the outputs have, too, so deep networks need no
    normalization layers.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", NeurIPS 2017. Draw
    the weights with ``lecun_normal``.

    Examples
    --------
    >>> selu([-1.0, 0.0, 1.0])
    Tensor([-1.11133074,  0.        ,  1.05070099])
    """
    return _SCALE * elu(real_value(x, "selu"), _ALPHA)


@answering
def celu(x: ArrayLike, *, alpha: ArrayLike = 1.0) -> Tensor:
    """Continuous ``elu``: ``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``.

    Its slope at 0 is 1 for every ``alpha``, so the first derivative is continuous.

    Parameters
    ----------
    x : array_like
    alpha : array_like
        Positive; the function tends to ``-alpha`` as ``x`` tends to minus infinity. It is
        differentiable with respect to ``alpha``.

    Returns
    -------
    Tensor

    Notes
    -----
    Barron, "Continuously differentiable exponential linear units", arXiv:1704.07483 (2017).

    Examples
    --------
    >>> celu([-1.0, 0.0, 1.0], alpha=2.0)
    Tensor([-0.78693868,  0.        ,  1.        ])
    """
    value, width = real_numbers("celu", x, alpha)
    ratio = fnp.where(value > 0, 0, value) / width
    near = fnp.where(ratio < -_FAR, -_FAR, ratio)  # avoids infinity times 0
    return fnp.where(value > 0, value, width * fnp.expm1(near))


def mish(x: ArrayLike) -> Tensor:
    """Mish: ``x * tanh(softplus(x))``, a smooth relative of ``silu``; 0 at minus infinity.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Misra, "Mish: a self regularized non-monotonic activation function", BMVC 2020.

    Examples
    --------
    >>> mish([0.0, 1.0])
    Tensor([0.        , 0.86509839])
    """
    value = wrap(real_value(x, "mish"))
    near = fnp.where(fnp.abs(value) > _FAR, -_FAR, value)  # avoids infinity times 0
    return fnp.where(value > _FAR, value, near * fnp.tanh(softplus(near)))


def softsign(x: ArrayLike) -> Tensor:
    """Softsign: ``x / (1 + abs(x))``.

    Like ``tanh``, from -1 to 1, but it approaches them more slowly, so its slopes vanish later.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> softsign([-1.0, 0.0, 3.0])
    Tensor([-0.5 ,  0.  ,  0.75])
    """
    value = wrap(real_value(x, "softsign"))
    is_small = fnp.abs(value) <= 1
    small, large = fnp.where(is_small, value, 0), fnp.where(is_small, 1, value)
    inverse = 1 / large  # infinity divided by infinity is NaN
    return fnp.where(
        is_small, small / (1 + fnp.abs(small)), fnp.sign(large) / (1 + fnp.abs(inverse))
    )


@answering
def squareplus(x: ArrayLike, *, width: ArrayLike = 4.0) -> Tensor:
    """Squareplus: ``(x + sqrt(x**2 + width)) / 2``, an algebraic ``softplus``.

    It needs no exponential, and costs less.

    Parameters
    ----------
    x : array_like
    width : array_like
        Positive: the width of the bend around 0. With 0 it would be ``relu``.

    Returns
    -------
    Tensor
        Exact for negative ``x``, too, where the formula would lose all digits.

    Notes
    -----
    Barron, "Squareplus: a softplus-like algebraic rectifier", arXiv:2112.11687 (2021).

    Examples
    --------
    >>> squareplus([-1e10, 0.0, 1.5])
    Tensor([1.e-10, 1.e+00, 2.e+00])
    """
    value, bend = real_numbers("squareplus", x, width)
    size = fnp.where(value < 0, -value, value)
    larger = size / 2 + fnp.hypot(value, fnp.sqrt(bend)) / 2  # the product of both roots is bend/4
    return fnp.where(value < 0, bend / 4 / larger, larger)

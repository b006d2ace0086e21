"""Means and complements of exponentials, as logarithms that neither overflow nor lose digits.

>>> logmeanexp([1000.0, 1000.0])
Tensor(1000.0)
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad.numpy import logsumexp
from funcgrad.tensor.tensor import Tensor, wrap


def log1mexp(x: ArrayLike) -> Tensor:
    """Logarithm of one minus an exponential: ``log(1 - exp(-x))`` for positive ``x``.

    It is the logarithm of the probability of an event whose complement has the logarithm ``-x``.

    Parameters
    ----------
    x : array_like
        Real; negative values give NaN.

    Returns
    -------
    Tensor

    Notes
    -----
    Mächler, "Accurately computing log(1 - exp(-|a|))", 2012. As in JAX, the argument is positive.

    Examples
    --------
    >>> log1mexp([1e-20, 1.0, 50.0])
    Tensor([-4.60517019e+01, -4.58675145e-01, -1.92874985e-22])
    """
    value = wrap(real_value(x, "log1mexp"))
    is_small = value < math.log(2.0)
    small, large = fnp.where(is_small, value, 1.0), fnp.where(is_small, 1.0, value)
    return fnp.where(is_small, fnp.log(-fnp.expm1(-small)), fnp.log1p(-fnp.exp(-large)))


@answering
def logmeanexp(
    x: ArrayLike,
    axis: AxisLike | None = None,
    *,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Logarithm of the mean of exponentials: ``log(mean(exp(x)))``, without overflow.

    Estimates from logarithms of weights, such as marginal likelihoods, are such means.

    Parameters
    ----------
    x : array_like
        Real or complex.
    axis : int or tuple of int, optional
        The axes of the mean; by default all.
    where : array_like of bool, optional
        The elements that are included; it broadcasts to ``x``.
    keepdims : bool
        Whether the axes stay, with size 1.

    Returns
    -------
    Tensor
        NaN where no element is included.

    Examples
    --------
    >>> logmeanexp([[0.0, 1.0], [1000.0, 1000.0]], axis=1)
    Tensor([6.20114507e-01, 1.00000000e+03])
    """
    value = wrap(operand(x, "logmeanexp"))
    value = value if value.dtype.kind in "fc" else value.astype(float)
    included = (
        fnp.ones(value.shape, bool) if where is None else fnp.broadcast_to(where, value.shape)
    )
    count = fnp.sum(included, axis=axis, keepdims=True)
    count = fnp.where(count == 0, fnp.nan, count).astype(value.real.dtype)
    total = logsumexp(fnp.where(included, value, -fnp.inf), axis=axis, keepdims=True)
    mean = total - fnp.log(count)
    if value.dtype.kind == "f":
        # Near 0 the logarithms cancel, where the mean of exp(x) - 1 keeps its digits.
        is_near = fnp.abs(mean) < 0.5
        excess = fnp.expm1(fnp.where(included & is_near, value, 0.0))
        near = fnp.log1p(fnp.sum(excess, axis=axis, keepdims=True) / count)
        mean = fnp.where(is_near, near, mean)
    return mean if keepdims else fnp.squeeze(mean, axis)

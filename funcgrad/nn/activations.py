"""Activations: element-wise functions, and softmax with its relatives.

Arguments are real arrays; integers become float64.

>>> from math import inf
>>> softmax([0.0, 0.0, -inf])
Tensor([0.5, 0.5, 0. ])
"""

from __future__ import annotations

from typing import Final, SupportsIndex

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike, normalize_axes, normalize_axis, shape_of
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives import activations as act
from funcgrad._primitives.logits import (
    log_probabilities,
    probabilities,
    real_value,
    relative_logits,
)
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, apply1, wrap


def relu(x: ArrayLike) -> Tensor:
    """Rectified linear unit, element-wise: ``max(x, 0)``.

    The usual choice for hidden layers: cheap, and its slope does not vanish for positive ``x``. At
    0 the derivative is 0 (the subgradient of least norm).

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> relu([-1.0, 0.0, 2.0])
    Tensor([0., 0., 2.])
    """
    return apply1(act.relu, x)


@answering
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Tensor:
    """Leaky rectified linear unit: ``x`` where it is positive, else ``negative_slope * x``.

    Unlike ``relu`` it passes some gradient for negative ``x``, so no unit stops learning.

    At 0 the derivative is ``negative_slope``, which for slopes between 0 and 1 is the subgradient
    of least norm.

    Parameters
    ----------
    x : array_like
    negative_slope : array_like
        The slope for negative ``x``. It is differentiable, so it may be learned (parametric relu).

    Returns
    -------
    Tensor

    Examples
    --------
    >>> leaky_relu([-1.0, 0.0, 2.0], 0.1)
    Tensor([-0.1,  0. ,  2. ])
    """
    value, slope = real_numbers("leaky_relu", x, negative_slope)
    return fnp.where(value > 0, value, slope * value)


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Tensor:
    """Exponential linear unit: ``x`` where it is positive, else ``alpha * (exp(x) - 1)``.

    Negative values bring the mean of the activations closer to 0 than ``relu`` does. At 0 the
    derivative is ``alpha``.

    Parameters
    ----------
    x : array_like
    alpha : array_like
        The function tends to ``-alpha`` as ``x`` tends to minus infinity.

    Returns
    -------
    Tensor

    Notes
    -----
    Clevert, Unterthiner, Hochreiter, "Fast and accurate deep network learning by exponential linear
    units", ICLR 2016.

    Examples
    --------
    >>> from math import inf
    >>> elu([-inf, 0.0, 2.0])
    Tensor([-1.,  0.,  2.])
    """
    value, factor = real_numbers("elu", x, alpha)
    negative_part = fnp.where(value > 0, 0, value)  # the exponential might overflow
    return fnp.where(value > 0, value, factor * fnp.expm1(negative_part))


def sigmoid(x: ArrayLike) -> Tensor:
    """Logistic sigmoid: ``1 / (1 + exp(-x))``.

    It maps a logit to the probability of class 1. It does not overflow, and both tails are exact.
    For a loss, pass the logits to ``sigmoid_binary_cross_entropy`` instead.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from math import inf
    >>> sigmoid([-inf, 0.0, inf])
    Tensor([0. , 0.5, 1. ])
    """
    return apply1(act.sigmoid, x)


def log_sigmoid(x: ArrayLike) -> Tensor:
    """Logarithm of the sigmoid: ``log(sigmoid(x)) = -softplus(-x)``.

    It stays finite where ``sigmoid`` underflows to 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> log_sigmoid([-1000.0, 0.0])
    Tensor([-1.00000000e+03, -6.93147181e-01])
    """
    return -softplus(-real_value(x, "log_sigmoid"))


def softplus(x: ArrayLike) -> Tensor:
    """Softplus: ``log(1 + exp(x))``, a smooth ``relu`` whose derivative is ``sigmoid``.

    Use it to make a parameter positive, such as a variance. It does not overflow.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Examples
    --------
    >>> softplus([-1000.0, 0.0, 1000.0])
    Tensor([0.00000000e+00, 6.93147181e-01, 1.00000000e+03])
    """
    return apply1(act.softplus, x)


def silu(x: ArrayLike) -> Tensor:
    """Sigmoid linear unit (SiLU, swish): ``x * sigmoid(x)``.

    A smooth relative of ``relu``, common in convolutional networks and language models. Its value
    at minus infinity is 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    Tensor

    Notes
    -----
    Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units for neural network function approximation
    in reinforcement learning", Neural Networks 107 (2018).

    Examples
    --------
    >>> silu([0.0, 1.0])
    Tensor([0.        , 0.73105858])
    """
    return apply1(act.silu, x)


swish: Final = silu


def gelu(x: ArrayLike, approximate: bool = True) -> Tensor:
    """Gaussian error linear unit: ``x * P(Z <= x)`` for a standard normal variable ``Z``.

    The activation of BERT, GPT and most transformers.

    Parameters
    ----------
    x : array_like
    approximate : bool
        If true, compute ``x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2``, whose error
        is at most 0.0005. If false, use the error function, which takes several times as long.

    Returns
    -------
    Tensor

    Notes
    -----
    Hendrycks, Gimpel, "Gaussian error linear units", arXiv:1606.08415 (2016).

    Examples
    --------
    >>> from math import inf
    >>> gelu([-inf, 0.0, 1.0], approximate=False)
    Tensor([-0.        ,  0.        ,  0.84134475])
    """
    return apply1(act.gelu_tanh if approximate else act.gelu, x)


@answering
def softmax(x: ArrayLike, axis: AxisLike = -1) -> Tensor:
    """Softmax: ``exp(x) / sum(exp(x))``, probabilities proportional to ``exp(x)``.

    It turns the scores of classes into probabilities. For a loss, pass the scores to
    ``cross_entropy`` instead: it is accurate even if a probability underflows.

    Parameters
    ----------
    x : array_like
        Logits. A logit of minus infinity has the probability 0. If some logits are plus infinity,
        these share the probability 1 equally; if all are minus infinity, all of them share it. Both
        are limits along equal sequences. The derivative there is 0, or the derivative among the
        equal logits.
    axis : int or tuple of int
        The axes over which the probabilities sum to 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis is empty.

    Examples
    --------
    >>> from math import inf, log
    >>> softmax([0.0, log(3.0)])
    Tensor([0.25, 0.75])
    >>> softmax([inf, 0.0])
    Tensor([1., 0.])
    """
    logits = real_value(x, "softmax")
    axes = normalize_axes(axis, len(shape_of(logits)), "softmax")
    return wrap(probabilities(logits, axes, "softmax"))


@answering
def log_softmax(x: ArrayLike, axis: AxisLike = -1) -> Tensor:
    """Logarithm of ``softmax``: ``x - log(sum(exp(x)))``.

    It is exact also where the probability itself underflows to 0.

    Parameters
    ----------
    x : array_like
        Logits; see ``softmax`` for infinite ones.
    axis : int or tuple of int
        The axes over which the probabilities sum to 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis is empty.

    Examples
    --------
    >>> from math import inf
    >>> log_softmax([0.0, -1000.0, -inf])
    Tensor([    0., -1000.,   -inf])
    """
    logits = real_value(x, "log_softmax")
    axes = normalize_axes(axis, len(shape_of(logits)), "log_softmax")
    return wrap(log_probabilities(logits, axes, "log_softmax"))


@answering
def sparsemax(x: ArrayLike, axis: SupportsIndex = -1) -> Tensor:
    """Sparsemax: the probabilities closest to ``x``, where small ones are exactly 0.

    Like ``softmax``, but sparse: it projects ``x`` onto the simplex (non-negative, sum 1). Use it
    for attention over few items.

    Parameters
    ----------
    x : array_like
        Logits; see ``softmax`` for infinite ones.
    axis : int
        The axis along which the probabilities sum to 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis is empty.

    Notes
    -----
    Martins, Astudillo, "From softmax to sparsemax", ICML 2016. The function is piecewise linear.
    Where two pieces meet, the derivative belongs to the piece in which probabilities of 0 stay 0.

    Examples
    --------
    >>> sparsemax([1.0, 0.5, -1.0])
    Tensor([0.75, 0.25, 0.  ])
    """
    logits = real_value(x, "sparsemax")
    place = normalize_axis(axis, len(shape_of(logits)), "sparsemax")
    relative = wrap(relative_logits(logits, (place,), "sparsemax"))
    constant = stop_gradient(relative)
    descending = -fnp.sort(-constant, axis=place)
    counts = fnp.arange(1, shape_of(logits)[place] + 1)
    counts = counts.reshape((-1,) + (1,) * (relative.ndim - place - 1))
    chosen = 1 + counts * descending > fnp.cumsum(descending, axis=place)
    number = fnp.sum(chosen, axis=place, keepdims=True)
    threshold = fnp.take_along_axis(descending, number - 1, axis=place)
    support = constant >= threshold
    inside = fnp.where(support, relative, 0)
    # Equal logits are either all in the support or all outside of it, so the count is the size of
    # the support.
    level = (fnp.sum(inside, axis=place, keepdims=True) - 1) / number.astype(inside.dtype)
    return fnp.where(support, relative - level, 0)


@answering
def glu(x: ArrayLike, axis: SupportsIndex = -1) -> Tensor:
    """Gated linear unit: the first half of ``x`` times the sigmoid of the second half.

    The second half is a gate that decides how much of the first half passes.

    Parameters
    ----------
    x : array_like
        An even number of elements along the axis.
    axis : int

    Returns
    -------
    Tensor
        Half as long along the axis.

    Raises
    ------
    ShapeError
        The number of elements along the axis is odd.

    Notes
    -----
    Dauphin, Fan, Auli, Grangier, "Language modeling with gated convolutional networks", ICML 2017.

    Examples
    --------
    >>> glu([1.0, 2.0, 0.0, 0.0])
    Tensor([0.5, 1. ])
    """
    value = wrap(real_value(x, "glu"))
    place = normalize_axis(axis, value.ndim, "glu")
    if value.shape[place] % 2:
        raise ShapeError(
            f"glu: axis {place} of an array of shape {value.shape} has an odd size, and cannot be"
            " halved."
        )
    linear, gate = fnp.split(value, 2, axis=place)
    return linear * sigmoid(gate)

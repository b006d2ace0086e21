"""``logsumexp``, ``softmax`` and ``log_softmax``. They need no SciPy."""

from __future__ import annotations

from typing import Final, Literal, overload

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike, normalize_axes, shape_of
from funcgrad._primitives import activations as act
from funcgrad._primitives.logits import log_probabilities, probabilities, real_value
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, wrap

_OVERFLOW: Final = 700.0
"""About the smallest argument whose exponential overflows."""


@overload
def logsumexp(
    a: ArrayLike,
    axis: AxisLike = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: Literal[False] = False,
) -> Tensor: ...


@overload
def logsumexp(
    a: ArrayLike,
    axis: AxisLike = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    *,
    return_sign: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def logsumexp(
    a: ArrayLike,
    axis: AxisLike = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The logarithm of the sum of ``b * exp(a)``, without overflow.

    Parameters
    ----------
    a : array_like
        Integers become float64. May be complex if ``b`` is not passed.
    axis : int, tuple of int or None
    b : array_like, optional
        Weights, which broadcast with ``a``. They may be negative, or 0, even where ``a`` is
        infinite. A weight of 0 has no derivative where its exponential is over 1e304 times the sum.
    keepdims : bool
    return_sign : bool
        Whether to return the logarithm of the magnitude of the sum, and its sign. The sign has no
        derivative.

    Returns
    -------
    Tensor, or tuple of two Tensor
        -inf without elements, or if all are -inf; the gradient is 0 there. Infinite elements share
        the gradient equally. A negative sum is NaN without ``return_sign``.

    Examples
    --------
    >>> logsumexp([1000.0, 1000.0])
    Tensor(1000.6931)
    >>> logsumexp([0.0, 1000.0], b=[1.0, 0.0])
    Tensor(0.0)
    """
    if b is None and not return_sign:
        return fnp.logsumexp(a, axis, keepdims=keepdims)
    x, weights = fnp.broadcast_arrays(*real_numbers("logsumexp", a, 1.0 if b is None else b))
    axes = tuple(range(x.ndim)) if axis is None else normalize_axes(axis, x.ndim, "logsumexp")
    total, top = _weighted(x, weights, axes)
    sign = fnp.sign(total)
    logarithm = fnp.log(fnp.abs(total)) + top
    if not return_sign:
        logarithm = fnp.where(sign < 0, fnp.nan, logarithm)
    if not keepdims:
        logarithm, sign = fnp.squeeze(logarithm, axes), fnp.squeeze(sign, axes)
    return (logarithm, sign) if return_sign else logarithm


def _weighted(x: Tensor, weights: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor | float]:
    """The sum of ``weights * exp(x - greatest)``, and the greatest x with a nonzero weight."""
    if 0 in x.shape:
        return fnp.sum(weights * x, axis=axes, keepdims=True), 0.0
    nothing = weights == 0
    counted = fnp.where(nothing, -fnp.inf, x)
    top = apply(act.constant_max, counted, axis=axes, keepdims=True)
    relative = apply(act.shift, x, top)
    left_out = nothing & ~(relative < _OVERFLOW)
    terms = fnp.where(left_out, 0.0, weights * fnp.exp(fnp.where(left_out, 0.0, relative)))
    return fnp.sum(terms, axis=axes, keepdims=True), top


def softmax(x: ArrayLike, axis: AxisLike = None) -> Tensor:
    """Probabilities proportional to ``exp(x)``.

    Parameters
    ----------
    x : array_like
        Real; integers become float64. An element -inf has the probability 0. Elements that are inf
        share the probability 1 equally; so do all elements if all are -inf. SciPy gives NaN in
        these two cases.
    axis : int, tuple of int or None
        The axes over which the probabilities sum to 1; None for all.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis has the length 0.

    Examples
    --------
    >>> softmax([[0.0, 0.0], [0.0, 0.0]])
    Tensor([[0.25, 0.25],
            [0.25, 0.25]])
    """
    logits = real_value(x, "softmax")
    axes = normalize_axes(axis, len(shape_of(logits)), "softmax")
    return wrap(probabilities(logits, axes, "softmax"))


def log_softmax(x: ArrayLike, axis: AxisLike = None) -> Tensor:
    """``log(softmax(x))``, exact also if a probability underflows.

    Parameters
    ----------
    x : array_like
        See ``softmax``.
    axis : int, tuple of int or None
        The axes over which the probabilities sum to 1; None for all.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axis has the length 0.

    Examples
    --------
    >>> log_softmax([0.0, -1000.0])
    Tensor([    0., -1000.])
    """
    logits = real_value(x, "log_softmax")
    axes = normalize_axes(axis, len(shape_of(logits)), "log_softmax")
    return wrap(log_probabilities(logits, axes, "log_softmax"))

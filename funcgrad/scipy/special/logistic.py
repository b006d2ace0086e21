"""The logistic function with its inverse and its logarithm. They need no SciPy.

They take real numbers; integers become float64.
"""

from __future__ import annotations

from funcgrad._primitives.activations import sigmoid as _sigmoid
from funcgrad._primitives.special_functions import logistic as _p
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply1


def expit(x: ArrayLike, /) -> Tensor:
    """The logistic function ``1 / (1 + exp(-x))``, exact in both tails.

    Examples
    --------
    >>> expit([-1000.0, 0.0])
    Tensor([0. , 0.5])
    """
    return apply1(_sigmoid, x)


def logit(x: ArrayLike, /) -> Tensor:
    """``log(x / (1 - x))``: infinite at 0 and 1, with an infinite derivative; NaN outside.

    Examples
    --------
    >>> logit([0.0, 0.5, 1.0])
    Tensor([-inf,   0.,  inf])
    """
    return apply1(_p.logit, x)


def log_expit(x: ArrayLike, /) -> Tensor:
    """``log(expit(x))``, exact also if ``expit(x)`` underflows.

    Examples
    --------
    >>> log_expit([-1000.0, 1000.0])
    Tensor([-1000.,     0.])
    """
    return apply1(_p.log_expit, x)

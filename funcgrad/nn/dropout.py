"""Dropout: random elements become 0, so that a network relies on none of them.

>>> from funcgrad.tensor.tensor import tensor
>>> dropout([1.0, 2.0, 3.0, 4.0], 0.5, tensor([7, 0], dtype="uint64"))
Tensor([2., 4., 6., 0.])
"""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import real_number
from funcgrad.random.philox import standard_uniform
from funcgrad.tensor.tensor import Tensor, wrap


class _Unsaid(Enum):
    """The default of a key that has to be passed, even if it is None."""

    UNSAID = "key or None"

    def __repr__(self) -> str:
        return f"<{self.value}>"


UNSAID: Final = _Unsaid.UNSAID
Key: TypeAlias = ArrayLike | Literal[_Unsaid.UNSAID] | None


@answering
def dropout(x: ArrayLike, rate: float, key: Key = UNSAID) -> Tensor:
    """Set random elements to 0 with the probability ``rate``; divide the others by ``1 - rate``.

    A regularizer: in training the network cannot rely on any single element. The division keeps the
    expected value, so a trained network needs no change.

    Parameters
    ----------
    x : array_like
        Real or complex; integers become float64.
    rate : float
        The probability of 0, from 0 to 1.
    key : key or None
        A key of ``fg.random`` in training. None drops nothing, as when a trained network is used.
        One of the two has to be passed unless the rate is 0, because training without dropout would
        go unnoticed.

    Returns
    -------
    Tensor
        The shape of ``x``. Dropped elements are 0 and have the derivative 0, even infinite ones.

    Raises
    ------
    ArgumentError
        The rate is not from 0 to 1, or the key is missing.

    Notes
    -----
    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting", JMLR 15
    (2014).

    Examples
    --------
    >>> dropout([1.0, 2.0], 0.5, key=None)
    Tensor([1., 2.])
    """
    value = wrap(operand(x, "dropout"))
    if dtype_of(value).kind not in "fc":
        value = value.astype(np.float64)
    probability = checked_rate(rate, "dropout")
    known = said_key(key, probability, "dropout")
    if known is None or probability == 0:
        return value
    uniform = standard_uniform(known, value.shape, np.dtype(np.float64), "dropout")
    if probability == 1:
        return fnp.zeros_like(value)
    return fnp.where(uniform < probability, 0, value / (1 - probability))


def said_key(key: Key, rate: float, operation: str, name: str = "key") -> ArrayLike | None:
    """Return a key or None, which must have been passed where the rate is not 0.

    Raises
    ------
    ArgumentError
        The key is missing.
    """
    if key is not UNSAID:
        return key
    if rate:
        raise ArgumentError(
            f"{operation}: {name}= is missing. Pass {name}=key in training, from fg.random, or"
            f" {name}=None to drop nothing."
        )
    return None


def training_key(key: ArrayLike | None, rate: float, layer: str) -> ArrayLike | None:
    """Check that the training of a layer that drops elements has a key.

    Raises
    ------
    ArgumentError
        The key is missing.
    """
    if key is None and rate:
        raise ArgumentError(
            f"{layer}: training needs a key, to choose the dropped elements. Pass key=, from"
            " fg.random.fold_in(key, step), or call the layer with key=None to drop nothing."
        )
    return key


def checked_rate(rate: float, operation: str) -> float:
    """Check a probability.

    Raises
    ------
    ArgumentError
        It is not from 0 to 1.
    """
    probability = real_number(rate, operation, "rate")
    if not 0 <= probability <= 1:
        raise ArgumentError(f"{operation}: rate has to be from 0 to 1, got {probability}.")
    return probability

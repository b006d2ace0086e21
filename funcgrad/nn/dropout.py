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
    """The default of a key that has to be written, also where it is None."""

    UNSAID = "key or None"

    def __repr__(self) -> str:
        return f"<{self.value}>"


UNSAID: Final = _Unsaid.UNSAID
Key: TypeAlias = ArrayLike | Literal[_Unsaid.UNSAID] | None


@answering
def dropout(x: ArrayLike, rate: float, key: Key = UNSAID) -> Tensor:
    """Set elements to 0 with a probability, and divide the others by the probability to stay.

    Parameters
    ----------
    x : array_like
        Real or complex; integers become float64.
    rate : float
        The probability of 0, from 0 to 1.
    key : key or None
        From ``fg.random``. With None nothing is dropped, as when a trained network is used. It has
        to be written, unless the rate is 0: training without a key would go unnoticed.

    Returns
    -------
    Tensor
        Of the shape of ``x``. What is dropped is 0, and has the derivative 0, also
        if it is infinite.

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
    """A key or None, which somebody has written where something may be dropped.

    Raises
    ------
    ArgumentError
        Nobody has.
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
    """Check that there is a key where a layer is trained that drops something.

    Raises
    ------
    ArgumentError
        There is none.
    """
    if key is None and rate:
        raise ArgumentError(
            f"{layer}: training needs a key, which says what is dropped. Pass key=, from"
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

"""Rejection sampling: proposals are drawn in rounds, until every element has accepted one.

Each round of a draw has its own key, and an element reads its own words of each round. So its value
depends only on the key, its position and its parameters, and not on the other elements or keys that
are drawn with it.

>>> from funcgrad.random.keys import key
>>> (inner,) = inner_keys(key(0), 1, "example")
>>> def below_half(words):
...     u = open_uniform(words[..., 0])
...     return u, u > 0.5
>>> rejected(inner, (3,), 1, below_half)
Tensor([0.32179134, 0.30776919, 0.19972423])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.whiles import while_loop
from funcgrad._core.specs import Shape
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.random_bits import (
    ATTEMPTS,
    BITS,
    bits_to_open_uniform,
    fold_key,
    random_bits,
)
from funcgrad.random.philox import random_words
from funcgrad.tensor.tensor import Tensor, apply

DOUBLE: Final = np.dtype(np.float64)

Attempt = Callable[[Tensor], tuple[Tensor, Tensor]]
"""A function from words to proposals, and whether each is rejected. NaN rejects nothing."""


def inner_keys(key: ArrayLike, count: int, operation: str, repeats: bool = False) -> Tensor:
    """Make keys for the parts of a draw, different from all keys of ``split`` and ``fold_in``."""
    return random_words(key, (count, 2), operation, ATTEMPTS, repeats)


def words_of(inner: Tensor, shape: Shape) -> Tensor:
    """The first random words of an inner key."""
    return apply(random_bits, inner, shape=shape, stream=BITS)


def open_uniform(words: Tensor) -> Tensor:
    """Uniform float64 samples of the open interval (0, 1)."""
    return apply(bits_to_open_uniform, words, dtype=DOUBLE)


def rejected(inner: Tensor, shape: Shape, width: int, attempt: Attempt) -> Tensor:
    """Draw float64 samples by rejection, with ``width`` words for each element and round."""

    def draw_again(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        number, values, waiting = state
        words = words_of(apply(fold_key, inner, number), (*shape, width))
        proposals, refused = attempt(words)
        return number + 1, fnp.where(waiting, proposals, values), waiting & refused

    first = (fnp.asarray(0), fnp.zeros(shape), fnp.ones(shape, dtype=bool))
    drawn: tuple[Tensor, ...] = while_loop(lambda state: fnp.any(state[2]), draw_again, first)
    return drawn[1]

"""Odd options of distributions, activations and losses meet errors that are meant."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad.errors import DtypeError, LeafError

KEY = fg.random.key(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: fg.random.bernoulli(KEY, 1j),
        lambda: fg.random.normal(KEY, 2, scale=1j),
        lambda: fg.random.uniform(KEY, 2, minval=1j),
        lambda: fg.random.truncated_normal(KEY, 1j, 2.0),
        lambda: fg.random.normal(KEY, 2, np),
        lambda: fg.nn.he_normal(KEY, (2, 3), np),
        lambda: fg.nn.one_hot([1], "3"),  # type: ignore[arg-type]
        lambda: fg.nn.one_hot([1], 3, "no such"),
        lambda: fg.numpy.zeros(2, np),
    ],
)
def test_wrong_kinds(call: Any) -> None:
    with pytest.raises(DtypeError):
        call()


@pytest.mark.parametrize("odd", [None, {1}, {}, Decimal(1), object(), len, int, ..., slice(1)])
def test_slopes_that_are_no_numbers(odd: Any) -> None:
    with pytest.raises(LeafError, match="leaky_relu: expected an array or a number"):
        fg.nn.leaky_relu([1.0, -1.0], odd)
    with pytest.raises(LeafError, match="elu: expected an array or a number"):
        fg.nn.elu([1.0, -1.0], odd)

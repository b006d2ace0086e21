"""The entry point of the package for Hypothesis, which calls ``register`` when it is imported.

>>> from hypothesis import find
>>> from hypothesis.strategies import from_type
>>> import funcgrad as fg
>>> register()
>>> find(from_type(fg.Tensor), lambda x: True)
Tensor(0.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from funcgrad import testing
from funcgrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from funcgrad.testing.strategies.arrays import Strategy

_SHAPES: Final = ((), (3,), (3, 2), (1,), (2, 1, 3))


def register() -> None:
    """Tell Hypothesis how to draw a ``Tensor``, so that it can also draw dataclasses of tensors.

    Importing Hypothesis then loads the façade of funcgrad; strategies are loaded with the first
    drawn tensor.
    """
    from hypothesis import strategies

    strategies.register_type_strategy(Tensor, _tensors)


def _tensors(_: type[Tensor]) -> Strategy:
    from hypothesis import strategies

    return testing.strategies.tensors(np.float64, strategies.sampled_from(_SHAPES))

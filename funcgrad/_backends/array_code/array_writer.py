"""The interface to libraries that compute with whole arrays, such as ONNX and XLA.

Index maps, formulas and folds are written once, for every object that has these operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from funcgrad._core.specs import Shape

Array: TypeAlias = Any
"""A value of the library, which has a ``shape`` and a ``dtype`` of NumPy's."""


class ArrayWriter(Protocol):
    """Operations on the arrays of a library.

    Attributes
    ----------
    spreads : bool
        Whether ``padded`` can put zeros between elements.
    """

    spreads: bool

    def constant(self, value: Any, dtype: np.dtype[Any] | None = None) -> Array:
        """Make an array of a value of NumPy's or Python's."""
        ...

    def cast_to(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """Convert an array to another dtype."""
        ...

    def reshaped(self, x: Array, shape: Shape) -> Array:
        """Give an array another shape, its elements in C order."""
        ...

    def expanded(self, x: Array, shape: Shape) -> Array:
        """Broadcast an array to a shape."""
        ...

    def sliced(self, x: Array, axis: int, start: int, count: int, step: int = 1) -> Array:
        """Take some elements along an axis; the step may be negative."""
        ...

    def permuted(self, x: Array, order: Sequence[int]) -> Array:
        """Put the axes into another order."""
        ...

    def joined(self, parts: Sequence[Array], axis: int) -> Array:
        """Concatenate arrays along an axis."""
        ...

    def padded(
        self, x: Array, before: Sequence[int], behind: Sequence[int], between: Sequence[int]
    ) -> Array:
        """Put zeros around an array, along each axis before, behind and between its elements."""
        ...

    def added(self, x: Array, y: Array) -> Array:
        """Add arrays of one dtype, which broadcast; the sum of booleans is their union."""
        ...

    def taken(self, flat: Array, places: Array) -> Array:
        """Read the elements of a vector at places."""
        ...

    def put(self, flat: Array, places: Array, updates: Array, adds: bool) -> Array:
        """Replace the elements of a vector at places, which are a vector, or add to them."""
        ...

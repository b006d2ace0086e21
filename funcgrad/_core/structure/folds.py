"""Folds: how elements are combined, two at a time.

A reduction folds all elements along its axes, a scan the elements up to each place, a scatter the
updates of one place. A fold is data: formulas in the intrinsics of an algebra, which a compiler
reads like formulas of elementwise operations.

>>> import funcgrad._core.intrinsics as m
>>> states = [FIRST_GREATEST.of(m, np.dtype(int), k, x) for k, x in enumerate([2.5, 2.5])]
>>> int(FIRST_GREATEST.element(m, FIRST_GREATEST.combine(m, *states)))
0
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass

__all__ = [
    "ALL",
    "ANY",
    "COUNT",
    "FIRST_GREATEST",
    "FIRST_LEAST",
    "GREATEST",
    "LEAST",
    "LINEAR",
    "PRODUCT",
    "SUM",
    "Fold",
]

Algebra: TypeAlias = Any
"""Any object that has the intrinsics: ``funcgrad._core.intrinsics``, or a compiler's object."""

Element: TypeAlias = Any
"""A value of an algebra."""

State: TypeAlias = Any
"""A value of an algebra, or a tuple of values."""


@dataclass(frozen=True, slots=True)
class Fold:
    """How elements are combined, two at a time, in the order of their places.

    A *state* represents some consecutive elements; it is a value, or a tuple of values.

    Attributes
    ----------
    combine : callable
        ``(m, earlier, later)`` to the state of the elements of both states together. It is
        associative up to rounding, so that parts may be folded first.
    identity : number, optional
        The state of an empty sequence, with which reductions begin, or None.
    start : callable, optional
        ``(m, dtype, place, *elements)`` to the state of one element, or of one element of each
        operand; ``place`` is its position along the axis. By default the state is the element,
        converted to ``dtype``, the dtype of the result.
    finish : callable, optional
        ``(m, state)`` to the element of the result; by default the state itself.
    ufunc : ufunc, optional
        NumPy's ufunc for ``combine``, if folding in parts is as fast as folding all at once.
    """

    combine: Callable[..., Any]
    identity: Any = None
    start: Callable[..., Any] | None = None
    finish: Callable[..., Any] | None = None
    ufunc: np.ufunc | None = None

    def of(self, m: Algebra, dtype: np.dtype[Any], place: Element, *elements: Element) -> State:
        """Return the state of one element, or of one element of each operand."""
        if self.start is not None:
            return self.start(m, dtype, place, *elements)
        return m.astype(elements[0], dtype)

    def element(self, m: Algebra, state: State) -> Element:
        """Return the element of the result for a state."""
        return state if self.finish is None else self.finish(m, state)


SUM: Final = Fold(lambda m, x, y: m.add(x, y), 0, ufunc=np.add)
PRODUCT: Final = Fold(lambda m, x, y: m.multiply(x, y), 1)
GREATEST: Final = Fold(lambda m, x, y: m.maximum(x, y), ufunc=np.maximum)
LEAST: Final = Fold(lambda m, x, y: m.minimum(x, y), ufunc=np.minimum)
ALL: Final = Fold(lambda m, x, y: x & y, True, ufunc=np.logical_and)
ANY: Final = Fold(lambda m, x, y: x | y, False, ufunc=np.logical_or)
COUNT: Final = Fold(
    SUM.combine, 0, lambda m, dtype, place, x: m.astype(x != 0, dtype), ufunc=np.add
)
"""The number of nonzero elements."""


def _first(wins: Callable[[Element, Element], Element]) -> Fold:
    """Make a fold to the place of the first NaN, or else of the first best element."""

    def combine(m: Algebra, earlier: State, later: State) -> State:
        (x, i), (y, j) = earlier, later
        takes = wins(y, x) | ((y != y) & (x == x))
        return m.where(takes, y, x), m.where(takes, j, i)

    return Fold(combine, None, lambda m, dtype, place, x: (x, place), lambda m, state: state[1])


FIRST_GREATEST: Final = _first(lambda y, x: y > x)
FIRST_LEAST: Final = _first(lambda y, x: y < x)
"""Places of extrema, as ``argmax`` and ``argmin`` return them."""


def _follow(m: Algebra, earlier: State, later: State) -> State:
    (a, b), (c, d) = earlier, later
    return c * a, c * b + d


LINEAR: Final = Fold(
    _follow,
    None,
    lambda m, dtype, place, a, b: (m.astype(a, dtype), m.astype(b, dtype)),
    lambda m, state: state[1],
)
"""The result of steps ``s -> a * s + b``, starting at 0; its state also has the product of all
a."""

__dir__ = __all__.copy  # completion shows the public names, without the modules

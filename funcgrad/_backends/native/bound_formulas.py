"""Formulas with their parameters, told apart by what they write.

>>> first, second = BoundFormula(max, (2,)), BoundFormula(max, (2,))
>>> first == second, first == BoundFormula(max, (2.0,)), first(1, 3)
(True, False, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from funcgrad._programs.equation import exact_key


class BoundFormula:
    """A formula, and what it is given before the algebra.

    Parameters
    ----------
    formula : callable
        ``(*settings, lanes, *operands) -> element``.
    settings : tuple
        They have hashes. Where formula and settings are the same, so are the instructions.
    """

    __slots__ = ("_formula", "_key", "_settings")

    def __init__(self, formula: Callable[..., Any], settings: tuple[Hashable, ...] = ()) -> None:
        self._formula, self._settings = formula, settings
        self._key = formula, exact_key(settings)

    def __call__(self, lanes: object, *operands: object) -> Any:
        return self._formula(*self._settings, lanes, *operands)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFormula) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

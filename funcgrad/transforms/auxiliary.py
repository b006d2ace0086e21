"""Functions that return something besides the values which a transformation takes from them.

>>> halves = WithAux(lambda x: (x / 2, "halved"))
>>> halves(4.0), halves.aux
(2.0, 'halved')
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

R = TypeVar("R")
A = TypeVar("A")


class WithAux(Generic[R, A]):
    """A function without the second part of the pair that it returns.

    Attributes
    ----------
    aux : object
        That part, as the latest call returned it.
    """

    __slots__ = ("_function", "aux")
    aux: A

    def __init__(self, function: Callable[..., tuple[R, A]]) -> None:
        self._function = function

    def __call__(self, *values: Any) -> R:
        result, self.aux = self._function(*values)
        return result

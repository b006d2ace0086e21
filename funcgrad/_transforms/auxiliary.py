"""Functions with an auxiliary result, which a transformation does not follow.

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
    """A function that returns a pair, called for the first member; the second one is ``aux``.

    Attributes
    ----------
    aux : object
        The second member, from the latest call.
    """

    __slots__ = ("_function", "aux")
    aux: A

    def __init__(self, function: Callable[..., tuple[R, A]]) -> None:
        self._function = function

    def __call__(self, *values: Any) -> R:
        result, self.aux = self._function(*values)
        return result

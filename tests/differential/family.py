"""What a generator of arguments is: a function from a ``Draw`` to positional and named arguments.

>>> call(1.0, axis=0)
((1.0,), {'axis': 0})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tests.differential.draw import Draw

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]
Generator: TypeAlias = Callable[[Draw], Call]
Family: TypeAlias = Mapping[str, Generator]
"""Generators by the names of the functions that they are for."""


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call."""
    return args, kwargs


def one(d: Draw) -> Call:
    return call(d.array())


def plain(x: Any) -> Any:
    """Lists as they are, of which NumPy makes the array here."""
    return list(x) if isinstance(x, list) else x

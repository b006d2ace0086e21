"""Distributions with fixed parameters.

>>> from funcgrad.scipy.stats import expon
>>> expon(scale=2.0).mean()
Tensor(2.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad.errors import ImmutableError, MissingAttributeError
from funcgrad.tensor.tensor import ArrayLike, Tensor


class Named(Protocol):
    """A distribution: it has methods of a value and of parameters."""

    @property
    def name(self) -> str: ...


class FrozenDistribution:
    """A distribution with fixed parameters: its methods take only the value.

    The parameters may be traced, if it is made inside a function that is differentiated.

    >>> from funcgrad.scipy.stats import norm
    >>> norm(1.0, 2.0).cdf(1.0), norm(1.0, scale=2.0).mean()
    (Tensor(0.5), Tensor(1.))
    """

    __slots__ = ("_distribution", "_parameters")

    _distribution: Named
    _parameters: Mapping[str, Value]

    def __init__(self, distribution: Named, parameters: Mapping[str, ArrayLike]) -> None:
        values = {name: operand(x, distribution.name) for name, x in parameters.items()}
        object.__setattr__(self, "_distribution", distribution)
        object.__setattr__(self, "_parameters", MappingProxyType(values))

    def __reduce__(self) -> Any:
        return FrozenDistribution, (self._distribution, dict(self._parameters))

    def __setattr__(self, name: str, value: object) -> None:
        raise ImmutableError(
            f"{self._distribution.name}: a frozen distribution does not change. Make another one."
        )

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        """A method of the distribution, with the parameters passed by name."""
        if name not in dir(self):
            raise MissingAttributeError(
                f"{self._distribution.name}: there is no {name!r} here. There are"
                f" {', '.join(dir(self))}."
            )
        method = getattr(self._distribution, name)
        return lambda *arguments: method(*arguments, **self._parameters)

    def __dir__(self) -> list[str]:
        """The names of the methods."""
        members = vars(type(self._distribution)).items()
        return [name for name, member in members if name[0] != "_" and inspect.isfunction(member)]

"""Parameters of distributions by order or name, distributions with fixed ones, missing methods.

>>> from funcgrad.scipy.stats import expon
>>> expon(scale=2.0).mean()
Tensor(2.)
>>> arguments("norm.pdf", ("loc", "scale"), (1.5,), {})
{'loc': 1.5}
>>> expon.median
Traceback (most recent call last):
funcgrad.errors.MissingAttributeError: Distributions have no median: ppf(0.5, ...).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol, SupportsIndex

from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import missing_method
from funcgrad.errors import ImmutableError, MissingAttributeError, MissingOptionError
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


_OPTIONAL: Final = frozenset({"loc", "scale"})


def arguments(
    operation: str,
    names: Sequence[str],
    positional: Sequence[ArrayLike],
    named: Mapping[str, ArrayLike],
) -> dict[str, ArrayLike]:
    """Parameters by their names; ``loc`` and ``scale`` may be absent.

    Raises
    ------
    MissingOptionError
        A parameter is missing, passed twice, or unknown.
    """
    values = dict(zip(names, positional, strict=False))
    values.update(named)
    wrong = len(values) < len(positional) + len(named) or (named and not named.keys() <= set(names))
    lacking = [name for name in names[len(positional) :] if name not in named]
    if wrong or not _OPTIONAL.issuperset(lacking):
        raise MissingOptionError(
            f"{operation}: the parameters are {', '.join(names)}; got {len(positional)} by position"
            f" and {', '.join(named) or 'none'} by name."
        )
    return values


class AbsentMethods:
    """A base class of distributions whose missing methods raise with advice."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        """Pickle a distribution by its name in ``funcgrad.scipy.stats``, if it is there."""
        home, name = "funcgrad.scipy.stats", str(getattr(self, "name", ""))
        if getattr(sys.modules.get(home), name, None) is self:
            return resolve_name, (f"{home}:{name}",)
        return super().__reduce_ex__(protocol)

    if not TYPE_CHECKING:  # which know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise an error that says what to write instead."""
            raise missing_method("Distributions", self, name)

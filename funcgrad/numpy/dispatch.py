"""NumPy's own functions on tensors: ``np.sum(t)`` becomes ``fnp.sum(t)``.

NumPy asks the arguments' class what to do with a ufunc (``__array_ufunc__``) or another function
(``__array_function__``); tensors hand the question over to here.

>>> import funcgrad as fg
>>> fg.grad(lambda x: np.sum(np.sin(x) ** 2))(0.5)
Tensor(0.8414709848078965)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from funcgrad.errors import ImmutableError, UnknownFunctionError

__all__ = ["dispatch_function", "dispatch_ufunc"]


_REDUCTIONS: Final = MappingProxyType(
    {
        "add": "sum",
        "multiply": "prod",
        "maximum": "max",
        "minimum": "min",
        "logical_and": "all",
        "logical_or": "any",
    }
)
_ACCUMULATIONS: Final = MappingProxyType({"add": "cumsum", "multiply": "cumprod"})


def dispatch_ufunc(
    namespace: ModuleType,
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What ``ufunc(...)``, ``ufunc.reduce(...)`` and so on mean on tensors."""
    name = ufunc.__name__
    given = _without_defaults(f"np.{name}", kwargs)
    if method == "__call__":
        return _find(namespace, name, f"np.{name}")(*inputs, **given)
    if method == "reduce" and name in _REDUCTIONS:
        axis = given.pop("axis", inputs[1] if len(inputs) > 1 else 0)
        return getattr(namespace, _REDUCTIONS[name])(inputs[0], axis=axis, **given)
    if method == "accumulate" and name in _ACCUMULATIONS:
        axis = given.pop("axis", inputs[1] if len(inputs) > 1 else 0)
        return getattr(namespace, _ACCUMULATIONS[name])(inputs[0], axis=axis, **given)
    if method == "outer":
        first, second = (namespace.asarray(x) for x in inputs)
        wide = first.reshape(first.shape + (1,) * second.ndim)
        return _find(namespace, name, f"np.{name}")(wide, second, **given)
    if method == "at":
        raise ImmutableError(
            f"np.{name}.at writes into its argument, and tensors never change. Use t.at[i].add(v),"
            " or set, multiply, min, max, which return a new tensor."
        )
    raise UnknownFunctionError(f"np.{name}.{method} is not available for tensors.")


def dispatch_function(
    namespace: ModuleType, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """What another NumPy function means on tensors."""
    home = namespace
    path = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
    for part in path.split(".")[1:-1]:
        home = getattr(home, part, home)
    return _find(home, function.__name__, path)(*args, **_without_defaults(path, kwargs))


def _find(home: ModuleType, name: str, path: str) -> Any:
    function = getattr(home, name, None)
    if function is None:
        raise UnknownFunctionError(
            f"{path} is not available for tensors. Compose it from funcgrad.numpy's functions, give"
            " it a rule with fg.custom_jvp or fg.custom_vjp, or apply it to np.asarray(t) where no"
            " derivative is wanted."
        )
    return function


def _without_defaults(path: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in kwargs.items() if value is not None}
    if "out" in given:
        raise ImmutableError(
            f"{path}: out= would write into an argument, and tensors never change. Use the result."
        )
    return given

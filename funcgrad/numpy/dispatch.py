"""NumPy's own functions on tensors: ``np.sum(t)`` becomes ``fnp.sum(t)``.

NumPy asks the arguments' class what to do with a ufunc (``__array_ufunc__``) or another function
(``__array_function__``); tensors hand the question over to here.

>>> import funcgrad as fg
>>> fg.grad(lambda x: np.sum(np.sin(x) ** 2))(0.5)
Tensor(0.8414709848078965)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

from funcgrad.errors import ImmutableError, UnknownFunctionError
from funcgrad.trace import TracedValue

__all__ = ["dispatch_function", "dispatch_ufunc"]


_SHORT: Final = MappingProxyType(
    {
        ("reduce", "add"): "sum",
        ("reduce", "multiply"): "prod",
        ("reduce", "maximum"): "max",
        ("reduce", "minimum"): "min",
        ("reduce", "logical_and"): "all",
        ("reduce", "logical_or"): "any",
        ("accumulate", "add"): "cumsum",
        ("accumulate", "multiply"): "cumprod",
    }
)
"""The methods of ufuncs that have a name of their own."""

_WRITERS: Final = frozenset("copyto fill_diagonal place put put_along_axis putmask".split())
"""NumPy's functions whose first argument is what they write to."""

_OUTSIDE: Final = frozenset(
    """
    array2string array_repr array_str copyto may_share_memory save savetxt savez savez_compressed
    shares_memory
    """.split()
)
"""NumPy's functions that return no array: they print, save or compare memory, and get NumPy's
arrays."""


def dispatch_ufunc(
    namespace: ModuleType,
    ufunc: np.ufunc,
    method: str,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """What ``ufunc(...)``, ``ufunc.reduce(...)`` and so on mean on tensors."""
    name = ufunc.__name__
    path = f"np.{name}"
    given = _without_out(path, kwargs)
    given = {key: value for key, value in given.items() if value is not None or key == "axis"}
    if method == "__call__":
        return _called(_find(namespace, name, path), path, inputs, given)
    if (method, name) in _SHORT:
        given.setdefault("axis", inputs[1] if len(inputs) > 1 else 0)
        function = getattr(namespace, _SHORT[method, name])
        return _called(function, f"{path}.{method}", inputs[:1], given)
    if method == "outer":
        first, second = (namespace.asarray(x) for x in inputs)
        wide = first.reshape(first.shape + (1,) * second.ndim)
        return _called(_find(namespace, name, path), f"{path}.outer", (wide, second), given)
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
    name = function.__name__
    path = f"{function.__module__}.{name}".replace("numpy", "np", 1)
    if name in _WRITERS and (not args or isinstance(args[0], TracedValue)):
        raise ImmutableError(
            f"{path} writes into its argument, and tensors never change. Use t.at[i].set(v), or"
            " fnp.where(mask, v, t), which return a new tensor."
        )
    if name in _OUTSIDE:
        plain = {key: _plain(value) for key, value in kwargs.items()}
        return function(*[_plain(arg) for arg in args], **plain)
    home = namespace
    for part in path.split(".")[1:-1]:
        home = getattr(home, part, home)
    found = _find(home, name, path)
    try:
        return _called(found, path, args, _without_out(path, kwargs))
    except UnknownFunctionError:
        sorted_out = _by_name(function, args, kwargs)
        if sorted_out is None:
            raise
    positional, named = sorted_out
    return _called(found, path, positional, _without_out(path, named))


def _plain(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, TracedValue) else x


def _find(home: ModuleType, name: str, path: str) -> Any:
    function = getattr(home, name, None)
    if function is None:
        raise UnknownFunctionError(
            f"{path} is not available for tensors. Compose it from funcgrad.numpy's functions, give"
            " it a rule with fg.custom_jvp or fg.custom_vjp, or apply it to np.asarray(t) where no"
            " derivative is wanted."
        )
    return function


def _called(
    function: Callable[..., Any], path: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function of this namespace with what was meant for NumPy's of the name.

    Raises
    ------
    UnknownFunctionError
        It lacks a parameter that NumPy's has.
    """
    try:
        return function(*args, **kwargs)
    except TypeError:
        signature = inspect.signature(function)
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise UnknownFunctionError(
                f"{path} on tensors: {error}. For tensors its signature is"
                f" ({', '.join(signature.parameters)})."
            ) from None
        raise  # from inside the function


def _by_name(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """Arguments under NumPy's names, without those that say what is the default anyway.

    For NumPy's functions with more positions than ours have: ``np.sum(t, 0, None, None, True)``.
    None where names would not help.
    """
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    positional, named = [], {}
    for name, value in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            return None
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(value)
        elif value is not parameter.default:
            named[name] = value
    return positional, named


def _without_out(path: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Without the place for results that NumPy's functions may be given, but never here."""
    given = dict(kwargs)
    if given.pop("out", None) is not None:
        raise ImmutableError(
            f"{path}: out= would write into an argument, and tensors never change. Use the result."
        )
    return given

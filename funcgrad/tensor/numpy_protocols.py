"""NumPy's and SciPy's own functions on tensors: ``np.sum(t)`` becomes ``fnp.sum(t)``.

NumPy asks the arguments' class to evaluate a ufunc (``__array_ufunc__``) or another function
(``__array_function__``); tensors pass the call to this module. Its rules:

1. If ``funcgrad.numpy`` has a function under the same name as NumPy, ours is called; likewise for
   ``scipy.special`` and ``funcgrad.scipy.special``. Functions are compared by identity, not by
   ``__name__``: another library's ``sign`` is not NumPy's, and ``np.linalg.trace`` is
   ``fnp.linalg.trace``, never ``fnp.trace``.
2. In any other case (we lack the function, the ufunc's method or the parameter; objects that are
   not numbers; other libraries' ufuncs) the library's own function is called on concrete tensors:
   it gets arrays, and its arrays become tensors.
3. With a traced value, case 2 is an error with advice.
4. Functions that convert anything to arrays (``np.atleast_1d``, ``2d`` and ``3d``) convert concrete
   tensors to writable arrays, as ``np.array`` does: SciPy's solvers pass them to compiled code.
   Traced values stay traced, and ``fnp.atleast_1d`` makes tensors.

>>> import funcgrad as fg
>>> fg.grad(lambda x: np.sum(np.sin(x) ** 2))(0.5)
Tensor(0.8414709848078965)
>>> np.unwrap(fg.tensor([0.0, 6.0]))
Tensor([ 0.        , -0.28318531])
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import flatten, unflatten
from funcgrad._core.specs import DTYPES
from funcgrad.errors import (
    ArgumentError,
    DeviceError,
    ImmutableError,
    LeafError,
    TracerError,
    UnknownFunctionError,
)
from funcgrad.numpy.ufunc_methods import METHODS
from funcgrad.tensor.tensor import Tensor, tensor


class _Asked:
    """An operand for which ``__array_ufunc__`` returns the ufunc that was called."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return ufunc


_UNNAMED: Final[Mapping[Any, str]] = MappingProxyType(
    {np.zeros(1).clip(_Asked(), _Asked()): "clip"}  # type: ignore[call-overload]  # see above
)
"""Ufuncs without a public name, behind methods of arrays: ``array.clip(t, u)``."""

_SHORT: Final[Mapping[tuple[str, Any], str]] = MappingProxyType(
    {
        ("reduce", np.add): "sum",
        ("reduce", np.multiply): "prod",
        ("reduce", np.maximum): "max",
        ("reduce", np.minimum): "min",
        ("reduce", np.logical_and): "all",
        ("reduce", np.logical_or): "any",
        ("accumulate", np.add): "cumsum",
        ("accumulate", np.multiply): "cumprod",
    }
)
"""Methods of ufuncs that are also functions: ``np.add.reduce`` is ``np.sum``."""

_SIGNS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.add: "+",
        np.subtract: "-",
        np.multiply: "*",
        np.divide: "/",
        np.floor_divide: "//",
        np.remainder: "%",
        np.power: "**",
        np.matmul: "@",
        np.bitwise_and: "&",
        np.bitwise_or: "|",
        np.bitwise_xor: "^",
        np.left_shift: "<<",
        np.right_shift: ">>",
    }
)
"""Python's operators by ufunc; an array's ``w -= t`` arrives as ``np.subtract(w, t, out=w)``."""

_WRITERS: Final[frozenset[Any]] = frozenset(
    {np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask}
)
"""NumPy's functions that write to their first argument."""


_CONVERSIONS: Final[frozenset[Any]] = frozenset({np.atleast_1d, np.atleast_2d, np.atleast_3d})
"""Functions by which compiled code converts results to arrays, as in SciPy's solvers."""


def dispatch_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a ufunc, or a method such as ``reduce``, if an argument is a tensor."""
    if method == "at" or kwargs.get("out") is not None:
        return _written_by_ufunc(ufunc, method, inputs, kwargs)
    options = {key: value for key, value in kwargs.items() if value is not None or key == "axis"}
    counterpart, args = None, inputs
    if method == "__call__":
        if "where" in options:
            raise ArgumentError(
                f"{_path(ufunc)}: where= leaves the other elements undefined unless an array is"
                " given as out=. Write fnp.where(mask, f(t), t), with the ufunc as f."
            )
        counterpart = _counterpart_of_ufunc(ufunc)
    elif (method, ufunc) in _SHORT:
        counterpart = getattr(fnp, _SHORT[method, ufunc])
        options.setdefault("axis", inputs[1] if len(inputs) > 1 else 0)
        args = inputs[:1]
    elif (
        method in METHODS
        and isinstance(ufunc, np.ufunc)
        and _is_binary(ufunc)
        and any(map(_is_traced, inputs))
    ):
        function = _counterpart_of_ufunc(ufunc)
        counterpart = None if function is None else partial(METHODS[method], ufunc, function)
    reason = ""
    if counterpart is not None:
        try:
            return counterpart(*args, **options)
        except TypeError:
            reason = _misfit(counterpart, args, options)
            if not reason:
                raise
    unknown = partial(_unknown, ufunc, method, reason)
    return _of_library(getattr(ufunc, method), inputs, kwargs, unknown)


def _is_binary(ufunc: np.ufunc) -> bool:
    """Whether a ufunc has two operands and one result, so that it has methods."""
    known = isinstance(ufunc, np.ufunc) and ufunc.signature is None
    return known and ufunc.nin == 2 and ufunc.nout == 1


def dispatch_function(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a function of NumPy that is not a ufunc, if an argument is a tensor."""
    if function in _CONVERSIONS and not any(_is_traced(arg) for arg in args):
        return function(*[np.array(arg) if isinstance(arg, Tensor) else arg for arg in args])
    if function in _WRITERS:
        return _written(function, _path(function), args[:1], args, kwargs)
    counterpart = _counterpart(*_homes(function), function)
    reason = ""
    if counterpart is not None and kwargs.get("out") is None:
        options = {key: value for key, value in kwargs.items() if key != "out"}
        try:
            return counterpart(*args, **options)
        except LeafError as error:  # None, text and other objects that NumPy converts to arrays
            refused = error
            return _of_library(function, args, kwargs, lambda: refused)
        except TypeError:
            reason = _misfit(counterpart, args, options)
            if not reason:
                raise
    args, kwargs = _by_name(function, args, kwargs) or (args, kwargs)
    out = kwargs.get("out")
    if out is not None:
        targets = out if isinstance(out, tuple) else (out,)
        return _written(function, _path(function), targets, args, kwargs)
    if counterpart is not None and not _misfit(counterpart, args, kwargs):
        return counterpart(*args, **kwargs)
    return _of_library(function, args, kwargs, partial(_unknown, function, "__call__", reason))


# ------------------------------------------------------------------------------------- who is who


def _counterpart(ours: ModuleType, theirs: ModuleType, function: Callable[..., Any]) -> Any:
    """Our function with the same name as a function of NumPy, or None."""
    name = function.__name__
    if getattr(theirs, name, None) is function:
        return getattr(ours, name, None)
    return getattr(ours, _UNNAMED[function]) if function in _UNNAMED else None


def _counterpart_of_ufunc(ufunc: np.ufunc) -> Any:
    """Our function for a ufunc of NumPy or SciPy, or None."""
    counterpart = _counterpart(fnp, np, ufunc)
    special = sys.modules.get("scipy.special")  # loaded, if one of its ufuncs is called
    if counterpart is not None or getattr(special, ufunc.__name__, None) is not ufunc:
        return counterpart
    import funcgrad.scipy.special as ours  # which a script without SciPy need not load

    return getattr(ours, ufunc.__name__, None) if ufunc.__name__ in ours.__all__ else None


def _public_module(function: Callable[..., Any]) -> str:
    """The module of a function; NumPy 2.0 says ``numpy.lib._scimath_impl`` for its ``scimath``."""
    return re.sub(r"\b_(\w+)_impl\b", r"\1", function.__module__)


def _homes(function: Callable[..., Any]) -> tuple[Any, Any]:
    """Our module and NumPy's that correspond to the module of a function."""
    ours: Any = fnp
    theirs: Any = np
    for name in _public_module(function).split(".")[1:]:
        ours, theirs = getattr(ours, name, None), getattr(theirs, name, None)
    return ours, theirs


def _path(function: Callable[..., Any], method: str = "__call__") -> str:
    """The name by which users probably call a function."""
    name = function.__name__
    if getattr(np, name, None) is function:
        home = "np"
    elif isinstance(function, np.ufunc):
        home = _module_of(function)
    else:
        home = re.sub(r"^numpy\b", "np", _public_module(function))
    path = f"{home}.{name}" if home else f"the ufunc {name}"
    return path if method == "__call__" else f"{path}.{method}"


def _module_of(ufunc: np.ufunc) -> str:
    """The module that has a ufunc under its name, preferably a public one that lists it.

    Ufuncs have no ``__module__``.
    """
    name = ufunc.__name__
    candidates = [
        (name not in getattr(module, "__all__", ()), "._" in home, len(home), home)
        for home, module in tuple(sys.modules.items())
        if getattr(module, "__dict__", {}).get(name) is ufunc
    ]
    return min(candidates)[-1] if candidates else ""


def _misfit(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The reason why our function cannot take the arguments of NumPy's; empty if it can."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        return f"{error}; for tensors the signature is ({', '.join(signature.parameters)})"
    return ""


def _by_name(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """The arguments by NumPy's parameter names, without arguments that equal the default.

    This serves NumPy's functions with more positional parameters than ours: ``np.sum(t, 0, None,
    None, True)``. None if names do not help.
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


# ------------------------------------------------------------------ functions of other libraries


def _of_library(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: Callable[[], Exception],
) -> Any:
    """Call a function of another library, with arrays instead of concrete tensors.

    Parameters
    ----------
    error : callable
        Makes the error to raise if a tensor is traced, or cannot be replaced by its array.
    """
    leaves, structure = flatten((tuple(args), dict(kwargs)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    traces = [tensor._trace for tensor in tensors if tensor._trace is not None]
    if not tensors or any(not trace.is_remote for trace in traces):
        raise error()
    if traces:
        name = getattr(function, "__name__", "it")
        if name.startswith("__"):  # a method of a ufunc
            name = getattr(getattr(function, "__self__", None), "__name__", name)
        raise UnknownFunctionError(
            f"{name} is not available on {traces[0].title}: copy the tensors to the host, by"
            " fg.get, or compose it from funcgrad.numpy's functions."
        )
    positional, named = unflatten(structure, [_plain(leaf) for leaf in leaves])
    return _wrapped(function(*positional, **named))


def _unknown(function: Callable[..., Any], method: str, reason: str) -> UnknownFunctionError:
    return UnknownFunctionError(
        f"{_path(function, method)} is not available for traced tensors"
        + (f" with these arguments: {reason}." if reason else ".")
        + " Compose it from funcgrad.numpy's functions, give it a rule with fg.custom_jvp or"
        " fg.custom_vjp, or apply it to fg.stop_gradient(t) if no derivative is needed."
    )


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and x._trace is not None


def _plain(x: Any) -> Any:
    """The array of a concrete tensor; any other object unchanged."""
    return np.asarray(x) if isinstance(x, Tensor) else x


def _wrapped(result: Any) -> Any:
    """Convert the arrays in results, also in tuples and lists, to tensors."""
    leaves, structure = flatten(result)
    return unflatten(structure, [_as_tensor(leaf) for leaf in leaves])


def _as_tensor(x: Any) -> Any:
    ours = type(x) is np.ndarray or isinstance(x, np.generic)
    return tensor(x) if ours and x.dtype in DTYPES else x


# ----------------------------------------------------------------------- functions that write


def _written_by_ufunc(
    ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Call a ufunc whose ``out`` is a user's array; a tensor is an error."""
    path = _path(ufunc, method)
    targets = inputs[:1] if method == "at" else kwargs["out"]
    advice = "The result is a new tensor: use it."
    if method == "at":
        advice = "Write w = fnp.asarray(w).at[i].add(t), or set, multiply, min, max."
    elif method == "__call__" and ufunc in _SIGNS and targets[0] is inputs[0]:
        sign = _SIGNS[ufunc]
        path = f"w {sign}= t"
        advice = f"Write w = w {sign} t, which makes a new tensor."
    return _written(getattr(ufunc, method), path, targets, inputs, kwargs, advice)


def _written(
    function: Callable[..., Any],
    path: str,
    targets: Sequence[Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    advice: str = "Use the result; or write w = fnp.asarray(w).at[i].set(t), fnp.where(mask, t, w),"
    " or fnp.full(shape, t) for np.full, which make new tensors.",
) -> Any:
    """Call a function that writes into an argument, with arrays instead of the other tensors.

    Raises
    ------
    ImmutableError
        The function would write to a tensor.
    TracerError, DeviceError
        The function would write a traced value, or one on a device, to an array.
    """
    if not targets or any(isinstance(target, Tensor) for target in targets):
        raise ImmutableError(
            f"{path} writes into its argument, and tensors never change. Use t.at[i].set(v), or"
            " add, multiply, min, max, or fnp.where(mask, v, t), which return a new tensor; out="
            " has no use."
        )
    leaves, structure = flatten((tuple(args), dict(kwargs)))
    if any(map(_is_traced, leaves)):
        if all(leaf._trace.is_remote for leaf in leaves if _is_traced(leaf)):
            raise DeviceError(
                f"{path}: writes into a NumPy array, and a value is on a device. {advice}"
            )
        raise TracerError(
            f"{path}: writes into a NumPy array, which cannot hold a traced value. {advice}"
        )
    positional, named = unflatten(structure, [_plain(leaf) for leaf in leaves])
    return function(*positional, **named)

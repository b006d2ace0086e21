"""Functions of NumPy and SciPy as autograd has them: arrays in, arrays out, and traced if need be.

Without tensors a function is the other library's own, and its result is that library's: an array
that may be written to. With tensors, also inside of lists, it is funcgrad's.

>>> import funcgrad as fg
>>> mean = function(np.mean)
>>> mean([1.0, 2.0])
np.float64(1.5)
>>> fg.grad(lambda x: mean([x, x * x]))(3.0)
Tensor(3.5)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.dispatch import dispatch_function
from funcgrad.errors import UnknownFunctionError


def function(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of NumPy's that also takes lists of tensors."""

    @wraps(theirs)
    def called(*args: object, **kwargs: object) -> Any:
        if any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values())):
            return plain(dispatch_function(theirs, args, kwargs))
        return theirs(*args, **kwargs)

    return called


def names(theirs: ModuleType) -> dict[str, Any]:
    """Make the public names of one of NumPy's modules.

    NumPy's ufuncs, types and constants stay its own: ufuncs ask tensors themselves.
    """
    return {
        name: function(value) if _is_function(value) else value
        for name, value in ((name, getattr(theirs, name)) for name in theirs.__all__)
        if not isinstance(value, ModuleType)
    }


def _is_function(value: object) -> bool:
    is_other = isinstance(value, np.ufunc | type) or not hasattr(value, "__name__")
    return callable(value) and not is_other


def pair(theirs: Callable[..., Any], ours: Callable[..., Any] | None, path: str) -> Any:
    """Make a function of SciPy's that is funcgrad's where a tensor is among its arguments.

    Parameters
    ----------
    theirs : callable
    ours : callable, optional
        None where funcgrad has no such function.
    path : str
        The function's name in errors.

    Raises
    ------
    UnknownFunctionError
        The function is called with tensors, and funcgrad does not have it.
    """

    @wraps(theirs)
    def called(*args: object, **kwargs: object) -> Any:
        if not any(map(holds_tensor, args)) and not any(map(holds_tensor, kwargs.values())):
            return theirs(*args, **kwargs)
        if ours is None:
            raise UnknownFunctionError(
                f"{path} has no derivative in funcgrad. Compose it from functions that have one, or"
                " give it a rule: f = primitive(function), then defvjp(f, rule); both are in"
                " funcgrad.compat.autograd.extend."
            )
        return plain(ours(*args, **kwargs))

    return called


def paired(theirs: object, ours: object, path: str, name: str) -> Any:
    """Look up a name of SciPy's: a function as a pair, anything else as it is.

    Raises
    ------
    AttributeError
        SciPy has no such name.
    """
    value = getattr(theirs, name)
    if callable(value) and not isinstance(value, type):
        return pair(value, getattr(ours, name, None), f"{path}.{name}")
    return value

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

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.errors import UnknownFunctionError
from funcgrad.tensor.numpy_protocols import dispatch_function


def function(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of NumPy's that also takes lists of tensors."""

    @wraps(theirs)
    def called(*args: object, **kwargs: object) -> Any:
        if any(map(holds_tensor, args)) or any(map(holds_tensor, kwargs.values())):
            return plain(dispatch_function(theirs, args, kwargs))
        return theirs(*args, **kwargs)

    return called


class Names:
    """The public names of one of NumPy's modules, each made when it is first used.

    NumPy's ufuncs, types and constants stay its own: ufuncs ask tensors themselves.

    Parameters
    ----------
    package : str
        The ``__name__`` of the module that shows the names.
    theirs : module
    """

    __slots__ = ("_package", "_theirs")

    def __init__(self, package: str, theirs: ModuleType) -> None:
        self._package = package
        self._theirs = theirs

    def load(self, name: str) -> Any:
        """Make the object of a name, and store it in the package: a module's ``__getattr__``.

        Raises
        ------
        AttributeError
            NumPy has no such public name.
        """
        if name.startswith("_") and name != "__version__":
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}", name=name)
        value = getattr(self._theirs, name)
        value = function(value) if _is_function(value) else value
        setattr(sys.modules[self._package], name, value)
        return value

    def listed(self) -> list[str]:
        """List the names: a module's ``__dir__``."""
        shown = vars(sys.modules[self._package])
        return sorted({*self._theirs.__all__, *(name for name in shown if name[0] != "_")})


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
    if name.startswith("__"):  # as imports and inspection ask a module
        raise AttributeError(f"module {path!r} has no attribute {name!r}", name=name)
    value = getattr(theirs, name)
    if callable(value) and not isinstance(value, type):
        return pair(value, getattr(ours, name, None), f"{path}.{name}")
    return value

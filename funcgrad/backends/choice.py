"""Find the backend that a user asks for, by its name or as a value.

>>> chosen_backend("numpy", "jit").name
'numpy'
"""

from __future__ import annotations

from typing import Any, Final

from funcgrad.backends.interface import Backend
from funcgrad.backends.numpy.backend import NUMPY
from funcgrad.errors import ArgumentError

_INSTALLED: Final[tuple[Backend, ...]] = (NUMPY,)
_MEMBERS: Final = ("name", "supports", "prepare", "compile", "inspect")


def chosen_backend(backend: Any, operation: str) -> Backend:
    """Find the backend of a name; None means NumPy's, and a backend is returned unchanged.

    Parameters
    ----------
    backend : Backend, str or None
    operation : str
        The function that received the option, for error messages.

    Raises
    ------
    ArgumentError
        No backend of that name is installed, or the object is no backend.
    """
    if backend is None:
        return NUMPY
    for known in _INSTALLED:
        if isinstance(backend, str) and backend == known.name:
            return known
    names = ", ".join([repr(known.name) for known in _INSTALLED])
    if isinstance(backend, str):
        raise ArgumentError(
            f"{operation}: no backend called {backend!r} is installed. Installed: {names}. One of"
            " your own is passed as a value."
        )
    missing = [member for member in _MEMBERS if not hasattr(backend, member)]
    if missing or isinstance(backend, type):
        lack = f"has no {', '.join(missing)}" if missing else "is a class: pass an instance of it"
        raise ArgumentError(
            f"{operation}: backend={backend!r} is no backend: it {lack}. Pass one of the names"
            f" {names}, or an object with the members {', '.join(_MEMBERS)}."
        )
    users_backend: Backend = backend
    return users_backend

"""Find the backend that a user asks for, by its name or as a value.

>>> chosen_backend("numpy", "jit").name
'numpy'
"""

from __future__ import annotations

from typing import Any, Final

from funcgrad.backends.interface import Backend
from funcgrad.backends.numpy.backend import NUMPY
from funcgrad.errors import ArgumentError, FuncgradError
from funcgrad.users_line import warn_user

DEFAULT: str = "numpy"
_NAMES: Final = ("numpy", "native")
_MEMBERS: Final = ("name", "supports", "prepare", "compile", "inspect")


def chosen_backend(backend: Any, operation: str, exact: bool = False) -> Backend:
    """Find the backend of a name; None means the default, and a backend is returned unchanged.

    Parameters
    ----------
    backend : Backend, str or None
    operation : str
        The function that received the option, for error messages.
    exact : bool
        Whether elementwise operations are to have NumPy's bits.

    Raises
    ------
    ArgumentError
        There is no backend of that name, the object is no backend, or it is not exact.
    """
    if backend is None:
        backend = DEFAULT
    if isinstance(backend, str) and backend in _NAMES:
        return NUMPY if backend == NUMPY.name else _native(operation, exact)
    names = ", ".join(map(repr, _NAMES))
    if isinstance(backend, str):
        raise ArgumentError(
            f"{operation}: there is no backend called {backend!r}. There are {names}. One of"
            " your own is passed as a value."
        )
    missing = [member for member in _MEMBERS if not hasattr(backend, member)]
    if missing or isinstance(backend, type):
        lack = f"has no {', '.join(missing)}" if missing else "is a class: pass an instance of it"
        raise ArgumentError(
            f"{operation}: backend={backend!r} is no backend: it {lack}. Pass one of the names"
            f" {names}, or an object with the members {', '.join(_MEMBERS)}."
        )
    if exact and backend is not NUMPY and not getattr(backend, "exact", False):
        raise ArgumentError(
            f"{operation}: exact=True cannot make the backend {backend.name!r} exact. A backend"
            " that is passed as a value has the attribute `exact`; or pass the name of one."
        )
    users_backend: Backend = backend
    return users_backend


def _native(operation: str, exact: bool) -> Backend:
    """The native backend; NumPy's, with a warning, where this machine cannot have it."""
    try:
        from funcgrad.backends.native.native_backend import EXACT, NATIVE

        NATIVE.check_machine()
    except (ImportError, FuncgradError) as error:
        cause = str(error)
        if isinstance(error, ImportError):
            cause = 'llvmlite is not installed: python -m pip install "funcgrad[native]"'
        warn_user(
            f"{operation}: there is no native backend here, and the NumPy backend runs: {cause}.",
            RuntimeWarning,
        )
        return NUMPY
    return EXACT if exact else NATIVE

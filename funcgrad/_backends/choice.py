"""Find the backend that a user asks for, by its name or as an object; or the default one.

A function that names no backend runs on the native backend if llvmlite is installed, and else on
NumPy's. A backend is imported when the first function that needs it is called.

>>> chosen_backend("numpy", "jit").name
'numpy'
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from operator import index
from typing import Any, Final, SupportsIndex

import numpy as np

from funcgrad._backends.interface import Backend, Compiled
from funcgrad._backends.thread_limits import asked_threads
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.locks import cached_property
from funcgrad._base.users_line import warn_user
from funcgrad._programs.program import Program
from funcgrad.errors import ArgumentError

DEFAULT: str = "native"
_NAMES: Final = ("numpy", "native", "xla")
_MEMBERS: Final = ("name", "supports", "prepare", "compile", "inspect")


def chosen_backend(
    backend: Any, operation: str, exact: bool = False, threads: int | None = None
) -> Backend:
    """Find a backend by its name. None means the default; a backend is returned unchanged.

    Other packages may add names by entry points of the group ``funcgrad.backends``.

    Parameters
    ----------
    backend : Backend, str or None
    operation : str
        The function that received the option, for error messages.
    exact : bool
        Whether elementwise operations must give NumPy's bits.
    threads : int, optional
        How many threads share large pieces of work, if the backend can use threads. Without it the
        backend decides.

    Raises
    ------
    ArgumentError
        No backend has that name, the object is not a backend, or it is not exact.
    """
    if backend is None:
        backend = DEFAULT if _NATIVE_CHANCES.has_compiler else "numpy"
        if backend != "numpy" and _NATIVE_CHANCES.obstacle is not None:
            _NATIVE_CHANCES.warn_once(operation)
            return numpy_backend()
    if isinstance(backend, str) and backend in _NAMES:
        if backend == "xla":
            return _xla(operation, exact)
        return numpy_backend() if backend == "numpy" else _native(operation, exact, threads)
    names = ", ".join(map(repr, _NAMES))
    if isinstance(backend, str):
        from funcgrad._hints.entry_points import EntryPoints

        installed = EntryPoints("funcgrad.backends", operation)
        if backend not in installed:
            raise ArgumentError(
                f"{operation}: there is no backend called {backend!r}. Choose from"
                f" {', '.join([names, *map(repr, installed)])}, or pass a backend of your own as an"
                " object."
            )
        backend = installed[backend]
    missing = [member for member in _MEMBERS if not hasattr(backend, member)]
    if missing or isinstance(backend, type):
        lack = f"has no {', '.join(missing)}" if missing else "is a class: pass an instance of it"
        raise ArgumentError(
            f"{operation}: backend={backend!r} is not a backend: it {lack}. Pass one of the names"
            f" {names}, or an object with the members {', '.join(_MEMBERS)}."
        )
    if exact and backend is not numpy_backend() and not getattr(backend, "exact", False):
        raise ArgumentError(
            f"{operation}: exact=True cannot make the backend {backend.name!r} exact. Pass a"
            " backend whose attribute `exact` is true, or the name of a backend."
        )
    users_backend: Backend = backend
    with_threads = getattr(users_backend, "with_threads", None)
    return users_backend if with_threads is None or threads is None else with_threads(threads)


def machine_code_of(prepared: Program) -> Compiled | None:
    """Machine code with the bits of NumPy's backend; None if there is none.

    Parameters
    ----------
    prepared : Program
        Prepared for NumPy so that all results keep every bit. Arguments have to lie in C order.
    """
    backend = chosen_backend(None, "a solver", exact=True)
    if backend is numpy_backend():
        return None
    from funcgrad._backends.native.same_bits import with_same_bits

    program = with_same_bits(prepared)
    return None if program is None else backend.compile(program)


def numpy_backend() -> Backend:
    """NumPy's backend; loading it takes 8 ms, which functions on the native backend do without."""
    from funcgrad._backends.numpy.backend import NUMPY

    return NUMPY


def thread_count(threads: SupportsIndex | None, operation: str) -> int | None:
    """Check a number of threads, or if there is none the environment's.

    Raises
    ------
    ArgumentError
        It is not a positive integer.
    """
    if threads is None:
        asked_threads(os.environ)
        return None
    try:
        count = 0 if isinstance(threads, (bool, np.bool_)) else index(threads)
    except TypeError:
        count = 0
    if not 1 <= count < 2**63:
        raise ArgumentError(
            f"{operation}: threads={threads!r} is not a number of threads. Pass a positive integer,"
            " such as threads=2."
        )
    return count


@dataclass(frozen=True, slots=True)
class LateChoice:
    """The backend of a function that names none. It is chosen when the function is called.

    Attributes
    ----------
    exact : bool
        Whether elementwise operations must give NumPy's bits.
    threads : int or None
        How many threads share large pieces of work; None if the backend decides.
    """

    exact: bool
    threads: int | None = None

    def backend(self) -> Backend:
        """Choose it. If llvmlite is installed but cannot be used, one warning says why."""
        return chosen_backend(None, "jit", self.exact, self.threads)


def _native(operation: str, exact: bool, threads: int | None) -> Backend:
    """The native backend; where it cannot run, NumPy's backend, with a warning."""
    if _NATIVE_CHANCES.obstacle is not None:
        _NATIVE_CHANCES.warn(operation)
        return numpy_backend()
    from funcgrad._backends.native.native_backend import EXACT, NATIVE

    return (EXACT if exact else NATIVE).with_threads(threads)


def _xla(operation: str, exact: bool) -> Backend:
    """The XLA backend on host values.

    Raises
    ------
    MissingPackageError
        JAX is not installed.
    ArgumentError
        XLA cannot have NumPy's bits.
    """
    if exact:
        raise ArgumentError(
            f"{operation}: exact=True needs NumPy's bits, which XLA does not compute. Choose the"
            ' backend "native" or "numpy".'
        )
    from funcgrad._backends.xla.jax_library import jax_library
    from funcgrad._backends.xla.xla_backend import XLA

    jax_library()
    return XLA


class _NativeChances:
    """Whether the native backend can run on this machine, found out once."""

    def __init__(self) -> None:
        self._has_warned = False

    @cached_property
    def has_compiler(self) -> bool:
        """Whether llvmlite is installed, without loading it."""
        return find_spec("llvmlite") is not None

    @cached_property
    def obstacle(self) -> str | None:
        """Why the native backend cannot run here; None if it can."""
        if not self.has_compiler:
            return 'llvmlite is not installed: python -m pip install "llvmlite>=0.45,<0.51"'
        try:
            from funcgrad._backends.native.native_backend import NATIVE

            NATIVE.check_machine()
        except Exception as error:  # whatever is wrong with it, NumPy's backend runs
            return str(error) or repr(error)
        return None

    def warn(self, operation: str) -> None:
        """Warn of the obstacle."""
        warn_user(
            f"{operation}: the native backend cannot run here, so the NumPy backend is used:"
            f" {self.obstacle}.",
            RuntimeWarning,
        )

    def warn_once(self, operation: str) -> None:
        """Warn of the obstacle the first time; later calls do nothing."""
        if not self._has_warned:
            self._has_warned = True
            self.warn(operation)


_NATIVE_CHANCES: Final = _NativeChances()

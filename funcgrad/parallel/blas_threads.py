"""The number of threads of NumPy's BLAS library, and of machine code: one in each worker.

Workers share the cores, and products are bit-for-bit equal only for one number of threads. The
library is the one that NumPy has loaded. If it is not known here, environment variables such as
``OMP_NUM_THREADS`` decide; Dask sets this one to 1.

>>> with one_thread():
...     product = np.ones((2, 2)) @ np.ones((2, 2))
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import numpy as np

from funcgrad._backends.thread_limits import LIMITS
from funcgrad._base.locks import ProcessLock

_NAMES: Final = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
)


def _functions() -> tuple[Callable[[], int], Callable[[int], Any]] | None:
    """Look up the functions that read and set the number, in the library that NumPy has loaded."""
    for place in ("_core", "core"):
        with suppress(AttributeError, OSError, TypeError):
            library = ctypes.CDLL(getattr(np, place)._multiarray_umath.__file__)
            for read, write in _NAMES:
                with suppress(AttributeError):
                    return getattr(library, read), getattr(library, write)
    return None


class BlasThreads:
    """The number of threads of this process; it is 1 while a user needs one thread."""

    def __init__(self) -> None:
        self._lock = ProcessLock()
        self._users: set[object] = set()
        self._before: int | None = None
        self._functions = _functions()

    @contextmanager
    def one(self) -> Iterator[None]:
        """Use one thread within the block; the last user restores the old number."""
        user = object()
        try:
            self._lock.run(lambda: self._begin(user))
            yield
        finally:
            self._lock.run(lambda: self._end(user))

    def _begin(self, user: object) -> None:
        read, write = self._functions or (lambda: 1, lambda number: None)
        self._users.add(user)
        LIMITS.use_one(True)
        if self._before is None:
            self._before = read()
            write(1)

    def _end(self, user: object) -> None:
        _, write = self._functions or (lambda: 1, lambda number: None)
        self._users.discard(user)
        LIMITS.use_one(bool(self._users))
        if self._before is not None and not self._users:
            write(self._before)
            self._before = None


_THREADS: Final = BlasThreads()
one_thread: Final = _THREADS.one

"""JAX, loaded when a user asks for XLA; and the scope in which it has 64-bit dtypes.

>>> import pytest
>>> _ = pytest.importorskip("jax")
>>> with wide_dtypes():
...     jax_library().numpy.arange(2.0).dtype
dtype('float64')
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from funcgrad._hints.optional_packages import optional_package


def jax_library() -> Any:
    """The module ``jax``.

    Raises
    ------
    MissingPackageError
        JAX is not installed.
    """
    return optional_package("jax", "the XLA backend: jax or its jaxlib is not installed")


def wide_dtypes() -> AbstractContextManager[Any]:
    """The scope in which JAX keeps 64 bits, in this thread, whatever the user's configuration."""
    scope: AbstractContextManager[Any] = jax_library().enable_x64(True)
    return scope


class memory_errors:  # noqa: N801 - a context, which costs less as a class than as a generator
    """Raises ``MemoryError`` where the memory of the device does not suffice."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError(
                f"{str(error).splitlines()[0]} The memory of the device does not suffice: use"
                " smaller batches or chunks, fg.checkpoint in gradients, or drop tensors that are"
                " there and not needed."
            ) from error

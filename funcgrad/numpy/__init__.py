"""The array namespace."""

from __future__ import annotations

from funcgrad.numpy.dispatch import (
    UnknownFunctionError,
    dispatch_function,
    dispatch_ufunc,
)

__all__ = [
    "UnknownFunctionError",
    "dispatch_function",
    "dispatch_ufunc",
]

"""Convert leaves to arrays of a file and back: little-endian, C-contiguous, complex128 as pairs.

>>> array, kind = stored(2.5)
>>> restored(array, kind)
2.5
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape
from funcgrad._core.trace import NUMBERS, Raw
from funcgrad.errors import FileFormatError
from funcgrad.tensor.tensor import Tensor, wrap

Array = np.ndarray[Any, np.dtype[Any]]

TREE: Final = "funcgrad.tree"
DIGESTS: Final = "funcgrad.blake2b"
"""Keys of a file's metadata."""

RESERVED: Final = "funcgrad."
"""The prefix of keys that users cannot choose."""

_NUMBERS: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {kind.__name__: kind for kind in NUMBERS}
)
PAIRS: Final = frozenset({"complex", "complex128"})
"""Kinds of complex leaves, which may be stored as pairs of floats."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """The name, dtype and shape of a tensor in a file.

    Attributes
    ----------
    name : str
        The path in the tree, such as ``layers.0.weight``.
    dtype : str
        NumPy's name of the dtype, or another such as ``bfloat16``.
    shape : tuple of int
    """

    name: str
    dtype: str
    shape: Shape

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


def stored(value: Raw) -> tuple[Array, str]:
    """Convert a raw value to an array for a file; also return the kind of leaf."""
    kind = type(value).__name__ if type(value) in NUMBERS else ""
    array = np.asarray(value)
    array = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
    return array, "complex128" if not kind and array.dtype == np.complex128 else kind


def as_pairs(array: Array) -> Array:
    """View complex128 as float64 with a last axis of 2."""
    return array.reshape(-1).view("<f8").reshape(*array.shape, 2)


def restored(array: Array, kind: str) -> Tensor | bool | int | float | complex:
    """Make a leaf from an array: a tensor, or a Python number if the leaf was one."""
    if kind in PAIRS and array.dtype == np.float64 and array.shape[-1:] == (2,):
        array = array.reshape(-1).view(np.complex128).reshape(array.shape[:-1])
    if kind in _NUMBERS and not array.ndim:
        return _NUMBERS[kind](array.item())
    return wrap(array if array.ndim else array[()])


def logical(tensor: StoredTensor, kind: str) -> StoredTensor:
    """Describe a tensor like its leaf: pairs of floats of a complex leaf as complex."""
    if kind in PAIRS and tensor.dtype == "float64" and tensor.shape[-1:] == (2,):
        return StoredTensor(tensor.name, "complex128", tensor.shape[:-1])
    return tensor


def fits_memory(shape: Shape) -> bool:
    """Whether NumPy can make arrays of a shape; for empty arrays the other sizes count, too.

    >>> fits_memory((0, 3)), fits_memory((0, 2**62))
    (True, False)
    """
    widest = 16  # bytes of complex128
    return prod([max(size, 1) for size in shape]) * widest < 2**63


def native(array: Array) -> Array:
    """Convert an array of a file to the byte order of this machine, and to NumPy's own dtype.

    A dtype with an explicit byte order is another object, which compiled code does not know.
    """
    usual = array.dtype.type
    return array.view(usual) if sys.byteorder == "little" else array.astype(usual)


_OTHERS: Final = (
    (b"PK\x03\x04", "an archive, such as PyTorch's .pt, which may hold programs"),
    (b"\x80", "a pickle, which may hold programs"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a .npy file: read it with np.load"),
    (b"GGUF", "a GGUF file"),
)


def refused(path: Path, operation: str, start: bytes, reason: str) -> FileFormatError:
    """The error for a file that is damaged or of another format, with a remedy."""
    other = next((words for magic, words in _OTHERS if start.startswith(magic)), "")
    if other:
        return FileFormatError(
            f"{operation}: {str(path)!r} is {other}. Read it with its library, and write it with"
            " safetensors' save_file or fg.io.save; .npz archives need that suffix."
        )
    return FileFormatError(
        f"{operation}: {str(path)!r} is damaged, or of another format: {reason}. Fetch it"
        " again, or load an earlier checkpoint."
    )

"""The safetensors format: eight bytes with the length of a header, the header in JSON, the data.

The header has the dtype, the shape and the offset of each tensor. This module needs only NumPy,
stores every layout of an array correctly, and has a clear message for each fault. The format is
described in https://github.com/huggingface/safetensors#format.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

import numpy as np

from funcgrad.errors import DtypeError, FileFormatError
from funcgrad.io.digests import PIECE, SIZE, Digests
from funcgrad.io.stored_tensors import (
    DIGESTS,
    Array,
    StoredTensor,
    as_pairs,
    fits_memory,
    native,
    refused,
)

_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "BOOL",
        **{f"int{bits}": f"I{bits}" for bits in (8, 16, 32, 64)},
        **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
        **{f"float{bits}": f"F{bits}" for bits in (16, 32, 64)},
        "bfloat16": "BF16",
        "complex64": "C64",
    }
)
_NAMES: Final[Mapping[str, str]] = MappingProxyType({code: name for name, code in _CODES.items()})
_UNREAD_BITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        **dict.fromkeys(("F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
        **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
        "F4": 4,
    }
)
"""Sizes of dtypes of the format that tensors do not support."""

_METADATA: Final = "__metadata__"
MAX_HEADER: Final = 100_000_000
"""The longest header that readers accept, in bytes."""


def write_safetensors(
    file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays and texts. Digests are computed at the same time, and written at the end.

    Arrays are C-contiguous and little-endian. Wide dtypes come first, so that each is aligned.
    """
    arrays = {
        name: as_pairs(array) if array.dtype == np.complex128 else array
        for name, array in sorted(arrays.items(), key=lambda item: -min(item[1].itemsize, 8))
    }
    blank = dict.fromkeys(arrays, "0" * (2 * SIZE))
    start = len(_header(arrays, metadata, blank))
    file.seek(start)
    with Digests() as digests:
        for name, array in arrays.items():
            digests.add(name, array)
        for array in arrays.values():
            file.write(array.reshape(-1).view(np.uint8).data)
        if file.tell() > PIECE:  # overlap writing with digests: saves a third of the time
            file.flush()
            digests.use_another_thread()
            os.fsync(file.fileno())
        header = _header(arrays, metadata, digests.all())
    file.seek(0)
    file.write(header)


def _header(
    arrays: Mapping[str, Array], metadata: Mapping[str, str], digests: Mapping[str, str]
) -> bytes:
    entries: dict[str, Any] = {_METADATA: {**metadata, DIGESTS: json.dumps(digests)}}
    place = 0
    for name, array in arrays.items():
        end = place + array.nbytes
        entries[name] = {
            "dtype": _CODES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (place, end),
        }
        place = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise FileFormatError(
            f"save: the names of the tree take {len(text)} bytes, but a file has room for"
            f" {MAX_HEADER}. Stack leaves of one kind, or save parts of the tree in several files."
        )
    return len(text).to_bytes(8, "little") + text


class SafetensorsFile:
    """A file of this format that is open for reading."""

    def __init__(self, file: BinaryIO, path: Path, operation: str) -> None:
        self._file, self._path, self._operation = file, path, operation
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or length > min(MAX_HEADER, size - 8):
            raise self._refused(f"its header should have {length} bytes, it has {size}", start)
        try:
            header = json.loads(file.read(length), object_pairs_hook=_without_doubles)
            self.metadata = _texts(header.pop(_METADATA, {}))
            self._begin = 8 + length
            self._places = {name: _place(name, entry) for name, entry in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._refused(f"its header is wrong: {error}", start) from None
        self._check_places(size - self._begin)
        self.tensors = {name: place[0] for name, place in self._places.items()}

    def _refused(self, reason: str, start: bytes = b"") -> FileFormatError:
        return refused(self._path, self._operation, start, reason)

    def _check_places(self, size: int) -> None:
        """Check that the tensors are contiguous, and fill the file."""
        expected = 0
        for tensor, begin, end in sorted(self._places.values(), key=lambda place: place[1:]):
            if begin != expected:
                raise self._refused(
                    f"the data of {tensor.name!r} begin at {begin}, but the previous data end"
                    f" at {expected}"
                )
            expected = end
        if expected != size:
            raise self._refused(f"its data should take {expected} bytes, but there are {size}")

    def read(self, name: str) -> Array:
        """Read a tensor; bfloat16 becomes float32.

        Raises
        ------
        DtypeError
            Tensors do not support the dtype.
        """
        tensor, begin, end = self._places[name]
        if tensor.dtype not in _CODES:
            raise DtypeError(
                f"{self._operation}: {name!r} of {str(self._path)!r} is {tensor}, which tensors"
                " do not support. Convert it to float16 or float32 with the library that wrote it."
            )
        data = np.empty(end - begin, np.uint8)
        self._file.seek(self._begin + begin)
        if data.size and self._file.readinto(data.data) != data.size:  # type: ignore[attr-defined]
            raise self._refused(f"it ends within the data of {name!r}")
        if tensor.dtype == "bfloat16":  # the upper half of a float32
            wide = native(data.view("<u2")).astype(np.uint32) << 16
            return wide.view(np.float32).reshape(tensor.shape)
        if tensor.dtype == "bool":
            if data.size and data.max() > 1:
                raise self._refused(f"{name!r} has booleans other than 0 and 1")
            return data.view(np.bool_).reshape(tensor.shape)
        dtype = np.dtype(tensor.dtype).newbyteorder("<")
        return native(data.view(dtype)).reshape(tensor.shape)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("it has a name twice")
    return names


def _texts(metadata: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("its metadata are not texts")
    return metadata


def _place(name: str, entry: dict[str, Any]) -> tuple[StoredTensor, int, int]:
    """Read and check the header's entry for one tensor."""
    name.encode()  # raises an error for a lone surrogate
    code, shape = entry["dtype"], tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    numbers = (*shape, begin, end)
    if not all(type(number) is int and number >= 0 for number in numbers) or len(shape) > 32:
        raise ValueError(f"{name!r} has the shape {shape} and the place {begin, end}")
    if code not in _NAMES and code not in _UNREAD_BITS:
        raise ValueError(f"{name!r} has the unknown dtype {code!r:.20}")
    bits = 8 * np.dtype(_width(code)).itemsize if code in _NAMES else _UNREAD_BITS[code]
    if prod(shape) * bits != 8 * (end - begin) or not fits_memory(shape):
        raise ValueError(f"{name!r} of dtype {code} and shape {shape} has {end - begin} bytes")
    return StoredTensor(name, _NAMES.get(code, code), shape), begin, end


def _width(code: str) -> str:
    return "uint16" if code == "BF16" else _NAMES[code]

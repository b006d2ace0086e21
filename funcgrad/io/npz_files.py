"""Archives ``.npz`` of NumPy: one ``.npy`` file a tensor, and the metadata as JSON beside them.

``np.load`` reads them. They hold complex128 directly, and nothing that has to be unpickled.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO, Final
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy

from funcgrad._core.specs import DTYPES
from funcgrad.errors import FileFormatError
from funcgrad.io.digests import Digests
from funcgrad.io.stored_tensors import DIGESTS, Array, StoredTensor, fits_memory, refused

_METADATA: Final = "funcgrad.json"
_SUFFIX: Final = ".npy"
_TABLE_END: Final = 22
"""Bytes at the end of an archive, before its comment, with the number of members."""
_MANY: Final = 0xFFFF
"""The number written there if an archive has more members than fit."""


def write_npz(file: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write texts and arrays, which are C-contiguous and little-endian."""
    with Digests() as digests, ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            digests.add(name, array)
        for name, array in arrays.items():
            with archive.open(name + _SUFFIX, "w", force_zip64=True) as member:
                npy.write_array(member, array, allow_pickle=False)
        texts = {**metadata, DIGESTS: json.dumps(digests.all())}
        archive.writestr(_METADATA, json.dumps(texts))


class NpzFile:
    """An archive that is open for reading."""

    def __init__(self, file: BinaryIO, path: Path, operation: str) -> None:
        self._path, self._operation = path, operation
        try:
            self._archive = ZipFile(file)
            names = self._checked_names(file)
            texts = self._archive.read(_METADATA) if _METADATA in names else b"{}"
            self.metadata = {str(key): str(text) for key, text in json.loads(texts).items()}
            members = [name for name in names if name.endswith(_SUFFIX)]
            self.tensors = {name.removesuffix(_SUFFIX): self._tensor(name) for name in members}
        except _FAULTS as error:
            file.seek(0)
            raise self._refused(str(error), file.read(8)) from None

    def _refused(self, reason: str, start: bytes = b"") -> FileFormatError:
        archive = b"PK"  # the right format here
        return refused(self._path, self._operation, start.removeprefix(archive), reason)

    def _checked_names(self, file: BinaryIO) -> list[str]:
        """List the members, after checking their number in the archive's table."""
        file.seek(-_TABLE_END - len(self._archive.comment), os.SEEK_END)
        count = int.from_bytes(file.read(_TABLE_END)[10:12], "little")
        if count not in (len(self._archive.infolist()), _MANY):
            raise ValueError("its table of members is wrong")
        names = self._archive.namelist()
        others = [name for name in names if not name.endswith(_SUFFIX) and name != _METADATA]
        if others or len(set(names)) < len(names):
            raise ValueError(f"it has other members than arrays, or one twice: {others[:3]}")
        return names

    def _tensor(self, name: str) -> StoredTensor:
        """Read the header of a member, and check that it fits the size of the member."""
        with self._archive.open(name) as member:
            version = npy.read_magic(member)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(member)
            size = self._archive.getinfo(name).file_size
        if dtype.newbyteorder("=") not in DTYPES:
            raise ValueError(f"{name!r} is of dtype {dtype}, which tensors do not support")
        if prod(shape) * dtype.itemsize > size or not fits_memory(shape):
            raise ValueError(f"{name!r} of dtype {dtype} and shape {shape} has {size} bytes")
        return StoredTensor(name.removesuffix(_SUFFIX), dtype.name, shape)

    def read(self, name: str) -> Array:
        """Read a tensor."""
        try:
            with self._archive.open(name + _SUFFIX) as member:
                array = npy.read_array(member, allow_pickle=False)
        except _FAULTS as error:
            raise self._refused(f"the data of {name!r} are wrong: {error}") from None
        usual = array.dtype.type  # NumPy's own dtype, in the byte order of this machine
        return np.ascontiguousarray(array, usual).reshape(array.shape)


_FAULTS: Final = (
    *(BadZipFile, zlib.error, EOFError, ValueError, TypeError, KeyError, AttributeError),
    *(RuntimeError, SyntaxError),  # encrypted members are RuntimeErrors
)
"""Errors of NumPy and the standard library about damaged archives."""

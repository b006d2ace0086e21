"""Arrays on the way to processes of this machine: a file, which all of them map into memory.

An executor of processes sends its arguments with each task, so that parameters would travel once a
chunk. Here they are written once, and a task has the name of the file. A worker that cannot read
it, being another machine, says so, and receives the bytes.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Sequence
from typing import Any, Final

from funcgrad.parallel.worker_store import STORE
from funcgrad.quick_dataclasses import dataclass

_ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Parcel:
    """Arrays by the name of a file; or with their bytes, for a worker that asked for them.

    Attributes
    ----------
    key : str
    path : str
    content : bytes or None
    """

    key: str
    path: str
    content: bytes | None = None


class AbsentError(Exception):
    """Files of parcels cannot be read here; ``args`` are their keys."""


def write_parcel(path: str, value: Any) -> None:
    """Write a value; its arrays come behind the rest, each at an address that suits it."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    blocks = [memoryview(head), *[buffer.raw() for buffer in buffers]]
    sizes = [len(block) for block in blocks]
    index = pickle.dumps(sizes)
    with open(path, "wb") as file:
        file.write(len(index).to_bytes(8, "little") + index)
        for block in blocks:
            file.write(b"\0" * (-file.tell() % _ALIGNMENT))
            file.write(block)


def _read_parcel(data: Any) -> Any:
    """Read a value from bytes, or from a file that is mapped into memory, without a copy."""
    view = memoryview(data)
    length = int.from_bytes(view[:8], "little")
    position = 8 + length
    parts = []
    for size in pickle.loads(view[8:position]):
        position += -position % _ALIGNMENT
        parts.append(view[position : position + size])
        position += size
    return pickle.loads(parts[0], buffers=parts[1:])


def _mapped(parcel: Parcel) -> Any:
    if parcel.content is not None:
        return _read_parcel(parcel.content)
    try:
        with open(parcel.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except OSError as error:
        raise AbsentError(parcel.key) from error
    return _read_parcel(data)


def opened(values: Sequence[Any]) -> list[Any]:
    """Replace parcels by what is in them.

    Raises
    ------
    AbsentError
        Some of them cannot be read here.
    """
    known, absent = [], []
    for value in values:
        if not isinstance(value, Parcel):
            known.append(value)
            continue
        try:
            known.append(STORE.parcel(value.key, lambda value=value: _mapped(value)))  # type: ignore[misc]  # a default, bound now
        except AbsentError:
            absent.append(value.key)
    if absent:
        raise AbsentError(*absent)
    return known

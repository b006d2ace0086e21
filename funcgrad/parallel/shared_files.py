"""Values on the way to processes of this machine: a file, which all of them map into memory.

An executor of processes sends its arguments with each task, so that parameters would travel once a
chunk. Here they are written once, and a task has the name of the file. A worker that cannot read
it, being another machine, says so; from then on values travel in the tasks.

>>> opened([Parcel({"a": 1}), Parcel("text", in_file=False), 2])
[{'a': 1}, 'text', 2]
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

_ALIGNMENT: Final = 64


class AbsentError(Exception):
    """The file of a parcel cannot be read here."""


class Parcel:
    """A value in a file, which is there as long as the parcel; or else as bytes in the parcel."""

    __slots__ = ("__weakref__", "content", "path")

    def __init__(self, value: object, in_file: bool = True) -> None:
        self.content = None if in_file else pickle.dumps(value)
        self.path = ""
        if in_file:
            handle, self.path = tempfile.mkstemp(prefix="funcgrad-")
            weakref.finalize(self, _remove, self.path, os.getpid())
            with open(handle, "wb") as file:
                _write(file, value)

    def __getstate__(self) -> tuple[bytes | None, str]:
        return self.content, self.path

    def __setstate__(self, state: tuple[bytes | None, str]) -> None:
        self.content, self.path = state

    def open(self) -> Any:
        """The value, whose arrays are in the file.

        Raises
        ------
        AbsentError
            The file cannot be read here.
        """
        if self.content is not None:
            return pickle.loads(self.content)
        try:
            with open(self.path, "rb") as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise AbsentError(self.path) from error
        return _read(memoryview(data))


def _remove(path: str, process: int) -> None:
    if os.getpid() == process:  # not a child that was forked
        with suppress(OSError):  # elsewhere than on POSIX a file that is mapped stays
            os.unlink(path)


def _write(file: Any, value: object) -> None:
    """Write a value; its arrays come behind the pickle, each at an address that suits it."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    blocks = [memoryview(head), *[buffer.raw() for buffer in buffers]]
    sizes = pickle.dumps([len(block) for block in blocks])
    file.write(len(sizes).to_bytes(8, "little") + sizes)
    for block in blocks:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        file.write(block)


def _read(view: memoryview) -> Any:
    """Read a value without a copy of its arrays."""
    position, parts = 8 + int.from_bytes(view[:8], "little"), []
    for size in pickle.loads(view[8:position]):
        position += -position % _ALIGNMENT
        parts.append(view[position : position + size])
        position += size
    return pickle.loads(parts[0], buffers=parts[1:])


def opened(values: Sequence[Any]) -> list[Any]:
    """Replace parcels by what is in them."""
    return [value.open() if isinstance(value, Parcel) else value for value in values]

"""Values for processes of this machine: a file, which all of them map into memory.

An executor of processes sends arguments with each task, so parameters would be sent once for each
chunk. Here they are written once, and a task has the name of the file. A worker on another machine
cannot read the file and says so; from then on values are sent in the tasks.

>>> unpacked([SharedFile({"a": 1}), SharedFile("text", in_file=False), 2])
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
    """A shared file cannot be read here."""


class SharedFile:
    """A value in a file that exists as long as this object; or as bytes in this object."""

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
        """Return the value, whose arrays are mapped from the file.

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
    if os.getpid() == process:  # not in a forked child
        with suppress(OSError):  # only POSIX can remove a mapped file
            os.unlink(path)


def _write(file: Any, value: object) -> None:
    """Write a value; its arrays follow the pickle, each aligned."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    blocks = [memoryview(head), *[buffer.raw() for buffer in buffers]]
    sizes = pickle.dumps([len(block) for block in blocks])
    file.write(len(sizes).to_bytes(8, "little") + sizes)
    for block in blocks:
        file.write(b"\0" * (-file.tell() % _ALIGNMENT))
        file.write(block)


def _read(view: memoryview) -> Any:
    """Read a value without copying its arrays."""
    position, parts = 8 + int.from_bytes(view[:8], "little"), []
    for size in pickle.loads(view[8:position]):
        position += -position % _ALIGNMENT
        parts.append(view[position : position + size])
        position += size
    return pickle.loads(parts[0], buffers=parts[1:])


def unpacked(values: Sequence[Any]) -> list[Any]:
    """Replace shared files by their values."""
    return [value.open() if isinstance(value, SharedFile) else value for value in values]

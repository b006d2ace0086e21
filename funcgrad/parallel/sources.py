"""Where the data of chunks come from: files, rows of arrays in files, functions, blocks of Dask.

A source is sent in place of data. The worker loads from it, and keeps the data under its key.

>>> source = CallableSource(lambda: np.arange(3.0), "three")
>>> source.load()
array([0., 1., 2.])
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError
from funcgrad.quick_dataclasses import dataclass


class ChunkSource(Protocol):
    """A place that data are loaded from, by the worker."""

    @property
    def key(self) -> str:
        """A text that is the same for the same data; the worker keeps them by it."""
        ...

    def state(self) -> str:
        """Say in the worker which state of the data is there now."""
        ...

    def load(self) -> Any:
        """Load the data, a pytree of arrays."""
        ...


@dataclass(frozen=True, slots=True)
class CallableSource:
    """A function without arguments, called in the process that has it."""

    function: Callable[[], Any]
    key: str

    def state(self) -> str:
        """Say nothing: a function returns the same each time."""
        return ""

    def load(self) -> Any:
        """Call the function."""
        return self.function()


@dataclass(frozen=True, slots=True)
class PickledSource:
    """A function without arguments, as the bytes that are sent to a worker."""

    pickled: bytes
    key: str

    def state(self) -> str:
        """Say nothing: a function returns the same each time."""
        return ""

    def load(self) -> Any:
        """Call the function."""
        return pickle.loads(self.pickled)()


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file of a format that is read by its ending."""

    key: str

    def state(self) -> str:
        """The size and the time of the file that is there now; the key is its path."""
        facts = os.stat(self.key)
        return f"{facts.st_size} {facts.st_mtime_ns}"

    def load(self) -> Any:
        """Read the file."""
        return _READERS[os.path.splitext(self.key)[1]](self.key)


def _read_npz(path: str) -> Any:
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _read_safetensors(path: str) -> Any:
    from funcgrad import io

    return io.load(path)


_READERS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {".npy": np.load, ".npz": _read_npz, ".safetensors": _read_safetensors}
)


def file_source(path: str, place: str) -> FileSource:
    """Make the source of a file.

    Raises
    ------
    ArgumentError
        The ending says of no format that is read here.
    """
    ending = os.path.splitext(path)[1]
    if ending not in _READERS:
        raise ArgumentError(
            f"{place} is the file {path!r}, and the formats that are read are"
            f" {', '.join(sorted(_READERS))}. Pass a function that reads it, such as"
            " functools.partial(read, path)."
        )
    return FileSource(os.path.abspath(path))


@dataclass(frozen=True, slots=True)
class Hdf5Place:
    """A dataset of an HDF5 file, which is opened where it is read."""

    file: str
    name: str

    def rows(self, start: int, stop: int) -> Any:
        """Read some rows."""
        import h5py

        with h5py.File(self.file, "r") as file:
            return file[self.name][start:stop]


@dataclass(frozen=True, slots=True)
class SlicedPlace:
    """An array-like object that can be sent, such as zarr's, and is read by slices."""

    array: Any

    def rows(self, start: int, stop: int) -> Any:
        """Read some rows."""
        return np.asarray(self.array[start:stop])


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows of arrays that are not in memory: a function that reads them."""

    structure: trees.Structure
    places: tuple[Hdf5Place | SlicedPlace, ...]
    start: int
    stop: int

    def __call__(self) -> Any:
        return trees.unflatten(
            self.structure, [place.rows(self.start, self.stop) for place in self.places]
        )


@dataclass(frozen=True, slots=True)
class BlockSource:
    """A block of a Dask array, or a partition of a bag, computed by the worker's own thread."""

    delayed: Any
    is_bag: bool

    def __call__(self) -> Any:
        (block,) = _dask_compute(self.delayed)
        return stacked(block) if self.is_bag else block


def _dask_compute(*delayed: Any) -> Any:
    """Compute blocks of Dask in this thread."""
    import dask

    return dask.compute(*delayed, scheduler="synchronous")


def stacked(records: Any) -> Any:
    """Stack the records of a bag's partition into one tree of arrays."""
    records = list(records)
    return trees.map(lambda *leaves: np.stack(leaves), *records) if records else []

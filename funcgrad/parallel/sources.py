"""Sources of chunks: functions, files, rows of arrays in files, blocks of Dask.

A source is sent instead of data. The worker loads the data, and keeps them by the key of the
source.

>>> source_of(lambda: np.arange(3.0), "here", shipped=False).load()
array([0., 1., 2.])
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import Tensor

Load: TypeAlias = Callable[[], Any]
"""A function without arguments that returns a pytree of arrays."""


@dataclass(frozen=True, slots=True)
class ChunkSource:
    """A place from which a worker loads data.

    Equal data have equal keys. The function is pickled for workers in other processes. ``files``
    are the files that it reads, as far as known.
    """

    key: str
    function: bytes | Load
    files: tuple[str, ...]

    def state(self) -> str:
        """Return the key, with the sizes and times of the files that exist now."""
        facts = [os.stat(file) for file in self.files]
        return " ".join([self.key, *[f"{fact.st_size} {fact.st_mtime_ns}" for fact in facts]])

    def load(self) -> Any:
        """Load the data, a pytree of arrays."""
        known = self.function
        return pickle.loads(known)() if isinstance(known, bytes) else known()


def source_of(function: Load, place: str, shipped: bool) -> ChunkSource:
    """Make the source of a function.

    Raises
    ------
    ArgumentError
        The function cannot be sent.
    """
    key, files = getattr(function, "key", None), getattr(function, "files", ())
    if not shipped:
        return ChunkSource(str(key or f"{type(function).__name__} {id(function)}"), function, files)
    try:
        pickled = _dumps(function)
    except Exception as error:  # a user's object may raise anything
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ArgumentError(
            f"{place}: the function {name} cannot be sent to a worker: {error}. Let it open files"
            " and connections itself, by names that it closes over."
        ) from error
    key = str(key or blake2b(pickled, digest_size=16).hexdigest())
    return ChunkSource(key, pickled, files)


def _dumps(value: object) -> bytes:
    """Pickle a value; cloudpickle, if installed, pickles functions that cannot be imported."""
    if find_spec("cloudpickle") is None:
        return pickle.dumps(value)
    import cloudpickle

    return cloudpickle.dumps(value)


@dataclass(frozen=True, slots=True)
class FileLoader:
    """Reads a file, whose ending tells the format; the key is the path."""

    key: str

    @property
    def files(self) -> tuple[str, ...]:
        """The file."""
        return (self.key,)

    def __call__(self) -> Any:
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


def file_source(path: str, place: str, shipped: bool) -> ChunkSource:
    """Make the source of a file.

    Raises
    ------
    ArgumentError
        The ending is unknown.
    """
    if os.path.splitext(path)[1] not in _READERS:
        raise ArgumentError(
            f"{place} is the file {path!r}, but the known formats are"
            f" {', '.join(sorted(_READERS))}. Pass a function that reads the file, such as"
            " functools.partial(read, path)."
        )
    return source_of(FileLoader(os.path.abspath(path)), place, shipped)


@dataclass(frozen=True, slots=True)
class RowLoader:
    """Reads rows of several arrays, with one function for each array."""

    structure: pytrees.Structure
    readers: tuple[Load, ...]
    files: tuple[str, ...]

    def __call__(self) -> Any:
        return pytrees.unflatten(self.structure, [read() for read in self.readers])


def row_loader(
    structure: pytrees.Structure, arrays: Iterable[Any], start: int, stop: int
) -> RowLoader:
    """Return the function that reads some rows; the worker opens HDF5 files."""
    readers: list[Load] = []
    files: list[str] = []
    for array in arrays:
        in_memory = isinstance(array, (np.ndarray, Tensor))
        if type(array).__module__.partition(".")[0] == "h5py":
            files.append(os.path.abspath(array.file.filename))
            readers.append(partial(_rows_of_hdf5, files[-1], array.name, start, stop))
        elif in_memory:
            readers.append(partial(np.asarray, array[start:stop]))
        else:
            readers.append(partial(_rows, array, start, stop))
    return RowLoader(structure, tuple(readers), tuple(dict.fromkeys(files)))


def _rows_of_hdf5(file: str, name: str, start: int, stop: int) -> Any:
    import h5py

    with h5py.File(file, "r") as opened_file:
        return opened_file[name][start:stop]


def _rows(array: Any, start: int, stop: int) -> Any:
    return np.asarray(array[start:stop])


@dataclass(frozen=True, slots=True)
class BlockLoader:
    """Computes a block of a Dask array, or a partition of a bag, in the worker's own thread."""

    delayed: Any
    is_bag: bool

    @property
    def key(self) -> str:
        """Dask's name of the block."""
        return f"dask {self.delayed.key}"

    def __call__(self) -> Any:
        import dask

        (block,) = dask.compute(self.delayed, scheduler="synchronous")
        return stacked(block) if self.is_bag else block


def stacked(records: Iterable[Any]) -> Any:
    """Stack the records of a bag's partition into one tree of arrays."""
    known = list(records)
    if not known:
        raise ArgumentError(
            "a partition of the bag is empty. Make fewer partitions by bag.repartition."
        )
    return pytrees.map(lambda *leaves: np.stack(leaves), *known)

"""Chunks as users pass them, and ``slices``, which makes chunks of large arrays.

A chunk is a pytree of arrays in memory, or data that the worker loads: by a function without
arguments, from a file, from rows of an array in a file, or from a block of a Dask collection.

>>> [chunk.shape for chunk in slices(np.zeros((5, 2)), 2)]
[(2, 2), (2, 2), (1, 2)]
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import DTYPES
from funcgrad._core.trace import TracedValue, Value, concrete
from funcgrad._core.users_values import operand
from funcgrad.errors import ArgumentError, DeviceError, LeafError, ShapeError, TracerError
from funcgrad.parallel.sources import BlockLoader, ChunkSource, file_source, row_loader, source_of


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """A chunk in the caller's memory: raw values, and whether they come from tensors."""

    leaves: tuple[Value, ...]
    structure: Structure
    constant: bool


@dataclass(frozen=True, slots=True)
class RemoteChunk:
    """A block of a Dask collection that workers hold or are computing."""

    delayed: object
    is_bag: bool


Chunk: TypeAlias = "HeldChunk | RemoteChunk | ChunkSource"


def raw_leaves(
    operation: str, tree: object, residents: bool = False
) -> tuple[list[Value], Structure]:
    """Flatten data; arrays become contiguous, because strides change the last bits of products.

    If ``residents``, leaves may be on a device.

    Raises
    ------
    LeafError, DtypeError
        A leaf is not an array.
    TracerError
        A leaf is traced by a transformation.
    DeviceError
        A leaf is on a device.
    """
    leaves, structure = pytrees.flatten(tree)
    return [_raw(operation, leaf, residents) for leaf in leaves], structure


def _raw(operation: str, leaf: object, residents: bool) -> Value:
    is_array = type(leaf) is np.ndarray and leaf.dtype in DTYPES
    value = leaf if is_array else concrete(operand(leaf, operation))
    if isinstance(value, TracedValue):
        if value._trace.is_remote:
            if residents:
                return value
            raise DeviceError(
                f"{operation}: an argument is on {value._trace.title}, and workers of an executor"
                " compute on the host. Pass devices instead of the executor, or copy the argument"
                " with fg.get."
            )
        raise TracerError(
            f"{operation}: an argument is traced by a transformation around the call, but workers"
            " need its values. Apply the transformation inside: the loss may contain any"
            " transformations."
        )
    if isinstance(value, np.ndarray) and value.ndim:  # NumPy would turn a 0-d array into a 1-d one
        return np.ascontiguousarray(value)
    return value


def digest_of(arrays: Sequence[Value]) -> str:
    """Return a name for values, from their content."""
    digest = blake2b(digest_size=16)
    for value in arrays:
        array = np.asarray(value)  # a Python number differs from its array
        digest.update(f"{type(value).__name__}{array.dtype.str}{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


# ------------------------------------------------------------------------------- chunks of users


def chunk_list(
    operation: str, chunks: object, shipped: bool, residents: bool = False
) -> list[Chunk]:
    """Read the argument ``chunks``; functions are pickled for workers in other processes.

    Raises
    ------
    ArgumentError
        ``chunks`` is empty or not a sequence of chunks, or a function cannot be sent.
    LeafError
        A chunk is of an unknown kind.
    """
    if hasattr(chunks, "__dask_graph__"):
        return _blocks(operation, chunks, shipped)
    if isinstance(chunks, (str, os.PathLike, dict, np.ndarray, TracedValue)) or not isinstance(
        chunks, Iterable
    ):
        raise ArgumentError(
            f"{operation}: chunks has to be a list of chunks, a Dask array or a Dask bag, got"
            f" {type(chunks).__name__}. Cut large arrays into chunks: fg.parallel.slices(data,"
            " 1000)."
        )
    known = [
        _chunk(operation, chunk, number, shipped, residents)
        for number, chunk in enumerate(list(chunks))
    ]
    if not known:
        raise ArgumentError(f"{operation}: chunks is empty, so there is nothing to compute.")
    return known


def _chunk(operation: str, chunk: object, number: int, shipped: bool, residents: bool) -> Chunk:
    place = f"{operation}: chunks[{number}]"
    if isinstance(chunk, (str, os.PathLike)):
        return file_source(os.fspath(chunk), place, shipped)
    if callable(chunk) and not isinstance(chunk, TracedValue):
        return source_of(chunk, place, shipped)
    try:
        leaves, structure = raw_leaves(operation, chunk, residents)
    except LeafError as error:
        raise LeafError(
            f"{place}: {str(error).removeprefix(operation + ': ')} A chunk is a pytree of arrays,"
            " the path of a file, or a function without arguments that loads them."
        ) from None
    pairs = zip(pytrees.leaves(chunk), leaves, strict=True)
    constant = all(isinstance(leaf, TracedValue) and concrete(leaf) is raw for leaf, raw in pairs)
    return HeldChunk(tuple(leaves), structure, constant)


def _blocks(operation: str, collection: Any, shipped: bool) -> list[Chunk]:
    """Return the blocks of a Dask array along its first axis, or the partitions of a bag."""
    is_bag = not hasattr(collection, "ndim")
    if not is_bag:
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    blocks = list(np.ravel(np.array(collection.to_delayed(), dtype=object)))
    if find_spec("distributed") is not None:
        from distributed.client import futures_of

        if futures_of(collection):
            return [RemoteChunk(block, is_bag) for block in blocks]
    return [source_of(BlockLoader(block, is_bag), operation, shipped) for block in blocks]


# ------------------------------------------------------------------------------- slices of arrays


def slices(data: Any, size: SupportsIndex) -> list[Any]:
    """Cut arrays into chunks of rows.

    Chunks of NumPy arrays are views; rows of HDF5 and zarr arrays are read by the workers.

    Parameters
    ----------
    data : pytree of arrays
        Arrays with the same number of rows (first axis). An HDF5 dataset of ``h5py`` is opened
        again by each worker, by the name of its file; a zarr array is sent by the name of its
        store. Both may be larger than memory.
    size : int
        The number of rows of a chunk. The last chunk has the remaining rows.

    Returns
    -------
    list
        The chunks: trees of arrays, or functions that read them.

    Raises
    ------
    ArgumentError
        The size is not positive.
    LeafError
        A leaf of the data is not an array.
    ShapeError
        The arrays have different numbers of rows, or an array has no axis.

    Examples
    --------
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> data = {"x": np.arange(6.0).reshape(3, 2), "y": np.arange(3.0)}
    >>> fg.parallel.slices(data, 2)[1]
    {'x': array([[4., 5.]]), 'y': array([2.])}
    """
    try:
        step = index(size)
    except TypeError:
        step = 0
    if step < 1:
        raise ArgumentError(f"slices: size has to be an integer >= 1, got {size!r:.60}.")
    leaves, structure = pytrees.flatten(data)
    for leaf in leaves:
        if not isinstance(getattr(leaf, "shape", None), tuple):
            raise LeafError(
                f"slices: expected arrays with rows, got {type(leaf).__name__}. Convert lists by"
                " np.asarray."
            )
    shapes = [leaf.shape for leaf in leaves]
    lengths = {shape[0] if shape else None for shape in shapes}
    if len(lengths) != 1 or None in lengths:
        raise ShapeError(
            f"slices: the arrays need equal numbers of rows, but have the shapes {shapes}."
        )
    length = shapes[0][0]
    bounds = [(start, min(start + step, length)) for start in range(0, length, step)]
    if not all(isinstance(leaf, (np.ndarray, TracedValue)) for leaf in leaves):
        return [row_loader(structure, leaves, start, stop) for start, stop in bounds]
    return [
        pytrees.unflatten(structure, [leaf[start:stop] for leaf in leaves])
        for start, stop in bounds
    ]

"""Chunks as users pass them, and ``slices``, which makes chunks of large arrays.

A chunk is a pytree of arrays in memory, or something that the worker loads: a function without
arguments, a file, rows of an array in a file, or a block of a Dask collection.

>>> [chunk.shape for chunk in slices(np.zeros((5, 2)), 2)]
[(2, 2), (2, 2), (1, 2)]
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from importlib.util import find_spec
from operator import index
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from funcgrad import trees
from funcgrad.errors import ArgumentError, LeafError, ShapeError, TracerError
from funcgrad.parallel.sources import (
    BlockSource,
    CallableSource,
    ChunkSource,
    Hdf5Place,
    PickledSource,
    RowSource,
    SlicedPlace,
    file_source,
)
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import DTYPES
from funcgrad.trace import TracedValue, Value, concrete
from funcgrad.trees import Structure
from funcgrad.users_values import operand


@dataclass(frozen=True, slots=True)
class HeldChunk:
    """A chunk in the caller's memory.

    Attributes
    ----------
    leaves : tuple
        Raw values.
    structure : Structure
    constant : bool
        Whether nobody can write to them.
    """

    leaves: tuple[Any, ...]
    structure: Structure
    constant: bool


@dataclass(frozen=True, slots=True)
class RemoteChunk:
    """A block of a Dask collection that the workers hold, or are computing."""

    delayed: Any
    is_bag: bool


Chunk: TypeAlias = "HeldChunk | RemoteChunk | ChunkSource"


def raw_leaves(operation: str, tree: Any) -> tuple[list[Value], Structure]:
    """Flatten data; arrays become contiguous, since products of others have other last bits.

    Raises
    ------
    LeafError, DtypeError
        A leaf is no array.
    TracerError
        A leaf is followed by a transformation.
    """
    leaves, structure = trees.flatten(tree)
    return [_raw(operation, leaf) for leaf in leaves], structure


def _raw(operation: str, leaf: Any) -> Value:
    if type(leaf) is np.ndarray and leaf.dtype in DTYPES:
        return np.ascontiguousarray(leaf) if leaf.ndim else leaf  # which makes one axis of none
    value = concrete(operand(leaf, operation))
    if isinstance(value, TracedValue):
        raise TracerError(
            f"{operation}: an argument is followed by a transformation around the call, and workers"
            " need its numbers. Take the derivative inside: what is passed as the loss may be any"
            " function of transformations."
        )
    return np.ascontiguousarray(value) if isinstance(value, np.ndarray) and value.ndim else value


# ------------------------------------------------------------------------------- what users pass


def chunk_list(operation: str, chunks: Any, shipped: bool) -> list[Chunk]:
    """Read the argument ``chunks``.

    Parameters
    ----------
    operation : str
    chunks : object
        What the user passed.
    shipped : bool
        Whether workers are other processes, so that functions have to be pickled.

    Raises
    ------
    ArgumentError
        It is empty, or no sequence of chunks; a function cannot be sent.
    LeafError
        A chunk is none of the kinds.
    """
    if hasattr(chunks, "__dask_graph__"):
        return _blocks(chunks, shipped)
    if isinstance(chunks, (str, os.PathLike, dict, np.ndarray, TracedValue)) or not isinstance(
        chunks, Iterable
    ):
        raise ArgumentError(
            f"{operation}: chunks has to be a list of chunks, a Dask array or a Dask bag, got"
            f" {type(chunks).__name__}. Cut large arrays into chunks: fg.parallel.slices(data,"
            " 1000)."
        )
    known = [_chunk(operation, chunk, number, shipped) for number, chunk in enumerate(list(chunks))]
    if not known:
        raise ArgumentError(f"{operation}: chunks is empty, and there is nothing to compute.")
    return known


def _chunk(operation: str, chunk: Any, number: int, shipped: bool) -> Chunk:
    place = f"{operation}: chunks[{number}]"
    if isinstance(chunk, (str, os.PathLike)):
        return file_source(os.fspath(chunk), place)
    if callable(chunk) and not isinstance(chunk, TracedValue):
        return _function_source(chunk, place, shipped)
    try:
        leaves, structure = raw_leaves(operation, chunk)
    except LeafError as error:
        raise LeafError(
            f"{place}: {str(error).removeprefix(operation + ': ')} A chunk is a pytree of arrays,"
            " the path of a file, or a function without arguments that loads them."
        ) from None
    constant = all(not isinstance(leaf, np.ndarray) for leaf in trees.leaves(chunk))
    return HeldChunk(tuple(leaves), structure, constant)


def _function_source(function: Any, place: str, shipped: bool) -> ChunkSource:
    key = getattr(function, "key", None)
    if not shipped:
        return CallableSource(function, str(key or f"{type(function).__name__} {id(function)}"))
    try:
        pickled = dumps(function)
    except Exception as error:  # whatever a user's object raises
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ArgumentError(
            f"{place}: the function {name} cannot be sent to a worker: {error}. Have it open files"
            " and connections itself, by names that it closes over."
        ) from error
    return PickledSource(pickled, str(key or blake2b(pickled, digest_size=16).hexdigest()))


def dumps(value: Any) -> bytes:
    """Pickle a value; functions that cannot be imported by value, if cloudpickle is there."""
    if find_spec("cloudpickle") is None:
        return pickle.dumps(value)
    import cloudpickle

    return cloudpickle.dumps(value)


def _blocks(collection: Any, shipped: bool) -> list[Chunk]:
    """The blocks of a Dask array along its first axis, or the partitions of a bag."""
    is_bag = not hasattr(collection, "ndim")
    if not is_bag:
        collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
    blocks = list(np.ravel(np.array(collection.to_delayed(), dtype=object)))
    if find_spec("distributed") is not None:
        from distributed.client import futures_of

        if futures_of(collection):
            return [RemoteChunk(block, is_bag) for block in blocks]
    sources: list[Chunk] = []
    for block in blocks:
        source = BlockSource(block, is_bag)
        key = f"dask {block.key}"
        sources.append(
            PickledSource(dumps(source), key) if shipped else CallableSource(source, key)
        )
    return sources


# ------------------------------------------------------------------------------- slices of arrays


def slices(data: Any, size: SupportsIndex) -> list[Any]:
    """Cut arrays into chunks of rows, which share memory with them, or are read by the workers.

    Parameters
    ----------
    data : pytree of arrays
        With one number of rows, along their first axes. An HDF5 dataset of ``h5py`` is opened again
        by each worker, by the name of its file; an array of zarr is sent by the name of its store.
        Both may be larger than memory.
    size : int
        How many rows a chunk has. The last chunk has what is left.

    Returns
    -------
    list
        Chunks: trees of arrays, or functions that read them.

    Raises
    ------
    ArgumentError
        The size is not positive.
    LeafError
        A leaf of the data is no array.
    ShapeError
        The arrays have different numbers of rows, or one has no axis.

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
        raise ArgumentError(f"slices: size has to be an integer from 1 on, got {size!r:.60}.")
    leaves, structure = trees.flatten(data)
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
            f"slices: the arrays have to have one number of rows, and have the shapes {shapes}."
        )
    (length,) = lengths
    in_memory = all(isinstance(leaf, (np.ndarray, TracedValue)) for leaf in leaves)
    places = () if in_memory else tuple([_place(leaf) for leaf in leaves])
    return [
        trees.unflatten(structure, [leaf[start : start + step] for leaf in leaves])
        if in_memory
        else RowSource(structure, places, start, min(start + step, length or 0))
        for start in range(0, length or 0, step)
    ]


def _place(leaf: Any) -> Hdf5Place | SlicedPlace:
    if type(leaf).__module__.partition(".")[0] == "h5py":
        return Hdf5Place(os.path.abspath(leaf.file.filename), leaf.name)
    return SlicedPlace(leaf)


def run_key(keys: Sequence[str]) -> str:
    """Name the chunks that are worked on together, by the digest of their keys."""
    return blake2b("\n".join(keys).encode(), digest_size=16).hexdigest()

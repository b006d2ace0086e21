"""Write a tree to a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from funcgrad._backends.devices.placement import get
from funcgrad._backends.devices.resident import Resident
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import TracedValue, Value
from funcgrad._transforms.arguments import values_of
from funcgrad.errors import ArgumentError, DtypeError, TracerError
from funcgrad.io.atomic_files import checked_path, replacing
from funcgrad.io.digests import text_digest
from funcgrad.io.matching import named_leaves
from funcgrad.io.npz_files import write_npz
from funcgrad.io.safetensors_files import write_safetensors
from funcgrad.io.stored_tensors import RESERVED, TREE, Array, stored
from funcgrad.io.tree_texts import tree_text

PathLike: TypeAlias = str | os.PathLike[str]
TEXTS_DIGEST = RESERVED + "texts"
"""The key of the digest of all other texts of the metadata."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content to write: arrays that never change, and texts."""

    arrays: Mapping[str, Array]
    texts: Mapping[str, str]


def save(path: PathLike, tree: object, metadata: Mapping[str, str] | None = None) -> None:
    """Save a pytree of arrays and scalars to a file.

    The format is safetensors, which PyTorch and others read, or NumPy's for the suffix ``.npz``.
    Tensors are named by their paths, such as ``layers.0.weight``. An existing file is replaced
    atomically, once the new one is completely on the disk.

    Parameters
    ----------
    path : str or path
        The file. Its folder must exist.
    tree : pytree
        Containers of tensors, arrays and Python numbers. A dict's key with dots, such as
        ``"layers.0"``, is used unchanged. Static fields of dataclasses are stored as texts, which
        `load` compares.
    metadata : mapping from str to str, optional
        Texts to store with the tree; `describe` returns them. Keys that begin with ``funcgrad.``
        are reserved. Some libraries need ``{"format": "pt"}``.

    Raises
    ------
    LeafError
        A leaf is not an array or a number, or two leaves would have one name.
    TracerError
        A leaf is traced.
    StorageError
        The file cannot be written. An older file of this name is unchanged.

    Notes
    -----
    The format lacks complex128, which is stored as float64 with a last axis of 2. Each tensor has a
    BLAKE2 digest in the metadata, which `load` and `verify` compare.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from funcgrad import io
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> io.save(path, {"layers": [{"weight": np.ones((2, 3)), "bias": np.zeros(2)}], "step": 7})
    >>> print(io.describe(path))
    layers.0.bias    float64[2]
    layers.0.weight  float64[2,3]
    step             int64[]
    >>> io.load(path)["step"]
    7
    """
    place = checked_path(path, "save")
    write_snapshot(place, snapshot(tree, {} if metadata is None else metadata, "save"), "save")


def snapshot(tree: object, metadata: Mapping[str, str], operation: str) -> Snapshot:
    """Convert a tree to arrays that never change: NumPy arrays are copied, tensors are not."""
    names, leaves, structure = named_leaves(tree, operation)
    leaves = [_in_native_order(leaf) for leaf in leaves]
    values = [_on_host(x) for x in values_of(operation, leaves, structure, lambda: "tree")]
    for name, value in zip(names, values, strict=True):
        if isinstance(value, TracedValue):
            raise TracerError(
                f"{operation}: {name!r} is traced, so its value is not known yet. Return it from"
                " the function that is transformed or jitted, and save the result."
            )
    pairs = [stored(value) for value in values]
    if not isinstance(metadata, Mapping):
        raise DtypeError(
            f"{operation}: metadata has to be a dict of strings, got {type(metadata).__name__}."
        )
    for key, text in metadata.items():
        if type(key) is not str or type(text) is not str:
            raise DtypeError(
                f"{operation}: metadata maps strings to strings, got {key!r}: {text!r:.60}. Write"
                " str(...) or json.dumps(...) around it."
            )
        try:
            f"{key}{text}".encode()
        except UnicodeEncodeError as error:
            raise DtypeError(
                f"{operation}: metadata: {key!r} cannot be written to a file: {error}."
            ) from None
        if key.startswith(RESERVED):
            raise ArgumentError(
                f"{operation}: metadata: {RESERVED}... is reserved: rename {key!r}."
            )
    kinds = [(name, kind) for name, (_, kind) in zip(names, pairs, strict=True)]
    texts = {**metadata, TREE: tree_text(structure, kinds)}
    arrays = {name: array for name, (array, _) in zip(names, pairs, strict=True)}
    return Snapshot(arrays, {**texts, TEXTS_DIGEST: digest_of_texts(texts)})


def _on_host(value: Value) -> Value:
    return get(value)._value if type(value) is Resident else value


def _in_native_order(leaf: object) -> object:
    if isinstance(leaf, np.ndarray) and not leaf.dtype.isnative:
        return leaf.astype(leaf.dtype.newbyteorder("="))
    return leaf


def digest_of_texts(texts: Mapping[str, str]) -> str:
    """Hash the texts of a file's metadata."""
    return text_digest(repr(sorted(texts.items())))


def write_snapshot(path: Path, content: Snapshot, operation: str) -> None:
    """Write arrays and texts to a file, which appears when it is complete."""
    write = write_npz if path.suffix == ".npz" else write_safetensors
    with replacing(path, operation) as file:
        write(file, content.arrays, content.texts)

"""Match the leaves of a tree with the tensors of a file, and describe differences.

>>> file = {"head.weight": StoredTensor("head.weight", "float32", (3, 2))}
>>> print(compare(file, {}, {"heads": {"weight": np.zeros((3, 2))}}))
missing in the file (1): heads.weight (near it: head.weight)
unexpected in the file (1): head.weight
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure, flatten, key_path_text
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.trace import NUMBERS
from funcgrad._core.users_values import in_native_order
from funcgrad.errors import FileFormatError, LeafError
from funcgrad.io.stored_tensors import StoredTensor, logical
from funcgrad.io.tree_texts import statics_of
from funcgrad.tree.path_texts import path_text

ROOT: Final = "value"
"""The name of the tensor if a tree is a single leaf."""

_SHOWN: Final = 30


@dataclass(frozen=True, slots=True)
class Differences:
    """The differences between a file and a tree; false if they agree. It prints like the error.

    Attributes
    ----------
    missing : tuple of str
        Paths of the tree that the file does not have.
    unexpected : tuple of str
        Names in the file that the tree does not have.
    different : mapping from str to str
        Paths whose shapes, dtypes or static fields differ, with a description of both sides.
    """

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    different: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different)

    def __str__(self) -> str:
        missing = [name + self._nearest(name) for name in self.missing[:_SHOWN]]
        different = [f"{name}: {text}" for name, text in self.different.items()]
        lines = [
            _line("missing in the file", len(self.missing), missing, ", "),
            _line("unexpected in the file", len(self.unexpected), self.unexpected, ", "),
            _line("different", len(different), different, "; "),
        ]
        return "\n".join(line for line in lines if line) or "no differences"

    def _nearest(self, name: str) -> str:
        nearest = get_close_matches(name, self.unexpected, 1, 0.5)
        return f" (near it: {nearest[0]})" if nearest else ""


def _line(title: str, count: int, texts: Sequence[str], separator: str) -> str:
    more = f"{separator}and {count - _SHOWN} more" if count > _SHOWN else ""
    return f"{title} ({count}): {separator.join(texts[:_SHOWN])}{more}" if count else ""


def named_leaves(tree: object, operation: str) -> tuple[list[str], list[Any], Structure]:
    """Flatten a tree, and name its leaves by their paths; a `Spec` is a leaf, too.

    Raises
    ------
    LeafError
        Two leaves would have one name, or a name is not allowed.
    """
    leaves, structure = flatten(tree, is_leaf=lambda value: isinstance(value, Spec))
    leaves = [in_native_order(x) if isinstance(x, np.ndarray) else x for x in leaves]
    paths = structure.key_paths()
    names = [path_text(path) or ROOT for path in paths]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        places = [path for path, other in zip(paths, names, strict=True) if other == name]
        first, second, *_ = (key_path_text(path, "tree") for path in places)
        raise LeafError(
            f"{operation}: {first} and {second} would both be called {name!r} in the file. Rename a"
            " key: a dot in it reads as a step of a path, and the number 1 as the text '1'."
        )
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise LeafError(
                f"{operation}: the name {name!r} cannot be written to a file, since it has half"
                " of a character (a lone surrogate). Rename that key."
            ) from None
    if "__metadata__" in names:
        raise LeafError(
            f"{operation}: the format keeps the name '__metadata__' for itself: rename that key, or"
            " give texts as metadata=."
        )
    return names, leaves, structure


def compare(
    tensors: Mapping[str, StoredTensor],
    kinds: Mapping[str, str],
    like: object,
    statics: Mapping[str, str] | None = None,
) -> Differences:
    """Compare the tensors of a file, and any static fields, with a tree."""
    names, leaves, structure = named_leaves(like, "load")
    different = {}
    for name, leaf in zip(names, leaves, strict=True):
        kind = kinds.get(name, "")
        if name in tensors and not fits(logical_like(tensors[name], kind, leaf), leaf):
            shown = logical(tensors[name], kind)
            different[name] = f"{shown} in the file, {_described(leaf)} in like"
    if statics is not None:
        ours = statics_of(structure)
        for name in sorted(ours.keys() & statics.keys()):
            if ours[name] != statics[name]:
                different[name] = f"static {statics[name]} in the file, {ours[name]} in like"
    known = set(names)
    return Differences(
        tuple(name for name in names if name not in tensors),
        tuple(name for name in tensors if name not in known),
        different,
    )


def logical_like(tensor: StoredTensor, kind: str, leaf: object) -> StoredTensor:
    """Describe a tensor as complex if the file says so, or else if the leaf is complex."""
    silent = not kind and dtype_of(leaf) == np.complex128 and tensor.shape == (*shape_of(leaf), 2)
    return logical(tensor, "complex128" if silent else kind)


def fits(tensor: StoredTensor, leaf: object) -> bool:
    """Whether a tensor has a leaf's shape and dtype, or the kind of a Python number."""
    if tensor.shape != shape_of(leaf):
        return False
    dtype = readable_dtype(tensor)
    if dtype is not None and type(leaf) in NUMBERS:
        return np.can_cast(dtype, dtype_of(leaf), "same_kind")
    return dtype == dtype_of(leaf)


def readable_dtype(tensor: StoredTensor) -> np.dtype[Any] | None:
    """The dtype as which a tensor is read; None if it cannot be read."""
    try:
        return np.dtype("float32" if tensor.dtype == "bfloat16" else tensor.dtype)
    except TypeError:
        return None


def _described(leaf: object) -> str:
    if type(leaf) in NUMBERS:
        return f"a Python {type(leaf).__name__}"
    return str(Spec(shape_of(leaf), dtype_of(leaf)))


def check_kinds(leaves: Sequence[tuple[str, str]], tensors: Mapping[str, StoredTensor]) -> None:
    """Check that a file has the leaves named in its description of the tree.

    Raises
    ------
    FileFormatError
        Names differ.
    """
    names = [name for name, _ in leaves]
    wrong = sorted(set(names) ^ tensors.keys())
    if wrong or len(set(names)) < len(names):
        raise FileFormatError(f"the tree and the tensors have different names: {wrong[:3]}")

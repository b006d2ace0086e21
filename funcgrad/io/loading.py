"""Load a tree from a file, describe the file, or verify it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, TypeVar, overload

import numpy as np

from funcgrad._backends.devices.placement import DeviceLike, device_of
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.users_line import warn_user
from funcgrad._core import pytrees as trees
from funcgrad._core.pytrees import Structure, unflatten
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import NUMBERS
from funcgrad._core.users_values import converted
from funcgrad.errors import ArgumentError, FileFormatError, TreeError
from funcgrad.io.atomic_files import checked_path, reading
from funcgrad.io.digests import Digests
from funcgrad.io.matching import (
    Differences,
    check_kinds,
    compare,
    fits,
    logical_like,
    named_leaves,
    readable_dtype,
)
from funcgrad.io.npz_files import NpzFile
from funcgrad.io.safetensors_files import SafetensorsFile
from funcgrad.io.saving import TEXTS_DIGEST, PathLike, digest_of_texts
from funcgrad.io.stored_tensors import (
    DIGESTS,
    RESERVED,
    TREE,
    Array,
    StoredTensor,
    logical,
    refused,
    restored,
)
from funcgrad.io.tree_texts import Leaves, read_statics, read_tree_text


@dataclass(frozen=True, slots=True)
class FileDescription:
    """The content of a file without the elements of its tensors; it prints as a table.

    Attributes
    ----------
    tensors : mapping from str to StoredTensor
        The ``dtype`` and ``shape`` of each tensor, by its path.
    metadata : mapping from str to str
        The texts that were given to `save`, or that another library wrote.
    statics : mapping from str to str
        Static fields of the tree by their paths, as texts.
    nbytes : int
        The size of all tensors in bytes.
    """

    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]
    statics: Mapping[str, str]
    nbytes: int

    def __str__(self) -> str:
        width = max(map(len, self.tensors), default=0)
        return "\n".join(f"{name:{width}}  {tensor}" for name, tensor in self.tensors.items())


class _Content:
    """An open file with the metadata that funcgrad wrote, if any."""

    def __init__(self, file: SafetensorsFile | NpzFile, path: Path, operation: str) -> None:
        self.file, self._path, self._operation = file, path, operation
        texts = file.metadata
        self.tree: tuple[Structure, Leaves] | None = None
        self.statics: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        if any(key.startswith(RESERVED) for key in texts):
            self._read_texts(texts)
        self.kinds: dict[str, str] = dict(self.tree[1]) if self.tree else {}

    def _read_texts(self, texts: Mapping[str, str]) -> None:
        """Read the structure of the tree and the digests, and check that they are unchanged."""
        others = {key: text for key, text in texts.items() if key not in (DIGESTS, TEXTS_DIGEST)}
        if texts.get(TEXTS_DIGEST) != digest_of_texts(others):
            raise self.damaged("the BLAKE2 digest of its metadata has changed")
        try:
            self.digests = dict(json.loads(texts[DIGESTS]))
            self.tree = read_tree_text(texts[TREE])
            self.statics = read_statics(texts[TREE])
            check_kinds(self.tree[1], self.file.tensors)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self.damaged(f"the description of its tree is wrong: {error}") from None

    def damaged(self, reason: str) -> FileFormatError:
        return refused(self._path, self._operation, b"", reason)

    def read(self, names: Iterable[str]) -> dict[str, Array]:
        """Read tensors, and compare their digests with the digests in the file.

        Raises
        ------
        FileFormatError
            Tensors are damaged; the message has their names.
        """
        arrays = {}
        with Digests() as digests:
            for name in names:
                array = arrays[name] = self.file.read(name)
                if name in self.digests:
                    digests.add(name, array.astype(array.dtype.newbyteorder("<"), copy=False))
            damaged = [name for name, text in digests.all().items() if text != self.digests[name]]
        unknown = self.tree is not None and arrays.keys() - self.digests.keys()
        if damaged or unknown:
            names = ", ".join([*damaged, *(unknown or ())][:10])
            raise self.damaged(f"the elements of {names} have changed (BLAKE2 differs)")
        return arrays


@contextmanager
def _opened(path: PathLike, operation: str) -> Iterator[_Content]:
    place = checked_path(path, operation)
    with reading(place, operation) as file:
        kind = NpzFile if place.suffix == ".npz" else SafetensorsFile
        yield _Content(kind(file, place, operation), place, operation)


Layout: TypeAlias = Literal["funcgrad", "torch"] | None
Tree = TypeVar("Tree")


@overload
def load(
    path: PathLike,
    like: None = None,
    strict: bool = True,
    layout: Layout = None,
    device: DeviceLike | None = None,
) -> Any: ...
@overload
def load(
    path: PathLike,
    like: Tree,
    strict: bool = True,
    layout: Layout = None,
    device: DeviceLike | None = None,
) -> Tree: ...
def load(
    path: PathLike,
    like: object = None,
    strict: bool = True,
    layout: Layout = None,
    device: DeviceLike | None = None,
) -> Any:
    """Load a tree from a file that `save` or another library wrote.

    Parameters
    ----------
    path : str or path
        A file in the format safetensors, or an archive ``.npz``.
    like : pytree, optional
        A tree with the structure of the result, such as a freshly initialized model or state of an
        optimizer. Leaves are matched by their paths; only their shapes and dtypes matter. Static
        fields are taken from ``like``.
    strict : bool, optional
        Whether any difference is an error. If not, leaves of ``like`` that are missing in the file
        or have another shape there keep their values. Where the dtype differs within its kind,
        elements are converted, if they are in range. Names that only the file has are ignored.
        `differences` lists all of these.
    layout : {"funcgrad", "torch"}, optional
        The library whose layout a file of weights has. PyTorch's matrices are the transpose of
        ours: with "torch", ``like`` is a model, which is filled by ``nn.from_torch``. Files of
        funcgrad are recognized.
    device : Device, str or DeviceBackend, optional
        The device to put the tensors on; by default the host. See ``fg.put``.

    Returns
    -------
    pytree
        Tensors, and Python numbers where they were saved, or where ``like`` has them. Without
        ``like``, tuples, lists and dicts are restored, and dataclasses and named tuples become
        dicts of their fields. A file of another library gives a flat dict from names to tensors.

    Raises
    ------
    TreeError
        The file differs from ``like``: one message names all missing, unexpected and different
        paths, with the nearest names.
    RangeError
        An element of the file is out of the range of a leaf's dtype.
    FileFormatError
        The file is truncated, damaged or of another format; the message names damaged tensors.
    MissingFileError, StorageError
        The file does not exist, or cannot be read.
    ArgumentError
        The layout is unknown, or it is "torch" and ``like`` is missing.
    DeviceError
        The device does not exist.

    Warns
    -----
    UserWarning
        Another library wrote the file, and it contains square weight matrices. PyTorch stores such
        matrices transposed, which their shape does not show: pass ``layout``.

    Notes
    -----
    No part of a file is ever executed. Bfloat16 is read as float32, without loss.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from funcgrad import io
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> io.save(path, {"weights": np.ones(2), "bias": 0.5})
    >>> io.load(path)
    {'bias': 0.5, 'weights': Tensor([1., 1.])}
    >>> io.load(path, like={"weight": np.ones(2), "bias": 1})
    Traceback (most recent call last):
        ...
    funcgrad.errors.TreeError: load: '...' does not fit like=.
    missing in the file (1): weight (near it: weights)
    unexpected in the file (1): weights
    different (1): bias: float64[] in the file, a Python int in like
    Correct like=, or load the leaves that fit with strict=False.
    """
    is_known = layout is None or (isinstance(layout, str) and layout in ("funcgrad", "torch"))
    if not is_known or (layout == "torch" and like is None):
        raise ArgumentError(
            f"load: layout is 'torch', with a model as like=, or 'funcgrad', got {layout!r} and"
            f" like={like!r:.60}."
        )
    place = None if device is None else device_of(device, "load").place_array
    tree = _load(path, like, strict, layout)
    return tree if place is None else trees.map(place, tree)


def _load(path: PathLike, like: object, strict: bool, layout: Layout) -> Any:
    with _opened(path, "load") as content:
        if layout == "torch":
            from funcgrad.nn.torch_layouts import loaded

            return loaded("load", content.read(content.file.tensors), like, None, strict)
        if like is None:
            return _as_saved(content)
        if layout is None and content.tree is None:
            _warn_of_turned_squares(content, like)
        unlike = _differences(content, like)
        if strict and unlike:
            raise TreeError(
                f"load: {str(path)!r} does not fit like=.\n{unlike}\nCorrect like=, or"
                " load the leaves that fit with strict=False."
                f"{'' if content.tree else _OF_TORCH}"
            )
        names, leaves, structure = named_leaves(like, "load")
        usable = {
            name: leaf
            for name, leaf in zip(names, leaves, strict=True)
            if name in content.file.tensors and _is_usable(content, name, leaf)
        }
        arrays = content.read(usable)
        values = {name: _leaf(content, arrays, name, leaf) for name, leaf in usable.items()}
        pairs = zip(names, leaves, strict=True)
        return unflatten(structure, [values.get(name, leaf) for name, leaf in pairs])


_OF_TORCH: Final = " A file of PyTorch's weights is loaded with layout='torch'."


def _warn_of_turned_squares(content: _Content, like: object) -> None:
    """Warn if it is unknown whether square matrices have to be transposed."""
    from funcgrad.nn.torch_layouts import turned_squares

    names = [name for name in turned_squares(like) if name in content.file.tensors]
    if names:
        warn_user(
            f"load: {', '.join(names[:3])}{', ...' * (len(names) > 3)} are square, in a file of"
            " another library: PyTorch has these matrices transposed. Write layout='torch' for a"
            " file of PyTorch, layout='funcgrad' if the matrices are for x @ weight.",
            UserWarning,
        )


def _as_saved(content: _Content) -> Any:
    arrays = content.read(content.file.tensors)
    if content.tree is None:
        return {name: restored(array, "") for name, array in arrays.items()}
    structure, leaves = content.tree
    return unflatten(structure, [restored(arrays[name], kind) for name, kind in leaves])


def _is_usable(content: _Content, name: str, leaf: object) -> bool:
    """Whether a tensor fits a leaf after conversion within the kind of its dtype."""
    tensor = logical_like(content.file.tensors[name], content.kinds.get(name, ""), leaf)
    dtype = readable_dtype(tensor)
    if fits(tensor, leaf):
        return True
    is_same = tensor.shape == shape_of(leaf)
    return is_same and dtype is not None and np.can_cast(dtype, dtype_of(leaf), "same_kind")


def _leaf(content: _Content, arrays: Mapping[str, Array], name: str, leaf: object) -> Any:
    kind = content.kinds.get(name, "")
    tensor = logical_like(content.file.tensors[name], kind, leaf)
    array = arrays[name]
    if tensor.dtype == "complex128" and array.dtype == np.float64:
        array = array.reshape(-1).view(np.complex128).reshape(tensor.shape)
    if type(leaf) in NUMBERS:
        return restored(array, type(leaf).__name__)
    return restored(converted(array, dtype_of(leaf), f"load: {name!r}"), "")


def differences(path: PathLike, like: object) -> Differences:
    """List the differences between a file and a tree, as in the error of `load`.

    Parameters
    ----------
    path : str or path
    like : pytree

    Returns
    -------
    Differences
        False if file and tree agree. ``missing`` and ``unexpected`` are tuples of paths,
        ``different`` maps paths to descriptions of both sides.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from funcgrad import io
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> io.save(path, {"weight": np.ones(2)})
    >>> io.differences(path, like={"weight": np.ones(2), "bias": 1.0}).missing
    ('bias',)
    """
    with _opened(path, "differences") as content:
        return _differences(content, like)


def _differences(content: _Content, like: object) -> Differences:
    statics = content.statics if content.tree else None
    return compare(content.file.tensors, content.kinds, like, statics)


def describe(path: PathLike) -> FileDescription:
    """Describe a file without reading the elements of its tensors.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    FileDescription
        ``tensors`` maps paths to dtypes and shapes, ``metadata`` has the texts that were saved, and
        ``statics`` the static fields. ``print`` shows a table.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from funcgrad import io
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> io.save(path, {"rate": np.float32(0.1)}, metadata={"run": "first"})
    >>> io.describe(path).tensors["rate"].dtype, io.describe(path).metadata["run"]
    ('float32', 'first')
    """
    with _opened(path, "describe") as content:
        tensors = {
            name: logical(tensor, content.kinds.get(name, ""))
            for name, tensor in content.file.tensors.items()
        }
        names = [name for name, _ in content.tree[1]] if content.tree else list(tensors)
        texts = content.file.metadata
        return FileDescription(
            MappingProxyType({name: tensors[name] for name in names}),
            MappingProxyType({k: v for k, v in texts.items() if not k.startswith(RESERVED)}),
            MappingProxyType(content.statics),
            sum(map(_nbytes, tensors.values())),
        )


def _nbytes(tensor: StoredTensor) -> int:
    dtype = readable_dtype(tensor)
    width = 2 if tensor.dtype == "bfloat16" else 1 if dtype is None else dtype.itemsize
    return width * int(np.prod(tensor.shape, dtype=object))


def verify(path: PathLike) -> None:
    """Read a file, and compare its content with its digests.

    Parameters
    ----------
    path : str or path

    Raises
    ------
    FileFormatError
        The file is damaged; the message names each damaged tensor. Or it has no digests, since
        another library wrote it.
    MissingFileError, StorageError
        The file does not exist, or cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from funcgrad import io
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> io.save(path, {"weight": np.ones(2)})
    >>> io.verify(path)
    >>> damaged = path + ".copy"
    >>> io.save(damaged, {"weight": np.ones(2)})
    >>> with open(damaged, "r+b") as file:
    ...     _ = file.seek(-1, 2), file.write(b"!")
    >>> io.verify(damaged)
    Traceback (most recent call last):
        ...
    funcgrad.errors.FileFormatError: verify: '...' is damaged... weight have changed...
    """
    with _opened(path, "verify") as content:
        if content.tree is None:
            raise FileFormatError(
                f"verify: {str(path)!r} has no digests to compare: another library wrote it. Load"
                " it, and save it with fg.io.save."
            )
        content.read(content.file.tensors)

"""Convert between the NumPy arrays of users and the tensors of transformations.

Users pass arrays and get writable arrays. In between, differentiated values are traced tensors;
inside nested transformations they stay tensors until the outermost transformation has ended.

>>> import funcgrad as fg
>>> plain({"a": fg.tensor([1.0, 2.0]), "b": "text"})
{'a': array([1., 2.]), 'b': 'text'}
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.trace import Trace, Value
from funcgrad._transforms.stop import stop_gradient
from funcgrad.tensor.tensor import Tensor


def trace_of(x: object) -> Trace | None:
    """The transformation that follows a value; None if none does."""
    return x._trace if isinstance(x, Tensor) else None


def isbox(x: object) -> bool:
    """Whether a value is traced."""
    return trace_of(x) is not None


def getval(x: object) -> Any:
    """Return the array or scalar behind a traced value, without derivatives.

    >>> from funcgrad.compat.autograd import grad
    >>> grad(lambda x: x * getval(x))(3.0)
    np.float64(3.0)
    """
    return _plain(stop_gradient(x) if isinstance(x, Tensor) else x)


def holds_tensor(x: object) -> bool:
    """Whether an object is a tensor, or a list or tuple that contains one.

    >>> import funcgrad as fg
    >>> holds_tensor([1.0, (fg.tensor(2.0),)]), holds_tensor([1.0])
    (True, False)
    """
    if isinstance(x, (list, tuple)):
        return any(map(holds_tensor, x))
    return isinstance(x, Tensor)


def levels(tree: object) -> list[int]:
    """The levels of the transformations that follow the leaves of a tree."""
    traces = [trace_of(leaf) for leaf in pytrees.leaves(tree)]
    return [trace.level for trace in traces if trace is not None]


def plain(tree: object) -> Any:
    """Replace concrete tensors by writable arrays, and 0-d tensors by NumPy scalars."""
    return pytrees.map(_plain, tree)


def _plain(leaf: object) -> Any:
    if not isinstance(leaf, Tensor) or leaf._trace is not None:
        return leaf
    value = leaf._value
    if isinstance(value, np.ndarray):
        return value.copy() if value.ndim else value[()]
    return value


def differentiable(tree: object) -> Any:
    """Convert integer arrays, which autograd differentiates, to floating point."""

    def converted(leaf: object) -> object:
        is_whole = isinstance(leaf, np.ndarray | np.bool_) and not is_inexact(leaf.dtype)
        return np.asarray(leaf, dtype=np.float64) if is_whole else leaf

    return pytrees.map(converted, tree)


def like(tree: object, example: object, operation: str) -> Any:
    """Cast the leaves of a tree to the dtypes of an example, silently, as autograd does.

    Raises
    ------
    TreeError
        The trees differ.
    """
    examples, structure = pytrees.flatten(example)
    leaves = pytrees.flatten_like(structure, tree, operation)
    return pytrees.unflatten(structure, list(map(_cast, leaves, examples)))


def _cast(leaf: Any, example: Value) -> Any:
    dtype = dtype_of(example)
    if not is_inexact(dtype):
        return np.zeros(np.shape(example), dtype)
    if not isinstance(leaf, Tensor):
        leaf = np.asarray(leaf)
    if leaf.dtype == dtype:
        return leaf
    is_real_only = leaf.dtype.kind == "c" and dtype.kind != "c"
    return (leaf.real if is_real_only else leaf).astype(dtype)


def conjugated(tree: object) -> Any:
    """Conjugate the complex leaves: from funcgrad's convention to autograd's, and back.

    funcgrad's cotangents c use the real inner product Re(conj(c) t), autograd's use Re(c t).
    """
    return pytrees.map(_conjugated, tree)


def _conjugated(leaf: Any) -> Any:
    is_complex = isinstance(leaf, complex | np.ndarray | np.generic | Tensor)
    return np.conj(leaf) if is_complex and dtype_of(leaf).kind == "c" else leaf


def filled_like(tree: object, value: float) -> Any:
    """Make arrays filled with a value, with the shapes and dtypes of the leaves of a tree."""
    return pytrees.map(lambda leaf: np.full(shape_of(leaf), value, dtype_of(leaf)), tree)


def subvals(x: Iterable[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Replace items of a sequence by pairs of position and value.

    >>> subvals((1, 2, 3), [(0, 4), (2, 6)])
    (4, 2, 6)
    """
    items = list(x)
    for position, value in ivs:
        items[position] = value
    return tuple(items)


def subval(x: Iterable[Any], i: int, v: object) -> tuple[Any, ...]:
    """Replace one item."""
    return subvals(x, [(i, v)])

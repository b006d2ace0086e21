"""Functions of all leaves: sums, stacking, casting.

>>> from funcgrad.tensor.tensor import tensor
>>> norm({"a": tensor([3.0, 0.0]), "b": 4.0}), count({"a": tensor([3.0, 0.0]), "b": 4.0})
(Tensor(5.0), 3)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.pytrees import Structure, flatten, flatten_like, unflatten
from funcgrad._core.specs import dtype_of, is_inexact, shape_of, spec_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import ArrayLike, checked_dtype, operand
from funcgrad._primitives import joining
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.elementwise import absolute, add, multiply
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.norms import length
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import cast as converted
from funcgrad._primitives.structural import reshape, view
from funcgrad._transforms.arguments import values_of
from funcgrad.errors import DtypeError, ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.tree.pieces import Pytree


def _values(tree: Pytree, operation: str, name: str = "tree") -> tuple[list[Value], Structure]:
    leaves, structure = flatten(tree)
    return values_of(operation, leaves, structure, lambda: name), structure


def stack(trees: Sequence[Pytree]) -> Pytree:
    """Stack trees of one structure along a new axis 0: an ensemble of models, or layers to scan.

    Parameters
    ----------
    trees : sequence of pytrees
        At least one; corresponding leaves have equal shapes.

    Returns
    -------
    pytree

    Raises
    ------
    TreeError
        ``trees`` is empty, or the structures differ.
    ShapeError
        The shapes of two corresponding leaves differ.

    Examples
    --------
    >>> stack([{"w": 1.0}, {"w": 2.0}])
    {'w': Tensor([1., 2.])}
    """
    if not isinstance(trees, Sequence) or not trees:
        raise TreeError("stack: expected a list of one tree or more.")
    first, structure = _values(trees[0], "stack", "trees[0]")
    rows = [first]
    for position, tree in enumerate(trees[1:], 1):
        name = f"trees[{position}]"
        leaves = flatten_like(structure, tree, f"stack: {name}")
        rows.append(values_of("stack", leaves, structure, partial(str, name)))
    stacked = []
    for column, path in zip(zip(*rows, strict=True), structure.paths(), strict=True):
        shapes = [shape_of(value) for value in column]
        for number, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise ShapeError(
                    f"stack: trees[0]{path} has shape {shapes[0]}, and trees[{number}]{path}"
                    f" {shape}."
                )
        stacked.append(wrap(joining.stack(*column, axis=0)))
    return unflatten(structure, stacked)


def unstack(tree: Pytree) -> list[Pytree]:
    """List the trees along axis 0 of every leaf, the inverse of ``stack``.

    Parameters
    ----------
    tree : pytree
        A tree of arrays with one axis or more, the first of one size.

    Returns
    -------
    list of pytrees

    Raises
    ------
    ShapeError
        A leaf has no axis, or the sizes of the first axes differ.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> unstack({"w": tensor([1.0, 2.0])})
    [{'w': Tensor(1.0)}, {'w': Tensor(2.0)}]
    """
    values, structure = _values(tree, "unstack")
    sizes = {shape_of(value)[:1] for value in values}
    if sizes - {()} != sizes or len(sizes) > 1:
        shapes = ", ".join(
            f"tree{path}: {shape_of(value)}"
            for path, value in zip(structure.paths(), values, strict=True)
        )
        raise ShapeError(f"unstack: the first axes of all leaves need one size: {shapes}.")
    ((size,),) = sizes or {(0,)}
    return [
        unflatten(structure, [wrap(view(value, key=Key((row,)))) for value in values])
        for row in range(size)
    ]


def norm(tree: Pytree) -> Tensor:
    """The Euclidean norm of all elements of a tree, without intermediate overflow.

    Its gradient is the tree divided by the norm, and 0 at the origin.

    Parameters
    ----------
    tree : pytree
        A tree of arrays of any dtype.

    Returns
    -------
    Tensor
        A real number.

    Raises
    ------
    LeafError
        A leaf is neither an array nor a number.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> norm([tensor([3e200, 0.0]), 4e200j])
    Tensor(5e+200)
    """
    values, _ = _values(tree, "norm")
    lengths = [_length(value) for value in values]
    if len(lengths) <= 1:
        return wrap(lengths[0] if lengths else np.float64(0.0))
    return wrap(length(joining.stack(*lengths, axis=0), axis=(0,), keepdims=False))


def _length(value: Value) -> Value:
    if not is_inexact(dtype_of(value)):
        value = converted(value, dtype=np.dtype(np.float64))
    shape = shape_of(value)
    if not shape:
        return absolute(value)
    return length(value, axis=tuple(range(len(shape))), keepdims=False)


def vdot(x: Pytree, y: Pytree) -> Tensor:
    """The scalar product of two trees as vectors; the first tree is conjugated.

    Parameters
    ----------
    x, y : pytree
        Trees of one structure; corresponding leaves have equal shapes.

    Returns
    -------
    Tensor
        A scalar, in the dtype to which the leaves are promoted.

    Raises
    ------
    TreeError
        The structures differ.
    ShapeError
        The shapes of two leaves differ.

    Examples
    --------
    >>> vdot({"a": 2.0, "b": 1j}, {"a": 3.0, "b": 1j})
    Tensor((7+0j))
    """
    firsts, structure = _values(x, "vdot", "x")
    leaves = flatten_like(structure, y, "vdot: y")
    seconds = values_of("vdot", leaves, structure, lambda: "y")
    products: list[Value] = []
    for first, second, path in zip(firsts, seconds, structure.paths(), strict=True):
        shape = shape_of(first)
        if shape != shape_of(second):
            raise ShapeError(f"vdot: x{path} has shape {shape}, and y{path} {shape_of(second)}.")
        product = multiply(conj(first) if dtype_of(first).kind == "c" else first, second)
        flat = reshape(product, shape=(prod(shape),))
        products.append(reduce_sum(flat, axis=(0,), keepdims=False))
    return wrap(reduce(add, products) if products else np.float64(0.0))


def lerp(start: Pytree, end: Pytree, share: ArrayLike) -> Pytree:
    """Interpolate between two trees: ``start + share * (end - start)``, leaf by leaf.

    With a small share it moves the parameters of a target network towards those that are trained.

    Parameters
    ----------
    start, end : pytree
        Trees of one structure; corresponding leaves have equal shapes. Leaves that are integers or
        booleans have to be equal in dtype, and are taken from ``start``.
    share : array_like, shape ()
        0 gives the start, 1 the end.

    Returns
    -------
    pytree
        A tree like ``start``, in the dtypes of its leaves.

    Raises
    ------
    TreeError
        The structures differ.
    ShapeError
        The shapes of two leaves differ, or ``share`` is not one number.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> target, online = {"w": tensor([0.0, 1.0])}, {"w": tensor([1.0, 1.0])}
    >>> lerp(target, online, 0.25)
    {'w': Tensor([0.25, 1.  ])}
    """
    firsts, structure = _values(start, "lerp", "start")
    leaves = flatten_like(structure, end, "lerp: end")
    seconds = values_of("lerp", leaves, structure, lambda: "end")
    factor = operand(share, "lerp")
    if shape_of(factor):
        raise ShapeError(f"lerp: share has to be one number, got shape {shape_of(factor)}.")
    moved: list[Any] = []
    for first, second, path in zip(firsts, seconds, structure.paths(), strict=True):
        if shape_of(first) != shape_of(second):
            raise ShapeError(
                f"lerp: start{path} has shape {shape_of(first)}, and end{path} {shape_of(second)}."
            )
        if not is_inexact(dtype_of(first)):
            moved.append(wrap(first))
            continue
        way = multiply(wrap(factor), wrap(second) - wrap(first))
        moved.append(wrap(converted(wrap(first) + way, dtype=dtype_of(first))))
    return unflatten(structure, moved)


def count(tree: Pytree) -> int:
    """Count the elements of all leaves of a tree.

    Parameters
    ----------
    tree : pytree

    Returns
    -------
    int

    Raises
    ------
    LeafError
        A leaf is neither an array nor a number.

    Examples
    --------
    >>> import numpy as np
    >>> count({"w": np.ones((2, 3)), "b": 1.0})
    7
    """
    values, _ = _values(tree, "count")
    return sum(prod(shape_of(value)) for value in values)


def cast(tree: Pytree, dtype: DTypeLike) -> Pytree:
    """Convert the floating leaves of a tree to another precision.

    Parameters
    ----------
    tree : pytree
    dtype : dtype
        A floating dtype. Complex leaves get the complex dtype of its precision, or complex64;
        integers and booleans are unchanged.

    Returns
    -------
    pytree

    Raises
    ------
    DtypeError
        ``dtype`` is not floating.
    LeafError
        A leaf is neither an array nor a number.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> cast({"w": tensor([1.0, 2.0]), "labels": tensor([0, 1])}, "float32")
    {'labels': Tensor([0, 1]), 'w': Tensor([1., 2.], dtype=float32)}
    """
    wanted = checked_dtype(dtype, "cast")
    if wanted.kind != "f":
        raise DtypeError(f"cast: expected a floating dtype such as 'float32', got {wanted}.")
    values, structure = _values(tree, "cast")
    return unflatten(structure, [wrap(_in_precision(value, wanted)) for value in values])


def _in_precision(value: Value, wanted: np.dtype[np.generic]) -> Value:
    spec = spec_of(value)
    if spec.dtype.kind == "c":
        wanted = np.promote_types(wanted, np.complex64)
    same = spec.dtype.kind not in "fc" or spec.dtype == wanted
    return value if same else converted(value, dtype=wanted)

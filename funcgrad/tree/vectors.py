"""Convert the leaves of a tree to one vector, and back.

>>> import funcgrad as fg
>>> vector, unravel = ravel({"w": fg.tensor([1.0, 2.0]), "b": 3.0})
>>> vector
Tensor([3., 1., 2.])
>>> unravel(vector * 10)
{'b': Tensor(30.0), 'w': Tensor([10., 20.])}
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from numbers import Real
from typing import Any

import numpy as np

from funcgrad._core.pytrees import Structure, flatten, unflatten
from funcgrad._core.specs import Spec, dtype_of, shape_of, spec_of
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import cast, reshape, view
from funcgrad._transforms.arguments import values_of
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.tree.pieces import Pytree


def scalars_as_vector(x: object) -> object:
    """A list of scalars as a vector, as SciPy reads it; anything else as it is.

    >>> scalars_as_vector([np.float64(1.0), 2.0]), scalars_as_vector((1.0, 2.0))
    (Tensor([1., 2.]), (1.0, 2.0))
    """
    kinds = (Real, complex, Tensor, np.ndarray)
    if (
        isinstance(x, list)
        and x
        and all(isinstance(y, kinds) and getattr(y, "ndim", 0) == 0 for y in x)
    ):
        return ravel(x)[0]
    return x


def ravel(tree: Pytree) -> tuple[Tensor, Callable[[ArrayLike], Any]]:
    """Flatten a pytree into one vector; also return the inverse function.

    Parameters
    ----------
    tree : pytree
        A tree of arrays, tensors or scalars, of any shapes and dtypes.

    Returns
    -------
    vector : Tensor
        A vector of shape ``(n,)``: the elements of each leaf in row-major order, the leaves in the
        order of ``leaves``. Its dtype is the promotion of the leaves' dtypes; a Python number
        counts as float64, int64, bool or complex128. A tree without leaves gives an empty float64
        vector.
    unravel : callable
        Converts a vector of shape ``(n,)`` to a tree of tensors with the leaves' shapes and dtypes.
        If necessary, it casts like ``astype``: integer leaves lose fractions, and real leaves lose
        imaginary parts.

    Both functions are linear and work under every transformation.

    Raises
    ------
    LeafError
        A leaf is neither an array nor a number.
    ShapeError
        The argument of ``unravel`` is not a vector of ``n`` elements.
    DtypeError
        The argument of ``unravel`` has a wider kind than ``vector``, such as complex for real.

    Examples
    --------
    >>> import funcgrad as fg
    >>> vector, unravel = ravel((fg.tensor([[1.0], [2.0]], "float32"), 3))
    >>> vector
    Tensor([1., 2., 3.])
    >>> unravel(vector)
    (Tensor([[1.],
            [2.]], dtype=float32), Tensor(3))
    """
    leaves, form = flatten(tree)
    values = values_of("ravel", leaves, form, lambda: "tree")
    specs = [spec_of(value) for value in values]
    dtype = np.result_type(*[spec.dtype for spec in specs]) if specs else np.dtype(np.float64)
    return _vector_of(values, specs, dtype), partial(_unraveled, form, specs, dtype)


def _unraveled(
    form: Structure, specs: Sequence[Spec], dtype: np.dtype[Any], vector: ArrayLike, /
) -> Any:
    sizes = [prod(spec.shape) for spec in specs]
    segments = _cut(_checked(vector, sum(sizes), dtype), sizes)
    return unflatten(
        form, [_restored(segment, spec) for segment, spec in zip(segments, specs, strict=True)]
    )


def _vector_of(values: Sequence[Value], specs: Sequence[Spec], dtype: np.dtype[Any]) -> Tensor:
    if not values:
        return wrap(np.zeros(0, dtype))
    parts = []
    for value, spec in zip(values, specs, strict=True):
        flat = reshape(value, shape=(prod(spec.shape),))
        parts.append(flat if spec.dtype == dtype else cast(flat, dtype=dtype))
    return wrap(parts[0] if len(parts) == 1 else concatenate(*parts, axis=0))


def _checked(vector: ArrayLike, size: int, dtype: np.dtype[Any]) -> Value:
    value = concrete(operand(vector, "unravel"))
    if shape_of(value) != (size,):
        raise ShapeError(
            f"unravel: expected a vector of shape ({size},), like the raveled tree, got an array of"
            f" shape {shape_of(value)}."
        )
    if not np.can_cast(dtype_of(value), dtype, "same_kind"):
        raise DtypeError(
            f"unravel: expected a vector of dtype {dtype}, like the raveled tree, got"
            f" {dtype_of(value)}, which would lose information. Convert it with .real"
            f" or .astype({str(dtype)!r})."
        )
    return value


def _cut(vector: Value, sizes: Sequence[int]) -> list[Value]:
    """Split a vector into sections by repeated halving.

    The cotangent of a section is as long as the vector it was taken from. So in reverse mode n
    sections of one vector cost n times its length; with halving they cost log n times.
    """
    if len(sizes) <= 1:
        return [vector][: len(sizes)]
    middle = len(sizes) // 2
    place = sum(sizes[:middle])
    left = view(vector, key=Key((slice(None, place),)))
    right = view(vector, key=Key((slice(place, None),)))
    return _cut(left, sizes[:middle]) + _cut(right, sizes[middle:])


def _restored(segment: Value, spec: Spec) -> Tensor:
    value = reshape(segment, shape=spec.shape)
    return wrap(value if dtype_of(value) == spec.dtype else cast(value, dtype=spec.dtype))

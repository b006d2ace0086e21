"""Functional updates: new tensors with the elements at a key changed.

>>> at([0.0, 0.0, 0.0])[1].set(5.0)
Tensor([0., 5., 0.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import operand
from funcgrad._primitives import scatter as _s
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.elementwise import add, divide, multiply, subtract
from funcgrad._primitives.index_keys import IndexPlan, explain_index, plan_index
from funcgrad._primitives.indexing import index, indexed_part
from funcgrad._primitives.powers import power
from funcgrad._primitives.selection import maximum, minimum
from funcgrad._primitives.structural import cast, inverse_axes, reshape, transpose
from funcgrad._primitives.traced_slices import traced_slices
from funcgrad.errors import DtypeError, ImmutableError, MissingAttributeError, ShapeError
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_METHODS: Final = "its methods are get(), set(v), add(v), subtract(v), multiply(v) and others"


@dataclass(frozen=True, slots=True)
class _At:
    """``x.at``, which takes a key."""

    x: Any

    def __getitem__(self, key: Any) -> _Update:
        return _Update(self.x, key)

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise ImmutableError(
            "x.at[key] = value cannot change x: y = x.at[key].set(value) is another tensor."
        )


@dataclass(frozen=True, slots=True)
class _Update:
    """``x.at[key]``, whose methods return ``x`` with the elements at the key changed.

    Values broadcast to the shape of ``x[key]`` and take the dtype of ``x``.
    """

    x: Any
    key: Any

    def __getattr__(self, name: str) -> NoReturn:
        raise MissingAttributeError(f"x.at[key] has no {name}: {_METHODS}.", name)

    def _refused(self, other: object) -> NoReturn:
        raise ImmutableError(f"x.at[key] is not a tensor: x[key] is. For x.at[key], {_METHODS}.")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __iadd__ = _refused
    __truediv__ = __rtruediv__ = __pow__ = __matmul__ = _refused

    def get(self) -> Tensor:
        """The elements themselves: ``x[key]``."""
        return wrap(index(self.x, self.key))

    def set(self, values: ArrayLike) -> Tensor:
        """Replace the elements; an element named twice gets its last value.

        Only the last value has a gradient.
        """
        return _updated("set", self.x, self.key, values, lambda _, u: u, _s.scatter_set)

    def add(self, values: ArrayLike) -> Tensor:
        """Add the values; an element named several times gets the sum."""
        return _updated("add", self.x, self.key, values, add, _s.scatter_add)

    def subtract(self, values: ArrayLike) -> Tensor:
        """Subtract the values; an element named several times loses all of its values."""
        return _updated("subtract", self.x, self.key, values, subtract, _subtract)

    def multiply(self, values: ArrayLike) -> Tensor:
        """Multiply by the values; an element named several times by all of its values."""
        return _updated("multiply", self.x, self.key, values, multiply, _s.scatter_multiply)

    def divide(self, values: ArrayLike) -> Tensor:
        """Divide by the values; an element named several times by all of its values."""
        return _updated("divide", self.x, self.key, values, divide, _through_product(divide))

    def power(self, values: ArrayLike) -> Tensor:
        """Raise to the power of the values; an element named several times to their product.

        For a negative element and powers such as 2 and 0.5 this differs from successive powers.
        """
        return _updated("power", self.x, self.key, values, power, _through_product(power))

    def min(self, values: ArrayLike) -> Tensor:
        """The minimum of the elements and the values; all that attain it share the gradient."""
        return _updated("min", self.x, self.key, values, minimum, _s.scatter_min)

    def max(self, values: ArrayLike) -> Tensor:
        """The maximum of the elements and the values; all that attain it share the gradient."""
        return _updated("max", self.x, self.key, values, maximum, _s.scatter_max)

    def apply(self, function: Callable[[Tensor], ArrayLike]) -> Tensor:
        """Replace the elements by a function of them, once even if an element is named twice."""
        return self.set(function(self.get()))


def at(x: ArrayLike) -> Any:
    """Functional update: ``at(x)[key].set(values)`` is a new tensor; ``x`` does not change.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    object
        An object to index with any key of ``x``; the result has the methods ``set``, ``add``,
        ``subtract``, ``multiply``, ``divide``, ``power``, ``min``, ``max``, ``apply`` and ``get``.

    Notes
    -----
    For an element named several times, sums and products use all values, and ``set`` uses the last.
    ``min`` and ``max`` share the gradient equally among the element and all values that attain the
    extremum.

    Examples
    --------
    >>> import funcgrad as fg
    >>> x = fg.tensor([1.0, 2.0, 3.0])
    >>> x.at[[0, 0]].add([10.0, 20.0])
    Tensor([31.,  2.,  3.])
    >>> x.at[1:].multiply(0.0)
    Tensor([1., 0., 0.])
    >>> fg.grad(lambda u: x.at[[0, 0]].set(u).sum())(fg.tensor([5.0, 6.0]))
    Tensor([0., 1.])
    """
    return _At(x if isinstance(x, Tensor) else wrap(operand(x, "at")))


def _updated(
    name: str,
    x: Tensor,
    key: Any,
    values: ArrayLike,
    plain: Callable[[Value, Value], Value],
    scattered: Callable[..., Value],
) -> Tensor:
    """``x`` with the elements at a key updated, written back from the inside out."""
    operation = f"at[...].{name}"
    u, array = operand(values, operation), concrete(x)
    dtype, shape = dtype_of(array), shape_of(array)
    if dtype_of(u) != dtype:
        _check_cast(operation, dtype_of(u), dtype)
    slices = traced_slices(shape, key)
    if slices is not None:
        block = _updated(name, wrap(slices.taken(array)), slices.key, values, plain, scattered)
        return wrap(slices.put(array, concrete(block)))
    try:
        plan = plan_index(shape, key)
        selected = indexed_part(array, plan)
        u = _updates_for(operation, u, selected, plan)
        if plan.indices:
            selected = scattered(selected, u, *plan.indices, axis=plan.axis, unique=plan.unique)
        else:
            selected = plain(selected, u)
    except (IndexError, ValueError) as error:
        raise explain_index(shape, key, error) from None
    if dtype_of(selected) != dtype:  # a quotient of integers
        _check_cast(operation, dtype_of(selected), dtype)
        selected = cast(selected, dtype=dtype)
    if plan.order is not None:
        selected = transpose(selected, axes=inverse_axes(plan.order))
    return wrap(selected if plan.key is None else _s.replace(array, selected, key=plan.key))


def _updates_for(operation: str, u: Value, selected: Value, plan: IndexPlan) -> Value:
    """Updates in the shape and the dtype of the elements to update."""
    shape: Shape = shape_of(selected)
    if plan.indices:
        chosen = np.broadcast_shapes(*[shape_of(i) for i in plan.indices])
        shape = shape[: plan.axis] + chosen + shape[plan.axis + len(plan.indices) :]
    if dtype_of(u) != dtype_of(selected):
        u = cast(u, dtype=dtype_of(selected))
    values_shape = shape_of(u)
    if values_shape == shape:
        return u
    while len(values_shape) > len(shape) and values_shape[0] == 1:  # as NumPy's assignment does
        values_shape = values_shape[1:]
        u = reshape(u, shape=values_shape)
    fits = len(values_shape) <= len(shape) and all(
        n in (1, m) for n, m in zip(values_shape[::-1], shape[::-1], strict=False)
    )
    if not fits:
        raise ShapeError(
            f"{operation}: values of the shape {shape_of(u)} do not broadcast to {shape}, the shape"
            " of the elements to update."
        )
    return broadcast_to(u, shape=shape)


def _check_cast(operation: str, source: np.dtype[Any], target: np.dtype[Any]) -> None:
    """Raise an error if a conversion would lose a fraction or an imaginary part."""
    rank = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
    if rank[source.kind] > rank[target.kind]:
        raise DtypeError(
            f"{operation}: values of dtype {source} cannot be stored in a tensor of dtype {target}"
            f" without loss. Cast the tensor first, with x.astype({str(source)!r}), or the values."
        )


def _subtract(x: Value, u: Value, *indices: Value, axis: int, unique: bool) -> Value:
    return _s.scatter_add(x, -u, *indices, axis=axis, unique=unique)


def _through_product(operation: Callable[[Value, Value], Value]) -> Callable[..., Value]:
    """Combine repeated updates of an element into one update by their product (1 elsewhere)."""

    def scattered(x: Value, u: Value, *indices: Value, axis: int, unique: bool) -> Value:
        dtype = dtype_of(u)
        if dtype.kind in "iu":  # a product of small integers may be large
            u = cast(u, dtype=np.promote_types(dtype, dtype.kind + "8"))
        ones = np.ones(shape_of(x), dtype_of(u))
        product = _s.scatter_multiply(ones, u, *indices, axis=axis, unique=unique)
        result = operation(x, product)
        return cast(result, dtype=dtype) if dtype.kind in "iu" and operation is power else result

    return scattered

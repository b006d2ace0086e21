"""Operations on whole arrays in ``jax.lax``, while JAX traces a function.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> writer = XlaWriter()
>>> jax.make_jaxpr(lambda x: writer.sliced(x, 0, 2, 3, -1))(np.arange(3, dtype=np.int32)).eqns
[a:i32[3] = rev[dimensions=(0,)] b]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.xla.jax_library import jax_library
from funcgrad._core.specs import Shape

_BOOL: Final = np.dtype(np.bool_)


class UntranslatableError(Exception):
    """XLA has no operations for an equation: it is called back."""


class XlaWriter:
    """The array operations that ``array_code`` needs.

    Parameters
    ----------
    checks : bool, default: False
        Whether somebody reads if all went well, such as indices in bounds.

    Attributes
    ----------
    rows : dict
        For the ``id`` of an array that was cut from another along axis 0: the array, the other,
        and the first row. A loop reads its steps from the other, which spares a copy.
    turned : dict
        For the ``id`` of an array that was transposed: the array, the one before, and the order of
        axes. A product reads the one before, which XLA need not copy.
    """

    spreads = True

    def __init__(self, checks: bool = False) -> None:
        self.checks = checks
        self.jax = jax_library()
        self.lax = self.jax.lax
        self.rows: dict[int, tuple[Array, Array, int]] = {}
        self.turned: dict[int, tuple[Array, Array, Sequence[int]]] = {}

    def constant(self, value: Any, dtype: np.dtype[Any] | None = None) -> Array:
        """A value of NumPy's or Python's as an array."""
        with np.errstate(all="ignore"):
            return np.asarray(value, dtype)

    def cast_to(self, x: Array, dtype: np.dtype[Any]) -> Array:
        """Convert an array to another dtype, by NumPy's rules; see ``intrinsics.whole``."""
        if x.dtype == dtype:
            return x
        if isinstance(x, np.ndarray):
            return self.constant(x.real if dtype.kind not in "cb" else x, dtype)
        if dtype == _BOOL:
            return self.lax.ne(x, np.zeros((), x.dtype))
        if x.dtype.kind == "c" and dtype.kind != "c":
            x = self.lax.real(x)
        if x.dtype.kind == "f" and dtype.kind in "iu":
            return self._whole(x, dtype)
        return self.lax.convert_element_type(x, dtype)

    def _whole(self, x: Array, dtype: np.dtype[Any]) -> Array:
        lax = self.lax
        bits = 64 if dtype.itemsize == 8 or dtype == np.uint32 else 32
        if x.dtype == np.float16:
            x = lax.convert_element_type(x, np.float32)
        bound, integer = x.dtype.type(2.0 ** (bits - 1)), np.dtype(f"i{bits // 8}")
        least = np.iinfo(integer).min

        def cut(x: Array) -> Array:
            inside = lax.lt(lax.abs(x), bound)
            return lax.select(
                inside, lax.convert_element_type(x, integer), lax.full(x.shape, least, integer)
            )

        whole = cut(x)
        if dtype == np.uint64:
            beyond = lax.ge(x, bound)
            whole = lax.select(beyond, lax.bitwise_xor(cut(lax.sub(x, bound)), least), whole)
        return lax.convert_element_type(whole, dtype)

    def reshaped(self, x: Array, shape: Shape) -> Array:
        """Give an array another shape, its elements in C order."""
        return x if x.shape == shape else self.lax.reshape(x, shape)

    def expanded(self, x: Array, shape: Shape) -> Array:
        """Broadcast an array to a shape."""
        return x if x.shape == shape else self.jax.numpy.broadcast_to(x, shape)

    def sliced(self, x: Array, axis: int, start: int, count: int, step: int = 1) -> Array:
        """Take some elements along an axis; the step may be negative."""
        if step < 0:
            first = start + step * (count - 1)
            return self.lax.rev(self.sliced(x, axis, first, count, -step), (axis,))
        if start == 0 and step == 1 and count == x.shape[axis]:
            return x
        stop = start + (count - 1) * step + 1 if count else start
        out = self.lax.slice_in_dim(x, start, stop, step, axis)
        if axis == 0 and step == 1:
            self.rows[id(out)] = out, x, start
        return out

    def permuted(self, x: Array, order: Sequence[int]) -> Array:
        """Put the axes into another order."""
        if [*order] == [*range(len(order))]:
            return x
        out = self.lax.transpose(x, order)
        self.turned[id(out)] = out, x, order
        return out

    def joined(self, parts: Sequence[Array], axis: int) -> Array:
        """Concatenate arrays along an axis."""
        return parts[0] if len(parts) == 1 else self.lax.concatenate(parts, axis)

    def interleaved(self, parts: Sequence[Array], axis: int) -> Array:
        """Concatenate single elements along the last axis, by selections.

        XLA computes a concatenation of formulas one by one. The formulas of an element are all
        computed, so this is for few that share most of their work, such as random words; not for
        small arrays, such as keys, which XLA would compute again for each reader.
        """
        lax, shape = self.lax, (*parts[0].shape[:axis], len(parts))
        if prod(shape) < 256:
            return self.joined(parts, axis)
        places = lax.broadcasted_iota(np.int32, shape, axis)
        out = self.expanded(parts[-1], shape)
        for k, x in enumerate(parts[:-1]):
            out = lax.select(lax.eq(places, np.int32(k)), self.expanded(x, shape), out)
        return out

    def padded(
        self, x: Array, before: Sequence[int], behind: Sequence[int], between: Sequence[int]
    ) -> Array:
        """Put zeros around an array, along each axis before, behind and between its elements."""
        sizes = [*zip(before, behind, between, strict=True)]
        return self.lax.pad(x, np.zeros((), x.dtype), sizes)

    def added(self, x: Array, y: Array) -> Array:
        """Add arrays of one dtype, which broadcast."""
        shape = np.broadcast_shapes(x.shape, y.shape)
        add = self.lax.bitwise_or if x.dtype == _BOOL else self.lax.add
        return add(self.expanded(x, shape), self.expanded(y, shape))

    def taken(self, flat: Array, places: Array) -> Array:
        """Read the elements of a vector at places, all inside."""
        numbers = self.lax.GatherDimensionNumbers(
            offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,)
        )
        places = self.reshaped(places, (*places.shape, 1))
        return self.lax.gather(flat, places, numbers, (1,), mode="promise_in_bounds")

    def put(self, flat: Array, places: Array, updates: Array, adds: bool) -> Array:
        """Replace the elements of a vector at places, which are a vector, or add to them."""
        numbers = self.lax.ScatterDimensionNumbers(
            update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
        )
        scatter = self.lax.scatter_add if adds and flat.dtype != _BOOL else self.lax.scatter
        places = self.reshaped(places, (*places.shape, 1))
        return scatter(flat, places, updates, numbers, mode="promise_in_bounds")

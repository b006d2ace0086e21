"""The methods of tensors: NumPy's methods, each calls the function of the same name.

They reach ``funcgrad.numpy``, many layers above, through ``__array_namespace__``, which imports it
on the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

from numpy.typing import DTypeLike

from funcgrad._core.specs import AxisLike, dtype_of
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.tensor.array_attributes import AbsentAttributes


class ArrayMethods(AbsentAttributes):
    """The methods that tensors share with ``ndarray``; see the functions for details."""

    __slots__ = ()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Self:
        """Call the function of a name in the array namespace with this tensor."""
        raise NotImplementedError

    def astype(self, dtype: DTypeLike | None, *, copy: bool = True) -> Self:
        """Convert to another dtype; a complex tensor is converted to its real part."""
        return self._call("astype", dtype, copy=copy)

    def sum(
        self,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Self:
        """The sum over axes."""
        return self._call("sum", axis, dtype, keepdims=keepdims, initial=initial, where=where)

    def prod(
        self,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Self:
        """The product over axes."""
        return self._call("prod", axis, dtype, keepdims=keepdims, initial=initial, where=where)

    def mean(
        self,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        where: ArrayLike | None = None,
    ) -> Self:
        """The mean over axes."""
        return self._call("mean", axis, dtype, keepdims=keepdims, where=where)

    def var(
        self,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float | None = None,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float = 0.0,
    ) -> Self:
        """The variance over axes."""
        return self._call(
            "var",
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def std(
        self,
        axis: AxisLike = None,
        dtype: DTypeLike | None = None,
        *,
        ddof: float | None = None,
        keepdims: bool = False,
        where: ArrayLike | None = None,
        mean: ArrayLike | None = None,
        correction: float = 0.0,
    ) -> Self:
        """The standard deviation over axes."""
        return self._call(
            "std",
            axis,
            dtype,
            ddof=ddof,
            keepdims=keepdims,
            where=where,
            mean=mean,
            correction=correction,
        )

    def max(
        self,
        axis: AxisLike = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Self:
        """The greatest element over axes; ties share the gradient."""
        return self._call("max", axis, keepdims=keepdims, initial=initial, where=where)

    def min(
        self,
        axis: AxisLike = None,
        *,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Self:
        """The least element over axes; ties share the gradient."""
        return self._call("min", axis, keepdims=keepdims, initial=initial, where=where)

    def any(
        self, axis: AxisLike = None, *, keepdims: bool = False, where: ArrayLike | None = None
    ) -> Self:
        """Test whether any element over axes is true."""
        return self._call("any", axis, keepdims=keepdims, where=where)

    def all(
        self, axis: AxisLike = None, *, keepdims: bool = False, where: ArrayLike | None = None
    ) -> Self:
        """Test whether all elements over axes are true."""
        return self._call("all", axis, keepdims=keepdims, where=where)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the greatest element."""
        return self._call("argmax", axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the least element."""
        return self._call("argmin", axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """The cumulative sum."""
        return self._call("cumsum", axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Self:
        """The cumulative product."""
        return self._call("cumprod", axis, dtype)

    def argsort(
        self, axis: int | None = -1, kind: str | None = None, *, stable: bool = True
    ) -> Self:
        """The positions that would sort along an axis."""
        return self._call("argsort", axis, kind, stable=stable)

    def argpartition(
        self, kth: SupportsIndex | Sequence[SupportsIndex], axis: int | None = -1
    ) -> Self:
        """The positions that would partition along an axis; see ``fnp.partition``."""
        return self._call("argpartition", kth, axis)

    def searchsorted(
        self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
    ) -> Self:
        """The positions at which to insert values into a sorted tensor to keep it sorted."""
        return self._call("searchsorted", v, side, sorter)

    def clip(self, min: ArrayLike | None = None, max: ArrayLike = None) -> Self:
        """Limit the elements to an interval."""
        return self._call("clip", min, max)

    def round(self, decimals: int = 0) -> Self:
        """Round to a number of decimals."""
        return self._call("round", decimals)

    def squeeze(self, axis: AxisLike = None) -> Self:
        """Remove axes of size 1."""
        return self._call("squeeze", axis=axis)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """Interchange two axes."""
        return self._call("swapaxes", axis1, axis2)

    def repeat(self, repeats: ArrayLike, axis: int | None = None) -> Self:
        """Repeat elements."""
        return self._call("repeat", repeats, axis=axis)

    def take(self, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise") -> Self:
        """The elements at positions along an axis."""
        return self._call("take", indices, axis, mode=mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The elements on a diagonal."""
        return self._call("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    def trace(
        self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
    ) -> Self:
        """The sum of a diagonal."""
        return self._call("trace", offset, axis1, axis2, dtype)

    def dot(self, other: ArrayLike) -> Self:
        """The dot product with another array."""
        return self._call("dot", other)

    def conj(self) -> Self:
        """The complex conjugate; real tensors are unchanged."""
        return self._call("conj") if dtype_of(self).kind == "c" else self

    def conjugate(self) -> Self:
        """The complex conjugate; real tensors are unchanged."""
        return self.conj()

    def ravel(self, order: str = "C") -> Self:
        """All elements on one axis."""
        return self._call("ravel", order)

    def flatten(self, order: str = "C") -> Self:
        """All elements on one axis."""
        return self._call("ravel", order)

    @property
    def flat(self) -> Self:
        """All elements on one axis; a view. (Like NumPy's iterator, without assignment.)"""
        return self._call("ravel")

    def copy(self) -> Self:
        """Return the tensor itself: it cannot change, so it needs no copy."""
        return self

    def nonzero(self) -> tuple[Self, ...]:
        """The positions of the elements that are not zero."""
        positions: Any = self._call("nonzero")
        return tuple(positions)

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        """Change the shape; one size may be -1."""
        return self._call("reshape", shape[0] if len(shape) == 1 else shape, order)

    def transpose(self, *axes: AxisLike) -> Self:
        """Permute the axes, by default to their reverse order."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return self._call("transpose", order)


for _name, _method in [*vars(ArrayMethods).items()]:
    if "axis" in getattr(getattr(_method, "__code__", None), "co_varnames", ()):
        setattr(ArrayMethods, _name, answering(_method))  # as a decorator it would hide their types

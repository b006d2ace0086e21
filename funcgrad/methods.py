"""The methods of tensors: NumPy's, each a call of the function of that name.

They reach ``funcgrad.numpy``, which is many layers above, through ``__array_namespace__``: the one
deferred import of the house.
"""

from __future__ import annotations

from typing import Any, Self

from funcgrad.habits import Habits
from funcgrad.shape import AxisLike

__all__ = ["ArrayMethods"]


class ArrayMethods(Habits):
    """What ``ndarray`` has methods for and a tensor can do; see the functions for the details."""

    __slots__ = ()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Self:
        """The function of that name in the array namespace, of this tensor."""
        raise NotImplementedError

    def astype(self, dtype: Any, *, copy: bool = True) -> Self:
        """In another dtype; a complex tensor becomes real by its real part."""
        return self._call("astype", dtype, copy=copy)

    def sum(self, axis: AxisLike = None, *, dtype: Any = None, keepdims: bool = False) -> Self:
        """The sum over axes."""
        return self._call("sum", axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: AxisLike = None, *, dtype: Any = None, keepdims: bool = False) -> Self:
        """The product over axes."""
        return self._call("prod", axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: AxisLike = None, *, keepdims: bool = False) -> Self:
        """The mean over axes."""
        return self._call("mean", axis=axis, keepdims=keepdims)

    def var(
        self,
        axis: AxisLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: bool = False,
    ) -> Self:
        """The variance over axes."""
        return self._call("var", axis=axis, correction=correction, ddof=ddof, keepdims=keepdims)

    def std(
        self,
        axis: AxisLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: bool = False,
    ) -> Self:
        """The standard deviation over axes."""
        return self._call("std", axis=axis, correction=correction, ddof=ddof, keepdims=keepdims)

    def max(self, axis: AxisLike = None, *, keepdims: bool = False) -> Self:
        """The greatest element over axes; ties share the gradient."""
        return self._call("max", axis=axis, keepdims=keepdims)

    def min(self, axis: AxisLike = None, *, keepdims: bool = False) -> Self:
        """The least element over axes; ties share the gradient."""
        return self._call("min", axis=axis, keepdims=keepdims)

    def any(self, axis: AxisLike = None, *, keepdims: bool = False) -> Self:
        """Whether any element over axes is true."""
        return self._call("any", axis=axis, keepdims=keepdims)

    def all(self, axis: AxisLike = None, *, keepdims: bool = False) -> Self:
        """Whether all elements over axes are true."""
        return self._call("all", axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the greatest element."""
        return self._call("argmax", axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Self:
        """The position of the least element."""
        return self._call("argmin", axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None) -> Self:
        """The running sum."""
        return self._call("cumsum", axis=axis)

    def cumprod(self, axis: int | None = None) -> Self:
        """The running product."""
        return self._call("cumprod", axis=axis)

    def argsort(self, axis: int = -1) -> Self:
        """The positions that sort along an axis."""
        return self._call("argsort", axis=axis)

    def argpartition(self, kth: Any, axis: int | None = -1) -> Self:
        """The positions that put elements in order around some of them."""
        return self._call("argpartition", kth, axis)

    def searchsorted(self, v: Any, side: str = "left") -> Self:
        """Where to insert elements so that the tensor stays sorted."""
        return self._call("searchsorted", v, side)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Limited to an interval."""
        return self._call("clip", min, max)

    def round(self, decimals: int = 0) -> Self:
        """Rounded to so many decimals."""
        return self._call("round", decimals)

    def squeeze(self, axis: AxisLike = None) -> Self:
        """Without axes of size 1."""
        return self._call("squeeze", axis=axis)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """With two axes interchanged."""
        return self._call("swapaxes", axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """With elements repeated."""
        return self._call("repeat", repeats, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> Self:
        """The elements at positions along an axis."""
        return self._call("take", indices, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The elements on a diagonal."""
        return self._call("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The sum of a diagonal."""
        return self._call("trace", offset=offset, axis1=axis1, axis2=axis2)

    def dot(self, other: Any) -> Self:
        """The dot product with another array."""
        return self._call("dot", other)

    def conj(self) -> Self:
        """The complex conjugate."""
        return self._call("conj")

    def conjugate(self) -> Self:
        """The complex conjugate."""
        return self._call("conj")

    def ravel(self, order: str = "C") -> Self:
        """All elements on one axis."""
        return self._call("ravel", order)

    def flatten(self, order: str = "C") -> Self:
        """All elements on one axis."""
        return self._call("ravel", order)

    @property
    def flat(self) -> Self:
        """All elements on one axis; a view. (NumPy's iterator, less its assignments.)"""
        return self._call("ravel")

    def copy(self) -> Self:
        """The tensor itself: what cannot change needs no copy."""
        return self

    def nonzero(self) -> tuple[Self, ...]:
        """The positions of the elements that are not zero."""
        positions: Any = self._call("nonzero")
        return tuple(positions)

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        """In another shape of as many elements; one size may be -1."""
        return self._call("reshape", shape[0] if len(shape) == 1 else shape, order)

    def transpose(self, *axes: Any) -> Self:
        """The axes in another order, reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self._call("transpose", order or None)

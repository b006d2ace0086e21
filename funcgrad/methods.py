"""The methods of tensors: NumPy's, each a call of the function of that name.

They reach ``funcgrad.numpy``, which is many layers above, through ``__array_namespace__``: the one
deferred import of the house.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from funcgrad.shape import AxisLike
from funcgrad.trace import TracedValue

if TYPE_CHECKING:
    from funcgrad.tensor import Tensor

__all__ = ["ArrayMethods"]


class ArrayMethods(TracedValue):
    """What ``ndarray`` has methods for and a tensor can do; see the functions for the details."""

    __slots__ = ()

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Tensor:
        """The function of that name in the array namespace, of this tensor."""
        raise NotImplementedError

    def astype(self, dtype: Any, *, copy: bool = True) -> Tensor:
        """In another dtype; a complex tensor becomes real by its real part."""
        return self._call("astype", dtype, copy=copy)

    def sum(self, axis: AxisLike = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The sum over axes."""
        return self._call("sum", axis=axis, dtype=dtype, keepdims=keepdims)

    def prod(self, axis: AxisLike = None, *, dtype: Any = None, keepdims: bool = False) -> Tensor:
        """The product over axes."""
        return self._call("prod", axis=axis, dtype=dtype, keepdims=keepdims)

    def mean(self, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
        """The mean over axes."""
        return self._call("mean", axis=axis, keepdims=keepdims)

    def var(
        self,
        axis: AxisLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The variance over axes."""
        return self._call("var", axis=axis, correction=correction, ddof=ddof, keepdims=keepdims)

    def std(
        self,
        axis: AxisLike = None,
        *,
        correction: float = 0.0,
        ddof: float | None = None,
        keepdims: bool = False,
    ) -> Tensor:
        """The standard deviation over axes."""
        return self._call("std", axis=axis, correction=correction, ddof=ddof, keepdims=keepdims)

    def max(self, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
        """The greatest element over axes; ties share the gradient."""
        return self._call("max", axis=axis, keepdims=keepdims)

    def min(self, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
        """The least element over axes; ties share the gradient."""
        return self._call("min", axis=axis, keepdims=keepdims)

    def any(self, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
        """Whether any element over axes is true."""
        return self._call("any", axis=axis, keepdims=keepdims)

    def all(self, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
        """Whether all elements over axes are true."""
        return self._call("all", axis=axis, keepdims=keepdims)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The position of the greatest element."""
        return self._call("argmax", axis=axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The position of the least element."""
        return self._call("argmin", axis=axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None) -> Tensor:
        """The running sum."""
        return self._call("cumsum", axis=axis)

    def cumprod(self, axis: int | None = None) -> Tensor:
        """The running product."""
        return self._call("cumprod", axis=axis)

    def sort(self, axis: int = -1) -> Tensor:
        """In ascending order along an axis: a new tensor."""
        return self._call("sort", axis=axis)

    def argsort(self, axis: int = -1) -> Tensor:
        """The positions that sort along an axis."""
        return self._call("argsort", axis=axis)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """Limited to an interval."""
        return self._call("clip", min, max)

    def round(self, decimals: int = 0) -> Tensor:
        """Rounded to so many decimals."""
        return self._call("round", decimals)

    def squeeze(self, axis: AxisLike = None) -> Tensor:
        """Without axes of size 1."""
        return self._call("squeeze", axis=axis)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """With two axes interchanged."""
        return self._call("swapaxes", axis1, axis2)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """With elements repeated."""
        return self._call("repeat", repeats, axis=axis)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """The elements at positions along an axis."""
        return self._call("take", indices, axis=axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements on a diagonal."""
        return self._call("diagonal", offset=offset, axis1=axis1, axis2=axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The sum of a diagonal."""
        return self._call("trace", offset=offset, axis1=axis1, axis2=axis2)

    def dot(self, other: Any) -> Tensor:
        """The dot product with another array."""
        return self._call("dot", other)

    def conj(self) -> Tensor:
        """The complex conjugate."""
        return self._call("conj")

    def ravel(self) -> Tensor:
        """All elements on one axis."""
        return self._call("reshape", -1)

    def flatten(self) -> Tensor:
        """All elements on one axis."""
        return self._call("reshape", -1)

    def copy(self) -> Tensor:
        """The tensor itself: what cannot change needs no copy."""
        return self  # type: ignore[return-value]  # only tensors inherit from this class

    def nonzero(self) -> tuple[Tensor, ...]:
        """The positions of the elements that are not zero."""
        positions: Any = self._call("nonzero")
        return tuple(positions)

    def reshape(self, *shape: Any) -> Tensor:
        """In another shape of as many elements; one size may be -1."""
        return self._call("reshape", shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in another order, reversed by default."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return self._call("transpose", order or None)

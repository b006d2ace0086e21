"""Joining by brackets: ``r_`` and ``c_``.

>>> r_[1:4, 0, [7, 8]]
Tensor([1, 2, 3, 0, 7, 8])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from funcgrad._base.fast_dataclass import dataclass
from funcgrad.errors import ArgumentError
from funcgrad.numpy.creation import asarray
from funcgrad.numpy.dtypes import result_type
from funcgrad.numpy.joining import concatenate
from funcgrad.numpy.manipulation import expand_dims
from funcgrad.numpy.ranges import arange, linspace
from funcgrad.numpy.shapes import ndim
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class BracketJoin:
    """Join the arrays in the brackets, as ``numpy.r_`` and ``numpy.c_`` do.

    A slice ``start:stop:step`` is ``arange(start, stop, step)``, and ``start:stop:5j`` are 5 evenly
    spaced values, the last one being ``stop``. A number is an array of one element. A text in
    front, ``"axis,ndim,place"``, changes the attributes.

    Attributes
    ----------
    axis : int
        The axis along which arrays are joined.
    ndim : int
        The least number of axes; arrays with fewer get more, of size 1.
    place : int
        Where the axes of an array with fewer ones go: -1 behind the new axes, 0 before them.

    Raises
    ------
    ArgumentError
        The text has another form; NumPy's "r" and "c" would make matrices.
    ShapeError
        The arrays differ in size on another axis.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.r_[0.5, fnp.ones(2), 0:1:3j]
    Tensor([0.5, 1. , 1. , 0. , 0.5, 1. ])
    >>> fnp.c_[[1, 2], [3, 4]]
    Tensor([[1, 3],
            [2, 4]])
    >>> fnp.r_["0,2", [1, 2], [3, 4]]
    Tensor([[1, 2],
            [3, 4]])
    >>> fg.grad(lambda x: fnp.prod(fnp.r_[x, 2.0, x]))(3.0)
    Tensor(12.0)
    """

    axis: int
    ndim: int
    place: int

    def __getitem__(self, items: Any) -> Tensor:
        items = items if isinstance(items, tuple) else (items,)
        if items and isinstance(items[0], str):
            return self._changed(items[0])._joined(items[1:])
        return self._joined(items)

    def _changed(self, text: str) -> BracketJoin:
        try:
            numbers = [int(number) for number in text.split(",")]
            return BracketJoin(*numbers, *(self.axis, self.ndim, self.place)[len(numbers) :])
        except (TypeError, ValueError):
            raise ArgumentError(
                f"r_ and c_: {text!r} does not say how to join: write 'axis', 'axis,ndim' or"
                " 'axis,ndim,place', as in r_['0,2', x, y]. There are no matrices of tensors."
            ) from None

    def _joined(self, items: Sequence[Any]) -> Tensor:
        values = [_values(item) if isinstance(item, slice) else item for item in items]
        lists = [x if ndim(x) == 0 else asarray(x) for x in values]  # Python numbers stay weak
        dtype = result_type(*lists) if lists else None
        arrays = [self._with_axes(asarray(x, dtype=dtype)) for x in lists]
        return concatenate(arrays, axis=self.axis)

    def _with_axes(self, array: Tensor) -> Tensor:
        missing = self.ndim - array.ndim
        if missing <= 0:
            return array
        first = self.place if self.place >= 0 else self.place + missing + 1
        places = [*range(first), *range(first + array.ndim, self.ndim)]
        return expand_dims(array, tuple(places))


def _values(item: slice) -> Tensor:
    start = 0 if item.start is None else item.start
    if isinstance(item.step, complex):
        return linspace(start, item.stop, int(abs(item.step)))
    return arange(start, item.stop, 1 if item.step is None else item.step)


r_: Final = BracketJoin(0, 1, -1)
"""Joins arrays, numbers and slices along the first axis."""

c_: Final = BracketJoin(-1, 2, 0)
"""Joins arrays as columns, along the last axis."""

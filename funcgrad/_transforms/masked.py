"""Cotangents with structural zeros.

A cotangent that a ``where`` did not select is absent. ``Masked`` keeps track of that: its value is
zero outside its mask, and stays zero whatever factor it meets on its way back, be it infinite or
NaN.
Values and masks are ordinary values, so this holds at every order and in every transformation.

>>> ct = Masked(np.array([1.0, 0.0]), np.array([True, False]))
>>> with np.errstate(invalid="ignore"):
...     ct.times(np.array([2.0, np.inf])).value
array([2., 0.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._core.primitive import SAME, Factor, Selection
from funcgrad._core.specs import Shape, dtype_of, expand, shape_of
from funcgrad._core.trace import RAW, Value
from funcgrad._core.users_values import FREE
from funcgrad._primitives.broadcasting import broadcast_to, sum_to
from funcgrad._primitives.logic import logical_and, logical_or
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast
from funcgrad._transforms.factors import PRECISE, times, zeros_like

SPARING: Final = 2048
"""The size from which it costs less to save memory than to use it: by adding to a sum in place, or
by keeping an outline."""

Cotangent: TypeAlias = Any
"""A value, or a ``Masked``."""


class Half(NamedTuple):
    """A cotangent is one of the two parts into which a condition divides another cotangent."""

    condition: Value
    holds: bool  # whether the condition holds for this part
    mask: Value  # of the other cotangent; None for a whole one
    half: Half | None  # and whether that is a part in its turn


class Masked:
    """A cotangent that is absent outside its mask. Both parts broadcast to the argument's shape.

    A selection behind each product would cost more than the products. So an unselected value may be
    anything outside the mask, and is selected when ``value`` is read.
    """

    __slots__ = ("_is_selected", "_value", "half", "mask")
    __array_ufunc__ = None  # so that ndarray + Masked asks Masked

    def __init__(
        self, value: Value, mask: Value, is_selected: bool = True, half: Half | None = None
    ) -> None:
        self._value = value
        self.mask = mask
        self._is_selected = is_selected
        self.half = half

    @property
    def value(self) -> Value:
        """The cotangent, with zeros outside the mask."""
        if not self._is_selected:
            self._value, self._is_selected = where(self.mask, self._value, 0), True
        return self._value

    @property
    def shape(self) -> Shape:
        """The shape of the value."""
        return (
            shape_of(self._value)
            if self._is_selected
            else np.broadcast_shapes(shape_of(self._value), shape_of(self.mask))
        )

    def times(self, factor: Factor | Value) -> Masked:
        """The product with a factor, which may be anything outside the mask."""
        if factor is SAME:
            return self
        is_selected = self._is_selected and _keeps_zeros(factor)
        return Masked(times(self._value, factor), self.mask, is_selected, self.half)

    def select(self, mask: Value, opposite: Value = None) -> Masked:
        """The cotangent where ``mask`` holds too, absent elsewhere. See ``Selection``."""
        both, half = logical_and(self.mask, mask), _half(mask, opposite, self)
        if not self._is_selected:
            return Masked(where(both, self._value, 0), both, True, half)
        return Masked(_chosen_half(mask, opposite, self._value), both, True, half)

    def plus(self, other: Masked) -> Masked:
        """The sum with a cotangent of the same mask."""
        is_selected = self._is_selected and other._is_selected
        return Masked(self._value + other._value, self.mask, is_selected, self.half)

    def cast(self, dtype: np.dtype[Any]) -> Masked:
        """Convert the value to a dtype."""
        if dtype_of(self._value) == dtype:
            return self
        return Masked(cast(self._value, dtype=dtype), self.mask, self._is_selected, self.half)

    def moved(self, change: Callable[[Value], Value]) -> Masked:
        """Apply a function that moves elements, or takes values out of tracers."""
        return Masked(change(self._value), change(self.mask), self._is_selected)

    def map(self, linear: Callable[[Value], Value]) -> Masked:
        """Apply a linear map whose results are sums of elements."""
        mask = linear(self.mask)  # truth values, or how many come to each place
        return Masked(linear(self.value), mask if dtype_of(mask) == np.bool_ else mask != 0)


def _keeps_zeros(factor: Any) -> bool:
    """Whether zero times a factor is zero for certain, with the sign that a selection gives."""
    return type(factor) in PRECISE and 0 < factor < np.inf


class CotangentBuffer:
    """An unfinished cotangent, to which patches are added in a buffer that only one sweep knows."""

    __slots__ = ("mask", "value")

    def __init__(self, value: Value, mask: Value) -> None:
        self.value = value
        self.mask = mask

    def add(self, ct: Cotangent) -> None:
        """Add a whole cotangent of raw values."""
        array = plain(ct)
        self.widen(shape_of(array))
        self.value += array
        if type(ct) is not Masked:
            self.mask = None
        elif self.mask is not None:
            self.mask |= ct.mask

    def choose(self, mask: Value, ct: Cotangent, shape: Shape) -> bool:
        """Add a cotangent where a mask holds, if it is a raw array; return whether it was.

        Both broadcast to ``shape``.
        """
        total = self.value
        if type(mask) is not np.ndarray or type(ct) not in RAW or dtype_of(ct) != total.dtype:
            return False
        if not mask.shape == total.shape == shape:
            return False
        np.add(total, ct, out=total, where=mask)
        if self.mask is not None:
            self.mask |= mask
        return True

    def widen(self, shape: Shape) -> None:
        """Make room for patches of a shape: a sum of cotangents that broadcast may be smaller."""
        current = self.value.shape
        if shape and shape != current:
            wide = np.broadcast_shapes(current, shape)
            if wide != current:
                self.value = expand(self.value, wide)

    def finish(self) -> Cotangent:
        """The finished cotangent. Most masks fill up, as x[:-1] and x[1:] do together."""
        mask = self.mask
        if mask is None or np.count_nonzero(mask) == mask.size:
            return self.value
        return Masked(self.value, mask)


def buffered(ct: Masked) -> Cotangent:
    """Put a large cotangent, which a selection has just made, into a buffer to add to in place."""
    mask = ct.mask
    if type(mask) is np.ndarray and is_raw(ct) and mask.size >= SPARING and mask.shape == ct.shape:
        return CotangentBuffer(ct.value, mask.copy())
    return ct


_FEW: Final = 1 / 16


def selected(mask: Value, ct: Value) -> Value:
    """``where(mask, ct, 0)``, in half the time where few of many elements are chosen."""
    if type(mask) is not np.ndarray or type(ct) not in RAW or mask.size < SPARING:
        return where(mask, ct, 0)
    if np.count_nonzero(mask) > _FEW * mask.size:
        return where(mask, ct, 0)
    out = np.zeros(np.broadcast_shapes(mask.shape, shape_of(ct)), dtype_of(ct))
    np.copyto(out, ct, where=mask)
    return out


def chosen(ct: Cotangent, choice: Value | Selection) -> Masked:
    """The part of a cotangent that a mask or a selection chooses; the rest is absent."""
    if not isinstance(choice, Selection):
        choice = Selection(choice, SAME)
    mask, opposite = choice.mask, choice.opposite
    if type(ct) is Masked:
        return ct.select(mask, opposite).times(choice.weight)
    value = _chosen_half(mask, opposite, times(ct, choice.weight))
    return Masked(value, mask, True, _half(mask, opposite, None))


def _chosen_half(mask: Value, opposite: Value, ct: Value) -> Value:
    """The elements of a cotangent under a mask. Both parts are chosen by the same condition, so
    that their cotangents are known to make a whole, too."""
    return selected(mask, ct) if opposite is None else where(opposite, 0, ct)


def _half(mask: Value, opposite: Value, ct: Masked | None) -> Half | None:
    if type(mask) in RAW:  # which is looked at rather than reasoned about
        return None
    around = (None, None) if ct is None else (ct.mask, ct.half)
    return Half(mask, True, *around) if opposite is None else Half(opposite, False, *around)


def _are_halves(first: Masked, second: Masked) -> bool:
    """Whether two cotangents are the two parts of another one."""
    a, b = first.half, second.half
    return (
        a is not None
        and b is not None
        and a.condition is b.condition
        and a.holds is not b.holds
        and a.mask is b.mask
    )


def is_raw(ct: Cotangent) -> bool:
    """Whether no transformation follows a cotangent."""
    if type(ct) is Masked:
        return type(ct._value) in RAW and type(ct.mask) in RAW
    return type(ct) in RAW


def plain(ct: Cotangent) -> Value:
    """The cotangent with its absent entries as zeros."""
    return ct.value if type(ct) is Masked else ct


def map_cotangent(ct: Cotangent, change: Callable[[Value], Value]) -> Cotangent:
    """Move the elements of a cotangent, and of its mask if it has one."""
    return ct.moved(change) if type(ct) is Masked else change(ct)


def merged(first: Cotangent, second: Cotangent) -> Cotangent:
    """The sum of two cotangents; elements that both lack are absent."""
    if type(first) is not Masked or type(second) is not Masked:
        return plain(first) + plain(second)
    if first.mask is second.mask:
        return first.plus(second)
    if first.half is not None and _are_halves(first, second):
        total, (_, _, mask, half) = first.value + second.value, first.half
        return total if mask is None else Masked(total, mask, True, half)
    value, mask = first.value + second.value, logical_or(first.mask, second.mask)
    return value if is_full(mask) else Masked(value, mask)


def is_full(mask: Value) -> bool:
    """Whether a mask is known to hold everywhere. To look costs less than to carry it on."""
    return type(mask) is np.ndarray and np.count_nonzero(mask) == mask.size


def broadcast(ct: Cotangent, shape: Shape) -> Cotangent:
    """A cotangent written out to the shape of its variable."""
    if type(ct) is Masked:  # there are fewer elements to select before
        return Masked(broadcast(ct.value, shape), broadcast(ct.mask, shape))
    if shape_of(ct) == shape:
        return ct
    return expand(ct, shape) if type(ct) in RAW else broadcast_to(ct, shape=shape)


def _unbroadcast(ct: Cotangent, shape: Shape, wide: Shape) -> Cotangent:
    """Sum a cotangent to the shape of an argument that an operation broadcast to a wider one."""
    if type(ct) is not Masked:
        return sum_to(broadcast(ct, wide), shape)
    return Masked(sum_to(broadcast(ct.value, wide), shape), _any_to(ct.mask, shape))


def _any_to(mask: Value, shape: Shape) -> Value:
    """Where any element is present along the axes that a shape does not have, or has with size 1.

    The result broadcasts to the shape.
    """
    sizes = shape_of(mask)
    lead = max(len(sizes) - len(shape), 0)
    if lead:
        mask = reduce_any(mask, axis=tuple(range(lead)), keepdims=False)
    pairs = zip(sizes[lead:], shape[len(shape) - len(sizes) + lead :], strict=True)
    axes = tuple([axis for axis, (size, least) in enumerate(pairs) if least == 1 != size])
    return reduce_any(mask, axis=axes, keepdims=True) if axes else mask


def fit(ct: Cotangent, x: Value, wide: Shape) -> Cotangent:
    """Give a cotangent the dtype of its argument, and undo the argument's broadcast to ``wide``."""
    shape = shape_of(x)
    if shape != wide:
        ct = _unbroadcast(ct, shape, wide)
    dtype = dtype_of(x)
    if type(ct) is Masked:
        return ct.cast(dtype)
    return ct if dtype_of(ct) == dtype else cast(ct, dtype=dtype)


def values_there(cts: Iterable[Cotangent | None]) -> list[Value]:
    """The values of cotangents that are not zero: zeros beside them are on their device."""
    return [ct.value if type(ct) is Masked else ct for ct in cts if ct is not None]


def fit_cotangent(ct: Cotangent | None, x: Value, seeds: Iterable[Value] = ()) -> Value:
    """A cotangent in the shape and dtype of its primal: zeros where nothing reached it.

    Zeros for a spec are on the device of the seeds.
    """
    if ct is None:
        return zeros_like(x, seeds)
    if type(ct) is type(x) in FREE:
        return ct
    if type(ct) is np.ndarray and type(x) is np.ndarray and ct.shape == x.shape:
        return ct if ct.dtype is x.dtype else fit(ct, x, x.shape)
    shape = shape_of(x)
    return plain(broadcast(fit(ct, x, shape), shape))


def fitted_present(cts: Sequence[Cotangent | None], xs: Sequence[Value]) -> list[Value]:
    """Cotangents in the shapes and dtypes of their primals; an absent one stays None."""
    pairs = zip(cts, xs, strict=True)
    return [None if ct is None else fit_cotangent(ct, x) for ct, x in pairs]

"""Add up cotangents, above all cotangents of slices and gathers.

Where the cotangents of an array's slices and gathers are raw arrays, they are added to a
``CotangentBuffer``. A tracer cannot be written into, and a sum of arrays that are zero except in
a patch would take time quadratic in the number of patches. So ``CotangentPatches`` keep the patches
and join them by one operation. Gradients of loops over the rows of an array then take linear time
under every transformation: staged, batched, differentiated again.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import Patch, Primitive
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives.structural import cast, reshape
from funcgrad._transforms.masked import (
    SPARING,
    Cotangent,
    CotangentBuffer,
    Masked,
    broadcast,
    is_raw,
    merged,
    plain,
)

Variables: TypeAlias = Any
"""Tangents or cotangents by the indices of variables: a list, or a mapping that yields None."""

_OVERLAP: Final = 4
"""Patches are joined when together they have this many times the elements of the whole variable.
Keeping more would waste memory, and joining them takes no longer than making them did."""


class CotangentPatches:
    """An unfinished cotangent: patches, which are joined when it is complete.

    Parameters
    ----------
    shape, dtype
        The shape and the dtype of the variable.
    whole : Cotangent or None
        The sum of cotangents for all of the variable.
    """

    __slots__ = ("_dtype", "_patches", "_shape", "_size", "_whole")

    def __init__(self, shape: Shape, dtype: np.dtype[Any], whole: Cotangent | None) -> None:
        self._shape = shape
        self._dtype = dtype
        self._whole = whole
        self._patches: dict[Primitive, list[Patch]] = {}
        self._size = 0

    def add(self, ct: Cotangent) -> None:
        """Add a cotangent of the whole variable."""
        self._whole = ct if self._whole is None else merged(self._whole, ct)

    def put(self, primitive: Primitive, patch: Patch) -> None:
        """Add the cotangent of a slice or a gather of the variable, perhaps with holes."""
        self._patches.setdefault(primitive, []).append(patch)
        self._size += max(1, prod(shape_of(plain(patch[0]))))
        if self._size > _OVERLAP * max(1, prod(self._shape)):
            self.finish()

    def finish(self) -> Cotangent:
        """The finished cotangent."""
        for primitive, patches in self._patches.items():
            self.add(self._sum_of_patches(primitive.differential, patches))
        self._patches, self._size = {}, 0
        return self._whole

    def _sum_of_patches(self, linear: Any, patches: list[Patch]) -> Cotangent:
        value = linear.join([(plain(ct), *place) for ct, *place in patches], self._shape)
        if dtype_of(value) != self._dtype:
            value = cast(value, dtype=self._dtype)
        masks = [(_present(ct, linear.narrow), *place) for ct, *place in patches]
        mask = linear.join(masks, self._shape)
        if type(mask) in RAW and np.count_nonzero(mask) == np.size(mask):
            return value
        return Masked(value, mask)


def _present(ct: Cotangent, narrow: bool) -> Value:
    """Truth values where elements of a cotangent are present; if narrow, they broadcast to it."""
    shape = shape_of(plain(ct))
    mask = ct.mask if type(ct) is Masked else np.True_
    if not narrow:
        return broadcast(mask, shape)
    sizes = shape_of(mask)
    return reshape(mask, shape=(1,) * (len(shape) - len(sizes)) + sizes)


_array: Final = np.ndarray  # which is not looked up in NumPy for each sum

UNFINISHED: Final = frozenset({CotangentBuffer, CotangentPatches})
"""The types of unfinished cotangents, which are added to in place."""


def finished(ct: Cotangent) -> Cotangent:
    """Finish a cotangent; None and lists of cotangents stay as they are."""
    return ct.finish() if type(ct) in UNFINISHED else ct


def accumulate(cotangents: Variables, index: int, ct: Cotangent) -> None:
    """Add to a variable's cotangent."""
    previous = cotangents[index]
    if previous is None:
        cotangents[index] = ct
    elif type(previous) is _array and type(ct) is _array:
        total = previous + ct
        # A large sum is this sweep's own, so later cotangents are added in place.
        cotangents[index] = CotangentBuffer(total, None) if total.size >= SPARING else total
    elif type(previous) is CotangentBuffer:
        if is_raw(ct):
            previous.add(ct)
        else:
            cotangents[index] = merged(previous.finish(), ct)
    elif type(previous) is CotangentPatches:
        previous.add(ct)
    elif type(previous) is Masked or type(ct) is Masked:
        cotangents[index] = merged(previous, ct)
    else:
        cotangents[index] = previous + ct

"""Elementwise operations on large arrays, with little memory.

Large arrays cost more time in memory than in arithmetic: an array that does not fit into the cache
is read and written slowly. So

- only those arguments and results are kept that the factors read;
- cotangents are computed block by block, so that factors and products stay in the cache, and are
  added in place to cotangents that only the sweep knows.

The results are the same to the last bit, since all of this is element by element.

>>> import numpy as np
>>> from funcgrad._primitives.transcendental import sin
>>> x = np.linspace(0.0, 1.0, 30000)
>>> y = np.sin(x)
>>> out, (argument,) = residuals_of(sin, (0,), y, (x,))  # the cosine is computed of x
>>> out is y, argument is x
(False, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import OPPOSITE, SAME, Primitive, UnitFactor
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import STRONG, Value
from funcgrad._primitives.elementwise import twice
from funcgrad._transforms.accumulation import Variables, accumulate
from funcgrad._transforms.entries import ElementwiseEntry
from funcgrad._transforms.factors import Outline, operands_of_factors, outlined, times
from funcgrad._transforms.masked import Cotangent, CotangentBuffer, fit

LARGE: Final = 3 * 2**16
"""Bytes from which on an array is large: gradients of sums of products gain nothing below."""

_BLOCK: Final = 2**17
"""Bytes of one block of an array; half a dozen blocks fit into the cache of a core."""

Array = np.ndarray[Any, Any]


def residuals_of(
    primitive: Primitive, operands: Sequence[int], out: Value, primals: Sequence[Value]
) -> tuple[Any, tuple[Any, ...]]:
    """The result and the arguments of an operation, as far as a pullback reads them.

    Arrays that no factor of a followed argument reads are replaced by outlines. The result of a
    reduction is small, and stays.
    """
    first, *reads = primitive.read(operands)
    held = [x if read else outlined(x) for x, read in zip(primals, reads, strict=True)]
    return out if first or primitive.form == "reducing" else outlined(out), tuple(held)


class LargeEntry(ElementwiseEntry):
    """An elementwise operation whose result is a large raw array."""

    __slots__ = ()

    def pull(self, cotangents: Variables) -> None:
        ct = cotangents[self.index]
        # Of such a buffer nobody knows but this sweep, which has no other use for it.
        is_unshared = type(ct) is CotangentBuffer and ct.mask is None
        cotangent = ct.value if is_unshared else ct
        if not self._goes_in_blocks(cotangent):
            super().pull(cotangents)
            return
        cotangents[self.index] = None
        factors = self.primitive.factors
        followed = [k for k, operand in enumerate(self.operands) if operand >= 0 and factors[k]]
        # A cotangent passed on unchanged must not be overwritten, unless it has one reader.
        may_write = is_unshared and (len(followed) == 1 or SAME not in factors)
        for k in followed:
            self._pull_to(k, cotangents, cotangent, may_write and k == followed[-1])

    def _goes_in_blocks(self, ct: Cotangent) -> bool:
        """Whether all values are raw, real, of one dtype, and laid out in the blocks' order."""
        out = self.out
        if type(ct) not in STRONG or out.dtype.kind != "f" or ct.dtype != out.dtype:
            return False
        for value in (ct, out, *self.primals):
            if type(value) is np.ndarray and not value.flags.c_contiguous:
                return False
            if dtype_of(value).kind == "c":  # as the argument of a magnitude is
                return False
        return True

    def _pull_to(self, k: int, cotangents: Variables, ct: Value, may_write: bool) -> None:
        """Add to the cotangent of an argument; the result's cotangent may be overwritten."""
        shape, x, operand = self.out.shape, self.primals[k], self.operands[k]
        factor: Any = self.primitive.factors[k]
        fits = shape_of(x) == shape and dtype_of(x) == self.out.dtype
        may_write = may_write and ct.shape == shape
        if type(factor) is UnitFactor and (factor is SAME or not fits):
            g = times(fit(ct, x, shape), factor)
            if g is ct and may_write and cotangents[operand] is None:
                g = CotangentBuffer(g, None)
            accumulate(cotangents, operand, g)
            return
        if self.params:
            general_factor: Any = factor
            factor = partial(general_factor, **self.params)
        if not ct.shape and ct == 1 and callable(factor):
            same = self._handed_on(factor)
            if same is not None:
                accumulate(cotangents, operand, fit(same, x, shape))
                return
        previous: Any = cotangents[operand]
        is_sum = type(previous) is CotangentBuffer and previous.mask is None
        base: Any = previous.value if is_sum else previous
        adds = fits and type(base) is np.ndarray and _is_alike(base, self.out)
        target: Any = base
        if not (adds and is_sum):
            target = ct if may_write else np.empty(shape, self.out.dtype)
        self._fill(target, base if adds else None, ct, factor)
        if adds or (fits and previous is None):
            cotangents[operand] = CotangentBuffer(target, None)
        else:
            accumulate(cotangents, operand, fit(target, x, shape))

    def _handed_on(self, factor: Any) -> Array | None:
        """The argument or result that is the factor itself, as in a product; None if none is."""
        values = self.out, *self.primals
        views = [v[:0] if type(v) is np.ndarray and v.ndim else v for v in values]
        made = factor(*views)
        for value, view in zip(values, views, strict=True):
            if made is view and type(value) is np.ndarray and _is_alike(value, self.out):
                return value
        return None

    def _fill(self, target: Array, base: Array | None, ct: Value, factor: Any) -> None:
        """Write factor times cotangent into an array, added to a base if there is one."""
        differential, out = self.primitive.differential, self.out
        values = target, base, ct, out, *self.primals
        blocks = [values] if target.nbytes <= _BLOCK else _blocks(target, values)
        room = None
        for place, before, cotangent, result, *args in blocks:
            operands = result, *operands_of_factors(differential, args, out)
            if before is None:
                _product(cotangent, factor, operands, place)
                continue
            if room is None:
                room = np.empty(place.shape, place.dtype)
            np.add(before, _product(cotangent, factor, operands, room[: len(place)]), out=place)


def _is_alike(array: Array, out: Array | Outline) -> bool:
    return array.shape == out.shape and array.dtype == out.dtype and array.flags.c_contiguous


def _product(ct: Value, factor: Any, values: Sequence[Value], room: Array) -> Array:
    """``times``, with the result written into ``room``."""
    if factor is OPPOSITE:
        np.negative(ct, out=room)
    elif factor is twice:
        np.add(ct, ct, out=room)
        np.multiply(room, values[1], out=room)
    else:
        np.multiply(ct, factor(*values), out=room)
    return room


def _blocks(target: Array, values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    """The blocks of an array and of values that broadcast to it; scalars come whole."""
    shape = target.shape
    if all(type(v) is not np.ndarray or v.shape in (shape, ()) for v in values):
        values = [v.reshape(-1) if type(v) is np.ndarray and v.ndim else v for v in values]
        shape = (prod(shape),)
    rows, rank = shape[0], len(shape)
    step = -(-rows // max(1, round(target.nbytes / _BLOCK)))  # blocks of about one size
    divided = [type(v) is np.ndarray and v.ndim == rank and len(v) == rows for v in values]
    for start in range(0, rows, step):
        block = slice(start, start + step)
        yield [v[block] if cut else v for v, cut in zip(values, divided, strict=True)]

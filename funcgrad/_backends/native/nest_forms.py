"""The form of a nest: the order of its loops, its vectors, and where reductions are collected.

A reduction is collected in registers over the inner loops that it reduces, and in memory over
others. If the last loop but one is reduced, and the last one is not, as in ``max(x, axis=0)``, each
vector of some columns has a register, over all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import COSTLY, Value, memory_type, part_of, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.nest_axes import NestArray, arranged
from funcgrad._backends.native.plan_steps import Nest
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import View, whole
from funcgrad._core.specs import Spec

_LONG: Final = 32
"""From so many registers on, a vector is two of them: while one waits for a result, the other is
computed, which makes loops with transcendental functions quicker by a sixth to a third."""

_MUCH: Final = 8  # members go through 2 or 4 vectors at once, without memory: Runge-Kutta in 0.65

FEW: Final = 16
"""So many elements at most are read and written one by one, unless they fill a vector."""

WRITTEN_OUT: Final = 4
"""So many elements at most are computed one by one where they are sums and products: a vector waits
for the last of them. In steps of integrators one element's derivative is another element, which is
known at once, while its own takes a sine. Six integrators of 2 to 4 variables take 0.56 to 0.81 of
the time, filters 0.85 to 0.9, ten others 0.98 to 1.08. Sums of few products, which read them, too:
iLQR 0.87, a particle's steps with tangents 0.96; but not arrays of two rows, which take 1.1 to 2.9
times as long."""

# Behind so many vectors the rest is one too, so that texts of other sizes are alike. Not in loops,
# whose next step waits for a masked store: 1.2 times as long over 36 to 100 numbers, 6 over 20.
_MANY_VECTORS: Final = 4

_IN_CACHE: Final = 1 << 16
"""The elements of a nest up to which rows are read piece by piece, rather than one after another:
loops that threads do not share, of Viterbi's kind, take 0.35 to 0.75 of the time."""

_SIMPLE: Final = 3
"""The members up to which totals of columns are collected in registers: exponentials need registers
themselves, and optimal transport would take 1.06 of the time."""

_WITH_MASKS: Final = 512
"""The width of the registers of processors that read and write any lanes of any vector at once."""


class NestForm:
    """A nest as loops: their order, the lanes of vectors, and where reductions are collected.

    Parameters
    ----------
    lines : FunctionText
    nest : Nest
    specs : sequence of Spec
    pointer : callable
        The address of a buffer, by its variable.
    number : callable
        The number that a variable is known to be, or None.
    bits : int
        The width of a register.
    repeats : bool
        Whether the nest runs in a loop.
    """

    def __init__(
        self,
        lines: FunctionText,
        nest: Nest,
        specs: Sequence[Spec],
        pointer: Callable[[int], str],
        number: Callable[[int], Any],
        bits: int,
        repeats: bool = False,
    ) -> None:
        self._lines, self.nest, self.specs, self.number = lines, nest, specs, number
        self._folded = {m.variable: m.folded for m in nest.members if m.folded is not None}
        self.arrays: dict[int, NestArray] = {}
        for variable, view in nest.operands.items():
            self.arrays[variable] = self._array(variable, view, view.broadcast(nest.shape), pointer)
        for variable, view in nest.stores.items():
            self.arrays[variable] = self._array(
                variable, view, self._stored(variable, view), pointer
            )
        reduced = {variable: self._axes(variable) for variable in self._folded}
        arrays = [*self.arrays.values()]
        dtypes = [self.specs[m.variable].dtype for m in nest.members]
        dtypes += [array.dtype for array in self.arrays.values()]
        widest = max([part_of(dtype).itemsize for dtype in dtypes])
        lanes = bits // 8 // widest
        few = lanes // 2 + 1
        is_simple = len(nest.members) <= _SIMPLE and prod(nest.shape) <= _IN_CACHE
        columns = range(few, _IN_CACHE) if is_simple else range(0)
        self.extents, self.reduced = arranged(nest.shape, arrays, reduced, nest.stores, columns)
        self._width = max(1, min(lanes, 32))
        if self.extents[-1] >= _LONG * self._width:
            self._width = min(2 * self._width, 32)
        if self.extents in ([2 * self._width], [4 * self._width]) and len(nest.members) >= _MUCH:
            self._width = self.extents[0]
        self._has_columns = self._are_columns(columns)
        masks = bits >= _WITH_MASKS and not self._reads_its_stores()
        self._width = min(self._width, power_of_two(self.extents[-1], above=masks))
        if self._is_written_out():
            self._width = 1
        self._has_masks = masks and self._width > 1
        self._in_full = not repeats and self._full >= _MANY_VECTORS * self._width

    @property
    def _full(self) -> int:
        """The elements of the innermost loop that are in whole vectors."""
        return self.extents[-1] // self._width * self._width if self._width > 1 else 0

    def _array(
        self, variable: int, view: View, strides: Sequence[int], pointer: Callable[[int], str]
    ) -> NestArray:
        dtype = self.specs[variable].dtype
        base = self._lines.address(pointer(view.buffer), view.offset, memory_type(dtype))
        return NestArray(variable, dtype, list(strides), base)

    def _stored(self, variable: int, view: View) -> tuple[int, ...]:
        """The strides of a stored result: of a reduction, 0 along the axes that it reduces."""
        if variable not in self._folded:
            return view.strides
        axes = self._axes(variable)
        left = [axis for axis in range(len(self.nest.shape)) if axis not in axes]
        dense = whole(0, tuple([self.nest.shape[axis] for axis in left])).strides
        strides = dict(zip(left, dense, strict=True))
        return tuple([strides.get(axis, 0) for axis in range(len(self.nest.shape))])

    def _axes(self, variable: int) -> frozenset[int]:
        """The axes of the nest that a reduction reduces."""
        return self._folded[variable].axes

    def overwritten(self, variable: int) -> list[int]:
        """The operands that lie where a member stores its results."""
        base = self.arrays[variable].pointer
        return [operand for operand in self.nest.operands if self.arrays[operand].pointer == base]

    def _is_written_out(self) -> bool:
        """Whether few elements are computed one after the other, without a loop."""
        if self._width == 1 or prod(self.extents) > WRITTEN_OUT:
            return False
        if len(self.extents) > 1 and not self._folded.keys() >= self.nest.stores.keys():
            return False  # what an outer loop stores is in memory, which a vector reads at once
        draft = self._lines.inside()
        lanes = Registers(draft, 1)
        for member in self.nest.members:
            specs = [self.specs[operand] for operand in member.operands]
            numbers = map(self.number, member.operands)
            operands = [
                unknown(lanes, spec.dtype, spec.weak) if number is None else number
                for spec, number in zip(specs, numbers, strict=True)
            ]
            member.formula(lanes, *operands)
        text = draft.function("")
        return not any(word in text for word in COSTLY)

    def is_small_piece(self, variable: int) -> bool:
        """Whether a result is a piece of an array that may lie on the stack.

        Its elements are stored one by one: LLVM 22 joins vectors that fill such an array before
        the last of them is known, if they are stored in another order than they lie in, and aborts.
        """
        is_piece = self.nest.stores[variable].buffer != variable
        return is_piece and prod(self.extents) <= FEW

    def _reads_its_stores(self) -> bool:
        """Whether it reads elements that it has just written, and would wait for masked stores."""
        if self._has_columns:
            in_memory = []
        else:
            in_memory = [v for v in self._folded if self._in_registers(v) == len(self.extents)]
        return any(map(self.overwritten, self.nest.stores)) or any(
            self.reduced[variable] for variable in in_memory
        )

    def _are_columns(self, columns: range) -> bool:
        """Whether rows of few vectors are combined, whose totals are carried in registers."""
        place = len(self.extents) - 2
        is_reduced = all(loops == {place} for loops in self.reduced.values())
        return bool(self._folded) and is_reduced and self.extents[-1] in columns

    def _in_registers(self, variable: int) -> int:
        """The first of the inner loops over which a reduction is collected in registers."""
        first = len(self.extents)
        while first and first - 1 in self.reduced[variable]:
            first -= 1
        return first

    # ---------------------------------------------------------------------------------- reductions

    def dtype_of_total(self, variable: int) -> np.dtype[Any]:
        """The dtype in which a reduction is collected in registers: sums in double precision."""
        dtype = self.specs[variable].dtype
        if self._in_registers(variable) == len(self.extents) and not self._has_columns:
            return dtype
        if dtype.kind in "fc" and self.neutral(variable) == 0:
            return np.result_type(dtype, np.float64)
        return np.result_type(dtype, np.float32) if dtype == np.float16 else dtype

    def neutral(self, variable: int) -> Any:
        """The number that changes nothing, of the reduction's combination."""
        return self._folded[variable].neutral

    def begun(self, lanes: Lanes, names: Sequence[int]) -> dict[int, Value]:
        """The first states of reductions."""
        return {v: lanes.constant(self.neutral(v), self.dtype_of_total(v)) for v in names}

    def combined(self, lanes: Lanes, variable: int, x: Value, y: Value) -> Value:
        return lanes.astype(self._folded[variable].fold.combine(lanes, x, y), x.dtype)


def power_of_two(number: int, above: bool) -> int:
    """The nearest power of two above a number, or below, unless it is one.

    >>> power_of_two(6, above=True), power_of_two(6, above=False), power_of_two(8, above=True)
    (8, 4, 8)
    """
    return 1 << ((number - 1).bit_length() if above else number.bit_length() - 1)

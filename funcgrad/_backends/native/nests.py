"""Loop nests as text: vectors along one axis, plain loops over the others.

Axes that all arrays go through as one are one loop. The innermost loop goes along the axis along
which most arrays lie side by side, a vector at a time. The rest is a vector with some active lanes,
or, on processors without masks, elements one by one. A reduction is collected in
registers over the inner loops that it reduces, and in memory over others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value, memory_type, part_of, some_lanes, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.nest_axes import NestArray, arranged
from funcgrad._backends.native.plan_steps import Nest
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import View, carried, whole
from funcgrad._core.specs import Spec

BLOCK: Final = 4096
"""Elements that are summed one after another, then added to the total: sums keep their digits."""

_LONG: Final = 32
"""From so many registers on, a vector is two of them: while one waits for a result, the other is
computed, which makes loops with transcendental functions quicker by a sixth to a third."""

_MUCH: Final = 8  # members go through 2 or 4 vectors at once, without memory: Runge-Kutta in 0.65

_FEW: Final = 16
"""So many elements at most are read and written one by one, unless they fill a vector."""

_WRITTEN_OUT: Final = 4
"""So many elements at most are computed one by one where they are sums and products: a vector waits
for the last of them. In steps of integrators one element's derivative is another element, which is
known at once, while its own takes a sine. Six integrators of 2 to 4 numbers take 0.56 to 0.81 of
the time, filters 0.85 to 0.9, ten others 0.98 to 1.08. Sums of few products, which read them, too:
iLQR 0.87; but not arrays of two rows, which take 1.1 to 2.9 times as long."""

# Behind so many vectors the rest is one too, so that texts of other sizes are alike. Not in loops,
# whose next step waits for a masked store: 1.2 times as long over 36 to 100 numbers, 6 over 20.
_MANY_VECTORS: Final = 4

_COSTLY: Final = ("call", "div", "rem")  # take less time on a vector of four than on four scalars

_WITH_MASKS: Final = 512  # bits of the registers of processors that read and write some lanes


class NestWriter:
    """Writes one nest.

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
        self._lines, self._nest, self._specs, self._number = lines, nest, specs, number
        self._folded = {m.variable: m.folded for m in nest.members if m.folded is not None}
        self._arrays: dict[int, NestArray] = {}
        for variable, view in nest.operands.items():
            self._arrays[variable] = self._array(
                variable, view, view.broadcast(nest.shape), pointer
            )
        for variable, view in nest.stores.items():
            self._arrays[variable] = self._array(
                variable, view, self._stored(variable, view), pointer
            )
        reduced = {variable: self._axes(variable) for variable in self._folded}
        arrays = [*self._arrays.values()]
        self._extents, self._reduced = arranged(nest.shape, arrays, reduced, nest.stores)
        dtypes = [self._specs[m.variable].dtype for m in nest.members]
        dtypes += [array.dtype for array in self._arrays.values()]
        widest = max([part_of(dtype).itemsize for dtype in dtypes])
        self._width = max(1, min(bits // 8 // widest, 32))
        if self._extents[-1] >= _LONG * self._width:
            self._width = min(2 * self._width, 32)
        if self._extents in ([2 * self._width], [4 * self._width]) and len(nest.members) >= _MUCH:
            self._width = self._extents[0]
        masks = bits >= _WITH_MASKS and not self._reads_its_stores()
        self._width = min(self._width, _power_of_two(self._extents[-1], above=masks))
        if self._is_written_out():
            self._width = 1
        self._has_masks = masks and self._width > 1
        self._in_full = not repeats and self._full >= _MANY_VECTORS * self._width

    def _array(
        self, variable: int, view: View, strides: Sequence[int], pointer: Callable[[int], str]
    ) -> NestArray:
        dtype = self._specs[variable].dtype
        base = self._lines.address(pointer(view.buffer), view.offset, memory_type(dtype))
        return NestArray(variable, dtype, list(strides), base)

    def _stored(self, variable: int, view: View) -> tuple[int, ...]:
        """The strides of a stored result: of a reduction, 0 along the axes that it reduces."""
        if variable not in self._folded:
            return view.strides
        axes = self._axes(variable)
        left = [axis for axis in range(len(self._nest.shape)) if axis not in axes]
        dense = whole(0, tuple([self._nest.shape[axis] for axis in left])).strides
        strides = dict(zip(left, dense, strict=True))
        return tuple([strides.get(axis, 0) for axis in range(len(self._nest.shape))])

    def _axes(self, variable: int) -> frozenset[int]:
        """The axes of the nest that a reduction reduces."""
        return self._folded[variable].axes

    def overwritten(self, variable: int) -> list[int]:
        """The operands that lie where a member stores its results."""
        base = self._arrays[variable].pointer
        return [operand for operand in self._nest.operands if self._arrays[operand].pointer == base]

    def _is_written_out(self) -> bool:
        """Whether few elements are computed one after the other, without a loop."""
        if self._width == 1 or prod(self._extents) > _WRITTEN_OUT:
            return False
        if len(self._extents) > 1 and not self._folded.keys() >= self._nest.stores.keys():
            return False  # what an outer loop stores is in memory, which a vector reads at once
        draft = self._lines.inside()
        lanes = Registers(draft, 1)
        for member in self._nest.members:
            specs = [self._specs[operand] for operand in member.operands]
            numbers = map(self._number, member.operands)
            operands = [
                unknown(lanes, spec.dtype, spec.weak) if number is None else number
                for spec, number in zip(specs, numbers, strict=True)
            ]
            member.formula(lanes, *operands)
        text = draft.function("")
        return not any(word in text for word in _COSTLY)

    def is_small_piece(self, variable: int) -> bool:
        """Whether a result is a piece of an array that may lie on the stack.

        Its elements are stored one by one: LLVM 22 joins vectors that fill such an array before
        the last of them is known, if they are stored in another order than they lie in, and aborts.
        """
        is_piece = self._nest.stores[variable].buffer != variable
        return is_piece and prod(self._extents) <= _FEW

    def _reads_its_stores(self) -> bool:
        """Whether it reads elements that it has just written, and would wait for masked stores."""
        in_memory = [v for v in self._folded if self._in_registers(v) == len(self._extents)]
        return any(map(self.overwritten, self._nest.stores)) or any(
            self._reduced[variable] for variable in in_memory
        )

    def _in_registers(self, variable: int) -> int:
        """The first of the inner loops over which a reduction is collected in registers."""
        first = len(self._extents)
        while first and first - 1 in self._reduced[variable]:
            first -= 1
        return first

    # ------------------------------------------------------------------------------------ the loops

    def write(self) -> None:
        """Write all lines of the nest."""
        self._begin()
        self._loops(0, self._pointers, {})

    @property
    def _pointers(self) -> dict[int, str]:
        return {variable: array.pointer for variable, array in self._arrays.items()}

    def _begin(self) -> None:
        """Begin reductions that are collected in memory."""
        for variable in self._folded:
            if any(place < self._in_registers(variable) for place in self._reduced[variable]):
                self._fill(variable, self._arrays[variable].pointer)

    def _fill(self, variable: int, pointer: str) -> None:
        """Begin a reduction in memory."""
        spec = self._specs[variable]
        lanes = Registers(self._lines, 1)

        def one(index: str, _: Sequence[str]) -> Sequence[str]:
            lanes.store(pointer, lanes.constant(self._neutral(variable), spec.dtype), index)
            return ()

        self._lines.counted(prod(spec.shape), one)

    def _loops(
        self, place: int, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the loops from one on; returns the values that reductions have collected."""
        starting = self._starting(place)
        values = {**collected, **self._begun(self._gathering, starting)}
        if place == len(self._extents) - 1:
            ended = self._inner(pointers, values)
        elif place == len(self._extents):
            ended = values
        elif not place and starting:
            step = partial(self._step, pointers=pointers)
            ended = self._in_order(self._extents[0], self._gathering.width, starting, step)
        else:
            start, stop = self._bounds(place)

            def one(index: str, values: dict[int, Value]) -> dict[int, Value]:
                return self._loops(place + 1, self._rows(place, index, pointers), values)

            ended = carried(self._lines, stop, one, values, 1, start)
        for variable in starting:
            self._finish(variable, pointers[variable], ended.pop(variable))
        return ended

    def _bounds(self, place: int) -> tuple[str | int, str | int]:
        """Where a loop begins and ends."""
        return 0, self._extents[place]

    def _starting(self, place: int) -> list[int]:
        """The reductions that are collected in registers from a loop on."""
        return [v for v in self._folded if self._in_registers(v) == place]

    def _in_order(
        self,
        count: int,
        width: int,
        names: Sequence[int],
        write_part: Callable[[str], dict[int, Value]],
    ) -> dict[int, Value]:
        """Write parts of loops, which collect from the beginning; returns the totals."""
        lanes = Registers(self._lines, width)

        def one(index: str, totals: dict[int, Value]) -> dict[int, Value]:
            sums = write_part(index)
            return {v: self._combined(lanes, v, total, sums[v]) for v, total in totals.items()}

        return carried(self._lines, count, one, self._begun(lanes, names))

    def _step(self, index: str, pointers: Mapping[int, str]) -> dict[int, Value]:
        """Write a step of the outermost of several loops; returns the values that it collects."""
        first = self._begun(self._gathering, self._starting(0))
        return self._loops(1, self._rows(0, index, pointers), first)

    def _block(
        self, index: str, stop: int, names: Sequence[int], pointers: Mapping[int, str]
    ) -> dict[int, Value]:
        """Write a block of the innermost loop; returns the values that it collects."""
        lanes = Registers(self._lines, self._width)
        start = self._lines.op(f"mul i64 {index}, {BLOCK}")
        end = self._lines.op(f"add i64 {start}, {BLOCK}")
        beyond = self._lines.op(f"icmp sgt i64 {end}, {stop}")
        until = self._lines.op(f"select i1 {beyond}, i64 {stop}, i64 {end}")
        return self._swept(lanes, start, until, pointers, self._begun(lanes, names))

    def _rows(self, place: int, index: str, pointers: Mapping[int, str]) -> dict[int, str]:
        return {v: self._row(v, pointers[v], place, index) for v in pointers}

    def _row(self, variable: int, pointer: str, place: int, index: str) -> str:
        """Where the part of an array begins that a step of a loop goes through."""
        array = self._arrays[variable]
        return self._lines.row(pointer, index, array.strides[place], memory_type(array.dtype))

    @property
    def _full(self) -> int:
        """The elements of the innermost loop that are in whole vectors."""
        return self._extents[-1] // self._width * self._width if self._width > 1 else 0

    def _inner(
        self, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the innermost loop: whole vectors, then the rest."""
        full, names, gathering = self._full, list(collected), self._gathering
        left = self._extents[-1] - full
        vectors = self._begun(Registers(self._lines, self._width), names)
        if full:
            vectors = self._vectors(full, pointers, names)
        if left and self._has_masks:
            vectors = self._swept_left(pointers, vectors)
        if gathering.width == 1:
            vectors = {v: self._across_lanes(v, vector) for v, vector in vectors.items()}
        ended = {v: self._combined(gathering, v, collected[v], x) for v, x in vectors.items()}
        if left and not self._has_masks:
            ended = self._swept_left(pointers, ended)
        return ended

    def _swept_left(
        self, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the rest behind whole vectors: a vector of some lanes, or elements one by one.

        Reductions then collect as many lanes as they do over whole vectors.
        """
        full, extent = self._full, self._extents[-1]
        width, left = 1, extent - full
        if self._has_masks:
            width = self._width if collected or self._in_full else _power_of_two(left, above=True)
        lanes = Registers(self._lines, width, min(width, left))
        return self._swept(lanes, full, extent, pointers, collected)

    def _swept(
        self,
        lanes: Lanes,
        start: str | int,
        stop: str | int,
        pointers: Mapping[int, str],
        collected: Mapping[int, Value],
    ) -> dict[int, Value]:
        """Write a loop over elements; returns the values that reductions have collected."""
        body = _StepText(self, lanes, pointers)
        is_whole = lanes.width == 1 and self._extents[-1] == stop
        if is_whole and isinstance(stop, int) and prod(self._extents) <= _WRITTEN_OUT:
            values = dict(collected)
            for place in range(int(start), stop):
                values = body.step(str(place), values)
            return values
        return carried(self._lines, stop, body.step, collected, lanes.width, start)

    def _vectors(
        self, stop: int, pointers: Mapping[int, str], names: Sequence[int]
    ) -> dict[int, Value]:
        """Write the loop over whole vectors; long sums are sums of sums of blocks."""
        if stop > BLOCK and names:
            block = partial(self._block, stop=stop, names=names, pointers=pointers)
            return self._in_order(-(-stop // BLOCK), self._width, names, block)
        lanes = Registers(self._lines, self._width)
        return self._swept(lanes, 0, stop, pointers, self._begun(lanes, names))

    # ---------------------------------------------------------------------------------- reductions

    def _is_sum(self, variable: int) -> bool:
        return self._specs[variable].dtype.kind in "fc" and self._neutral(variable) == 0

    def _collected(self, variable: int) -> np.dtype[Any]:
        """The dtype in which a reduction is collected in registers: sums in double precision."""
        dtype = self._specs[variable].dtype
        if self._in_registers(variable) == len(self._extents):
            return dtype
        if self._is_sum(variable):
            return np.result_type(dtype, np.float64)
        return np.result_type(dtype, np.float32) if dtype == np.float16 else dtype

    def _neutral(self, variable: int) -> Any:
        """The number that changes nothing, of the reduction's combination."""
        return self._folded[variable].neutral

    def _begun(self, lanes: Lanes, names: Sequence[int]) -> dict[int, Value]:
        """The first states of reductions."""
        return {v: lanes.constant(self._neutral(v), self._collected(v)) for v in names}

    def _combined(self, lanes: Lanes, variable: int, x: Value, y: Value) -> Value:
        return lanes.astype(self._folded[variable].fold.combine(lanes, x, y), x.dtype)

    @property
    def _gathering(self) -> Registers:
        """The lanes in which reductions are collected over all of their loops.

        They are combined at the end, unless elements one by one come after vectors: in the sums of
        rows of three, to combine them for each row took more time than to read the row.
        """
        in_vectors = self._has_masks or self._full == self._extents[-1]
        return Registers(self._lines, self._width if in_vectors else 1)

    def _across_lanes(self, variable: int, vector: Value) -> Value:
        """Combine the lanes of a vector, half by half."""
        width = self._width
        while width > 1:
            width //= 2
            lanes = Registers(self._lines, width)
            low, high = [
                some_lanes(lanes, vector, range(start, start + width)) for start in (0, width)
            ]
            vector = self._combined(lanes, variable, low, high)
        return vector

    def _finish(self, variable: int, pointer: str, collected: Value) -> None:
        """Write the value that a reduction has collected in registers to memory."""
        lanes, dtype = Registers(self._lines, 1), self._specs[variable].dtype
        if self._gathering.width > 1:
            collected = self._across_lanes(variable, collected)
        total = lanes.astype(collected, dtype)
        first = self._in_registers(variable)
        if any(place < first for place in self._reduced[variable]):
            before = lanes.load(pointer, dtype)
            total = self._combined(lanes, variable, before, total)
        lanes.store(pointer, total)


class _StepText:
    """The lines of one step of an innermost loop."""

    def __init__(self, writer: NestWriter, lanes: Lanes, pointers: Mapping[int, str]) -> None:
        self._writer, self._lanes, self._pointers = writer, lanes, pointers
        self._shared: dict[int, Value] = {}
        for variable in writer._nest.operands:  # constant along the loop
            array = writer._arrays[variable]
            if not array.strides[-1]:
                value = lanes.splat(lanes.single.load(pointers[variable], array.dtype))
                value.weak = writer._specs[variable].weak
                self._shared[variable] = value

    def step(self, index: str, collected: dict[int, Value]) -> dict[int, Value]:
        """Write all members for the elements from an index on; returns the values collected."""
        writer, lanes = self._writer, self._lanes
        values: dict[int, Any] = dict(self._shared)
        for member in writer._nest.members:
            operands = [self._operand(variable, index, values) for variable in member.operands]
            dtype = writer._specs[member.variable].dtype
            if member.folded is None:
                value = lanes.astype(member.formula(lanes, *operands), dtype)
                value.weak = writer._specs[member.variable].weak
                values[member.variable] = value
                if member.variable in writer._nest.stores:
                    for operand in writer.overwritten(member.variable):
                        self._operand(operand, index, values)
                    self._store(member.variable, index, value)
                continue
            element = member.formula(lanes, *operands)
            gathering = writer._collected(member.variable)
            element = lanes.astype(element, gathering)
            if not writer._reduced[member.variable]:  # along axes of one element
                first = writer._begun(lanes, [member.variable])[member.variable]
                total = writer._combined(lanes, member.variable, first, element)
                self._store(member.variable, index, lanes.astype(total, dtype))
                continue
            if member.variable in collected:
                total = collected[member.variable]
                after = writer._combined(lanes, member.variable, total, element)
                collected[member.variable] = lanes.in_active_lanes(after, total)
            else:  # collected in memory, for each place along this loop
                before = self._load(member.variable, index)
                after = writer._combined(lanes, member.variable, before, element)
                self._store(member.variable, index, after)
        return collected

    def _operand(self, variable: int, index: str, values: dict[int, Any]) -> Any:
        if variable not in values:
            number = self._writer._number(variable)
            if number is not None:
                weak = self._writer._specs[variable].weak
                dtype = self._writer._specs[variable].dtype
                values[variable] = number if weak else self._lanes.constant(number, dtype)
            else:
                values[variable] = self._load(variable, index)
                values[variable].weak = self._writer._specs[variable].weak
        return values[variable]

    def _place(self, variable: int, index: str) -> str:
        array, pointer = self._writer._arrays[variable], self._pointers[variable]
        return self._lanes.lines.row(pointer, index, array.strides[-1], memory_type(array.dtype))

    def _is_one_place(self, array: NestArray) -> bool:
        """Whether a vector of elements is read or written at once.

        Few elements whose vector has other lanes too are not: LLVM takes them into registers only
        one by one.
        """
        lanes = self._lanes
        if lanes.active < lanes.width and prod(self._writer._extents) <= _FEW:
            return False
        return array.strides[-1] == 1 or lanes.width == 1

    def _load(self, variable: int, index: str) -> Value:
        array = self._writer._arrays[variable]
        place = self._place(variable, index)
        if self._is_one_place(array):
            return self._lanes.load(place, array.dtype)
        return self._lanes.gathered(place, array.dtype, array.strides[-1])

    def _store(self, variable: int, index: str, value: Value) -> None:
        array = self._writer._arrays[variable]
        place = self._place(variable, index)
        if self._is_one_place(array) and not self._writer.is_small_piece(variable):
            self._lanes.store(place, value)
        else:
            self._lanes.scattered(place, value, array.strides[-1])


def _power_of_two(number: int, above: bool) -> int:
    """The nearest power of two above a number, or below, unless it is one.

    >>> _power_of_two(6, above=True), _power_of_two(6, above=False), _power_of_two(8, above=True)
    (8, 4, 8)
    """
    return 1 << ((number - 1).bit_length() if above else number.bit_length() - 1)

"""A step of an innermost loop as text: all members of a nest, for a vector of elements."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from funcgrad._backends.native.instructions import Value, memory_type
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.nest_axes import NestArray
from funcgrad._backends.native.nest_forms import FEW, NestForm


class StepText:
    """The lines of one step of an innermost loop."""

    def __init__(self, writer: NestForm, lanes: Lanes, pointers: Mapping[int, str]) -> None:
        self._writer, self._lanes, self._pointers = writer, lanes, pointers
        self._shared: dict[int, Value] = {}
        for variable in writer.nest.operands:  # constant along the loop
            array = writer.arrays[variable]
            if not array.strides[-1]:
                value = lanes.splat(lanes.single.load(pointers[variable], array.dtype))
                value.weak = writer.specs[variable].weak
                self._shared[variable] = value

    def step(self, index: str, collected: dict[int, Value]) -> dict[int, Value]:
        """Write all members for the elements from an index on; returns the values collected."""
        writer, lanes = self._writer, self._lanes
        values: dict[int, Any] = dict(self._shared)
        for member in writer.nest.members:
            operands = [self._operand(variable, index, values) for variable in member.operands]
            dtype = writer.specs[member.variable].dtype
            if member.folded is None:
                value = lanes.astype(member.formula(lanes, *operands), dtype)
                value.weak = writer.specs[member.variable].weak
                values[member.variable] = value
                if member.variable in writer.nest.stores:
                    for operand in writer.overwritten(member.variable):
                        self._operand(operand, index, values)
                    self.store(member.variable, index, value)
                continue
            element = member.formula(lanes, *operands)
            gathering = writer.dtype_of_total(member.variable)
            element = lanes.astype(element, gathering)
            if not writer.reduced[member.variable]:  # along axes of one element
                first = writer.begun(lanes, [member.variable])[member.variable]
                total = writer.combined(lanes, member.variable, first, element)
                self.store(member.variable, index, lanes.astype(total, dtype))
                continue
            if member.variable in collected:
                total = collected[member.variable]
                after = writer.combined(lanes, member.variable, total, element)
                collected[member.variable] = lanes.in_active_lanes(after, total)
            else:  # collected in memory, for each place along this loop
                before = self._load(member.variable, index)
                after = writer.combined(lanes, member.variable, before, element)
                self.store(member.variable, index, after)
        return collected

    def _operand(self, variable: int, index: str, values: dict[int, Any]) -> Any:
        if variable not in values:
            number = self._writer.number(variable)
            if number is not None:
                weak = self._writer.specs[variable].weak
                dtype = self._writer.specs[variable].dtype
                values[variable] = number if weak else self._lanes.constant(number, dtype)
            else:
                values[variable] = self._load(variable, index)
                values[variable].weak = self._writer.specs[variable].weak
        return values[variable]

    def _place(self, variable: int, index: str) -> str:
        array, pointer = self._writer.arrays[variable], self._pointers[variable]
        return self._lanes.lines.row(pointer, index, array.strides[-1], memory_type(array.dtype))

    def _is_one_place(self, array: NestArray) -> bool:
        """Whether a vector of elements is read or written at once.

        Few elements whose vector has other lanes too are not: LLVM takes them into registers only
        one by one.
        """
        lanes = self._lanes
        if lanes.active < lanes.width and prod(self._writer.extents) <= FEW:
            return False
        return array.strides[-1] == 1 or lanes.width == 1

    def _load(self, variable: int, index: str) -> Value:
        array = self._writer.arrays[variable]
        place = self._place(variable, index)
        if self._is_one_place(array):
            return self._lanes.load(place, array.dtype)
        return self._lanes.gathered(place, array.dtype, array.strides[-1])

    def store(self, variable: int, index: str, value: Value) -> None:
        array = self._writer.arrays[variable]
        place = self._place(variable, index)
        if self._is_one_place(array) and not self._writer.is_small_piece(variable):
            self._lanes.store(place, value)
        else:
            self._lanes.scattered(place, value, array.strides[-1])

"""Gathering and scattering as text: loops over places that integers choose.

Axes behind the last one that an integer chooses along are *rows*, which move vector by vector. An
integer out of bounds leaves the loops, and the operation is called back: it raises the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from funcgrad._backends.native.call_text import call_back_at
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import part_of
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.plan_steps import Gathering, Scattering
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import merged, walk
from funcgrad._core.structure.index_maps import IndexArray, Places, dense_strides

_Write: TypeAlias = Callable[[Lanes, str, str], None]
"""Writes the work on elements side by side: at a place, and for an index ``k``."""

_INT64 = np.dtype(np.int64)


def write_gathering(site: FunctionSite, step: Gathering) -> None:
    """Write a gather: it moves the bits of elements, of any dtype."""
    count, bits = in_words(site.plan.specs[step.variable].dtype)
    source, target = site.at(step.equation.operands[0]), site.pointer(step.variable)

    def move(lanes: Lanes, place: str, number: str) -> None:
        value = lanes.load(source, bits, place)
        lanes.store(target, value, number)

    def leave_zero(lanes: Lanes, place: str, number: str) -> None:
        lanes.store(target, lanes.constant(0, bits), number)

    _PlacesWriter(site, step, count, bits.itemsize).write(move, leave_zero)


def write_scattering(site: FunctionSite, step: Scattering) -> None:
    """Write a scatter."""
    spec, fold = site.plan.specs[step.variable], step.fold
    operands, target = step.equation.operands, site.pointer(step.variable)
    if step.updates:
        site.moved(target, site.at(operands[0]), spec)
    else:
        site.clear(target, spec)
    if not prod(step.places.shape):
        return
    count, into = 1, spec.dtype
    source, dtype = site.at(operands[step.updates]), site.plan.specs[operands[step.updates]].dtype
    if fold is None and dtype == into:
        count, into = in_words(into)
        dtype = into

    def update(lanes: Lanes, place: str, number: str) -> None:
        value = lanes.load(source, dtype, number)
        if fold is not None:
            state = fold.of(lanes, into, number, value)
            value = fold.combine(lanes, lanes.load(target, into, place), state)
        lanes.store(target, lanes.astype(value, into), place)

    size = max(part_of(into).itemsize, part_of(dtype).itemsize)
    _PlacesWriter(site, step, count, size).write(update)


def in_words(dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any]]:
    """The unsigned integers that an element is moved as: how many, and their dtype.

    >>> in_words(np.dtype(np.float32)), in_words(np.dtype(complex))
    ((1, dtype('uint32')), (2, dtype('uint64')))
    """
    count = max(dtype.itemsize // 8, 1)
    return count, np.dtype(f"u{dtype.itemsize // count}")


class _PlacesWriter:
    """Writes loops over the places of a step.

    Parameters
    ----------
    site : FunctionSite
    step : Gathering or Scattering
    count : int
        How many elements side by side stand for one of the operation's.
    size : int
        The bytes of an element.
    """

    def __init__(
        self, site: FunctionSite, step: Gathering | Scattering, count: int, size: int
    ) -> None:
        self._site, self._step, self._size = site, step, size
        self._beyond = site.lines.fresh_label("beyond")
        self._is_bounded = True
        self._places = places = _scaled(step.places, count)
        numbers = dense_strides(places.shape)
        self._sizes, strides = merged(
            places.shape, places.strides, numbers, *[index.strides for index in places.indices]
        )
        self._strides = strides
        chosen = [axis for axis in range(len(self._sizes)) if any(s[axis] for s in strides[2:])]
        self._rank = chosen[-1] + 1 if chosen else 0

    def write(self, element: _Write, otherwise: _Write | None = None) -> None:
        """Write the loops.

        Parameters
        ----------
        element : callable
            Writes the work for a place.
        otherwise : callable, optional
            Writes the work for an index without a place.
        """
        lines, rank = self._site.lines, self._rank
        self._site.work += prod(self._places.shape)

        def row(at: Sequence[str]) -> None:
            self._row(at[0], at[1], at[2:], element, otherwise)

        firsts = [str(self._places.start), "0", *["0"] * len(self._places.indices)]
        walk(lines, self._sizes[:rank], [s[:rank] for s in self._strides], firsts, row)
        if not self._is_bounded:
            call_back_at(self._site, self._step, self._beyond)

    def _row(
        self, place: str, number: str, at: Sequence[str], element: _Write, otherwise: _Write | None
    ) -> None:
        lines = self._site.lines
        absent = lines.fresh_label("absent")
        may_be_absent = False
        for index, offset in zip(self._places.indices, at, strict=True):
            chosen = self._chosen(index, offset, absent)
            may_be_absent = may_be_absent or index.mode == "fill"
            step = chosen if index.step == 1 else lines.op(f"mul i64 {chosen}, {index.step}")
            place = lines.op(f"add i64 {place}, {step}")
        self._elements(place, number, element)
        if may_be_absent:

            def leave() -> None:
                if otherwise is not None:
                    self._elements("0", number, otherwise)

            lines.apart(absent, leave)

    def _chosen(self, index: IndexArray, offset: str, absent: str) -> str:
        """The place along an axis that an integer chooses."""
        site, lines, lanes = self._site, self._site.lines, Registers(self._site.lines, 1)
        variable = self._step.equation.operands[index.operand]
        dtype = site.plan.specs[variable].dtype
        number = lanes.astype(lanes.load(site.at(variable), dtype, offset), _INT64)
        if dtype == np.uint64:  # from 2**63 on int64 cannot hold it
            lines.leave_unless((number >= 0).text, self._beyond)
            self._is_bounded = False
        if index.mode == "clip":
            return lanes.minimum(lanes.maximum(number, 0), index.size - 1).text
        if index.mode == "wrap":
            number = lanes.value(f"srem i64 {number.text}, {index.size}", _INT64)
        place = lanes.where(number < 0, number + index.size, number).text
        if index.mode != "wrap":
            self._is_bounded = self._is_bounded and index.mode == "fill"
            inside = lines.op(f"icmp ult i64 {place}, {index.size}")
            lines.leave_unless(inside, absent if index.mode == "fill" else self._beyond)
        return place

    def _elements(self, place: str, number: str, element: _Write) -> None:
        """Write loops over the axes of a row."""
        site, rank = self._site, self._rank
        sizes, (there, here) = self._sizes[rank:], [s[rank:] for s in self._strides[:2]]
        if sizes and there[-1] == here[-1] == 1:
            narrow = [along[:-1] for along in (there, here)]
            walk(
                site.lines,
                sizes[:-1],
                narrow,
                [place, number],
                lambda at: self._vectors(sizes[-1], at[0], at[1], element),
            )
            return
        lanes = Registers(site.lines, 1)
        walk(
            site.lines,
            sizes,
            [there, here],
            [place, number],
            lambda at: element(lanes, at[0], at[1]),
        )

    def _vectors(self, count: int, place: str, number: str, element: _Write) -> None:
        """Write a loop over elements that lie side by side."""
        lines = self._site.lines

        def one(lanes: Lanes, index: str) -> None:
            there, here = [lines.op(f"add i64 {at}, {index}") for at in (place, number)]
            element(lanes, there, here)

        in_vectors(self._site, count, self._size, one)


def _scaled(places: Places, count: int) -> Places:
    """Places of words: so many side by side stand for one element."""
    if count == 1:
        return places
    return Places(
        (*places.shape, count),
        places.start * count,
        (*[stride * count for stride in places.strides], 1),
        tuple(
            [
                index._replace(strides=(*index.strides, 0), step=index.step * count)
                for index in places.indices
            ]
        ),
    )


def in_vectors(
    site: FunctionSite, count: int, size: int, body: Callable[[Lanes, str], None]
) -> None:
    """Write a loop over elements that lie side by side: whole vectors, then the rest.

    Parameters
    ----------
    site : FunctionSite
    count : int
        The number of elements.
    size : int
        The bytes of the widest of them.
    body : callable
        Writes a step for the elements from an index on.
    """
    width = max(1, min(site.module.bits // 8 // size, 32))
    while width > max(count, 1):
        width //= 2
    full = count // width * width

    def one(lanes: Lanes, index: str) -> tuple[str, ...]:
        body(lanes, index)
        return ()

    wide, narrow = Registers(site.lines, width), Registers(site.lines, 1)
    site.lines.counted(full, lambda index, _: one(wide, index), step=width)
    if full < count:
        site.lines.counted(count, lambda index, _: one(narrow, index), start=full)

"""Vectors in memory: side by side, with a stride, or one element in every lane.

Parts of complex numbers take turns in memory; in registers they are apart. Lanes that are not
active stay out of memory: they read zeros and write nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._backends.native.lanes import Lanes, Value, element_type, memory_type
from funcgrad._backends.native.pairs import Pair, paired, part_of, parts_of
from funcgrad._backends.native.registers import Registers


def load(lanes: Lanes, place: str, dtype: np.dtype[Any]) -> Value:
    """Read elements that lie side by side."""
    if dtype.kind == "c":
        return _load_pairs(lanes, place, part_of(dtype))
    kind = lanes.kind(memory_type(dtype))
    text = _read(lanes, place, kind, dtype.itemsize)
    return _from_memory(lanes, text, dtype)


def _mask(lanes: Lanes, parts: int = 1) -> str:
    """The numbers of active lanes, so many each, as LLVM writes a mask."""
    listed = ["true"] * (parts * lanes.active) + ["false"] * (parts * (lanes.width - lanes.active))
    return f"<{', '.join([f'i1 {truth}' for truth in listed])}>"


def _read(lanes: Lanes, place: str, kind: str, align: int, parts: int = 1) -> str:
    """Read the numbers of active lanes, so many each."""
    if lanes.active < lanes.width:
        return lanes.lines.masked_load(kind, place, _mask(lanes, parts), align)
    return lanes.lines.op(f"load {kind}, ptr {place}, align {align}")


def _write(lanes: Lanes, place: str, kind: str, text: str, align: int, parts: int = 1) -> None:
    """Write the numbers of active lanes, so many each."""
    if lanes.active < lanes.width:
        lanes.lines.masked_store(kind, text, place, _mask(lanes, parts), align)
    else:
        lanes.lines.emit(f"store {kind} {text}, ptr {place}, align {align}")


def addresses_of_parts(lanes: Lanes, place: str, component: np.dtype[Any]) -> list[str]:
    """The addresses of the two parts of a complex number."""
    return [lanes.lines.address(place, k, element_type(component)) for k in range(2)]


def _load_pairs(lanes: Lanes, place: str, component: np.dtype[Any]) -> Value:
    """Read complex numbers: both parts of all of them, which are then taken apart."""
    width, element = lanes.width, element_type(component)
    if width == 1:
        return paired(
            [load(lanes, at, component) for at in addresses_of_parts(lanes, place, component)]
        )
    kind = f"<{2 * width} x {element}>"
    both = _read(lanes, place, kind, component.itemsize, parts=2)
    texts = [_shuffled(lanes, kind, both, "poison", range(k, 2 * width, 2)) for k in range(2)]
    return paired([Value(text, component, lanes) for text in texts])


def _store_pairs(lanes: Lanes, place: str, value: Pair) -> None:
    """Write complex numbers: their parts take turns."""
    width, element = lanes.width, element_type(value.real.dtype)
    if width == 1:
        addresses = addresses_of_parts(lanes, place, value.real.dtype)
        for address, component in zip(addresses, parts_of(value), strict=True):
            store(lanes, address, component)
        return
    turns = [k // 2 + width * (k % 2) for k in range(2 * width)]
    both = _shuffled(lanes, value.real.kind, value.real.text, value.imag.text, turns)
    kind = f"<{2 * width} x {element}>"
    _write(lanes, place, kind, both, value.real.dtype.itemsize, parts=2)


def _shuffled(lanes: Lanes, kind: str, first: str, second: str, places: Sequence[int]) -> str:
    """Elements of two vectors, those of the second behind those of the first."""
    listed = ", ".join([f"i32 {place}" for place in places])
    return lanes.lines.op(
        f"shufflevector {kind} {first}, {kind} {second}, <{len(places)} x i32> <{listed}>"
    )


def _from_memory(lanes: Lanes, text: str, dtype: np.dtype[Any]) -> Value:
    if dtype.char == "e":
        kind, single = lanes.kind("half"), lanes.kind("float")
        return lanes.value(f"fpext {kind} {text} to {single}", dtype)
    if dtype.kind != "b":
        return Value(text, dtype, lanes)
    zero = "0" if lanes.width == 1 else "zeroinitializer"
    return lanes.value(f"icmp ne {lanes.kind('i8')} {text}, {zero}", dtype)


def store(lanes: Lanes, place: str, value: Value) -> None:
    """Write elements side by side."""
    if isinstance(value, Pair):
        _store_pairs(lanes, place, value)
        return
    kind, text = _for_memory(lanes, value)
    _write(lanes, place, kind, text, value.dtype.itemsize)


def _for_memory(lanes: Lanes, value: Value) -> tuple[str, str]:
    kind = lanes.kind(memory_type(value.dtype))
    if value.dtype.char == "e":
        return kind, lanes.lines.op(f"fptrunc {value.kind} {value.text} to {kind}")
    if value.dtype.kind != "b":
        return kind, value.text
    return kind, lanes.lines.op(f"zext {value.kind} {value.text} to {kind}")


def splat(lanes: Lanes, place: str, dtype: np.dtype[Any]) -> Value:
    """Read one element into every lane."""
    if dtype.kind == "c":
        component = part_of(dtype)
        parts = addresses_of_parts(lanes, place, component)
        return paired([splat(lanes, address, component) for address in parts])
    single = load(Registers(lanes.lines, 1), place, dtype)
    if lanes.width == 1:
        return Value(single.text, dtype, lanes)
    kind = lanes.kind(element_type(dtype))
    first = lanes.lines.op(
        f"insertelement {kind} poison, {element_type(dtype)} {single.text}, i32 0"
    )
    return lanes.value(
        f"shufflevector {kind} {first}, {kind} poison, <{lanes.width} x i32> zeroinitializer", dtype
    )


def gathered(lanes: Lanes, place: str, dtype: np.dtype[Any], stride: int) -> Value:
    """Read elements with a stride."""
    if dtype.kind == "c":
        component = part_of(dtype)
        parts = addresses_of_parts(lanes, place, component)
        return paired([gathered(lanes, address, component, 2 * stride) for address in parts])
    element, lines = memory_type(dtype), lanes.lines
    kind, text = lanes.kind(element), "poison" if lanes.active == lanes.width else "zeroinitializer"
    for lane in range(lanes.active):
        place_of_lane = lines.address(place, lane * stride, element)
        number = lines.op(f"load {element}, ptr {place_of_lane}, align {dtype.itemsize}")
        text = lines.op(f"insertelement {kind} {text}, {element} {number}, i32 {lane}")
    return _from_memory(lanes, text, dtype)


def scattered(lanes: Lanes, place: str, value: Value, stride: int) -> None:
    """Write elements with a stride."""
    if isinstance(value, Pair):
        addresses = addresses_of_parts(lanes, place, value.real.dtype)
        for address, component in zip(addresses, parts_of(value), strict=True):
            scattered(lanes, address, component, 2 * stride)
        return
    kind, text = _for_memory(lanes, value)
    element, lines = memory_type(value.dtype), lanes.lines
    for lane in range(lanes.active):
        place_of_lane = lines.address(place, lane * stride, element)
        number = lines.op(f"extractelement {kind} {text}, i32 {lane}")
        lines.emit(f"store {element} {number}, ptr {place_of_lane}, align {value.dtype.itemsize}")


def in_active_lanes(lanes: Lanes, after: Value, before: Value) -> Value:
    """One value in the lanes that are active, and another one in the others."""
    if lanes.active == lanes.width:
        return after
    return lanes.where(Value(_mask(lanes), np.dtype(bool), lanes), after, before)

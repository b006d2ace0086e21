"""The function that Python calls: from objects to pointers, and from memory to objects.

It is a builtin of CPython's fastest kind. It takes raw values of exactly the types that the program
is for, and answers ``MISS`` to all others.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad.backends.interface import MISS
from funcgrad.backends.native.cpython import HEAD, ArrayLayout
from funcgrad.backends.native.function_text import FunctionText
from funcgrad.backends.native.native_module import Function, NativeModule
from funcgrad.backends.native.processor import Code
from funcgrad.shape import Spec

_DENSE: Final = 0x101
"""The flags of an array that lies in C order, each number where the processor wants it."""


def write_entry(module: NativeModule, function: Function, outputs: Sequence[Spec]) -> None:
    """Write the function ``entry``, which Python calls with raw values."""
    _EntryWriter(module, function, outputs).write()


class _EntryWriter:
    """The unfinished entry of a module."""

    def __init__(self, module: NativeModule, function: Function, outputs: Sequence[Spec]) -> None:
        self._module, self._function, self._outputs = module, function, outputs
        self._lines = FunctionText()

    def write(self) -> None:
        lines, inputs = self._lines, self._function.program.inputs
        self._expect(lines.op(f"icmp eq i64 %count, {len(inputs)}"))
        pointers = [self._input(place, spec) for place, spec in enumerate(inputs)]
        holders: list[str] = []
        for spec in self._outputs:
            holders.append(self._holder(spec))
            if spec.shape:
                self._require(holders[-1], holders[:-1])
        targets = [
            lines.op(f"load ptr, ptr {lines.address(holder, ArrayLayout.data)}")
            if spec.shape
            else holder
            for holder, spec in zip(holders, self._outputs, strict=True)
        ]
        arena = "null"
        if self._function.size:
            arena = lines.call("ptr", "malloc", ("i64", str(self._function.size)))
            self._require(arena, holders, "PyErr_NoMemory")
        arguments = ", ".join([f"ptr {pointer}" for pointer in (*pointers, *targets, arena)])
        status = lines.op(f"call i32 @{self._function.name}({arguments})")
        if self._function.size:
            lines.call("void", "free", ("ptr", arena))
        made, failed = lines.fresh_label("made"), lines.fresh_label("failed")
        missed = lines.fresh_label("missed")
        cases = f"i32 0, label %{made} i32 2, label %{missed}"
        lines.emit(f"switch i32 {status}, label %{failed} [ {cases} ]")
        lines.begin_block(made)
        self._return(holders)
        for label, result in ((failed, "null"), (missed, self._object("none", None))):
            lines.begin_block(label)
            self._release(holders)
            if result != "null":
                lines.call("void", "Py_IncRef", ("ptr", result))
            lines.emit(f"ret ptr {result}")
        lines.begin_block("miss")
        answer = self._object("miss_object", MISS)
        lines.call("void", "Py_IncRef", ("ptr", answer))
        lines.emit(f"ret ptr {answer}")
        head = "define ptr @entry(ptr %self, ptr %args, i64 %count) nounwind"
        self._module.texts.append(lines.function(head))
        self._module.declarations |= lines.declarations

    def _object(self, word: str, value: object) -> str:
        return self._module.symbol(word, id(value), value)

    def _expect(self, condition: str) -> None:
        after = self._lines.fresh_label("fits")
        self._lines.branch(condition, after, "miss")
        self._lines.begin_block(after)

    def _require(self, pointer: str, holders: Sequence[str], error: str = "") -> None:
        """Raise where memory was refused: release the arrays made so far, and return."""
        lines = self._lines
        there, refused = lines.fresh_label("there"), lines.fresh_label("refused")
        lines.branch(lines.op(f"icmp ne ptr {pointer}, null"), there, refused)
        lines.begin_block(refused)
        self._release(holders)
        if error:
            lines.call("ptr", error)
        lines.emit("ret ptr null")
        lines.begin_block(there)

    def _release(self, holders: Sequence[str]) -> None:
        for holder, spec in zip(holders, self._outputs, strict=False):
            if spec.shape:
                self._lines.call("void", "Py_DecRef", ("ptr", holder))

    def _field(self, pointer: str, offset: int, kind: str) -> str:
        return self._lines.op(f"load {kind}, ptr {self._lines.address(pointer, offset)}")

    # -------------------------------------------------------------------------------------- inputs

    def _input(self, place: int, spec: Spec) -> str:
        """The address of the numbers of an argument."""
        lines = self._lines
        value = lines.op(f"load ptr, ptr {lines.address('%args', place, 'ptr')}")
        kind = self._field(value, HEAD - 8, "ptr")
        if spec.weak:
            return self._python_number(value, kind, spec.dtype.kind)
        if spec.shape:
            self._expect(self._is(kind, np.ndarray))
            self._expect_array(value, spec)
            return self._field(value, ArrayLayout.data, "ptr")
        self._expect(self._is(kind, spec.dtype.type))
        return lines.address(value, HEAD)

    def _is(self, pointer: str, value: object) -> str:
        return self._lines.op(f"icmp eq ptr {pointer}, {self._object('type', value)}")

    def _expect_array(self, value: str, spec: Spec) -> None:
        lines = self._lines
        self._expect(self._is(self._field(value, ArrayLayout.descr, "ptr"), np.dtype(spec.dtype)))
        rank = self._field(value, ArrayLayout.rank, "i32")
        self._expect(lines.op(f"icmp eq i32 {rank}, {len(spec.shape)}"))
        flags = lines.op(f"and i32 {self._field(value, ArrayLayout.flags, 'i32')}, {_DENSE}")
        self._expect(lines.op(f"icmp eq i32 {flags}, {_DENSE}"))
        dimensions = self._field(value, ArrayLayout.dimensions, "ptr")
        for axis, size in enumerate(spec.shape):
            actual = lines.op(f"load i64, ptr {lines.address(dimensions, axis, 'i64')}")
            self._expect(lines.op(f"icmp eq i64 {actual}, {size}"))

    def _python_number(self, value: str, kind: str, of: str) -> str:
        """The address of a Python number as an element of an array."""
        lines = self._lines
        if of in "fc":
            self._expect(self._is(kind, float if of == "f" else complex))
            return lines.address(value, HEAD)
        room = lines.room("i64")
        if of == "b":
            self._expect(self._is(kind, bool))
            truth = lines.op(f"icmp eq ptr {value}, {self._object('true', True)}")
            lines.emit(f"store i8 {lines.op(f'zext i1 {truth} to i8')}, ptr {room}")
            return room
        self._expect(self._is(kind, int))
        number = lines.call("i64", "PyLong_AsLongLong", ("ptr", value))
        lines.emit(f"store i64 {number}, ptr {room}")
        odd, plain = lines.fresh_label("odd"), lines.fresh_label("plain")
        lines.branch(lines.op(f"icmp eq i64 {number}, -1"), odd, plain)
        lines.begin_block(odd)
        error = lines.call("ptr", "PyErr_Occurred")
        lines.call("void", "PyErr_Clear")  # it is too large: not for this program
        self._expect(lines.op(f"icmp eq ptr {error}, null"))
        lines.jump(plain)
        lines.begin_block(plain)
        return room

    # ------------------------------------------------------------------------------------- outputs

    def _holder(self, spec: Spec) -> str:
        """A new array, or room on the stack for a single number."""
        lines, dtype = self._lines, np.dtype(spec.dtype)
        if not spec.shape:
            return lines.room("[2 x i64], align 16")
        descr = self._object("dtype", dtype)
        lines.call("void", "Py_IncRef", ("ptr", descr))
        room = lines.room(f"[{len(spec.shape)} x i64]")
        for axis, size in enumerate(spec.shape):
            lines.emit(f"store i64 {size}, ptr {lines.address(room, axis, 'i64')}")
        return lines.call(
            "ptr",
            "PyArray_Empty",
            ("i32", str(len(spec.shape))),
            ("ptr", room),
            ("ptr", descr),
            ("i32", "0"),
        )

    def _return(self, holders: Sequence[str]) -> None:
        lines = self._lines
        tuple_ = lines.call("ptr", "PyTuple_New", ("i64", str(len(holders))))
        for place, (holder, spec) in enumerate(zip(holders, self._outputs, strict=True)):
            value = holder if spec.shape else self._number(holder, spec)
            lines.call(
                "i32", "PyTuple_SetItem", ("ptr", tuple_), ("i64", str(place)), ("ptr", value)
            )
        lines.emit(f"ret ptr {tuple_}")

    def _number(self, room: str, spec: Spec) -> str:
        """A number of NumPy's, or of Python's where it is weak."""
        lines, kind = self._lines, spec.dtype.kind
        if not spec.weak:
            descr = self._object("dtype", np.dtype(spec.dtype))
            return lines.call(
                "ptr", "PyArray_Scalar", ("ptr", room), ("ptr", descr), ("ptr", "null")
            )
        if kind == "b":
            truth = lines.op(f"zext i8 {lines.op(f'load i8, ptr {room}')} to i64")
            return lines.call("ptr", "PyBool_FromLong", ("i64", truth))
        if kind == "i":
            number = lines.op(f"load i64, ptr {room}")
            return lines.call("ptr", "PyLong_FromLongLong", ("i64", number))
        real = lines.op(f"load double, ptr {room}")
        if kind == "f":
            return lines.call("ptr", "PyFloat_FromDouble", ("double", real))
        imag = lines.op(f"load double, ptr {lines.address(room, 8)}")
        return lines.call("ptr", "PyComplex_FromDoubles", ("double", real), ("double", imag))


class _Definition(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _Owner:
    """Keeps the code of a builtin alive, and the objects that the code refers to."""

    __slots__ = ("code", "definition", "referents")

    def __init__(self, code: Code, referents: Sequence[Any]) -> None:
        self.code, self.referents = code, referents
        address = code.address("entry")
        self.definition = _Definition(b"native", address, 0x0080, None)  # METH_FASTCALL


def builtin(code: Code, referents: Sequence[Any]) -> Callable[..., Any]:
    """The entry of a module as a function of Python's."""
    owner = _Owner(code, referents)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    function: Callable[..., Any] = make(ctypes.addressof(owner.definition), owner, None)
    return function

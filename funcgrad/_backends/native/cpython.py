"""CPython's and NumPy's objects as they lie in memory, and the addresses of their functions.

Machine code reads arrays and numbers where they are, so the layout of these objects is checked on
objects whose contents are known. Where it is another, ``checked`` raises, and programs run on the
NumPy backend.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from types import CellType, MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.errors import FuncgradError

HEAD: Final = object.__basicsize__
"""The bytes of an object before its own fields: a number, or the address of an array's."""

ARRAY_RANK: Final = HEAD + 8
ARRAY_SIZES: Final = HEAD + 16
ARRAY_DTYPE: Final = HEAD + 40
ARRAY_FLAGS: Final = HEAD + 48
"""Where the flags of an array lie."""

TUPLE_ITEMS: Final = tuple.__basicsize__
"""Where the items of a tuple begin."""

DENSE: Final = 0x101
"""The flags of an array that lies in C order, each number where the processor wants it."""

WRITABLE: Final = 0x501
"""The flags of such an array that may be written to."""

_FUNCTIONS: Final = (
    "PyContextVar_Get",
    "PyDict_GetItem",
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_FromDouble",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_CallNoArgs",
    "PyObject_Vectorcall",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)

_OF_C: Final = (
    *("malloc", "realloc", "free", "fmod", "fmodf", "memcmp"),
    *("feclearexcept", "fetestexcept"),
)

COPYING: Final = tuple(
    [
        name
        for name in ("memset", "memcpy", "memmove", "bzero", "__bzero")
        if hasattr(ctypes.pythonapi, name)
    ]
)
"""The functions of C that LLVM may call instead of loops; macOS has two to set memory to zero, one
on Arm and one on Intel."""

# Places in the table of NumPy's C API, the same in all versions (numpy/__multiarray_api.h).
_ARRAY_TYPE, _SCALAR, _NEW_FROM_DESCR = 2, 60, 94


class NativeError(FuncgradError):
    """A program cannot be compiled to machine code."""


def _read(address: int, kind: Any = ctypes.c_void_p) -> Any:
    return kind.from_address(address).value


def checked() -> None:
    """Check that objects lie in memory as this package believes.

    No version of an interpreter is asked for, since that is all the proof there is to have: each
    field that machine code reads is found here in a live object; it also calls functions of
    CPython's stable interface, by their names, and of NumPy's, by its number.

    Raises
    ------
    NativeError
        They do not: this is another interpreter, or another version of NumPy. Or several threads
        run Python's code at once.
    """
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise NativeError("native code: this interpreter runs without its lock (GIL)")
    array, number = np.zeros((3, 5), np.float32), complex(2.5, -1.5)
    pair = array, number
    scalars = [np.dtype(code).type(1) for code in "?bhilqBHILQefdFD"]
    facts = {
        "the interpreter is CPython": ctypes.sizeof(ctypes.c_void_p) == 8,
        "an object's type": _read(id(array) + HEAD - 8) == id(np.ndarray),
        "an array's data": _read(id(array) + HEAD) == array.ctypes.data,
        "an array's flags": [
            _read(id(other) + ARRAY_FLAGS, ctypes.c_int) & WRITABLE
            for other in (array, array.T, np.broadcast_to(array, (3, 5)))
        ]
        == [WRITABLE, WRITABLE - 1, DENSE],
        "a tuple's items": _read(id(pair) + TUPLE_ITEMS) == id(array),
        "a float": _read(id(2.5) + HEAD, ctypes.c_double) == 2.5,
        "a complex number": ctypes.string_at(id(number) + HEAD, 16) == np.array(number).tobytes(),
        "NumPy scalars": all(
            ctypes.string_at(id(x) + HEAD, x.nbytes) == x.tobytes() for x in scalars
        ),
        "NumPy's functions": _table()[_ARRAY_TYPE] == id(np.ndarray),
        "NumPy's interface": ctypes.CFUNCTYPE(ctypes.c_uint)(_table()[0])() >> 24 == 2,
    }
    wrong = [name for name, holds in facts.items() if not holds]
    if wrong:
        raise NativeError(f"native code: memory is laid out in another way: {', '.join(wrong)}")


def takes_calls() -> bool:
    """Whether the objects that calls are made of lie in memory as this package believes.

    If not, calls are left to Python, which gives programs their raw values.
    """
    array = np.zeros((3, 5), np.float32)
    sizes = _read(id(array) + ARRAY_SIZES)
    return all(
        [
            [_read(id(x) + HEAD) for x in ((array, 2.5), {"a": 1, "b": 2})] == [2, 2],
            _read(id(array) + ARRAY_RANK, ctypes.c_int) == 2,
            _read(id(array) + ARRAY_DTYPE) == id(array.dtype),
            [_read(sizes + 8 * k) for k in range(2)] == [3, 5],
            None not in _FIELDS.values(),
        ]
    )


def field_offset(owner: object, name: str) -> int:
    """Where an attribute is, in bytes from its owner: a function, a cell, or one with one slot."""
    return _FIELDS.get((type(owner), name)) or HEAD


def _fields() -> Mapping[tuple[type[Any], str], int | None]:
    def example(x: float = 2.5, *, y: float = 1.5) -> float:
        return x + y

    names = ("__code__", "__defaults__", "__kwdefaults__")
    holders = [(example, name) for name in names] + [(CellType(example), "cell_contents")]
    return {(type(holder), name): _offset(holder, name) for holder, name in holders}


def _offset(holder: object, name: str) -> int | None:
    address, value = id(holder), id(getattr(holder, name))
    offsets = range(HEAD, type(holder).__basicsize__, 8)
    return next((offset for offset in offsets if _read(address + offset) == value), None)


_FIELDS: Final = MappingProxyType(_fields())
"""Where attributes of functions and cells are; None if they are elsewhere."""


def _table() -> Any:
    """NumPy's C API, as extension modules get it."""
    api = ctypes.pythonapi
    pointer = api.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = pointer(sys.modules["numpy._core._multiarray_umath"]._ARRAY_API, None)
    return ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p))


def symbols() -> Mapping[str, int]:
    """The addresses of the functions of CPython and NumPy that code may call."""
    table = _table()
    # The process's one library, which has C's functions too: a new one is a cycle of objects.
    library = ctypes.pythonapi
    known = {
        name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
        for name in (*_FUNCTIONS, *_OF_C, *COPYING)
    }
    known["PyArray_Scalar"] = table[_SCALAR]
    known["PyArray_NewFromDescr"] = table[_NEW_FROM_DESCR]
    return known


class _UFunc(ctypes.Structure):
    """The public fields of a ufunc (numpy/ufuncobject.h)."""

    _fields_ = (
        ("head", ctypes.c_byte * HEAD),
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
        ("reserved", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("types", ctypes.POINTER(ctypes.c_byte)),
    )


def inner_loop(ufunc: np.ufunc, dtypes: tuple[np.dtype[Any], ...]) -> tuple[int, int] | None:
    """The address of a ufunc's inner loop for these dtypes, and its data; None if it has none.

    >>> inner_loop(np.sin, (np.dtype(np.float64), np.dtype(np.float64))) is None
    False
    >>> inner_loop(np.sin, (np.dtype(np.int8), np.dtype(np.int8))) is None
    True
    """
    fields = _UFunc.from_address(id(ufunc))
    if fields.nargs != ufunc.nargs or fields.ntypes != ufunc.ntypes:
        return None
    wanted = tuple([dtype.num for dtype in dtypes])
    for place in range(fields.ntypes):
        start = place * fields.nargs
        if tuple(fields.types[start : start + fields.nargs]) == wanted:
            return fields.functions[place], (fields.data and fields.data[place]) or 0
    return None

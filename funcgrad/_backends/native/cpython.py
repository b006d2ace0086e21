"""CPython's and NumPy's objects as they lie in memory, and the addresses of their functions.

Processor code reads arrays and numbers where they are, so the layout of these objects is checked on
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
"""The bytes of an object before its own fields: a count of references and a type."""

TUPLE_ITEMS: Final = tuple.__basicsize__
"""Where the items of a tuple begin."""

LIST_ITEMS: Final = HEAD + 8
"""Where the address of a list's items is."""

DENSE: Final = 0x101
"""The flags of an array that lies in C order, each number where the processor wants it."""

WRITABLE: Final = 0x501
"""The flags of such an array that may be written to."""

_FUNCTIONS: Final = (
    "PyComplex_FromDoubles",
    "PyContextVar_Get",
    "PyDict_GetItemWithError",
    "PyDict_New",
    "PyDict_SetItem",
    "PyDict_Size",
    "PyErr_CheckSignals",
    "PyErr_Clear",
    "PyErr_ExceptionMatches",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyErr_WriteUnraisable",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_FromDouble",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyList_New",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyBool_FromLong",
    "PyObject_CallNoArgs",
    "PyObject_GenericSetAttr",
    "PyObject_GetAttr",
    "PyObject_Vectorcall",
    "PyTuple_New",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)

_OF_C: Final = ("malloc", "realloc", "free", "fmod", "fmodf")

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
_ARRAY_TYPE, _SCALAR, _NEW_FROM_DESCR, _EMPTY = 2, 60, 94, 184


class NativeError(FuncgradError):
    """A program cannot be compiled to machine code."""


class ArrayLayout:
    """Where the fields of an ndarray are, in bytes from its address."""

    data: Final = HEAD
    rank: Final = HEAD + 8
    dimensions: Final = HEAD + 16
    descr: Final = HEAD + 40
    flags: Final = HEAD + 48


def _read(address: int, kind: Any = ctypes.c_void_p) -> Any:
    return kind.from_address(address).value


def checked() -> None:
    """Check that objects lie in memory as this package believes.

    No version of an interpreter is asked for, since that is all the proof there is to have: each
    field that machine code reads is found here in a live object, or by ``offset_of``; what else it
    uses are functions of CPython's stable interface, by their names, and of NumPy's, by its number.

    Raises
    ------
    NativeError
        They do not: this is another interpreter, or another version of NumPy.
    """
    array = np.zeros((3, 5), np.float32)
    at = id(array)
    items, pair = [array], (array, 2.5)
    scalars = [np.dtype(code).type(1) for code in "?bhilqBHILQefdFD"]
    append, slotted, number = items.append, _Slotted(array), complex(2.5, -1.5)
    facts = {
        "the interpreter is CPython": ctypes.sizeof(ctypes.c_void_p) == 8,
        "one thread runs Python's code at a time": getattr(sys, "_is_gil_enabled", lambda: True)(),
        "an object's type": _read(at + HEAD - 8) == id(np.ndarray),
        "an array's data": _read(at + ArrayLayout.data) == array.ctypes.data,
        "an array's rank": _read(at + ArrayLayout.rank, ctypes.c_int) == 2,
        "an array's dtype": _read(at + ArrayLayout.descr) == id(array.dtype),
        "an array's flags": [
            _read(id(other) + ArrayLayout.flags, ctypes.c_int) & WRITABLE
            for other in (array, array.T, np.broadcast_to(array, (3, 5)))
        ]
        == [WRITABLE, WRITABLE - 1, DENSE],
        "a slot": _read(id(slotted) + HEAD) == at,
        "an array's shape": _read(_read(at + ArrayLayout.dimensions) + 8) == 5,
        "a tuple's size": _read(id(pair) + HEAD) == 2,
        "a tuple's items": _read(id(pair) + TUPLE_ITEMS) == at,
        "a list's size": _read(id(items) + HEAD) == 1,
        "a list's items": _read(_read(id(items) + LIST_ITEMS)) == at,
        "a builtin's self": _read(id(append) + HEAD + 8) == id(items),
        "a builtin's definition": _read(_read(id(append) + HEAD), ctypes.c_char_p) == b"append",
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


class _Slotted:
    """A class with one slot, as jitted functions have."""

    __slots__ = ("__dict__", "__weakref__", "slot")

    def __init__(self, value: object) -> None:
        self.slot = value


class _MemberDefinition(ctypes.Structure):
    """CPython's PyMemberDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class _TypeSlot(ctypes.Structure):
    """CPython's PyType_Slot."""

    _fields_ = (("number", ctypes.c_int), ("content", ctypes.c_void_p))


class _TypeSpec(ctypes.Structure):
    """CPython's PyType_Spec."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("size", ctypes.c_int),
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_TypeSlot)),
    )


def _directly_callable(kind: type[Any]) -> type[Any]:
    """The subclass of a class whose instances have room for the code that calls them.

    It is a class of the kind that PEP 590 describes. Until an instance has code, it is called as
    those of the class are.
    """
    size = kind.__basicsize__
    members = (_MemberDefinition * 2)(
        _MemberDefinition(b"__vectorcalloffset__", 19, size, 1, None), _MemberDefinition()
    )
    content = ctypes.cast(members, ctypes.c_void_p)
    slots = (_TypeSlot * 2)(_TypeSlot(72, content), _TypeSlot())  # 72 is Py_tp_members
    name = f"{kind.__module__}.{kind.__qualname__}".encode()
    spec = _TypeSpec(name, size + 8, 0, 1 << 11, slots)  # Py_TPFLAGS_HAVE_VECTORCALL
    make = ctypes.pythonapi.PyType_FromSpecWithBases
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object]
    made: type[Any] = make(ctypes.addressof(spec), (kind,))
    made.__doc__ = kind.__doc__
    made._definitions = members, name  # which CPython refers to as long as the class lives
    return made


class _DirectClasses:
    """Subclasses whose instances have room for the code that calls them, by the class."""

    def __init__(self) -> None:
        self._made: dict[type[Any], type[Any]] = {}

    def of(self, kind: type[Any]) -> type[Any]:
        """The subclass of a class, made once."""
        if kind not in self._made:
            self._made.setdefault(kind, _directly_callable(kind))
        return self._made[kind]


DIRECT_CLASSES: Final = _DirectClasses()


def choose_code(instance: object, address: int) -> None:
    """Set the code that calls an instance of a class that ``DIRECT_CLASSES`` has made."""
    offset = type(instance).__basicsize__ - 8
    ctypes.c_void_p.from_address(id(instance) + offset).value = address


def offset_of(holder: object, value: object) -> int:
    """Where a slot of an object is, in bytes from its address, by the value that is in it.

    Raises
    ------
    NativeError
        The value is in no slot.
    """
    for offset in range(HEAD, type(holder).__basicsize__, 8):
        if _read(id(holder) + offset) == id(value):
            return offset
    raise NativeError(f"native code: slots of {type(holder).__name__} lie elsewhere")


def _fields() -> Mapping[str, int]:
    def example(x: float = 2.5, *, y: float = 1.5) -> float:
        return x + y

    names = ("__code__", "__defaults__", "__kwdefaults__")
    cell = CellType(example)
    offsets = {name: offset_of(example, getattr(example, name)) for name in names}
    return MappingProxyType({**offsets, "cell_contents": offset_of(cell, example)})


FIELDS: Final = _fields()
"""Where attributes of functions and cells are, in bytes from the object's address."""


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
    known["PyArray_Empty"] = table[_EMPTY]
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

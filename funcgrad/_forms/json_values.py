"""Write static values as JSON, and read them.

Parameters of operations, keys of dicts and static fields are *static values*. Some exist in JSON;
the others become objects with the name of their type::

    1.5, 2, True, None, "ij"     themselves
    (0, 1)                       [0, 1]
    -inf, nan, 2 + 1j            {"float": "fff0000000000000"}, {"complex": [2.0, 1.0]}
    slice(1, None), ...          {"slice": [1, null, null]}, {"ellipsis": true}
    Key((0, None))               {"key": [0, null]}
    np.dtype("f"), np.int8(1)    {"dtype": "float32"}, {"scalar": "AQ==", "dtype": "int8"}
    b"x"                         {"bytes": "eA=="}
    Color.RED                    {"enum": "module:Color", "member": "RED"}
    Point(1, 2), a named tuple   {"namedtuple": "module:Point", "items": [1, 2]}
    a class or a function        {"reference": "module:name"}
    an object of a class with    {"made": "module:Class", "of": [1, 2]}
    ``__static_parts__``

``place`` describes where a value is in the program, for error messages.

>>> from_data(to_data((1, -0.0, slice(None, 2)), "here"), "here")
(1, -0.0, slice(None, 2, None))
"""

from __future__ import annotations

import binascii
import pkgutil
import struct
from collections.abc import Callable, Mapping
from enum import Enum
from math import isfinite, prod
from types import EllipsisType, FunctionType, MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from funcgrad._core.specs import DTYPES
from funcgrad._core.trace import RAW, Raw
from funcgrad._primitives.index_keys import Key
from funcgrad.errors import ProgramError

T = TypeVar("T")

Data: TypeAlias = Any
"""A JSON value: None, bool, int, float, str, or a list or dict of them."""

_WORDS: Final[Mapping[type[Any], str]] = MappingProxyType(
    {
        bool: "true or false",
        dict: "an object",
        float: "a number",
        int: "a whole number",
        list: "a list",
        str: "a text",
    }
)
DTYPE_NAMES: Final = frozenset(dtype.name for dtype in DTYPES)


# ------------------------------------------------------------------------------------ to JSON


def to_data(value: Any, place: str) -> Data:
    """Write a static value as JSON.

    Raises
    ------
    ProgramError
        The value has no JSON form.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if isfinite(value) else {"float": struct.pack(">d", value).hex()}
    if kind is tuple:
        return [to_data(member, place) for member in value]
    if kind in _WRITERS:
        return _WRITERS[kind](value, place)
    if isinstance(value, np.dtype) and value in DTYPES:
        return {"dtype": value.name}
    if isinstance(value, np.generic) and kind in RAW:
        return {"scalar": to_base64(bytes_of(value)), "dtype": value.dtype.name}
    if isinstance(value, Enum):
        return _enum_data(value, place)
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        items = [to_data(member, place) for member in value]
        return {"namedtuple": reference_to(kind, place), "items": items}
    parts: Callable[[], Any] | None = getattr(value, "__static_parts__", None)
    if parts is not None and not isinstance(value, type):
        return {"made": reference_to(kind, place), "of": to_data(parts(), place)}
    if isinstance(value, (type, FunctionType)):
        return {"reference": reference_to(value, place)}
    raise ProgramError(
        f"{place}: a value of the type {kind.__qualname__} cannot be saved. Static parts of a"
        " saved program can be numbers, texts, tuples, dtypes, keys, enums, named tuples, and"
        " classes and functions defined in modules."
    )


def _enum_data(value: Enum, place: str) -> Data:
    kind = type(value)
    if kind.__members__.get(value.name) is not value:
        raise ProgramError(f"{place}: {value!r} has no name, and cannot be saved.")
    return {"enum": reference_to(kind, place), "member": value.name}


_WRITERS: Final[Mapping[type[Any], Callable[[Any, str], Data]]] = MappingProxyType(
    {
        complex: lambda value, place: {"complex": to_data((value.real, value.imag), place)},
        slice: lambda value, place: {
            "slice": to_data((value.start, value.stop, value.step), place)
        },
        Key: lambda value, place: {"key": to_data(tuple(value), place)},
        EllipsisType: lambda value, place: {"ellipsis": True},
        bytes: lambda value, place: {"bytes": to_base64(value)},
    }
)


def reference_to(value: Any, place: str) -> str:
    """The module and the name of a class or a function, by which ``named`` finds it.

    Raises
    ------
    ProgramError
        It has no such name, for example because it is defined inside a function.
    """
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    text = f"{module}:{name}"
    try:
        resolved = pkgutil.resolve_name(text)
    except (AttributeError, ImportError, ValueError):
        resolved = None
    if resolved is not value:
        raise ProgramError(
            f"{place}: {name} of the module {module} cannot be saved, since a file can only name"
            " objects at the top level of a module. Define it there."
        )
    return text


def to_base64(data: bytes) -> str:
    """Encode bytes as base64 text."""
    return binascii.b2a_base64(data, newline=False).decode()


def bytes_of(value: Raw) -> bytes:
    """The bytes of a NumPy value: little-endian, in C order."""
    return np.asarray(value, value.dtype.newbyteorder("<")).tobytes()


# ---------------------------------------------------------------------------------- from JSON


def from_data(data: Data, place: str) -> Any:
    """Read a static value that ``to_data`` wrote.

    Raises
    ------
    ProgramError
        ``to_data`` never writes such data.
    """
    if data is None or type(data) in (bool, int, float, str):
        return data
    if type(data) is list:
        return tuple([from_data(member, place) for member in data])
    known = next((kind for kind in _READERS if kind in data), None)
    if known is None:
        raise ProgramError(f"{place}: {_shown(data)} is not a static value.")
    try:
        return _READERS[known](data, place)
    except (struct.error, ValueError, TypeError) as error:
        if isinstance(error, ProgramError):
            raise
        raise ProgramError(f"{place}: {_shown(data)} is not a valid {known}: {error}.") from None


def _float(data: Data, place: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(read(data, "float", str, place)))
    return float(value)


def _complex(data: Data, place: str) -> complex:
    real, imag = from_data(read(data, "complex", list, place), place)
    if not type(real) is type(imag) is float:
        raise TypeError("its parts are not two floats")
    return complex(real, imag)


def _slice(data: Data, place: str) -> slice:
    start, stop, step = from_data(read(data, "slice", list, place), place)
    return slice(start, stop, step)


def _dtype(data: Data, place: str) -> np.dtype[Any]:
    name = read(data, "dtype", str, place)
    if name not in DTYPE_NAMES:
        raise ProgramError(f"{place}: {name!r} is not a dtype of tensors.")
    return np.dtype(name)


def _scalar(data: Data, place: str) -> Any:
    stored = from_base64(read(data, "scalar", str, place), place)
    return array_of(stored, (), _dtype(data, place), place)[()]


def _enum(data: Data, place: str) -> Any:
    kind = named(read(data, "enum", str, place), place)
    member = read(data, "member", str, place)
    if not (isinstance(kind, type) and issubclass(kind, Enum) and member in kind.__members__):
        raise ProgramError(f"{place}: {data['enum']} is not an enum with a member {member!r}.")
    return kind[member]


def _namedtuple(data: Data, place: str) -> Any:
    kind = named(read(data, "namedtuple", str, place), place)
    items = from_data(read(data, "items", list, place), place)
    fields = getattr(kind, "_fields", None)
    if not (isinstance(kind, type) and issubclass(kind, tuple) and fields is not None):
        raise ProgramError(f"{place}: {data['namedtuple']} is not a named tuple.")
    if len(items) != len(fields):
        raise ProgramError(
            f"{place}: {kind.__qualname__} has {len(fields)} fields now, and had"
            f" {len(items)} when the program was saved."
        )
    return tuple.__new__(kind, items)


def _made(data: Data, place: str) -> Any:
    kind = named(read(data, "made", str, place), place)
    if not (isinstance(kind, type) and hasattr(kind, "__of_static_parts__")):
        raise ProgramError(f"{place}: {data['made']} is not made of static parts.")
    return kind.__of_static_parts__(from_data(data.get("of"), place))


_READERS: Final[Mapping[str, Callable[[Data, str], Any]]] = MappingProxyType(
    {
        "float": _float,
        "complex": _complex,
        "slice": _slice,
        "key": lambda data, place: Key(from_data(read(data, "key", list, place), place)),
        "ellipsis": lambda data, place: ...,
        "scalar": _scalar,  # before the dtype, which it also has
        "dtype": _dtype,
        "bytes": lambda data, place: from_base64(read(data, "bytes", str, place), place),
        "enum": _enum,
        "namedtuple": _namedtuple,
        "made": _made,
        "reference": lambda data, place: named(read(data, "reference", str, place), place),
    }
)


def named(reference: str, place: str) -> Any:
    """Import a module, and return its object with a name.

    Raises
    ------
    ProgramError
        The module or the object does not exist.
    """
    module, colon, name = reference.partition(":")
    if not (module and colon and name):
        raise ProgramError(f"{place}: {reference!r} is not a module and a name.")
    try:
        return pkgutil.resolve_name(reference)
    except Exception as error:  # a module may fail in any way when it is imported
        raise ProgramError(
            f"{place}: {name} cannot be imported from the module {module}: {error!r}."
        ) from error


def from_base64(text: str, place: str) -> bytes:
    """Decode base64 text."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise ProgramError(f"{place}: {_shown(text)} is not base64: {error}.") from None


def array_of(
    stored: bytes, shape: tuple[int, ...], dtype: np.dtype[Any], place: str
) -> np.ndarray[Any, Any]:
    """Make a read-only array of stored bytes."""
    size = dtype.itemsize * prod(shape)
    if len(stored) != size:
        raise ProgramError(
            f"{place}: {dtype}[{','.join(map(str, shape))}] takes {size} bytes, and there are"
            f" {len(stored)}."
        )
    if dtype == np.bool_ and stored.strip(b"\x00\x01"):
        raise ProgramError(f"{place}: a byte of a boolean is neither 0 nor 1.")
    order = dtype.newbyteorder("<")
    if order != dtype:
        stored = np.frombuffer(stored, order).astype(dtype).tobytes()
    try:
        return np.ndarray(shape, dtype, stored)
    except ValueError as error:  # empty, but with sizes beyond the address space
        raise ProgramError(f"{place}: {error}.") from None


def read(record: Data, name: str, kind: type[Any], place: str) -> Any:
    """Read an entry of an object and check its type.

    Raises
    ------
    ProgramError
        The entry is missing, or has another type.
    """
    if type(record) is not dict:
        raise ProgramError(f"{place}: expected an object, got {_shown(record)}.")
    if name not in record:
        raise ProgramError(f"{place}: {name!r} is missing.")
    if type(record[name]) is not kind:
        raise ProgramError(f"{place}: {name!r} is {_shown(record[name])}, not {_WORDS[kind]}.")
    return record[name]


def optional(record: Data, name: str, default: T, place: str) -> T:
    """Read an entry of the type of the default; a missing entry is the default."""
    return read(record, name, type(default), place) if name in record else default


def listed(record: Data, name: str, kind: type[Any], place: str) -> tuple[Any, ...]:
    """Read an entry that is a list, and check the types of its items."""
    items = read(record, name, list, place)
    for item in items:
        if type(item) is not kind:
            raise ProgramError(f"{place}: {name!r} has {_shown(item)} in it, not {_WORDS[kind]}.")
    return tuple(items)


def _shown(data: Data) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."

"""Records as text: arrays by their dtypes and shapes, functions by their names.

>>> import numpy as np
>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Layer:
...     weight: np.ndarray
...     rate: float
...     parts: tuple = ()
>>> record_text(Layer(np.zeros((2, 3)), 0.5, (np.tanh,)))
'Layer(weight=f64[2,3], rate=0.5, parts=(tanh,))'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np

_WIDTH: Final = 88

_INDENT: Final = "  "


def record_text(record: object) -> str:
    """A record with its fields, on one line if they fit, else on a line each."""
    return _record(record, "", "")


def call_text(name: str, arguments: Sequence[tuple[str, object]]) -> str:
    """A call with its arguments; those without a name are given by position."""
    return _wrapped(f"{name}(", ")", arguments, "", "")


def spec_text(dtype: np.dtype[np.generic], shape: Sequence[int]) -> str:
    """The dtype and the shape of an array.

    >>> import numpy as np
    >>> spec_text(np.dtype(np.float32), (64, 20)), spec_text(np.dtype(bool), (3,))
    ('f32[64,20]', 'bool[3]')
    """
    name = "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
    return f"{name}[{','.join(map(str, shape))}]"


def _record(record: object, before: str, indent: str) -> str:
    names = [field.name for field in fields(record) if field.repr]  # type: ignore[arg-type]  # a dataclass
    shown = [(name, getattr(record, name, None)) for name in names]
    return _wrapped(f"{type(record).__qualname__}(", ")", shown, before, indent)


def _text(value: object, before: str, indent: str) -> str:
    """A value that stands behind some text on its line."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and shape and dtype is not None and hasattr(dtype, "itemsize"):
        return spec_text(dtype, shape)
    if type(value).__repr__ is REPR:
        return _record(value, before, indent)
    if type(value) is dict:
        keyed = [("", _KeyedValue(key, child)) for key, child in value.items()]
        return _wrapped("{", "}", keyed, before, indent)
    if type(value) is list:
        return _wrapped("[", "]", [("", child) for child in value], before, indent)
    if type(value) is tuple:
        last = ",)" if len(value) == 1 else ")"
        return _wrapped("(", last, [("", child) for child in value], before, indent)
    if type(value) is _KeyedValue:
        key = f"{value.key!r}: "
        return key + _text(value.value, before + key, indent)
    name = getattr(value, "__name__", None)
    return name if callable(value) and isinstance(name, str) else repr(value)


class _KeyedValue:
    """An item of a dict."""

    __slots__ = ("key", "value")

    def __init__(self, key: object, value: object) -> None:
        self.key = key
        self.value = value


def _wrapped(
    first: str, last: str, items: Sequence[tuple[str, object]], before: str, indent: str
) -> str:
    """Items between two texts."""
    named = [(f"{name}=" if name else "", value) for name, value in items]
    line = first + ", ".join([name + _text(value, "", "") for name, value in named]) + last
    if len(before) + len(indent) + len(line) <= _WIDTH and "\n" not in line:
        return line
    deeper = indent + _INDENT
    lines = [f"{deeper}{name}{_text(value, name, deeper)}" for name, value in named]
    return "\n".join([first, *[f"{text}," for text in lines], indent + last.removeprefix(",")])


def _repr_of_records(self: object) -> str:
    return record_text(self)


REPR: Final = _repr_of_records
"""The ``__repr__`` of records whose fields may be arrays."""

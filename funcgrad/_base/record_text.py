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
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    import numpy as np

_WIDTH: Final = 88

_INDENT: Final = "  "


Parts: TypeAlias = "tuple[str, list[tuple[str, object]], str]"
"""The opening text, the values with their labels, and the closing text."""


def record_text(record: object) -> str:
    """A record with its fields, on one line if they fit, else one field a line."""
    return _wrapped(_record(record), "", "")


def call_text(name: str, arguments: Sequence[tuple[str, object]]) -> str:
    """A call with its arguments; arguments without a name are positional."""
    return _wrapped(_call(name, arguments), "", "")


def spec_text(dtype: np.dtype[np.generic], shape: Sequence[int]) -> str:
    """The dtype and the shape of an array.

    >>> import numpy as np
    >>> spec_text(np.dtype(np.float32), (64, 20)), spec_text(np.dtype(bool), (3,))
    ('f32[64,20]', 'bool[3]')
    """
    name = "bool" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"
    return f"{name}[{','.join(map(str, shape))}]"


def _record(record: object) -> Parts:
    names = [field.name for field in fields(record) if field.repr]  # type: ignore[arg-type]  # a dataclass
    return _call(type(record).__qualname__, [(name, getattr(record, name, None)) for name in names])


def _call(name: str, arguments: Sequence[tuple[str, object]]) -> Parts:
    return f"{name}(", [(f"{key}=" if key else "", value) for key, value in arguments], ")"


def _parts(value: object) -> Parts | str:
    """The parts of a value, or its text if it has none."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(shape, tuple) and shape and dtype is not None and hasattr(dtype, "itemsize"):
        return spec_text(dtype, shape)
    if type(value).__repr__ is REPR:
        return _record(value)
    if isinstance(value, dict) and type(value) is dict:
        return "{", [(f"{key!r}: ", child) for key, child in value.items()], "}"
    if isinstance(value, list) and type(value) is list:
        return "[", [("", child) for child in value], "]"
    if isinstance(value, tuple) and type(value) is tuple:
        return "(", [("", child) for child in value], ",)" if len(value) == 1 else ")"
    name = getattr(value, "__name__", None)
    return name if callable(value) and isinstance(name, str) else repr(value)


def _on_a_line(parts: Parts | str) -> str:
    if isinstance(parts, str):
        return parts
    first, items, last = parts
    return first + ", ".join([label + _on_a_line(_parts(child)) for label, child in items]) + last


def _wrapped(parts: Parts | str, before: str, indent: str) -> str:
    """A value that follows some text on its line."""
    line = _on_a_line(parts)
    if isinstance(parts, str) or (len(before + indent + line) <= _WIDTH and "\n" not in line):
        return line
    first, items, last = parts
    deeper = indent + _INDENT
    lines = [f"{deeper}{label}{_wrapped(_parts(x), label, deeper)}," for label, x in items]
    return "\n".join([first, *lines, indent + last.removeprefix(",")])


def _repr_of_records(self: object) -> str:
    return record_text(self)


REPR: Final = _repr_of_records
"""The ``__repr__`` of records whose fields may be arrays."""

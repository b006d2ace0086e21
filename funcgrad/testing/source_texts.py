"""Points as Python code, so that a report ends with an example that can be pasted.

>>> import numpy as np
>>> _written({"w": np.array([0.5, 1.25]), "n": 3})
"{'w': np.array([0.5, 1.25]), 'n': 3}"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import DTYPES
from funcgrad.tensor.tensor import Tensor

_MOST_ELEMENTS: Final = 64
_NATURAL: Final = frozenset({np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_)})


def _written(value: object) -> str:
    """Return a value as an expression; long arrays and unknown objects become comments."""
    if isinstance(value, Tensor):
        return _array(np.asarray(value), "fg.tensor")
    if isinstance(value, np.ndarray):
        return _array(value, "np.array")
    if isinstance(value, np.generic) and value.dtype in DTYPES:
        return f"np.{value.dtype.name}({_numbers(value.item())})"
    if isinstance(value, (bool, int, float, complex)):
        return _numbers(value)
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key!r}: {_written(item)}" for key, item in value.items()]) + "}"
    names = getattr(value, "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return _call(type(value).__name__, names, value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(map(_written, value))
        if isinstance(value, list):
            return f"[{inside}]"
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return _call(type(value).__name__, names, [getattr(value, name) for name in names])
    return repr(value)


def _call(name: str, names: Sequence[str], values: Sequence[Any]) -> str:
    inside = [f"{key}={_written(value)}" for key, value in zip(names, values, strict=True)]
    return f"{name}({', '.join(inside)})"


def _array(array: np.ndarray[Any, Any], maker: str) -> str:
    if array.size > _MOST_ELEMENTS:
        return f"...  # {array.dtype} of shape {array.shape}"
    if not array.size and array.ndim > 1:
        return f"{maker}(np.zeros({array.shape}, {array.dtype.name!r}))"
    dtype = "" if array.dtype in _NATURAL and array.size else f", {array.dtype.name!r}"
    return f"{maker}({_numbers(array.tolist())}{dtype})"


def _numbers(value: object) -> str:
    return repr(value).replace("nan", "np.nan").replace("inf", "np.inf")


def example_text(law: str, f: Callable[..., Any], args: Sequence[Any], seed: int) -> list[str]:
    """Return the lines of code that repeat a law at a point.

    The source of functions made by ``strategies.functions`` comes first.
    """
    source = getattr(f, "source", None)
    name = getattr(f, "__name__", "f")
    name = name if name.isidentifier() else "f"
    return [
        "to repeat it:",
        "    import numpy as np",
        "    import funcgrad as fg",
        "    from funcgrad.testing import laws",
        *([f"    {line}" for line in source.splitlines()] if isinstance(source, str) else []),
        f"    {law}({name}, {_written(tuple(args))}, seed={seed})",
    ]

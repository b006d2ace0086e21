"""Values that no parameter is meant for, made anew for each call: iterators run out.

>>> len(odd_values()) > 40
True
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

import funcgrad as fg


class Plain:
    """An object that is nothing in particular."""


class Refuses:
    """An object that says it were an array, and is none."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no array today")


class Subclass(float):
    """A number of a class of the user's."""


def _deep(depth: int) -> list[Any]:
    nested: list[Any] = [1.0]
    for _ in range(depth):
        nested = [nested]
    return nested


def odd_values() -> dict[str, Callable[[], Any]]:
    """By name, functions that make an odd value."""
    found: dict[str, Callable[[], Any]] = {
        "none": lambda: None,
        "digit": lambda: "3",
        "word": lambda: "abc",
        "no text": lambda: "",
        "bytes": lambda: b"3",
        "no list": list,
        "no tuple": lambda: (),
        "ragged": lambda: [[1.0, 2.0], [3.0]],
        "nested": lambda: [[1, 2], [3, 4]],
        "nested tuple": lambda: ((1, 2), (3, 4)),
        "texts": lambda: ["a", "b"],
        "list of none": lambda: [None, None],
        "deep": lambda: _deep(70),
        "huge": lambda: 2**62,
        "hugely negative": lambda: -(2**62),
        "beyond": lambda: 10**30,
        "beyond below": lambda: -(10**30),
        "negative": lambda: -1,
        "zero": lambda: 0,
        "large": lambda: 99,
        "fraction": lambda: 1.7,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "complex": lambda: 1 + 2j,
        "true": lambda: True,
        "false": lambda: False,
        "set": lambda: {1, 2},
        "dict": lambda: {"a": 1},
        "rational": lambda: Fraction(1, 2),
        "decimal": lambda: Decimal("1.5"),
        "object": Plain,
        "refuses": Refuses,
        "subclass": lambda: Subclass(1.5),
        "function": lambda: lambda *args: 0,
        "class": lambda: Plain,
        "module": lambda: np,
        "generator": lambda: (n for n in (1, 2)),
        "iterator": lambda: iter([1, 2]),
        "range": lambda: range(2),
        "slice": lambda: slice(1),
        "ellipsis": lambda: ...,
        "date": lambda: date(2020, 1, 1),
        "structured": lambda: np.zeros(2, [("a", "f8"), ("b", "i4")]),
        "objects": lambda: np.array([Plain(), None], object),
        "times": lambda: np.array(["2020-01-01"], "datetime64[D]"),
        "strings": lambda: np.array(["a", "b"]),
        "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        "extended": lambda: np.longdouble(1.5),
        "empty": lambda: np.zeros((0, 3)),
        "five axes": lambda: np.zeros((1, 1, 1, 1, 2)),
        "fractions": lambda: np.array([0.5, 1.5]),
        "booleans": lambda: np.array([True, False]),
        "imaginary": lambda: np.array([1j, 2.0]),
        "unsigned": lambda: np.array([3, 200], np.uint8),
        "tensor": lambda: fg.tensor([1.5, 2.5]),
        "number": lambda: fg.tensor(2),
        "list of tensors": lambda: [fg.tensor(1.0), fg.tensor([2.0])],
        "dtype": lambda: np.dtype("S3"),
        "memory": lambda: memoryview(b"ab"),
    }
    if importlib.util.find_spec("pandas"):
        pd = importlib.import_module("pandas")
        found["series"] = lambda: pd.Series([1.0, 2.0], index=["a", "b"])
        found["frame"] = lambda: pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    return found

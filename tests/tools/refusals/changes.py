"""Replacements of an argument: other kinds, other ranks, nothing, and several values.

>>> changes(np.ones((2, 3)))["an axis less"]
array([1., 1., 1.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg


def _first(*args: Any, **kwargs: Any) -> Any:
    """A function that takes anything."""
    return args[0] if args else 0.0


def changes(argument: Any) -> dict[str, Any]:
    """Values for the place of an argument, by what they are."""
    values = {**_NUMBERS, **_OBJECTS, **_arrays(), **_sequences()}
    if not isinstance(argument, Callable):  # type: ignore[arg-type]  # which it can tell
        values["function"] = _first  # another one may never come to an end
    return {**values, **(_variants(argument) if isinstance(argument, np.ndarray) else {})}


_NUMBERS = {
    "true": True,
    "zero": 0,
    "two": 2,
    "negative": -1,
    "fraction": 1.5,
    "complex": 1 + 2j,
    "NaN": float("nan"),
}
_OBJECTS = {
    "none": None,
    "word": "abc",
    "no text": "",
    "dict": {"a": 1.0},
    "no dict": {},
    "set": {1.0},
    "slice": slice(1),
    "ellipsis": ...,
    "object": object(),
}


def _sequences() -> dict[str, Any]:
    return {
        "no list": [],
        "no tuple": (),
        "a list of no list": [[]],
        "texts": ["a"],
        "nothings": [None],
        "ragged": [[1.0, 2.0], [3.0]],
        "lists": [[1.0, 2.0], [3.0, 4.0]],
        "integers": [0, 1],
        "three": (1.0, 2.0, 3.0),
        "tensors": [fg.tensor(1.0), fg.tensor([2.0])],
    }


def _arrays() -> dict[str, Any]:
    shapes = ((0,), (0, 0), (0, 3), (2, 0), (2, 3, 0), (0, 2, 2), (2, 3), (2, 2, 2), (1, 1, 1, 2))
    return {
        **{f"of shape {shape}": np.ones(shape) for shape in shapes},
        "0-d": np.array(1.5),
        "pair": np.array([0.5, 1.5]),
        "square": np.array([[2.0, 1.0], [1.0, 3.0]]),
        "booleans": np.array([True, False]),
        "signed": np.array([1, 2]),
        "unsigned": np.array([1, 2], np.uint64),
        "half": np.array([1.0, 2.0], np.float16),
        "imaginary": np.array([1j, 2.0]),
        "objects": np.array([None, "a"], object),
        "strings": np.array(["a", "b"]),
        "structured": np.zeros(2, [("a", "f8"), ("b", "i4")]),
        "times": np.array(["2020-01-01"], "datetime64[D]"),
        "tensor": fg.tensor([1.5, 2.5]),
        "number": fg.tensor(2),
    }


def _variants(argument: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Almost the same array."""
    made: dict[str, Any] = {
        "an axis more": argument[None],
        "as integers": np.ones(argument.shape, int),
        "as booleans": np.ones(argument.shape, bool),
        "as NaN": np.full(argument.shape, np.nan),
    }
    if argument.ndim:
        made["an axis less"] = argument[0] if len(argument) else argument
        made["as a list"], made["as a tuple"] = argument.tolist(), tuple(argument.tolist())
        made["none of it"], made["none of a row"] = argument[:0], argument[..., :0]
    return made

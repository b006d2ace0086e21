"""Floating-point errors are silent in transformations, unless the user asks to be told."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together


def logarithm(x: Any) -> Any:
    return fnp.sum(fnp.log(x))


WAYS: dict[str, Callable[..., Any]] = {
    "machine code": fg.jit(logarithm),
    "NumPy's text": fg.jit(logarithm, backend="numpy"),
    "grad": fg.grad(logarithm),
    "jit of grad": fg.jit(fg.grad(logarithm)),
    "grad of jit": fg.grad(fg.jit(logarithm)),
    "vmap": lambda x: fg.vmap(logarithm)(x[None]),
    "program": fg.program(logarithm),
}


def told(f: Callable[..., Any]) -> bool:
    """Whether a call warns of a division by zero."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(np.zeros(3))
    return any("divide by zero" in str(warning.message) for warning in caught)


@together("way", WAYS)
def test_who_asks_for_warnings_gets_them(way: str) -> None:
    f = WAYS[way]
    for _ in range(4):  # entries and machine code take the later calls
        assert not told(f)
        with np.errstate(all="warn"):
            assert told(f)
        with np.errstate(all="warn", divide="ignore"):
            assert not told(f)
        with np.errstate(over="ignore"):  # NumPy warns of the others, which nobody has asked for
            assert not told(f)

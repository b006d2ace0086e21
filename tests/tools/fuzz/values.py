"""Random numbers for programs: of every dtype, with ties, zeros and infinities where asked."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

EDGES: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 1.0, np.inf, -np.inf)
"""What stands at edges: zeros of both signs, ties, infinities."""

_LARGEST: Final = {"e": 30.0, "f": 1e4, "F": 1e4}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, edges: bool = False) -> Any:
    """An array: floats around 1 of both signs, small integers, flags."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -3, 4, shape).astype(dtype)
    if edges:
        return np.asarray(rng.choice(EDGES, shape)).astype(dtype)
    tied = rng.random() < 0.15
    real = rng.choice([-1.5, -0.5, 0.25, 0.75, 1.0], shape) if tied else rng.normal(size=shape)
    if dtype.kind == "c":
        return np.asarray(real + 1j * rng.normal(size=shape)).astype(dtype)
    return np.asarray(real).astype(dtype)


def varied(rng: np.random.Generator, value: Any) -> Any:
    """Other numbers of the same kind: those that stand for indices stay in their range."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value
    if isinstance(value, (float, complex)):
        return value * float(rng.uniform(0.5, 1.5)) * (1 if rng.random() < 0.7 else -1)
    array = np.asarray(value)
    if array.dtype.kind in "biu":
        return np.roll(array, 1)
    factor = rng.uniform(0.5, 1.5, array.shape) * rng.choice([1, 1, 1, -1], array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(array * factor).astype(array.dtype)


def is_tame(value: Any, edges: bool = False, most: int = 200) -> bool:
    """Whether numbers are neither so large that all is lost beside them, nor, mostly, infinite."""
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return array.dtype.kind in "biu" and array.size <= most
    if array.size > most or array.ndim > 4:
        return False
    sizes = np.abs(array[np.isfinite(array)])
    if sizes.size < array.size and not edges:
        return False
    return not np.any(sizes > _LARGEST.get(array.dtype.char, 1e6))

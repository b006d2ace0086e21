"""Drawing arguments: arrays of every dtype, shape and kind of content, and what goes beside them.

What flows in is a seed; what flows out are arrays, axes and numbers such as users pass: mostly
valid, sometimes just beyond what is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KINDS = {"b": "?", "i": "bhil", "u": "BHIL", "f": "efd", "c": "FD"}
SHAPES: tuple[tuple[int, ...], ...] = (
    *[(), (0,), (1,), (2,), (5,), (7,), (2, 3), (3, 3), (1, 4), (0, 3), (2, 0)],
    *[(2, 3, 4), (3, 1, 2), (1, 1), (2, 2, 2)],
)


class Nested(list[Any]):
    """Nested lists for ours; NumPy gets the array, as some of its functions forget to convert."""


class Draw:
    """A source of arguments that gives the same ones for the same seed.

    Attributes
    ----------
    finite : bool
        Whether there are no infinities, no NaN, and no extreme integers among the numbers.
    """

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.finite = False

    def chance(self, share: float = 0.5) -> bool:
        """True so often."""
        return bool(self.rng.random() < share)

    def pick(self, *options: Any) -> Any:
        """One of several."""
        return options[int(self.rng.integers(len(options)))]

    def options(self, share: float = 0.5, /, **choices: Any) -> dict[str, Any]:
        """Keyword arguments, each there so often; the values are functions that draw."""
        return {name: choose() for name, choose in choices.items() if self.chance(share)}

    def flag(self) -> bool:
        """True or False."""
        return self.chance()

    # ------------------------------------------------------------------------------------ arrays

    def dtype(self, kinds: str = "biufc") -> np.dtype[Any]:
        """A dtype of one of some kinds; float64 and int64 more often than the others."""
        kind = self.pick(*kinds)
        return np.dtype(self.pick(*KINDS[kind], KINDS[kind][-1]))

    def target(self, *sources: Any) -> np.dtype[Any]:
        """A dtype to convert numbers to: integers only where there are no fractions and no NaN."""
        exact = all(np.asarray(source).dtype.kind in "biu" for source in sources)
        return self.dtype("biufc" if exact else "fc")

    def shape(self, low: int = 0, high: int = 3, empty: bool = True) -> tuple[int, ...]:
        """A shape of a number of axes."""
        fits = [s for s in SHAPES if low <= len(s) <= high and (empty or 0 not in s)]
        return tuple(self.pick(*fits))

    def numbers(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """Elements: few different ones, many, or the extremes of the dtype among others."""
        dtype = np.dtype(dtype)
        if dtype.kind == "c":
            part = np.dtype(dtype.char.lower())
            made = np.empty(shape, dtype)
            made.real, made.imag = self.numbers(part, shape), self.numbers(part, shape)
            return made
        low = 0 if dtype.kind in "bu" else -3
        if dtype.kind == "b":
            return self.rng.integers(0, 2, shape).astype(dtype)
        style = self.pick("ties", "plain", "extreme")
        if style == "extreme" and self.finite:
            style = "plain"
        if style == "ties":
            return self.rng.integers(low, 4, shape).astype(dtype)
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            if style == "plain":
                return self.rng.integers(max(low * 30, info.min), 100, shape).astype(dtype)
            pool = np.array([info.min, info.max, info.max - 1, 0, 1, 2, 3], dtype)
            return self.rng.choice(pool, shape)
        if style == "plain":
            return self.rng.normal(0, 2, shape).astype(dtype)
        special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.5, 2.0, 7.25]
        return self.rng.choice(np.array(special, dtype), shape)

    def ndarray(
        self, kinds: str = "biufc", shape: tuple[int, ...] | None = None, **limits: Any
    ) -> np.ndarray[Any, Any]:
        """An array, also of an unusual memory layout."""
        shape = self.shape(**limits) if shape is None else shape
        made = self.numbers(self.dtype(kinds), shape)
        if self.chance(0.15):
            return np.array(made, order="F")
        if self.chance(0.15) and shape:
            return made[(slice(None, None, -1),) * len(shape)]
        return made

    def array(
        self, kinds: str = "biufc", shape: tuple[int, ...] | None = None, **limits: Any
    ) -> Any:
        """Something like an array: also a NumPy scalar, a Python number, or nested lists."""
        made = self.ndarray(kinds, shape, **limits)
        if self.chance(0.12):
            return Nested(made.tolist()) if made.ndim else made.item()
        return made[()] if not made.ndim and self.chance() else made

    def number(self, kinds: str = "if") -> Any:
        """A Python number, a NumPy scalar or a 0-d array."""
        value = self.numbers(self.dtype(kinds), ())
        return self.pick(value, value[()], value.item(), value.item())

    def beside(self, shape: tuple[int, ...], kinds: str = "biufc") -> Any:
        """An array that broadcasts against a shape."""
        cut = shape[int(self.rng.integers(len(shape) + 1)) :]
        narrow = tuple([1 if self.chance(0.25) else n for n in cut])
        return self.array(kinds, narrow)

    def pair(self, kinds: str = "biufc", others: str | None = None, **limits: Any) -> Any:
        """Two arrays that broadcast, mostly."""
        first = self.array(kinds, **limits)
        if self.chance(0.04):
            return first, self.array(others or kinds)
        both = first, self.beside(np.shape(first), others or kinds)
        return both if self.chance(0.7) or others else both[::-1]

    def mask(self, shape: tuple[int, ...]) -> Any:
        """A mask that broadcasts to a shape."""
        return np.asarray(self.beside(shape, "b"), bool)

    # ---------------------------------------------------------------------- axes and other numbers

    def count(self, low: int = 0, high: int = 4) -> Any:
        """An integer, of Python's or of NumPy's kind."""
        value = int(self.rng.integers(low, high + 1))
        return self.pick(value, value, np.int64(value))

    def integer(self, low: int, high: int) -> int:
        """An integer of Python's kind; the upper bound is included."""
        return int(self.rng.integers(low, high + 1))

    def axis(self, x: Any, none: bool = True) -> Any:
        """An axis of an array, from either end; sometimes out of bounds."""
        rank = np.ndim(x)
        if none and self.chance(0.2):
            return None
        if self.chance(0.04) or not rank:
            return self.pick(0, -1, rank, -rank - 1)
        axis = self.integer(-rank, rank - 1)
        return self.pick(axis, axis, np.int64(axis))

    def axes(self, x: Any, none: bool = True) -> Any:
        """An axis, several, or all."""
        rank = np.ndim(x)
        if not rank or self.chance(0.6):
            return self.axis(x, none)
        if self.chance(0.04):
            return self.pick((0, 0), (0, rank))
        chosen = self.rng.permutation(rank)[: self.integer(0, rank)]
        return tuple([int(a) - rank * self.chance(0.3) for a in chosen])

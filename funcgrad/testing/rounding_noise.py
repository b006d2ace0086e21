"""Measure rounding errors, by computing results again with more rounding.

A transformation changes the result of every operation by some units in the last place, at random.
The scatter of the outcomes shows the rounding error, including cancellation and growth (Monte Carlo
arithmetic: Parker, "Monte Carlo arithmetic", University of California, 1997). Noise does not change
the error of a wrong rule.

>>> import numpy as np
>>> from funcgrad.numpy import cos
>>> rng = np.random.default_rng(0)
>>> with noise(rng) as follow:
...     moved = np.asarray(1 - cos(follow(np.array(1e-9))))
>>> 1e-17 < abs(moved) < 1e-14
np.True_
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Gather, Movement
from funcgrad._core.trace import Trace, Value, begin_level, bind, concrete
from funcgrad._transforms.tracer import Tracer
from funcgrad.testing.subject import Array

_ULPS: Final = 2.0


class _NoisyTrace(Trace):
    """Changes results of operations in their last places."""

    __slots__ = ("_rng",)
    title = "a measurement of rounding"
    has_numbers = True

    def __init__(self, level: int, rng: np.random.Generator) -> None:
        super().__init__(level)
        self._rng = rng

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        values = [concrete(self.inner(arg)) for arg in args]
        is_copy = isinstance(primitive.structure, Movement | Gather)
        is_copy = is_copy or primitive.form == "selecting"
        if not is_copy and primitive.form != "elementwise":  # it sums rounded values
            values = [self._moved(value) for value in values]
        out = bind(primitive, tuple(values), params)
        if not is_copy:
            several = isinstance(out, tuple)
            out = tuple([self._moved(y) for y in out]) if several else self._moved(out)
        return Tracer.around(self, out)

    def _moved(self, value: Value) -> Value:
        array = np.asarray(value)
        if array.dtype.kind not in "fc":
            return value
        limits = np.finfo(array.dtype)
        factor = 1 + self._signed(array.shape) * _ULPS * limits.eps
        moved = (array * factor).astype(array.dtype)
        moved = moved + (self._signed(array.shape) * (array != 0) * limits.smallest_subnormal)
        moved = moved.astype(array.dtype)
        return moved.item() if type(value) in (float, complex) else moved[()]

    def _signed(self, shape: tuple[int, ...]) -> Any:
        """Draw values of either sign, of magnitudes that hardly cancel."""
        return self._rng.choice([-1.0, 1.0], shape) * self._rng.uniform(0.5, 1.0, shape)


@contextmanager
def noise(rng: np.random.Generator) -> Iterator[Callable[[Array], Any]]:
    """Yield a function that follows arrays; results of followed arrays get noise."""
    with begin_level() as level:
        trace = _NoisyTrace(level, rng)
        yield lambda array: Tracer.around(trace, array)

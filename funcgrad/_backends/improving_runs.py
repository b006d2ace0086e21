"""A program that NumPy runs, and that is compiled to machine code with the same bits in time.

NumPy's code is made in some milliseconds, and machine code in a tenth of a second. So machine code
is made when NumPy's has run for as long.

>>> import funcgrad as fg
>>> run = ImprovingRun(fg.program(lambda x: x * x + 1.0)(2.0))
>>> run(3.0)
(10.0,)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, Final

import numpy as np

from funcgrad._backends.choice import machine_code_of
from funcgrad._backends.interface import Compiled
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program

_LONG: Final = 0.1
"""The seconds after which machine code is made."""


class ImprovingRun:
    """A function of raw values, with the same bits at every call.

    Parameters
    ----------
    prepared : Program
        See ``prepared_exactly``.
    """

    __slots__ = ("_fast", "_has_tried", "_plain", "_prepared", "_seconds")

    def __init__(self, prepared: Program) -> None:
        from funcgrad._backends.numpy.backend import compile_program

        self._prepared = prepared
        self._plain = compile_program(prepared, raises=False)
        self._fast: Compiled | None = None
        self._seconds = 0.0
        self._has_tried = False

    def __call__(self, *args: Raw) -> Sequence[Any] | None:
        fast = self._fast
        if fast is not None and _lie_in_c_order(args):
            return fast.run(*args)
        start = perf_counter()
        outs: Sequence[Any] | None = self._plain(*args)
        took = perf_counter() - start
        self._seconds += took
        if self._seconds > _LONG and not self._has_tried and _lie_in_c_order(args):
            self._has_tried = True  # first, so that no second thread tries as well
            with suppress(Exception):  # NumPy's code stays
                self._try(args, outs, took)
        return outs

    def _try(self, args: Sequence[Raw], outs: Sequence[Any] | None, took: float) -> None:
        """Take machine code from now on, if it is faster, and has the bits of these results."""
        compiled = machine_code_of(self._prepared)
        if compiled is None or outs is None or _bits(compiled.run(*args)) != _bits(outs):
            return
        start = perf_counter()
        compiled.run(*args)
        if perf_counter() - start < took:
            self._fast = compiled


def _bits(outs: Sequence[Any] | None) -> list[bytes]:
    return [np.asarray(out).tobytes() for out in outs or ()]


def _lie_in_c_order(args: Sequence[Raw]) -> bool:
    return all(not isinstance(x, np.ndarray) or x.flags.c_contiguous for x in args)

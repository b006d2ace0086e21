"""Specs and constants that many operations of a staged function share, each kept once.

>>> pool = ConstantPool()
>>> pool.spec(2.0) is pool.spec(3.0), pool.constant(2.0), pool.constant(3.0)
(True, 0, 1)
>>> [str(constant) for constant in pool.constants]
['2.0', '3.0']
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from funcgrad._core.specs import Spec
from funcgrad._core.trace import RAW, Value
from funcgrad._programs.equation import Constant, spec_inside


class ConstantPool:
    """The constants and the specs of an unfinished program.

    Attributes
    ----------
    constants : list of Constant
        Each once; twice where two threads have met it at once.
    """

    __slots__ = ("_constants", "_numbers", "_places", "_specs")

    def __init__(self) -> None:
        self._constants: dict[int, Constant] = {}
        self._places: dict[Hashable, int] = {}
        self._numbers: dict[int, int] = {}  # the same for numbers, by identity
        self._specs: dict[Any, tuple[Spec]] = {}

    @property
    def constants(self) -> list[Constant]:
        return list(self._constants.values())

    def spec(self, value: Value) -> tuple[Spec]:
        """The spec of a value, in a tuple: one object for all raw values of a kind."""
        if type(value) not in RAW:
            return (spec_inside(value),)
        # By the dtype's identity, which the spec keeps: not all that are equal are the same.
        is_array = type(value) is np.ndarray
        kind = (value.shape, id(value.dtype)) if is_array else type(value)
        shared = self._specs.get(kind)
        if shared is None:
            shared = self._specs[kind] = (spec_inside(value),)
        return shared

    def constant(self, value: Value) -> int:
        """The place of a value among the constants."""
        is_number = type(value) is not np.ndarray
        if is_number and id(value) in self._numbers:  # what a line of a loop says is one object
            return self._numbers[id(value)]
        constant = Constant(value)
        key = constant.in_memory
        place = self._places.get(key)
        if place is None:
            place = len(self._constants)
            while self._constants.setdefault(place, constant) is not constant:
                place += 1  # a function may use threads of its own, and one was faster
            self._places[key] = place
            if is_number:  # which the constant keeps, so that no other has its identity
                self._numbers[id(value)] = place
        return place

"""The first and second derivatives of functions of numbers, in every mode.

>>> import funcgrad.numpy as fnp
>>> found = Found(fnp.multiply, (np.array([2.0, 3.0]), np.array([5.0, 7.0])))
>>> found.first(1)["forward"], found.second(0, 1)["reverse over forward"]
(array([2., 3.]), array([1., 1.]))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import funcgrad as fg

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def pushed(function: Function, k: int) -> Function:
    """The derivative of an elementwise function with respect to operand k, by forward mode."""

    def derivative(*x: Any) -> Any:
        at = lambda each: function(*x[:k], each, *x[k + 1 :])  # noqa: E731
        return fg.jvp(at, (x[k],), (np.ones(np.shape(x[k])),))[1]

    return derivative


def pulled(function: Function, k: int) -> Function:
    """The derivative of an elementwise function with respect to operand k, by reverse mode."""

    def derivative(*x: Any) -> Any:
        out, pull = fg.vjp(lambda each: function(*x[:k], each, *x[k + 1 :]), x[k])
        return pull(np.ones(out.shape, out.dtype))[0]

    return derivative


@dataclass(frozen=True)
class Found:
    """Derivatives of an elementwise function at operands of one shape."""

    function: Function
    operands: tuple[Array, ...]

    def value(self) -> Array:
        return np.asarray(self.function(*self.operands))

    def first(self, k: int) -> dict[str, Array]:
        """The derivatives with respect to operand k, in both modes."""
        ways = {"forward": pushed(self.function, k), "reverse": pulled(self.function, k)}
        return self._computed(ways)

    def second(self, k: int, j: int) -> dict[str, Array]:
        """The derivatives with respect to k of those with respect to j, in nested modes."""
        forward, reverse = pushed(self.function, j), pulled(self.function, j)
        ways = {
            "forward over forward": pushed(forward, k),
            "forward over reverse": pushed(reverse, k),
            "reverse over forward": pulled(forward, k),
        }
        return self._computed(ways)

    def others(self) -> dict[str, tuple[Array, Array]]:
        """Values and slopes of the staged and the batched function, each with the expected ones."""
        function, slope = self.function, pulled(self.function, 0)

        def both(*x: Any) -> dict[str, Any]:
            return {"value": function(*x), "slope": slope(*x)}

        found, expected = {}, both(*self.operands)
        ways: dict[str, Function] = {"jit": fg.jit(both), "vmap": fg.vmap(both)}
        for way, other in ways.items():
            for name, own in other(*self.operands).items():
                found[f"{way} of {name}"] = np.asarray(own), np.asarray(expected[name])
        return found

    def _computed(self, ways: dict[str, Function]) -> dict[str, Array]:
        return {name: np.asarray(way(*self.operands)) for name, way in ways.items()}


def agree(first: Array, second: Array, rtol: float = 1e-9) -> Any:
    """Where numbers are nearly equal, equal infinities, or both NaN."""
    with np.errstate(all="ignore"):
        near = np.abs(first - second) <= rtol * np.abs(second)
    return near | (first == second) | (np.isnan(first) & np.isnan(second))

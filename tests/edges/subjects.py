"""Every public function of numbers, by its public name.

Functions of one or of two numbers are recognized by their results: they map arrays to an array of
the same shape, each element by itself. All others are functions of arrays.

>>> elementwise(1)["fnp.sqrt"] is fnp.sqrt, "fnp.sum" in elementwise(1)
(True, False)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy import special, stats
from funcgrad.scipy.stats.distributions import ContinuousDistribution, DiscreteDistribution
from tests.differential.compare import called

Function = Callable[..., Any]

AT_ENDS: Final = np.array([0.3, 0.45, 0.6])
"""Numbers in the domain of nearly every function."""

ROUNDED_TOGETHER: Final = frozenset(
    f"stats.{name}"
    for name in ("betabinom.logpmf", "betabinom.cdf", "vonmises.ppf", "vonmises.isf")
)
"""Methods of distributions whose last digits depend on the other elements."""


@cache
def functions() -> dict[str, Function]:
    """The public functions by the names that users write; one with several names comes once."""
    spaces = {"fnp": fnp, "fnp.linalg": fnp.linalg, "fnp.fft": fnp.fft, "nn": fg.nn}
    found: dict[str, Function] = {}
    known: set[int] = set()
    for path, space in {**spaces, "special": special}.items():
        for name in space.__all__:
            value = getattr(space, name)
            if inspect.isfunction(value) and id(value) not in known:
                known.add(id(value))
                found[f"{path}.{name}"] = value
    return {**found, **dict(_densities())}


def _densities() -> Iterator[tuple[str, Function]]:
    """Methods of densities as functions of a number, of masses as functions of a probability."""
    for name in stats.__all__:
        distribution = getattr(stats, name)
        shapes = getattr(distribution, "shapes", ())
        if isinstance(distribution, ContinuousDistribution):
            for method in ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf"):
                values = [2.5, 3.5][: len(shapes)]
                yield f"stats.{name}.{method}", partial(_called, distribution, method, values)
        elif isinstance(distribution, DiscreteDistribution):
            for method in ("logpmf", "cdf"):
                values = [3.0, 4.0][: len(shapes)]
                yield f"stats.{name}.{method}", partial(_called_last, distribution, method, values)


def _called(distribution: Any, method: str, shapes: list[float], x: Any) -> Any:
    return getattr(distribution, method)(x, *shapes)


def _called_last(distribution: Any, method: str, values: list[float], p: Any) -> Any:
    """The result of a method at the number 1 as a function of the last parameter."""
    return getattr(distribution, method)(*[1.0, *values][: len(values)], p)


@cache
def elementwise(count: int) -> dict[str, Function]:
    """The elementwise functions with a given number of arguments."""
    fewer = elementwise(count - 1) if count > 1 else {}
    return {
        name: function
        for name, function in functions().items()
        if name not in fewer and name not in ROUNDED_TOGETHER and _is_elementwise(function, count)
    }


def _is_elementwise(function: Function, count: int) -> bool:
    if isinstance(function, partial):  # a density is, and to try its quantiles takes a second
        return count == 1
    operands = [fg.tensor(AT_ENDS + 0.05 * k) for k in range(count)]
    whole = called(function, operands, {}).value
    if not isinstance(whole, fg.Tensor) or whole.shape != (3,) or whole.dtype != np.float64:
        return False
    parts = [called(function, [x[k] for x in operands], {}).value for k in range(3)]
    return all(
        isinstance(part, fg.Tensor) and part.shape == () and np.array_equal(part, whole[k], True)
        for k, part in enumerate(parts)
    )

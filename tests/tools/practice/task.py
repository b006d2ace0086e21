"""What a program of practice is made of.

>>> from tests.tools.practice.libraries import funcgrad
>>> square = Task("square", lambda lib: lambda x: lib.np.sum(x * x), lambda draws, small: (3.0,))
>>> square.function(funcgrad())(*square.arguments(small=True))
Tensor(9.0)
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np


class Task(NamedTuple):
    """A program in any library, and its arguments.

    Attributes
    ----------
    name : str
    function : callable
        From a library (``libraries.py``) to the function that is jitted.
    inputs : callable
        ``(draws, small) -> arguments``: of the size at which the program is measured, or, if
        ``small``, of a few numbers.
    tolerance : float
        How far results of two ways to run it may differ, relative to the largest number.
    """

    name: str
    function: Callable[[Any], Callable[..., Any]]
    inputs: Callable[[np.random.Generator, bool], tuple[Any, ...]]
    tolerance: float = 1e-9

    def arguments(self, small: bool) -> tuple[Any, ...]:
        """The same arguments at every call."""
        return self.inputs(np.random.default_rng(11), small)


def dense(draws: np.random.Generator, *sizes: int) -> dict[str, Any]:
    """The weights and biases of layers."""
    layers: dict[str, Any] = {}
    for k, (rows, columns) in enumerate(pairwise(sizes)):
        layers[f"w{k}"] = draws.standard_normal((rows, columns)) / rows**0.5
        layers[f"b{k}"] = 0.1 * draws.standard_normal(columns)
    return layers


def perceptron(lib: Any, params: Any, x: Any) -> Any:
    """A net with ``tanh`` between its layers."""
    last = len(params) // 2 - 1
    for k in range(last):
        x = lib.np.tanh(x @ params[f"w{k}"] + params[f"b{k}"])
    return x @ params[f"w{last}"] + params[f"b{last}"]


def adam(lib: Any, params: Any, slopes: Any, moments: Any, count: Any) -> Any:
    """A step of Adam: new parameters, and new moments."""
    first, second = moments
    first = {k: 0.9 * first[k] + 0.1 * slopes[k] for k in slopes}
    second = {k: 0.999 * second[k] + 0.001 * slopes[k] ** 2 for k in slopes}
    rate = 1e-3 * lib.np.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    moved = {k: params[k] - rate * first[k] / (lib.np.sqrt(second[k]) + 1e-8) for k in slopes}
    return moved, (first, second)


def moments_of(draws: np.random.Generator, params: dict[str, Any]) -> Any:
    """What Adam remembers after some steps."""
    first = {k: 0.01 * draws.standard_normal(p.shape) for k, p in params.items()}
    return first, {k: 0.001 + 0.01 * draws.random(p.shape) for k, p in params.items()}

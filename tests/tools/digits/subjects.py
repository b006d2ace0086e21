"""What is searched for lost digits: functions of numbers, each with its twin in mpmath.

>>> norm = subjects()["stats.norm.ppf"]
>>> float(norm.function(0.5, 2.0))
0.0
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

Point = tuple[float, ...]


class Subject(NamedTuple):
    """A function of numbers.

    Attributes
    ----------
    function, twin : callable
        Ours, and the same of mpmath's numbers.
    draw : callable
        ``(rng, wide)`` to a point of its domain, in the middle or from all of the range.
    fixed : int
        How many arguments, the first ones, are whole numbers, in which nothing is differentiated.
    """

    function: Callable[..., Any]
    twin: Callable[..., Any]
    draw: Callable[[np.random.Generator, bool], Point]
    fixed: int = 0


@cache
def subjects() -> dict[str, Subject]:
    """All of them, by the names that users write."""
    from tests.tools.digits.activations import activations
    from tests.tools.digits.distributions import distributions
    from tests.tools.digits.network_losses import network_losses
    from tests.tools.digits.special_functions import special_functions

    return {**distributions(), **special_functions(), **activations(), **network_losses()}

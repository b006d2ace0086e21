"""Numbers that are drawn: over decades, in the middle and in both tails."""

from __future__ import annotations

import numpy as np

Generator = np.random.Generator


def positive(rng: Generator, decades: float) -> float:
    """A number from ``10**-decades`` to ``10**decades``."""
    return float(10.0 ** rng.uniform(-decades, decades))


def real(rng: Generator, decades: float) -> float:
    """One of either sign."""
    return float(rng.choice([1.0, -1.0])) * positive(rng, decades)


def level(rng: Generator, wide: bool) -> float:
    """A probability, small or near 1 in half of all cases."""
    small = float(10.0 ** -rng.uniform(1, 200 if wide else 12))
    near_one = float(1 - 10.0 ** -rng.uniform(1, 12))
    return float(rng.choice([rng.random(), rng.random(), small, near_one]))

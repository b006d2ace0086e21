"""Parts that schedules share: the way that is behind, the warmup, half a wave, checks.

>>> share_of_way(3, 5, 1)
Tensor(0.5)
"""

from __future__ import annotations

from dataclasses import fields
from math import pi
from typing import Any, TypeAlias

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad.optim.option_types import check_option
from funcgrad.tensor.tensor import Tensor

Count: TypeAlias = Any
"""The number of earlier steps: an integer, a tensor, or an array of many, for a plot."""


class CheckedSchedule:
    """Checks that all schedules share, by the types of their options."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # schedules are dataclasses
            place = f"schedules.{type(self).__name__}"
            check_option(place, field.name, str(field.type), getattr(self, field.name))


def share_of_way(count: Count, steps: int, warmed: int) -> Tensor:
    """How much of the way from the start to the end is behind, from 0 to 1."""
    return fnp.clip((count - warmed) / max(steps - warmed, 1), 0.0, 1.0)


def rising(count: Count, warmed: int, peak: ArrayLike, after: ArrayLike) -> Tensor:
    """A rate that rises to a peak in some steps, the first at ``peak / (warmed + 1)``."""
    return fnp.where(fnp.less(count, warmed), peak * (count + 1.0) / (warmed + 1), after)


def half_wave(share: Tensor) -> Tensor:
    """Half a period of a cosine, from 1 to 0."""
    return 0.5 * (1.0 + fnp.cos(pi * share))

"""Checks of the options of schedules.

>>> check_rates("linear", start=-0.1)
Traceback (most recent call last):
funcgrad.errors.ArgumentError: schedules.linear: start has to be at least 0 and finite, got -0.1.
"""

from __future__ import annotations

from funcgrad._core.users_values import ArrayLike
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import check_number


def check_steps(schedule: str, least: int = 1, **numbers: object) -> None:
    """Check numbers of steps.

    Raises
    ------
    ArgumentError
        One is no integer, or too small.
    """
    for name, number in numbers.items():
        if not isinstance(number, int) or number < least:
            raise ArgumentError(
                f"schedules.{schedule}: {name} has to be an integer, {least} or more, got"
                f" {number!r}."
            )


def check_rates(schedule: str, **rates: ArrayLike | None) -> None:
    """Check learning rates, and factors of these: a negative one would climb.

    Raises
    ------
    ArgumentError, DtypeError
        One is negative, infinite or no number.
    """
    for name, rate in rates.items():
        if rate is not None:
            check_number(f"schedules.{schedule}", name, rate)

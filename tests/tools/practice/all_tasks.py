"""All programs of practice."""

from __future__ import annotations

from typing import Final

from tests.tools.practice import (
    bayes,
    layers,
    loops,
    many,
    nets,
    physics,
    ranks,
    steering,
    tables,
    usual,
    windows,
)

TASKS: Final = (
    *loops.TASKS,
    *usual.TASKS,
    *bayes.TASKS,
    *steering.TASKS,
    *nets.TASKS,
    *physics.TASKS,
    *windows.TASKS,
    *ranks.TASKS,
    *tables.TASKS,
    *layers.TASKS,
    *many.TASKS,
)

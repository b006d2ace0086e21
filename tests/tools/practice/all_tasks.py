"""All programs of practice."""

from __future__ import annotations

from typing import Final

from tests.tools.practice import bayes, loops, nets, physics, steering, usual

TASKS: Final = (
    *loops.TASKS,
    *usual.TASKS,
    *bayes.TASKS,
    *steering.TASKS,
    *nets.TASKS,
    *physics.TASKS,
)

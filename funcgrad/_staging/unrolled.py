"""Find Python loops that staging has unrolled, and warn of long ones.

>>> import funcgrad as fg
>>> def powers(x, count):
...     for _ in range(count):
...         x = x * 0.5
...     return x
>>> warn_of_loops(fg.program(powers)(1.0, 3), print)
>>> warn_of_loops(fg.program(lambda x: powers(x, 10_001))(1.0), print)
has 10,001 operations, 10,001 of them from the line <doctest ...>:3: a Python loop is written...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from funcgrad._programs.program import Program

_MANY: Final = 10_000
_OFTEN: Final = 1_000
"""This many equations from one line come from a loop, not from a long function."""


def warn_of_loops(program: Program, warn: Callable[[str], None]) -> None:
    """Warn if a program has a long unrolled loop."""
    count = len(program.equations)
    if count <= _MANY:
        return
    lines = Counter([equation.source for equation in program.equations])
    (line, times), *_ = lines.most_common(1)
    if times < _OFTEN:
        return
    warn(
        f"has {count:,} operations, {times:,} of them from the line {line or 'of a loop'}: a Python"
        " loop is written out, step by step, which takes long to stage and to run. fg.fori_loop,"
        " fg.scan and fg.while_loop make one operation of a loop."
    )

"""Find signs of mistakes in a staged program: repeated draws, and loops that are written out.

>>> import funcgrad as fg
>>> staged = fg.program(fg.random.normal)(fg.random.key(0))
>>> repeated_draw(staged) is None
True
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
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeAlias

from funcgrad._core.structure.structures import Control, Random
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_MANY: Final = 10_000
_OFTEN: Final = 1_000
"""This many equations from one line come from a loop, not from a long function."""

_Use: TypeAlias = tuple[int, Hashable, tuple[int, ...]]


def repeated_draw(program: Program) -> tuple[str, str] | None:
    """The lines of two draws from one variable in the same way, or None.

    Branches and loops are checked separately: draws in them are not compared with draws around
    them. The result is cached in the program, so that nests that are staged loop by loop are
    checked once.
    """
    return program.derived(repeated_draw, lambda: _first_repeated(program))


def _first_repeated(program: Program) -> tuple[str, str] | None:
    lines: dict[_Use, str] = {}
    for equation in program.equations:
        for use, line in _uses(equation):
            if use in lines:
                return lines[use], line
            lines[use] = line
        structure = equation.operation.structure
        if isinstance(structure, Control):
            for inner, _ in structure.runs(**dict(equation.params)):
                repeated = repeated_draw(inner)
                if repeated is not None:
                    return repeated
    return None


def _uses(equation: Equation) -> Iterator[tuple[_Use, str]]:
    """The variables from which an equation draws, with the way, the run and the line.

    A draw has a parameter ``shape``, which does not change the samples, only their number. A called
    function draws from its operands.
    """
    params = dict(equation.params)
    epoch = (equation.epoch,) if equation.epoch else ()
    if equation.called is not None:
        for inner in equation.called.equations:
            for (variable, way, epochs), line in _uses(inner):
                if variable < len(equation.operands):
                    yield (equation.operands[variable], way, epoch + epochs), line
    elif isinstance(equation.operation.structure, Random) and params.pop("shape", None) is not None:
        (key,) = equation.operands
        yield (key, tuple(sorted(params.items())), epoch), equation.source


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

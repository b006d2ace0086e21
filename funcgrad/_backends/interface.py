"""The interface of backends: values that compile programs.

Nothing else in funcgrad depends on the backend, so a backend of your own needs only these five
members. A backend that compiles nothing can use ``evaluated``:

>>> import funcgrad as fg
>>> from dataclasses import dataclass
>>> @dataclass(frozen=True)
... class Plain:
...     name: str = "plain"
...
...     def supports(self, program):
...         return program.is_raw
...
...     def prepare(self, program, relaxed):
...         return program
...
...     def compile(self, program):
...         return evaluated(program)
...
...     def inspect(self, program):
...         return program.to_text()
>>> fg.jit(lambda x: x * x, backend=Plain())(3.0)
Tensor(9.0)

``fg.testing.check_backend`` runs every kind of program through a backend:

>>> fg.testing.check_backend(Plain(), kinds=("elementwise", "guards"))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program
from funcgrad.errors import GuardError

MISS: Final[Any] = object()
"""Returned by fast code for a call that it was not written for."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program that runs.

    Attributes
    ----------
    run : callable
        ``(*raw inputs) -> raw outputs``, or None if a guard of the program fails. The inputs have
        the shapes, dtypes and weakness of ``program.inputs``; ``run`` need not check. Each output
        is a Python number where the program says that it is weak, else an array or a NumPy scalar.
        Inputs are not written to, and not kept after the call, though outputs may be views of
        them. Errors of operations are raised unchanged. ``run`` keeps no state between calls, and
        may be called from many threads at once.

        A guard is checked as soon as its variable is known, before anything that might fail if
        the guard does: ``program.index.guards`` lists guards by variable, and under -1 those of
        inputs and constants, which are checked before the first equation.
    warns : bool
        Whether NumPy may warn of overflow and the like in ``run``, so that its caller has to
        silence NumPy.
    is_fresh : bool
        Whether all results of ``run`` are new arrays, and no views of its inputs.
    """

    run: Callable[..., tuple[Any, ...] | None]
    warns: bool = True
    is_fresh: bool = False


def evaluated(program: Program) -> Compiled:
    """Return a "compiled" program that evaluates the program operation by operation."""

    def run(*values: Raw) -> tuple[Any, ...] | None:
        try:
            return tuple(program.evaluate(values))
        except GuardError:
            return None

    return Compiled(run)


class Backend(Protocol):
    """A compiler of programs, as a value that can be shared."""

    @property
    def name(self) -> str:
        """The name by which users choose the backend."""
        ...

    def supports(self, program: Program) -> bool:
        """Whether the backend can compile a program."""
        ...

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite an optimized program to the form that this backend runs best.

        Inputs and outputs stay the same. The rules of calls may be dropped, since the result is
        not differentiated. If ``relaxed``, results may differ in their last digits.

        A backend may return the program unchanged. One that generates code for operations does
        three things: it replaces calls by their equations (``programs.inline.inlined``), replaces
        operations that it lacks by their bodies (``backends.decompose.decomposed``), and does the
        same in the programs of loops and branches, which are not optimized yet
        (``programs.inline.with_programs_inside``). An operation that it still cannot translate is
        evaluated, by ``trace.bind``, on raw values.
        """
        ...

    def compile(self, program: Program) -> Compiled:
        """Compile a program."""
        ...

    def inspect(self, program: Program) -> str:
        """The compiled form of a program as readable text."""
        ...

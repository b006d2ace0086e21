"""What a backend is: a value that compiles programs.

Nothing else of funcgrad asks which one it has, so a backend of one's own needs these four members
and nothing more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from funcgrad.programs.program import Program

__all__ = ["Backend", "Compiled"]

Compiled: TypeAlias = Callable[..., tuple[Any, ...]]
"""``(*raw inputs) -> raw outputs``. The inputs have the shapes, the dtypes and the weakness of the
program's; nobody checks. It raises ``GuardError`` where a guard of the program does not hold, keeps
no state between calls, and may be called from many threads at once."""


class Backend(Protocol):
    """Compiles programs; a value that can be shared."""

    @property
    def name(self) -> str:
        """What users choose it by."""
        ...

    def supports(self, program: Program) -> bool:
        """Whether it can compile a program."""
        ...

    def compile(self, program: Program) -> Compiled:
        """The function of a program's inputs that returns its outputs."""
        ...

    def inspect(self, program: Program) -> str:
        """What it makes of a program, for people to read."""
        ...

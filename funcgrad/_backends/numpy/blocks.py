"""The writer's interface to `loops.py` and `branches.py`, which write programs inside programs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Final, Protocol

from funcgrad._backends.control_forms import form_of
from funcgrad._backends.numpy.plan import Plan
from funcgrad._backends.numpy.scalars import NONE, Scalars, scalars_of
from funcgrad._backends.numpy.scope import Scope
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._programs.program import Program

DEEPEST: Final = 8
"""The deepest nesting of loops and branches that is written out; Python allows 20 loops."""


@dataclass(slots=True)
class Module:
    """State that all programs in one module's text share.

    Attributes
    ----------
    scope : Scope
    commented, block, floats
        ``lines`` and others of ``numpy_source``.
    lines : list of str
        The lines of the function so far.
    depth : int
        How far the next line is indented.
    uses_floats : bool
        Whether any of the programs computes with Python's floats.
    """

    scope: Scope
    commented: bool
    block: int
    floats: bool
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    uses_floats: bool = False


class Block(Protocol):
    """The writer of one program's lines; see `_Writer` for its attributes."""

    module: Module
    program: Program
    plan: Plan
    scalars: Scalars
    texts: dict[int, str]
    numbers: dict[int, str]
    places: dict[int, str]
    made: dict[int, str]
    values: dict[int, Any]

    def text(self, variable: int) -> str: ...
    def number(self, variable: int) -> str: ...
    def either(self, variable: int) -> str: ...
    def output(self, variable: int) -> str: ...
    def line(self, text: str, source: str = "") -> None: ...
    def begin(self) -> None: ...
    def steps(self, lasting: frozenset[int]) -> None: ...
    def receive(self, variable: int, number: str, box: str) -> None: ...
    def indented(self) -> AbstractContextManager[None]: ...
    def inside(
        self, program: Program, plan: Plan, scalars: Scalars, inputs: Sequence[str]
    ) -> Block: ...


def scalars_in(program: Program, plan: Plan, module: Module, loops: bool = True) -> Scalars:
    """The equations of a program that run on Python numbers; ``loops`` is for inner programs."""
    if not module.floats:
        return NONE
    written: list[int] = []
    if module.depth < DEEPEST:
        written = [
            k for k, equation in enumerate(program.equations) if form_of(equation, plan.specs)
        ]
    return scalars_of(program, plan.in_kernels, written, loops)


def python_number(block: Block, variable: int) -> str:
    """An expression for a variable as a Python number."""
    text = block.number(variable)
    if variable in block.numbers or variable in block.values:
        return text
    return f"bool({text})" if block.plan.specs[variable].dtype.kind == "b" else f"float({text})"

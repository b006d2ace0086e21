"""The interface of backends: values that compile programs.

Nothing else in funcgrad depends on which backend it has, so one of your own needs these five
members and nothing more. A backend that compiles nothing can use ``evaluated``:

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

from funcgrad.errors import GuardError
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.trace import Raw

MISS: Final[Any] = object()
"""The answer of a quick way of calling that does not fit the call."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program that runs.

    Attributes
    ----------
    run : callable
        ``(*raw inputs) -> raw outputs``, or None where a guard of the program does not hold. The
        inputs have the shapes, the dtypes and the weakness of the program's; nobody checks. So do
        the outputs: a Python number where the program says that one is weak, else an array or a
        NumPy scalar. Inputs are neither written to nor kept, though outputs may be views of them.
        Errors of operations come out as they are. It keeps no state between calls, and may be
        called from many threads at once.

        Guards are asked as soon as their variable is known, before anything that might fail where
        they do not hold: ``program.index.guards`` has them by variable, and under -1 those of
        inputs and constants, which come before the first equation.
    warns : bool
        Whether NumPy may warn of overflow and the like while it runs, so that whoever calls it has
        to silence NumPy.
    entry : callable, optional
        ``(args, kwargs) -> result``: calls the program on the caller's own arguments, for a backend
        whose code takes tensors and trees apart quicker than Python does. It checks, by exact
        types, that the arguments have the trees, shapes and dtypes of ``program.arguments`` and
        ``program.inputs``. Its result is the tree ``program.result`` of tensors that share no
        memory with arrays that can be written to. It warns of nothing. For other arguments, where a
        guard does not hold, and in any case that it does not handle, as where ``np.errstate`` asks
        to be told of errors, it answers ``MISS``; then the entry that ``jit`` writes for all
        backends calls ``run``, as it does where this one raises.
    """

    run: Callable[..., tuple[Any, ...] | None]
    warns: bool = True
    entry: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None


def evaluated(program: Program) -> Compiled:
    """Compile nothing: the program is evaluated operation by operation."""

    def run(*values: Raw) -> tuple[Any, ...] | None:
        try:
            return tuple(program.evaluate(values))
        except GuardError:
            return None

    return Compiled(run)


class Backend(Protocol):
    """Compiles programs; a value that can be shared."""

    @property
    def name(self) -> str:
        """The name by which users choose the backend."""
        ...

    def supports(self, program: Program) -> bool:
        """Whether it can compile a program."""
        ...

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """The optimized program as this backend runs it best, with the same inputs and outputs.

        It may lack the rules of calls, since nobody differentiates it. Relaxed, results may differ
        in their last digits.

        Nothing need be done here. A backend that writes operations out itself has three things to
        do, for the program and for those inside of it (``programs.inline.with_programs_inside``):
        put the equations of calls in their place (``programs.inline.inlined``), put bodies in the
        place of operations that it lacks (``backends.decompose.decomposed``), and go into the
        programs of loops and branches, which come as they were staged. An operation that still has
        no words is evaluated, by ``trace.bind``, on raw values.
        """
        ...

    def compile(self, program: Program) -> Compiled:
        """Compile a program."""
        ...

    def inspect(self, program: Program) -> str:
        """The compiled form of a program, for people to read."""
        ...

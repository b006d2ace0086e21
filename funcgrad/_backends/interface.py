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
from contextvars import ContextVar
from typing import Any, Final, Protocol

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program
from funcgrad.errors import GuardError

MISS: Final[Any] = object()
"""Returned by fast code for a call that it was not written for."""


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """A check whether the outside values that a program relies on are unchanged, in parts.

    Attributes
    ----------
    function : callable
        Returns whether all of them are.
    attributes : tuple of triples
        Some of them: Python functions or cells, the name of an attribute of theirs, and the object
        that it was, which may have been replaced by an equal number or text.
    entries : tuple of triples
        Some of them: dicts, keys, and the objects that were there.
    empty : tuple of dict
        Dicts that have to be empty.
    variables : tuple of pairs
        Context variables, and the objects that they have to have.
    others : callable, optional
        Returns whether all others are.
    """

    function: Callable[[], bool]
    attributes: tuple[tuple[Any, str, Any], ...]
    entries: tuple[tuple[dict[Any, Any], Any, Any], ...]
    empty: tuple[dict[Any, Any], ...]
    variables: tuple[tuple[ContextVar[Any], Any], ...]
    others: Callable[[], bool] | None


@dataclass(frozen=True, slots=True)
class Direct:
    """Calls of a program without a detour by way of Python's code.

    Attributes
    ----------
    function : callable
        From ``Unchanged``, or None, to a function ``(*args, **kwargs) -> result``, which does what
        ``Compiled.entry`` does, and returns ``MISS`` where an outside value has changed. It never
        raises what evaluating the program explains better. Or to None, where there can be none.
    call_natively : callable
        Has machine code call an instance of a class that the backend's ``directly_callable`` has
        made. The only slot of an instance has a tuple of functions. They are called one after the
        other, until one does not return ``MISS``; the last one is called as a method.
    """

    function: Callable[[Unchanged | None], Callable[..., Any] | None]
    call_natively: Callable[[object], None]


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
    entry : callable, optional
        ``(args, kwargs) -> result``: calls the program on the caller's own arguments, for a backend
        whose code unpacks tensors and trees faster than Python does. It checks, by exact types,
        that the arguments have the trees, shapes and dtypes of ``program.arguments`` and
        ``program.inputs``. Its result is the tree ``program.result`` of tensors that share no
        memory with arrays that can be written to. It never warns. It returns ``MISS`` for other
        arguments, if a guard fails, and in any case that it does not handle, such as an
        ``np.errstate`` that asks for errors. After ``MISS`` or an exception, the entry that ``jit``
        writes for all backends calls ``run``.
    direct : Direct, optional
        For a backend whose machine code takes the caller's arguments apart; ``entry`` is None then.
        Such a backend has one more member, ``directly_callable``: from a class to its subclass
        whose instances machine code may call.
    """

    run: Callable[..., tuple[Any, ...] | None]
    warns: bool = True
    entry: Callable[[tuple[Any, ...], dict[str, Any]], Any] | None = None
    direct: Direct | None = None


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

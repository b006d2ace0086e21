"""The NumPy backend: a program becomes straight-line Python over NumPy.

The source is the one that ``Program.to_numpy_source`` shows. Where it computes with Python's
floats, which know nothing of ``np.errstate``, and the user wants to know of overflow and the like,
the same program runs on NumPy's scalars.

>>> import numpy as np
>>> import funcgrad as fg
>>> run = compile_program(fg.program(lambda x, y: x * y + 1.0)(2.0, np.float64(3.0)))
>>> run(4.0, np.float64(5.0))
(np.float64(21.0),)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias
from zlib import crc32

from funcgrad.backends.interface import Backend, Compiled
from funcgrad.backends.numpy.bodies import with_compiled_bodies
from funcgrad.backends.numpy.prepare import prepared
from funcgrad.backends.numpy.source import Source
from funcgrad.backends.numpy.writer import numpy_source
from funcgrad.errors import ProgramError
from funcgrad.floating_errors import ERROR_STATE, notices_errors
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.trace import Raw

Run: TypeAlias = Callable[..., Any]
"""``(*raw inputs) -> raw outputs``"""


@dataclass(frozen=True, slots=True)
class _Listing:
    """Shows a traceback the lines of a source that is in no file."""

    text: str

    def get_source(self, name: str) -> str:
        """Return the source, as ``linecache`` asks a module's loader for it."""
        return self.text


def compile_program(program: Program, raises: bool = True) -> Run:
    """Compile a program to a function.

    Parameters
    ----------
    program : Program
    raises : bool
        Whether the function raises where a guard does not hold; else it returns None.

    Returns
    -------
    callable
        ``(*raw inputs) -> raw outputs``, equal to those of ``Program.evaluate`` to the last bit.
        The inputs are to have the shapes, the dtypes and the weakness that the program says;
        nothing is checked. Overflow and the like are treated as ``np.errstate`` says.

    Raises
    ------
    ProgramError
        A value of a transformation that runs around is among the program's constants.
    """
    if not program.is_raw:
        raise ProgramError(
            f"program {program.name}: a value of a transformation that runs around it is among its"
            " constants, so NumPy alone cannot run it. Call the program itself."
        )
    program = with_compiled_bodies(program, partial(compile_program, raises=False))
    source = numpy_source(program, lines=True, raises=raises)
    run = _function(source)
    return _heeding(program, run, raises) if source.floats else run


def _function(source: Source) -> Run:
    """The function that a source defines, or makes of its constants."""
    text = source.text
    # Not in angle brackets: tracebacks ask the loader only for what could be a file.
    filename = f"funcgrad program {source.name} {crc32(text.encode()):08x}"
    shared = {"__name__": filename, "__loader__": _Listing(text), "constants": source.constants}
    head, *pieces = source.pieces()
    exec(compile(head, filename, "exec"), shared)
    functions: dict[str, Any] = {}
    for piece in pieces:
        # A function whose globals hold it would be a cycle, and stay until the collector comes.
        namespace = {**shared, **functions}
        exec(compile(piece, filename, "exec"), namespace)
        name, function = namespace.popitem()
        functions[name] = function
    run: Run = functions[source.name]
    return run


class _OnScalars:
    """A program on NumPy's scalars throughout; compiled when it is first called."""

    __slots__ = ("_program", "_raises", "_run")

    def __init__(self, program: Program, raises: bool) -> None:
        self._program = program
        self._raises = raises
        self._run: Run | None = None

    def __call__(self, *values: Raw) -> Any:
        if self._run is None:
            source = numpy_source(self._program, lines=True, floats=False, raises=self._raises)
            self._run = _function(source)
        return self._run(*values)


def _heeding(program: Program, run: Run, raises: bool) -> Run:
    """Run a program on Python's floats, or on NumPy's where the user wants to know of errors.

    To ask takes 60 ns. Inside of ``jit`` and other transformations, which ignore errors unless the
    user has chosen otherwise, nothing else is done.
    """
    arguments = ", ".join([f"v{k}" for k in range(len(program.inputs))])
    is_silent = "" if ERROR_STATE is None else "read() is silent or "
    namespace: dict[str, Any] = {
        "read": ERROR_STATE and ERROR_STATE.read,
        "silent": ERROR_STATE and ERROR_STATE.silent,
        "notices_errors": notices_errors,
        "on_floats": run,
        "on_scalars": _OnScalars(program, raises),
    }
    text = f"""
def run({arguments}):
    if {is_silent}not notices_errors():
        return on_floats({arguments})
    return on_scalars({arguments})
"""
    exec(compile(text, "funcgrad run", "exec"), namespace)
    heeding: Run = namespace.pop("run")
    return heeding


def _may_warn(program: Program) -> bool:
    """Whether any operation computes: operations that only move numbers have nothing to warn of."""
    return not all(
        getattr(equation.operation.differential, "structural", False)
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """Python source over NumPy, for every program."""

    name: str = "numpy"

    def supports(self, program: Program) -> bool:
        """Whether it can compile a program: unless one closes over a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """See ``prepared``."""
        return prepared(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """See ``compile_program``."""
        return Compiled(compile_program(program, raises=False), _may_warn(program))

    def inspect(self, program: Program) -> str:
        """The source that runs."""
        return numpy_source(program, lines=True, raises=False).text


NUMPY: Final[Backend] = NumpyBackend()

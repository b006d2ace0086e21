"""The NumPy backend: a program becomes straight-line Python over NumPy.

The source is the one that ``Program.to_numpy_source`` shows. It may compute with Python's floats,
which ignore ``np.errstate``. If the user asks to be told of overflow and the like, the same program
runs on NumPy's scalars instead.

>>> import numpy as np
>>> import funcgrad as fg
>>> run = compile_program(fg.program(lambda x, y: x * y + 1.0)(2.0, np.float64(3.0)))
>>> run(4.0, np.float64(5.0))
(np.float64(21.0),)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from typing import Any, Final, TypeAlias
from zlib import crc32

from funcgrad._backends.interface import Backend, Compiled
from funcgrad._backends.numpy.bodies import with_compiled_bodies
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._backends.numpy.source import MAKER, Source
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ERROR_STATE, notices_errors
from funcgrad._core.trace import Raw
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

Run: TypeAlias = Callable[..., Any]
"""``(*raw inputs) -> raw outputs``"""


@dataclass(frozen=True, slots=True)
class _Listing:
    """Provides tracebacks with the lines of generated source, which is in no file."""

    text: str

    def get_source(self, name: str) -> str:
        """Return the source; ``linecache`` calls this method of a module's loader."""
        return self.text


def compile_program(program: Program, raises: bool = True) -> Run:
    """Compile a program to a function.

    Parameters
    ----------
    program : Program
    raises : bool
        Whether the function raises if a guard fails; else it returns None.

    Returns
    -------
    callable
        ``(*raw inputs) -> raw outputs``, equal to those of ``Program.evaluate`` to the last bit.
        The inputs must have the shapes, dtypes and weakness of ``program.inputs``; they are not
        checked. Overflow and the like are treated as ``np.errstate`` says.

    Raises
    ------
    ProgramError
        A tracer of an enclosing transformation is among the program's constants.
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
    """Compile a source and return the program's function."""
    text = source.text
    # Not in angle brackets: tracebacks ask the loader only for names that could be a file's.
    filename = f"funcgrad program {source.name} {crc32(text.encode()):08x}"
    listing: Any = _Listing(text)
    module: dict[str, Any] = {"__name__": filename, "__spec__": ModuleSpec(filename, listing)}
    exec(compile(text, filename, "exec"), module)
    # Popped: a function that its own globals hold would be freed by the collector only.
    constants = source.constants
    return module.pop(MAKER)(constants) if constants else module.pop(source.name)


class _OnScalars:
    """Runs a program on NumPy's scalars only; compiled when it is first called."""

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
    """Run a program on Python's floats, or on NumPy's if ``np.errstate`` asks to report errors.

    The check takes 60 ns; inside of transformations, which silence NumPy, its first half suffices.
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
    return namespace.pop("run")


def _may_warn(program: Program) -> bool:
    """Whether any operation computes; operations that only move numbers never warn."""
    return not all(
        getattr(equation.operation.differential, "structural", False)
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """Compiles every program to Python source over NumPy."""

    name: str = "numpy"

    def supports(self, program: Program) -> bool:
        """Whether it can compile a program: true unless the program closes over a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program to the form that NumPy runs best; see ``prepared``."""
        return prepared(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to a function; see ``compile_program``."""
        return Compiled(compile_program(program, raises=False), _may_warn(program))

    def inspect(self, program: Program) -> str:
        """The source that runs."""
        return numpy_source(program, lines=True, raises=False).text


NUMPY: Final[Backend] = NumpyBackend()

"""The NumPy backend: a program becomes a Python function that calls NumPy.

``Program.to_numpy_source`` shows the function. It may compute with Python's floats, which ignore
``np.errstate``. If the user asks NumPy to report overflow and the like, the same program runs on
NumPy's scalars instead.

>>> import numpy as np
>>> import funcgrad as fg
>>> run = compile_program(fg.program(lambda x, y: x * y + 1.0)(2.0, np.float64(3.0)))
>>> run(4.0, np.float64(5.0))
(np.float64(21.0),)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from importlib.machinery import ModuleSpec
from os import PathLike
from typing import Any, Final, TypeAlias
from zlib import crc32

import numpy as np

from funcgrad._backends.control_forms import form_of
from funcgrad._backends.interface import Backend, Compiled
from funcgrad._backends.numpy.loops import DEEPEST
from funcgrad._backends.numpy.prepare import prepared
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.floating_errors import ERROR_STATE, notices_errors
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import NUMBERS, Value
from funcgrad._forms.source_text import MAKER, Source
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation, EquationRun, bound
from funcgrad._programs.extract import fetched
from funcgrad._programs.inline import with_changed_programs
from funcgrad._programs.program import Program
from funcgrad.errors import ProgramError

Run: TypeAlias = Callable[..., Any]
"""``(*raw inputs) -> raw outputs``"""


@dataclass(frozen=True, slots=True)
class _Listing:
    """Shows tracebacks the lines of generated source, which is not in a file."""

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
        Whether the function raises if a guard fails; if not, it returns None.

    Returns
    -------
    callable
        ``(*raw inputs) -> raw outputs``. The outputs equal the results of ``Program.evaluate`` to
        the last bit. The inputs must have the shapes, dtypes and weakness of ``program.inputs``;
        the function does not check them. It reports overflow and the like as ``np.errstate`` says.

    Raises
    ------
    ProgramError
        One of the program's constants is a tracer of an enclosing transformation.
    """
    if not program.is_raw:
        raise ProgramError(
            f"program {program.name}: a constant belongs to a transformation that runs around it,"
            " so NumPy cannot run it. Call the program itself."
        )
    program = with_compiled_bodies(program, partial(compile_program, raises=False))
    source = numpy_source(program, lines=True, raises=raises)
    run = _function(source)
    return _heeding(program, run, raises) if source.floats else run


def _function(source: Source) -> Run:
    """Compile a source and return the program's function."""
    text = source.text
    # Without angle brackets: tracebacks ask the loader only for names that a file could have.
    filename = f"funcgrad program {source.name} {crc32(text.encode()):08x}"
    listing: Any = _Listing(text)
    module: dict[str, Any] = {"__name__": filename, "__spec__": ModuleSpec(filename, listing)}
    exec(compile(text, filename, "exec"), module)
    # Popped: a function among its own globals would be freed only by the garbage collector.
    constants = source.constants
    return module.pop(MAKER)(constants) if constants else module.pop(source.name)


def write_module(
    program: Program, path: str | PathLike[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> None:
    """Write a program as a file that needs only NumPy; see ``Program.to_module``."""
    from funcgrad._forms.python_module import module_text

    program = fetched(program)
    if not program.is_raw:
        raise ProgramError(
            f"to_module: a constant of the program {program.name} belongs to a transformation that"
            " runs around it. Write the program outside that transformation."
        )
    ready = prepared(optimize(program))
    source, run = numpy_source(ready), compile_program(ready)
    text = module_text(program, ready, source, run, args, kwargs)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _heeding(program: Program, run: Run, raises: bool) -> Run:
    """Run a program on Python's floats, or on NumPy's if ``np.errstate`` asks to report errors.

    The check takes 60 ns. Transformations silence NumPy, so its first half suffices inside them.
    """

    @cache
    def on_scalars() -> Run:
        return _function(numpy_source(program, lines=True, floats=False, raises=raises))

    arguments = ", ".join([f"v{k}" for k in range(len(program.inputs))])
    is_silent = "" if ERROR_STATE is None else "state.read() is state.silent or "
    text = f"""
def heeding({arguments}):
    if {is_silent}not notices_errors():
        return run({arguments})
    return on_scalars()({arguments})
"""
    namespace: dict[str, Any] = {
        "state": ERROR_STATE,
        "notices_errors": notices_errors,
        "run": run,
        "on_scalars": on_scalars,
    }
    exec(compile(text, "funcgrad run", "exec"), namespace)
    return namespace.pop("heeding")


# -------------------------------------------------------------------- programs inside operations


def _is_of(value: Value, spec: Spec) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype is spec.dtype and value.shape == spec.shape and not spec.weak
    if spec.weak:
        return kind in NUMBERS and spec_of(value) == spec
    return kind is spec.dtype.type and not spec.shape


class CompiledBody(Program):
    """A program whose ``evaluate`` runs compiled code on raw inputs of the right specs."""

    __slots__ = ("_run",)
    _run: Callable[..., Sequence[Value] | None]

    def evaluate(self, values: Sequence[Value], run: EquationRun = bound) -> list[Value]:
        if run is not bound:
            return Program.evaluate(self, values, run)
        for value, spec in zip(values, self.inputs, strict=True):
            if not _is_of(value, spec):
                return Program.evaluate(self, values)
        outs = self._run(*values)
        # If a guard fails, evaluation raises the error that names it.
        return Program.evaluate(self, values) if outs is None else list(outs)


def with_compiled_bodies(
    program: Program, compile: Callable[[Program], Any], depth: int = 1
) -> Program:
    """Compile the programs inside a program, except if loops or choices write them as text.

    Parameters
    ----------
    program : Program
    compile : callable
        Compiles a program to ``(*raw inputs) -> raw outputs``, which returns None if a guard fails.
    depth : int
        How deep the program is nested in loops and choices written as text, counted from 1.
    """

    def compiled(body: Program) -> Program:
        compiled_body: CompiledBody = object.__new__(CompiledBody)
        for field in fields(body):
            object.__setattr__(compiled_body, field.name, getattr(body, field.name))
        object.__setattr__(compiled_body, "_run", compile(body))
        return compiled_body

    def step(draft: Draft, equation: Equation) -> list[int]:
        if not isinstance(equation.operation.structure, Control):
            return draft.append(equation)
        specs = {variable: draft.spec(variable) for variable in equation.operands}
        if depth <= DEEPEST and form_of(equation, specs):
            deeper = partial(with_compiled_bodies, compile=compile, depth=depth + 1)
            return draft.append(with_changed_programs(equation, deeper))
        return draft.append(with_changed_programs(equation, compiled))

    if not any(isinstance(equation.operation.structure, Control) for equation in program.equations):
        return program
    return rewrite(program, step)


# -------------------------------------------------------------------------------- the backend


def _may_warn(program: Program) -> bool:
    """Whether any operation computes; operations that only move elements never warn."""
    return not all(
        getattr(equation.operation.differential, "structural", False)
        for equation in program.equations
    )


@dataclass(frozen=True, slots=True)
class NumpyBackend:
    """Compiles every program to Python source over NumPy."""

    name: str = "numpy"

    def supports(self, program: Program) -> bool:
        """Whether the program can be compiled: always, unless one of its constants is a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Rewrite a program to the form that NumPy runs best; see ``prepared``."""
        return prepared(program, relaxed)

    def compile(self, program: Program) -> Compiled:
        """Compile a program to a function; see ``compile_program``."""
        return Compiled(compile_program(program, raises=False), _may_warn(program))

    def inspect(self, program: Program) -> str:
        """Return the source that runs."""
        return numpy_source(program, lines=True, raises=False).text


NUMPY: Final[Backend] = NumpyBackend()

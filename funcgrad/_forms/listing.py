"""Programs as text: a line for each constant, equation and guard.

>>> import funcgrad as fg
>>> print(listing(fg.program(lambda x: x if x > 1 else -x)(3.0), sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1
  b: bool[] = greater x a
  guard bool(b) is True
  return x
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


def listing(program: Program, sources: bool) -> str:
    """Write a program as text, with the user's lines if ``sources`` is true.

    Programs inside an equation are indented below it.
    """
    return "\n".join(_lines(program, sources))


def _lines(program: Program, sources: bool) -> Iterator[str]:
    specs, names, index = program.specs(), program.variable_names(), program.index
    inputs = ", ".join(f"{names[k]}: {spec}" for k, spec in enumerate(program.inputs))
    results = ", ".join(str(specs[variable]) for variable in program.outputs)
    yield f"program {program.name}({inputs}) -> {results or '()'}"
    yield from _guards(program, names, (-1,))
    for k, constant in enumerate(program.constants, len(program.inputs)):
        yield f"  {names[k]} = constant {constant}"
    for equation, defined in zip(program.equations, index.results, strict=True):
        yield _printed(equation, names, defined, sources)
        for _, body in equation.params:
            if isinstance(body, Program):
                yield from (f"    {line}" for line in _lines(body, sources))
        yield from _guards(program, names, defined)
    yield f"  return {', '.join(names[variable] for variable in program.outputs)}"


def _guards(program: Program, names: Sequence[str], variables: Iterable[int]) -> Iterator[str]:
    """The lines of the guards on given variables; see ``Index.guards``."""
    for variable in variables:
        for guard in program.index.guards.get(variable, ()):
            yield f"  guard {guard.use}({names[guard.variable]}) is {guard.value!r}"


def _setting(value: object) -> str:
    """A static parameter as text; a program is written below the equation instead."""
    return f"<{value.name}>" if isinstance(value, Program) else repr(value)


def _printed(equation: Equation, names: Sequence[str], defined: range, sources: bool) -> str:
    left = ", ".join(
        f"{names[variable]}: {spec}"
        for variable, spec in zip(defined, equation.results, strict=True)
    )
    words = [equation.name, *(names[variable] for variable in equation.operands)]
    words += [f"{name}={_setting(value)}" for name, value in equation.settings]
    line = f"  {left} = {' '.join(words)}"
    return f"{line:<60}  # {equation.source}" if sources and equation.source else line

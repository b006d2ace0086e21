"""Extract from a program the equations that compute some variables from others.

A gradient is staged as one program of arguments and cotangents. ``extract`` splits it into a
program that runs when the function is called, and one that runs when the cotangents are known.
``value_numbers`` finds equal variables of two programs, so that one program can continue from
values that the other one computed.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x, y: (x * x) * y + 1.0)(3.0, 4.0)
>>> print(extract(staged, [3, 1], staged.outputs).to_text(sources=False))
program <lambda>(b: float64[], y: float64[]) -> float64[]
  a = constant 1.0
  c: float64[] = multiply b y
  d: float64[] = add c a
  return d
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace

from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._programs.equation import Constant, Guard, exact_key
from funcgrad._programs.names import variable_names
from funcgrad._programs.program import Program

Numbers = dict[Hashable, int]
"""Value numbers, by keys that describe how a value is computed from the inputs."""


def value_numbers(program: Program, early: int, known: Numbers) -> list[int | None]:
    """Number the variables: equal numbers mean the same computation from the same inputs.

    Variables that depend on inputs beyond the first ``early`` ones get None. ``known`` has the
    numbers so far, from programs with the same early inputs; new numbers are added.
    """
    numbers: list[int | None] = []

    def number(key: Hashable) -> int:
        return known.setdefault(key, len(known))

    for position in range(len(program.inputs)):
        numbers.append(number(("input", position)) if position < early else None)
    numbers += [number(constant) for constant in program.constants]
    for equation in program.equations:
        operands = tuple([numbers[variable] for variable in equation.operands])
        params = exact_key(equation.params) if equation.params else None
        key = equation.operation, operands, params, equation.epoch
        for position in range(len(equation.results)):
            numbers.append(None if None in operands else number((key, position)))
    return numbers


def needed(
    program: Program, wanted: Collection[int], sources: Collection[int]
) -> tuple[set[int], set[int]]:
    """The positions of the equations that compute some variables from others.

    Also return the variables that these equations read, together with the wanted ones.
    """
    equations: set[int] = set()
    read = set(wanted)
    results = program.index.results
    for position in range(len(results) - 1, -1, -1):
        for variable in results[position]:
            if variable in read and variable not in sources:
                equations.add(position)
                read.update(program.equations[position].operands)
                break
    return equations, read


def defined(program: Program, wanted: Collection[int], sources: Collection[int]) -> set[int]:
    """The variables that are computed on the path from ``sources`` to ``wanted``."""
    equations, _ = needed(program, wanted, sources)
    results = program.index.results
    return {variable for position in equations for variable in results[position]}


def extract(
    program: Program, sources: Sequence[int], wanted: Sequence[int], guards: Sequence[Guard] = ()
) -> Program:
    """Make the program that computes some variables of a program from others.

    ``sources`` are the variables that become inputs, without duplicates, ``wanted`` the variables
    that become outputs, and ``guards`` the guards to keep.
    """
    guarded = [guard.variable for guard in guards]
    needed_positions, read = needed(program, [*wanted, *guarded], set(sources))
    before = len(program.inputs)
    places = {variable: place for place, variable in enumerate(sources)}
    constants = []
    for variable, constant in enumerate(program.constants, before):
        if variable in read and variable not in places:
            places[variable] = len(places)
            constants.append(constant)
    equations = []
    number = len(places)
    index = program.index
    for position, results in enumerate(index.results):
        if position in needed_positions:
            equation = program.equations[position]
            equations.append(equation.on(tuple(map(places.__getitem__, equation.operands))))
            for variable in results:
                places.setdefault(variable, number + variable - results.start)
            number += len(results)
    specs, names = index.specs, variable_names(program.names, len(index.specs))
    return Program(
        name=program.name,
        names=tuple([names[variable] for variable in sources]),
        inputs=tuple([specs[variable] for variable in sources]),
        constants=tuple(constants),
        equations=tuple(equations),
        outputs=tuple([places[variable] for variable in wanted]),
        guards=tuple([replace(guard, variable=places[guard.variable]) for guard in guards]),
        arguments=pytrees.of_arguments(len(sources)),
        result=pytrees.of_leaves(len(wanted)),
    )


def rewired(program: Program, inputs: Sequence[Spec], reads: Sequence[int]) -> Program:
    """Make the program whose inputs are a selection from more inputs with given specs.

    ``reads`` has the new position of each input of the program.
    """
    before = len(program.inputs)
    shift = len(inputs) - before

    def moved(variable: int) -> int:
        return reads[variable] if variable < before else variable + shift

    return replace(
        program,
        names=tuple(variable_names((), len(inputs))),
        inputs=tuple(inputs),
        equations=tuple([e.on(tuple(map(moved, e.operands))) for e in program.equations]),
        outputs=tuple(map(moved, program.outputs)),
        guards=tuple([replace(guard, variable=moved(guard.variable)) for guard in program.guards]),
        arguments=pytrees.of_arguments(len(inputs)),
    )


def fetched(program: Program) -> Program:
    """The program, with constants that are on a device copied to main memory."""
    if program.is_raw:
        return program
    return replace(program, constants=tuple([_fetched(c) for c in program.constants]))


def _fetched(constant: Constant) -> Constant:
    value = constant.value
    is_there = not constant.is_raw and value._trace.is_remote
    return Constant(value._reveal("a saved program", exact=True)) if is_there else constant

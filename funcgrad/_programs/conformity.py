"""Checks that values and equations conform to a program: arguments, guards, and results.

>>> import numpy as np
>>> fitted("f", "x", 2, Spec((), np.dtype(np.float32)))
np.float32(2.0)
"""

from __future__ import annotations

from collections.abc import Sequence

from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import operand
from funcgrad._programs.equation import Equation, Guard, as_spec, gives_way, spec_inside
from funcgrad.errors import DtypeError, GuardError, ProgramError, ShapeError


def verify_equations(
    program: str, defined: Sequence[Spec], equations: Sequence[Equation]
) -> list[Spec]:
    """Check equations in order, given the variables that are defined before them.

    Returns
    -------
    list of Spec
        The specs of the equations' results.

    Raises
    ------
    ProgramError
        An equation uses a variable before its definition, or its results do not fit its operation.
    """
    known = [*defined]
    for position, equation in enumerate(equations):
        place = f"{program}: equation {position} ({equation.name})"
        for variable in equation.operands:
            if not 0 <= variable < len(known):
                raise ProgramError(
                    f"{place} uses the variable {variable}, but {len(known)} are defined before it."
                )
        _verify_results(place, equation, [known[k] for k in equation.operands])
        known += equation.results
    return known[len(defined) :]


def unfit(program: str, specs: Sequence[Spec], inputs: Sequence[Spec]) -> ProgramError:
    """The error of a program inside an operation that gets inputs with other specs."""
    actual, expected = [", ".join(map(described, row)) or "nothing" for row in (specs, inputs)]
    return ProgramError(f"the program inside, {program}, takes {expected}, not {actual}.")


def miscounted(program: str, count: int, names: Sequence[str]) -> ProgramError:
    """The error of a program that gets more or fewer values than it has inputs."""
    inputs = f"{len(names)} ({', '.join(names)})" if names else "0"
    return ProgramError(
        f"{program}: evaluate got {count} values, and the program has {inputs} inputs. Give a list"
        " with one value for each input."
    )


def _verify_results(place: str, equation: Equation, operands: Sequence[Spec]) -> None:
    """Check the specs of an equation's results against its operation's rule."""
    try:
        hash(equation)
    except TypeError as error:
        raise ProgramError(f"{place} has a parameter that cannot be compared: {error}.") from None
    operation, params = equation.operation, dict(equation.params)
    if isinstance(operation.structure, Control):
        for program, _ in operation.structure.runs(**params):
            program.verify()
    operand_text = ", ".join(map(str, operands)) or "nothing"
    try:
        expected = operation.results(*operands, **params)
    except Exception as error:  # rules may fail in any way on unexpected operands
        raise ProgramError(f"{place} is not defined for {operand_text}: {error}") from error
    if equation.results != expected:
        raise ProgramError(
            f"{place} of {operand_text} gives {', '.join(map(described, expected))}, not"
            f" {', '.join(map(described, equation.results)) or 'nothing'}."
        )


def described(spec: Spec) -> str:
    """A spec as text for messages."""
    return f"{spec}{' (a Python number)' if spec.weak else ''}"


def fitted(program: str, name: str, leaf: object, spec: Spec) -> Value:
    """Convert a leaf of an argument to an input of a program.

    Raises
    ------
    ShapeError, DtypeError
        The leaf has another shape or dtype.
    """
    value = concrete(operand(leaf, f"program {program}"))
    value_spec = spec_inside(value)
    if value_spec == spec:
        return value
    path = f"program {program}: {name}"
    if value_spec.shape != spec.shape:
        raise ShapeError(
            f"{path}: expected shape {spec.shape}, got {value_spec.shape}. A program is valid"
            " only for the shapes with which it was staged."
        )
    if value_spec.dtype == spec.dtype or gives_way(value_spec, spec):
        try:
            return as_spec(value, spec)
        except OverflowError as error:
            raise DtypeError(f"{path}: expected dtype {spec.dtype}. {error}.") from None
    raise DtypeError(
        f"{path}: expected dtype {spec.dtype}, got {value_spec.dtype}. A program is valid"
        " only for the dtypes with which it was staged."
    )


def check_guard(program: str, guard: Guard, value: Value) -> None:
    """Raise ``GuardError`` if a guard of a program does not hold."""
    outcome = guard.finds(value)
    if not guard.holds(outcome):
        raise GuardError(
            f"program {program}: when it was staged, {guard.use} of a value was"
            f" {guard.value!r}; for these arguments it is {outcome!r}, and the function would take"
            f" another path{' at ' + guard.source if guard.source else ''}. Stage the function"
            " again with these arguments, or choose with fnp.where."
        )

"""``Program``: a computation as a value.

A program is what staging a function leaves behind: a list of equations in static single assignment
form, with the shape and the dtype of every variable. It is immutable, can be printed, compared and
verified, and is called like the function it came from, also under every transformation, since its
evaluation binds primitives as the function did.

Variables are numbers: first the inputs, then the constants, then the results of the equations in
their order.

>>> import funcgrad as fg
>>> print(fg.program(lambda x: x * x + 1.0)(3.0).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply x x
  c: float64[] = add b a
  return c
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol, TypeAlias

import numpy as np

from funcgrad import trees
from funcgrad.border import operand
from funcgrad.errors import DtypeError, GuardError, ProgramError, ShapeError
from funcgrad.primitive import Primitive
from funcgrad.shape import Spec, spec_of
from funcgrad.tensor import wrap
from funcgrad.trace import Value, bind, concrete
from funcgrad.trees import Structure

__all__ = ["Constant", "Equation", "Guard", "Operation", "Params", "Program", "letters"]

Params: TypeAlias = tuple[tuple[str, Any], ...]
"""Static parameters by name, in the order of the names: a mapping that can be hashed."""


class CalledOperation(Protocol):
    """A whole call that keeps its own rules, such as that of a custom derivative."""

    @property
    def name(self) -> str:
        """What it is called in print."""

    def bind(self, values: Sequence[Value]) -> list[Value]:
        """Apply it under whatever transformations follow the values."""


Operation: TypeAlias = Primitive | CalledOperation


@dataclass(frozen=True, slots=True)
class Equation:
    """One operation of a program.

    Attributes
    ----------
    operation : Primitive, or a call with rules of its own
    operands : tuple of int
        Variables.
    params : tuple of pairs
    results : tuple of Spec
        What it defines: one variable for a primitive.
    source : str
        The user's line that it came from; it plays no part in comparisons.
    """

    operation: Any
    operands: tuple[int, ...]
    params: Params
    results: tuple[Spec, ...]
    source: str = field(default="", compare=False)


class Constant:
    """A value inside a program; two are equal when dtype, shape and every bit are."""

    __slots__ = ("spec", "value")

    def __init__(self, value: Value) -> None:
        self.value = value
        self.spec = spec_of(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant) or self.spec != other.spec:
            return False
        return np.asarray(self.value).tobytes() == np.asarray(other.value).tobytes()

    def __hash__(self) -> int:
        start = np.asarray(self.value).reshape(-1)[:64]
        return hash((self.spec, start.tobytes()))

    def __repr__(self) -> str:
        return f"Constant({self})"

    def __str__(self) -> str:
        array = np.asarray(self.value)
        if not array.ndim:
            return str(array.item())
        numbers = [str(number) for number in array.reshape(-1)[:3].tolist()]
        return f"{self.spec} {' '.join(numbers)}{' ...' if array.size > 3 else ''}"


@dataclass(frozen=True, slots=True)
class Guard:
    """A fact about a variable that the function's control flow relied on when it was staged.

    Attributes
    ----------
    variable : int
    use : str
        What the function did with it, such as ``bool(t)``.
    value : bool, int, float or complex
        What it found. The program holds for inputs for which it finds the same.
    source : str
        The user's line.
    """

    variable: int
    use: str
    value: Any
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A computation in static single assignment form.

    Attributes
    ----------
    name : str
    names : tuple of str
        The arguments' leaves as the user knows them, such as ``params['w']``.
    inputs : tuple of Spec
    constants : tuple of Constant
    equations : tuple of Equation
    outputs : tuple of int
        Variables.
    guards : tuple of Guard
    arguments, result : Structure
        The pytrees of the arguments, as a pair of those by position and those by keyword, and of
        the result.
    """

    name: str
    names: tuple[str, ...] = field(compare=False)
    inputs: tuple[Spec, ...]
    constants: tuple[Constant, ...]
    equations: tuple[Equation, ...]
    outputs: tuple[int, ...]
    guards: tuple[Guard, ...] = ()
    arguments: Structure = field(kw_only=True)
    result: Structure = field(kw_only=True)

    def __tree_flatten__(self) -> tuple[tuple[Any, ...], Program]:
        return (), self  # a value without leaves, rather than a container of its parts

    @classmethod
    def __tree_unflatten__(cls, aux: Program, children: Any) -> Program:
        return aux

    def specs(self) -> list[Spec]:
        """The shape and dtype of every variable."""
        found = [*self.inputs, *(constant.spec for constant in self.constants)]
        for equation in self.equations:
            found += equation.results
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate, as the function would.

        Parameters
        ----------
        *args, **kwargs : pytrees
            Of the trees, shapes and dtypes that the program was staged with.

        Raises
        ------
        TreeError, ShapeError, DtypeError
            The arguments are of other trees, shapes or dtypes.
        GuardError
            The function's control flow would take another path.
        """
        leaves = trees.flatten_like(self.arguments, (args, kwargs), "arguments")
        values = [
            _checked(self, position, leaf, spec)
            for position, (leaf, spec) in enumerate(zip(leaves, self.inputs, strict=True))
        ]
        return trees.unflatten(self.result, [wrap(out) for out in self.evaluate(values)])

    def evaluate(self, values: Sequence[Value]) -> list[Value]:
        """The outputs for inputs, under whatever transformations follow them.

        A variable is dropped after its last use.
        """
        known: list[Any] = [*values, *(constant.value for constant in self.constants)]
        last = self._last_uses()
        guards = self._guards_by_variable()
        number = len(known)
        for guard in guards.pop(None, ()):
            _check_guard(self, guard, known[guard.variable])
        for position, equation in enumerate(self.equations):
            operands = tuple([known[variable] for variable in equation.operands])
            if isinstance(equation.operation, Primitive):
                known.append(bind(equation.operation, operands, dict(equation.params)))
            else:
                known += equation.operation.bind(operands)
            for variable in range(number, len(known)):
                for guard in guards.get(variable, ()):
                    _check_guard(self, guard, known[variable])
            number = len(known)
            for variable in last.get(position, ()):
                known[variable] = None
        return [known[variable] for variable in self.outputs]

    def _last_uses(self) -> dict[int, list[int]]:
        """By equation, the variables that nothing after it reads."""
        last: dict[int, int] = {}
        number = len(self.inputs) + len(self.constants)
        for position, equation in enumerate(self.equations):
            for variable in (*equation.operands, *range(number, number + len(equation.results))):
                last[variable] = position
            number += len(equation.results)
        for variable in self.outputs:
            last.pop(variable, None)
        by_equation: dict[int, list[int]] = {}
        for variable, position in last.items():
            by_equation.setdefault(position, []).append(variable)
        return by_equation

    def _guards_by_variable(self) -> dict[int | None, list[Guard]]:
        """The guards to check when a variable is known; under None those of inputs."""
        given = len(self.inputs) + len(self.constants)
        found: dict[int | None, list[Guard]] = {}
        for guard in self.guards:
            found.setdefault(None if guard.variable < given else guard.variable, []).append(guard)
        return found

    def verify(self) -> Program:
        """Check that the program is well formed, and return it.

        Raises
        ------
        ProgramError
            A variable is used before it is defined, or an equation's result is not of the shape and
            dtype that its operation gives.
        """
        defined = [*self.inputs, *(constant.spec for constant in self.constants)]
        for position, equation in enumerate(self.equations):
            for variable in equation.operands:
                if not 0 <= variable < len(defined):
                    raise ProgramError(
                        f"{self.name}: equation {position} ({equation.operation.name}) uses the"
                        f" variable {variable}, but {len(defined)} are defined before it."
                    )
            if isinstance(equation.operation, Primitive):
                operands = [defined[variable] for variable in equation.operands]
                expected = equation.operation.result(*operands, **dict(equation.params))
                found = equation.results
                if len(found) != 1 or not _same(found[0], expected):
                    raise ProgramError(
                        f"{self.name}: equation {position} ({equation.operation.name}) of"
                        f" {', '.join(map(str, operands))} gives {expected}, not"
                        f" {', '.join(map(str, found))}."
                    )
            defined += equation.results
        for variable in (*self.outputs, *(guard.variable for guard in self.guards)):
            if not 0 <= variable < len(defined):
                raise ProgramError(f"{self.name}: the output or guard {variable} is not defined.")
        if self.arguments.num_leaves != len(self.inputs):
            raise ProgramError(f"{self.name}: the inputs do not fit the arguments' tree.")
        if self.result.num_leaves != len(self.outputs):
            raise ProgramError(f"{self.name}: the outputs do not fit the result's tree.")
        return self

    def variable_names(self) -> list[str]:
        """Names for all variables: the arguments' own where they are short, else letters."""
        plain = [name for name in self.names if name.isidentifier()]
        taken = frozenset(plain)
        spare = (name for name in map(letters, count()) if name not in taken)
        total = len(self.specs()) - len(self.inputs)
        inputs = [name if name in taken else next(spare) for name in self.names]
        return inputs + [next(spare) for _ in range(total)]

    def __str__(self) -> str:
        return self.to_text()

    def to_text(self, sources: bool = True) -> str:
        """The program in print, a line for each equation.

        Parameters
        ----------
        sources : bool
            Whether to show the user's line that an equation came from.
        """
        specs, names = self.specs(), self.variable_names()
        given = ", ".join(f"{names[i]}: {spec}" for i, spec in enumerate(self.inputs))
        results = ", ".join(str(specs[variable]) for variable in self.outputs)
        lines = [f"program {self.name}({given}) -> {results or '()'}"]
        lines += self._guard_lines(names, range(len(self.inputs)))
        number = len(self.inputs)
        for constant in self.constants:
            lines.append(f"  {names[number]} = constant {constant}")
            number += 1
        for equation in self.equations:
            defined = range(number, number + len(equation.results))
            lines.append(_printed(equation, names, defined, sources))
            lines += self._guard_lines(names, defined)
            number = defined.stop
        lines.append(f"  return {', '.join(names[variable] for variable in self.outputs)}")
        return "\n".join(lines)

    def _guard_lines(self, names: Sequence[str], variables: range) -> list[str]:
        return [
            f"  guard {guard.use}({names[guard.variable]}) is {guard.value!r}"
            for guard in self.guards
            if guard.variable in variables
        ]


def _printed(equation: Equation, names: Sequence[str], defined: range, sources: bool) -> str:
    left = ", ".join(
        f"{names[variable]}: {spec}"
        for variable, spec in zip(defined, equation.results, strict=True)
    )
    words = [equation.operation.name, *(names[variable] for variable in equation.operands)]
    words += [f"{name}={value!r}" for name, value in equation.params]
    line = f"  {left} = {' '.join(words)}"
    return f"{line:<60}  # {equation.source}" if sources and equation.source else line


def letters(number: int) -> str:
    """The name of a variable in print: a, b, ..., z, aa, ab, ...

    >>> [letters(n) for n in (0, 25, 26, 701, 702)]
    ['a', 'z', 'aa', 'zz', 'aaa']
    """
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("a") + digit) + text
    return text


def _same(first: Spec, second: Spec) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype


def _checked(program: Program, position: int, leaf: Any, spec: Spec) -> Value:
    value = concrete(operand(leaf, f"program {program.name}"))
    own = spec_of(value)
    path = program.names[position]
    if own.shape != spec.shape:
        raise ShapeError(
            f"program {program.name}: {path}: expected shape {spec.shape}, got {own.shape}. A"
            " program holds for the shapes that it was staged with."
        )
    if own.weak and not spec.weak and own.dtype.kind in ("c" if spec.dtype.kind == "c" else "biuf"):
        return spec.dtype.type(value)
    if own.dtype != spec.dtype:
        raise DtypeError(
            f"program {program.name}: {path}: expected dtype {spec.dtype}, got {own.dtype}. A"
            " program holds for the dtypes that it was staged with."
        )
    return value.item() if spec.weak and isinstance(value, np.generic) else value


def _check_guard(program: Program, guard: Guard, value: Value) -> None:
    """Compare as the function did; a tracer answers, or refuses, as it would there."""
    read: Mapping[str, Any] = {"bool": bool, "int": int, "index": int}
    found = read[guard.use](value) if guard.use in read else np.asarray(value).item()
    if found != guard.value and not (found != found and guard.value != guard.value):
        raise GuardError(
            f"program {program.name}: when it was staged, {guard.use} of a value was"
            f" {guard.value!r}; for these arguments it is {found!r}, and the function would go"
            f" another way{' at ' + guard.source if guard.source else ''}. Stage the function again"
            " with these arguments, or choose with fnp.where."
        )

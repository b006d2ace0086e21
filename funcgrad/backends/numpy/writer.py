"""Programs as NumPy source: what flows in is a ``Program``, what flows out is the text of a module.

The module defines one function, of the program's inputs, that returns the tuple of its outputs: an
equation to a line, each as a person would write it.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> slope = fg.grad(lambda x: fnp.sum(fnp.sin(x) * x))
>>> print(fg.program(slope)(fg.tensor([1.0, 2.0])).to_numpy_source())
import numpy as np
from numpy import add, cos, multiply, sin
<BLANKLINE>
add_reduce = add.reduce
_1 = np.array(1.0, np.float64)
<BLANKLINE>
<BLANKLINE>
def f(x):
    a = sin(x)
    b = a * x
    c = add_reduce(b, 0)
    d = _1 * x
    multiply(_1, a, a)
    e = cos(x)
    d *= e
    a += d
    return (a,)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from math import prod
from typing import Final

from funcgrad.backends.numpy.expressions import Expressions, Operand
from funcgrad.backends.numpy.formulas import written_out
from funcgrad.backends.numpy.fusion import BLOCK, Kernel
from funcgrad.backends.numpy.kernels import kernel_lines
from funcgrad.backends.numpy.literals import identifier, number_text, tuple_text
from funcgrad.backends.numpy.parts import LONGEST, Parts
from funcgrad.backends.numpy.plan import Plan, plan_of
from funcgrad.backends.numpy.scalars import NONE, Scalars, boxed, scalar_text, scalars_of
from funcgrad.backends.numpy.scope import Scope
from funcgrad.backends.numpy.source import Source
from funcgrad.programs.equation import Equation, Guard
from funcgrad.programs.program import Program
from funcgrad.structure import Control, Opaque
from funcgrad.trace import BITWISE

__all__ = ["Operand", "numpy_source"]

_ROOM: Final = -1
"""Stands for the room of large intermediate results, which is handed on as variables are."""

_WORTH_FREEING: Final = 2**8
"""From so many bytes on, an array is dropped after its last use. The next one then gets memory that
is in the cache: a gradient over a million elements takes a third of the time and of the memory, and
one over 100 elements 5 % less. Tinier ones are worth no line."""


def numpy_source(
    program: Program,
    lines: bool = False,
    block: int = BLOCK,
    floats: bool = True,
    raises: bool = True,
    longest: int | None = None,
) -> Source:
    """The source of a program.

    Parameters
    ----------
    program : Program
    lines : bool
        Whether a comment names the user's line that an equation came from.
    block : int
        Bytes of an array that a kernel goes through at once.
    floats : bool
        Whether it may compute with Python's floats where that is quicker.
    raises : bool
        Whether the function raises where a guard does not hold; else it returns None.
    longest : int
        From how many lines on it is several functions; see ``Parts``. None for what is best: to
        hand a variable on takes as long as Python's arithmetic on a number, so programs that are
        mostly that stay whole.
    """
    program = written_out(program)
    plan = plan_of(program, block)
    together = [p for step in plan.steps if isinstance(step, Kernel) for p in step.members]
    scalars = scalars_of(program, together) if floats else NONE
    if longest is None:
        count = len(program.equations)
        longest = LONGEST if 2 * len(scalars.members) < count else sys.maxsize
    return _Writer(program, lines, plan, scalars, raises, longest).source()


class _Writer:
    """The parts of one module in the making."""

    def __init__(
        self,
        program: Program,
        lines: bool,
        plan: Plan,
        scalars: Scalars,
        raises: bool,
        longest: int,
    ) -> None:
        self.program = program
        self.lines = lines
        self.room = ""
        self.raises = raises
        self.plan = plan
        self.scalars = scalars
        self.scope = Scope()
        name = self.scope.fresh(identifier(program.name) or "f")
        inputs = [self.scope.fresh(identifier(name) or "x") for name in program.names]
        self.parts = Parts(name, ", ".join(inputs), longest)
        self.texts = dict(enumerate(inputs))
        self.numbers: dict[int, str] = {}  # what stands for variables as Python numbers
        self.made: dict[int, Equation] = {}  # Python numbers that are nowhere wanted as NumPy's
        given = len(program.inputs)
        self.values = {k: each.value for k, each in enumerate(program.constants, given)}
        self.expressions = Expressions(self.scope, self.plan.specs, self.values)

    def text(self, variable: int) -> str:
        """The text of a variable: its name, or a constant."""
        if variable not in self.texts:
            if variable in self.values:
                self.texts[variable] = self.scope.constant(self.values[variable])
            else:
                self.texts[variable] = self.scope.letter()
        return self.texts[variable]

    def either(self, variable: int) -> str:
        """The text of a variable, as a Python number if it is one."""
        return self.numbers.get(variable) or self.text(variable)

    def number(self, variable: int) -> str:
        """The text of a variable as a Python number."""
        if variable not in self.values:
            return self.either(variable)
        value, dtype = self.values[variable], self.plan.specs[variable].dtype
        return number_text(bool(value) if dtype.kind == "b" else float(value))

    def output(self, variable: int) -> str:
        """The text of an output."""
        if variable in self.made:
            return self.boxed(variable, self.made[variable])
        return self.text(variable)

    def boxed(self, variable: int, equation: Equation) -> str:
        """An expression that makes of a Python number what NumPy's would be."""
        if self.plan.specs[variable].weak:
            return self.numbers[variable]
        return self.scope.named(boxed(equation, self.numbers[variable]))

    def whole(self, equation: Equation, variable: int) -> str:
        """The text of a Python number; truth values count as 0 and 1, see ``number_of``."""
        text, is_bool = self.text(variable), self.plan.specs[variable].dtype.kind == "b"
        return f"int({text})" if is_bool and equation.operation.operator not in BITWISE else text

    def source(self) -> Source:
        program, parts = self.program, self.parts
        given = range(len(program.inputs))
        parts.makes(given)
        self.enter(given)
        guards, dropped = program.index.guards, self.dropped(program.index.given)
        for guard in guards.get(-1, ()):
            self.guard(guard)
        memory = self.memory()
        for number, step in enumerate(self.plan.steps):
            defined = self.defined(step)
            parts.begins([*self.read(step), *defined])
            if isinstance(step, Kernel):
                self.kernel(step)
            else:
                self.equation(step)
            parts.makes(defined)
            self.enter(defined)
            for variable in defined:
                for guard in guards.get(variable, ()):
                    self.guard(guard)
            names = [self.text(variable) for variable in dropped.get(number, ())]
            if names:
                self.line(f"del {', '.join(names)}")
        parts.begins([*program.outputs, _ROOM])
        if memory:
            self.line(f"{memory}.keep({self.room})")
        result = tuple_text([self.output(variable) for variable in program.outputs])
        functions = parts.functions(self.names, result)
        return Source(
            "\n".join(self.scope.import_lines()),
            "\n".join(self.scope.globals),
            tuple(["\n".join(lines) for lines in functions]),
            parts.name,
            tuple(self.scope.constants),
            bool(self.scalars.members),
        )

    def names(self, variable: int) -> list[str]:
        """The names of a variable in the text."""
        if variable == _ROOM:
            return [self.room]
        names = [] if variable in self.made else [self.text(variable)]
        return [*names, self.numbers[variable]] if variable in self.numbers else names

    def read(self, step: int | Kernel) -> list[int]:
        """The variables that a step reads."""
        members = (step,) if isinstance(step, int) else step.members
        return [v for position in members for v in self.program.equations[position].operands]

    def memory(self) -> str:
        """Take memory for large intermediate results; returns the name of the store."""
        if not self.plan.slots:
            return ""
        arrays, names = [], []
        for variable, slot in self.plan.slots.items():
            spec = self.plan.specs[variable]
            arrays.append(f"({spec.shape}, {self.scope.dtype(spec.dtype)}, {slot})")
            names.append(self.text(variable))
        own = self.scope.made(
            "funcgrad.backends.numpy.working_memory", "WorkingMemory", "memory", tuple_text(arrays)
        )
        self.room = self.scope.fresh("room")
        self.line(f"{self.room} = {own}.take()")
        self.line(f"{', '.join(names)}{',' * (len(names) == 1)} = {self.room}")
        self.parts.makes([*self.plan.slots, _ROOM])
        return own

    def defined(self, step: int | Kernel) -> list[int]:
        """The variables that there are after a step."""
        if isinstance(step, int):
            first = self.plan.firsts[step]
            return list(range(first, first + len(self.program.equations[step].results)))
        firsts = [self.plan.firsts[position] for position in step.members]
        return [variable for variable in firsts if variable in self.plan.outside]

    def dropped(self, given: int) -> dict[int, list[int]]:
        """By step, the large arrays that nothing after it reads, and whose memory nothing took."""
        taken = set(self.plan.takes.values())
        inner = {
            self.plan.firsts[p] for s in self.plan.steps if isinstance(s, Kernel) for p in s.members
        }
        found: dict[int, list[int]] = {}
        for variable in range(given, len(self.plan.specs)):
            spec = self.plan.specs[variable]
            if (
                variable not in taken
                and variable not in self.plan.slots
                and (variable not in inner or variable in self.plan.outside)
                and prod(spec.shape) * spec.dtype.itemsize >= _WORTH_FREEING
            ):
                found.setdefault(self.plan.ends[variable], []).append(variable)
        found.pop(len(self.plan.steps), None)
        return found

    def line(self, text: str, source: str = "") -> None:
        self.parts.line(f"{text:<44}  # {source}" if self.lines and source else text)

    def equation(self, position: int) -> None:
        """The lines of an equation that runs by itself."""
        equation, first = self.program.equations[position], self.plan.firsts[position]
        text = self.either if position in self.scalars.either else self.text
        operands = [partial(text, variable) for variable in equation.operands]
        if len(equation.results) != 1 or self.returns_tuple(equation):
            names = [self.text(first + k) for k in range(len(equation.results))]
            made = self.expressions.of(equation, operands)
            self.line(f"[{', '.join(names)}] = {made}", equation.source)
        elif position in self.scalars.members:
            self.scalar(equation, first)
        elif position in self.plan.takes:
            place = self.text(self.plan.takes[position])
            self.texts[first] = place
            self.line(self.expressions.into(equation, operands, place), equation.source)
        elif first in self.plan.slots:
            self.line(self.expressions.into(equation, operands, self.text(first)), equation.source)
        elif first in self.plan.leaving:
            name, spec = self.text(first), self.plan.specs[first]
            take, keep = self.scope.result_memory(name, spec.shape, spec.dtype)
            self.line(take)
            self.line(self.expressions.into(equation, operands, name), equation.source)
            self.line(keep)
        else:
            is_number = self.plan.specs[first].weak and bool(equation.operation.operator)
            if is_number:
                operands = [partial(self.whole, equation, v) for v in equation.operands]
            start, *rest = self.expressions.of(equation, operands).split("\n")
            name = self.text(first)
            if is_number:
                self.numbers[first] = name
                start = f"{start}.item()"
            elif not rest and self.enters_for_good(first):
                self.numbers[first] = name
                start = f"{self.python_type(first)}({start})"
            self.line(f"{name} = {start}", equation.source)
            for line in rest:
                self.line(line.replace("{out}", name), equation.source)

    def scalar(self, equation: Equation, first: int) -> None:
        """The line of an equation that runs on Python numbers."""
        operands = equation.operands
        divisor = self.values.get(operands[-1])
        text = scalar_text(equation, [self.number(variable) for variable in operands], divisor)
        name = self.numbers[first] = self.scope.letter()
        self.line(f"{name} = {self.scope.named(text)}", equation.source)
        if self.plan.specs[first].weak:
            self.texts[first] = name
        elif first in self.scalars.kept:
            self.texts[first] = self.scope.fresh(f"{name}_")
            self.line(f"{self.texts[first]} = {self.boxed(first, equation)}")
        else:
            self.made[first] = equation

    def enter(self, variables: Iterable[int]) -> None:
        """Python numbers for those variables that are wanted as such."""
        for variable in variables:
            if variable in self.scalars.entering and variable not in self.numbers:
                text = self.text(variable)
                name = text if self.enters_for_good(variable) else self.scope.fresh(f"{text}_")
                self.numbers[variable] = name
                self.line(f"{name} = {self.python_type(variable)}({text})")

    def enters_for_good(self, variable: int) -> bool:
        """Whether a variable is wanted as a Python number, and as nothing else."""
        return (
            variable in self.scalars.entering
            and variable not in self.scalars.kept
            and variable not in self.program.outputs
            and not self.plan.specs[variable].weak
        )

    def python_type(self, variable: int) -> str:
        return "bool" if self.plan.specs[variable].dtype.kind == "b" else "float"

    def returns_tuple(self, equation: Equation) -> bool:
        """Whether an operation returns a tuple, also of one result: it may have any number."""
        operation = equation.operation
        if not isinstance(operation.structure, Control | Opaque):
            return False
        operands = [self.plan.specs[variable] for variable in equation.operands]
        return isinstance(operation.result(*operands, **dict(equation.params)), tuple)

    def kernel(self, kernel: Kernel) -> None:
        """The lines of equations that run together."""
        for text, source in kernel_lines(
            self.program, self.plan, kernel, self.expressions, self.text
        ):
            self.line(text, source)

    def guard(self, guard: Guard) -> None:
        """Write the check of a guard, as soon as its variable is known."""
        weak, value = self.plan.specs[guard.variable].weak, guard.value
        is_python = not weak and guard.variable in self.numbers
        text = self.numbers[guard.variable] if is_python else self.text(guard.variable)
        number = text if weak or is_python else f"{text}.item()"
        if guard.use == "bool":
            test = f"not {text}" if value else text
        elif guard.use in ("int", "index"):
            test = f"int({number}) != {number_text(value)}"
        elif value and value == value and type(value) is not complex:
            test = f"{number} != {number_text(value)}"
        else:  # 0.0 is not -0.0 then, and NaN is NaN
            test = f"repr({number}) != {repr(value)!r}"
        self.line(f"if {test}:")
        if not self.raises:
            self.line("    return None", f"guard: {guard.use} is {value!r}")
            return
        self.scope.imports["funcgrad.errors"] = ["GuardError"]
        message = (
            f"program {self.program.name}: when it was staged, {guard.use} of a value was"
            f" {value!r}{' at ' + guard.source if guard.source else ''}; for these arguments it"
            " is not."
        )
        self.line(f"    raise GuardError({message!r})")

"""Write programs as NumPy source: a ``Program`` goes in, the text of a module comes out.

The module defines one function. It takes the program's inputs, has a line for each equation, as a
person would write it, and returns the tuple of the outputs.

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

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from funcgrad._backends.control_forms import form_of
from funcgrad._backends.numpy.expressions import Expressions
from funcgrad._backends.numpy.loops import DEEPEST, Module, write_choice, write_loop
from funcgrad._backends.numpy.plan import plan_of
from funcgrad._backends.numpy.prepare import written_out
from funcgrad._backends.numpy.scalars import NONE, Scalars, boxed, of_whole_numbers, scalars_of
from funcgrad._backends.numpy.scope import Scope
from funcgrad._core.structure.structures import Choice, Control, Factored, Loop, Opaque
from funcgrad._core.trace import BITWISE
from funcgrad._forms.source_text import Source, identifier, number_text, tuple_text
from funcgrad._passes.costs import bytes_of
from funcgrad._programs.equation import Equation, Guard
from funcgrad._programs.program import Program

_WORTH_FREEING: Final = 2**8
"""The bytes from which an array is deleted after its last use. The next array then gets memory
that is in the cache. A gradient over a million elements takes a third of the time and of the
memory, and one over 100 elements takes 5 % less time. Smaller arrays are not worth the line."""


def numpy_source(
    program: Program, lines: bool = False, floats: bool = True, raises: bool = True
) -> Source:
    """Write a program as NumPy source.

    Parameters
    ----------
    program : Program
    lines : bool
        Whether comments name the user's lines that the equations come from.
    floats : bool
        Whether the text may compute with Python's floats if that is faster.
    raises : bool
        Whether the function raises if a guard fails; if not, it returns None.
    """
    scope = Scope()
    name = scope.fresh(identifier(program.name) or "f")
    inputs = [scope.fresh(identifier(name) or "x") for name in program.names]
    writer = _Writer(Module(scope, lines, floats), program, is_inside=False, raises=raises)
    writer.texts.update(enumerate(inputs))
    return writer.source(name)


class _Writer:
    """Writes the lines of one program: the module's function, or the body of a loop or branch."""

    def __init__(
        self, module: Module, program: Program, is_inside: bool = True, raises: bool = True
    ) -> None:
        self.module = module
        self.program = program = written_out(program)
        self.raises = raises
        self.is_inside = is_inside  # the inputs are then names of the enclosing program
        self.plan = plan_of(program)
        self.scalars = self.scalars_in() if module.floats else NONE
        self.scope = module.scope
        module.uses_floats = module.uses_floats or bool(self.scalars.members)
        self.texts: dict[int, str] = {}
        self.numbers: dict[int, str] = {}  # texts of variables as Python numbers
        self.made: dict[int, str] = {}  # expressions that convert Python numbers for the outputs
        first_constant = len(program.inputs)
        self.values = {
            k: constant.value for k, constant in enumerate(program.constants, first_constant)
        }
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
        """The text of a variable, as a Python number if the variable is one."""
        return self.numbers.get(variable) or self.text(variable)

    def number(self, variable: int) -> str:
        """The text of a variable as a Python number."""
        if variable not in self.values:
            text, maker = self.either(variable), self.program.index.makers[variable]
            is_whole = self.plan.specs[variable].dtype.kind == "i"
            return f"float({text})" if is_whole and maker in self.scalars.members else text
        value, dtype = self.values[variable], self.plan.specs[variable].dtype
        return number_text(bool(value) if dtype.kind == "b" else float(value))

    def output(self, variable: int) -> str:
        """The text of an output."""
        if variable in self.made:
            return self.scope.named(self.made[variable])
        return self.text(variable)

    def whole(self, equation: Equation, variable: int) -> str:
        """The text of a Python number; a bool is converted to 0 or 1, see ``number_of``."""
        text, is_bool = self.text(variable), self.plan.specs[variable].dtype.kind == "b"
        return f"int({text})" if is_bool and equation.operation.operator not in BITWISE else text

    def source(self, name: str) -> Source:
        """Write the whole text of a function of this name."""
        head = f"def {name}({', '.join(self.texts[v] for v in range(len(self.program.inputs)))}):"
        self.begin()
        self.steps()
        self.line(
            f"return {tuple_text([self.output(variable) for variable in self.program.outputs])}"
        )
        return Source(
            "\n".join(self.scope.import_lines()),
            "\n".join(self.scope.globals),
            "\n".join([head, *self.module.lines]),
            name,
            tuple(self.scope.constants),
            self.module.uses_floats,
        )

    def inside(self, program: Program) -> _Writer:
        """Make the writer of an inner program; the caller enters its inputs' names in ``texts``."""
        return _Writer(self.module, program)

    def scalars_in(self) -> Scalars:
        """The equations that run on Python numbers."""
        written: list[int] = []
        if self.module.depth < DEEPEST:
            equations = self.program.equations
            written = [k for k, e in enumerate(equations) if form_of(e, self.plan.specs)]
        return scalars_of(self.program, written, self.is_inside)

    @contextmanager
    def indented(self) -> Iterator[None]:
        """Indent the lines that are written in this context; write ``pass`` if there are none."""
        before = len(self.module.lines)
        self.module.depth += 1
        yield
        if len(self.module.lines) == before:
            self.line("pass")
        self.module.depth -= 1

    def steps(self) -> None:
        """Write the lines of all equations, and ``del`` after the last use of large arrays."""
        dropped, guards = self.dropped(), self.program.index.guards
        plan = self.plan
        held = [self.text(v) for v in (*plan.reused, *plan.turns)]  # for the next step
        for position, defined in enumerate(self.program.index.results):
            self.equation(position)
            self.enter(defined)
            for variable in defined:
                for guard in guards.get(variable, ()):
                    self.guard(guard)
            names = [self.text(variable) for variable in dropped.get(position, ())]
            names = [name for name in names if name not in held]
            if names:
                self.line(f"del {', '.join(names)}")

    def begin(self) -> None:
        """Write the lines before the first equation."""
        self.enter(range(len(self.program.inputs)))
        for guard in self.program.index.guards.get(-1, ()):
            self.guard(guard)

    def dropped(self) -> dict[int, list[int]]:
        """By position, the large arrays to delete there. Nothing reads or overwrites them later."""
        taken, first_result = set(self.plan.takes.values()), self.program.index.first_result
        dropped: dict[int, list[int]] = {}
        for variable in range(first_result, len(self.plan.specs)):
            spec = self.plan.specs[variable]
            if variable not in taken and bytes_of(spec) >= _WORTH_FREEING:
                dropped.setdefault(self.plan.ends[variable], []).append(variable)
        dropped.pop(len(self.program.equations), None)
        return dropped

    def line(self, text: str, source: str = "") -> None:
        text = f"{text:<44}  # {source}" if self.module.commented and source else text
        self.module.lines.append(f"{'    ' * self.module.depth}{text}")

    def equation(self, position: int) -> None:
        """Write the lines of an equation."""
        equation = self.program.equations[position]
        first = self.program.index.results[position].start
        text = self.either if position in self.scalars.either else self.text
        operands = [partial(text, variable) for variable in equation.operands]
        form = self.form(equation)
        if isinstance(form, Loop):
            write_loop(self, equation, form, first)
        elif isinstance(form, Choice):
            write_choice(self, equation, form, first)
        elif len(equation.results) != 1 or self.returns_tuple(equation):
            names = [self.text(first + k) for k in range(len(equation.results))]
            made = self.expressions.expression(equation, operands)
            self.line(f"[{', '.join(names)}] = {made}", equation.source)
        elif position in self.scalars.members:
            self.scalar(equation, first, self.scalars.texts[position])
        elif position in self.plan.takes:
            place = self.text(self.plan.takes[position])
            self.texts[first] = place
            self.line(self.expressions.into(equation, operands, place), equation.source)
        elif first in self.plan.reused:
            name = self.text(first)
            self.line(
                f"{name} = {self.expressions.into(equation, operands, name)}", equation.source
            )
        else:
            is_number = self.plan.specs[first].weak and bool(equation.operation.operator)
            if is_number:
                operands = [partial(self.whole, equation, v) for v in equation.operands]
            start, *statements = self.expressions.expression(equation, operands).split("\n")
            name = self.text(first)
            if is_number:
                self.numbers[first] = name
                start = f"{start}.item()"
            elif not statements and self.enters_for_good(first):
                self.numbers[first] = name
                start = f"{self.python_type(first)}({start})"
            self.line(f"{name} = {start}", equation.source)
            for line in statements:
                self.line(line.replace("{out}", name), equation.source)

    def scalar(self, equation: Equation, first: int, expression: str) -> None:
        """Write the line of an equation that runs on Python numbers."""
        operand_text = self.text if of_whole_numbers(equation, self.plan.specs) else self.number
        texts = [operand_text(variable) for variable in equation.operands]
        name = self.numbers[first] = self.scope.letter()
        text = expression.format(*texts, name)
        self.line(f"{name} = {self.scope.named(text)}", equation.source)
        if self.plan.specs[first].weak:
            self.texts[first] = name
        elif first in self.scalars.as_numpy:
            self.texts[first] = self.scope.fresh(f"{name}_")
            self.line(f"{self.texts[first]} = {self.scope.named(boxed(equation, name))}")
        else:
            self.made[first] = boxed(equation, name)

    def form(self, equation: Equation) -> Loop | Choice | None:
        """The loop or choice as which an equation is written; None for other equations."""
        return form_of(equation, self.plan.specs) if self.module.depth <= DEEPEST else None

    def receive(self, variable: int, number: str, box: str) -> None:
        """Note that a result is a Python number, which ``box`` converts to NumPy's scalar."""
        self.numbers[variable] = number
        if variable in self.scalars.as_numpy:
            self.texts[variable] = self.scope.fresh(f"{number}_")
            self.line(f"{self.texts[variable]} = {self.scope.named(box)}")
        else:
            self.made[variable] = box

    def enter(self, variables: Iterable[int]) -> None:
        """Write lines that convert variables to Python numbers, if they are needed as such."""
        for variable in variables:
            if variable in self.scalars.entering and variable not in self.numbers:
                text = self.text(variable)
                like = f"{text}_" if text.isidentifier() else "number"
                name = text if self.enters_for_good(variable) else self.scope.fresh(like)
                self.numbers[variable] = name
                self.line(f"{name} = {self.python_type(variable)}({text})")

    def enters_for_good(self, variable: int) -> bool:
        """Whether a variable is needed as a Python number only."""
        return (
            variable in self.scalars.entering
            and variable not in self.scalars.as_numpy
            and variable not in self.program.outputs
            and not self.plan.specs[variable].weak
            and not (self.is_inside and variable < len(self.program.inputs))
        )

    def python_type(self, variable: int) -> str:
        return "bool" if self.plan.specs[variable].dtype.kind == "b" else "float"

    def returns_tuple(self, equation: Equation) -> bool:
        """Whether an operation returns a tuple, even if it has one result."""
        operation = equation.operation
        if not isinstance(operation.structure, Control | Factored | Opaque):
            return False
        operands = [self.plan.specs[variable] for variable in equation.operands]
        return isinstance(operation.result(*operands, **dict(equation.params)), tuple)

    def guard(self, guard: Guard) -> None:
        """Write the check of a guard."""
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
        else:  # `repr` tells 0.0 from -0.0, and NaN equals itself
            test = f"repr({number}) != {repr(value)!r}"
        self.line(f"if {test}:")
        if not self.raises:
            self.line("    return None", f"guard: {guard.use} is {value!r}")
            return
        self.scope.imports["funcgrad.errors"] = ["GuardError"]
        message = (
            f"program {self.program.name}: when it was staged, {guard.use} of a value was"
            f" {value!r}{' at ' + guard.source if guard.source else ''}; for these arguments it"
            " is not, and the function would take another path."
        )
        self.line(f"    raise GuardError({message!r})")

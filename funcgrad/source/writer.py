"""Programs as NumPy source: what flows in is a ``Program``, what flows out is the text of a module.

The module defines one function, of the program's inputs, that returns the tuple of its outputs: an
equation to a line, each as a person would write it. It gives the program's results to the last bit.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> slope = fg.grad(lambda x: fnp.sum(fnp.sin(x) * x))
>>> print(fg.program(slope)(fg.tensor([1.0, 2.0])).to_numpy_source())
import numpy as np
from numpy import add, cos, sin
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
    e = _1 * a
    g = cos(x)
    h = d * g
    i = e + h
    return (i,)
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import prod
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np

from funcgrad.equations import Constant, Equation, Guard
from funcgrad.primitive import Primitive
from funcgrad.primitives.keys import index_text
from funcgrad.shape import Spec, spec_of
from funcgrad.source.literals import (
    array_text,
    dtype_text,
    element_text,
    identifier,
    letters,
    number_name,
    number_text,
    plain_text,
    tuple_text,
)
from funcgrad.trace import RAW

__all__ = ["Operand", "ProgramParts", "Source", "numpy_source"]

_WORTH_FREEING: Final = 2**8
"""From so many bytes on, an array is dropped after its last use. The next one then gets memory that
is in the cache: a gradient over a million elements takes a third of the time and of the memory, and
one over 100 elements 5 % less. Tinier ones are worth no line."""

_BINARY: Final = (
    "add + subtract - multiply * divide / matmul @ less < less_equal <= greater > greater_equal >="
    " equal == not_equal != bitwise_and & bitwise_or | bitwise_xor ^"
)
_OPERATORS: Final[Mapping[str, str]] = MappingProxyType(
    dict(zip(_BINARY.split()[::2], _BINARY.split()[1::2], strict=True))
)
_RESERVED: Final = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, "np", "constants", "int", "complex", "GuardError"}
)


@dataclass(frozen=True, slots=True)
class Source:
    """A module's text and what it is given besides.

    Attributes
    ----------
    text : str
    name : str
        Of the function.
    constants : tuple
        What the text has no words for, large arrays above all: the module expects it as a global
        variable ``constants``.
    """

    text: str
    name: str
    constants: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """What stands for an operand in the text; it prints as that.

    Attributes
    ----------
    text : str
    spec : Spec
    beside : callable
        See ``number``.
    """

    text: str
    spec: Spec
    beside: Callable[[Any, np.dtype[Any]], str | None]

    def __str__(self) -> str:
        return self.text

    @property
    def dtype(self) -> str:
        """Its dtype as text."""
        return dtype_text(self.spec.dtype)

    @property
    def array(self) -> str:
        """The same where an array's methods are wanted."""
        return self.text if self.spec.shape else f"np.asarray({self.text})"

    def number(self, value: float) -> str:
        """What stands for a number that an elementwise operation has beside this operand."""
        small = not self.spec.shape
        return (None if small else self.beside(value, self.spec.dtype)) or number_text(value)


class ProgramParts(Protocol):
    """What is read of a program, which is a layer above."""

    @property
    def name(self) -> str: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def inputs(self) -> tuple[Spec, ...]: ...
    @property
    def constants(self) -> tuple[Constant, ...]: ...
    @property
    def equations(self) -> tuple[Equation, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def guards(self) -> tuple[Guard, ...]: ...
    def specs(self) -> list[Spec]: ...


def numpy_source(program: ProgramParts, lines: bool = False) -> Source:
    """The source of a program.

    Parameters
    ----------
    program : Program
    lines : bool
        Whether a comment names the user's line that an equation came from.
    """
    return _Writer(program, lines).source()


class _Writer:
    """The parts of one module in the making."""

    def __init__(self, program: ProgramParts, lines: bool) -> None:
        self.program = program
        self.lines = lines
        self.specs: list[Spec] = program.specs()
        self.imports: dict[str, list[str]] = {}
        self.globals: list[str] = []
        self.constants: list[Any] = []
        self.body: list[str] = []
        self.known: dict[Any, str] = {}  # names of what is imported or made once, by what it is
        self.taken: set[str] = set(_RESERVED)
        self.letters = map(letters, count())
        self.name = self.fresh(identifier(program.name) or "f")
        self.texts = dict(enumerate(self.inputs()))
        given = len(program.inputs)
        self.values = {k: each.value for k, each in enumerate(program.constants, given)}

    def inputs(self) -> list[str]:
        """The inputs as the user knows them."""
        return [self.fresh(identifier(name) or "x") for name in self.program.names]

    def fresh(self, name: str) -> str:
        """A name like the one wanted that nothing has so far."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def once(self, value: str, name: str) -> str:
        """A global name for an expression."""
        if value not in self.known:
            self.known[value] = self.fresh(name)
            self.globals.append(f"{self.known[value]} = {value}")
        return self.known[value]

    def text(self, variable: int) -> str:
        """What stands for a variable."""
        if variable not in self.texts:
            if variable in self.values:
                self.texts[variable] = self.constant(self.values[variable])
            else:
                self.texts[variable] = self.letter()
        return self.texts[variable]

    def letter(self) -> str:
        return self.fresh(next(name for name in self.letters if name not in self.taken))

    def source(self) -> Source:
        program = self.program
        inputs = ", ".join(self.texts.values())
        number = len(program.inputs) + len(program.constants)
        guards = _by_variable(program.guards, number)
        last = _last_uses(program, self.specs)
        for guard in guards.get(None, ()):
            self.guard(guard)
        for position, equation in enumerate(program.equations):
            results = range(number, number + len(equation.results))
            self.equation(equation, results)
            for variable in results:
                for guard in guards.get(variable, ()):
                    self.guard(guard)
            if position in last:
                self.line(f"del {', '.join(map(self.text, last[position]))}")
            number = results.stop
        self.line(f"return {tuple_text([self.text(variable) for variable in program.outputs])}")
        head = ["import numpy as np"]
        for module in sorted(self.imports, key=lambda name: (name != "numpy", name)):
            head.append(f"from {module} import {', '.join(sorted(self.imports[module]))}")
        if self.globals:
            head += ["", *self.globals]
        lines = [*head, "", "", f"def {self.name}({inputs}):", *self.body, ""]
        return Source("\n".join(lines), self.name, tuple(self.constants))

    def line(self, text: str, source: str = "") -> None:
        text = f"    {text}"
        self.body.append(f"{text:<48}  # {source}" if self.lines and source else text)

    # Equations.

    def equation(self, equation: Equation, results: range) -> None:
        if isinstance(equation.operation, Primitive):
            first, *rest = self.expression(equation, equation.operation).split("\n")
            name = self.text(results.start)
            self.line(f"{name} = {first}", equation.source)
            for line in rest:
                self.line(line.replace("{out}", name), equation.source)
            return
        operands = ", ".join(map(self.text, equation.operands))
        call = self.object(equation.operation, identifier(equation.operation.name) or "call")
        names = ", ".join(map(self.text, results))
        self.line(f"[{names}] = {call}.bind([{operands}])", equation.source)

    def expression(self, equation: Equation, primitive: Primitive) -> str:
        params = dict(equation.params)
        evaluate: Any = primitive.evaluate
        name = getattr(evaluate, "__name__", "")
        if not name or getattr(np, name, None) is not evaluate:
            name = ""
        operands = self.operands(equation, name)
        if primitive.source is not None:
            text = primitive.source(*operands, **params)
            if text is not None:
                return _NUMPY.sub(self.numpy, text)
        if name:
            text = None if params else _operator(name, operands)
            if text is not None:
                return text
            function = self.known.get(f"np.{name}") or self.numpy_name(name)
        else:
            function = self.function(primitive)
        arguments = [str(operand) for operand in operands]
        arguments += [f"{name}={self.parameter(value)}" for name, value in params.items()]
        return f"{function}({', '.join(arguments)})"

    def operands(self, equation: Equation, name: str) -> list[Operand]:
        """The operands; numbers beside arrays are 0-d arrays, made once, where that is the same.

        To turn a number into an array takes NumPy as long as an operation on ten elements.
        """
        specs = [self.specs[variable] for variable in equation.operands]
        beside = name in _ALIKE and any(spec.shape for spec in specs)
        strong = [spec.dtype for spec in specs[name == "where" :] if not spec.weak]
        operands = []
        for variable, spec in zip(equation.operands, specs, strict=True):
            text = None
            if beside and not spec.shape and variable in self.values:
                dtype = np.result_type(*strong) if strong and spec.weak else spec.dtype
                text = self.beside(self.values[variable], dtype)
            operands.append(Operand(text or self.text(variable), spec, self.beside))
        return operands

    def beside(self, value: Any, dtype: np.dtype[Any]) -> str | None:
        """A number as a 0-d array; None where an array of that dtype would not do the same."""
        if not isinstance(value, (int, float, np.floating)) or dtype.kind != "f":
            return None
        with np.errstate(over="ignore"):
            number = dtype.type(value)
        if np.isfinite(number) != np.isfinite(float(value)) or (
            isinstance(value, int) and number != value
        ):
            return None
        text = element_text(number)
        return self.once(f"np.array({text}, {dtype_text(dtype)})", number_name(text))

    def numpy(self, match: re.Match[str]) -> str:
        """A name of NumPy's, or of a ufunc's method, as a global name.

        Looking it up in the module at each call takes a tenth of a small operation.
        """
        name, method = match.groups()
        function = self.numpy_name(name)
        return self.once(f"{function}.{method}", f"{name}_{method}") if method else function

    def numpy_name(self, name: str) -> str:
        path = f"np.{name}"
        if path not in self.known:
            own = self.fresh(f"{name}_" if hasattr(builtins, name) else name)
            self.known[path] = self.imported("numpy", name, own)
        return self.known[path]

    def imported(self, module: str, attribute: str, name: str) -> str:
        renamed = f" as {name}" if name != attribute else ""
        self.imports.setdefault(module, []).append(attribute + renamed)
        return name

    def function(self, primitive: Primitive) -> str:
        """An expression for the function that evaluates a primitive, imported from its home."""
        if primitive not in self.known:
            evaluate: Any = primitive.evaluate
            home, attribute = _home(evaluate, "", evaluate)
            method = ""
            if not home:
                home, attribute = _home(primitive, "funcgrad.primitives.", evaluate)
                method = ".evaluate"
            if home:
                name = self.imported(home, attribute, self.fresh(attribute))
            else:
                name = self.object(primitive, identifier(primitive.name))
                method = ".evaluate"
            self.known[primitive] = name + method
        return self.known[primitive]

    # Values.

    def object(self, value: Any, name: str) -> str:
        """A name for an object that the module is given."""
        key = ("object", id(value))
        if key not in self.known:
            self.known[key] = self.given(value, self.fresh(name or "given"))
        return self.known[key]

    def given(self, value: Any, name: str, comment: str = "") -> str:
        self.globals.append(f"{name} = constants[{len(self.constants)}]{comment}")
        self.constants.append(value)
        return name

    def constant(self, value: Any) -> str:
        """What stands for a constant: a number itself, or the name of what is made once."""
        if type(value) in (bool, int, float, complex):
            return number_text(value)
        text = array_text(value) if type(value) in RAW else None
        if text is None:
            return self.given(value, self.letter(), f"  # {spec_of(value)}")
        name = self.letter()
        self.globals.append(f"{name} = {text}")
        return name

    def parameter(self, value: Any) -> str:
        """A static parameter; an index with slices is made once."""
        if isinstance(value, tuple) and any(type(entry) is slice for entry in value):
            return self.once(f"np.s_[{index_text(value)}{',' * (len(value) == 1)}]", "key")
        return plain_text(value) or self.object(value, "parameter")

    def guard(self, guard: Guard) -> None:
        """What the program relies on, checked as soon as it is known."""
        text, value = self.text(guard.variable), guard.value
        number = text if self.specs[guard.variable].weak else f"{text}.item()"
        if guard.use == "bool":
            test = f"not {text}" if value else text
        elif guard.use in ("int", "index"):
            test = f"int({number}) != {number_text(value)}"
        elif value and value == value and type(value) is not complex:
            test = f"{number} != {number_text(value)}"
        else:  # 0.0 is not -0.0 then, and NaN is NaN
            test = f"repr({number}) != {repr(value)!r}"
        self.imports["funcgrad.errors"] = ["GuardError"]
        message = (
            f"program {self.program.name}: when it was staged, {guard.use} of a value was"
            f" {value!r}{' at ' + guard.source if guard.source else ''}; for these arguments it"
            " is not."
        )
        self.line(f"if {test}:")
        self.line(f"    raise GuardError({message!r})")


_NUMPY: Final = re.compile(r"\bnp\.(\w+)(?:\.(reduce|accumulate))?")
_ALIKE: Final = frozenset(
    "add subtract multiply divide maximum minimum fmax fmin less less_equal greater greater_equal"
    " equal not_equal where".split()
)
"""What brings its operands to one dtype first, so that a number may as well have that already."""


# Expressions.


def _operator(name: str, operands: Sequence[Operand]) -> str | None:
    """An expression with an operator, where Python's gives what the ufunc does."""
    if not any(operand.spec.shape for operand in operands) and (
        name == "matmul"
        or not all(_has_operators(operand.spec) for operand in operands)
        or all(operand.spec.weak for operand in operands)
    ):
        return None
    if name == "negative":
        return f"-{operands[0]}"
    symbol = _OPERATORS.get(name)
    return None if symbol is None else f"{operands[0]} {symbol} {operands[1]}"


def _has_operators(spec: Spec) -> bool:
    """Whether a number's operators are the ufuncs, at a tenth of their time: whole numbers warn
    where those wrap around, and complex quotients are rounded otherwise."""
    return spec.dtype.kind == "f" or (spec.weak and spec.dtype.kind == "i")


# Homes and lives.


def _home(value: Any, prefix: str, function: Any) -> tuple[str, str]:
    """The module and the public name that a value is imported from, if it is."""
    own = getattr(function, "__module__", "")
    for module in (own, *[name for name in sys.modules if prefix and name.startswith(prefix)]):
        if not module.startswith("funcgrad."):
            continue
        for name, found in vars(sys.modules[module]).items():
            if found is value and not name.startswith("_"):
                return module, name
    return "", ""


def _by_variable(guards: Iterable[Guard], given: int) -> dict[int | None, list[Guard]]:
    found: dict[int | None, list[Guard]] = {}
    for guard in guards:
        found.setdefault(None if guard.variable < given else guard.variable, []).append(guard)
    return found


def _last_uses(program: ProgramParts, specs: Sequence[Spec]) -> dict[int, list[int]]:
    """By equation, the large variables that nothing after it reads."""
    last: dict[int, int] = {}
    given = number = len(program.inputs) + len(program.constants)
    for position, equation in enumerate(program.equations):
        for variable in (*equation.operands, *range(number, number + len(equation.results))):
            last[variable] = position
        number += len(equation.results)
    for variable in program.outputs:
        last.pop(variable, None)
    by_equation: dict[int, list[int]] = {}
    for variable, position in last.items():
        spec = specs[variable]
        if variable >= given and prod(spec.shape) * spec.dtype.itemsize >= _WORTH_FREEING:
            by_equation.setdefault(position, []).append(variable)
    return by_equation

"""Scalars: which equations of a program run on Python floats, and how they are written then.

An operation on ``np.float64`` takes NumPy two to fifty times as long as Python takes for the same
on a ``float``, and the result has the same bits where IEEE 754 leaves no choice: sums, products,
quotients, square roots, comparisons, selections. Where Python would raise and NumPy answers with an
infinity or NaN, the text asks NumPy. Functions that NumPy approximates in its own way, such as
sines, stay NumPy's.

A strong scalar is converted to a ``float`` where Python first needs it, and back where NumPy could
tell the difference: in outputs, and beside arrays of other dtypes. These conversions take time. So
equations that hand scalars to one another, be it through a sine, form one *island*, which runs in
Python if that saves more time than the conversions into it and out of it take.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x, y: fg.numpy.sqrt(x * y) / y - x)(2.0, 3.0)
>>> scalars_of(staged).members
frozenset({0, 1, 2, 3})
>>> print(staged.to_numpy_source().partition(":")[2].strip())
a = x * y
    b = math_sqrt(a) if a >= 0.0 else float(sqrt(a))
    c = b / y if y else float(divide(b, y))
    d = c - x
    return (float64(d),)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Movement, Scatter

_EXTREMUM: Final = "{0} if {0} %s {1} else {1} if {1} %s {0} else float(np.%s({0}, {1}))"
"""NumPy decides between zeros of two signs, as the processor has it, and about NaN."""

_ARITHMETIC: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.add: "{0} + {1}",
        np.subtract: "{0} - {1}",
        np.multiply: "{0} * {1}",
        np.divide: "{0} / {1} if {1} else float(np.divide({0}, {1}))",
        np.negative: "-{0}",
    }
)
_COMPARISONS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.less: "{0} < {1}",
        np.less_equal: "{0} <= {1}",
        np.greater: "{0} > {1}",
        np.greater_equal: "{0} >= {1}",
        np.equal: "{0} == {1}",
        np.not_equal: "{0} != {1}",
    }
)
_OPERATORS: Final = frozenset({*_ARITHMETIC, *_COMPARISONS})
_FUNCTIONS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.square: "{0} * {0}",
        np.reciprocal: "1.0 / {0} if {0} else float(np.reciprocal({0}))",
        np.absolute: "abs({0})",
        np.fabs: "abs({0})",
        np.sign: "1.0 if {0} > 0.0 else -1.0 if {0} < 0.0 else {0} + 0.0",
        np.sqrt: "math.sqrt({0}) if {0} >= 0.0 else float(np.sqrt({0}))",
        np.maximum: _EXTREMUM % (">", ">", "maximum"),
        np.minimum: _EXTREMUM % ("<", "<", "minimum"),
        np.isnan: "{0} != {0}",
        np.isinf: "abs({0}) == np.inf",
        np.isfinite: "{0} - {0} == 0.0",
    }
)
_LOGIC: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.logical_not: "not {0}",
        np.logical_and: "{0} and {1}",
        np.logical_or: "{0} or {1}",
        np.bitwise_and: "{0} and {1}",
        np.bitwise_or: "{0} or {1}",
    }
)
_TEXTS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        **_ARITHMETIC,
        **_COMPARISONS,
        **_FUNCTIONS,
        **_LOGIC,
        np.where: "{1} if {0} else {2}",
    }
)
_WHOLE_NUMBERS: Final[Mapping[Any, str]] = MappingProxyType(
    {
        np.add: "{0} + {1}",
        np.subtract: "{0} - {1}",
        np.multiply: "{0} * {1}",
    }
)
_CHECKED: Final = (
    "{2} if -0x7FFFFFFFFFFFFFFF <= ({2} := %s) <= 0x7FFFFFFFFFFFFFFF else np.%s({0}, {1}).item()"
)
"""NumPy's whole numbers wrap around where Python's grow."""
_TO_CHOOSE: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {"float": frozenset({"float", "int"}), "bool": frozenset({"bool"})}
)
"""For each kind of result of a selection, the kinds of Python numbers that it may choose from."""

_WHOLE: Final = 2**53
"""Up to here a whole number is a float."""

# Nanoseconds, on a machine where Python adds two floats in 20.
_OPERATOR_GAIN: Final = 35  # an operator of np.float64, on the way to that of float
_UNARY_GAIN: Final = 100  # a ufunc of one scalar
_BRIDGE_GAIN: Final = 30  # a ufunc of one scalar that is called with a float
_UFUNC_GAIN: Final = 600  # a ufunc of two, and where
_WAY_IN: Final = 20  # float(x)
_WAY_OUT: Final = 60  # np.float64(x)
_WORTHWHILE: Final = 50  # for less the text stays as it is


@dataclass(frozen=True, slots=True)
class Scalars:
    """The equations of a program that run on Python numbers, and where these come in and go out.

    Attributes
    ----------
    members : frozenset of int
        Positions of these equations. Their results are Python numbers.
    entering : frozenset of int
        Variables of other equations that members read, and that have to be converted to Python
        numbers.
    as_numpy : frozenset of int
        Variables that other equations read and that have to be NumPy's there.
    either : frozenset of int
        Positions of other equations that give the same for a ``float`` as for ``np.float64``.
    """

    members: frozenset[int]
    entering: frozenset[int]
    as_numpy: frozenset[int]
    either: frozenset[int]


NONE: Final = Scalars(frozenset(), frozenset(), frozenset(), frozenset())
"""No equation runs on Python numbers."""


def scalars_of(
    program: Program,
    together: Iterable[int] = (),
    written: Collection[int] = (),
    loops: bool = False,
) -> Scalars:
    """The equations of a program that run on Python numbers, and where these come in and go out.

    Parameters
    ----------
    program : Program
    together : iterable of int
        Positions of equations that run in kernels, and so among arrays.
    written : collection of int
        Positions of loops and choices, which take and return numbers of either kind.
    loops : bool
        Whether conversions cost nothing, as in a loop, which makes them before its first step and
        after its last.
    """
    equations, makers, kinds = program.equations, program.index.makers, _kinds(program)
    specs = program.specs()
    alone = set(range(len(equations))).difference(together)
    able = {position for position in alone if _is_able(equations[position], kinds)}
    if not able and not written and not loops:
        return NONE
    either = {k for k in alone - able if k in written or _takes_either(equations[k], specs)}
    bridges = {k for k in either.difference(written) if not equations[k].results[0].shape}
    outputs = () if loops else program.outputs
    leaving = {makers[v] for v in _read(program, able | either).union(outputs)}
    chosen: set[int] = set()
    entering: set[int] = set()
    for island in _islands(equations, makers, able | bridges):
        inside = able.intersection(island)
        read = {
            variable
            for position in inside
            if not of_whole_numbers(equations[position], specs)
            for variable in equations[position].operands
        }
        entries = {v for v in read if makers[v] not in able and _enters(v, program, specs)}
        gain = sum([_gain(equations[position], specs) for position in inside])
        gain += _BRIDGE_GAIN * len([k for k in island if k not in able and _is_call(equations[k])])
        paid = {v for v in entries if makers[v] >= 0} if loops else entries
        gain -= _WAY_IN * len(paid) + _WAY_OUT * len(leaving & inside)
        if gain >= (1 if loops else _WORTHWHILE):
            chosen |= inside
            entering |= entries
    as_numpy = _read(program, chosen | either)
    return Scalars(frozenset(chosen), frozenset(entering), frozenset(as_numpy), frozenset(either))


def is_number(spec: Spec) -> bool:
    """Whether NumPy's number of a spec can be one of Python's inside."""
    return not spec.shape and not spec.weak and (spec.dtype == np.float64 or spec.dtype == bool)


def _kinds(program: Program) -> list[str]:
    """The kind of Python number that each variable can be: float, bool, int; empty for none."""
    kinds = [_kind(spec) for spec in program.specs()]
    for variable, constant in enumerate(program.constants, len(program.inputs)):
        if not constant.is_raw or (kinds[variable] == "int" and abs(constant.value) > _WHOLE):
            kinds[variable] = ""
    return kinds


def _kind(spec: Spec) -> str:
    if spec.shape:
        return ""
    if spec.dtype == np.float64:
        return "float"
    if spec.dtype == np.bool_:
        return "bool"
    return "int" if spec.weak and spec.dtype.kind == "i" else ""


def _is_able(equation: Equation, kinds: Sequence[str]) -> bool:
    """Whether Python can run an equation."""
    operation, params = equation.operation, dict(equation.params)
    operand_kinds = [kinds[operand] for operand in equation.operands]
    if "" in operand_kinds:
        return False
    function = operation.evaluate
    if function is np.where:
        return set(operand_kinds[1:]) <= _TO_CHOOSE.get(_kind(equation.results[0]), frozenset())
    if function in _LOGIC:
        return set(operand_kinds) == {"bool"}
    if set(operand_kinds) == {"int"}:
        return function in _WHOLE_NUMBERS or function in _COMPARISONS
    if function in _OPERATORS:
        return "float" in operand_kinds
    return (
        function in _FUNCTIONS
        and not params
        and "float" in operand_kinds
        and "bool" not in operand_kinds
    )


def of_whole_numbers(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether all operands are whole Python numbers, which stay that."""
    return all(specs[operand].dtype.kind == "i" for operand in equation.operands)


def _takes_either(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether an equation gives the same for ``float`` as for ``np.float64``.

    NumPy calls with a ``float`` are quicker, unless there are arrays; then they take as long.
    """
    operation = equation.operation
    if any(specs[operand].dtype != np.float64 for operand in equation.operands):
        return False
    if isinstance(operation.structure, Movement | Scatter):  # NumPy makes arrays of what they move
        return bool(equation.results[0].shape)
    return isinstance(operation.evaluate, np.ufunc) and operation.evaluate.signature is None


def _is_call(equation: Equation) -> bool:
    """Whether NumPy calls a function of one scalar."""
    return len(equation.operands) == 1 and isinstance(equation.operation.evaluate, np.ufunc)


def _enters(variable: int, program: Program, specs: Sequence[Spec]) -> bool:
    """Whether members have to convert this operand by ``float()`` first: it is neither a constant
    nor a Python number."""
    input_count = len(program.inputs)
    constant = input_count <= variable < input_count + len(program.constants)
    spec = specs[variable]
    return not constant and not (spec.weak and spec.dtype.kind in "fb")


def _read(program: Program, without: Set[int]) -> set[int]:
    """The variables that equations at other positions read."""
    return {
        operand
        for position, equation in enumerate(program.equations)
        if position not in without
        for operand in equation.operands
    }


def _islands(
    equations: Sequence[Equation], makers: Sequence[int], joined: Set[int]
) -> list[list[int]]:
    """The equations at some positions, in groups that hand nothing to one another."""
    above = {position: position for position in joined}

    def root(position: int) -> int:
        while above[position] != position:
            above[position] = position = above[above[position]]
        return position

    for position in joined:
        for operand in equations[position].operands:
            if makers[operand] in above:
                above[root(makers[operand])] = root(position)
    islands: dict[int, list[int]] = {}
    for position in sorted(joined):
        islands.setdefault(root(position), []).append(position)
    return list(islands.values())


def _gain(equation: Equation, specs: Sequence[Spec]) -> int:
    """The nanoseconds that an equation saves in Python, without conversions."""
    operands = [specs[operand] for operand in equation.operands]
    function = equation.operation.evaluate
    quick = function in _OPERATORS and not all(spec.weak for spec in operands)
    if quick and all(spec.dtype.kind != "b" for spec in operands):  # NumPy has operators for these
        return _OPERATOR_GAIN if function in _ARITHMETIC else 0
    return _UNARY_GAIN if len(operands) == 1 else _UFUNC_GAIN


# Text.


def scalar_text(
    equation: Equation, texts: Sequence[str], name: str, divisor: float | None = None
) -> str:
    """An equation as an expression of Python numbers, in which ``np.`` and ``math.`` are names that
    the module imports.

    Parameters
    ----------
    equation : Equation
    texts : sequence of str
        The texts of its operands: names, or numbers in parentheses if need be.
    name : str
        The name of the result.
    divisor : float, optional
        The last operand if it is a constant.
    """
    function = equation.operation.evaluate
    if equation.results[0].dtype.kind == "i":
        text = _CHECKED % (_WHOLE_NUMBERS[function], function.__name__)
        return text.format(*texts, name)
    if function is np.divide and divisor:
        return f"{texts[0]} / {texts[1]}"
    return _TEXTS[function].format(*texts)


def boxed(equation: Equation, text: str) -> str:
    """The expression for the result of a member as NumPy has it."""
    if equation.operation.evaluate is np.where:
        return f"np.array({text})"  # with no axes, as np.where makes it
    return f"np.{equation.results[0].dtype.type.__name__}({text})"

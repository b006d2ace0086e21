"""Choose the equations of a program that run on Python floats, and write them as expressions.

NumPy takes two to fifty times as long for an operation on ``np.float64`` as Python takes for the
same operation on a ``float``. The bits are the same if IEEE 754 prescribes the result: for sums,
products, quotients, square roots, comparisons and selections. Python raises an error for some
operands for which NumPy returns an infinity or NaN; for those the text calls NumPy. It also calls
NumPy for functions that NumPy approximates in its own way, such as sines.

A scalar of the dtype float64 is converted to a ``float`` before Python first needs it. It is
converted back wherever NumPy could tell the difference: in outputs, and beside arrays of other
dtypes. These conversions take time. So equations that pass scalars to one another, possibly through
a sine, form one *island*. An island runs in Python if that saves more time than its conversions
take.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x, y: fg.numpy.sqrt(x * y) / y - x)(2.0, 3.0)
>>> scalars_of(staged).texts[3]
'{0} - {1}'
>>> print(staged.to_numpy_source().partition(":")[2].strip())
a = x * y
    b = math_sqrt(a) if a >= 0.0 else float(sqrt(a))
    c = b / y if y else float(divide(b, y))
    d = c - x
    return (float64(d),)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._backends.numpy.graphs import connected
from funcgrad._backends.numpy.python_text import Written, written
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import ROUNDED_ONCE, Elementwise, Movement, Scatter
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_OPERATORS: Final = frozenset("+ - * / < <= > >= == !=".split())
"""NumPy's scalars have these operators, which are faster than its functions."""

_WHOLE: Final = 2**53
"""Up to this value every integer is a float."""

# Nanoseconds, on a machine where Python adds two floats in 20.
_OPERATOR_GAIN: Final = 35  # an operator of float, instead of np.float64's operator
_UNARY_GAIN: Final = 100  # a ufunc of one scalar
_BRIDGE_GAIN: Final = 30  # a ufunc of one scalar that is called with a float
_UFUNC_GAIN: Final = 600  # a ufunc of two, and where
_WAY_IN: Final = 20  # float(x)
_WAY_OUT: Final = 60  # np.float64(x)
_WORTHWHILE: Final = 50  # a smaller gain does not change the text


@dataclass(frozen=True, slots=True)
class Scalars:
    """The equations of a program that run on Python numbers, and the conversions around them.

    Attributes
    ----------
    texts : mapping
        From the position of each of these equations, the *members*, to the expression that
        computes it. ``{0}``, ``{1}`` … stand for its operands, and the next number for the name of
        the result. The result is a Python number.
    entering : frozenset of int
        Variables of other equations that members read, and that must be converted to Python
        numbers.
    as_numpy : frozenset of int
        Variables that other equations read, and that must be NumPy's scalars there.
    either : frozenset of int
        Positions of other equations that give the same result for a ``float`` and ``np.float64``.
    """

    texts: Mapping[int, str]
    entering: frozenset[int]
    as_numpy: frozenset[int]
    either: frozenset[int]

    @property
    def members(self) -> Set[int]:
        """The positions of the equations."""
        return self.texts.keys()


NONE: Final = Scalars(MappingProxyType({}), frozenset(), frozenset(), frozenset())
"""The value for a program in which no equation runs on Python numbers."""


def scalars_of(program: Program, written: Collection[int] = (), loops: bool = False) -> Scalars:
    """Choose the equations of a program that run on Python numbers.

    Parameters
    ----------
    program : Program
    written : collection of int
        Positions of loops and choices, which take and return Python numbers and NumPy's scalars.
    loops : bool
        Whether the program is the body of a loop. Its conversions cost nothing, since they are made
        before the first step and after the last.
    """
    equations, makers, kinds = program.equations, program.index.makers, _kinds(program)
    specs = program.specs()
    texts = _texts(program, kinds)
    able = set(texts)
    if not able and not written and not loops:
        return NONE
    either = {
        position
        for position, equation in enumerate(equations)
        if position in written or (position not in able and _takes_either(equation, specs))
    }
    bridges = {k for k in either.difference(written) if not equations[k].results[0].shape}
    outputs = () if loops else program.outputs
    leaving = {makers[v] for v in _read(program, able | either).union(outputs)}
    chosen: set[int] = set()
    entering: set[int] = set()
    joined = able | bridges
    links = [(k, *joined.intersection([makers[v] for v in equations[k].operands])) for k in joined]
    for island in connected(sorted(joined), links):
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
    members = {position: texts[position] for position in chosen}
    return Scalars(members, frozenset(entering), frozenset(as_numpy), frozenset(either))


def is_number(spec: Spec) -> bool:
    """Whether a NumPy scalar of this spec can be a Python number in a loop or a branch."""
    return not spec.shape and not spec.weak and (spec.dtype == np.float64 or spec.dtype == bool)


def _kinds(program: Program) -> list[str]:
    """The kind of Python number that each variable can be: float, bool or int; else empty."""
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


def _texts(program: Program, kinds: Sequence[str]) -> dict[int, str]:
    """The expressions of equations that Python can run, by position."""
    written_once: dict[tuple[Primitive, tuple[str, ...], bool], str | None] = {}
    texts: dict[int, str] = {}
    first_constant = len(program.inputs)
    constants = {k: constant.value for k, constant in enumerate(program.constants, first_constant)}
    for position, equation in enumerate(program.equations):
        operands = tuple([kinds[operand] for operand in equation.operands])
        if "" in operands or equation.params or not operands:
            continue
        divides = bool(constants.get(equation.operands[-1]))
        key = equation.operation, operands, divides
        if key not in written_once:
            written_once[key] = _text(equation.operation, operands, divides)
        text = written_once[key]
        if text is not None:
            texts[position] = text
    return texts


def _text(operation: Primitive, kinds: Sequence[str], divides: bool) -> str | None:
    """The expression of an operation on Python numbers; None if Python cannot give NumPy's bits.

    If the only allowed result is the rounded true one, any formula gives it.

    Parameters
    ----------
    operation : Primitive
    kinds : sequence of str
        The kinds of the operands.
    divides : bool
        Whether the last operand is known to differ from 0.
    """
    structure = operation.structure
    if (
        not isinstance(structure, Elementwise)
        or structure.formula is None
        or ROUNDED_ONCE not in operation.traits
    ):
        return None
    name, last = f"{{{len(kinds)}}}", len(kinds) - 1
    operands = [
        Written(f"{{{k}}}", kind, name=name, divides=divides and k == last)
        for k, kind in enumerate(kinds)
    ]
    return written(structure.formula, *operands)


def of_whole_numbers(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether all operands are integers of Python, which stay integers."""
    return all(specs[operand].dtype.kind == "i" for operand in equation.operands)


def _takes_either(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether an equation gives the same result for a ``float`` as for ``np.float64``.

    NumPy's functions are faster with a ``float``. If another operand is an array, they take as
    long.
    """
    operation = equation.operation
    if any(specs[operand].dtype != np.float64 for operand in equation.operands):
        return False
    if isinstance(operation.structure, Movement | Scatter):  # NumPy converts operands to arrays
        return bool(equation.results[0].shape)
    return isinstance(operation.evaluate, np.ufunc) and operation.evaluate.signature is None


def _is_call(equation: Equation) -> bool:
    """Whether NumPy calls a function of one scalar."""
    return len(equation.operands) == 1 and isinstance(equation.operation.evaluate, np.ufunc)


def _enters(variable: int, program: Program, specs: Sequence[Spec]) -> bool:
    """Whether members must first convert this operand by ``float()``, as it is neither a constant
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


def _gain(equation: Equation, specs: Sequence[Spec]) -> int:
    """Estimate the nanoseconds that an equation saves in Python, not counting conversions."""
    operands = [specs[operand] for operand in equation.operands]
    quick = equation.operation.operator in _OPERATORS and not all(spec.weak for spec in operands)
    if quick and all(spec.dtype.kind != "b" for spec in operands):
        return 0 if equation.results[0].dtype.kind == "b" else _OPERATOR_GAIN
    return _UNARY_GAIN if len(operands) == 1 else _UFUNC_GAIN


def boxed(equation: Equation, text: str) -> str:
    """An expression that converts the result of a member to NumPy's type."""
    if not isinstance(equation.operation.evaluate, np.ufunc):
        return f"np.array({text})"  # with no axes, as np.where makes it
    return f"np.{equation.results[0].dtype.type.__name__}({text})"

"""Write formulas as expressions of Python numbers.

A formula gets ``PythonText`` as its algebra, and ``Written`` expressions as its arguments. The
algebra has the intrinsics for which Python gives NumPy's bits. Python raises an error for some
operands for which NumPy returns an infinity or NaN; for those the text calls NumPy. A formula with
other intrinsics has no text.

>>> x, y = Written("x", "float"), Written("y", "float")
>>> written(lambda m, x, y: m.where(x < 0, m.sqrt(y), m.absolute(x)), x, y)
'(math.sqrt(y) if y >= 0.0 else float(np.sqrt(y))) if x < 0.0 else abs(x)'
>>> written(lambda m, x, y: m.sin(x), x, y)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._forms.source_text import number_text

_WRAPPED: Final = (
    "{2} if -0x7FFFFFFFFFFFFFFF <= ({2} := {0} %s {1}) <= 0x7FFFFFFFFFFFFFFF"
    " else np.%s({0}, {1}).item()"
)
"""Integers that are too large wrap around in NumPy, while Python's grow."""

# How tightly the operators in a text bind: in a choice, a comparison, arithmetic, a name.
_CHOICE: Final = 0
_COMPARISON: Final = 1
_ARITHMETIC: Final = 2
_NAME: Final = 3


class _NoTextError(TypeError):
    """Raised if no expression of Python gives NumPy's bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Written:
    """An expression whose value is a Python number. Operators on it make larger expressions.

    Attributes
    ----------
    text : str
    kind : str
        The kind of the number: float, bool or int.
    tightness : int
        How tightly the text binds: less tight ones get parentheses beside an operator.
    name : str
        The name of the result, to which the check of large integers assigns.
    divides : bool
        Whether the number is known to differ from 0.
    """

    text: str
    kind: str
    tightness: int = _NAME
    name: str = ""
    divides: bool = False

    __hash__ = None  # type: ignore[assignment]  # == makes an expression, so sets cannot work

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype for the kind of number."""
        return np.dtype(self.kind)

    def __bool__(self) -> bool:
        raise _NoTextError("nobody knows the number yet")

    def __add__(self, other: Operand) -> Written:
        return _arithmetic("+", "add", self, other)

    def __sub__(self, other: Operand) -> Written:
        return _arithmetic("-", "subtract", self, other)

    def __mul__(self, other: Operand) -> Written:
        return _arithmetic("*", "multiply", self, other)

    def __pos__(self) -> Written:
        return Written(f"+{_float(self)}", "float", _ARITHMETIC)

    def __neg__(self) -> Written:
        return Written(f"-{_float(self)}", "float", _ARITHMETIC)

    def __invert__(self) -> Written:
        return Written(f"not {_truth(self)}", "bool", _CHOICE)

    def __and__(self, other: Operand) -> Written:
        return Written(f"{_truth(self)} and {_truth(other)}", "bool", _CHOICE)

    def __or__(self, other: Operand) -> Written:
        return Written(f"{_truth(self)} or {_truth(other)}", "bool", _CHOICE)

    def __lt__(self, other: Operand) -> Written:
        return _comparison("<", self, other)

    def __le__(self, other: Operand) -> Written:
        return _comparison("<=", self, other)

    def __gt__(self, other: Operand) -> Written:
        return _comparison(">", self, other)

    def __ge__(self, other: Operand) -> Written:
        return _comparison(">=", self, other)

    def __eq__(self, other: Operand) -> Written:  # type: ignore[override]  # as NumPy's arrays do
        return _comparison("==", self, other)

    def __ne__(self, other: Operand) -> Written:  # type: ignore[override]  # likewise
        return _comparison("!=", self, other)


Operand: TypeAlias = Written | float
"""An expression, or a number in a formula."""


def written(formula: Callable[..., Any], *operands: Written) -> str | None:
    """Write a formula as text; None if no text gives NumPy's bits."""
    try:
        out: Written = formula(PythonText(), *operands)
    except (AttributeError, TypeError):  # an intrinsic, or an operator, that Python lacks
        return None
    return out.text


def _beside(x: Operand, kind: str) -> Written:
    """Make a number in a formula an expression of the other operand's kind."""
    if isinstance(x, Written):
        return x
    number = float(x) if kind == "float" else x
    return Written(number_text(number), type(number).__name__, divides=bool(number))


def _pair(x: Operand, y: Operand) -> tuple[Written, Written]:
    kind = next(operand.kind for operand in (x, y) if type(operand) is Written)
    return _beside(x, kind), _beside(y, kind)


def _in(x: Written, tightness: int) -> str:
    """The text, in parentheses unless it binds more tightly than this."""
    return x.text if x.tightness > tightness else f"({x.text})"


def _float(x: Operand) -> str:
    if type(x) is not Written or x.kind != "float":
        raise _NoTextError("no float")
    return _in(x, _ARITHMETIC)


def _truth(x: Operand) -> str:
    if type(x) is not Written or x.kind != "bool":
        raise _NoTextError("no truth value")
    return _in(x, _CHOICE)


def _arithmetic(sign: str, ufunc: str, x: Operand, y: Operand) -> Written:
    first, second = _pair(x, y)
    if first.kind == second.kind == "int":
        text = (_WRAPPED % (sign, ufunc)).format(first.text, second.text, first.name)
        return Written(text, "int", _CHOICE)
    if "float" not in (first.kind, second.kind):
        raise _NoTextError("truth values would be converted to integers")
    text = f"{_in(first, _ARITHMETIC)} {sign} {_in(second, _ARITHMETIC)}"
    return Written(text, "float", _ARITHMETIC)


def _comparison(sign: str, x: Operand, y: Operand) -> Written:
    first, second = _pair(x, y)
    if first.kind == "bool" and sign == "==" and second.text == "0":
        return ~first
    if first.kind != second.kind and "float" not in (first.kind, second.kind):
        raise _NoTextError("truth values would be converted to integers")
    text = f"{_in(first, _COMPARISON)} {sign} {_in(second, _COMPARISON)}"
    return Written(text, "bool", _COMPARISON)


class PythonText:
    """The intrinsics that have a text in Python. The others are missing attributes."""

    def add(self, x: Operand, y: Operand) -> Written:
        """Add by Python's operator; integers wrap around as NumPy's do."""
        return _arithmetic("+", "add", x, y)

    def subtract(self, x: Operand, y: Operand) -> Written:
        """Subtract by Python's operator."""
        return _arithmetic("-", "subtract", x, y)

    def multiply(self, x: Operand, y: Operand) -> Written:
        """Multiply by Python's operator."""
        return _arithmetic("*", "multiply", x, y)

    def divide(self, x: Operand, y: Operand) -> Written:
        """Divide by Python's operator; NumPy divides by 0."""
        first, second = _pair(x, y)
        quotient = _arithmetic("/", "divide", first, second)
        if quotient.kind == "int":
            raise _NoTextError("the quotient of whole numbers is none")
        if second.divides:
            return quotient
        return _else_numpy(f"{quotient.text} if {second.text}", "divide", first, second)

    def reciprocal(self, x: Written) -> Written:
        """Divide 1 by the operand."""
        text = _float(x)
        return _else_numpy(f"1.0 / {text} if {text}", "reciprocal", x)

    def square(self, x: Written) -> Written:
        """Multiply the operand by itself."""
        text = _float(x)
        return Written(f"{text} * {text}", "float", _ARITHMETIC)

    def sqrt(self, x: Written) -> Written:
        """Call ``math.sqrt``; NumPy answers for negative operands."""
        text = _float(x)
        return _else_numpy(f"math.sqrt({x.text}) if {text} >= 0.0", "sqrt", x)

    def absolute(self, x: Written) -> Written:
        """Call ``abs``."""
        _float(x)
        return Written(f"abs({x.text})", "float")

    def maximum(self, x: Operand, y: Operand) -> Written:
        """Take the greater operand."""
        return _extremum(">", "maximum", x, y)

    def minimum(self, x: Operand, y: Operand) -> Written:
        """Take the lesser operand."""
        return _extremum("<", "minimum", x, y)

    def equal(self, x: Operand, y: Operand) -> Written:
        """Compare by Python's operator."""
        return _comparison("==", x, y)

    def isnan(self, x: Written) -> Written:
        """Compare the operand with itself."""
        return Written(f"{_float(x)} != {_float(x)}", "bool", _COMPARISON)

    def isinf(self, x: Written) -> Written:
        """Compare the absolute value with infinity."""
        return Written(f"{self.absolute(x).text} == np.inf", "bool", _COMPARISON)

    def isfinite(self, x: Written) -> Written:
        """Subtract the operand from itself; infinities and NaN give NaN."""
        return Written(f"{_float(x)} - {_float(x)} == 0.0", "bool", _COMPARISON)

    def where(self, condition: Written, x: Operand, y: Operand) -> Written:
        """Choose by a conditional expression."""
        first, second = _pair(x, y)
        kinds = {first.kind, second.kind}
        if ("float" not in kinds and kinds != {"bool"}) or kinds == {"float", "bool"}:
            raise _NoTextError("the result would be of another kind")
        text = f"{_in(first, _CHOICE)} if {_in(condition, _CHOICE)} else {second.text}"
        return Written(text, "float" if "float" in kinds else "bool", _CHOICE)


def _else_numpy(text: str, ufunc: str, *operands: Written) -> Written:
    """A text that ends in ``if`` and a condition, and NumPy's function for all other operands."""
    call = f"np.{ufunc}({', '.join([operand.text for operand in operands])})"
    return Written(f"{text} else float({call})", "float", _CHOICE)


def _extremum(sign: str, ufunc: str, x: Operand, y: Operand) -> Written:
    """Choose by two comparisons; NumPy decides between equal operands, such as zeros, and NaN."""
    operands = _pair(x, y)
    kinds = {operand.kind for operand in operands}
    if "bool" in kinds or "float" not in kinds:
        raise _NoTextError("truth values would be converted to integers")
    first, second = [_in(operand, _COMPARISON) for operand in operands]
    text = f"{first} if {first} {sign} {second} else {second} if {second} {sign} {first}"
    return _else_numpy(text, ufunc, *operands)

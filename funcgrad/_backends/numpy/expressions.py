"""Write equations as NumPy expressions, and as statements that write into an existing array."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._backends.numpy.scope import Scope
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._forms.source_text import dtype_text
from funcgrad._programs.equation import Equation

Text: TypeAlias = Callable[[], str]
"""A function that returns an operand's text. Calling it may define a name in the module."""

_BINARY: Final = (
    "add + subtract - multiply * divide / matmul @ less < less_equal <= greater > greater_equal >="
    " equal == not_equal != bitwise_and & bitwise_or | bitwise_xor ^"
)
_OPERATORS: Final[Mapping[str, str]] = MappingProxyType(
    dict(zip(_BINARY.split()[::2], _BINARY.split()[1::2], strict=True))
)
_ALIKE: Final = frozenset(
    "add subtract multiply divide maximum minimum fmax fmin less less_equal greater greater_equal"
    " equal not_equal where".split()
)
"""Functions that convert their operands to one dtype. A number may be converted in advance."""

_ONES: Final = re.compile(r"np\.ones\((\d+|\(\d+, 1\)), [\w.]+\)")

_LARGE: Final = 4096
"""The size of results from which a wrapper of a NumPy function may be faster than the function."""


class Operand(NamedTuple):
    """An operand; its ``str`` is its text. (A tuple, since long programs make many.)

    Attributes
    ----------
    text : str
    spec : Spec
    """

    text: str
    spec: Spec

    def __str__(self) -> str:
        return self.text

    @property
    def dtype(self) -> str:
        """The operand's dtype as text."""
        return dtype_text(self.spec.dtype)

    @property
    def array(self) -> str:
        """The operand's text as an array; a number is wrapped in ``np.asarray``."""
        return self.text if self.spec.shape else f"np.asarray({self.text})"


@dataclass(frozen=True, slots=True)
class Expressions:
    """Writes the equations of a program as expressions.

    Attributes
    ----------
    scope : Scope
    specs : sequence of Spec
        Specs by variable.
    values : mapping
        Values of constants by variable.
    """

    scope: Scope
    specs: Sequence[Spec]
    values: Mapping[int, Any]
    _numbers: dict[tuple[int, np.dtype[Any]], str | None] = field(default_factory=dict, init=False)

    def expression(self, equation: Equation, texts: Sequence[Text]) -> str:
        """Write an equation as an expression; further lines may write into its value, ``{out}``."""
        primitive: Primitive = equation.operation
        params = dict(equation.params)
        name = _numpy_name(primitive)
        operands = self.operands(equation, name, texts)
        if primitive.source is not None:
            text = primitive.source(*operands, **params)
            if text is not None:
                text = _ONES.sub(lambda ones: self.scope.once(ones[0], "ones"), text)
                return self.scope.named(text)
        if name:
            text = None if params else _operator(name, operands)
            if text is not None:
                return text
            function = self._function(equation, name)
        else:
            function = self.scope.function(primitive)
        arguments = [str(operand) for operand in operands]
        arguments += [f"{name}={self.scope.parameter(value)}" for name, value in params.items()]
        return f"{function}({', '.join(arguments)})"

    def _function(self, equation: Equation, name: str) -> str:
        """The name of NumPy's function, or of the faster wrapper that large arrays have."""
        is_around = hasattr(equation.operation.evaluate, "around")
        if is_around and any(prod(spec.shape) >= _LARGE for spec in equation.results):
            return self.scope.function(equation.operation)
        return self.scope.known.get(f"np.{name}") or self.scope.numpy_name(name)

    def into(self, equation: Equation, texts: Sequence[Text], place: str) -> str:
        """Write an equation as a statement that writes the result into an array: ``sin(x, a)``."""
        name = _numpy_name(equation.operation)
        operands = [str(operand) for operand in self.operands(equation, name, texts)]
        if not name:
            return f"{self.scope.function(equation.operation)}({', '.join(operands)}, out={place})"
        symbol = _OPERATORS.get(name)
        if operands[0] == place and symbol is not None and symbol[0] in "+-*/&|^":
            return f"{place} {symbol}= {operands[1]}"
        function = self.scope.known.get(f"np.{name}") or self.scope.numpy_name(name)
        # NumPy wants `out` by name where it could be mistaken for a third operand.
        named = "out=" if name in ("maximum", "minimum") else ""
        return f"{function}({', '.join(operands)}, {named}{place})"

    def operands(self, equation: Equation, name: str, texts: Sequence[Text]) -> list[Operand]:
        """List the operands. A number beside arrays is a global 0-d array if results stay equal.

        NumPy takes as long to convert a number to an array as for an operation on ten elements.
        """
        specs = [self.specs[variable] for variable in equation.operands]
        beside = name in _ALIKE and any(spec.shape for spec in specs)
        strong = [spec.dtype for spec in specs[name == "where" :] if not spec.weak]
        operands = []
        for variable, spec, operand_text in zip(equation.operands, specs, texts, strict=True):
            text = None
            if beside and not spec.shape and variable in self.values:
                dtype = np.result_type(*strong) if strong and spec.weak else spec.dtype
                text = self._beside(variable, dtype)
            operands.append(Operand(text or operand_text(), spec))
        return operands

    def _beside(self, variable: int, dtype: np.dtype[Any]) -> str | None:
        """The global name of a constant as a 0-d array; None if that would change results."""
        key = variable, dtype
        if key not in self._numbers:
            self._numbers[key] = self.scope.beside(self.values[variable], dtype)
        return self._numbers[key]


def _numpy_name(primitive: Primitive) -> str:
    """The name of the NumPy function that evaluates a primitive, or an empty string.

    A wrapper has the function as its attribute ``around``, and gives the same results.
    """
    evaluate: Any = getattr(primitive.evaluate, "around", primitive.evaluate)
    name: str = getattr(evaluate, "__name__", "")
    return name if name and getattr(np, name, None) is evaluate else ""


def _operator(name: str, operands: Sequence[Operand]) -> str | None:
    """An expression with Python's operator, ``a + b``; None if it may differ from the ufunc."""
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
    """Whether Python's operators on a number equal the ufuncs; they take a tenth of the time.

    The exceptions are NumPy's integers, which warn of overflow, and complex numbers, whose
    quotients round differently."""
    return spec.dtype.kind == "f" or (spec.weak and spec.dtype.kind == "i")

"""All intrinsics of formulas as instructions: arithmetic, and functions by polynomials.

``Registers`` is ``Lanes`` with the functions that take more than an instruction or two. Each is
written once for a dtype and a number of lanes, as a function of the module's own that takes and
returns vectors. A program with fifty hyperbolic tangents has one: its first call takes 29 ms rather
than the 146 ms of lines that are written out, and later ones the same time.

>>> from funcgrad._backends.native.function_text import FunctionText
>>> lines = FunctionText()
>>> m = Registers(lines, width=8)
>>> m.exp(Value("%x", np.dtype(np.float64), m)).kind, [*lines.definitions]
('<8 x double>', ['exp_v8f64'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native import exponential_functions, integers, trigonometric
from funcgrad._backends.native.complex_arithmetic import raised
from funcgrad._backends.native.complex_functions import COMPLEX_FUNCTIONS
from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import (
    NotEmitted,
    Pair,
    Scalar,
    Value,
    element_type,
    paired,
    parts_of,
)
from funcgrad._backends.native.lanes import Lanes

_DOUBLE: Final = np.dtype(np.float64)
_SINGLE: Final = np.dtype(np.float32)
_HALF: Final = np.dtype(np.float16)

_WITH_BOTH: Final = trigonometric.sine_and_cosine, exponential_functions.tanh_and_cosh
_OF_TWO: Final = frozenset({*_WITH_BOTH, *COMPLEX_FUNCTIONS.values()})
"""The functions with two results."""

Function: TypeAlias = "Callable[..., Value | tuple[Value, ...]]"


class Registers(Lanes):
    """The algebra of the native backend."""

    __slots__ = ()

    def _called(
        self, ufunc: np.ufunc, function: Function, *operands: Scalar, wide: bool = False
    ) -> list[Value]:
        """Call a function on vectors, and define it if the module has none yet.

        Parameters
        ----------
        ufunc : ufunc
            NumPy's function, which says in which dtype to compute.
        function : callable
            ``(floats, *values)`` to the result, or to several.
        wide : bool
            Whether float32 is computed in float64.
        """
        if self.lines.arithmetic.exact:
            raise NotEmitted(f"{ufunc.__name__} with NumPy's bits")
        return self._called_on(ufunc, function, self.converted(ufunc, *operands), wide)

    def _called_on(
        self, ufunc: np.ufunc, function: Function, values: Sequence[Value], wide: bool
    ) -> list[Value]:
        """Call a function on vectors of one dtype; complex numbers have functions of their own."""
        dtype = values[0].dtype
        if dtype.kind == "c":
            if ufunc not in COMPLEX_FUNCTIONS:
                raise NotEmitted(f"{ufunc.__name__} of complex numbers")
            vectors = [vector for value in values for vector in parts_of(value)]
            return [paired(self._called_on(ufunc, COMPLEX_FUNCTIONS[ufunc], vectors, True))] * 2
        if dtype == _HALF:  # as NumPy does
            singles = [self.astype(value, _SINGLE) for value in values]
            results = self._called_on(ufunc, function, singles, wide)
            return [self.astype(result, _HALF) for result in results]
        if dtype not in (_SINGLE, _DOUBLE):
            raise NotEmitted(f"{ufunc.__name__} of {dtype}")
        if self.lines.is_draft:
            return [Value("%x", dtype, self)] * 2
        kind = values[0].kind
        self._use(function, dtype, len(values), _DOUBLE if wide else dtype)
        answer = _answer(kind, function)
        result = self.value(self._call_text(function, *values), dtype)
        if answer == kind:
            return [result]
        return [
            self.value(f"extractvalue {answer} {result.text}, {place}", dtype) for place in (0, 1)
        ]

    def _call_text(self, function: Function, *values: Value) -> str:
        kind, name = values[0].kind, f"{function.__name__}_{self.suffix(values[0].dtype)}"
        arguments = ", ".join([f"{kind} {value.text}" for value in values])
        return f"call {_answer(kind, function)} @{name}({arguments})"

    def _has_call(self, function: Function, x: Value) -> bool:
        """Whether a function of a number is known in this block."""
        return x.dtype.kind == "f" and self.lines.has(self._call_text(function, x))

    def _use(
        self, function: Function, dtype: np.dtype[Any], count: int, computed: np.dtype[Any]
    ) -> None:
        """Have a function on so many vectors of a dtype, which is computed in another one."""
        kind = self.kind(element_type(dtype))
        answer = _answer(kind, function)

        def write(lines: FunctionText) -> None:
            inner = Registers(lines, self.width)
            parameters = [Value(f"%x{k}", dtype, inner) for k in range(count)]
            results = function(
                Floats(inner, computed, dtype.char),
                *[inner.astype(parameter, computed) for parameter in parameters],
            )
            values = [
                inner.astype(result, dtype)
                for result in (results if isinstance(results, tuple) else (results,))
            ]
            text = values[0].text
            if answer != kind:
                first = lines.op(f"insertvalue {answer} poison, {kind} {text}, 0")
                text = lines.op(f"insertvalue {answer} {first}, {kind} {values[1].text}, 1")
            lines.emit(f"ret {answer} {text}")

        name = f"{function.__name__}_{self.suffix(dtype)}"
        listed = ", ".join([f"{kind} %x{k}" for k in range(count)])
        self.lines.use(name, f"{answer} @{name}({listed})", write, "alwaysinline")

    def astype(self, x: Scalar, dtype: np.dtype[Any]) -> Value:
        """A value in another dtype; a complex number becomes real by its real part."""
        if dtype.kind in "iu" and isinstance(x, Value) and x.dtype.kind in "fc":
            return integers.from_float(self, x.real if isinstance(x, Pair) else x, dtype)
        return super().astype(x, dtype)

    def as_half(self, x: Value) -> Value:
        """A value rounded to half precision: once, also where it has more digits than float32.

        A float64 number is rounded to odd in float32 first: the last bit is set where anything is
        lost. Then rounding to half precision gives the same as from the exact value.
        """
        if x.dtype == _DOUBLE:
            near = self.cast("fptrunc", x, _SINGLE)
            back = self.astype(near, _DOUBLE)
            bits = self.cast("bitcast", near, np.dtype(np.uint32))
            below = self.where(abs(back) > abs(x), bits - 1, bits)
            is_lossy = (back != x) & (x == x)
            x = self.cast("bitcast", self.where(is_lossy, below | 1, bits), _SINGLE)
        elif x.dtype not in (_HALF, _SINGLE):
            x = self.astype(x, _SINGLE)
        half = self.lines.shared(f"fptrunc {x.kind} {x.text} to {self.kind('half')}")
        return self.value(f"fpext {self.kind('half')} {half} to {x.kind}", _HALF)

    def _by_number(
        self, function: Callable[..., Value], *values: Value, dtype: np.dtype[Any]
    ) -> Value:
        """Call a function on the elements of vectors, one by one."""
        name = f"{function.__name__}_{dtype.char}"  # the elements of two dtypes may be alike
        element = element_type(dtype)

        def write(lines: FunctionText) -> None:
            inner = Registers(lines, 1)
            parameters = [Value(f"%x{k}", dtype, inner) for k in range(len(values))]
            lines.emit(f"ret {element} {function(inner, *parameters).text}")

        if not self.lines.is_draft:
            parameters = ", ".join([f"{element} %x{k}" for k in range(len(values))])
            self.lines.use(name, f"{element} @{name}({parameters})", write)
        vector = self.constant(0, dtype)
        for lane in range(self.width):
            numbers = [self.lane(value, lane).text for value in values]
            listed = ", ".join([f"{element} {number}" for number in numbers])
            number = self.single.value(f"call {element} @{name}({listed})", dtype)
            vector = self.with_lane(vector, lane, number)
        return vector

    # -------------------------------------------------------------------- integers and remainders

    def floor_divide(self, x: Scalar, y: Scalar) -> Value:
        """The quotient of integers rounded down; floats have a formula."""
        return integers.floor_divided(self, x, y)

    def fmod(self, x: Scalar, y: Scalar) -> Value:
        a, b = self.converted(np.fmod, x, y)
        if a.dtype.kind in "iu":
            return integers.divided(self, np.fmod, a, b)[1]
        self._expect_float(a)
        return self._by_number(integers.remainder_by_c, a, b, dtype=a.dtype)

    def gcd(self, x: Scalar, y: Scalar) -> Value:
        a, b = self.converted(np.gcd, x, y)
        return self._by_number(integers.greatest_common_divisor, a, b, dtype=a.dtype)

    def bitwise_count(self, x: Scalar) -> Value:
        """The bits that are set in the absolute value."""
        (a,) = self.converted(np.bitwise_count, x)
        if a.dtype.kind not in "iu":
            raise NotEmitted("the bits of a truth value")
        return self.astype(self.intrinsic("ctpop", self.absolute(a)), np.dtype(np.uint8))

    def ldexp(self, x: Scalar, n: Scalar) -> Value:
        a, exponent = self.converted(np.ldexp, x, n)
        return integers.scaled_by(self._floats(a), a, exponent)

    def frexp(self, x: Scalar) -> tuple[Value, Value]:
        (a,) = self.converted(np.frexp, x)
        fraction, exponent = integers.taken_apart(self._floats(a), a)
        return fraction, self.astype(exponent, np.dtype(np.intc))

    def binary_exponent(self, x: Scalar) -> Value:
        """The exponent that ``frexp`` gives."""
        return self.frexp(x)[1]

    def nextafter(self, x: Scalar, y: Scalar) -> Value:
        a, b = self.converted(np.nextafter, x, y)
        return integers.neighbour(self._floats(a), a, b)

    def _expect_float(self, x: Value) -> None:
        if x.dtype not in (_SINGLE, _DOUBLE):
            raise NotEmitted(f"bits of {x.dtype}")

    def _floats(self, x: Value) -> Floats:
        self._expect_float(x)
        return Floats(self, x.dtype)

    # ------------------------------------------------------------------------------- functions

    def __getattr__(self, name: str) -> Callable[..., Value]:
        known = FUNCTIONS.get(name)
        if known is None:
            return super().__getattr__(name)
        ufunc, function, wide = known
        return lambda *operands: self._called(ufunc, function, *operands, wide=wide)[0]

    def cosh(self, x: Scalar) -> Value:
        """The hyperbolic cosine; that beside the tangent of the same number, if there is one."""
        if isinstance(x, Value) and self._has_call(exponential_functions.tanh_and_cosh, x):
            return self._called(np.cosh, exponential_functions.tanh_and_cosh, x)[1]
        return self._called(np.cosh, exponential_functions.cosh, x)[0]

    def sin(self, x: Scalar) -> Value:
        return self._sine_and_cosine(np.sin, x)[0]

    def cos(self, x: Scalar) -> Value:
        return self._sine_and_cosine(np.cos, x)[1]

    def _sine_and_cosine(self, ufunc: np.ufunc, x: Scalar) -> list[Value]:
        """Both; float32 is computed in float64 where nothing fuses.

        Fused multiplication takes off quarter turns in float32: both take three quarters of the
        time.
        """
        wide = not self.lines.arithmetic.fuses
        return self._called(ufunc, trigonometric.sine_and_cosine, x, wide=wide)

    def sqrt(self, x: Scalar) -> Value:
        if isinstance(x, Pair):
            return self._called(np.sqrt, exponential_functions.hypot, x)[0]
        return self.by_llvm(np.sqrt, x)

    def power(self, x: Scalar, y: Scalar) -> Value:
        whole = isinstance(x, Value) and x.dtype.kind in "iu"
        if isinstance(x, Value) and whole and type(y) is int and 0 <= y < 64:
            return integers.raised(self, self.converted(np.power, x, y)[0], y)
        if isinstance(x, Value) and x.dtype.kind in "fc" and isinstance(y, (int, float)):
            quick = None if self.lines.arithmetic.exact else self._quick_power(x, y)
            if quick is not None:
                return quick
        return self._called(np.power, exponential_functions.power, x, y, wide=True)[0]

    def erf(self, x: Scalar) -> Value:
        """The error function, in float64."""
        return self._called(np.exp, exponential_functions.erf, self.astype(x, _DOUBLE))[0]

    def erfc(self, x: Scalar) -> Value:
        """One minus the error function, in float64."""
        return self._called(np.exp, exponential_functions.erfc, self.astype(x, _DOUBLE))[0]

    def _quick_power(self, x: Value, y: float) -> Value | None:
        """A power with a small known exponent, of a root or one or two products."""
        if isinstance(x, Pair):
            return raised(self, x, int(y)) if y in range(-9, 10) else None
        if y == 0:
            return self.constant(1, x.dtype)
        if y == 0.5 or (y in (-0.5, 1.5) and x.dtype != np.float16):
            # Of -0.0 the root is 0, of minus infinity infinite.
            root = self.sqrt(x + 0.0)
            root = self.where(self.equal(x, -np.inf), self.constant(np.inf, x.dtype), root)
            if y == 1.5:
                return self.multiply(self.absolute(x), root)
            return self.reciprocal(root) if y < 0 else root
        if y not in (-2, -1, 1, 2, 3, 4):
            return None
        base = self.reciprocal(x) if y < 0 else x
        if abs(y) == 1:
            return base
        square = self.multiply(base, base)
        if abs(y) == 2:
            return square
        return self.multiply(square, base if y == 3 else square)


FUNCTIONS: Final[Mapping[str, tuple[np.ufunc, Function, bool]]] = MappingProxyType(
    {
        "exp": (np.exp, exponential_functions.exp, False),
        "exp2": (np.exp2, exponential_functions.exp2, False),
        "expm1": (np.expm1, exponential_functions.expm1, False),
        "sinh": (np.sinh, exponential_functions.sinh, False),
        "tanh": (np.tanh, exponential_functions.tanh_and_cosh, False),
        "log": (np.log, exponential_functions.log, False),
        "log2": (np.log2, exponential_functions.log2, False),
        "log10": (np.log10, exponential_functions.log10, False),
        "log1p": (np.log1p, exponential_functions.log1p, False),
        "arcsinh": (np.arcsinh, exponential_functions.arcsinh, False),
        "arccosh": (np.arccosh, exponential_functions.arccosh, False),
        "arctanh": (np.arctanh, exponential_functions.arctanh, False),
        "tan": (np.tan, trigonometric.tan, True),
        "arcsin": (np.arcsin, trigonometric.arcsin, False),
        "arccos": (np.arccos, trigonometric.arccos, False),
        "arctan": (np.arctan, trigonometric.arctan, False),
        "arctan2": (np.arctan2, trigonometric.arctan2, False),
        "cbrt": (np.cbrt, exponential_functions.cbrt, False),
        "hypot": (np.hypot, exponential_functions.hypot, True),
    }
)
"""Functions of vectors, by their names in formulas: NumPy's function, the one that writes it, and
whether float32 is computed in float64."""


def _answer(kind: str, function: Function) -> str:
    """The type of a function's result."""
    return f"{{ {kind}, {kind} }}" if function in _OF_TWO else kind

"""The algebra in which formulas become operations of XLA.

Most intrinsics are functions of ``jax.lax``, under another name. Where these differ from NumPy's,
they are composed of several.

>>> import pytest
>>> jax = pytest.importorskip("jax")
>>> m = XlaAlgebra(XlaWriter())
>>> def halved(x):
...     x = m.element(x)
...     return m.where(x > 0, x / 2, -m.exp(x)).array
>>> jax.jit(halved)(np.float32([1.0, -np.inf])).tolist()
[0.5, -0.0]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.array_code.ufunc_algebra import Element, Number, UfuncAlgebra
from funcgrad._backends.xla.xla_writer import XlaWriter
from funcgrad._core.specs import Shape, Spec
from funcgrad._programs.equation import Equation

_LAX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "absolute": "abs",
        "arccos": "acos",
        "arccosh": "acosh",
        "arcsin": "asin",
        "arcsinh": "asinh",
        "arctan": "atan",
        "arctan2": "atan2",
        "arctanh": "atanh",
        "equal": "eq",
        "greater": "gt",
        "greater_equal": "ge",
        "invert": "bitwise_not",
        "left_shift": "shift_left",
        "less": "lt",
        "less_equal": "le",
        "maximum": "max",
        "minimum": "min",
        "negative": "neg",
        "not_equal": "ne",
        "subtract": "sub",
    }
)
"""Functions of NumPy's that ``jax.lax`` has under another name."""

_BOOLEAN: Final[Mapping[str, str]] = MappingProxyType(
    {"absolute": "abs", "maximum": "bitwise_or", "minimum": "bitwise_and"}
)
"""Functions of NumPy's that booleans have under other names."""

_COMPOSED: Final = frozenset({"copysign", "fmod", "hypot", "ldexp", "remainder", "trunc"})
"""Functions that ``jax.numpy`` has with NumPy's results."""

_LEXICOGRAPHIC: Final = frozenset({"greater", "greater_equal", "less", "less_equal"})

_SIDES: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "arccos": ("imag", -1),
        "arccosh": ("imag", 1),
        "arcsin": ("imag", 1),
        "arcsinh": ("real", 1),
        "arctan": ("real", 1),
        "arctanh": ("imag", 1),
        "sqrt": ("imag", 1),
    }
)
"""Functions with branch cuts: of complex numbers, this part of a value has the sign of the same
part of the number, or the opposite one. XLA takes -0.0 for 0.0 there."""


class XlaAlgebra(UfuncAlgebra):
    """The intrinsics of formulas, in the operations of XLA."""

    writer: XlaWriter

    def __init__(self, writer: XlaWriter) -> None:
        super().__init__(writer)
        self._quotients: dict[int, Any] = {}

    def computed(self, ufunc: np.ufunc, operands: Sequence[Element]) -> Number:
        """Write the operations of a ufunc."""
        name, dtype = ufunc.__name__, operands[0].dtype
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        arrays = [self._fitting(x.array, shape) for x in operands]
        special: Callable[..., Any] | None = getattr(self, f"_{name}", None)
        if special is not None:
            return self.element(special(*arrays))
        if len({x.dtype for x in operands}) > 1 and name != "ldexp":
            return self._compared(ufunc, operands)
        if name in _COMPOSED or (dtype.kind == "c" and name in _LEXICOGRAPHIC):
            return self.element(getattr(self.writer.jax.numpy, name)(*arrays))
        if dtype.kind == "c" and name in ("maximum", "minimum"):
            return self.element(self._extremum(_LAX[name], *arrays))
        if dtype.kind == "c" and name == "absolute":
            return self.element(self._size(*arrays))
        if dtype.kind == "c" and name in _SIDES:
            out = getattr(self.writer.lax, _LAX.get(name, name))(*arrays)
            return self.element(self._on_side(out, arrays[0], *_SIDES[name]))
        if dtype.kind == "b" and name in _BOOLEAN:
            name = _BOOLEAN[name]
            return operands[0] if name == "abs" else self._of(name, arrays)
        if dtype.kind in "bu" and name == "absolute":
            return operands[0]
        if dtype.kind in "biu" and name in ("floor", "rint", "trunc"):
            return operands[0]
        return self._of(_LAX.get(name, name), arrays)

    def _fitting(self, x: Array, shape: Shape) -> Array:
        """An operand of a function of arrays, whose rank is the result's or 0.

        A constant of one number has no axes: as an array it would be carried through loops.
        """
        if isinstance(x, np.ndarray) and x.size == 1:
            return x.reshape(())
        return self.writer.expanded(x, shape) if x.shape else x

    def _spread(self, *operands: Array) -> list[Array]:
        """Operands in the shape of the result, since a selection takes no numbers."""
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        return [self.writer.expanded(x, shape) for x in operands]

    def _of(self, name: str, arrays: Sequence[Any]) -> Element:
        return self.element(getattr(self.writer.lax, name)(*arrays))

    def _compared(self, ufunc: np.ufunc, operands: Sequence[Element]) -> Element:
        """Compare uint64 with int64: negative numbers are less than all others."""
        place = [x.dtype.kind for x in operands].index("i")
        below = self.apply(np.less, operands[place], 0)
        bits = [self.astype(x, np.dtype(np.uint64)) for x in operands]
        outcome = ufunc(*[int(k != place) for k in (0, 1)])
        return self.where(below, np.bool_(outcome), self.apply(ufunc, *bits))

    def chosen(self, condition: Element, x: Element, y: Element) -> Number:
        """Write ``where``."""
        arrays = condition.array, x.array, y.array
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        return self._of("select", [self.writer.expanded(array, shape) for array in arrays])

    # Functions of arrays of one dtype and shape, where NumPy's are several of XLA's.

    def _add(self, x: Any, y: Any) -> Any:
        lax = self.writer.lax
        if x.dtype.kind == "b":
            return lax.bitwise_or(x, y)
        for zero, other in ((x, y), (y, x)):
            if _is_positive_zero(zero) and other.dtype.kind == "f":  # XLA leaves such a sum out
                return lax.select(lax.eq(other, zero), lax.full_like(other, 0), other)
        return lax.add(x, y)

    def _multiply(self, x: Array, y: Array) -> Array:
        lax = self.writer.lax
        if x.dtype.kind == "b":
            return lax.bitwise_and(x, y)
        return lax.mul(self._fixed(x), self._fixed(y))

    def _divide(self, x: Array, y: Array) -> Array:
        out = self.writer.lax.div(self._fixed(x), self._fixed(y))
        self._quotients[id(out)] = out
        return out

    def _fixed(self, x: Array) -> Array:
        """A factor or a divisor, computed as it is written.

        XLA multiplies constants, and divisors, with each other first, which may leave the range.
        """
        if id(x) in self._quotients or _is_extreme(x):
            return self.writer.lax.optimization_barrier(x)
        return x

    def _cosh(self, x: Any) -> Any:
        """By one exponential of half the number; XLA takes two, of rounded ones."""
        lax = self.writer.lax
        if x.dtype.char not in "fd":
            return lax.cosh(x)
        root = lax.exp(lax.mul(lax.abs(x), x.dtype.type(0.5)))
        half = lax.mul(root, lax.mul(root, x.dtype.type(0.5)))
        return lax.add(half, lax.div(x.dtype.type(0.25), half))

    def _exp(self, z: Any) -> Any:
        """The exponential; of a complex number with the real part -inf it is 0, XLA's is NaN where
        the other part is not finite."""
        lax = self.writer.lax
        out = lax.exp(z)
        if z.dtype.kind != "c":
            return out
        x, y = lax.real(z), lax.imag(z)
        gone = lax.bitwise_and(lax.eq(x, x.dtype.type(-np.inf)), lax.bitwise_not(lax.is_finite(y)))
        return lax.select(gone, lax.full_like(out, 0), out)

    def _exp2(self, z: Any) -> Any:
        lax = self.writer.lax
        if z.dtype.kind != "c":
            return lax.exp2(z)
        x, y = lax.real(z), lax.imag(z)
        number = x.dtype.type(np.log(2.0))
        return self._exp(lax.complex(lax.mul(x, number), lax.mul(y, number)))

    def _extremum(self, name: str, x: Array, y: Array) -> Array:
        """The greater or lesser complex number; a number that is NaN, the first if both are."""
        lax = self.writer.lax
        x, y = self._spread(x, y)
        out = getattr(lax, name)(x, y)
        for z in (y, x):
            out = lax.select(lax.ne(z, z), z, out)
        return out

    def _size(self, z: Array) -> Array:
        """The absolute value of a complex number; XLA's is NaN beside an infinite part."""
        lax = self.writer.lax
        out = lax.abs(z)
        for number in (lax.real(z), lax.imag(z)):
            size = lax.abs(number)
            out = lax.select(lax.eq(size, size.dtype.type(np.inf)), size, out)
        return out

    def _on_side(self, out: Array, x: Array, axis: str, sign: int) -> Array:
        """Complex numbers whose parts along an axis have the signs of the parts of x, or opposite
        ones."""
        lax = self.writer.lax
        signs = getattr(lax, axis)(x)
        signs = signs if sign > 0 else lax.neg(signs)
        turned = self.writer.jax.numpy.copysign(getattr(lax, axis)(out), signs)
        if axis == "real":
            return lax.complex(turned, lax.imag(out))
        return lax.complex(lax.real(out), turned)

    def _reciprocal(self, x: Any) -> Any:
        return self.writer.lax.div(x.dtype.type(1), x)

    def _rint(self, x: Any) -> Any:
        lax = self.writer.lax
        if x.dtype.kind == "c":
            return lax.complex(self._rint(lax.real(x)), self._rint(lax.imag(x)))
        return lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)

    def _log2(self, x: Any) -> Any:
        return self._logarithm(x, 2.0)

    def _log10(self, x: Any) -> Any:
        return self._logarithm(x, 10.0)

    def _logarithm(self, x: Any, base: float) -> Any:
        lax, out = self.writer.lax, self.writer.lax.log(x)
        number = out.real.dtype.type(1 / np.log(base))
        if x.dtype.kind == "c":
            return lax.complex(lax.mul(lax.real(out), number), lax.mul(lax.imag(out), number))
        return lax.mul(out, number)

    def _right_shift(self, x: Any, y: Any) -> Any:
        lax = self.writer.lax
        shift = lax.shift_right_logical if x.dtype.kind == "u" else lax.shift_right_arithmetic
        return shift(x, y)

    def _bitwise_count(self, x: Any) -> Any:
        lax = self.writer.lax
        size = lax.abs(x) if x.dtype.kind == "i" else x
        return lax.convert_element_type(lax.population_count(size), np.uint8)

    def _gcd(self, x: Array, y: Array) -> Array:
        """By unsigned integers: only they have the absolute value of the least integer."""
        lax, dtype, wide = self.writer.lax, x.dtype, np.dtype(f"u{x.dtype.itemsize}")
        if dtype.kind == "i":
            x, y = [lax.convert_element_type(lax.abs(z), wide) for z in (x, y)]
        x, y = self._spread(x, y)
        zero, one = lax.full_like(x, 0), lax.full_like(x, 1)

        def step(pair: tuple[Any, Any]) -> tuple[Any, Any]:
            a, b = pair
            ended = lax.eq(b, zero)
            left = lax.rem(a, lax.select(ended, one, b))
            return lax.select(ended, a, b), lax.select(ended, zero, left)

        def goes_on(pair: tuple[Any, Any]) -> Any:
            return lax.reduce_or(lax.ne(pair[1], zero), [*range(len(zero.shape))])

        return lax.convert_element_type(lax.while_loop(goes_on, step, (x, y))[0], dtype)

    def _isnan(self, x: Any) -> Any:
        return self.writer.lax.ne(x, x)

    def _isfinite(self, x: Any) -> Any:
        lax = self.writer.lax
        if x.dtype.kind == "c":
            return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
        return lax.is_finite(x) if x.dtype.kind == "f" else lax.full_like(x, True, bool)

    def _isinf(self, x: Any) -> Any:
        return self.writer.jax.numpy.isinf(x)

    def _power(self, x: Any, y: Any) -> Any:
        if x.dtype.kind in "iu":
            return self._whole_power(x, y)
        lax = self.writer.lax
        out = lax.pow(x, y)
        if x.dtype.kind != "c":
            return out
        x, y = self._spread(x, y)
        zero = lax.full_like(x, 0)
        vanishes = lax.bitwise_and(lax.eq(x, zero), lax.gt(lax.real(y), lax.real(zero)))
        return lax.select(vanishes, zero, out)

    def _whole_power(self, x: Array, y: Array) -> Array:
        """A power of integers, by squares; what overflows wraps."""
        lax = self.writer.lax
        if isinstance(y, np.ndarray) and not y.shape and y >= 0:
            return lax.integer_pow(x, int(y))
        x, y = self._spread(x, y)
        zero, one = lax.full_like(x, 0), lax.full_like(x, 1)

        def step(values: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
            square, left, out = values
            is_odd = lax.ne(lax.bitwise_and(left, one), zero)
            product = lax.select(is_odd, lax.mul(out, square), out)
            return lax.mul(square, square), lax.shift_right_logical(left, one), product

        def goes_on(values: tuple[Any, Any, Any]) -> Any:
            return lax.reduce_or(lax.gt(values[1], zero), [*range(len(zero.shape))])

        return lax.while_loop(goes_on, step, (x, y, lax.full_like(x, 1)))[2]

    def _floor_divide(self, x: Array, y: Array) -> Array:
        lax, divide = self.writer.lax, self.writer.jax.numpy.floor_divide
        if x.dtype.kind not in "iu":
            return divide(x, y)
        x, y = self._spread(x, y)
        zero, one = lax.full_like(x, 0), lax.full_like(x, 1)
        missing = lax.eq(y, zero)
        return lax.select(missing, zero, divide(x, lax.select(missing, one, y)))

    # Intrinsics that are not NumPy ufuncs.

    def real(self, x: Number) -> Number:
        """The real part."""
        return x if x.dtype.kind != "c" else self._of("real", [x.array])

    def imag(self, x: Number) -> Number:
        """The imaginary part."""
        if x.dtype.kind != "c":
            return self.element(np.zeros(x.shape, x.dtype))
        return self._of("imag", [x.array])

    def join_parts(self, x: Number, y: Number) -> Number:
        """The complex number with these parts."""
        dtype = np.result_type(*[np.dtype(getattr(z, "dtype", type(z))) for z in (x, y)])
        wide = np.result_type(dtype, np.complex64).type(0).real.dtype
        arrays = [self.array(z, wide) for z in (x, y)]
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
        return self._of("complex", [self.writer.expanded(array, shape) for array in arrays])

    def erf(self, x: Number) -> Number:
        """The error function."""
        return self._of("erf", [x.array])

    def erfc(self, x: Number) -> Number:
        """One minus the error function."""
        return self._of("erfc", [x.array])

    def frexp(self, x: Number) -> tuple[Number, Number]:
        """The mantissa in [1/2, 1), and the exponent."""
        mantissa, exponent = self.writer.jax.numpy.frexp(x.array)
        return self.element(mantissa), self.element(exponent)

    def binary_exponent(self, x: Number) -> Number:
        """The exponent e of ``x = 2**e * m`` with m in [1/2, 1)."""
        return self.frexp(x)[1]


def raises_integers(equation: Equation, specs: Sequence[Spec]) -> bool:
    """Whether an operation refuses negative integers in its second operand, as powers do."""
    kinds = [spec.dtype.kind for spec in specs]
    return equation.operation.operator == "**" and kinds in (["i", "i"], ["u", "i"], ["b", "i"])


def _is_positive_zero(x: Any) -> bool:
    is_number = isinstance(x, np.ndarray) and x.dtype.kind == "f" and not x.shape
    return bool(is_number and x == 0 and not np.signbit(x))


def _is_extreme(x: Any) -> bool:
    """Whether it is a constant of one number whose square is out of range."""
    if not isinstance(x, np.ndarray) or x.dtype.kind not in "fc" or x.shape:
        return False
    size, limits = float(abs(x)), np.finfo(x.dtype)
    return bool(size and not limits.tiny <= size * size <= limits.max)

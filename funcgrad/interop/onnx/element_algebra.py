"""An algebra over values of an ONNX graph: it writes formulas as nodes.

A NumPy operation is resolved to the dtypes in which NumPy computes it; operands are cast to them,
and the nodes are written. If ONNX has no operator, several are composed. Random words are written
by the formula of their blocks: the same keys give the same bits.

>>> import pytest
>>> _ = pytest.importorskip("onnx")
>>> writer = GraphWriter("f", 20)
>>> m = ElementAlgebra(writer)
>>> x = m.element(writer.input("x", Spec((2,), np.dtype(np.float32))))
>>> (m.exp(-x) + 1.0).dtype, [node.op_type for node in writer.nodes]
(dtype('float32'), ['Neg', 'Exp', 'Add'])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.specs import Spec
from funcgrad.interop.onnx.element_functions import WRITERS
from funcgrad.interop.onnx.graph_writer import (
    GraphWriter,
    Symbol,
    UnwritableError,
    cast_to,
    expanded,
    joined,
    reshaped,
    sliced,
)
from funcgrad.interop.onnx.series import clenshaw, erf_series, erfc_series

Number: TypeAlias = Any
"""An ``Element``, or a Python or NumPy scalar."""

_BOOL: Final = np.dtype(np.bool_)
_PYTHON: Final[Mapping[str, type]] = MappingProxyType({"b": bool, "i": int, "u": int, "f": float})


class Element:
    """An operand of the algebra: a value of the graph, weak if it is a Python scalar."""

    __slots__ = ("algebra", "symbol", "weak")
    __array_ufunc__ = None  # NumPy scalars leave operators to this class
    __hash__ = object.__hash__

    def __init__(self, algebra: ElementAlgebra, symbol: Symbol, weak: bool = False) -> None:
        self.algebra = algebra
        self.symbol = symbol
        self.weak = weak

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.symbol.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.symbol.shape

    def __neg__(self) -> Number:
        return self.algebra.apply(np.negative, self)

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return self.algebra.apply(np.absolute, self)

    def __invert__(self) -> Number:
        return self.algebra.apply(np.invert, self)

    def __eq__(self, other: Number) -> Number:
        return self.algebra.apply(np.equal, self, other)

    def __ne__(self, other: Number) -> Number:
        return self.algebra.apply(np.not_equal, self, other)


def _binary(ufunc: np.ufunc, reflected: bool) -> Callable[[Element, Number], Number]:
    def method(self: Element, other: Number) -> Number:
        return self.algebra.apply(ufunc, *((other, self) if reflected else (self, other)))

    return method


for _name, _ufunc in {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}.items():
    setattr(Element, f"__{_name}__", _binary(_ufunc, reflected=False))
    setattr(Element, f"__r{_name}__", _binary(_ufunc, reflected=True))
for _name, _ufunc in {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}.items():
    setattr(Element, f"__{_name}__", _binary(_ufunc, reflected=False))


class ElementAlgebra:
    """The intrinsics of formulas, as nodes of a graph."""

    def __init__(self, writer: GraphWriter) -> None:
        self.writer = writer

    def element(self, symbol: Symbol) -> Element:
        """Wrap a value of the graph as an element."""
        return Element(self, symbol, symbol.spec.weak)

    def symbol(self, number: Number, dtype: np.dtype[Any]) -> Symbol:
        """Convert an element or scalar to a value of the graph, in a dtype."""
        if isinstance(number, Element):
            return cast_to(self.writer, number.symbol, dtype)
        return self.writer.constant(number, dtype)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc):
            raise UnwritableError(f"{name} has no counterpart")
        return partial(self.apply, ufunc)

    def apply(self, ufunc: np.ufunc, *operands: Number) -> Number:
        """Write a NumPy ufunc."""
        if not any(isinstance(x, Element) for x in operands):
            return ufunc(*operands)
        *kinds, result = ufunc.resolve_dtypes((*map(_kind, operands), *[None] * ufunc.nout))[
            : ufunc.nin + 1
        ]
        write = WRITERS.get(ufunc.__name__)
        if write is None:
            raise UnwritableError(f"ONNX has no operator for {ufunc.__name__}")
        symbols = [self.symbol(x, kind) for x, kind in zip(operands, kinds, strict=True)]
        weak = result != _BOOL and all(
            x.weak if isinstance(x, Element) else not isinstance(x, np.generic) for x in operands
        )
        out = write(self, *[Element(self, symbol) for symbol in symbols])
        return Element(self, cast_to(self.writer, out.symbol, result), weak)

    def nodes(self, name: str, dtype: np.dtype[Any], *operands: Number, **options: Any) -> Number:
        """Write a node whose operands broadcast."""
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        symbols = [x.symbol for x in operands]
        return Element(self, self.writer.node(name, symbols, Spec(shape, dtype), **options))

    # Intrinsics that are not NumPy ufuncs.

    def astype(self, x: Number, dtype: np.dtype[Any]) -> Element:
        """Cast to another dtype."""
        return Element(self, self.symbol(x, dtype))

    def where(self, condition: Number, x: Number, y: Number) -> Number:
        """``x`` where the condition holds, else ``y``."""
        if not isinstance(condition, Element):
            return x if condition else y
        kinds = [_kind(value) for value in (x, y)]
        dtype = np.result_type(*[_EXAMPLE.get(kind, kind) for kind in kinds])
        weak = all(kind in _EXAMPLE for kind in kinds)
        truth: Number = self.astype(condition, _BOOL)
        chosen = [Element(self, self.symbol(value, dtype)) for value in (x, y)]
        if dtype == _BOOL:
            return (truth & chosen[0]) | (~truth & chosen[1])
        if dtype.kind in "iu" and dtype != np.int32:  # the same bits in a supported dtype
            chosen = [self.astype(value, np.dtype(np.int64)) for value in chosen]
        out = self.nodes("Where", chosen[0].dtype, truth, *chosen)
        return Element(self, cast_to(self.writer, out.symbol, dtype), weak)

    def real(self, x: Number) -> Number:
        """The real part."""
        return x

    def imag(self, x: Number) -> Number:
        """The imaginary part of a real value."""
        whole: Number = self.astype(x, np.dtype(np.int64)) if x.dtype.kind == "b" else x
        return whole * 0

    def join_parts(self, x: Number, y: Number) -> Number:
        """Refuse complex values, which ONNX operators do not take."""
        raise UnwritableError("ONNX's operators do not take complex numbers")

    def erf(self, x: Number) -> Number:
        """The error function; in float64 from a series, since runtimes have only float32."""
        if x.dtype != np.float64:
            return self.nodes("Erf", x.dtype, x)
        size = abs(x)
        near = self.where(size < 1.0, size, 1.0)
        close = near * clenshaw(erf_series(), near * near)
        far = self.copysign(1.0 - self._tail(self.maximum(size, 1.0)), x)
        return self.where(size < 1.0, self.copysign(close, x), self.where(size >= 1.0, far, x))

    def erfc(self, x: Number) -> Number:
        """The complementary error function: for large x a product with e**(-x**2)."""
        tail = self._tail(self.maximum(x, 0.5))
        return self.where(x < 0.5, 1.0 - self.erf(x), self.where(self.isnan(x), x, tail))

    def _tail(self, x: Number) -> Number:
        """``erfc`` for x >= 1/2."""
        far = self.minimum(x, 28.0)
        place = (far - 4.0) / (far + 4.0)
        return self.exp(-far * far) / (1.0 + 2.0 * far) * clenshaw(erfc_series(), place)

    def frexp(self, x: Number) -> tuple[Number, Number]:
        """The mantissa in [1/2, 1), and the exponent."""
        exponent = self.binary_exponent(x)
        return self.ldexp(x, -exponent), exponent

    def binary_exponent(self, x: Number) -> Number:
        """The exponent e of ``x = 2**e * m`` with m in [1/2, 1)."""
        size = abs(x)
        plain = (size > 0) & (size < np.inf)
        safe = self.where(plain, size, x.dtype.type(1))
        guess = self.floor(self.log(safe) / np.log(2.0))  # off by one at most
        mantissa = self.ldexp(safe, self.astype(-guess, np.dtype(np.int32)))
        exponent = guess + self.where(mantissa < 1, 0, self.where(mantissa < 2, 1, 2))
        return self.astype(self.where(plain, exponent, 0.0), np.dtype(np.int32))


_EXAMPLE: Final[Mapping[Any, Any]] = MappingProxyType({bool: False, int: 0, float: 0.0})


def _kind(x: Number) -> Number:
    """The dtype of an operand; the Python type of a weak one."""
    if isinstance(x, Element):
        return _PYTHON[x.dtype.kind] if x.weak and x.dtype.kind != "b" else x.dtype
    if isinstance(x, np.generic | np.ndarray):
        return x.dtype
    return np.dtype(bool) if type(x) is bool else type(x)


_UINT64: Final = np.dtype(np.uint64)


def random_words(
    writer: GraphWriter,
    block: Callable[..., Sequence[Any]],
    params: Mapping[str, Any],
    operands: Sequence[Symbol],
    spec: Spec,
) -> Symbol:
    """Random words of a shape, see ``structure.Random``."""
    m = ElementAlgebra(writer)
    key = cast_to(writer, operands[0], _UINT64)
    lead = key.shape[:-1]
    first, second = [
        reshaped(writer, sliced(writer, key, len(lead), place, 1), lead) for place in (0, 1)
    ]
    if len(operands) > 1:
        count, stack = spec.shape[-1], spec.shape[:-1]
        numbers = cast_to(writer, operands[1], _UINT64)
    else:
        count = prod(spec.shape[len(lead) :])
        blocks = -(-count // _words(block, params))
        stack = (*lead, blocks)
        first, second = [reshaped(writer, word, (*lead, 1)) for word in (first, second)]
        numbers = writer.constant(np.arange(blocks, dtype=np.uint64))
    if not prod(spec.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    words = [
        reshaped(writer, expanded(writer, m.symbol(word, _UINT64), stack), (*stack, 1))
        for word in block(m, *map(m.element, (first, second, numbers)), **params)
    ]
    together = joined(writer, words, len(stack))
    if len(operands) == 1:
        together = reshaped(writer, together, (*lead, stack[-1] * len(words)))
    together = sliced(writer, together, len(together.shape) - 1, 0, count)
    return reshaped(writer, together, spec.shape)


def _words(block: Callable[..., Sequence[Any]], params: Mapping[str, Any]) -> int:
    """The number of words in a block."""
    zero = np.zeros((), np.uint64)
    with np.errstate(all="ignore"):
        return len(block(intrinsics, zero, zero, zero, **params))

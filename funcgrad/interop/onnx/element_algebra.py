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

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.array_code.ufunc_algebra import Element, Number, UfuncAlgebra
from funcgrad._core.specs import Spec
from funcgrad.interop.onnx.element_functions import WRITERS
from funcgrad.interop.onnx.graph_writer import GraphWriter, UnwritableError
from funcgrad.interop.onnx.series import clenshaw, erf_series, erfc_series

_BOOL: Final = np.dtype(np.bool_)


class ElementAlgebra(UfuncAlgebra):
    """The intrinsics of formulas, as nodes of a graph."""

    writer: GraphWriter

    def __init__(self, writer: GraphWriter) -> None:
        super().__init__(writer)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise UnwritableError(f"{name} has no counterpart") from None

    def computed(self, ufunc: np.ufunc, operands: Sequence[Element]) -> Number:
        """Write the nodes of a ufunc."""
        write = WRITERS.get(ufunc.__name__)
        if write is None:
            raise UnwritableError(f"ONNX has no operator for {ufunc.__name__}")
        return write(self, *operands)

    def nodes(self, name: str, dtype: np.dtype[Any], *operands: Number, **options: Any) -> Number:
        """Write a node whose operands broadcast."""
        shape = np.broadcast_shapes(*[x.shape for x in operands])
        symbols = [x.array for x in operands]
        return Element(self, self.writer.node(name, symbols, Spec(shape, dtype), **options))

    def chosen(self, condition: Element, x: Element, y: Element) -> Number:
        """Write ``where``, by bits or in a dtype that runtimes support."""
        dtype, both = x.dtype, [x, y]
        truth: Number = condition
        if dtype == _BOOL:
            return (truth & x) | (~truth & y)
        if dtype.kind in "iu" and dtype != np.int32:  # the same bits in a supported dtype
            both = [self.astype(value, np.dtype(np.int64)) for value in both]
        return self.nodes("Where", both[0].dtype, truth, *both)

    # Intrinsics that are not NumPy ufuncs.

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

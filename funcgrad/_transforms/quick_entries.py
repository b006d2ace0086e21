"""Entries of operations of one or two arguments without parameters, the most frequent ones.

Half the cost of a small operation is making and reading its entry. So these entries have one
layout, with the arguments as fields, which are set one by one (see the README).

>>> from funcgrad._primitives.elementwise import multiply
>>> push_quick(multiply, 3.0, 5.0, 1.0, 10.0, 15.0)  # z = x y at (3, 5): y dx + x dy
35.0
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import OPPOSITE, Factor, Primitive
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value, bind2
from funcgrad._primitives.complexes import conj
from funcgrad._transforms.accumulation import UNFINISHED, Variables, accumulate
from funcgrad._transforms.entries import ElementwiseEntry, Entry, LinearEntry, OperationEntry, plus
from funcgrad._transforms.factors import PRECISE, fit_tangent, in_precision_of, times
from funcgrad._transforms.masked import Cotangent, Masked, broadcast, fit

_DOUBLE: Final = frozenset({float, np.float64})
"""Types of scalars whose cotangents have double precision."""

_FLOAT64: Final = np.dtype(np.float64)
_FLOAT32: Final = np.dtype(np.float32)

# To look these up in NumPy, again and again, would take 80 ns an entry.
_array: Final = np.ndarray
_number: Final = np.float64


class QuickEntry(Entry):
    """An elementwise operation z = f(x, y), or z = f(x): then y is None."""

    __slots__ = ("first", "out", "primitive", "second", "x", "y")
    primitive: Any
    first: int
    second: int
    x: Value
    y: Value
    out: Value

    def push(self, tangents: Variables) -> Value:
        first, second = tangents[self.first], tangents[self.second]
        return push_quick(self.primitive, self.x, self.y, first, second, self.out)

    def pull(self, cotangents: Variables) -> None:
        index = self.index
        ct = cotangents[index]
        if ct is None:
            return
        cotangents[index] = None
        if type(ct) is not _array and type(ct) is not _number:
            if type(ct) in UNFINISHED:
                ct = ct.finish()
            if type(ct) is Masked:
                self._generally(ElementwiseEntry).pull_from(cotangents, ct)
                return
        primitive, x, y, out = self.primitive, self.x, self.y, self.out
        left, right = x, y
        if y is not None and not primitive.additive:
            dtype = ct.dtype
            if (type(x) is not _array or x.dtype is not dtype) and type(x) not in PRECISE:
                left = in_precision_of(dtype, x)
            if (type(y) is not _array or y.dtype is not dtype) and type(y) not in PRECISE:
                right = in_precision_of(dtype, y)
        if self.first >= 0:
            _pull_to(cotangents, self.first, ct, primitive.factors[0], out, left, right, x)
        if self.second >= 0:
            _pull_to(cotangents, self.second, ct, primitive.factors[1], out, left, right, y)

    def _generally(self, kind: type[OperationEntry]) -> OperationEntry:
        """Make an entry for any number of arguments of this operation."""
        first, second, x, y = self.first, self.second, self.x, self.y
        operands, primals = ((first,), (x,)) if y is None else ((first, second), (x, y))
        return kind(self.primitive, operands, primals, self.out, {})


def push_quick(
    primitive: Primitive, x: Value, y: Value, first: Value, second: Value, out: Value
) -> Value:
    """The tangent of an elementwise operation, from the tangents of its one or two arguments."""
    if y is not None and not primitive.additive:
        if type(x) not in PRECISE and (type(x) is bool or x.dtype is not out.dtype):
            x = in_precision_of(dtype_of(out), x)
        if type(y) not in PRECISE and (type(y) is bool or y.dtype is not out.dtype):
            y = in_precision_of(dtype_of(out), y)
    if first is not None:
        first = times(first, primitive.factors[0], out, x, y)
    if second is not None:
        second = times(second, primitive.factors[1], out, x, y)
    return fit_tangent(plus(first, second), out)


def _pull_to(
    cotangents: Variables,
    operand: int,
    ct: Value,
    factor: Factor | Value,
    out: Value,
    x: Value,
    y: Value,
    argument: Value,
) -> None:
    """Add the factor times the cotangent of the result to the cotangent of an argument.

    The factor reads ``x`` and ``y``, which are the arguments in the precision of the result.
    """
    g = ct if factor is OPPOSITE else times(ct, factor, out, x, y)
    if type(g) is _number and type(argument) in _DOUBLE and type(out) in _DOUBLE:
        pass  # the commonest case of scalar programs: it fits
    elif (
        type(argument) is not _array
        or (dtype := argument.dtype) is not g.dtype
        or (dtype is not _FLOAT64 and dtype is not _FLOAT32)
        or (y is not None and argument.shape != out.shape)
    ):
        if g.dtype.kind == "c" and callable(factor):  # the factor's conjugate is meant
            g = times(ct, conj(factor(out, x) if y is None else factor(out, x, y)))
        g = fit(g, argument, shape_of(out))
    if factor is OPPOSITE:
        g = times(g, factor)  # last: a sum has fewer elements to turn
    if cotangents[operand] is None:
        cotangents[operand] = g
    else:
        accumulate(cotangents, operand, g)


class ProductEntry(QuickEntry):
    """A product of two arguments, such as two matrices."""

    __slots__ = ()

    def push(self, tangents: Variables) -> Value:
        first, second = tangents[self.first], tangents[self.second]
        return push_product(self.primitive, self.x, self.y, first, second, self.out)

    pull = Entry.pull

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        x, y, out = self.x, self.y, self.out
        if type(ct) is Masked or out.dtype.kind == "c":
            self._generally(LinearEntry).pull_from(cotangents, ct)
            return
        ct = broadcast(ct, out.shape)
        arguments = (self.first, x), (self.second, y)
        transposes = self.primitive.differential.transposes
        for (operand, argument), transpose in zip(arguments, transposes, strict=True):
            if operand >= 0:
                g = transpose(ct, x, y)
                if type(argument) is not _array or g.dtype is not argument.dtype:
                    g = fit(g, argument, shape_of(argument))
                accumulate(cotangents, operand, g)


def push_product(
    primitive: Primitive, x: Value, y: Value, first: Value, second: Value, out: Value
) -> Value:
    """The tangent of a product, from the tangents of its two arguments."""
    if first is not None:
        first = bind2(primitive, first, y)
    if second is not None:
        second = bind2(primitive, x, second)
    return fit_tangent(plus(first, second), out)

"""An algebra over the arrays of a library: formulas become operations of the library.

A NumPy operation is resolved to the dtypes in which NumPy computes it, and the operands are cast to
them. So promotion is NumPy's in every library, whose functions get operands of one dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.array_code.array_writer import Array, ArrayWriter
from funcgrad._core import intrinsics
from funcgrad._core.specs import Spec

Number: TypeAlias = Any
"""An ``Element``, or a Python or NumPy scalar."""

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)
_UINT64: Final = np.dtype(np.uint64)
_PYTHON: Final[Mapping[str, type]] = MappingProxyType(
    {"b": bool, "i": int, "u": int, "f": float, "c": complex}
)
_EXAMPLE: Final[Mapping[Any, Any]] = MappingProxyType(
    {bool: False, int: 0, float: 0.0, complex: 0j}
)


class Element:
    """An operand of the algebra: an array, weak if it stands for a Python number."""

    __slots__ = ("algebra", "array", "weak")
    __array_ufunc__ = None  # NumPy scalars leave operators to this class
    __hash__ = object.__hash__

    def __init__(self, algebra: UfuncAlgebra, array: Array, weak: bool = False) -> None:
        self.algebra = algebra
        self.array = array
        self.weak = weak

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.array.shape

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


class UfuncAlgebra:
    """The intrinsics of formulas, in the operations of a library.

    A library's algebra defines ``computed`` and ``chosen``, and the intrinsics other than ufuncs.
    """

    def __init__(self, writer: ArrayWriter) -> None:
        self.writer = writer

    def element(self, array: Array, weak: bool = False) -> Element:
        """Wrap an array as an element."""
        return Element(self, array, weak)

    def array(self, number: Number, dtype: np.dtype[Any]) -> Array:
        """Convert an element or a scalar to an array, in a dtype."""
        if isinstance(number, Element):
            return self.writer.cast_to(number.array, dtype)
        return self.writer.constant(number, dtype)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc):
            raise AttributeError(name)
        return partial(self.apply, ufunc)

    def apply(self, ufunc: np.ufunc, *operands: Number) -> Number:
        """Write a NumPy ufunc."""
        if not any(isinstance(x, Element) for x in operands):
            return ufunc(*operands)
        *kinds, result = ufunc.resolve_dtypes((*map(_kind, operands), *[None] * ufunc.nout))[
            : ufunc.nin + 1
        ]
        kinds = [_INT64 if kind.kind == "O" else kind for kind in kinds]  # of Python's integers
        elements = [
            Element(self, self.array(x, kind)) for x, kind in zip(operands, kinds, strict=True)
        ]
        weak = result != _BOOL and all(
            x.weak if isinstance(x, Element) else not isinstance(x, np.generic) for x in operands
        )
        out = self.computed(ufunc, elements)
        return Element(self, self.array(out, result), weak)

    def computed(self, ufunc: np.ufunc, operands: Sequence[Element]) -> Number:
        """Write a ufunc of operands in the dtypes of a loop of NumPy's."""
        raise NotImplementedError

    def chosen(self, condition: Element, x: Element, y: Element) -> Number:
        """Write ``where``, of operands of one dtype."""
        raise NotImplementedError

    # Intrinsics that are not NumPy ufuncs.

    def astype(self, x: Number, dtype: np.dtype[Any]) -> Element:
        """Cast to another dtype."""
        return Element(self, self.array(x, dtype))

    def where(self, condition: Number, x: Number, y: Number) -> Number:
        """``x`` where the condition holds, else ``y``."""
        if not isinstance(condition, Element):
            return x if condition else y
        kinds = [_kind(value) for value in (x, y)]
        dtype = np.result_type(*[_EXAMPLE.get(kind, kind) for kind in kinds])
        weak = all(kind in _EXAMPLE for kind in kinds)
        first, second = [Element(self, self.array(value, dtype)) for value in (x, y)]
        out = self.chosen(self.astype(condition, _BOOL), first, second)
        return Element(self, self.array(out, dtype), weak)


def _kind(x: Number) -> Number:
    """The dtype of an operand; the Python type of a weak one."""
    if isinstance(x, Element):
        return _PYTHON[x.dtype.kind] if x.weak and x.dtype.kind != "b" else x.dtype
    if isinstance(x, np.generic | np.ndarray):
        return x.dtype
    return _BOOL if type(x) is bool else type(x)


# ------------------------------------------------------------------------------- random words


def random_words(
    m: UfuncAlgebra,
    block: Callable[..., Sequence[Any]],
    params: Mapping[str, Any],
    operands: Sequence[Array],
    spec: Spec,
    joined: Callable[[Sequence[Array], int], Array],
) -> Array:
    """Random words of a shape, see ``structure.Random``; ``joined`` concatenates blocks'."""
    writer = m.writer
    key = writer.cast_to(operands[0], _UINT64)
    lead = key.shape[:-1]
    first, second = [
        writer.reshaped(writer.sliced(key, len(lead), place, 1), lead) for place in (0, 1)
    ]
    if len(operands) > 1:
        count, stack = spec.shape[-1], spec.shape[:-1]
        numbers = writer.cast_to(operands[1], _UINT64)
    else:
        count = prod(spec.shape[len(lead) :])
        blocks = -(-count // _words(block, params))
        stack = (*lead, blocks)
        first, second = [writer.reshaped(word, (*lead, 1)) for word in (first, second)]
        numbers = writer.constant(np.arange(blocks, dtype=np.uint64))
    if not prod(spec.shape):
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    words = [
        writer.reshaped(writer.expanded(m.array(word, _UINT64), stack), (*stack, 1))
        for word in block(m, *map(m.element, (first, second, numbers)), **params)
    ]
    together = joined(words, len(stack))
    if len(operands) == 1:
        together = writer.reshaped(together, (*lead, stack[-1] * len(words)))
    together = writer.sliced(together, len(together.shape) - 1, 0, count)
    return writer.reshaped(together, spec.shape)


def _words(block: Callable[..., Sequence[Any]], params: Mapping[str, Any]) -> int:
    """The number of words in a block."""
    zero = np.zeros((), np.uint64)
    with np.errstate(all="ignore"):
        return len(block(intrinsics, zero, zero, zero, **params))

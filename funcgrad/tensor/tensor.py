"""``Tensor``: an immutable array value with Python's operators.

A tensor holds a raw value: an ``ndarray`` that is never written to, or a NumPy scalar, which is
three times as fast as a 0-d array. Tracers are tensors, too, also for ``isinstance(x, Tensor)``.

Operators bind their primitives directly, since a detour through the array namespace would cost as
much as the operation itself on small arrays; methods (``t.mean()``) take that detour.

>>> x = tensor([1.0, 2.0])
>>> x * x + 1
Tensor([2., 5.])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from operator import index as as_index
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Never, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, STRONG, Value, bind, bind1, bind2
from funcgrad._core.users_values import (
    FREE,
    checked_dtype,
    explained,
    first_tensor,
    is_weak,
    operand,
    refuse_exact_numbers,
)
from funcgrad._core.users_values import ArrayLike as ArrayLike
from funcgrad._primitives import elementwise as ew
from funcgrad._primitives import logic, powers, rounding
from funcgrad._primitives.complexes import imag, real
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.indexing import index
from funcgrad._primitives.structural import cast, reverse_axes, swap_last_axes
from funcgrad.errors import ImmutableError, LeafError, UnsizedError
from funcgrad.tensor.conversion import Conversions, has_scipy_sparse
from funcgrad.tensor.methods import ArrayMethods

_new: Final[Any] = object.__new__  # without the checks of Tensor.__new__


class Tensor(ArrayMethods, Conversions):
    """An immutable array; make one with ``fg.tensor``.

    Operators, indexing and methods are as in NumPy. ``==`` compares elements, so tensors, like
    arrays, are not hashable. ``np.asarray(t)`` is a read-only view, ``np.array(t)`` a copy.

    Notes
    -----
    The public functions of NumPy and funcgrad never give write access to a tensor's memory, and its
    read-only flag cannot be cleared. Code that ignores this flag can still write to the view, and
    so to the tensor: ``ufunc.at`` on the view (on the tensor it raises an error), the raw wrappers
    in ``scipy.linalg.blas`` and ``scipy.linalg.lapack`` and other f2py modules,
    ``torch.from_numpy``, which warns, and pointers (``ctypes``, Numba, Cython). Pass them
    ``np.array(t)``, a copy. Code that reads private attributes or uses the garbage collector can
    write, too.
    """

    __slots__ = ("_value",)
    _trace: Any = None
    _value: Value
    __hash__ = Conversions.__hash__  # == compares elements

    def __new__(cls, *_: Any, **__: Any) -> Self:
        raise ImmutableError("A tensor is made with fg.tensor(values), not by calling Tensor.")

    # Shape and dtype.

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return shape_of(self._value)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        return dtype_of(self._value)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def T(self) -> Tensor:
        """The axes in reverse order; a view."""
        return wrap(reverse_axes(self))

    @property
    def mT(self) -> Tensor:
        """The last two axes swapped; a view."""
        return wrap(swap_last_axes(self))

    @property
    def real(self) -> Tensor:
        """The real part."""
        return apply1(real, self, True)

    @property
    def imag(self) -> Tensor:
        """The imaginary part."""
        return apply1(imag, self, True)

    @property
    def at(self) -> Any:
        """Functional update: ``t.at[i].set(v)``; also ``add multiply min max get``."""
        return self.__array_namespace__().at(self)

    # Arithmetic.

    def __add__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.add, self, other)

    def __radd__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.add, other, self)

    def __sub__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.subtract, self, other)

    def __rsub__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.subtract, other, self)

    def __mul__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.multiply, self, other)

    def __rmul__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.multiply, other, self)

    def __truediv__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.divide, self, other)

    def __rtruediv__(self, other: ArrayLike) -> Tensor:
        return operate_generally(ew.divide, other, self)

    def __floordiv__(self, other: ArrayLike) -> Tensor:
        return operate_generally(rounding.floor_divide, self, other)

    def __rfloordiv__(self, other: ArrayLike) -> Tensor:
        return operate_generally(rounding.floor_divide, other, self)

    def __mod__(self, other: ArrayLike) -> Tensor:
        return operate_generally(rounding.remainder, self, other)

    def __rmod__(self, other: ArrayLike) -> Tensor:
        return operate_generally(rounding.remainder, other, self)

    def __divmod__(self, other: ArrayLike) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __rdivmod__(self, other: ArrayLike) -> tuple[Tensor, Tensor]:
        return other // self, other % self

    def __pow__(self, other: ArrayLike) -> Tensor:
        if type(other) is int and other == 2:  # by far the most common, and faster than a power
            return apply1(ew.square, self, True)
        if type(other) in (int, float):
            if other < 0 and is_weak(self):  # as for Python integers
                other = float(other)
            return wrap(_operated(powers.constant_power, (self,), {"exponent": other}))
        return operate_generally(powers.power, self, other)

    def __rpow__(self, other: ArrayLike) -> Tensor:
        return operate_generally(powers.power, other, self)

    def __matmul__(self, other: ArrayLike) -> Tensor:
        return operate_generally(matmul, self, other)

    def __rmatmul__(self, other: ArrayLike) -> Tensor:
        return operate_generally(matmul, other, self)

    def __neg__(self) -> Tensor:
        return apply1(ew.negative, self, True)

    def __pos__(self) -> Tensor:
        return apply1(ew.positive, self, True)

    def __abs__(self) -> Tensor:
        return apply1(ew.absolute, self, True)

    def __round__(self, ndigits: int | None = None) -> Any:
        """``round(t)`` is an integer, as for a float; ``round(t, 2)`` is elementwise."""
        if ndigits is None:
            return round(self._scalar("round(t)", exact=False))
        return wrap(_operated(rounding.round_to, (self,), {"decimals": as_index(ndigits)}))

    # Bits and comparison.

    def __invert__(self) -> Tensor:
        return apply1(logic.bitwise_invert, self, True)

    def __and__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_and, self, other)

    def __rand__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_and, other, self)

    def __or__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_or, self, other)

    def __ror__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_or, other, self)

    def __xor__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_xor, self, other)

    def __rxor__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_xor, other, self)

    def __lshift__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_left_shift, self, other)

    def __rlshift__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_left_shift, other, self)

    def __rshift__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_right_shift, self, other)

    def __rrshift__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.bitwise_right_shift, other, self)

    def __eq__(self, other: ArrayLike) -> Tensor:  # type: ignore[override]  # elementwise
        return operate_generally(logic.equal, self, other)

    def __ne__(self, other: ArrayLike) -> Tensor:  # type: ignore[override]  # elementwise
        return operate_generally(logic.not_equal, self, other)

    def __lt__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.less, self, other)

    def __le__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.less_equal, self, other)

    def __gt__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.greater, self, other)

    def __ge__(self, other: ArrayLike) -> Tensor:
        return operate_generally(logic.greater_equal, self, other)

    # Elements.

    def __getitem__(self, key: Any) -> Tensor:
        return wrap(index(self, key))

    if not TYPE_CHECKING:  # type checkers report these statements if the class lacks the methods

        def __setitem__(self, key: Any, value: Any) -> NoReturn:
            raise ImmutableError(
                "Tensors never change, so t[i] = v is not possible. Write t = t.at[i].set(v), which"
                " returns a new tensor; t.at[i].add(v), multiply, min and max work likewise."
            )

        def __delitem__(self, key: Any) -> NoReturn:
            raise ImmutableError("Tensors never change: elements cannot be deleted.")

    def __len__(self) -> int:
        if not self.ndim:
            raise UnsizedError("A tensor without axes (0-d) has no len().")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise UnsizedError("A tensor without axes (0-d) cannot be iterated over.")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: ArrayLike) -> bool:
        equal = self == value
        return bool(equal.any()) if isinstance(equal, Tensor) else False

    # Conversion.

    def _reveal(self, use: str, exact: bool) -> Any:
        return self._value

    def __reduce__(self) -> Any:
        return tensor, (np.array(self._reveal("pickle", exact=True)),)

    def __array_namespace__(self, /, *, api_version: str | None = None) -> ModuleType:
        """The namespace with the functions for this kind of array (array API)."""
        import funcgrad.numpy as space

        return space if api_version is None else space._in_version(api_version)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if ufunc in _OPERATORS and method == "__call__" and not kwargs:
            return apply2(_OPERATORS[ufunc], *inputs)
        from funcgrad.tensor import numpy_protocols

        return numpy_protocols.dispatch_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from funcgrad.tensor import numpy_protocols

        return numpy_protocols.dispatch_function(function, args, kwargs)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Self:
        return getattr(self.__array_namespace__(), name)(self, *args, **kwargs)


# NumPy values on the left of an operator arrive through their ufunc; this is frequent in rules.
_OPERATORS: Final[Mapping[Any, Primitive]] = MappingProxyType(
    {
        np.add: ew.add,
        np.subtract: ew.subtract,
        np.multiply: ew.multiply,
        np.divide: ew.divide,
        np.power: powers.power,
        np.matmul: matmul,
    }
)


def wrap(value: Value) -> Tensor:
    """Convert a value for the user: raw values become tensors, tracers are returned unchanged."""
    if type(value) in RAW:
        result: Tensor = _new(Tensor)
        result._value = value
        return result
    return value


def apply(primitive: Primitive, *args: ArrayLike, **params: Hashable) -> Tensor:
    """Apply a primitive to a user's arguments, as every function in ``funcgrad.numpy`` does."""
    if not primitive.operator:
        return wrap(_operated(primitive, args, params))
    values = tuple([strong_truth(operand(arg, primitive.name)) for arg in args])
    return strong(_operated(primitive, values, params))


def _operated(primitive: Primitive, args: tuple[Any, ...], params: Mapping[str, Any]) -> Value:
    """The unwrapped result of ``apply``; operators on Python numbers return a Python number."""
    name = primitive.name
    args = tuple([arg._value if type(arg) is Tensor else operand(arg, name) for arg in args])
    try:
        return bind(primitive, args, params)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise explained(error, name, *args, **params) from error


def strong(value: Value) -> Tensor:
    """The result of a function as a tensor: unlike an operator's result, it is never weak."""
    return wrap(cast(value, dtype=dtype_of(value)) if is_weak(value) else value)


def strong_truth(x: Value) -> Value:
    """Convert a Python boolean to NumPy's, since operators treat Python's as 0 or 1."""
    weak = type(x) is bool or (type(x) not in RAW and dtype_of(x).kind == "b" and is_weak(x))
    return cast(x, dtype=np.dtype(np.bool_)) if weak else x


def apply1(primitive: Primitive, x: ArrayLike, as_operator: bool = False) -> Tensor:
    """``apply`` for one argument without parameters: a small sine takes 0.67 rather than 0.9 µs."""
    if not isinstance(x, Tensor):
        x = wrap(operand(x, primitive.name))
    trace = x._trace
    try:
        if trace is None and (not primitive.operator or type(x._value) in STRONG):
            value = primitive.evaluate(x._value)
        elif primitive.operator and not as_operator:
            value = bind1(primitive, strong_truth(x._value if trace is None else x))
        else:
            value = bind1(primitive, x) if trace is None else trace.process1(primitive, x)
            if type(value) is type(x) is not Tensor:
                return value
    except (ValueError, TypeError, OverflowError) as error:
        raise explained(error, primitive.name, x) from error
    if type(value) in STRONG:
        result: Tensor = _new(Tensor)
        result._value = value
        return result
    if type(value) in RAW or (primitive.operator and not as_operator):
        return wrap(value) if as_operator else strong(value)
    return value


def apply2(primitive: Primitive, x: ArrayLike, y: ArrayLike, as_operator: bool = False) -> Tensor:
    """``apply`` for two arguments without parameters, faster."""
    if type(x) is Tensor:
        x = x._value
    elif type(x) not in FREE and not isinstance(x, Tensor):
        x = operand(x, primitive.name)
    if type(y) is Tensor:
        y = y._value
    elif type(y) not in FREE and not isinstance(y, Tensor):
        y = operand(y, primitive.name)
    if primitive.operator and not as_operator:
        x = x if type(x) in STRONG else strong_truth(x)
        y = y if type(y) in STRONG else strong_truth(y)
    try:
        value = bind2(primitive, x, y)
    except (ValueError, TypeError, OverflowError) as error:
        raise explained(error, primitive.name, x, y) from error
    if type(value) in STRONG:
        result: Tensor = _new(Tensor)
        result._value = value
        return result
    if type(value) in RAW or (primitive.operator and not as_operator):
        return wrap(value) if as_operator else strong(value)
    return value


def operate_generally(primitive: Primitive, x: ArrayLike, y: ArrayLike) -> Tensor:
    """Apply an operator; if an operand is not an array, its class gets to handle the operator."""
    try:
        return apply2(primitive, x, y, True)
    except LeafError as error:
        refuse_exact_numbers(error, x, y)
        if has_scipy_sparse(x, y):
            from funcgrad.sparse.sparse_arrays import operated

            return operated(primitive.name, x, y)
        return NotImplemented


def tensor(obj: ArrayLike, dtype: DTypeLike | None = None, **foreign: Never) -> Tensor:
    """Make an immutable tensor from an array, a number, or a nested sequence of these.

    Parameters
    ----------
    obj : array_like
        Nested lists may contain tensors, also traced ones. Writable NumPy arrays are copied;
        read-only memory (a view of a tensor, or of ``bytes``) is shared.
    dtype : dtype, optional
        By default NumPy's choice: float64 for Python floats, int64 for integers.
    **foreign
        Options of other libraries raise an error that says what to write instead.

    Returns
    -------
    Tensor

    Raises
    ------
    LeafError
        The object cannot be converted to an array.
    DtypeError
        Tensors cannot have the dtype.
    MissingOptionError
        An option of another library was passed, such as PyTorch's ``requires_grad``; the message
        says what to write instead.

    Examples
    --------
    >>> tensor([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 2.],
            [3., 4.]])
    >>> tensor(1, dtype="float32")
    Tensor(1.0, dtype=float32)
    """
    if foreign:
        from funcgrad._hints.other_options import missing_option

        raise missing_option("tensor", ("obj", "dtype"), next(iter(foreign)))
    if dtype is not None:
        dtype = checked_dtype(dtype, "tensor")
    nested = isinstance(obj, (list, tuple)) and first_tensor(obj) is not None
    value = _stacked(obj) if nested else operand(obj, "tensor")
    if dtype is not None and type(obj) in (bool, int, float, complex, list, tuple):
        value = _of_numbers(obj, value, dtype)
    if type(value) in (bool, int, float, complex):
        value = operand(np.asarray(value), "tensor")[()]
    if (dtype is not None and dtype_of(value) != dtype) or is_weak(value):
        value = cast(value, dtype=dtype or dtype_of(value))  # a traced scalar becomes an array
    return wrap(value)


def _of_numbers(numbers: object, value: Value, dtype: np.dtype[Any]) -> Value:
    """Convert Python numbers to a dtype if they are in its range, as in NumPy."""
    if type(value) not in RAW:
        return value
    try:
        return np.asarray(numbers, dtype)[()]
    except (OverflowError, TypeError, ValueError) as error:
        raise explained(error, "tensor", value, dtype=dtype.name) from error


def _stacked(parts: Any) -> Value:
    """Stack nested sequences that contain tensors to one value."""
    rows = [
        _stacked(row) if isinstance(row, (list, tuple)) else operand(row, "tensor") for row in parts
    ]
    return wrap(rows[0]).__array_namespace__().stack(rows)

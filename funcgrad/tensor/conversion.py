"""Convert tensors to Python numbers, NumPy arrays and text.

Every conversion calls ``_reveal``. A tracer raises an error there if its value would lose a
derivative, or if it stands for a whole batch.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any, Final, NoReturn, SupportsIndex

import numpy as np

from funcgrad._core.specs import Shape, Spec, shape_of
from funcgrad._core.trace import RAW, Raw, TracedValue, Value, held_by_an_array
from funcgrad._core.users_values import read_only
from funcgrad.errors import (
    ArgumentError,
    DlpackError,
    DtypeError,
    ImmutableError,
    ScalarError,
    ShapeError,
    TracerError,
)
from funcgrad.tensor.array_attributes import AbsentAttributes

TRUTH: Final = "bool(t), or `if` and `while` on it"
"""How errors name the use of a tensor as a truth value."""


class Conversions(AbsentAttributes):
    """The conversions of a tensor to other types."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        raise NotImplementedError

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements."""
        raise NotImplementedError

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * self.itemsize

    @property
    def device(self) -> Any:
        """The device of the elements: ``"cpu"``, unless they were put on another one."""
        value = self._value
        while isinstance(value, TracedValue):
            value = value._value
        return getattr(value, "device", "cpu")

    _value: Any

    def _reveal(self, use: str, exact: bool) -> Raw:
        """The raw value, for a use outside tensors; tracers raise if that loses a derivative.

        Parameters
        ----------
        use : str
            The user's expression, such as ``float(t)``, for the error message.
        exact : bool
            Whether the use needs the exact value, rather than an integer or a boolean, whose
            derivative is zero anyway.
        """
        raise NotImplementedError

    def __bool__(self) -> bool:
        value = self._reveal(TRUTH, exact=False)
        if shape_of(value) and np.size(value) != 1:
            raise ShapeError(
                f"The truth value of a tensor of shape {self.shape} is ambiguous: use t.any() or"
                " t.all(), or fnp.where for an elementwise choice."
            )
        return bool(value)

    def __int__(self) -> int:
        return int(self._scalar("int(t)", exact=False))

    __trunc__ = __int__

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise DtypeError(
                f"Only integer tensors can be indices, not {self.dtype}. Where Python needs a"
                " Python number, write float(t), or int(t)."
            )
        if self.shape:  # NumPy tries an integer first, and then an array
            raise ScalarError(
                "t as an index: Python needs one integer, but the tensor has the shape"
                f" {self.shape}, as in NumPy. Write t[0], or int(t) for a single element."
            )
        return int(self._scalar("t as an index", exact=False))

    def __float__(self) -> float:
        return float(self._scalar("float(t)", exact=True))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex(t)", exact=True))

    def _scalar(self, use: str, exact: bool) -> Any:
        value = self._reveal(use, exact)
        if np.size(value) != 1:
            raise ScalarError(
                f"{use} needs one element, but the tensor has the shape {self.shape}."
            )
        return np.asarray(value).item()

    def __hash__(self) -> int:
        raise TracerError(
            "Tensors are unhashable, like arrays: they cannot be keys of a dict or members of a"
            " set. Use t.item() or tuple(t.tolist()), outside of transformations."
        )

    def as_integer_ratio(self) -> NoReturn:
        """Raise an error: ``statistics`` would convert tensors to fractions."""
        raise TracerError(
            "t.as_integer_ratio(): a tensor cannot be a fraction. Instead of the module"
            " statistics, write fnp.mean(x), fnp.median(x), fnp.var(x, ddof=1), fnp.std(x, ddof=1);"
            " instead of Fraction(t), write float(t)."
        )

    def item(self, *args: SupportsIndex) -> Any:
        """One element as a Python number; the arguments are as for ``ndarray.item``."""
        return np.asarray(self._reveal("t.item()", exact=True)).item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return np.asarray(self._reveal("t.tolist()", exact=True)).tolist()

    def to_device(self, device: object, /, *, stream: object = None) -> Any:
        """Copy the tensor to a device of ``fg.devices()``; return it if it is there (array API)."""
        if stream is None and self.device == device:
            return self
        place = getattr(device, "place", None)
        if stream is not None or place is None:
            raise ArgumentError(
                f'to_device: {device!r} is neither "cpu" nor one of fg.devices(), or there is a'
                " stream, which no device takes. fg.put(t, name) finds a device by its name."
            )
        return place(self)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name for main memory."""
        return 1, 0

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export a copy to another library, since some libraries write to read-only memory.

        PyTorch has no read-only arrays, and ignores DLPack's flag for them.
        """
        array = np.array(self._reveal("DLPack's export of t", exact=True))
        if copy is False:
            raise DlpackError(
                "DLPack exports a copy of a tensor, which never changes: some libraries write to"
                " imported arrays even if they are read-only. Leave out copy=False, or use"
                " np.asarray(t), a read-only view."
            )
        if dl_device not in (None, self.__dlpack_device__()):
            raise DlpackError(f"DLPack: tensors are in main memory, not on the device {dl_device}.")
        known = not np.__version__.startswith("2.0.")  # NumPy 2.0 writes capsules without a version
        asked: dict[str, Any] = {"max_version": max_version} if known else {}
        try:
            return array.__dlpack__(stream=stream, **asked)
        except (BufferError, ValueError) as error:
            raise DlpackError(f"DLPack: {error}") from None

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """A read-only view as an array; Matplotlib and other libraries call this method."""
        return self.__array__()

    @property
    def __pandas_priority__(self) -> int:
        """The priority that makes pandas leave operators to tracers, which it cannot hold."""
        return 0 if self._trace is None else 5000

    def __bytes__(self) -> bytes:
        """The bytes of the memory, as for an array; Python's default iterates over elements."""
        return bytes(np.asarray(self._reveal("bytes(t)", exact=True)))

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements as bytes."""
        return np.asarray(self._reveal("t.tobytes()", exact=True)).tobytes(order)

    def byteswap(self, inplace: bool = False) -> np.ndarray[Any, Any]:
        """An array of the elements with their bytes in reverse order."""
        if inplace:
            raise ImmutableError(
                "t.byteswap(inplace=True) would write to t, and tensors never change: the result of"
                " t.byteswap() is an array."
            )
        return np.asarray(self._reveal("t.byteswap()", exact=True)).byteswap()

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from one element to the next along each axis of a concrete tensor."""
        return np.asarray(self._reveal("t.strides", exact=True)).strides

    @property
    def flags(self) -> Any:
        """NumPy's flags of a concrete tensor's memory, which is never writeable."""
        return self.__array__().flags

    def __array__(
        self, dtype: np.typing.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        try:
            array = np.asarray(self._reveal("A NumPy function or np.asarray on t", exact=True))
        except TracerError as error:
            if is_operand_of_scipy():
                return np.array(None)  # so SciPy leaves S @ t to __rmatmul__
            raise held_by_an_array(error) from None
        kind = array.dtype if dtype is None else np.dtype(dtype)
        if not np.can_cast(array.dtype, kind, "same_kind"):
            kind = array.dtype  # NumPy casts in np.asarray(t, int), but not for an index
        if copy or kind != array.dtype:
            if copy is False:
                raise ValueError("A tensor of another dtype cannot be viewed without a copy.")
            return np.array(array, kind)
        return read_only(array)

    def __repr__(self) -> str:
        return _shown(np.asarray(self._value)) if self._trace is None else _traced(self)

    def _repr_html_(self) -> str:
        """HTML for notebooks: a table for a large concrete tensor, text for others."""
        from funcgrad._base.html import array_html, text_block

        if self._trace is None:
            return array_html(np.asarray(self._value), "Tensor", repr(self))
        return text_block(_traced(self))

    def __str__(self) -> str:
        return str(np.asarray(self._value)) if self._trace is None else _traced(self)

    def __format__(self, spec: str) -> str:
        """Format as a float if there is a format, else as ``str``.

        With a format, a tracer may raise an error as for ``float(t)``.
        """
        if not spec:
            return str(self)
        if prod(self.shape) != 1:
            raise ShapeError(
                f"A format such as {spec!r} is for one number, but the tensor has the shape"
                f" {self.shape}: format its elements, or write np.array2string(t, precision=3)."
            )
        return format(self._scalar(f"format(t, {spec!r})", exact=False), spec)


_OPERATORS: Final = frozenset("__matmul__ __mul__ __truediv__ __add__ __sub__ __pow__ dot".split())


def is_operand_of_scipy() -> bool:
    """Whether an operator of SciPy's sparse arrays asks for an array, and not a function."""
    frame, name = sys._getframe(2), ""
    module = frame.f_globals.get("__name__", "")
    while module.startswith("scipy.sparse.") and frame.f_back:
        if module.startswith("scipy.sparse.linalg."):
            return False
        name, frame = frame.f_code.co_name, frame.f_back
        module = frame.f_globals.get("__name__", "")
    return name in _OPERATORS


def has_scipy_sparse(*operands: object) -> bool:
    """Whether an operand is a sparse array or matrix of SciPy."""
    return any(type(x).__module__.startswith("scipy.sparse") for x in operands)


def reveal_primal(primal: Value, use: str, exact: bool) -> Raw:
    """``Tensor._reveal`` for a value that is being differentiated.

    Booleans and integers are piecewise constant, so control flow may depend on them. A
    floating-point value that left the trace would silently lose its derivative.
    """
    if exact:
        raise TracerError(
            f"{use}: the tensor is being differentiated, and this conversion would lose the"
            " derivative. Use the functions of funcgrad.numpy (or NumPy's, which call them), or"
            " fg.stop_gradient(t) for an intended constant."
        )
    return primal._reveal(use, exact) if isinstance(primal, Conversions) else primal


def _shown(array: np.ndarray[Any, Any], name: str = "Tensor", more: str = "") -> str:
    """NumPy's ``repr`` of an array under another name; it names the dtype where NumPy does."""
    if not array.ndim:
        body = repr(array.item())
        default = array.dtype.char in "?dD" or array.dtype == np.int64
        return f"{name}({body}{'' if default else f', dtype={array.dtype}'}{more})"
    text = repr(array)
    text = text[len("array(") :].replace("\n      ", "\n" + " " * len(f"{name}("))
    return f"{name}({text[:-1]}{more})"


def _traced(tracer: Conversions) -> str:
    """The text of a tracer: its transformations, from the inside outwards, and its value, unless it
    stands for a batch or is being staged."""
    more, has_numbers = "", True
    value: Any = tracer
    while isinstance(value, TracedValue):
        if value._trace is not None:
            more += f", in {value._trace.title}"
            has_numbers = has_numbers and value._trace.has_numbers
        value = value._value
    if has_numbers and type(value) in RAW:
        return _shown(np.asarray(value), "Traced", more)
    return f"Traced({Spec(tracer.shape, tracer.dtype)}{more})"

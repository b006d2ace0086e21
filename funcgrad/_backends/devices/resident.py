"""``Resident``: a tensor whose elements are on a device.

It looks like a tracer of the outermost transformation: its trace is the ``Device``, so ``bind``
hands its operations to the device, and every transformation treats it as a value of something
further out. The path of values on the host knows nothing of it.

Inside a resident is a ``HeldArray``: the device's handle, a shape and a dtype. Whatever looks for
the raw value of a tracer ends there, and gets a copy of the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import Shape, Spec
from funcgrad._core.trace import Raw
from funcgrad.errors import DlpackError
from funcgrad.tensor.tensor import Tensor, wrap

Keeper: TypeAlias = Any
"""A ``Device``, whose class is in a layer above."""

_new: Final[Any] = object.__new__


class HeldArray:
    """An array on a device, which never changes.

    Attributes
    ----------
    device : Device
    handle : object
        The device's name for the array; the array is freed with it.
    shape : tuple of int
    dtype : numpy.dtype
    origin : str
        The user's line that moved the array to the device, or the array from which it was computed.
    """

    __slots__ = ("device", "dtype", "handle", "origin", "shape")
    _trace = None

    device: Keeper
    handle: object
    shape: Shape
    dtype: np.dtype[Any]
    origin: str

    @property
    def _value(self) -> Raw:
        return self.device.fetched(self.handle)

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        return np.array(self._value, dtype)


class Resident(Tensor):
    """A tensor on a device; ``fg.put`` makes one, and so do operations on others."""

    __slots__ = ("_trace",)
    _value: HeldArray

    @classmethod
    def of(cls, device: Keeper, handle: object, spec: Spec, origin: str) -> Resident:
        """The tensor of a handle."""
        return cls.maker(device, spec)(handle, origin)

    @classmethod
    def maker(cls, device: Keeper, spec: Spec) -> Callable[..., Resident]:
        """The function that makes tensors of handles, ``(handle, origin="")``.

        Each result of each call is made by it, so it calls nothing but ``object.__new__``.
        """
        shape, dtype = spec.shape, spec.dtype

        def made(handle: object, origin: str = "") -> Resident:
            held: HeldArray = _new(HeldArray)
            held.device = device
            held.handle = handle
            held.shape = shape
            held.dtype = dtype
            held.origin = origin
            out: Resident = _new(cls)
            out._trace = device
            out._value = held
            return out

        return made

    def _reveal(self, use: str, exact: bool) -> Raw:
        return self._value._value

    def to_device(self, device: object, /, *, stream: object = None) -> Any:
        """Copy the tensor to the host, ``"cpu"``, or to a device of ``fg.devices()``."""
        if device == "cpu" and stream is None:
            return wrap(self._reveal("to_device", exact=True))
        return super().to_device(device, stream=stream)

    def __repr__(self) -> str:
        return f"Tensor({Spec(self.shape, self.dtype)} on {self._trace.name})"

    def __str__(self) -> str:
        return str(self._reveal("str(t)", exact=True))

    def _repr_html_(self) -> str:
        from funcgrad._base.html import text_block

        return text_block(repr(self))

    def __reduce__(self) -> Any:
        return self._trace.place, (np.array(self._reveal("pickle", exact=True)),)

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's name for the device; main memory if the device has none."""
        of_handle = getattr(self._value.handle, "__dlpack_device__", None)
        exports = hasattr(self._trace.backend, "exported") and of_handle is not None
        return of_handle() if exports else (1, 0)  # type: ignore[misc]

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export a copy: on the device if its backend can, else on the host."""
        exported = getattr(self._trace.backend, "exported", None)
        options: dict[str, Any] = {"stream": stream, "max_version": max_version}
        if exported is None:
            return super().__dlpack__(**options, dl_device=dl_device, copy=copy)
        if copy is False:
            raise DlpackError(
                "DLPack exports a copy of a tensor, which never changes: leave out copy=False."
            )
        return exported(self._value.handle).__dlpack__(**options, dl_device=dl_device)

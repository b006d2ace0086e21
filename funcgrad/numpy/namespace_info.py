"""The array API's functions that describe a namespace.

>>> array_namespace_info().default_device(), array_namespace_info().dtypes(kind="bool")
('cpu', {'bool': dtype('bool')})
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from funcgrad.errors import ArgumentError
from funcgrad.numpy.dtypes import isdtype
from funcgrad.numpy.options import checked_device

if TYPE_CHECKING:
    from funcgrad._backends.devices.device import Device
    from funcgrad._backends.devices.placement import DeviceLike

ARRAY_API_VERSION: Final = "2025.12"
"""The revision of the standard."""

_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", ARRAY_API_VERSION)
_DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


class ArrayNamespaceInfo:
    """Information about the namespace; see *inspection* in the standard."""

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """The optional features of the standard: all are supported for concrete tensors."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device on which tensors are made: main memory."""
        return "cpu"

    def devices(self) -> tuple[Device, ...]:
        """The devices on which tensors can be: ``fg.devices()``."""
        from funcgrad._backends.devices.placement import devices

        return devices()

    def default_dtypes(self, *, device: DeviceLike | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that are used if none is given."""
        checked_device(device, "default_dtypes")
        return {
            "real floating": np.dtype(np.float64),
            "complex floating": np.dtype(np.complex128),
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(
        self, *, device: DeviceLike | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes by name: all, or only of one kind or several."""
        checked_device(device, "dtypes")
        dtypes = {name: np.dtype(name) for name in _DTYPES}
        if kind is None:
            return dtypes
        try:
            return {name: dtype for name, dtype in dtypes.items() if isdtype(dtype, kind)}
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"dtypes: {error}") from None


def check_version(version: str) -> None:
    """Raise an error for a revision of the standard that is not supported.

    Raises
    ------
    ArgumentError
        The revision does not exist, or is later than the supported ones.
    """
    if version not in _VERSIONS:
        raise ArgumentError(
            f"Version {version!r} of the array API is not supported; supported are"
            f" {', '.join(_VERSIONS)}."
        )


def array_namespace_info() -> ArrayNamespaceInfo:
    """Return an object that describes the namespace."""
    return ArrayNamespaceInfo()

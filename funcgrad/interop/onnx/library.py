"""Import ``onnx`` on first use; dtypes of ONNX; nodes as records.

>>> import pytest
>>> onnx = pytest.importorskip("onnx")
>>> element_type(np.dtype(np.float32)) == onnx.TensorProto.FLOAT
True
>>> numbers(OperatorNode("Reshape", {}, 20, ("y",)), np.array([2, 3]), "shape")
[2, 3]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._hints.optional_packages import optional_package
from funcgrad.errors import DtypeError, ProgramError, TracerError


def onnx_library(function: str) -> Any:
    """Import ``onnx`` for a function, named in the error.

    Raises
    ------
    MissingPackageError
        ``onnx`` is not installed.
    """
    missing = f"{function}: onnx is not installed"
    optional_package("onnx.numpy_helper", missing)
    return optional_package("onnx", missing)


def element_type(dtype: np.dtype[Any]) -> int:
    """Return the ONNX type code of a dtype.

    Raises
    ------
    DtypeError
        The dtype is complex: ONNX's operators are defined for real numbers.
    """
    if dtype.kind == "c":
        raise DtypeError(
            f"to_onnx: ONNX's operators do not take {dtype}; compute with real and imaginary parts."
        )
    return onnx_library("to_onnx").helper.np_dtype_to_tensor_dtype(dtype)


Value: TypeAlias = Any
"""A tensor, an array, or None for an omitted input."""


class UnreadableError(ProgramError):
    """``interop.onnx.load`` does not support an operator, or its attributes."""


@dataclass(frozen=True, slots=True, eq=False)
class OperatorNode:
    """An operator with its attributes.

    Attributes
    ----------
    operator : str
    attributes : mapping
        Python numbers, texts, lists, arrays, and graphs.
    version : int
        The version of the operators.
    outputs : tuple of str
        The names of the results; empty for a result that is not used.
    run : callable, optional
        ``(graph, inputs) -> outputs``: runs a subgraph, which may read outer values.
    """

    operator: str
    attributes: Mapping[str, Any]
    version: int
    outputs: tuple[str, ...]
    run: Callable[[Any, list[Value]], list[Value]] | None = field(default=None, compare=False)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, or a default."""
        return self.attributes.get(name, default)

    def unread(self, why: str) -> UnreadableError:
        """Make an error that names this node."""
        return UnreadableError(f"{self.operator}: {why}")


Read: TypeAlias = Callable[..., Any]
"""``(node, *inputs)`` to the result, or to the tuple of results."""


def numbers(node: OperatorNode, value: Value, name: str) -> list[Any]:
    """The elements of an input that determines shapes, as a list of Python scalars.

    Raises
    ------
    ProgramError
        The values are not known while the function is staged or transformed.
    """
    try:
        listed: list[Any] = np.asarray(value).reshape(-1).tolist()
    except TracerError as error:
        raise node.unread(
            f"the input {name} decides a shape or which operations run, and is not known while"
            " functions are staged. Pass it as a constant, outside of fg.jit."
        ) from error
    return listed


def axes_of(node: OperatorNode, value: Value) -> list[int] | None:
    """The axes, from an input or, in older versions, an attribute; None if absent."""
    if value is not None:
        return numbers(node, value, "axes")
    axes = node.get("axes")
    return None if axes is None else list(axes)

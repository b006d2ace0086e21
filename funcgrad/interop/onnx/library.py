"""The package ``onnx``, which is imported when it is needed, and names of dtypes in it.

>>> import pytest
>>> onnx = pytest.importorskip("onnx")
>>> element_type(np.dtype(np.float32)) == onnx.TensorProto.FLOAT
True
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad.errors import DtypeError, MissingPackageError


def onnx_library(function: str) -> Any:
    """Import ``onnx`` for a function of a name.

    Raises
    ------
    MissingPackageError
        It is not installed.
    """
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingPackageError(
            f"{function}: onnx is not installed. Install it by `pip install onnx`."
        ) from error
    return onnx


def element_type(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of a dtype.

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

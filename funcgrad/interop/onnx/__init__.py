"""Load ONNX models as functions. ``Program.to_onnx`` is the other direction.

>>> import pytest
>>> onnx = pytest.importorskip("onnx")
>>> import funcgrad as fg
>>> model = fg.program(lambda x: x * x)(3.0).to_onnx()
>>> f, params = load(model)
>>> fg.grad(lambda x: f(params, x))(5.0)
Tensor(10.)
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.interop.onnx.model_reader import load

__all__ = ["load"]

_LATE = _LateNames(__name__, {"model_reader": "load"})

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

"""Use functions of funcgrad in other libraries, and their functions in funcgrad.

>>> import numpy as np
>>> from funcgrad import interop
>>> rosenbrock = interop.flat(lambda p: (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2,
...     {"x": 0.0, "y": 0.0})
>>> rosenbrock.value_and_grad(np.zeros(2))
(1.0, array([-2.,  0.]))

The modules ``interop.torch``, ``interop.jax``, ``interop.ipopt``, ``interop.nutpie``,
``interop.einops`` and ``interop.onnx`` import those libraries when they are called, and
``interop.sklearn`` when an estimator is first used.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.interop import einops, ipopt, jax, nutpie, onnx, sklearn, torch
    from funcgrad.interop.flat_function import Flat, flat

__all__ = ["Flat", "einops", "flat", "ipopt", "jax", "nutpie", "onnx", "sklearn", "torch"]

_LATE = _LateNames(
    __name__, {"": "einops ipopt jax nutpie onnx sklearn torch", "flat_function": "Flat flat"}
)

if not TYPE_CHECKING:  # type checkers see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

"""A contract for the linter of imports: files of a package are layers, each file is in one.

Three classes have methods from higher layers: a tensor the array functions, a program its forms, a
linear map its program, in which it is pickled. An error asks for a hint when it is raised. A random
sparse matrix has random numbers. A batch in blocks is a loop, and a Python loop over values of a
batch becomes an operation. A device is pickled by its name, by which it is found again.
These imports at the time of a call do not count as dependencies on a higher layer.
"""

from __future__ import annotations

from typing import Any, Final

from importlinter.contracts.layers import LayersContract

OF_METHODS: Final = (
    "funcgrad.errors -> funcgrad._hints.other_libraries",
    "funcgrad.tensor.numpy_protocols -> funcgrad.numpy",
    "funcgrad.tensor.numpy_protocols -> funcgrad.numpy.ufunc_methods",
    "funcgrad.tensor.numpy_protocols -> funcgrad.scipy.special",
    "funcgrad.tensor.tensor -> funcgrad.tensor.numpy_protocols",
    "funcgrad.tensor.tensor -> funcgrad.numpy",
    "funcgrad.tensor.tensor -> funcgrad.sparse.sparse_arrays",
    "funcgrad._programs.program -> funcgrad._forms.*",
    "funcgrad._programs.program -> funcgrad._backends.numpy.backend",
    "funcgrad._programs.program -> funcgrad._backends.numpy.writer",
    "funcgrad._programs.program -> funcgrad._transforms.saved",
    "funcgrad._programs.program -> funcgrad.interop.onnx.model_writer",
    "funcgrad._backends.devices.device -> funcgrad._backends.devices.placement",
    "funcgrad._transforms.transformed -> funcgrad._transforms.linear_code",
    "funcgrad._transforms.batch -> funcgrad._control.batch_blocks",
    "funcgrad._transforms.batch_runs -> funcgrad._transforms.captured_loops",
    "funcgrad._transforms.loop_forms -> funcgrad._control.choices",
    "funcgrad._transforms.loop_forms -> funcgrad._control.whiles",
    "funcgrad.sparse.constructors -> funcgrad.random",
)


class OneWay(LayersContract):
    """Layers of ``containers``, from high to low, with what all contracts of the house share."""

    type_name = "one way"

    def __init__(
        self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]
    ) -> None:
        shared = {
            "exhaustive": "true",
            "ignore_imports": list(OF_METHODS),
            "unmatched_ignore_imports_alerting": "none",
        }
        super().__init__(name, session_options, {**shared, **contract_options})

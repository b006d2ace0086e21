"""funcgrad: derivatives of Python functions, with nothing mutable anywhere.

Transformations take a function and return a function; tensors never change.

>>> import funcgrad as fg
>>> fg.grad(lambda x: x**3)(2.0)
Tensor(12.0)

The array functions are in ``funcgrad.numpy``, under NumPy's names, and SciPy's in
``funcgrad.scipy``; ``fg.nn``, ``fg.optim``,
``fg.random``, ``fg.testing`` and ``fg.tree`` hold what their names say, and ``fg.extend`` what
declaring operations of one's own needs.

The modules behind ``fg.pytree`` and ``fg.program`` are called ``trees`` and ``programs``: a
submodule of the same name would take the function's place in the package when it is imported.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from funcgrad import errors, tree
from funcgrad.tensor import Tensor, tensor
from funcgrad.transforms.batch import vmap
from funcgrad.transforms.forward import jvp
from funcgrad.transforms.jacobian import hessian, hvp, jacfwd, jacrev
from funcgrad.transforms.linear import linear_transpose, linearize
from funcgrad.transforms.probe import probe
from funcgrad.transforms.reverse import grad, value_and_grad, vjp
from funcgrad.transforms.stop import stop_gradient
from funcgrad.trees import pytree, static_field

if TYPE_CHECKING:
    from funcgrad import extend, nn, numpy, optim, random, scipy, testing
    from funcgrad.programs.program import Program
    from funcgrad.staging.jit import jit
    from funcgrad.transforms.checkpoint import checkpoint
    from funcgrad.transforms.custom import custom_jvp, custom_vjp
    from funcgrad.transforms.stage import program

__all__ = [
    "Program",
    "Tensor",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "errors",
    "extend",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "nn",
    "numpy",
    "optim",
    "probe",
    "program",
    "pytree",
    "random",
    "scipy",
    "static_field",
    "stop_gradient",
    "tensor",
    "testing",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
]

__version__ = "0.1.0"

_SUBMODULES = ("extend", "nn", "numpy", "optim", "random", "scipy", "testing")
_FUNCTIONS = (
    ("Program", "funcgrad.programs.program"),
    ("checkpoint", "funcgrad.transforms.checkpoint"),
    ("custom_jvp", "funcgrad.transforms.custom"),
    ("custom_vjp", "funcgrad.transforms.custom"),
    ("jit", "funcgrad.staging.jit"),
    ("program", "funcgrad.transforms.stage"),
)


def __getattr__(name: str) -> _Any:
    """Load what a script may not need when it is first used: it would double the import time."""
    if name in _SUBMODULES:
        return _import_module(f"funcgrad.{name}")
    for known, module in _FUNCTIONS:
        if name == known:
            return getattr(_import_module(module), name)
    raise AttributeError(f"module 'funcgrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, also those that are loaded when they are first used; no other."""
    return [*__all__, "__version__"]

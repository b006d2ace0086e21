"""funcgrad: derivatives of Python functions, with nothing mutable anywhere.

Transformations take a function and return a function; tensors never change.

>>> import funcgrad as fg
>>> fg.grad(lambda x: x**3)(2.0)
Tensor(12.0)

The array functions are in ``funcgrad.numpy``, under NumPy's names, and SciPy's in
``funcgrad.scipy``; ``fg.nn``, ``fg.optim``, ``fg.implicit``, ``fg.random``, ``fg.testing`` and
``fg.tree`` hold what their names say, and ``fg.extend`` what declaring operations of one's own
needs.

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
    from funcgrad import extend, implicit, nn, numpy, optim, random, scipy, testing
    from funcgrad.control.associative import associative_scan
    from funcgrad.control.choices import cond, switch
    from funcgrad.control.scans import map, scan
    from funcgrad.control.whiles import fori_loop, while_loop
    from funcgrad.implicit.fixed_points import fixed_point
    from funcgrad.implicit.linear_solves import custom_linear_solve
    from funcgrad.implicit.roots import custom_root
    from funcgrad.integrate.odeint import odeint
    from funcgrad.programs.program import Program
    from funcgrad.staging.jit import jit
    from funcgrad.transforms.checkpoint import checkpoint
    from funcgrad.transforms.custom import custom_jvp, custom_vjp
    from funcgrad.transforms.stage import program

__all__ = [
    "Program",
    "Tensor",
    "associative_scan",
    "checkpoint",
    "cond",
    "custom_jvp",
    "custom_linear_solve",
    "custom_root",
    "custom_vjp",
    "errors",
    "extend",
    "fixed_point",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "implicit",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "map",
    "nn",
    "numpy",
    "odeint",
    "optim",
    "probe",
    "program",
    "pytree",
    "random",
    "scan",
    "scipy",
    "static_field",
    "stop_gradient",
    "switch",
    "tensor",
    "testing",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]

__version__ = "0.1.0"

_SUBMODULES = ("extend", "implicit", "nn", "numpy", "optim", "random", "scipy", "testing")
_FUNCTIONS = (
    ("Program", "funcgrad.programs.program"),
    ("associative_scan", "funcgrad.control.associative"),
    ("checkpoint", "funcgrad.transforms.checkpoint"),
    ("cond", "funcgrad.control.choices"),
    ("custom_jvp", "funcgrad.transforms.custom"),
    ("custom_linear_solve", "funcgrad.implicit.linear_solves"),
    ("custom_root", "funcgrad.implicit.roots"),
    ("custom_vjp", "funcgrad.transforms.custom"),
    ("fixed_point", "funcgrad.implicit.fixed_points"),
    ("fori_loop", "funcgrad.control.whiles"),
    ("jit", "funcgrad.staging.jit"),
    ("map", "funcgrad.control.scans"),
    ("odeint", "funcgrad.integrate.odeint"),
    ("program", "funcgrad.transforms.stage"),
    ("scan", "funcgrad.control.scans"),
    ("switch", "funcgrad.control.choices"),
    ("while_loop", "funcgrad.control.whiles"),
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

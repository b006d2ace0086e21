"""funcgrad: derivatives of Python functions on immutable NumPy tensors.

Transformations take a function and return a function; tensors never change.

>>> import funcgrad as fg
>>> fg.grad(lambda x: x**3)(2.0)
Tensor(12.0)

The array functions are in ``funcgrad.numpy``, under NumPy's names, and SciPy's in
``funcgrad.scipy``. Further modules: ``fg.nn`` (networks), ``fg.optim`` (optimizers),
``fg.implicit`` (solutions of equations), ``fg.io`` (files), ``fg.parallel`` (many workers),
``fg.random``, ``fg.testing``, ``fg.debug`` (causes of NaN), ``fg.tree`` (pytrees), ``fg.extend``
(operations of your own) and ``fg.interop`` (other libraries).

The modules behind ``fg.pytree`` and ``fg.program`` are called ``trees`` and ``programs``: importing
a submodule of the same name would replace the function in the package.
"""

from typing import TYPE_CHECKING

from funcgrad import errors
from funcgrad.freed_memory import keep_freed_memory as _keep_freed_memory
from funcgrad.late_names import LateNames as _LateNames
from funcgrad.tensor import Tensor, tensor

if TYPE_CHECKING:
    from funcgrad import (
        debug,
        extend,
        implicit,
        interop,
        io,
        nn,
        numpy,
        optim,
        parallel,
        random,
        scipy,
        testing,
        tree,
    )
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
    from funcgrad.transforms.batch import vmap
    from funcgrad.transforms.checkpoint import checkpoint
    from funcgrad.transforms.custom import custom_jvp, custom_vjp
    from funcgrad.transforms.forward import jvp
    from funcgrad.transforms.jacobian import hessian, hvp, jacfwd, jacrev
    from funcgrad.transforms.linear import linear_transpose, linearize
    from funcgrad.transforms.probe import probe
    from funcgrad.transforms.reverse import grad, value_and_grad, vjp
    from funcgrad.transforms.stage import program
    from funcgrad.transforms.stop import stop_gradient
    from funcgrad.trees import pytree, static_field

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
    "debug",
    "errors",
    "extend",
    "fixed_point",
    "fori_loop",
    "grad",
    "hessian",
    "hvp",
    "implicit",
    "interop",
    "io",
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
    "parallel",
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

_LATE = _LateNames(
    __name__,
    {
        "": "debug extend implicit interop io nn numpy optim parallel random scipy testing tree",
        "control.associative": "associative_scan",
        "control.choices": "cond switch",
        "control.scans": "map scan",
        "control.whiles": "fori_loop while_loop",
        "implicit.fixed_points": "fixed_point",
        "implicit.linear_solves": "custom_linear_solve",
        "implicit.roots": "custom_root",
        "integrate.odeint": "odeint",
        "programs.program": "Program",
        "staging.jit": "jit",
        "transforms.batch": "vmap",
        "transforms.checkpoint": "checkpoint",
        "transforms.custom": "custom_jvp custom_vjp",
        "transforms.forward": "jvp",
        "transforms.jacobian": "hessian hvp jacfwd jacrev",
        "transforms.linear": "linear_transpose linearize",
        "transforms.probe": "probe",
        "transforms.reverse": "grad value_and_grad vjp",
        "transforms.stage": "program",
        "transforms.stop": "stop_gradient",
        "trees": "pytree static_field",
    },
)

_keep_freed_memory()

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load


def __dir__() -> list[str]:
    """List the public names, including those that are loaded when they are first used."""
    return [*__all__, "__version__"]

"""funcgrad: derivatives of Python functions on immutable NumPy tensors.

Transformations take a function and return a function; tensors never change.

>>> import funcgrad as fg
>>> fg.grad(lambda x: x**3)(2.0)
Tensor(12.0)

The array functions are in ``funcgrad.numpy``, under NumPy's names, and SciPy's in
``funcgrad.scipy``. Further modules: ``fg.nn`` (networks), ``fg.optim`` (optimizers),
``fg.implicit`` (solutions of equations), ``fg.optimize`` (fits, roots and minima),
``fg.integrate`` (integrals and differential equations), ``fg.interpolate`` (splines and grids),
``fg.io`` (files), ``fg.parallel`` (many workers), ``fg.random``, ``fg.testing``, ``fg.debug``
(causes of NaN), ``fg.tree`` (pytrees), ``fg.extend`` (operations of your own) and ``fg.interop``
(other libraries).

Packages whose names begin with an underscore are internal.
"""

import typing as _typing

from funcgrad import errors
from funcgrad._base.allocator import keep_freed_memory as _keep_freed_memory
from funcgrad._hints.lazy_names import LateNames as _LateNames
from funcgrad.tensor.tensor import Tensor, tensor

if _typing.TYPE_CHECKING:
    from funcgrad import (
        debug,
        extend,
        implicit,
        integrate,
        interop,
        interpolate,
        io,
        nn,
        numpy,
        optim,
        optimize,
        parallel,
        random,
        scipy,
        sparse,
        testing,
        tree,
    )
    from funcgrad._backends.devices.placement import devices, get, put
    from funcgrad._control.associative import associative_scan
    from funcgrad._control.choices import cond, switch
    from funcgrad._control.scans import map, scan
    from funcgrad._control.whiles import fori_loop, while_loop
    from funcgrad._core.pytrees import pytree, static_field
    from funcgrad._programs.program import Program
    from funcgrad._staging.jit import jit
    from funcgrad._transforms.batch import vmap
    from funcgrad._transforms.checkpoint import checkpoint
    from funcgrad._transforms.custom import custom_jvp, custom_vjp
    from funcgrad._transforms.forward import jvp
    from funcgrad._transforms.jacobian import hessian, hvp, jacfwd, jacobian, jacrev
    from funcgrad._transforms.linear import linear_transpose, linearize
    from funcgrad._transforms.probe import probe
    from funcgrad._transforms.reverse import grad, value_and_grad, vjp
    from funcgrad._transforms.stage import program
    from funcgrad._transforms.stop import stop_gradient
    from funcgrad.implicit.fixed_points import fixed_point
    from funcgrad.implicit.linear_solves import custom_linear_solve
    from funcgrad.implicit.roots import custom_root
    from funcgrad.integrate.initial_values import odeint

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
    "devices",
    "errors",
    "extend",
    "fixed_point",
    "fori_loop",
    "get",
    "grad",
    "hessian",
    "hvp",
    "implicit",
    "integrate",
    "interop",
    "interpolate",
    "io",
    "jacfwd",
    "jacobian",
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
    "optimize",
    "parallel",
    "probe",
    "program",
    "put",
    "pytree",
    "random",
    "scan",
    "scipy",
    "sparse",
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
        "": "debug extend implicit integrate interop interpolate io nn numpy optim optimize"
        " parallel random scipy sparse testing tree",
        "_backends.devices.placement": "devices get put",
        "_control.associative": "associative_scan",
        "_control.choices": "cond switch",
        "_control.scans": "map scan",
        "_control.whiles": "fori_loop while_loop",
        "implicit.fixed_points": "fixed_point",
        "implicit.linear_solves": "custom_linear_solve",
        "implicit.roots": "custom_root",
        "integrate.initial_values": "odeint",
        "_programs.program": "Program",
        "_staging.jit": "jit",
        "_transforms.batch": "vmap",
        "_transforms.checkpoint": "checkpoint",
        "_transforms.custom": "custom_jvp custom_vjp",
        "_transforms.forward": "jvp",
        "_transforms.jacobian": "hessian hvp jacfwd jacobian jacrev",
        "_transforms.linear": "linear_transpose linearize",
        "_transforms.probe": "probe",
        "_transforms.reverse": "grad value_and_grad vjp",
        "_transforms.stage": "program",
        "_transforms.stop": "stop_gradient",
        "_core.pytrees": "pytree static_field",
    },
)

_keep_freed_memory()

if not _typing.TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load


def __dir__() -> list[str]:
    """List the public names, including those that are loaded when they are first used."""
    return [*__all__, "__version__"]

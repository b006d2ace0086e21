"""funcgrad: derivatives of Python functions, with nothing mutable anywhere."""

from funcgrad.tensor import Tensor, tensor
from funcgrad.transforms.batch import vmap
from funcgrad.transforms.checkpoint import checkpoint
from funcgrad.transforms.custom import custom_jvp, custom_vjp
from funcgrad.transforms.forward import jvp
from funcgrad.transforms.jacobian import hessian, hvp, jacfwd, jacrev
from funcgrad.transforms.linear import linear_transpose, linearize
from funcgrad.transforms.probe import probe
from funcgrad.transforms.reverse import grad, value_and_grad, vjp
from funcgrad.transforms.stop import stop_gradient
from funcgrad.trees import pytree, static_field

__all__ = [
    "Tensor",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "linear_transpose",
    "linearize",
    "probe",
    "pytree",
    "static_field",
    "stop_gradient",
    "tensor",
    "value_and_grad",
    "vjp",
    "vmap",
]

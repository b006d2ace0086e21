"""funcgrad: derivatives of Python functions, with nothing mutable anywhere."""

from funcgrad.tensor import Tensor, tensor
from funcgrad.transforms.batch import vmap
from funcgrad.transforms.forward import jvp
from funcgrad.transforms.probe import probe
from funcgrad.transforms.reverse import grad, value_and_grad, vjp

__all__ = ["Tensor", "grad", "jvp", "probe", "tensor", "value_and_grad", "vjp", "vmap"]

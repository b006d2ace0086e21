"""HIPS autograd's names on funcgrad: its users change two import lines.

>>> import funcgrad.compat.autograd.numpy as np
>>> from funcgrad.compat.autograd import grad
>>> grad(lambda x: np.sum(np.tanh(x)))(np.zeros(2))
array([1., 1.])
"""

from funcgrad.compat.autograd import extend as extend
from funcgrad.compat.autograd.builtins import dict as dict
from funcgrad.compat.autograd.builtins import isinstance as isinstance
from funcgrad.compat.autograd.builtins import list as list
from funcgrad.compat.autograd.builtins import tuple as tuple
from funcgrad.compat.autograd.builtins import type as type
from funcgrad.compat.autograd.differential_operators import checkpoint as checkpoint
from funcgrad.compat.autograd.differential_operators import deriv as deriv
from funcgrad.compat.autograd.differential_operators import elementwise_grad as elementwise_grad
from funcgrad.compat.autograd.differential_operators import grad as grad
from funcgrad.compat.autograd.differential_operators import grad_and_aux as grad_and_aux
from funcgrad.compat.autograd.differential_operators import grad_named as grad_named
from funcgrad.compat.autograd.differential_operators import hessian as hessian
from funcgrad.compat.autograd.differential_operators import (
    hessian_tensor_product as hessian_tensor_product,
)
from funcgrad.compat.autograd.differential_operators import (
    hessian_vector_product as hessian_vector_product,
)
from funcgrad.compat.autograd.differential_operators import holomorphic_grad as holomorphic_grad
from funcgrad.compat.autograd.differential_operators import jacobian as jacobian
from funcgrad.compat.autograd.differential_operators import make_ggnvp as make_ggnvp
from funcgrad.compat.autograd.differential_operators import make_hvp as make_hvp
from funcgrad.compat.autograd.differential_operators import make_jvp as make_jvp
from funcgrad.compat.autograd.differential_operators import (
    make_jvp_reversemode as make_jvp_reversemode,
)
from funcgrad.compat.autograd.differential_operators import make_vjp as make_vjp
from funcgrad.compat.autograd.differential_operators import multigrad_dict as multigrad_dict
from funcgrad.compat.autograd.differential_operators import (
    tensor_jacobian_product as tensor_jacobian_product,
)
from funcgrad.compat.autograd.differential_operators import value_and_grad as value_and_grad
from funcgrad.compat.autograd.differential_operators import (
    vector_jacobian_product as vector_jacobian_product,
)
from funcgrad.compat.autograd.extend import primitive as primitive
from funcgrad.compat.autograd.lazy_modules import install as _install

_install(__name__)

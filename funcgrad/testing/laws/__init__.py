"""Laws of functions: what has to hold at every point.

A law is a function of ``(f, args)``, where ``args`` is the tuple of arguments. It returns nothing,
or raises a ``CheckError`` that says what differs, by how much, and how to repeat it.

>>> import funcgrad as fg
>>> from funcgrad.testing import laws
>>> laws.modes_agree(fg.numpy.hypot, (3.0, 4.0))
>>> laws.homogeneous(1)(fg.numpy.hypot, (3.0, 4.0))

Laws with options are made by calls, as the second one is. ``fg.testing.holds`` makes tests of laws,
at points that hypothesis draws; a law needs no hypothesis itself.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.testing.laws.derivative_laws import (
    chain_rule,
    grad_is_numerical,
    hessian_symmetric,
    modes_agree,
)
from funcgrad.testing.laws.one_sided import subgradient
from funcgrad.testing.laws.remainders import taylor
from funcgrad.testing.laws.transformation_laws import dtype_kept, jit_is_eager, pure, vmap_is_loop
from funcgrad.testing.laws.value_laws import (
    convex,
    equivariant,
    homogeneous,
    idempotent,
    invariant,
    inverse,
    linear,
)

__all__ = [
    "chain_rule",
    "convex",
    "dtype_kept",
    "equivariant",
    "grad_is_numerical",
    "hessian_symmetric",
    "homogeneous",
    "idempotent",
    "invariant",
    "inverse",
    "jit_is_eager",
    "linear",
    "modes_agree",
    "pure",
    "subgradient",
    "taylor",
    "vmap_is_loop",
]

if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules

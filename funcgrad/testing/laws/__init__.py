"""Laws: properties of a function and its derivatives that hold at every point.

A law is a function of ``(f, args)``, where ``args`` is the tuple of arguments. It returns nothing,
or raises a ``CheckError`` with the difference, its size, and code that repeats it.

>>> import funcgrad as fg
>>> from funcgrad.testing import laws
>>> laws.modes_agree(fg.numpy.hypot, (3.0, 4.0))
>>> laws.homogeneous(1)(fg.numpy.hypot, (3.0, 4.0))

Laws with options are made by a call, like the second one here. ``fg.testing.holds`` makes tests of
laws at points that Hypothesis draws; a law itself does not need Hypothesis.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.testing.laws.derivative_laws import (
    chain_rule,
    grad_is_numerical,
    hessian_symmetric,
    modes_agree,
    subgradient,
)
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

if not TYPE_CHECKING:  # type checkers know the names
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules

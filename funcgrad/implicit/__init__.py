"""Solutions of equations as functions of their parameters, with derivatives.

``root``, ``minimize``, ``least_squares`` and ``fixed_point`` take an equation with parameters and a
solver from any library, and return a function of the parameters:

>>> import funcgrad as fg
>>> from scipy import optimize
>>> def newton(g, init):
...     return optimize.newton(g, init, tol=1e-14)
>>> solution = fg.implicit.root(lambda x, a: x**3 - a, newton)
>>> solution(1.0, 8.0), fg.grad(solution, argnums=1)(1.0, 8.0)
(Tensor(2.0), Tensor(0.08333333))

They are built on ``fg.custom_root`` and ``fg.custom_linear_solve``. So is ``fg.fixed_point``, which
brings its own iteration. ``cg``, ``gmres`` and ``bicgstab`` solve linear systems without a matrix.
The README explains how.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.implicit.dense import dense_solve
    from funcgrad.implicit.direct import direct_solve
    from funcgrad.implicit.krylov import bicgstab, cg, gmres
    from funcgrad.implicit.solvers import fixed_point, least_squares, minimize, root

__all__ = [
    "bicgstab",
    "cg",
    "dense_solve",
    "direct_solve",
    "fixed_point",
    "gmres",
    "least_squares",
    "minimize",
    "root",
]

_LATE = _LateNames(
    __name__,
    {
        "dense": "dense_solve",
        "direct": "direct_solve",
        "krylov": "bicgstab cg gmres",
        "solvers": "fixed_point least_squares minimize root",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

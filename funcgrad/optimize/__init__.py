"""Fits, roots and minima by solvers that compile, batch and differentiate.

>>> import funcgrad as fg
>>> def cube_root(a):
...     return root_scalar(lambda x: x**3 - a, bracket=(0.0, 10.0)).x
>>> fg.vmap(fg.grad(cube_root))(fg.tensor([1.0, 8.0]))
Tensor([0.33333333, 0.08333333])

The README explains how; ``funcgrad.scipy.optimize`` calls SciPy's own solvers instead.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
    from funcgrad.optimize.fits import least_squares
    from funcgrad.optimize.minima import minimize
    from funcgrad.optimize.model_fits import curve_fit
    from funcgrad.optimize.scalar_minima import minimize_scalar
    from funcgrad.optimize.scalar_roots import root_scalar
    from funcgrad.optimize.solution import Solution
    from funcgrad.optimize.system_roots import fixed_point, root

__all__ = [
    "Solution",
    "curve_fit",
    "fixed_point",
    "least_squares",
    "minimize",
    "minimize_scalar",
    "root",
    "root_scalar",
]

_LATE = _LateNames(
    __name__,
    {
        "solution": "Solution",
        "fits": "least_squares",
        "minima": "minimize",
        "model_fits": "curve_fit",
        "scalar_minima": "minimize_scalar",
        "scalar_roots": "root_scalar",
        "system_roots": "fixed_point root",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules

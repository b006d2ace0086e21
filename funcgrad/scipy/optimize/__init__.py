"""SciPy's optimizers for pytrees, with every derivative that a method needs.

The solvers of ``scipy.optimize`` take vectors. Here variables, bounds and solutions are pytrees:

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> from funcgrad.scipy.optimize import minimize
>>> def distance(p):
...     return fnp.sum((p["a"] - 3.0) ** 2) + (p["b"] + 1.0) ** 4
>>> found = minimize(distance, {"a": fnp.zeros(2), "b": 0.0}, bounds={"a": (None, 2.0), "b": None})
>>> found.success, found.x["a"]
(True, Tensor([2., 2.]))

Prefer ``funcgrad.optimize`` for many problems, inside ``jit`` and ``vmap``, and where a solution is
differentiated: its solvers are written in funcgrad's functions. Prefer SciPy's for one large or
sparse problem, and for methods that only SciPy has, such as trust-constr and SLSQP.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.scipy.optimize.least_squares import least_squares
from funcgrad.scipy.optimize.minimize import minimize

__all__ = ["least_squares", "minimize"]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules

"""``odeint`` under SciPy's name, with derivatives in everything that the equation depends on.

>>> from funcgrad.compat.autograd import grad
>>> final = lambda k: odeint(lambda y, t: -k * y, np.ones(1), np.array([0.0, 1.0]))[-1, 0]
>>> round(float(grad(final)(1.0)), 6)
-0.367879
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import plain
from funcgrad.integrate.odeint import odeint as _odeint
from funcgrad.tensor.tensor import ArrayLike


def odeint(
    func: Callable[..., Any],
    y0: ArrayLike,
    t: ArrayLike,
    args: Sequence[Any] = (),
    *,
    rtol: float = 1.49012e-8,
    atol: float = 1.49012e-8,
    tfirst: bool = False,
) -> Any:
    """Solve y' = func(y, t, *args), as ``scipy.integrate.odeint`` does, by ``fg.odeint``.

    Parameters
    ----------
    func : callable
        Returns dy/dt; ``func(t, y, *args)`` with ``tfirst``.
    y0 : array of shape (n,)
    t : array of shape (m,)
        The times, the first of which is that of ``y0``.
    args : sequence of pytrees
    rtol, atol : float
        Tolerances, with SciPy's defaults.
    tfirst : bool

    Returns
    -------
    array of shape (m, n)
    """

    def derivative(y: Any, time: Any, *parameters: Any) -> Any:
        out = func(time, y, *parameters) if tfirst else func(y, time, *parameters)
        return fnp.asarray(out)

    start = y0 if hasattr(y0, "dtype") else np.asarray(y0, dtype=np.float64)
    return plain(_odeint(derivative, start, t, *args, rtol=rtol, atol=atol))

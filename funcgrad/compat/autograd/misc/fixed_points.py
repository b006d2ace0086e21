"""``fixed_point``: the solution of x = f(a)(x), with the derivative of the equation.

>>> from funcgrad.compat.autograd import grad
>>> heron = lambda a: lambda x: 0.5 * (x + a / x)
>>> root = lambda a: fixed_point(heron, a, 1.0, lambda x, y: abs(x - y), 1e-12)
>>> float(root(4.0)), float(grad(root)(4.0))
(2.0, 0.25)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from funcgrad._core import pytrees
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.arrays import plain
from funcgrad.implicit.roots import custom_root


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]],
    a: Any,
    x0: Any,
    distance: Callable[[Any, Any], Any],
    tol: float,
) -> Any:
    """Iterate f(a) from ``x0`` until two iterates are nearer than ``tol``.

    Parameters
    ----------
    f : callable
        ``f(a)(x)`` is like x.
    a : pytree
        The parameters, in which the result is differentiable, in both modes and at every order.
    x0 : pytree
        The starting point, without influence on derivatives.
    distance : callable
        ``distance(x, y)`` is a number.
    tol : float
    """
    step = f(a)

    def iterated(_: Callable[[Any], Any], start: Any) -> Any:
        x, before = step(start), start
        while distance(x, before) > tol:
            x, before = step(x), x
        return x

    def residual(x: Any) -> Any:
        return pytrees.map(lambda new, old: new - old, step(x), x)

    return plain(custom_root(residual, x0, iterated))


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)

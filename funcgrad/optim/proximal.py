"""``proximal_gradient``: minima of a smooth function and a penalty with kinks.

>>> import funcgrad as fg
>>> from funcgrad import optim
>>> def shrunk(weight):
...     penalty = lambda x, step: optim.prox.l1(x, weight * step)
...     return proximal_gradient(lambda x: 0.5 * (x - 3.0) ** 2, 0.0, penalty)
>>> fg.value_and_grad(shrunk)(1.0)
(Tensor(2.0), Tensor(-1.0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._core.specs import dtype_of
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.reverse import grad, value_and_grad
from funcgrad.errors import DtypeError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.roots import root_of
from funcgrad.implicit.unknowns import Solve, Unknown, converged_or_nan
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel

Tree = TypeVar("Tree")


@pytree(slots=True)
class _Momentum:
    """The latest point, the point from which the next step goes, and the size of steps."""

    x: Tensor
    ahead: Tensor
    weight: Tensor
    step: Tensor
    count: Tensor
    change: Tensor


@watched
def proximal_gradient(
    fun: Callable[..., Any],
    params: Tree,
    prox: Callable[..., Any],
    args: object = (),
    *,
    tol: float | None = None,
    maxiter: int = 10_000,
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Tree:
    """Minimize ``fun(x) + penalty(x)``, with the proximal operator of the penalty.

    Each step applies the gradient of ``fun``, then the operator. Momentum restarts when it points
    the wrong way (FISTA with restarts), and the step size adapts. The minimum is differentiated
    with respect to ``args`` and the values that ``fun`` and ``prox`` close over, by the equation
    that holds there. It compiles under ``jit``, and ``vmap`` solves each example of a batch.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a real number, and is smooth.
    params : pytree of real floating-point arrays
        The starting point. The derivative with respect to it is 0.
    prox : callable
        ``prox(x, step)`` is the operator of ``step`` times the penalty: see ``optim.prox``.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument.
    tol : float, optional
        The solver stops if a step changes x by at most ``tol * (1 + max(abs(x)))``, for steps of
        the size 1 or less. The default is the machine epsilon to the power 0.75.
    maxiter : int
        The maximum number of steps.
    tangent_solve : callable
        The solver of the linear system of derivatives; see ``fg.custom_root``.
    failed : {"raise", "nan"}
        See ``fg.custom_root``.

    Returns
    -------
    pytree
        The minimum, a tree like ``params``.

    Raises
    ------
    ConvergenceError
        The steps are too many. Inside ``jit`` and ``vmap`` the minimum is NaN instead.
    DtypeError
        ``params`` are integers or complex.

    See Also
    --------
    funcgrad.optimize.minimize : Smooth functions, with bounds and constraints.

    Notes
    -----
    Derivatives keep the elements that the operator has made 0. Sources: Beck and Teboulle, "A fast
    iterative shrinkage-thresholding algorithm for linear inverse problems", SIAM Journal on Imaging
    Sciences 2, 2009; O'Donoghue and Candès, "Adaptive restart for accelerated gradient schemes",
    2015.

    Examples
    --------
    The lasso in three lines:

    >>> import numpy as np
    >>> from funcgrad import optim
    >>> A, b = np.array([[1.0, 0.0, 0.1], [0.0, 1.0, 0.0], [0.1, 0.0, 1.0]]), np.array([2, 0.3, -1])
    >>> loss = lambda w: 0.5 * fnp.sum((A @ w - b) ** 2)
    >>> lasso = lambda w, step: optim.prox.l1(w, 0.5 * step)
    >>> fnp.round(proximal_gradient(loss, np.zeros(3), lasso), 4)
    Tensor([ 1.5..., 0.    , -0.6...])
    """
    name = "proximal_gradient"
    for function in (fun, prox, tangent_solve):
        check_function(name, function)
    unknown, values = Unknown.read(name, "params", params)
    for leaf in values:
        if dtype_of(leaf).kind == "c":
            raise placed(
                DtypeError,
                f"{name}: params are {dtype_of(leaf)}, but have to be real. Take the real and the"
                " imaginary parts as unknowns.",
            )
    vector, unravel = ravel(unknown.tree(values))
    power = float(np.finfo(vector.dtype).eps) ** 0.75
    close = power if tol is None else tolerance(name, "tol", tol)
    most = count_of(name, "maxiter", maxiter)

    def problem(point: tuple[Tensor, Tensor], *values: object) -> tuple[Tensor, Tensor]:
        """The value of fun at x, and the operator there, for a pair of x and the step."""
        x, step = point
        return fnp.asarray(fun(unravel(x), *values)), ravel(prox(unravel(x), step))[0]

    def solve(
        function: Callable[[Any], Any], start: tuple[Tensor, Tensor], _: object
    ) -> tuple[Tensor, Tensor]:
        x, step = start
        ended = _iterated(function, x, step, close, most)
        message = f"{name}: {most} steps were not enough to converge. Raise maxiter or tol."
        done = ended.change <= close
        return converged_or_nan((ended.x, fnp.ones_like(step)), done, message, failed)

    x, _ = root_of(
        name,
        problem,
        (vector, fnp.ones((), vector.dtype)),
        args if isinstance(args, tuple) else (args,),
        solve,
        tangent_solve,
        what="params",
        equation=_fixed,
        is_like_unknown=False,
        failed=failed_as(failed, name),
    )
    return unravel(x)


def _fixed(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The equation of the minimum: a step of the size 1 does not change it."""

    def distance(point: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, step = point
        slope = grad(lambda place: function((place, step))[0])(x)
        return x - function((x - step * slope, step))[1], step - 1.0

    return distance


def _iterated(
    function: Callable[[Any], Any], x: Tensor, step: Tensor, tol: float, maxiter: int
) -> _Momentum:
    """Iterate from a point, until steps change it by less than a tolerance."""
    noise = 4.0 * float(np.finfo(x.dtype).eps)

    def value(place: Tensor) -> Tensor:
        return function((place, step))[0]

    def advance(now: _Momentum) -> _Momentum:
        height, slope = value_and_grad(value)(now.ahead)

        def too_long(state: tuple[Tensor, Tensor]) -> Tensor:
            size, there = state
            move = there - now.ahead
            bound = height + slope @ move + (move @ move) / (2.0 * size)
            return ~(value(there) <= bound + noise * fnp.abs(height)) & (size > 1e-30)

        def shorter(state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            size = 0.5 * state[0]
            return size, function((now.ahead - size * slope, size))[1]

        begin = now.step, function((now.ahead - now.step * slope, now.step))[1]
        size, there = while_loop(too_long, shorter, begin)
        back = (now.ahead - there) @ (there - now.x) > 0.0
        weight = 0.5 * (1.0 + fnp.sqrt(1.0 + 4.0 * now.weight**2))
        share = fnp.where(back, 0.0, (now.weight - 1.0) / weight)
        change = fnp.max(fnp.abs(there - now.ahead), initial=0.0) / fnp.minimum(size, 1.0)
        return _Momentum(
            there,
            there + share * (there - now.x),
            fnp.where(back, 1.0, weight),
            1.1 * size,
            now.count + 1,
            change / (1.0 + fnp.max(fnp.abs(there), initial=0.0)),
        )

    one = fnp.ones((), x.dtype)
    start = _Momentum(x, x, one, step, fnp.asarray(0), fnp.inf * one)
    return while_loop(lambda now: ~(now.change <= tol) & (now.count < maxiter), advance, start)

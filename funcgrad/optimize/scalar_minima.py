"""``minimize_scalar``: a minimum of a function of one number.

>>> import funcgrad as fg
>>> def lowest(shift):
...     return minimize_scalar(lambda x: fg.numpy.cosh(x - shift) + 0.1 * x, bounds=(-5.0, 5.0)).x
>>> fg.value_and_grad(lowest)(1.0)
(Tensor(0.90016...), Tensor(1.0))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import scalar, unwrap
from funcgrad._transforms.reverse import grad, value_and_grad
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.optimize.scalar_roots import divided, points_of
from funcgrad.optimize.solution import NOT_FINITE, RUNNING, SMALL_STEP, Solution, first_status
from funcgrad.optimize.solver_arguments import checked, off_minimum
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, task_solution
from funcgrad.tensor.tensor import Tensor

_GOLDEN: Final = (3.0 - 5.0**0.5) / 2.0
_ADVICE: Final = "Choose other bounds, or allow more steps by maxiter."


@watched
@answering
def minimize_scalar(
    fun: Callable[..., Any],
    bounds: Any,
    args: Any = (),
    *,
    xtol: float | None = None,
    maxiter: int = 500,
    derivative: str = "implicit",
    failed: str = "raise",
) -> Solution[Tensor]:
    """Find a local minimum of a function of one number between two bounds, by Brent's method.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a real number; its derivative is not needed to find the minimum.
    bounds : pair of float
        The interval to search.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument. The minimum is
        differentiated with respect to them, to the bounds and to the values that ``fun`` closes
        over.
    xtol : float, optional
        The solver stops if the minimum is known to within ``xtol * (1 + abs(x))``. The default is
        the square root of the machine epsilon: rounding hides more. Two steps of Newton's method
        follow, because derivatives need a more exact minimum.
    maxiter : int
        The maximum number of steps.
    derivative : {"implicit", "steps"}
        Differentiate the equation that holds at the minimum, or the steps of the solver.
    failed : {"raise", "nan", "keep"}
        See ``minimize``.

    Returns
    -------
    Solution
        ``x`` is the minimum, ``fun`` the value and ``jac`` the derivative there.

    Raises
    ------
    ConvergenceError
        The function is not finite between the bounds, or ``maxiter`` steps are not enough.
    ArgumentError, ShapeError, DtypeError
        The bounds are not two real numbers.

    Notes
    -----
    At a bound the minimum follows the bound. Source: Brent, "Algorithms for minimization without
    derivatives", 1973, chapter 5.

    Examples
    --------
    >>> found = minimize_scalar(lambda x: (x - 2.0) ** 2 + 1.0, (0.0, 5.0))
    >>> found.x, found.fun
    (Tensor(2.0), Tensor(1.0))
    """
    name = "minimize_scalar"
    more = checked(name, fun, bounds, args, derivative)
    low, high = points_of(name, {"bounds": bounds})
    close = float(np.sqrt(np.finfo(low.dtype).eps))
    accuracy = close if xtol is None else tolerance(name, "xtol", xtol)
    most = count_of(name, "maxiter", maxiter)

    task = SolverTask(
        name,
        _ADVICE,
        (fun,),
        (accuracy, most),
        _problem,
        partial(_iterate, accuracy, most),
        _finish,
    )
    x, told, (value, slope) = task_solution(
        task,
        low,
        ((low, high), *more),
        derivative,
        failed,
        divided,
        what="bounds",
        equation=_stationary,
        is_like_unknown=False,
    )
    return Solution(x, value, *told, slope)


def _problem(functions: Functions) -> Callable[..., Any]:
    """The function that gives the value at a point, and the bounds."""
    (fun,) = functions

    def one_number(x: Any, ends: Any, *values: Any) -> Any:
        value = fun(x, *values)
        scalar("minimize_scalar", unwrap(value, "minimize_scalar"))
        return fnp.asarray(value), ends

    return one_number


def _iterate(xtol: float, most: int, _: Functions, function: OfPoint, start: Tensor) -> Any:
    """Solve: the minimum, and (status, nit, nfev)."""
    _, (lower, upper) = function(start)

    def f(x: Tensor) -> Tensor:
        return function(x)[0]

    ended = _narrowed(f, lower, upper, xtol, most)
    x = _polished(f, ended.x, lower, upper, xtol)
    return x, (ended.status, ended.nit, ended.nit + 1)


def _finish(functions: Functions, x: Tensor, parameters: tuple[Any, ...]) -> list[Tensor]:
    """The value and the derivative at the minimum."""
    more = parameters[1:]
    return list(value_and_grad(lambda point: functions[0](point, *more))(x))


def _stationary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def equation(x: Tensor) -> Tensor:
        slope = grad(lambda point: function(point)[0])(x)
        return off_minimum(x, slope, function(x)[1])

    return equation


def _polished(
    f: Callable[[Tensor], Tensor], x: Tensor, low: Tensor, high: Tensor, xtol: float
) -> Tensor:
    """Two steps of Newton's method for the derivative, where they are short."""
    slope_of = grad(f)
    for _ in range(2):
        slope, curvature = value_and_grad(slope_of)(x)
        step = -slope / fnp.where(curvature > 0.0, curvature, np.inf)
        short = fnp.abs(step) <= 100.0 * xtol * (1.0 + fnp.abs(x))
        x = fnp.clip(fnp.where(short, x + step, x), low, high)
    # The method comes close to a bound without reaching it.
    slope = slope_of(x)
    near = 4.0 * xtol * (1.0 + fnp.abs(x))
    x = fnp.where((slope > 0.0) & (x - low <= near), low, x)
    return fnp.where((slope < 0.0) & (high - x <= near), high, x)


@pytree(slots=True)
class _Interval:
    """The ends; the best three points x, w, v with their values; the latest two steps."""

    low: Tensor
    high: Tensor
    x: Tensor
    w: Tensor
    v: Tensor
    f_x: Tensor
    f_w: Tensor
    f_v: Tensor
    step: Tensor
    step_before: Tensor
    nit: Tensor
    status: Tensor


def _narrowed(
    f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, xtol: float, maxiter: int
) -> _Interval:
    """Narrow an interval by parabolas through the best points, or by golden sections."""

    def goes_on(now: _Interval) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    def advance(now: _Interval) -> _Interval:
        near = 0.5 * xtol * (1.0 + fnp.abs(now.x))
        middle = 0.5 * (now.low + now.high)
        r = (now.x - now.w) * (now.f_x - now.f_v)
        q = (now.x - now.v) * (now.f_x - now.f_w)
        p = (now.x - now.v) * q - (now.x - now.w) * r
        q = 2.0 * (q - r)
        p, q = fnp.where(q > 0.0, -p, p), fnp.abs(q)
        parabola = p / fnp.where(q == 0.0, np.inf, q)
        there = now.x + parabola
        good = (fnp.abs(now.step_before) > near) & (q > 0.0)
        good = good & (fnp.abs(parabola) < 0.5 * fnp.abs(now.step_before))
        good = good & (there > now.low) & (there < now.high)
        longer = fnp.where(now.x < middle, now.high - now.x, now.low - now.x)
        inward = fnp.where(middle >= now.x, near, -near)
        at_end = (there - now.low < 2.0 * near) | (now.high - there < 2.0 * near)
        step = fnp.where(good, fnp.where(at_end, inward, parabola), _GOLDEN * longer)
        before = fnp.where(good, now.step, longer)
        step = fnp.where(fnp.abs(step) >= near, step, fnp.where(step > 0.0, near, -near))
        point = now.x + step
        value = f(point)
        return _with_point(now, point, value, step, before, xtol)

    start = low + _GOLDEN * (high - low)
    value, nothing = f(start), fnp.zeros_like(low)
    status = first_status([(~fnp.isfinite(value) | ~(low <= high), NOT_FINITE)])
    ends = low, high, start, start, start, value, value, value
    first = _Interval(*ends, nothing, nothing, fnp.asarray(0), status)
    return while_loop(goes_on, advance, first)


def _with_point(
    now: _Interval, point: Tensor, value: Tensor, step: Tensor, before: Tensor, xtol: float
) -> _Interval:
    better = value <= now.f_x
    nearer, farther = fnp.where(better, now.x, point), fnp.where(better, point, now.x)
    low = fnp.where(nearer < farther, nearer, now.low)
    high = fnp.where(nearer < farther, now.high, nearer)
    second = ~better & ((value <= now.f_w) | (now.w == now.x))
    third = ~better & ~second & ((value <= now.f_v) | (now.v == now.x) | (now.v == now.w))
    x, f_x = fnp.where(better, point, now.x), fnp.where(better, value, now.f_x)
    w = fnp.where(better, now.x, fnp.where(second, point, now.w))
    f_w = fnp.where(better, now.f_x, fnp.where(second, value, now.f_w))
    v = fnp.where(better | second, now.w, fnp.where(third, point, now.v))
    f_v = fnp.where(better | second, now.f_w, fnp.where(third, value, now.f_v))
    near = 0.5 * xtol * (1.0 + fnp.abs(x))
    done = fnp.abs(x - 0.5 * (low + high)) <= 2.0 * near - 0.5 * (high - low)
    status = first_status([(done, SMALL_STEP)])
    return _Interval(low, high, x, w, v, f_x, f_w, f_v, step, before, now.nit + 1, status)

"""``minimize``: a minimum of a function of a pytree, within bounds and constraints.

>>> import funcgrad as fg
>>> def ridge(penalty):
...     loss = lambda w: (w["a"] + w["b"] - 1.0) ** 2 + penalty * (w["a"] ** 2 + w["b"] ** 2)
...     return minimize(loss, {"a": 0.0, "b": 0.0}).x["a"]
>>> fg.value_and_grad(ridge)(2.0)
(Tensor(0.25), Tensor(-0.0625))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import scalar, unwrap
from funcgrad._transforms.reverse import grad, value_and_grad
from funcgrad.errors import ArgumentError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.unknowns import Solve
from funcgrad.optimize.constraints import Constraint, constraints_of, joined_limits
from funcgrad.optimize.descents import METHODS, DescentOptions, descended, slope_of
from funcgrad.optimize.simplex import simplex_minimum
from funcgrad.optimize.solution import (
    INFEASIBLE,
    RUNNING,
    SMALL_DECREASE,
    Solution,
    failed_way,
    first_status,
)
from funcgrad.optimize.solver_arguments import (
    as_vector,
    bounds_of,
    checked,
    chosen,
    form_of,
    off_minimum,
    vector_of,
)
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, task_solution
from funcgrad.tensor.tensor import Tensor

_ADVICE: Final = (
    "Start closer to the minimum, allow more steps by maxiter, raise tol, or try another method;"
    " failed='keep' returns the best point so far."
)
_ROUNDS: Final = 40  # the most corrections of the multipliers


@watched
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    *,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    maxiter: int | None = None,
    derivative: str = "implicit",
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Solution[Any]:
    """Find a local minimum of a function of a pytree.

    The solver is written in funcgrad's functions: it compiles under ``jit``, solves each example of
    a batch under ``vmap``, and the minimum is differentiated with respect to ``args``, the bounds,
    and the values that ``fun`` and the constraints close over.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a real number.
    x0 : pytree of real floating-point arrays
        The starting point. The derivative with respect to it is 0.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument.
    method : {"bfgs", "l-bfgs", "newton-cg", "trust-exact", "nelder-mead"}, optional
        "bfgs", the default, learns the Hessian from gradients; "l-bfgs" does so for many unknowns.
        "newton-cg" takes products with the Hessian, within a region in which its model holds (as
        SciPy's trust-ncg); "trust-exact" takes the whole Hessian, for up to some hundred unknowns
        where others get stuck. "nelder-mead" needs no derivative of a rough function.
    bounds : pair, optional
        ``(lower, upper)``: each is None, a number, or a pytree prefix of x. Steps are projected to
        them.
    constraints : dict, scipy.optimize.NonlinearConstraint, or a sequence of these
        ``{"type": "eq", "fun": c}`` for c(x) = 0, ``{"type": "ineq", "fun": c}`` for c(x) >= 0, as
        in SciPy, with functions of the tree; ``"args"`` are their further arguments.
    tol : float, optional
        The solver stops if no element of the gradient (with constraints, of the Lagrangian) is
        above it, and no constraint is violated by more; for "nelder-mead", the size of the simplex
        and the difference of its values. The default is the machine epsilon to the power 0.5.
    maxiter : int, optional
        The greatest number of steps; 200 for each unknown by default, and 2000 at most.
    derivative : {"implicit", "steps"}
        Differentiate the equation that holds at the minimum, at the cost of one linear system with
        the Hessian, or the steps of the solver.
    tangent_solve : callable
        The solver of this linear system; see ``fg.custom_root``.
    failed : {"raise", "nan", "keep"}
        The behaviour if the solver has not succeeded: an error (outside of ``jit`` and ``vmap``, in
        which x is NaN), x = NaN, or x = the best point.

    Returns
    -------
    Solution
        ``x`` is a tree like ``x0``, ``fun`` the value there, ``jac`` the gradient, a tree like x.
        ``multipliers`` has a vector for each constraint, v with ∇f + Σ v ∇c = 0: by -v falls the
        minimum if a constraint's limit rises by 1. They are differentiated, too.

    Raises
    ------
    ConvergenceError
        The solver has not succeeded, and ``failed`` is "raise".
    DtypeError
        The unknown is complex or an integer.
    ArgumentError, TreeError, ShapeError
        An option is not allowed, or bounds or constraints do not fit.
    DifferentiationError
        ``fun`` does not return one real number.

    See Also
    --------
    least_squares : For sums of squares.
    funcgrad.scipy.optimize.minimize : SciPy's solvers.
    funcgrad.optim : Optimizers that train networks.

    Notes
    -----
    Where an unknown lies at a bound, it follows the bound; where an inequality holds as an
    equation, x stays on it. At a tie, where the slope or the multiplier is 0 at a bound, the bound
    does not count: the derivative is the one without it.

    Sources: Nocedal and Wright, "Numerical optimization", 2006; Conn, Gould, Toint, "Trust-region
    methods", 2000; Birgin and Martínez, "Practical augmented Lagrangian methods", 2014.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def valley(p):
    ...     return 100.0 * (p[1] - p[0] ** 2) ** 2 + (1.0 - p[0]) ** 2
    >>> minimize(valley, [-1.2, 1.0]).x
    Tensor([1., 1.])

    On the unit circle, with the multiplier of its equation:

    >>> circle = {"type": "eq", "fun": lambda p: p @ p - 1.0}
    >>> found = minimize(lambda p: p[0] + p[1], [-1.0, 0.0], constraints=circle)
    >>> found.x, found.multipliers
    (Tensor([-0.70710678, -0.70710678]), (Tensor([0.70710678]),))
    """
    name = "minimize"
    more = checked(name, fun, x0, args, derivative, tangent_solve)
    failed_way(failed, name)
    way = chosen(name, "method", "bfgs" if method is None else method, (*METHODS, "nelder-mead"))
    x0 = as_vector(x0)
    vector, unravel = vector_of(x0, name)
    limits = bounds_of(bounds, x0, name)
    limited = constraints_of(constraints, name)
    if limited and way == "nelder-mead":
        raise placed(
            ArgumentError, "minimize: 'nelder-mead' takes no constraints. Choose another method."
        )
    most = min(200 * max(vector.size, 1), 2000)
    stop = DescentOptions(
        float(np.sqrt(np.finfo(vector.dtype).eps)) if tol is None else tolerance(name, "tol", tol),
        most if maxiter is None else count_of(name, "maxiter", maxiter),
    )
    sizes = [len(constraint.at(x0).values) for constraint in limited]
    task = SolverTask(
        name,
        _ADVICE,
        (fun, *[constraint.fun for constraint in limited]),
        (way, stop, form_of(x0)),
        partial(_problem, unravel),
        partial(_iterate, way, stop),
        partial(_finish, unravel),
    )
    point, told, (value, gradient) = task_solution(
        task,
        (vector, fnp.zeros(sum(sizes), vector.dtype)),
        (limits, more, tuple([tuple(constraint[1:]) for constraint in limited])),
        derivative,
        failed,
        tangent_solve,
        what="x0",
        equation=_stationary,
        is_like_unknown=False,
        symmetric=limits is None and not limited,
    )
    x, slope = unravel(point[0]), unravel(gradient)
    multipliers = fnp.split(point[1], np.cumsum(sizes)[:-1].tolist()) if limited else ()
    return Solution(x, value, *told, slope, tuple(multipliers))


def _problem(unravel: Callable[[Any], Any], functions: Functions) -> Callable[..., Any]:
    """The function that gives the value, the bounds, and the values of the constraints."""
    fun, *limiting = functions

    def problem(point: tuple[Tensor, Tensor], ends: Any, values: Any, sides: Any) -> Any:
        x = unravel(point[0])
        value = fun(x, *values)
        scalar("minimize", unwrap(value, "minimize"))
        pairs = zip(limiting, sides, strict=True)
        limits = [Constraint(function, *side).at(x) for function, side in pairs]
        return fnp.asarray(value), ends, joined_limits(limits) if limits else None

    return problem


def _iterate(
    method: str, stop: DescentOptions, functions: Functions, function: OfPoint, begin: Any
) -> Any:
    """Solve from a start: the point (x, multipliers), and (status, nit, nfev)."""
    _, ends, limited = function(begin)
    run = _unconstrained if limited is None else _constrained
    return run(function, begin, ends, method, stop)


def _finish(
    unravel: Callable[[Any], Any], functions: Functions, point: Any, parameters: tuple[Any, ...]
) -> list[Tensor]:
    """The value and the gradient at the solution."""
    fun, more = functions[0], parameters[1]
    return list(value_and_grad(lambda p: fun(unravel(p), *more))(point[0]))


def _stationary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The equations that hold at a minimum: of Karush, Kuhn and Tucker, as distances from 0."""

    def equation(point: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, multipliers = point

        def lagrangian(p: Tensor) -> Tensor:
            value, _, limited = function((p, multipliers))
            return value if limited is None else value + multipliers @ limited.values

        slope = grad(lagrangian)(x)
        _, ends, limited = function(point)
        first = off_minimum(x, slope, ends)
        return first, multipliers if limited is None else limited.violation(multipliers, 1.0)

    return equation


def _unconstrained(
    function: Callable[[Any], Any], begin: Any, ends: Any, method: str, stop: DescentOptions
) -> Any:
    x, multipliers = begin

    def value(p: Tensor) -> Tensor:
        return function((p, multipliers))[0]

    if method == "nelder-mead":
        x, _, told = simplex_minimum(value, x, ends, stop.gtol, stop.gtol, stop.maxiter)
    else:
        ended = descended(value, x, ends, method, stop)
        x, told = ended.x, (ended.status, ended.nit, ended.nfev)
    return (x, multipliers), told


@pytree(slots=True)
class _Round:
    """A minimum of the augmented function, and its multipliers and weight."""

    x: Tensor
    multipliers: Tensor
    weight: Tensor
    violation: Tensor
    gtol: Tensor
    count: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


def _constrained(
    function: Callable[[Any], Any], begin: Any, ends: Any, method: str, stop: DescentOptions
) -> Any:
    """Minimize the augmented function, and correct the multipliers, until no change is left."""
    x, multipliers = begin
    dtype = x.dtype

    def advance(now: _Round) -> _Round:
        def value(p: Tensor) -> Tensor:
            number, _, limited = function((p, now.multipliers))
            distance = limited.outside(now.multipliers, now.weight)
            return number + 0.5 * now.weight * (distance @ distance)

        ended = descended(value, now.x, ends, method, stop._replace(gtol=now.gtol))
        _, _, limited = function((ended.x, now.multipliers))
        change = limited.violation(now.multipliers, now.weight)
        violation = fnp.max(fnp.abs(change), initial=0.0)
        # Rounding of the augmented function may hide the last decrease.
        slope = slope_of(ended.x, ended.gradient, ends)
        status = fnp.where(slope <= 100.0 * stop.gtol, SMALL_DECREASE, ended.status)
        status = fnp.where(ended.status > 0, ended.status, status)
        done = (violation <= stop.gtol) & (now.gtol <= stop.gtol) & (status > 0)
        stuck = (now.weight > 1e12) & (violation > stop.gtol)
        slow = violation > 0.25 * now.violation
        return _Round(
            ended.x,
            (now.multipliers + now.weight * change).astype(dtype),
            fnp.where(slow, 10.0 * now.weight, now.weight).astype(dtype),
            violation.astype(dtype),
            fnp.maximum(0.1 * now.gtol, stop.gtol).astype(dtype),
            now.count + 1,
            now.nit + ended.nit,
            now.nfev + ended.nfev,
            first_status([(done, status), (stuck, INFEASIBLE)]),
        )

    def goes_on(now: _Round) -> Tensor:
        return (now.status == RUNNING) & (now.count < _ROUNDS) & (now.nit < stop.maxiter)

    value, _, limited = function(begin)
    distance = limited.outside(multipliers, 1.0)
    weight = 10.0 * fnp.maximum(1.0, fnp.abs(value)) / fnp.maximum(1.0, 0.5 * (distance @ distance))
    none = fnp.asarray(0)
    first = _Round(
        x,
        multipliers,
        fnp.clip(weight, 1e-3, 1e3).astype(dtype),
        fnp.asarray(np.inf).astype(dtype),
        fnp.asarray(max(stop.gtol, 1e-3)).astype(dtype),
        none,
        none,
        none,
        fnp.asarray(RUNNING),
    )
    ended = while_loop(goes_on, advance, first)
    return (ended.x, ended.multipliers), (ended.status, ended.nit, ended.nfev)

"""``minimize``: a minimum of a function of a pytree, within bounds and constraints.

>>> import funcgrad as fg
>>> def ridge(penalty):
...     loss = lambda w: (w["a"] + w["b"] - 1.0) ** 2 + penalty * (w["a"] ** 2 + w["b"] ** 2)
...     return minimize(loss, {"a": 0.0, "b": 0.0}).x["a"]
>>> fg.value_and_grad(ridge)(2.0)
(Tensor(0.25), Tensor(-0.0625))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.reverse import grad
from funcgrad.errors import ArgumentError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.unknowns import Solve
from funcgrad.optimize.augmented import constrained
from funcgrad.optimize.constraints import Constraint, constraints_of
from funcgrad.optimize.descents import METHODS, DescentOptions, Objective, descended
from funcgrad.optimize.iterations import Watch, watch_of
from funcgrad.optimize.objectives import UsersObjective, with_derivatives
from funcgrad.optimize.simplex import simplex_minimum
from funcgrad.optimize.solution import Solution
from funcgrad.optimize.solver_arguments import (
    as_vector,
    bounds_of,
    checked,
    chosen,
    form_of,
    off_minimum,
    vector_of,
    with_options,
)
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, task_solution
from funcgrad.tensor.tensor import Tensor

_ADVICE: Final = (
    "Start closer to the minimum, allow more steps by maxiter, raise tol, or try another method;"
    " failed='keep' returns the best point so far."
)


@watched
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | None = None,
    *,
    jac: Callable[..., Any] | bool | None = None,
    hess: Callable[..., Any] | None = None,
    hessp: Callable[..., Any] | None = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
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
        "bfgs", the default, approximates the Hessian from gradients; "l-bfgs" does so for many
        unknowns. "newton-cg" uses Hessian-vector products within a trust region (as SciPy's
        trust-ncg); "trust-exact" uses the whole Hessian, for up to some hundred unknowns where the
        others get stuck. "nelder-mead" uses no derivatives: for functions that are not smooth.
    jac, hess, hessp : callable, optional
        ``jac(x, *args)`` is the gradient, a tree like x; ``hess(x, *args)`` the matrix of second
        derivatives, dense or sparse, of shape (n, n) for the vector of all elements;
        ``hessp(x, p, *args)`` its product with a tree p, a tree like x. With ``jac=True`` the
        function returns its value and the gradient. The steps use these instead of the computed
        derivatives. The derivatives of the minimum follow from ``fun`` in any case.
    bounds : pair, sequence of pairs, or scipy.optimize.Bounds, optional
        A tuple ``(lower, upper)``: each is None, a number, or a pytree prefix of x. Or, as in
        SciPy, a list of a pair for each element of the array x. Steps are projected to them.
    constraints : dict, scipy.optimize.NonlinearConstraint, or a sequence of these
        ``{"type": "eq", "fun": c}`` for c(x) = 0, ``{"type": "ineq", "fun": c}`` for c(x) >= 0, as
        in SciPy, with functions of the tree; ``"args"`` are their further arguments.
    tol : float, optional
        The solver stops if no element of the gradient (with constraints, of the Lagrangian) is
        above it, and no constraint is violated by more; for "nelder-mead", the size of the simplex
        and the difference of its values. The default is the machine epsilon to the power 0.5.
    callback : callable, optional
        ``callback(x)``, or ``callback(intermediate_result)`` with a ``Solution``, is called after
        each step; ``StopIteration`` stops the solver. With a callback the steps run in Python, one
        example after the other, also under ``jit`` and ``vmap``.
    options : dict, optional
        ``maxiter`` and ``gtol``, another name of ``tol``.
    maxiter : int, optional
        The maximum number of steps; 200 for each unknown by default, and 2000 at most.
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
        ``multipliers`` has a vector v for each constraint, with ∇f + Σ v ∇c = 0: adding a small d
        to c changes the minimum by v d. They are differentiated, too.

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
    An unknown at a bound moves with the bound; if an inequality holds as an equation, x stays on
    it. At a tie, where the slope or the multiplier is 0 at a bound, the bound does not count: the
    derivative is the one without it.

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
    fun, derivatives = with_derivatives(fun, {"jac": jac, "hess": hess, "hessp": hessp})
    more = checked(name, fun, x0, args, derivative, tangent_solve)
    way = chosen(name, "method", "bfgs" if method is None else method, (*METHODS, "nelder-mead"))
    x0 = as_vector(x0)
    vector, unravel = vector_of(x0, name)
    limits = bounds_of(bounds, x0, name)
    limited = _constraints(constraints, way)
    stop = _stop(vector, tol, maxiter, options)
    sizes = [len(constraint.at(x0).values) for constraint in limited]
    watch = watch_of(name, callback, partial(_reported, unravel))
    form = UsersObjective(unravel, tuple(derivatives))
    task = SolverTask(
        name,
        _ADVICE,
        (fun, *derivatives.values(), *[constraint.fun for constraint in limited]),
        (way, stop, form.words, form_of(x0)),
        form.problem,
        partial(_iterate, way, stop, form, watch),
        form.finish,
        is_watched=callback is not None,
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


def _constraints(constraints: object, way: str) -> tuple[Constraint, ...]:
    limited = constraints_of(constraints, "minimize")
    if limited and way == "nelder-mead":
        raise placed(
            ArgumentError, "minimize: 'nelder-mead' takes no constraints. Choose another method."
        )
    return limited


def _stop(
    vector: Tensor, tol: float | None, maxiter: int | None, options: Mapping[str, Any] | None
) -> DescentOptions:
    """When to stop, where None means the default."""
    name = "minimize"
    wanted = with_options(name, options, gtol=tol, maxiter=maxiter)
    gtol, steps = wanted["gtol"], wanted["maxiter"]
    close = float(np.sqrt(np.finfo(vector.dtype).eps))
    most = min(200 * max(vector.size, 1), 2000)
    return DescentOptions(
        close if gtol is None else tolerance(name, "tol", gtol),
        most if steps is None else count_of(name, "maxiter", steps),
    )


def _reported(unravel: OfPoint, state: Any) -> Solution[Any]:
    """The state of an iteration as a result."""
    value = getattr(state, "value", None)
    return Solution(unravel(state.x), value, state.status, state.nit, state.nfev)


def _iterate(
    method: str,
    stop: DescentOptions,
    form: UsersObjective,
    watch: Watch | None,
    functions: Functions,
    function: OfPoint,
    begin: tuple[Tensor, Tensor],
) -> Any:
    """Solve from a start: the point (x, multipliers), and (status, nit, nfev)."""
    _, ends, limited, more = function(begin)
    objective = form.objective(functions, lambda p: function((p, begin[1]))[0], more)
    if limited is None:
        return _unconstrained(objective, begin, ends, method, stop, watch)
    whole = objective.plus if form.words else None
    return constrained(whole, function, begin, ends, method, stop, watch)


def _stationary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The equations that hold at a minimum: of Karush, Kuhn and Tucker, as distances from 0."""

    def equation(point: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, multipliers = point

        def lagrangian(p: Tensor) -> Tensor:
            value, _, limited, _ = function((p, multipliers))
            return value if limited is None else value + multipliers @ limited.values

        slope = grad(lagrangian)(x)
        _, ends, limited, _ = function(point)
        first = off_minimum(x, slope, ends)
        return first, multipliers if limited is None else limited.violation(multipliers, 1.0)

    return equation


def _unconstrained(
    objective: Objective,
    begin: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor] | None,
    method: str,
    stop: DescentOptions,
    watch: Watch | None,
) -> Any:
    x, multipliers = begin
    if method == "nelder-mead":
        x, _, told = simplex_minimum(
            objective.value, x, ends, stop.gtol, stop.gtol, stop.maxiter, watch
        )
    else:
        ended = descended(objective, x, ends, method, stop, watch)
        x, told = ended.x, (ended.status, ended.nit, ended.nfev)
    return (x, multipliers), told

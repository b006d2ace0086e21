"""``least_squares``: fits by damped steps of Gauss and Newton, which compile and batch.

>>> import funcgrad as fg
>>> times = fg.numpy.linspace(0.0, 2.0, 9)
>>> def rate(decay):
...     data = fg.numpy.exp(-decay * times)
...     found = least_squares(lambda k: fg.numpy.exp(-k * times) - data, 1.0, xtol=1e-12)
...     return found.x
>>> rate(2.0), fg.grad(rate)(2.0)
(Tensor(2.0), Tensor(1.0))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.reverse import grad
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.unknowns import Solve, Tree
from funcgrad.optimize.damping import (
    DampingOptions,
    FitSetting,
    Residuals,
    damped_steps,
    residuals_and_jacobian,
)
from funcgrad.optimize.dogbox import boxed_steps
from funcgrad.optimize.iterations import Watch, watch_of
from funcgrad.optimize.robust_losses import LOSSES, cost_of
from funcgrad.optimize.solution import Solution
from funcgrad.optimize.solver_arguments import (
    as_vector,
    bounds_of,
    check_feasible,
    checked,
    chosen,
    form_of,
    matrix_of,
    off_minimum,
    residuals_of,
    vector_of,
)
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, task_solution
from funcgrad.sparse.jacobians import jacobian as sparse_jacobian
from funcgrad.sparse.jacobians import value_and_jacobian
from funcgrad.sparse.patterns import Pattern, PatternLike
from funcgrad.sparse.sparse_arrays import SparseArray, sparse_operand
from funcgrad.tensor.tensor import Tensor, wrap

_ADVICE: Final = (
    "Start closer to the solution, allow more evaluations by max_nfev, or pass failed='keep' to get"
    " the best point so far."
)


@watched
@answering
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    *,
    args: Any = (),
    method: str = "lm",
    jac: Callable[..., Any] | str | None = None,
    jac_sparsity: PatternLike | None = None,
    bounds: Any = None,
    loss: str = "linear",
    f_scale: Any = 1.0,
    x_scale: Any = "jac",
    ftol: float = 1e-8,
    xtol: float = 1e-8,
    gtol: float = 1e-8,
    max_nfev: int | None = None,
    callback: Callable[..., Any] | None = None,
    derivative: str = "implicit",
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Solution[Any]:
    """Solve a nonlinear least-squares problem: minimize the sum of squared residuals.

    The solver is written in funcgrad's functions: it compiles under ``jit``, solves each example
    of a batch under ``vmap``, and the solution is differentiated with respect to ``args`` and the
    values that ``fun`` closes over.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns the residuals, a pytree of arrays. For complex residuals the
        squared absolute values are summed.
    x0 : pytree of real floating-point arrays
        The starting point. The derivative with respect to it is 0.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument.
    method : {"lm", "dogbox", "gn"}
        "lm" takes Levenberg-Marquardt steps, damped as far as needed. "dogbox" takes dogleg steps
        within a box and the bounds, with a QR factorization: for problems whose normal equations
        lose digits. "gn" takes Gauss-Newton steps, damped only after a step that increased the
        cost.
    jac : callable or "sparse", optional
        ``jac(x, *args)`` returns the Jacobian that the steps take, dense or sparse, of shape (m, n)
        for the vectors of all elements. By default it is computed exactly, also where SciPy's words
        such as "2-point" ask for differences. "sparse" finds its pattern and computes a sparse
        matrix: the normal equations stay sparse, and SciPy's SuperLU solves them, for "lm" and
        "gn". The memory then grows with the nonzeros.
    jac_sparsity : Pattern, sparse matrix or array, optional
        The pattern of the Jacobian, for ``jac="sparse"``, which it implies.
    bounds : pair or scipy.optimize.Bounds, optional
        ``(lower, upper)``: each is None, a number, or a pytree prefix of x. Steps are projected to
        them, and unknowns at a bound towards which the cost falls are held there.
    loss : {"linear", "soft_l1", "huber", "cauchy", "arctan"}
        The loss of a squared residual, as in SciPy: all but "linear" limit the influence of
        outliers.
    f_scale : float
        The size from which a residual counts as an outlier.
    x_scale : "jac" or array_like
        The scale of the unknowns. By default a change of the units of an unknown has no effect.
    ftol, xtol, gtol : float
        The solver stops if the cost changes by less than ``ftol`` times the cost, if the step is
        shorter than ``xtol * (xtol + norm(x))``, or if no element of the gradient is above
        ``gtol``. For derivatives of the solution choose a small ``xtol``: they are as accurate as
        the solution.
    max_nfev : int, optional
        The maximum number of evaluations; 100 for each unknown by default.
    callback : callable, optional
        ``callback(intermediate_result)`` with a ``Solution``, or ``callback(x)``, is called after
        each step; ``StopIteration`` stops the solver. With a callback the steps run in Python, one
        example after the other, also under ``jit`` and ``vmap``.
    derivative : {"implicit", "steps"}
        Differentiate the equation that holds at the solution, at the cost of one linear system, or
        the steps of the solver.
    tangent_solve : callable
        The solver of this linear system; see ``fg.custom_root``.
    failed : {"raise", "nan", "keep"}
        The behaviour if the solver has not succeeded: an error (outside of ``jit`` and ``vmap``, in
        which x is NaN), x = NaN, or x = the best point.

    Returns
    -------
    Solution
        ``x`` is a tree like ``x0``, ``fun`` has the residuals there, ``cost`` is half the sum of
        their squares, and ``jac`` is their matrix of derivatives, of shape (m, n) for the vectors
        of all elements, a ``SparseArray`` if it was asked for. ``status`` tells why the solver
        stopped.

    Raises
    ------
    ConvergenceError
        The solver has not succeeded, and ``failed`` is "raise".
    DtypeError
        The unknown is complex or an integer, or the residuals are not floating-point.
    ArgumentError, TreeError, ShapeError
        An option is not allowed, the bounds do not fit, or x0 lies outside of them.

    See Also
    --------
    curve_fit
    funcgrad.scipy.optimize.least_squares : SciPy's solvers, for one large problem.

    Notes
    -----
    The derivative of the solution contains the second derivatives of the residuals: it is exact
    also where residuals are large. Where an unknown lies at a bound, it follows the bound.

    "lm" solves normal equations also where they are ill-conditioned. The QR factorization of
    "dogbox" gains nothing on the collections of NIST and of Moré, Garbow and Hillstrom, and one
    digit for Hilbert matrices.

    Sources: Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978; Nielsen,
    "Damping parameter in Marquardt's method", 1999.

    Examples
    --------
    A thousand fits at once:

    >>> import numpy as np
    >>> import funcgrad as fg
    >>> t = np.linspace(0.0, 1.0, 8)
    >>> def misfit(p, y):
    ...     return p["scale"] * fg.numpy.exp(-p["rate"] * t) - y
    >>> def fit(y):
    ...     return fg.optimize.least_squares(misfit, {"rate": 1.0, "scale": 1.0}, args=(y,)).x
    >>> data = np.linspace(1.0, 2.0, 1000)[:, None] * np.exp(-3.0 * t)
    >>> fits = fg.jit(fg.vmap(fit))(data)
    >>> fg.numpy.round(fits["rate"][:3], 5), fg.numpy.round(fits["scale"][-1], 5)
    (Tensor([3., 3., 3.]), Tensor(2.0))
    """
    name, x0 = "least_squares", as_vector(x0)
    more = checked(name, fun, x0, args, derivative, tangent_solve)
    way = chosen(name, "method", method, ("lm", "dogbox", "gn"))
    vector, unravel = vector_of(x0, name)
    pattern = _pattern(fun, vector, unravel, more, way, jac, jac_sparsity)
    limits = bounds_of(bounds, x0, name)
    check_feasible(vector, limits, name)
    options = DampingOptions(
        way == "lm",
        chosen(name, "loss", loss, tuple(LOSSES)),
        *_tolerances(ftol, xtol, gtol),
        100 * max(vector.size, 1) if max_nfev is None else count_of(name, "max_nfev", max_nfev),
    )
    watch = watch_of(name, callback, partial(_reported, unravel))
    task = SolverTask(
        name,
        _ADVICE,
        (fun, jac) if callable(jac) else (fun,),
        (options, way, form_of(x0), pattern),
        partial(_problem, unravel),
        partial(_iterate, options, way, unravel, watch, pattern),
        partial(_finish, unravel, pattern),
        is_watched=callback is not None,
    )
    fit, told, (jacobian, residuals) = task_solution(
        task,
        vector,
        (_setting(limits, x_scale, f_scale, options.loss, vector.dtype), *more),
        derivative,
        failed,
        tangent_solve,
        what="x0",
        equation=partial(_stationary, options.loss),
        is_like_unknown=False,
        symmetric=limits is None,
    )
    return Solution(unravel(fit), residuals, *told, _matrix(jacobian, pattern))


def _matrix(jacobian: Tensor, pattern: Pattern | None) -> Tensor | SparseArray:
    """The Jacobian from its elements, or from its nonzeros."""
    return jacobian if pattern is None else SparseArray(jacobian, pattern)


def _pattern(
    fun: Callable[..., Any],
    vector: Tensor,
    unravel: Callable[[Any], Any],
    more: tuple[Any, ...],
    way: str,
    jac: object,
    jac_sparsity: PatternLike | None,
) -> Pattern | None:
    """The pattern of the Jacobian of all residuals, if it is sparse.

    Raises
    ------
    ArgumentError, ShapeError
        The method or ``jac`` does not allow it, or the pattern has another number of columns.
    """
    name = "least_squares"
    is_sparse = isinstance(jac, str) and jac == "sparse"
    if not is_sparse and jac_sparsity is None:
        return None
    if callable(jac) or way == "dogbox":
        reason = "a function jac" if callable(jac) else "method='dogbox'"
        raise placed(
            ArgumentError,
            f"{name}: a sparse Jacobian cannot be combined with {reason}. Pass jac='sparse' and"
            " method='lm' or 'gn'.",
        )
    if jac_sparsity is None:

        def residuals(x: Tensor) -> Tensor:
            return residuals_of(fun(unravel(x), *more), name)

        return sparse_jacobian(residuals).pattern(vector)
    pattern = Pattern.of(jac_sparsity)
    if pattern.shape[1] != vector.size:
        raise placed(
            ShapeError,
            f"{name}: jac_sparsity has {pattern.shape[1]} columns, but x0 has {vector.size}"
            " elements.",
        )
    return pattern


def _tolerances(ftol: float, xtol: float, gtol: float) -> tuple[float, float, float]:
    name = "least_squares"
    close = tolerance(name, "ftol", ftol), tolerance(name, "xtol", xtol)
    return (*close, tolerance(name, "gtol", gtol))


def _setting(
    limits: tuple[Tensor, Tensor] | None,
    x_scale: object,
    f_scale: ArrayLike,
    loss: str,
    dtype: np.dtype[Any],
) -> FitSetting:
    """The values that a fit depends on, as tensors."""
    low, high = limits or (None, None)
    scale = None if isinstance(x_scale, str) and x_scale == "jac" else fnp.asarray(x_scale)
    limit = None if loss == "linear" else fnp.asarray(f_scale).astype(dtype)
    return FitSetting(low, high, scale, limit)


def _problem(unravel: Callable[[Any], Any], functions: Functions) -> Callable[..., Any]:
    """The function that gives the residuals at a point as a vector, and the setting."""
    fun = functions[0]

    def problem(point: Tensor, setting: FitSetting, *values: Tree) -> Any:
        residuals = residuals_of(fun(unravel(point), *values), "least_squares")
        return residuals, setting, values

    return problem


def _iterate(
    options: DampingOptions,
    way: str,
    unravel: Callable[[Any], Any],
    watch: Watch | None,
    pattern: Pattern | None,
    functions: Functions,
    function: OfPoint,
    start: Tensor,
) -> Any:
    """Solve from a start: the solution, and (status, nit, nfev)."""
    there, setting, more = function(start)

    def as_many(x: Tensor) -> Tensor:
        r: Tensor = function(x)[0]
        if len(r) != len(there):
            raise placed(
                ShapeError,
                f"least_squares: fun returned {len(there)} residuals at the start, and {len(r)} at"
                " another point. Return the same number everywhere, with 0 for residuals that do"
                " not count.",
            )
        return r

    def users_jacobian(x: Tensor) -> Tensor:
        shape = len(there), x.size
        return matrix_of("least_squares with jac", functions[1](unravel(x), *more), shape, x.dtype)

    jacobian = users_jacobian if len(functions) == 2 else None
    residuals = Residuals.read(as_many, len(there), jacobian)
    if pattern is not None:
        both = value_and_jacobian(as_many, pattern=pattern)

        def linear(x: Tensor) -> tuple[Tensor, SparseArray]:
            r, matrix = both(x)
            return r, _in_pattern(matrix)

        residuals = Residuals(as_many, linear)
    steps = boxed_steps if way == "dogbox" else damped_steps
    return steps(residuals, start, setting, options, watch)


def _reported(unravel: OfPoint, state: Any) -> Solution[Any]:
    """The state of an iteration as a result, whose ``fun`` is the cost."""
    return Solution(unravel(state.x), state.cost, state.status, state.nit, state.nfev)


def _finish(
    unravel: Callable[[Any], Any],
    pattern: Pattern | None,
    functions: Functions,
    fit: Tensor,
    parameters: tuple[Any, ...],
) -> list[Any]:
    """The Jacobian, or its nonzeros, and the result of the function, at the solution."""
    problem = _problem(unravel, functions)

    def residuals(point: Tensor) -> Tensor:
        return problem(point, *parameters)[0]

    if pattern is not None:
        jacobian = _in_pattern(sparse_jacobian(residuals, pattern=pattern)(fit)).data
    else:
        jacobian = residuals_and_jacobian(residuals, fit, len(residuals(fit)))[1]
    return [jacobian, functions[0](unravel(fit), *parameters[1:])]


def _in_pattern(matrix: Any) -> SparseArray:
    """A sparse Jacobian, which is SciPy's outside of transformations, as our own."""
    array = sparse_operand(matrix)
    assert array is not None
    return SparseArray(wrap(array.data), array.pattern)


def _stationary(loss: str, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The equation that holds at a minimum: its function of x is 0 there."""

    def equation(x: Tensor) -> Tensor:
        _, setting, _ = function(x)
        slope = grad(lambda point: cost_of(function(point)[0], loss, setting.f_scale))(x)
        return off_minimum(x, slope, (setting.low, setting.high))

    return equation

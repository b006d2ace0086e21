"""``root`` and ``fixed_point``: systems of equations.

>>> import funcgrad as fg
>>> def meeting(radius):  # of a circle and the line y = x
...     f = lambda p: {"x": p["x"] ** 2 + p["y"] ** 2 - radius**2, "y": p["x"] - p["y"]}
...     return root(f, {"x": 1.0, "y": 0.5}).x["x"]
>>> fg.value_and_grad(meeting)(2.0)
(Tensor(1.41421356), Tensor(0.70710678))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from funcgrad._control.carry import count_of
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import check_function
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.unknowns import Solve, Unknown
from funcgrad.optimize.iterations import Watch, watch_of
from funcgrad.optimize.solution import Solution
from funcgrad.optimize.solver_arguments import (
    as_vector,
    checked,
    chosen,
    form_of,
    matrix_of,
    vector_of,
    with_options,
)
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, first_of, task_solution
from funcgrad.optimize.system_steps import METHODS, Equations, SystemState, solved
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel

_COMPLEX: Final = ("anderson", "broyden1", "newton")
_ADVICE: Final = (
    "Start closer to the root, allow more steps by maxiter, or try another method; failed='keep'"
    " returns the best point so far."
)


@watched
def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Callable[..., Any] | None = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    xtol: float | None = None,
    ftol: float | None = None,
    maxiter: int | None = None,
    derivative: str = "implicit",
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Solution[Any]:
    """Find a root of a system of equations, f(x) = 0.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args)`` returns a pytree like x, which is zero at the root.
    x0 : pytree of floating-point arrays
        The starting point. The derivative with respect to it is 0. It may be complex for
        "newton", "broyden1" and "anderson"; for the first two ``fun`` has to be holomorphic.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument. The root is
        differentiated with respect to them, and to the values that ``fun`` closes over.
    method : {"hybr", "newton", "broyden1", "krylov", "anderson"}
        "hybr", the first choice, is Powell's hybrid method: Newton steps within a trust region.
        "newton" shortens steps that do not reduce the residual. "broyden1" computes the Jacobian
        once, and corrects it. "krylov" never forms the Jacobian: for large systems. "anderson"
        needs no derivative: for ``fun`` of the form g(x) - x with a contraction g.
    jac : callable, optional
        ``jac(x, *args)`` returns the matrix of derivatives that the steps take, dense or sparse, of
        shape (n, n) for the vector of all elements. By default it is computed. The derivatives of
        the root follow from ``fun`` in any case.
    tol : float, optional
        Another name of ``xtol``.
    callback : callable, optional
        ``callback(x, fun)`` is called after each step; ``StopIteration`` stops the solver. With a
        callback the steps run in Python, one example after the other, also under ``jit`` and
        ``vmap``.
    options : dict, optional
        ``xtol``, ``ftol`` and ``maxiter``, also ``maxfev``, by name.
    xtol : float, optional
        The solver stops if the step that the method wants is shorter than ``xtol * (xtol +
        norm(x))``. The default is the square root of the machine epsilon.
    ftol : float, optional
        The solver stops if no element of the residual is above it; 0 by default.
    maxiter : int, optional
        The maximum number of steps; 100 for each unknown by default, and 1000 at most.
    derivative : {"implicit", "steps"}
        Differentiate the equation that holds at the root, at the cost of one linear system, or the
        steps of the solver.
    tangent_solve : callable
        The solver of this linear system; see ``fg.custom_root``. For large systems pass
        ``lambda f, b: gmres(f, b)[0]``.
    failed : {"raise", "nan", "keep"}
        The behaviour if the solver has not succeeded: an error (outside of ``jit`` and ``vmap``, in
        which x is NaN), x = NaN, or x = the best point.

    Returns
    -------
    Solution
        ``x`` is a tree like ``x0``, and ``fun`` has the residual there.

    Raises
    ------
    ConvergenceError
        The solver has not succeeded, and ``failed`` is "raise".
    TreeError, ShapeError, DtypeError
        The result of ``fun`` is not like ``x0``; ``x0`` is an integer, or complex where the method
        has no meaning for it.
    ArgumentError
        An option is not allowed.

    See Also
    --------
    root_scalar : One equation, with a bracket.
    least_squares : More equations than unknowns, bounds.
    funcgrad.implicit.root : With a solver of another library.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x, a):
    ...     return fnp.stack([x[0] + 0.5 * (x[0] - x[1]) ** 3 - a, x[1] + 0.5 * (x[1] - x[0]) ** 3])
    >>> found = root(f, [0.0, 0.0], args=(1.0,))
    >>> found.x
    Tensor([0.8411639, 0.1588361])
    """
    name = "root"
    wanted = with_options(name, options, xtol=xtol, ftol=ftol, maxiter=maxiter, maxfev=None)
    stop = SystemStop(
        tol if wanted["xtol"] is None else wanted["xtol"],
        0.0 if wanted["ftol"] is None else wanted["ftol"],
        wanted["maxfev"] if wanted["maxiter"] is None else wanted["maxiter"],
    )
    return _solution(
        name, fun, jac, x0, args, method, stop, callback, derivative, tangent_solve, failed
    )


@watched
def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "anderson",
    *,
    xtol: float | None = None,
    maxiter: int | None = None,
    callback: Callable[..., Any] | None = None,
    derivative: str = "implicit",
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Solution[Any]:
    """Find a fixed point, x = func(x), with Anderson acceleration.

    Parameters
    ----------
    func : callable
        ``func(x, *args)`` returns a pytree like x.
    x0, args, xtol, maxiter, callback, derivative, tangent_solve, failed :
        See ``root``.
    method : {"anderson", "newton", "hybr", "broyden1", "krylov"}
        A method of ``root``, for the equation func(x) - x = 0.

    Returns
    -------
    Solution
        ``x`` is the fixed point, and ``fun`` the change by one more application of ``func``.

    See Also
    --------
    funcgrad.fixed_point : Iterates without acceleration.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> found = fixed_point(fnp.cos, 1.0, xtol=1e-12)
    >>> fnp.round(found.x, 8), found.nit
    (Tensor(0.73908513), Tensor(7))
    """

    name = "fixed_point"
    checked(name, func, x0, args, derivative, tangent_solve)
    stop = SystemStop(xtol, 0.0, maxiter)
    return _solution(
        name, func, None, x0, args, method, stop, callback, derivative, tangent_solve, failed
    )


class SystemStop(NamedTuple):
    """When to stop: the tolerances of the step and of the residual, and the most steps."""

    xtol: float | None
    ftol: float
    maxiter: int | None

    def checked(self, name: str, vector: Tensor) -> tuple[float, float, int]:
        """The values, where None means the default."""
        close = float(np.sqrt(np.finfo(vector.dtype).eps))
        xtol, ftol, most = self
        return (
            close if xtol is None else tolerance(name, "xtol", xtol),
            tolerance(name, "ftol", ftol),
            min(100 * max(vector.size, 1), 1000)
            if most is None
            else count_of(name, "maxiter", most),
        )


def _solution(
    name: str,
    fun: Callable[..., Any],
    jac: Callable[..., Any] | None,
    x0: Any,
    args: Any,
    method: str,
    stop: SystemStop,
    callback: Callable[..., Any] | None,
    derivative: str,
    tangent_solve: Solve,
    failed: str,
) -> Solution[Any]:
    more = checked(name, fun, x0, args, derivative, tangent_solve)
    way = chosen(name, "method", method, METHODS)
    x0 = as_vector(x0)
    unknown, _ = Unknown.read(name, "x0", x0)
    vector, unravel = vector_of(x0, name, is_complex=way in _COMPLEX)
    close = stop.checked(name, vector)
    system = partial(_system, unknown, unravel)
    if jac is not None:
        check_function(f"{name} with jac", jac)

    def reported(state: SystemState) -> Solution[Any]:
        x, residual = unravel(state.x), unravel(state.value)
        return Solution(x, residual, state.status, state.nit, state.nfev)

    watch = watch_of(name, callback, reported, ("x", "fun"))
    task = SolverTask(
        name,
        _ADVICE,
        (fun,) if jac is None else (fun, jac),
        (way, close, form_of(x0)),
        lambda functions: lambda x, *values: (system(functions[0], x, *values), values),
        partial(_iterate, way, close, unravel, watch),
        lambda functions, x, parameters: [system(functions[0], x, *parameters)],
        is_watched=callback is not None,
    )
    x, told, (residual,) = task_solution(
        task,
        vector,
        more,
        derivative,
        failed,
        tangent_solve,
        what="x0",
        equation=first_of,
        is_like_unknown=False,
    )
    return Solution(unravel(x), unravel(residual), *told)


def _iterate(
    way: str,
    close: tuple[float, float, int],
    unravel: Callable[[Any], Any],
    watch: Watch | None,
    functions: Functions,
    function: OfPoint,
    start: Tensor,
) -> Any:
    """Solve from a start: the root, and (status, nit, nfev)."""

    def users_jacobian(x: Tensor) -> Tensor:
        matrix = functions[1](unravel(x), *more)
        return matrix_of("root with jac", matrix, (x.size, x.size), x.dtype)

    more = () if len(functions) == 1 else function(start)[1]
    jacobian = None if len(functions) == 1 else users_jacobian
    ended = solved(Equations.read(first_of(function), jacobian), start, way, *close, watch)
    return ended.x, (ended.status, ended.nit, ended.nfev)


def _system(
    unknown: Unknown,
    unravel: Callable[[Any], Any],
    fun: Callable[..., Any],
    x: Tensor,
    *values: Any,
) -> Tensor:
    """The residual as a vector."""
    tree = unravel(x)
    residual = unknown.values(fun(tree, *values), "the result of the function")
    vector = ravel(unknown.tree(residual))[0]
    return vector - x if unknown.operation == "fixed_point" else vector

"""``root`` and ``fixed_point``: systems of equations.

>>> import funcgrad as fg
>>> def meeting(radius):  # of a circle and the line y = x
...     f = lambda p: {"x": p["x"] ** 2 + p["y"] ** 2 - radius**2, "y": p["x"] - p["y"]}
...     return root(f, {"x": 1.0, "y": 0.5}).x["x"]
>>> fg.value_and_grad(meeting)(2.0)
(Tensor(1.41421356), Tensor(0.70710678))
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._control.carry import count_of
from funcgrad._hooks.result_watch import watched
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.implicit.unknowns import Solve, Unknown
from funcgrad.optimize.solution import Solution, failed_way
from funcgrad.optimize.solver_arguments import as_vector, checked, chosen, form_of, vector_of
from funcgrad.optimize.solver_tasks import OfPoint, SolverTask, task_solution
from funcgrad.optimize.system_steps import METHODS, solved
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.vectors import ravel

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
    *,
    xtol: float | None = None,
    ftol: float = 0.0,
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
    x0 : pytree of real floating-point arrays
        The starting point. The derivative with respect to it is 0.
    args : tuple
        Further arguments of ``fun``; anything else than a tuple is one argument. The root is
        differentiated with respect to them, and to the values that ``fun`` closes over.
    method : {"hybr", "newton", "broyden1", "krylov", "anderson"}
        "hybr" is Powell's: a step of Newton within a region in which the linear model holds. The
        first choice. "newton" shortens steps that do not shrink the residual. "broyden1" computes
        the Jacobian once, and corrects it. "krylov" never forms the Jacobian: for large systems.
        "anderson" needs no derivative: for ``fun`` of the form g(x) - x with a contraction g.
    xtol : float, optional
        The solver stops if the step that the method wants is shorter than ``xtol * (xtol +
        norm(x))``. The default is the square root of the machine epsilon.
    ftol : float
        The solver stops if no element of the residual is above it.
    maxiter : int, optional
        The greatest number of steps; 100 for each unknown by default, and 1000 at most.
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
        The result of ``fun`` is not like ``x0``, or ``x0`` is complex or an integer.
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
    return _solution(
        name, fun, x0, args, method, xtol, ftol, maxiter, derivative, tangent_solve, failed
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
    derivative: str = "implicit",
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Solution[Any]:
    """Find a fixed point, x = func(x), with Anderson's acceleration.

    Parameters
    ----------
    func : callable
        ``func(x, *args)`` returns a pytree like x.
    x0, args, xtol, maxiter, derivative, tangent_solve, failed :
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
    return _solution(
        name, func, x0, args, method, xtol, 0.0, maxiter, derivative, tangent_solve, failed
    )


def _solution(
    name: str,
    fun: Callable[..., Any],
    x0: Any,
    args: Any,
    method: str,
    xtol: float | None,
    ftol: float,
    maxiter: int | None,
    derivative: str,
    tangent_solve: Solve,
    failed: str,
) -> Solution[Any]:
    more = checked(name, fun, x0, args, derivative, tangent_solve)
    failed_way(failed, name)
    way = chosen(name, "method", method, METHODS)
    x0 = as_vector(x0)
    unknown, _ = Unknown.read(name, "x0", x0)
    vector, unravel = vector_of(x0, name)
    close = float(np.sqrt(np.finfo(vector.dtype).eps))
    stop = (
        close if xtol is None else tolerance(name, "xtol", xtol),
        tolerance(name, "ftol", ftol),
        min(100 * max(vector.size, 1), 1000)
        if maxiter is None
        else count_of(name, "maxiter", maxiter),
    )

    system = partial(_system, unknown, unravel)
    task = SolverTask(
        name,
        _ADVICE,
        (fun,),
        (way, stop, form_of(x0)),
        lambda functions: partial(system, functions[0]),
        lambda _, function, start: _iterated(way, stop, function, start),
        lambda functions, x, parameters: [system(functions[0], x, *parameters)],
    )
    x, told, (residual,) = task_solution(
        task, vector, more, derivative, failed, tangent_solve, what="x0"
    )
    return Solution(unravel(x), unravel(residual), *told)


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


def _iterated(way: str, stop: tuple[float, float, int], function: OfPoint, start: Tensor) -> Any:
    """Solve from a start: the root, and (status, nit, nfev)."""
    ended = solved(function, start, way, *stop)
    return ended.x, (ended.status, ended.nit, ended.nfev)

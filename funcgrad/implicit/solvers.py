"""Solutions as functions of parameters, with solvers of any library.

>>> import funcgrad as fg
>>> from scipy import optimize
>>> power = root(lambda x, a, n: x**n - a, lambda g, x: optimize.newton(g, x, tol=1e-14))
>>> fg.value_and_grad(power, argnums=1)(1.0, 8.0, 3.0)
(Tensor(2.0), Tensor(0.08333333))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, Value
from funcgrad._transforms.arguments import check_function, scalar, unwrap
from funcgrad._transforms.reverse import grad
from funcgrad.errors import ConvergenceError
from funcgrad.implicit.active_bounds import Bounds, sides_of
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.fixed_points import difference, tolerance
from funcgrad.implicit.roots import RootSolver, root_of, same
from funcgrad.implicit.unknowns import Solve, Tree
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import Tensor, wrap


def root(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    failed: str = "raise",
    tol: float = 1e-3,
) -> Callable[..., Any]:
    """Turn the root of an equation into a differentiable function of its parameters.

    ``root(f, solver)(init, p)`` is the x with f(x, p) = 0, which ``solver`` finds from ``init``. By
    the implicit function theorem its derivative solves ∂f/∂x dx = -∂f/∂p dp, so the solver may be
    any code of SciPy or another library.

    Parameters
    ----------
    f : callable
        ``f(x, *params)`` returns a pytree like x, which is zero at the root. It is written in
        funcgrad's functions.
    solver : callable
        ``solver(g, init)`` finds the root of ``g(x) = f(x, *params)``, as ``scipy.optimize.root``
        and ``newton`` do. It works with ordinary NumPy arrays, and returns x or SciPy's result
        object.
    tangent_solve : callable
        See ``fg.custom_root``.
    failed : {"raise", "nan"}
        The behaviour if ∂f/∂x is singular, or the solver reports a failure by SciPy's result object
        or by an exception: an error, or NaN in the solution and all of its derivatives (in a batch,
        for that example only).
    tol : float
        How far the solver's result may be from the solution if a derivative is asked for. It bounds
        a step of Newton's method from the result, relative to the element, and relative to 1 (or to
        the greatest element, if all are less than 1).

    Returns
    -------
    callable
        ``solution(init, *params)`` returns the root, a pytree like the starting point ``init``. The
        parameters are pytrees. Derivatives flow into the parameters and the values that ``f``
        closes over, in both modes and of every order. Under ``vmap`` the solver is called for each
        example; under ``jit`` it is called when the program runs.

    Raises
    ------
    ConvergenceError
        SciPy's result object says that the solver failed; or a derivative is asked for, and the
        result does not solve the equation. Inside ``jit`` and ``vmap``, where values are not known,
        such a derivative is NaN.
    ArgumentError
        ``failed`` is unknown, or ``tol`` is negative.
    TreeError, ShapeError, DtypeError
        The result of ``f`` or of the solver is not like ``init``, or ``init`` is an integer.
    MatrixError
        ∂f/∂x is singular at the root.

    See Also
    --------
    funcgrad.custom_root : for solvers that are written in funcgrad's functions.

    Examples
    --------
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> def f(x, a):
    ...     return fg.numpy.stack([x[0] * x[1] - a, x[0] - x[1]])
    >>> solution = fg.implicit.root(f, optimize.root)
    >>> fg.jacfwd(solution, argnums=1)(np.ones(2), 4.0)
    Tensor([0.25, 0.25])
    """
    return _solution("root", f, same, solver, tangent_solve, failed, tol)


def minimize(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    bounds: Tree = None,
    failed: str = "raise",
    tol: float = 1e-3,
) -> Callable[..., Any]:
    """Turn the minimizer of a function into a differentiable function of its parameters.

    ``minimize(f, solver)(init, p)`` is the x that minimizes f(x, p). Use it to optimize through an
    optimization: hyperparameters of a fit, bilevel problems, sensitivities of an optimum. At a
    minimum ∂f/∂x = 0, so the derivative solves H dx = -∂²f/∂x∂p dp, with the Hessian H.

    Parameters
    ----------
    f : callable
        ``f(x, *params)`` returns a real number, and is twice differentiable at the minimum.
    solver : callable
        ``solver(g, init)`` finds the minimum of ``g(x) = f(x, *params)``; see ``root``. Pass the
        gradient ``fg.grad(g)`` to the method: derivatives are only as accurate as the minimum.
    tangent_solve : callable
        The solver of systems with the Hessian matrix, which is symmetric; see ``fg.custom_root``.
    bounds : pair, optional
        ``(lower, upper)``, the bounds within which the solver minimizes; each is a number, None, or
        a pytree prefix of x with arrays. Leave it out if the solver returns a result of SciPy's
        ``least_squares``, ``lsq_linear`` or trust-constr, or of ``fg.scipy.optimize``: these tell
        which elements lie at a bound.
    failed, tol : {"raise", "nan"} and float
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``.

    Raises
    ------
    ConvergenceError
        See ``root``. The slope at a minimum has to be zero, except for elements at a bound towards
        which the function falls. At the border of another constraint the derivative is unknown.

    Notes
    -----
    Elements at an active bound do not follow the parameters: their derivative is zero. The other
    elements have the derivative of the problem in which these elements are constant.

    Examples
    --------
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> def ridge(w, penalty):
    ...     return (w[0] + w[1] - 1.0) ** 2 + (w[0] - w[1]) ** 2 + penalty * (w @ w)
    >>> def bfgs(g, init):
    ...     return optimize.minimize(g, init, jac=fg.grad(g), tol=1e-9)
    >>> fg.jacrev(fg.implicit.minimize(ridge, bfgs), argnums=1)(np.zeros(2), 2.0)
    Tensor([-0.0625, -0.0625])
    """

    def one_number(x: Tree, *params: Tree) -> Any:
        out = f(x, *params)
        scalar("implicit.minimize", unwrap(out, "implicit.minimize"))
        return out

    check_function("implicit.minimize", f)
    limits = Bounds.read("implicit.minimize", bounds)
    return _solution("minimize", one_number, grad, solver, tangent_solve, failed, tol, limits)


def least_squares(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    bounds: Tree = None,
    failed: str = "raise",
    tol: float = 1e-3,
) -> Callable[..., Any]:
    """Turn a least-squares solution into a differentiable function of its parameters.

    ``least_squares(f, solver)(init, p)`` is the x that minimizes sum(f(x, p)**2). Use it, for
    example, to differentiate fitted coefficients with respect to the data.

    Parameters
    ----------
    f : callable
        ``f(x, *params)`` returns the residuals: a real array, or a pytree of arrays if the solver
        accepts one.
    solver : callable
        ``solver(g, init)`` takes the residuals ``g(x) = f(x, *params)``, as
        ``scipy.optimize.least_squares`` does; see ``root``.
    tangent_solve : callable
        See ``minimize``.
    bounds : pair, optional
        See ``minimize``.
    failed, tol : {"raise", "nan"} and float
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``. Its derivative uses the full Hessian, with the
        second derivatives of the residuals.

    Examples
    --------
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> mean = fg.implicit.least_squares(lambda x, data: x - data, optimize.least_squares)
    >>> fg.jacrev(mean, argnums=1)(np.zeros(1), np.array([1.0, 2.0]))
    Tensor([[0.5, 0.5]])

    At the bound 1 the slope is 0:

    >>> bounded = lambda g, x: optimize.least_squares(g, x, bounds=(0.0, 1.0))
    >>> mean = fg.implicit.least_squares(lambda x, data: x - data, bounded)
    >>> fg.jacrev(mean, argnums=1)(np.full(1, 0.5), np.array([1.0, 2.0]))
    Tensor([[0., 0.]])
    """

    def gradient(residuals: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def half_square(x: Tree) -> Any:
            return 0.5 * sum([fnp.sum(fnp.square(leaf)) for leaf in pytrees.leaves(residuals(x))])

        return grad(half_square)

    limits = Bounds.read("implicit.least_squares", bounds)
    return _solution("least_squares", f, gradient, solver, tangent_solve, failed, tol, limits)


def fixed_point(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = direct_solve,
    *,
    failed: str = "raise",
    tol: float = 1e-3,
) -> Callable[..., Any]:
    """Turn the fixed point of a function into a differentiable function of its parameters.

    Use it if another library's solver finds the fixed point; ``fg.fixed_point`` iterates the
    function itself. With x = f(x, p), the derivative solves (1 - ∂f/∂x) dx = ∂f/∂p dp.

    Parameters
    ----------
    f : callable
        ``f(x, *params)`` returns a pytree like x.
    solver : callable
        ``solver(g, init)`` finds x with g(x) = x, for ``g(x) = f(x, *params)``, as
        ``scipy.optimize.fixed_point`` does; see ``root``.
    tangent_solve : callable
        See ``fg.custom_root``.
    failed, tol : {"raise", "nan"} and float
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``.

    See Also
    --------
    funcgrad.fixed_point : iterates the function.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> heron = lambda x, a: (x + a / x) / 2.0
    >>> solution = fg.implicit.fixed_point(heron, optimize.fixed_point)
    >>> fg.grad(solution, argnums=1)(1.0, 4.0)
    Tensor(0.25)
    """
    return _solution("fixed_point", f, difference, solver, tangent_solve, failed, tol)


def _solution(
    kind: str,
    f: Callable[..., Any],
    equation: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    solver: RootSolver,
    tangent_solve: Solve,
    failed: str,
    tol: float,
    limits: Bounds | None = None,
) -> Callable[..., Any]:
    """Make the solution function of the equation f(x) = 0, or of one that is made of f.

    With ``limits`` the equation says that the slope is zero, except at bounds.
    """
    name = _checked(kind, f, solver, tangent_solve)
    options: dict[str, Any] = {
        "failed": failed_as(failed, name),
        "tol": tolerance(name, "tol", tol),
    }
    if limits is not None:
        sides = partial(sides_of, limits)
        options.update(is_like_unknown=False, symmetric=True, sides=sides)

    def solve(function: Callable[[Any], Any], init: Tree, reads: Sequence[Value]) -> Any:
        result = _called(solver, function, init, reads)
        x = _solution_in(name, result)
        return x if limits is None else (x, result)

    def solution(init: Tree, *params: Tree) -> Any:
        return root_of(name, f, init, params, solve, tangent_solve, equation=equation, **options)

    solution.__name__ = kind
    return solution


def _checked(kind: str, *functions: object) -> str:
    """Check that the functions are functions; return the public name of the kind of solution."""
    for function in functions:
        check_function(f"implicit.{kind}", function)
    return f"implicit.{kind}"


def _called(
    solver: RootSolver, function: Callable[[Any], Any], init: Tree, reads: Sequence[Value]
) -> Any:
    """Call a solver with NumPy arrays."""
    start = pytrees.map(_numbers, init)
    for value in reads:  # before the call of a library that may hide the error
        _numbers(value)
    return solver(partial(_of_numbers, function), start)


def _numbers(x: Tree) -> Any:
    """Copy a value to a writable NumPy array or scalar, for other libraries."""
    array = np.array(wrap(x) if type(x) in RAW else x)
    return array if array.shape else array[()]


def _of_numbers(function: Callable[[Any], Any], x: Tree, *_: Tree) -> Any:
    """Call a function; return NumPy arrays if its argument has no tensors."""
    out = function(x)
    if any(isinstance(leaf, Tensor) for leaf in pytrees.leaves(x)):
        return out
    return pytrees.map(_numbers, out)


def _solution_in(name: str, result: Tree) -> Any:
    """Extract the solution from SciPy's result object; return anything else unchanged.

    Raises
    ------
    ConvergenceError
        The result object says that the solver failed.
    """
    for place, flag, reason in (("x", "success", "message"), ("root", "converged", "flag")):
        if hasattr(result, place) and hasattr(result, flag):
            if not getattr(result, flag):
                said = getattr(result, reason, "it gave no reason")
                raise placed(
                    ConvergenceError,
                    f"{name}: the solver has not found a solution: {said}. Start closer to it,"
                    " allow more steps, or use another method; the derivative needs a"
                    " solution.",
                )
            return getattr(result, place)
    return result

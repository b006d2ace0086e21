"""Solutions as functions of parameters, by solvers of any library.

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
from funcgrad import trees
from funcgrad.control.carry import placed
from funcgrad.errors import ConvergenceError
from funcgrad.implicit.dense import dense_solve
from funcgrad.implicit.fixed_points import difference
from funcgrad.implicit.roots import RootSolver, root_of, same
from funcgrad.implicit.unknowns import Solve, Tree
from funcgrad.numpy.options import failed_as
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import RAW, Value
from funcgrad.transforms.arguments import check_function, scalar, unwrap
from funcgrad.transforms.reverse import grad


def root(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = dense_solve,
    *,
    failed: str = "raise",
) -> Callable[..., Any]:
    """The root of an equation with parameters, as a function of these.

    Parameters
    ----------
    f : callable
        ``f(x, *params)``, written with functions of funcgrad; like x in structure and shapes. It is
        zero at the root.
    solver : callable
        ``solver(g, init)`` finds the root of ``g(x) = f(x, *params)``, as ``scipy.optimize.root``
        and ``newton`` do. It is any Python, and gets and returns ordinary NumPy arrays and numbers.
        It returns x, or SciPy's record of a solution.
    tangent_solve : callable
        See ``fg.custom_root``.
    failed : {"raise", "nan"}
        What becomes of an equation that the solver says to have failed at, by SciPy's record or by
        an error, and of a singular ∂f/∂x: an error, or NaN in the solution and in all of its
        derivatives, for that example of a batch alone.

    Returns
    -------
    callable
        ``solution(init, *params)``, from where to start and pytrees of parameters to the root, a
        pytree like ``init``. Derivatives flow into parameters and into what ``f`` closes over, in
        both modes and at every order; under ``vmap`` the solver is called for each example, and in
        a program when that runs.

    Raises
    ------
    ConvergenceError
        SciPy's record says that the solver failed.
    ArgumentError
        ``failed`` is another word.
    TreeError, ShapeError, DtypeError
        What ``f`` or the solver returns is not like ``init``, or ``init`` is an integer.
    MatrixError
        ∂f/∂x is singular at the root.

    See Also
    --------
    funcgrad.custom_root : more is said there.

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
    return _solution("root", f, same, solver, tangent_solve, failed=failed)


def minimize(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = dense_solve,
    *,
    failed: str = "raise",
) -> Callable[..., Any]:
    """The place of a function's minimum, as a function of parameters.

    Parameters
    ----------
    f : callable
        ``f(x, *params)``, one real number; twice differentiable at the minimum, which lies inside
        of where it is defined: constraints that hold it there are not known.
    solver : callable
        ``solver(g, init)`` finds the minimum of ``g(x) = f(x, *params)``; see ``root``. A gradient
        for it is ``fg.grad(g)``: derivatives are as accurate as the minimum.
    tangent_solve : callable
        See ``fg.custom_root``: what solves by the Hessian matrix, which is symmetric.
    failed : {"raise", "nan"}
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``.

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
        scalar("implicit.minimize", out, unwrap(out, "implicit.minimize"))
        return out

    check_function("implicit.minimize", f)
    return _solution("minimize", one_number, grad, solver, tangent_solve, False, failed)


def least_squares(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = dense_solve,
    *,
    failed: str = "raise",
) -> Callable[..., Any]:
    """The place of the least sum of squares of residuals, as a function of parameters.

    Parameters
    ----------
    f : callable
        ``f(x, *params)``, the residuals: a real array, or a pytree of them if the solver takes one.
    solver : callable
        ``solver(g, init)`` takes the residuals ``g(x) = f(x, *params)``, as
        ``scipy.optimize.least_squares`` does; see ``root``.
    tangent_solve : callable
        See ``minimize``.
    failed : {"raise", "nan"}
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``. The derivative is that of a minimum, with the
        second derivatives of the residuals.

    Examples
    --------
    >>> import numpy as np
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> mean = fg.implicit.least_squares(lambda x, data: x - data, optimize.least_squares)
    >>> fg.jacrev(mean, argnums=1)(np.zeros(1), np.array([1.0, 2.0]))
    Tensor([[0.5, 0.5]])
    """

    def gradient(residuals: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def half_square(x: Tree) -> Any:
            return 0.5 * sum([fnp.sum(fnp.square(leaf)) for leaf in trees.leaves(residuals(x))])

        slope: Callable[[Any], Any] = grad(half_square)
        return slope

    return _solution("least_squares", f, gradient, solver, tangent_solve, False, failed)


def fixed_point(
    f: Callable[..., Any],
    solver: RootSolver,
    tangent_solve: Solve = dense_solve,
    *,
    failed: str = "raise",
) -> Callable[..., Any]:
    """The fixed point of a function with parameters, as a function of these.

    Parameters
    ----------
    f : callable
        ``f(x, *params)``, like x in structure and shapes.
    solver : callable
        ``solver(g, init)`` finds x with g(x) = x, for ``g(x) = f(x, *params)``, as
        ``scipy.optimize.fixed_point`` does; see ``root``.
    tangent_solve : callable
        See ``fg.custom_root``.
    failed : {"raise", "nan"}
        See ``root``.

    Returns
    -------
    callable
        ``solution(init, *params)``; see ``root``.

    See Also
    --------
    funcgrad.fixed_point : by repeating the function.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy import optimize
    >>> heron = lambda x, a: (x + a / x) / 2.0
    >>> solution = fg.implicit.fixed_point(heron, optimize.fixed_point)
    >>> fg.grad(solution, argnums=1)(1.0, 4.0)
    Tensor(0.25)
    """
    return _solution("fixed_point", f, difference, solver, tangent_solve, failed=failed)


def _solution(
    kind: str,
    f: Callable[..., Any],
    equation: Callable[[Callable[[Any], Any]], Callable[[Any], Any]],
    solver: RootSolver,
    tangent_solve: Solve,
    is_like_unknown: bool = True,
    failed: str = "raise",
) -> Callable[..., Any]:
    name = f"implicit.{kind}"
    for function in (f, solver, tangent_solve):
        check_function(name, function)
    failed = failed_as(failed, name)

    def solve(function: Callable[[Any], Any], init: Tree, reads: Sequence[Value]) -> Any:
        start = trees.map(_numbers, init)
        for value in reads:  # before a library that may hide the error is called
            _numbers(value)
        return _solution_in(name, solver(partial(_of_numbers, function), start))

    def solution(init: Tree, *params: Tree) -> Any:
        return root_of(
            name,
            f,
            init,
            params,
            solve,
            tangent_solve,
            equation=equation,
            is_like_unknown=is_like_unknown,
            symmetric=not is_like_unknown,
            failed=failed,
        )

    solution.__name__ = kind
    return solution


def _numbers(x: Tree) -> Any:
    """The numbers of a value, for other libraries, which may write to the array."""
    array = np.array(wrap(x) if type(x) in RAW else x)
    return array if array.shape else array[()]


def _of_numbers(function: Callable[[Any], Any], x: Tree, *_: Tree) -> Any:
    """A function as solvers call it: numbers of numbers, tensors of tensors."""
    out = function(x)
    if any(isinstance(leaf, Tensor) for leaf in trees.leaves(x)):
        return out
    return trees.map(_numbers, out)


def _solution_in(name: str, result: Tree) -> Any:
    """The solution in what a solver returned: itself, or SciPy's record.

    Raises
    ------
    ConvergenceError
        The record says that there is none.
    """
    for place, flag, reason in (("x", "success", "message"), ("root", "converged", "flag")):
        if hasattr(result, place) and hasattr(result, flag):
            if not getattr(result, flag):
                said = getattr(result, reason, "it gave no reason")
                raise ConvergenceError(
                    placed(
                        f"{name}: the solver has not found a solution: {said}. Start closer to it,"
                        " allow more steps, or use another method; without a solution there is no"
                        " derivative."
                    )
                )
            return getattr(result, place)
    return result

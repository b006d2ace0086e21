"""``fixed_point``: find a fixed point by iterating the function.

>>> import funcgrad as fg
>>> def root(a):  # Heron's method
...     return fixed_point(lambda x, a: (x + a / x) / 2.0, 1.0, a)
>>> fg.value_and_grad(root)(4.0)
(Tensor(2.0), Tensor(0.25))
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, overload

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carried_types import AnyNumber, Containers, ParametricFunction, State
from funcgrad._control.carry import count_of, placed
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError
from funcgrad.implicit.direct import direct_solve
from funcgrad.implicit.roots import root_of
from funcgrad.implicit.unknowns import Solve, Tree, converged_or_nan
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import Tensor


@overload
def fixed_point(
    f: ParametricFunction[Any, AnyNumber],
    init: AnyNumber,
    *args: Tree,
    tol: float | None = None,
    max_steps: int = 1000,
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Tensor: ...
@overload
def fixed_point(
    f: ParametricFunction[State, State],
    init: State | Containers,
    *args: Tree,
    tol: float | None = None,
    max_steps: int = 1000,
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> State: ...
@watched
def fixed_point(
    f: Callable[..., Any],
    init: Tree,
    *args: Tree,
    tol: float | None = None,
    max_steps: int = 1000,
    tangent_solve: Solve = direct_solve,
    failed: str = "raise",
) -> Any:
    """Find the fixed point x = f(x, *args) by iterating ``f``; differentiate it implicitly.

    Use it where repeated application of ``f`` converges: equilibria, value functions, message
    passing. With x = f(x, p), the derivative solves (1 - ∂f/∂x) dx = ∂f/∂p dp. It costs one linear
    system, however many steps the iteration took. To use another solver, see
    ``fg.implicit.fixed_point``.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a pytree like ``init``. The iteration converges if ``f`` is a
        contraction near the fixed point. Derivatives also flow into the values that ``f`` closes
        over.
    init : pytree of floating or complex arrays
        The starting point. The derivative with respect to it is 0.
    *args : pytrees
    tol : float, optional
        The iteration ends when no element changes by more than ``tol * (1 + |x|)``. The default is
        16 times the machine epsilon.
    max_steps : int
        The maximum number of calls of ``f``.
    tangent_solve : callable
        The solver for (1 - ∂f/∂x) dx = db; see ``custom_root``.
    failed : {"raise", "nan"}
        The behaviour if the iteration does not converge, or 1 - ∂f/∂x is singular: an error
        (outside ``jit`` and ``vmap``), or a result of NaN.

    Returns
    -------
    pytree
        The fixed point, a pytree like ``init``.

    Raises
    ------
    ConvergenceError
        The iteration has not converged. Inside ``jit`` and ``vmap``, where values are not known,
        every element and every derivative is NaN instead.
    TreeError, ShapeError, DtypeError
        The result of ``f`` is not like ``init``, or ``init`` is an integer.
    ArgumentError
        ``tol`` is negative, or ``max_steps`` is less than 1.
    MatrixError
        1 - ∂f/∂x is singular.

    Notes
    -----
    Derivatives of every order, in both modes, follow from the implicit function theorem; the
    iteration is neither recorded nor differentiated. The error of the fixed point is at most q / (1
    - q) times the last change, where q is the contraction factor.

    Examples
    --------
    >>> import funcgrad as fg
    >>> cosine = lambda a: fg.fixed_point(lambda x: fg.numpy.cos(a * x), 1.0)
    >>> fg.value_and_grad(cosine)(1.0)
    (Tensor(0.73908513...), Tensor(-0.2974743...))
    """
    name = "fixed_point"
    for function in (f, tangent_solve):
        check_function(name, function)
    failed = failed_as(failed, name)
    bound = None if tol is None else tolerance(name, "tol", tol)
    most = count_of(name, "max_steps", max_steps)

    def solve(move: Callable[[Any], Any], start: Tree, _: Tree) -> Any:
        return _repeated(name, move, start, bound, most, failed)

    return root_of(name, f, init, args, solve, tangent_solve, equation=difference, failed=failed)


def tolerance(name: str, word: str, number: object) -> float:
    """Check that a tolerance is a non-negative number, and return it as a float."""
    if not isinstance(number, Real) or not float(number) >= 0:
        raise placed(ArgumentError, f"{name}: {word} has to be a number >= 0, got {number!r}.")
    return float(number)


def difference(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function f(x) - x, whose root is the fixed point of f."""
    return lambda x: pytrees.map(fnp.subtract, f(x), x)


def _repeated(
    name: str,
    move: Callable[[Any], Any],
    start: Tree,
    tol: float | None,
    max_steps: int,
    failed: str,
) -> Any:
    def step(state: Tree) -> Any:
        x, _, count = state
        new = move(x)
        sizes = pytrees.leaves(pytrees.map(lambda a, b: _change(a, b, tol), new, x))
        return new, fnp.max(fnp.stack(sizes)) if sizes else fnp.zeros(()), count + 1

    def goes_on(state: Tree) -> Any:  # a change of NaN ends the iteration, without convergence
        return (state[1] > 1.0) & (state[2] < max_steps)

    x, size, _ = while_loop(goes_on, step, (start, fnp.asarray(np.inf), 0))
    return converged_or_nan(
        x,
        size <= 1.0,
        f"{name}: the iteration did not converge within {max_steps} steps, or its values are no"
        " longer finite. Start closer to the fixed point, or raise max_steps or tol. If the"
        " function is not a contraction, use fg.implicit.fixed_point with another solver.",
        failed,
    )


def _change(new: Tensor, old: Tensor, tol: float | None) -> Tensor:
    """Return the greatest ratio of an element's change to the allowed change."""
    allowed = 16 * np.finfo(old.dtype).eps if tol is None else tol
    scale = float(allowed) if allowed else np.finfo(np.float64).tiny
    ratio = fnp.abs(new - old) / (scale * (1.0 + fnp.abs(old)))
    return fnp.max(ratio.astype(np.float64), initial=0.0)

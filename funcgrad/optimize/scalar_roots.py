"""``root_scalar``: a root of a function of one number.

>>> import funcgrad as fg
>>> def anomaly(eccentricity, mean):  # Kepler's equation
...     f = lambda x: x - eccentricity * fg.numpy.sin(x) - mean
...     return root_scalar(f, bracket=(0.0, 3.2)).x
>>> fg.value_and_grad(anomaly)(0.5, 1.0)
(Tensor(1.49870113), Tensor(1.03466723))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import count_of, placed
from funcgrad._control.whiles import while_loop
from funcgrad._core.pytrees import pytree
from funcgrad._core.specs import is_inexact
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad._transforms.forward import jvp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.implicit.fixed_points import tolerance
from funcgrad.optimize.brackets import bracketed
from funcgrad.optimize.solution import (
    NO_SLOPE,
    NOT_FINITE,
    RUNNING,
    SMALL_RESIDUAL,
    SMALL_STEP,
    Solution,
    first_status,
)
from funcgrad.optimize.solver_arguments import checked, chosen
from funcgrad.optimize.solver_tasks import Functions, OfPoint, SolverTask, first_of, task_solution
from funcgrad.tensor.tensor import Tensor

_BRACKETING: Final = ("bisect", "brentq", "itp")
_OPEN: Final = ("halley", "newton", "secant")
_ADVICE: Final = (
    "Pass a bracket at whose ends the function has different signs, start closer to the root, or"
    " allow more steps by maxiter."
)


@watched
@answering
def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    *,
    bracket: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float = 2e-12,
    rtol: float | None = None,
    maxiter: int = 100,
    derivative: str = "implicit",
    failed: str = "raise",
) -> Solution[Tensor]:
    """Find a root of a function of one number.

    Under ``vmap`` each example has its own iteration. The root is differentiated with respect to
    ``args`` and the values that ``f`` closes over. The derivatives that a method needs are
    computed.

    Parameters
    ----------
    f : callable
        ``f(x, *args)`` returns a number.
    args : tuple
        Further arguments of ``f``; anything else than a tuple is one argument.
    method : {"brentq", "itp", "bisect", "newton", "halley", "secant"}, optional
        The first three need a bracket and always converge. By default "brentq" if there is a
        bracket, else "newton".
    bracket : pair of float, optional
        Two points at which the function has different signs.
    x0, x1 : number, optional
        The starting point of "newton", "halley" and "secant", which may be complex; and the second
        one of "secant".
    xtol, rtol : float
        The solver stops if the root is known to within ``xtol + rtol * abs(x)``. The default of
        ``rtol`` is 4 times the machine epsilon.
    maxiter : int
        The maximum number of steps.
    derivative : {"implicit", "steps"}
        Differentiate the equation f(x) = 0, which costs one division, or the steps of the solver.
    failed : {"raise", "nan", "keep"}
        The behaviour if the solver has not succeeded: an error (outside of ``jit`` and ``vmap``, in
        which x is NaN), x = NaN, or x = the best point.

    Returns
    -------
    Solution
        ``x`` is the root, and ``fun`` the value of ``f`` there. ``jac`` is the derivative of ``f``.

    Raises
    ------
    ConvergenceError
        The signs at the ends of the bracket are the same, or the solver has not succeeded, and
        ``failed`` is "raise".
    ArgumentError, ShapeError, DtypeError
        Neither a bracket nor a starting point is given, or they are not scalars.

    See Also
    --------
    root : Systems of equations.

    Notes
    -----
    Where the derivative of ``f`` is 0 at the root, the derivative of the root is infinite or NaN.
    Brent's method takes few steps on smooth functions. ITP takes at most one step more than
    bisection, whatever the function. Sources: Oliveira and Takahashi, ACM Transactions on
    Mathematical Software 47, 2020; Brent, "Algorithms for minimization without derivatives", 1973.

    Examples
    --------
    >>> import funcgrad as fg
    >>> found = root_scalar(lambda x, a: x**3 - a, args=(8.0,), bracket=(0.0, 5.0))
    >>> found.x, found.message
    (Tensor(2.0), 'The residual is below its tolerance.')
    >>> def cube_root(a):
    ...     return root_scalar(lambda x: x**3 - a, x0=1.0).x
    >>> fg.vmap(cube_root)(fg.tensor([1.0, 8.0, 27.0]))
    Tensor([1., 2., 3.])
    """
    name = "root_scalar"
    more = checked(name, f, x0, args, derivative)
    if method is None:
        method = "brentq" if bracket is not None else "newton"
    way = chosen(name, "method", method, (*_BRACKETING, *_OPEN))
    if (bracket if way in _BRACKETING else x0) is None:
        needed = "a bracket, a pair of scalars" if way in _BRACKETING else "a starting point x0"
        raise placed(ArgumentError, f"{name}: the method {way!r} needs {needed}.")
    wanted = {"x0": x0} | ({} if x1 is None else {"x1": x1})
    points = points_of(name, {"bracket": bracket} if way in _BRACKETING else wanted)
    close = (
        tolerance(name, "xtol", xtol),
        4.0 * float(np.finfo(points[0].dtype).eps)
        if rtol is None
        else tolerance(name, "rtol", rtol),
        count_of(name, "maxiter", maxiter),
    )

    one_number = partial(_one_number, points[0].dtype)
    task = SolverTask(
        name,
        _ADVICE,
        (f,),
        (way, close),
        partial(_problem, one_number),
        partial(_iterate, way, close),
        partial(_finish, one_number),
    )
    x, told, (value, slope) = task_solution(
        task,
        points[0],
        (points[1:], *more),
        derivative,
        failed,
        divided,
        what="x0",
        equation=first_of,
        is_like_unknown=False,
    )
    return Solution(x, value, *told, slope)


def _one_number(dtype: np.dtype[Any], f: Callable[..., Any], x: Any, *values: Any) -> Tensor:
    value = fnp.asarray(f(x, *values))
    if value.shape:
        raise placed(
            ShapeError,
            f"root_scalar: f has to return a single number, got shape {value.shape}. Map over"
            " arrays with fg.vmap; systems of equations are solved by root.",
        )
    return value.astype(dtype) if value.dtype.kind in "iub" else value


def _problem(one_number: Callable[..., Tensor], functions: Functions) -> Callable[..., Any]:
    """The function that gives the value at a point, and the other points of the start."""
    return lambda x, others, *values: (one_number(functions[0], x, *values), others)


def _iterate(
    method: str,
    close: tuple[float, float, int],
    functions: Functions,
    function: OfPoint,
    start: Tensor,
) -> Any:
    """Solve from a start: the root, and (status, nit, nfev)."""
    _, others = function(start)
    f = first_of(function)
    if method in _BRACKETING:
        ended = bracketed(f, start, others[0], method, *close)
        return ended.best, (ended.status, ended.nit, ended.nfev)
    return _iterated(f, start, others[0] if method == "secant" and others else None, method, *close)


def _finish(
    one_number: Callable[..., Tensor], functions: Functions, x: Tensor, parameters: tuple[Any, ...]
) -> list[Tensor]:
    """The value and the derivative at the root."""
    more = parameters[1:]
    return list(_with_slope(lambda point: one_number(functions[0], point, *more), x))


def divided(linear: Callable[[Any], Any], y: Any) -> Any:
    """Solve linear(x) = y in one unknown."""
    return y / linear(fnp.ones_like(y))


def points_of(name: str, wanted: dict[str, Any]) -> tuple[Tensor, ...]:
    """Scalars, or pairs of scalars, as floating-point tensors of one dtype.

    Raises
    ------
    ArgumentError, ShapeError
        They are something else.
    """
    named = {}
    for word, value in wanted.items():
        if word in ("bracket", "bounds"):
            if not isinstance(value, (Sequence, np.ndarray, Tensor)) or len(value) != 2:
                raise placed(
                    ArgumentError, f"{name}: {word} has to be a pair of scalars, got {value!r}."
                )
            named[f"{word}[0]"], named[f"{word}[1]"] = value
        else:
            named[word] = value
    points = {word: fnp.asarray(value) for word, value in named.items()}
    for word, point in points.items():
        if point.shape:
            raise placed(
                ShapeError,
                f"{name}: {word} has to be a single number, got shape {point.shape}. Map over"
                " arrays with fg.vmap.",
            )
    dtype = np.result_type(*[point.dtype for point in points.values()])
    dtype = dtype if is_inexact(dtype) else np.dtype(float)
    if dtype.kind == "c" and "x0" not in wanted:
        raise placed(DtypeError, f"{name}: {next(iter(wanted))} has to be real, got {dtype}.")
    return tuple([point.astype(dtype) for point in points.values()])


@pytree(slots=True)
class _Iterate:
    x: Tensor
    value: Tensor
    step: Tensor
    slope: Tensor
    nit: Tensor
    status: Tensor


def _iterated(
    f: Callable[[Any], Any],
    x: Tensor,
    second: Tensor | None,
    method: str,
    xtol: float,
    rtol: float,
    maxiter: int,
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Find a root by steps from a point."""

    def evaluated(x: Tensor, before: _Iterate | None, step: Tensor) -> _Iterate:
        if method == "secant":
            value = fnp.asarray(f(x))
            change = value - (value if before is None else before.value)
            slope = change / _nonzero(step)
            move = -value / _nonzero(slope)
        else:
            value, slope = _with_slope(f, x)
            move = -value / _nonzero(slope)
            if method == "halley":
                curvature = _with_slope(lambda point: _with_slope(f, point)[1], x)[1]
                move = move / (1.0 + 0.5 * move * curvature / _nonzero(slope))
        move = fnp.where(value == 0.0, 0.0, move)
        status = first_status(
            [
                (value == 0.0, SMALL_RESIDUAL),
                (~fnp.isfinite(value), NOT_FINITE),
                (~fnp.isfinite(move), NO_SLOPE),
                (fnp.abs(move) <= xtol + rtol * fnp.abs(x), SMALL_STEP),
            ]
        )
        count = fnp.asarray(0) if before is None else before.nit + 1
        return _Iterate(x, value, move, slope, count, status)

    def advance(now: _Iterate) -> _Iterate:
        return evaluated(now.x + now.step, now, now.step)

    def goes_on(now: _Iterate) -> Tensor:
        return (now.status == RUNNING) & (now.nit < maxiter)

    if method == "secant":
        value = fnp.asarray(f(x))
        near = x * (1.0 + 1e-4) + fnp.where(fnp.real(x) >= 0.0, 1e-4, -1e-4)  # as in SciPy
        there = near if second is None else second
        none = fnp.asarray(0)
        start = _Iterate(x, value, there - x, value, none - 1, none)
        first = evaluated(there, start, there - x)
    else:
        first = evaluated(x, None, x)
    ended = while_loop(goes_on, advance, first)
    last = fnp.where(ended.status == SMALL_STEP, ended.x + ended.step, ended.x)
    evaluations = ended.nit + (2 if method == "secant" else 1)
    return last, (ended.status, ended.nit, evaluations)


def _nonzero(x: Tensor) -> Tensor:
    """A divisor; NaN for 0."""
    return fnp.where(x == 0.0, np.nan, x)


def _with_slope(f: Callable[[Any], Any], x: Tensor) -> tuple[Tensor, Tensor]:
    value, slope = jvp(f, (x,), (fnp.ones_like(x),))
    return fnp.asarray(value), fnp.asarray(slope)

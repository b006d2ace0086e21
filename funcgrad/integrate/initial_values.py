"""``odeint``: solve an ordinary differential equation.

>>> import funcgrad as fg
>>> fg.odeint(lambda y, t: -y, 1.0, [0.0, 1.0, 2.0])
Tensor([1.        , 0.36787944, 0.13533528])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, overload

import numpy as np

from funcgrad._control.carried_types import AnyNumber, Containers, ParametricSlope, State
from funcgrad._control.carry import count_of, placed
from funcgrad._core.users_values import Setting
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import watched
from funcgrad.errors import ArgumentError
from funcgrad.integrate.adjoint import adjoint_solution
from funcgrad.integrate.own_loop import own_outcome
from funcgrad.integrate.right_hand_side import System, real_dtype, times_of
from funcgrad.integrate.solutions import solution
from funcgrad.integrate.step_methods import Settings, resolved
from funcgrad.tensor.tensor import Tensor


@overload
def odeint(
    func: ParametricSlope[Any, AnyNumber],
    y0: AnyNumber,
    ts: Setting,
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> Tensor: ...
@overload
def odeint(
    func: ParametricSlope[State, State],
    y0: State | Containers,
    ts: Setting,
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> State: ...
@overload
def odeint(
    func: ParametricSlope[State, tuple[Any, ...]],  # of any length: slopes are not returned
    y0: tuple[Any, ...],
    ts: Setting,
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> State: ...
@watched
@answering
def odeint(
    func: Callable[..., Any],
    y0: Any,
    ts: Setting,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> Any:
    """Solve the initial value problem y' = func(y, t, *args), y(ts[0]) = y0.

    An adaptive Runge-Kutta method of order 5, for equations that are not stiff. The solution can be
    differentiated with respect to the start, the times, the parameters and the values that ``func``
    closes over: fit the constants of a model to measurements, or train a neural differential
    equation.

    Parameters
    ----------
    func : callable
        ``func(y, t, *args)`` returns the slope of y: a pytree of the structure, shapes and dtypes
        of y.
    y0 : pytree of array_like
        The value of y at the first time. Integers become float64.
    ts : array_like of float, shape (n,)
        The times at which y is returned, in ascending or descending order; the first belongs to
        ``y0``.
    *args : pytrees
        Further arguments of ``func``.
    rtol, atol : float, optional
        The error of an element y in a step may be about ``atol + rtol * abs(y)``. The default of
        both is the square root of the machine epsilon, 1.5e-8 in float64. An ``rtol`` below 10
        machine epsilons of the dtype of y is raised to this value, with a warning.
    max_steps : int
        The maximum number of steps, refused steps included.
    hmax : float
        The maximum size of a step, so that no step skips a short event in ``func``.
    derivative : {"steps", "adjoint"}
        How reverse mode differentiates. ``"steps"`` differentiates the steps that were taken, and
        stores all of them: the exact gradient of the computed solution. ``"adjoint"`` solves the
        adjoint equation backwards in time, and stores only the solution at ``ts``: choose it if the
        steps do not fit into memory. A solution that decays forwards grows backwards: if errors
        grow until the solution is lost, a `ConvergenceError` is raised; inside ``jit`` the gradient
        is NaN.

    Returns
    -------
    pytree of Tensor
        A pytree like ``y0``, with the times along a new axis 0.

    Raises
    ------
    ConvergenceError
        The solver needs too many steps, or its steps became too small. Inside ``jit``, where
        nothing can be raised, the solution is NaN from that time on.
    TreeError, ShapeError, DtypeError
        The result of ``func`` is not like ``y0``, or ``ts`` is not a vector of real numbers.
    ArgumentError
        ``ts`` is not sorted (inside ``jit`` the solution is NaN), or an option is not allowed.

    See Also
    --------
    funcgrad.while_loop, funcgrad.scan

    Notes
    -----
    The method is the Dormand-Prince pair: order 5, with an error estimate of order 4, and a quartic
    between the ends of a step. A step is accepted if the root mean square of error / (atol + rtol *
    max(abs(y before), abs(y after))) over all elements of y is at most 1. The size of the next step
    follows from this error and the previous one (a PI controller). Sources: Hairer, Nørsett and
    Wanner, "Solving ordinary differential equations I", sections II.4 to II.6, and their program
    DOPRI5. No step goes beyond the last time. Times are passed to ``func`` in the precision of
    ``y0``.

    Outside ``jit`` the steps are staged when ``func`` is passed again, and run as a program, with
    the same values to the last bit; derivatives and batches are staged at once. A ``func`` that
    branches on values, prints, or changes other objects is called from Python at every step.

    Both modes treat the sizes of steps as constants, so a derivative is about as exact as the
    solution. The derivative with respect to a time is the slope there; derivatives with respect to
    times are exact up to the fifth order. Forward mode goes through the steps, for both values of
    ``derivative``. With ``"adjoint"`` the adjoint equation is solved to the same tolerances; second
    derivatives go through its steps. ``func`` is then staged without values, so it should not
    branch on values; if it does, the values that it closes over get the derivative through the
    steps.

    References
    ----------
    J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", Journal of
    Computational and Applied Mathematics 6, 1980. The adjoint: L. S. Pontryagin and others, "The
    mathematical theory of optimal processes", 1962; R. T. Q. Chen and others, "Neural ordinary
    differential equations", 2018.

    Examples
    --------
    A pendulum: its last angle and speed, and how they depend on its length.

    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def pendulum(y, t, length):
    ...     angle, speed = y
    ...     return speed, -9.81 / length * fnp.sin(angle)
    >>> def end(length):
    ...     angles, _ = fg.odeint(pendulum, (0.5, 0.0), [0.0, 2.0], length)
    ...     return angles[-1]
    >>> end(1.0), fg.grad(end)(1.0)
    (Tensor(0.496631...), Tensor(-0.177732...))
    """
    if not isinstance(derivative, str) or derivative not in ("steps", "adjoint"):
        raise placed(
            ArgumentError, f"odeint: derivative has to be 'steps' or 'adjoint', got {derivative!r}."
        )
    system = System.read(func, y0, *args)
    precision = real_dtype(system.start)
    settings = _settings(rtol, atol, max_steps, hmax, precision)
    settings = settings._replace(rtol=resolved("odeint", settings.rtol, system.start))
    times = times_of(ts)
    times = times.astype(np.result_type(times.dtype, precision, np.float32))
    by_steps = partial(solution, own_steps=partial(own_outcome, system))
    solve = by_steps if derivative == "steps" else adjoint_solution
    return system.tree(solve(system.slope, system.start, times, system.parameters, settings))


def _settings(
    rtol: object, atol: object, max_steps: object, hmax: object, precision: np.dtype[Any]
) -> Settings:
    """Check the options."""
    default = float(np.sqrt(np.finfo(precision).eps))
    relative = default if rtol is None else _number("rtol", rtol)
    absolute = default if atol is None else _number("atol", atol)
    if not relative + absolute:
        raise placed(ArgumentError, "odeint: rtol and atol are both 0; no solution is that exact.")
    most = count_of("odeint", "max_steps", max_steps)
    size = _number("hmax", hmax)
    if not size:
        raise placed(ArgumentError, "odeint: hmax has to be greater than 0, got 0.")
    return Settings(relative, absolute, most, size)


def _number(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # non-numbers are refused
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0.0:
        raise placed(ArgumentError, f"odeint: {name} has to be a number >= 0, got {value!r}.")
    return number

"""``odeint``: the solution of an ordinary differential equation.

>>> import funcgrad as fg
>>> fg.odeint(lambda y, t: -y, 1.0, [0.0, 1.0, 2.0])
Tensor([1.        , 0.36787944, 0.13533528])
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from operator import index
from typing import Any, overload

import numpy as np

from funcgrad.control.carried_types import AnyNumber, Containers, ParametricSlope, State
from funcgrad.control.carry import placed
from funcgrad.errors import ArgumentError
from funcgrad.foreign_names import answering
from funcgrad.integrate.adjoint import adjoint_solution
from funcgrad.integrate.right_hand_side import System, real_dtype, times_of
from funcgrad.integrate.solutions import solution
from funcgrad.integrate.steps import Settings
from funcgrad.tensor import Tensor
from funcgrad.transforms.arguments import is_whole
from funcgrad.users_values import ArrayLike


@overload
def odeint(
    func: ParametricSlope[Any, AnyNumber],
    y0: AnyNumber,
    ts: ArrayLike,
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
    ts: ArrayLike,
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> State: ...
@overload
def odeint(
    func: ParametricSlope[State, tuple[Any, ...]],  # of any length: slopes are not handed back
    y0: tuple[Any, ...],
    ts: ArrayLike,
    *args: object,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> State: ...
@answering
def odeint(
    func: Callable[..., Any],
    y0: Any,
    ts: ArrayLike,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    hmax: float = inf,
    derivative: str = "steps",
) -> Any:
    """Solve the ordinary differential equation y' = func(y, t, ...).

    Parameters
    ----------
    func : callable
        Takes y, the time and ``args``, and returns the slope of y, of the same structure, shapes
        and dtypes.
    y0 : pytree of array_like
        y at the first time. Integers count as float64.
    ts : array_like of float, shape (n,)
        Times at which y is wanted, from that of ``y0`` on: they never decrease, or never increase.
    *args : pytrees
        Handed to ``func``.
    rtol, atol : float, optional
        In a step each number y of the solution may be wrong by about ``atol + rtol * abs(y)``.
        Without them: the square root of the machine epsilon, 1.5e-8 in float64.
    max_steps : int
        The number of steps that are tried at most.
    hmax : float
        The greatest size of a step, so that none passes over what ``func`` does for a short time.
    derivative : {"steps", "adjoint"}
        What reverse mode does. ``"steps"`` differentiates the steps that were taken, and holds all
        of them. ``"adjoint"`` solves the adjoint equation back in time, and holds the solution at
        ``ts`` alone.

    Returns
    -------
    pytree of Tensor
        Like ``y0``, with the times along a new axis 0.

    Raises
    ------
    ConvergenceError
        There were too many steps, or they became too small. In a program, where nothing can be
        raised, the solution is NaN from there on.
    TreeError, ShapeError, DtypeError
        ``func`` returns something unlike ``y0``, or ``ts`` is no vector of real numbers.
    ArgumentError
        ``ts`` is in no order (in a program the solution is NaN), or an option is not allowed.

    See Also
    --------
    while_loop, scan

    Notes
    -----
    The method is that of Dormand and Prince, of order 5 with an error of order 4, and between the
    ends of steps a quartic. A step is accepted where the root of the mean square, over all numbers
    of y, of error / (atol + rtol * max(abs(y before), abs(y after))) is at most 1; the size of the
    next follows from this and from the error before (a PI controller). Sources: Hairer, Nørsett and
    Wanner, "Solving ordinary differential equations I", sections II.4 to II.6, and their program
    DOPRI5. No step goes beyond the last time. It is no method for stiff equations.

    Times are handed to ``func`` in the precision of ``y0``.

    There are derivatives with respect to ``y0``, ``args``, ``ts`` and what ``func`` closes over, in
    both modes. The sizes of steps are constants of them, so a derivative is that of a method with
    fixed steps, and as exact as the solution about. With respect to a time it is the slope there;
    derivatives by times are exact up to the fifth order. Forward mode pushes tangents through the
    steps, whatever ``derivative`` says. Of ``"adjoint"`` the adjoint equation is solved with the
    same tolerances, and its own derivatives are those of its steps. There ``func`` is staged
    without numbers, so that it may not look at them; where it does, what it closes over has the
    derivative of the steps.

    References
    ----------
    J. R. Dormand, P. J. Prince, "A family of embedded Runge-Kutta formulae", Journal of
    Computational and Applied Mathematics 6, 1980. The adjoint: L. S. Pontryagin and others, "The
    mathematical theory of optimal processes", 1962; R. T. Q. Chen and others, "Neural ordinary
    differential equations", 2018.

    Examples
    --------
    A pendulum: its end, and how that depends on its length.

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
        raise ArgumentError(
            placed(f"odeint: derivative has to be 'steps' or 'adjoint', got {derivative!r}.")
        )
    system = System.of(func, y0, *args)
    precision = real_dtype(system.start)
    settings = _settings(rtol, atol, max_steps, hmax, precision)
    times = times_of(ts)
    times = times.astype(np.result_type(times.dtype, precision, np.float32))
    solve = solution if derivative == "steps" else adjoint_solution
    return system.tree(solve(system.slope, system.start, times, system.parameters, settings))


def _settings(
    rtol: object, atol: object, max_steps: object, hmax: object, precision: np.dtype[Any]
) -> Settings:
    """The options, checked."""
    default = float(np.sqrt(np.finfo(precision).eps))
    relative = default if rtol is None else _number("rtol", rtol)
    absolute = default if atol is None else _number("atol", atol)
    if not relative + absolute:
        raise ArgumentError(placed("odeint: rtol and atol are both 0; no solution is that exact."))
    if not is_whole(max_steps) or index(max_steps) < 1:  # type: ignore[arg-type]  # it is whole
        raise ArgumentError(
            placed(f"odeint: max_steps has to be a positive integer, got {max_steps!r}.")
        )
    size = _number("hmax", hmax)
    if not size:
        raise ArgumentError(placed("odeint: hmax has to be greater than 0, got 0."))
    return Settings(relative, absolute, index(max_steps), size)  # type: ignore[arg-type]  # it is whole


def _number(name: str, value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]  # what is no number is refused
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0.0:
        raise ArgumentError(placed(f"odeint: {name} has to be a number from 0 on, got {value!r}."))
    return number

"""``solve_ivp``: solve an ordinary differential equation, with SciPy's signature and result.

>>> import funcgrad as fg
>>> sol = fg.integrate.solve_ivp(lambda t, y: -y, (0.0, 2.0), [1.0, 2.0], t_eval=[0.0, 1.0, 2.0])
>>> sol.y
Tensor([[1.        , 0.36788..., 0.13535...],
        [2.        , 0.73576..., 0.27070...]])
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from funcgrad._control.carry import count_of, placed
from funcgrad._core.users_values import Setting
from funcgrad._hooks.result_watch import watched
from funcgrad.errors import ArgumentError
from funcgrad.integrate.events import Event
from funcgrad.integrate.implicit_options import implicit_options
from funcgrad.integrate.ivp_arguments import (
    arguments_of,
    check_method,
    method_of,
    settings_of,
    start_of,
    times_within,
)
from funcgrad.integrate.ivp_problem import IvpProblem
from funcgrad.integrate.ivp_results import OdeResult
from funcgrad.integrate.ivp_solver import IvpSolver
from funcgrad.integrate.right_hand_side import System, real_dtype


@watched
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Setting,
    y0: Any,
    method: str = "RK45",
    t_eval: Setting = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: Setting = 1e-6,
    max_step: float = inf,
    first_step: float | None = None,
    jac: Any = None,
    mass: Any = None,
    max_steps: int | None = None,
    max_events: int | None = None,
    derivative: str = "steps",
    checkpoints: int | None = None,
    failed: str = "raise",
) -> OdeResult:
    """Solve an initial value problem for the ordinary differential equation y' = fun(t, y).

    The solution can be differentiated with respect to everything that it depends on: ``y0``,
    ``t_span``, ``t_eval``, ``args`` and values that the functions close over, in both modes and to
    every order. It works under ``vmap`` and ``jit``.

    Parameters
    ----------
    fun : callable
        ``fun(t, y, *args)`` returns the slope of y, a pytree like ``y0``. For a vector y it may
        return a list of scalars.
    t_span : pair of scalars
        The first and the last time; the last one may be the earlier one.
    y0 : pytree of array_like
        The start, real or complex. A list of scalars is a vector, as in SciPy, also if they are
        tensors without axes.
    method : str
        Explicit: "RK45" (Dormand and Prince, order 5), "Tsit5" (order 5, with smaller errors),
        "DOP853" (order 8, for small tolerances). "leapfrog": steps of the fixed size
        ``first_step``, for positions and momenta y = (q, p), where the slope of each depends only
        on the other.

        Implicit, for stiff equations: "Kvaerno5" (order 5), "Rodas5P" (order 5, linear systems
        only: fastest for few unknowns), "Radau" (order 5, most digits for its tolerance), "BDF"
        (orders 1 to 5, fewest factorizations: for many unknowns).
    t_eval : array_like, shape (times,), optional
        The times at which the solution is stored, within the span and in its order. Without it they
        are the ends of the steps. Inside ``jit`` and ``vmap``, where the number of steps is not
        known, the default needs ``max_steps``: t and y have max_steps + 1 entries, and
        those beyond the end repeat the last.
    dense_output : bool
        Whether the result has ``sol``, the solution as a function of the time. Inside ``jit`` and
        ``vmap`` it needs ``max_steps``, too.
    events : callable, Event, or a sequence of them, optional
        ``event(t, y, *args)`` returns a number; an event happens where it crosses zero. `Event`, or
        the attributes ``terminal`` and ``direction`` of a function, say whether the integration
        ends there, and in which direction the number crosses zero.
    vectorized : False
        For SciPy's signature: Jacobians are exact here, and need no calls with many y.
    args : tuple
        Further arguments of all functions. Anything else than a tuple is one argument.
    rtol, atol : float
        The relative and the absolute tolerance; ``atol`` may be an array like ``y0``. SciPy's
        defaults are coarse: choose smaller ones where you differentiate. An ``rtol`` below 10
        machine epsilons of the dtype of y (SciPy: 100) is raised to this value, with a warning.
    max_step, first_step : float, optional
        The size of the largest step, and of the first.
    jac : callable, matrix or "sparse", optional
        The Jacobian of ``fun``, for implicit methods: ``jac(t, y, *args)`` or a constant, a matrix
        of all elements of y, dense or sparse. By default it is computed exactly, and is sparse from
        200 elements on if its pattern is. "sparse": whatever the size.
    mass : array_like, shape (n, n), optional
        A constant matrix in mass @ y' = fun(t, y), for implicit methods and real y. It may be
        singular, except for "Kvaerno5": rows of zeros are algebraic equations that y0 has to
        satisfy, and that determine the other elements of y (index 1).
    max_steps : int, optional
        The maximum number of steps, refused ones included: by default 10,000.
    max_events : int, optional
        The maximum number of times that are stored for an event, inside ``jit`` and ``vmap``: by
        default 16. The later ones are left out, and places that are not used are NaN.
    derivative : {"steps", "adjoint"}
        How reverse mode differentiates. "steps" goes back through the steps, and stores all of
        them. "adjoint" solves the adjoint equation backwards with the same method, and stores the
        solution at the times only. It does not work with "leapfrog" or ``dense_output``, and raises
        an error if errors grow backwards until the solution is lost, as they often do for stiff
        equations.
    checkpoints : int, optional
        Inside ``jit`` with ``t_eval``: about how many steps reverse mode stores at once between two
        times; it recomputes the others. With ``c`` checkpoints and ``n`` steps each step is
        computed about log n / log c times.
    failed : {"raise", "nan", "keep"}
        The behaviour if the integration fails. "raise": a `ConvergenceError`, but NaN inside of
        ``jit`` and ``vmap``. "nan": NaN at times that were not reached. "keep": these times are
        left out, as in SciPy.

    Returns
    -------
    OdeResult
        With SciPy's names: ``t``, ``y`` (times along the last axis), ``sol``, ``t_events``,
        ``y_events`` (events along the first axis), ``nfev``, ``njev``, ``nlu``, ``status``,
        ``message``, ``success``.

    Raises
    ------
    ConvergenceError
        The steps are too many, or became too small, and ``failed`` is "raise".
    TreeError, ShapeError, DtypeError
        The result of ``fun`` is not like ``y0``, or an argument has another form than asked for.
    ArgumentError
        ``t_eval`` is not within the span or not in its order (inside ``jit`` the solution is NaN),
        an option is not allowed, or the number of steps has to be known and is not.

    Warns
    -----
    UserWarning
        ``rtol`` is smaller than the dtype of y can resolve.
    StiffnessWarning
        Outside of ``jit``: stability, not accuracy, bounds the steps of an explicit method.

    See Also
    --------
    odeint : Solutions at times only, with the times along axis 0 and small tolerances.

    Notes
    -----
    The solution at ``t_eval`` is interpolated, so these times do not change the steps; the
    integration goes on to the last of them, and to the end of the span for ``dense_output`` and
    events. A step is accepted if the root mean square of error / (atol + rtol * max(abs(y before),
    abs(y after))) is at most 1; sizes follow from a PI controller. Sources: Hairer, Nørsett and
    Wanner, "Solving ordinary differential equations I", sections II.4 to II.6; Tsitouras,
    "Runge-Kutta pairs of order 5(4)", Computers and Mathematics with Applications 62 (2011).

    Implicit methods solve linear systems with c M - ∂f/∂y: Rodas5P for each stage, the others in
    Newton's method, which keeps Jacobian and factorization as long as it converges. If it does not,
    the step is tried with a new Jacobian, and then with a smaller size. Derivatives of a stage
    follow from the implicit function theorem. Sources: Kværnø, "Singly diagonally implicit
    Runge-Kutta methods with an explicit first stage", BIT 44 (2004); Steinebach, "Construction of
    Rosenbrock-Wanner method Rodas5P", BIT 63 (2023); Shampine and Reichelt, "The MATLAB ODE suite",
    SIAM Journal on Scientific Computing 18 (1997); Hairer and Wanner, "Solving ordinary
    differential equations II", section IV.8.

    An event is located to the last bits on the interpolation of its step; a function that is zero
    at the start has no event there, unlike SciPy's, but has one where it crosses zero again. The
    equation is integrated once to find the events, without derivatives, and then again as if there
    were no events. The derivative of an event's time follows from the implicit function theorem:
    for g(t, y) = 0 it is -dg / (dg/dt along the solution). Where g only touches zero it is
    infinite.

    Sizes of steps are constants for derivatives. Derivatives with respect to times are exact up to
    the fifth order.

    Examples
    --------
    A ball falls, bounces, and loses a fifth of its speed: the time of the third bounce, and its
    derivative with respect to the height from which the ball fell.

    >>> import funcgrad as fg
    >>> fall = lambda t, y: (y[1], -9.81)
    >>> ground = fg.integrate.Event(lambda t, y: y[0], terminal=True, direction=-1)
    >>> def third(height):
    ...     t, y = 0.0, (height, 0.0)
    ...     for _ in range(3):
    ...         sol = fg.integrate.solve_ivp(fall, (t, t + 9.0), y, events=ground)
    ...         t, speed = sol.t_events[0][0], sol.y_events[0][1][0]
    ...         y = (0.0, -0.8 * speed)
    ...     return t
    >>> fg.value_and_grad(third)(10.0)
    (Tensor(5.5400...), Tensor(0.27700...))
    """
    name = "solve_ivp"
    for word, value, allowed in (
        ("derivative", derivative, ("steps", "adjoint")),
        ("failed", failed, ("raise", "nan", "keep")),
    ):
        if not isinstance(value, str) or value not in allowed:
            raise placed(
                ArgumentError, f"{name}: {word} has to be one of {allowed}, got {value!r}."
            )
    if vectorized:
        raise placed(
            ArgumentError, f"{name}: vectorized=True is not needed: Jacobians are exact, of one y."
        )
    system = System.read(fun, start_of(y0), *arguments_of(args), name=name)
    span, times = times_within(t_span, t_eval, real_dtype(system.start))
    settings = settings_of(rtol, atol, max_step, first_step, max_steps, system)
    solver, jac, mass = implicit_options(method_of(method), system, jac, mass)
    settings = check_method(solver, system, settings)
    if checkpoints is not None:
        settings = settings._replace(checkpoints=count_of(name, "checkpoints", checkpoints, 2))
    problem = IvpProblem(system, settings, solver, span, jac, mass, _events_of(events))
    if derivative == "adjoint":
        _check_adjoint(name, dense_output, solver.name)
    if max_events is not None:
        count_of(name, "max_events", max_events)
    return IvpSolver(problem, max_steps, max_events, derivative, failed).result(times, dense_output)


def _check_adjoint(name: str, dense: bool, method: str) -> None:
    """Check that the adjoint equation can be solved.

    Raises
    ------
    ArgumentError
        It would be another one, or would have no known start.
    """
    if dense:
        raise placed(
            ArgumentError,
            f"{name}: dense_output needs derivative='steps': the adjoint equation starts at times"
            " that are known, as t_eval is.",
        )
    if method == "leapfrog":
        raise placed(
            ArgumentError,
            f"{name}: leapfrog needs derivative='steps': the adjoint equation is not one for places"
            " and momenta. Inside jit, checkpoints= bounds the memory.",
        )


def _events_of(events: Any) -> tuple[Event, ...]:
    if events is None:
        return ()
    several = events if isinstance(events, list | tuple) else [events]
    return tuple([Event.read(event) for event in several])

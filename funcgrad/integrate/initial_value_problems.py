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
from funcgrad.integrate.ivp_problem import Problem
from funcgrad.integrate.ivp_results import OdeResult
from funcgrad.integrate.ivp_solver import Solver
from funcgrad.integrate.right_hand_side import System, real_dtype


@watched
def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: Any = 1e-6,
    max_step: float = inf,
    first_step: float | None = None,
    jac: Any = None,
    mass: Any = None,
    max_steps: int | None = None,
    max_events: int | None = None,
    derivative: str = "steps",
    failed: str = "raise",
) -> OdeResult:
    """DOC"""
    name = "solve_ivp"
    for word, value, allowed in (
        ("derivative", derivative, ("steps", "adjoint")),
        ("failed", failed, ("raise", "nan", "keep")),
    ):
        if value not in allowed:
            raise placed(
                ArgumentError, f"{name}: {word} has to be one of {allowed}, got {value!r}."
            )
    if vectorized:
        raise placed(
            ArgumentError,
            f"{name}: vectorized=True is not needed: Jacobians are exact, of one y.",
        )
    system = System.read(fun, start_of(y0), *arguments_of(args), name=name)
    span, times = times_within(t_span, t_eval, real_dtype(system.start))
    settings = settings_of(rtol, atol, max_step, first_step, max_steps, system)
    solver, jac, mass = implicit_options(method_of(method), system, jac, mass)
    settings = check_method(solver, system, settings, mass)
    problem = Problem(system, settings, solver, span, jac, mass, _events_of(events))
    if dense_output and derivative == "adjoint":
        raise placed(
            ArgumentError,
            f"{name}: dense_output needs derivative='steps': the adjoint equation starts at times"
            " that are known, as t_eval is.",
        )
    if max_events is not None:
        count_of(name, "max_events", max_events)
    return Solver(problem, max_steps, max_events, derivative, failed).result(times, dense_output)


def _events_of(events: Any) -> tuple[Event, ...]:
    if events is None:
        return ()
    several = events if isinstance(events, list | tuple) else [events]
    return tuple([Event.read(event) for event in several])

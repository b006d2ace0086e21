"""Solutions at given times, with their derivatives with respect to the times, or an error.

>>> import funcgrad as fg
>>> def at(t):
...     times = fg.numpy.stack([0.0, t])
...     settings = Settings(1e-8, 1e-8, 100, float("inf"))
...     return solution(lambda y, t, p: [-y[0]], [fg.tensor(1.0)], times, [], settings)[0][1]
>>> at(0.5) + fg.grad(at)(0.5)
Tensor(0.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from funcgrad._control.carry import placed
from funcgrad._core.trace import RAW, Raw, concrete, is_followed
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stager import Staged
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ConvergenceError
from funcgrad.integrate.explicit_pairs import RK45
from funcgrad.integrate.right_hand_side import Slope, real_dtype
from funcgrad.integrate.step_methods import Leaves, RightHandSide, Settings
from funcgrad.integrate.steps import DISORDER, TOO_MANY, Outcome, Scheme, solved
from funcgrad.integrate.stiff_equations import slope_of
from funcgrad.tensor.tensor import Tensor


def solution(
    slope: Slope,
    start: Leaves,
    times: Tensor,
    parameters: list[Tensor],
    settings: Settings,
    own_steps: Callable[[Tensor, Settings], Outcome | None] | None = None,
) -> Leaves:
    """Return the solutions at all times, stacked along axis 0.

    ``own_steps`` may take the steps in another way, see ``own_outcome``.

    Raises
    ------
    ConvergenceError
        The integration failed; inside ``jit`` the solution is NaN instead.
    ArgumentError
        The times are not sorted.
    """
    if len(times) == 1:
        return [leaf[None] for leaf in start]
    outcome = outcome_at(slope, start, times, parameters, settings, Scheme(), own_steps)
    check(outcome, settings)
    return outcome.leaves


def outcome_at(
    slope: Slope,
    start: Leaves,
    times: Tensor,
    parameters: list[Tensor],
    settings: Settings,
    scheme: Scheme,
    own_steps: Callable[[Tensor, Settings], Outcome | None] | None = None,
) -> Outcome:
    """Return the solutions at all times, and how the integration ended."""
    is_fixed = not is_followed(times)
    # The steps are constants; a change of the first time shifts all of them.
    delay = 0.0 if is_fixed else times[0] - stop_gradient(times[0])
    f, jacobian = functions_of(slope, parameters, scheme, delay, real_dtype(start))
    is_here = type(concrete(times)) in RAW
    outcome = own_steps(times, settings) if own_steps is not None and is_here else None
    if outcome is None:
        outcome = solved(f, start, times, settings, scheme, jacobian)
    if is_fixed:
        return outcome
    fixed = stop_gradient(times)
    return outcome._replace(
        leaves=moved(slope_of(f, scheme.mass), outcome.leaves, fixed, times - fixed - delay)
    )


def functions_of(
    slope: Slope,
    parameters: list[Tensor],
    scheme: Scheme,
    delay: Tensor | float,
    precision: np.dtype[Any],
) -> tuple[RightHandSide, Callable[[Leaves, Tensor], Any] | None]:
    """The right-hand side and its Jacobian for fixed parameters."""

    def f(y: Leaves, t: Tensor) -> Leaves:
        return slope(y, (t + delay).astype(precision), parameters)

    derivative = scheme.jacobian
    if derivative is None:
        return f, None

    def jacobian(y: Leaves, t: Tensor) -> Any:
        return derivative(y, (t + delay).astype(precision), parameters)

    return f, jacobian


def moved(f: RightHandSide, leaves: Leaves, times: Tensor, steps: Tensor) -> Leaves:
    """Take a step of size 0 from each time.

    It changes no value, and up to the order of the pair, 5, its derivatives with respect to its
    size are the derivatives of the solution.
    """

    def one(y: Leaves, t: Tensor, size: Tensor) -> Leaves:
        return RK45.stages_of(f, y, f(y, t), t, size)[0]

    return vmap(one)(leaves, times, steps)


STIFF: Final = (
    " A stiff equation needs small steps everywhere: solve it with fg.integrate.solve_ivp and"
    " method='Kvaerno5' or 'Radau'."
)


def check(outcome: Outcome, settings: Settings, name: str = "odeint", advice: str = STIFF) -> None:
    """Raise an error if an integration failed, where that is known.

    Raises
    ------
    ConvergenceError, ArgumentError
        It failed, or the times are not sorted.
    """
    status = numbers(outcome.status)
    if status is None or not np.any(status):
        return
    reason = int(np.max(status))
    if reason == DISORDER:
        what, place = ("ts", "") if name == "odeint" else ("t_eval", ", within t_span")
        raise placed(
            ArgumentError,
            f"{name}: {what} has to be finite{place}, and in ascending or descending order. Sort"
            f" {what}, and reorder the solutions afterwards.",
        )
    time, count = numbers(outcome.time), numbers(outcome.tried)
    where = f"t = {np.asarray(time).flat[np.argmax(status)]:.6g}"
    if reason == TOO_MANY:
        raise placed(
            ConvergenceError,
            f"{name}: max_steps={settings.max_steps} steps came no further than {where}."
            f" Raise max_steps or the tolerances rtol and atol.{advice}",
        )
    raise placed(
        ConvergenceError,
        f"{name}: at {where}, after {np.max(np.asarray(count))} steps, no step is small enough"
        f" for rtol={settings.rtol:.3g} and atol={settings.atol:.3g}. The solution may end"
        " there, the function may return NaN there, or the tolerances are smaller than the"
        " precision allows.",
    )


def numbers(value: Tensor) -> Raw | None:
    """Return the values of a tensor, for all examples of a batch; None while staging."""
    inner = concrete(value)
    while type(inner) not in RAW:
        if isinstance(inner, Staged):
            return None
        inner = inner._value
    return inner

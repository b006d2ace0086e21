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

import numpy as np

from funcgrad._control.carry import placed
from funcgrad._core.trace import RAW, Raw, concrete
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stager import Staged
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ConvergenceError
from funcgrad.integrate.right_hand_side import Slope, real_dtype
from funcgrad.integrate.explicit_pairs import RK45
from funcgrad.integrate.methods import Leaves, Settings
from funcgrad.integrate.steps import DISORDER, TOO_MANY, Outcome, solved
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
    precision = real_dtype(start)
    is_fixed = type(concrete(times)) in RAW
    # The steps are constants; a change of the first time shifts all of them.
    delay = 0.0 if is_fixed else times[0] - stop_gradient(times[0])

    def f(y: Leaves, t: Tensor) -> Leaves:
        return slope(y, (t + delay).astype(precision), parameters)

    outcome = own_steps(times, settings) if own_steps is not None and is_fixed else None
    if outcome is None:
        outcome = solved(f, start, times, settings)
    _check(outcome, settings)
    if is_fixed:
        return outcome.leaves
    fixed = stop_gradient(times)

    def moved(y: Leaves, t: Tensor, size: Tensor) -> Leaves:
        return RK45.stages_of(f, y, f(y, t), t, size)[0]

    # A step of size 0 changes no value, and up to the order of the method its derivatives are the
    # derivatives of the solution.
    return vmap(moved)(outcome.leaves, fixed, times - fixed - delay)


def _check(outcome: Outcome, settings: Settings) -> None:
    status = _numbers(outcome.status)
    if status is None or not np.any(status):
        return
    reason = int(np.max(status))
    if reason == DISORDER:
        raise placed(
            ArgumentError,
            "odeint: ts has to be finite, and in ascending or descending order. Sort ts, and"
            " reorder the solutions afterwards.",
        )
    time, count = _numbers(outcome.time), _numbers(outcome.tried)
    where = f"t = {np.asarray(time).flat[np.argmax(status)]:.6g}"
    if reason == TOO_MANY:
        raise placed(
            ConvergenceError,
            f"odeint: max_steps={settings.max_steps} steps came no further than {where}."
            " Raise max_steps or the tolerances rtol and atol. A stiff equation needs small"
            " steps everywhere: solve it by scipy.integrate.solve_ivp with method='Radau'"
            " and jac=fg.jacfwd(f, argnums=1).",
        )
    raise placed(
        ConvergenceError,
        f"odeint: at {where}, after {np.max(np.asarray(count))} steps, no step is small enough"
        f" for rtol={settings.rtol:.3g} and atol={settings.atol:.3g}. The solution may end"
        " there, the function may return NaN there, or the tolerances are smaller than the"
        " precision allows.",
    )


def _numbers(value: Tensor) -> Raw | None:
    """Return the values of a tensor, for all examples of a batch; None while staging."""
    inner = concrete(value)
    while type(inner) not in RAW:
        if isinstance(inner, Staged):
            return None
        inner = inner._value
    return inner

"""Reverse mode by the adjoint equation, which is solved backwards in time.

For y' = f(y, t, p), the cotangent a(t) of y(t) obeys a' = -(∂f/∂y)ᵀ a. At each time t_k of the
output it jumps by the cotangent of y(t_k). Backwards in time, the cotangent of p grows by (∂f/∂p)ᵀ
a. The solution is computed again on the way back, from y(t_k), so only the output is stored.

>>> import funcgrad as fg
>>> def end(rate):
...     f = lambda y, t, p: [-p[0] * y[0]]
...     times, settings = fg.tensor([0.0, 1.0]), Settings(1e-9, 1e-9, 100, float("inf"))
...     return adjoint_solution(f, [fg.tensor(1.0)], times, [rate], settings)[0][-1]
>>> float(fg.grad(end)(1.0) + end(1.0)) < 1e-7
True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.closures import with_closed_values
from funcgrad._control.scans import scan
from funcgrad._core.specs import is_inexact
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._programs.equation import spec_inside
from funcgrad._transforms.custom import custom_vjp
from funcgrad._transforms.reverse import vjp
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ConvergenceError
from funcgrad.implicit.roots import custom_root
from funcgrad.integrate.right_hand_side import Slope, real_dtype
from funcgrad.integrate.solutions import check, numbers, outcome_at
from funcgrad.integrate.step_methods import Leaves, Settings
from funcgrad.integrate.steps import Outcome, Scheme, along_times
from funcgrad.integrate.stiff_equations import VectorForm, algebraic_equations, slope_of
from funcgrad.tensor.tensor import Tensor, wrap


def adjoint_solution(
    slope: Slope, start: Leaves, times: Tensor, parameters: list[Tensor], settings: Settings
) -> Leaves:
    """Solve as `solution` does; reverse mode solves the adjoint equation."""
    if len(times) == 1:
        return [leaf[None] for leaf in start]
    outcome = adjoint_outcome(slope, start, times, parameters, settings, Scheme())
    check(outcome, settings)
    return outcome.leaves


def adjoint_outcome(
    slope: Slope,
    start: Leaves,
    times: Tensor,
    parameters: list[Tensor],
    settings: Settings,
    scheme: Scheme,
) -> Outcome:
    """Solve as `outcome_at` does; reverse mode solves the adjoint equation by the same method.

    With a mass matrix, it is the adjoint of the equation for y'.
    """
    count, mass = len(parameters), scheme.mass
    plain, closed = _with_closed_values(scheme.name, slope, start, times[0], parameters)
    is_followed = mass is not None and type(concrete(mass)) not in RAW
    every = [*closed, mass] if is_followed else closed
    raw_start, number = start, len(closed)

    def f(y: Leaves, t: Tensor, every: list[Tensor]) -> Leaves:
        return plain(y, t, every[:number])

    if mass is not None:
        start = _consistent(f, start, times[0], every, mass)
    derivative = scheme.jacobian
    if derivative is not None:
        by_user = derivative
        scheme = scheme._replace(jacobian=lambda y, t, every: by_user(y, t, every[:count]))

    def forward(start: Leaves, times: Tensor, every: list[Tensor]) -> tuple[Leaves, Any]:
        here = scheme._replace(mass=every[-1]) if is_followed else scheme
        outcome = outcome_at(f, start, times, every, settings, here)
        return outcome.leaves, stop_gradient(tuple(outcome[1:]))

    def solved_slope(y: Leaves, t: Tensor, every: list[Tensor]) -> Leaves:
        matrix = every[-1] if is_followed else mass
        return slope_of(lambda y, t: f(y, t, every), matrix)(y, t)

    def forward_keeping(
        start: Leaves, times: Tensor, every: list[Tensor]
    ) -> tuple[tuple[Leaves, Any], tuple[Any, ...]]:
        result = forward(start, times, every)
        return result, (result[0], times, every)

    rule = custom_vjp(forward, forward="through")
    back = Scheme(scheme.method, name=scheme.name)
    rule.defvjp(forward_keeping, partial(_backward, solved_slope, settings, back))
    leaves, others = rule(start, times, every)
    if mass is not None:
        at_start = stop_gradient(times) == stop_gradient(times[0])
        leaves = [
            leaf + fnp.where(along_times(at_start, leaf), raw - first, 0.0)  # 0, with a derivative
            for leaf, raw, first in zip(leaves, raw_start, start, strict=True)
        ]
    return Outcome(leaves, *others)


def _consistent(f: Slope, y: Leaves, t: Tensor, every: list[Tensor], mass: Tensor) -> Leaves:
    """The start, with the derivatives of one that satisfies the equations without derivatives.

    They determine some elements, so that only the others have derivatives: the change d from y
    solves M d + Q f(y + d, t) = 0 with the projection Q to these equations.
    """
    onto = algebraic_equations(mass)
    if onto is None:
        return y
    form = VectorForm.of(y)
    v = form.vector(y)

    def missing(change: Tensor) -> Tensor:
        flow = form.vector(f(form.leaves(v + change), t, every))
        there = mass.astype(form.dtype) @ change + onto.astype(form.dtype) @ flow
        return there - stop_gradient(there)  # the miss of the start stays

    change = custom_root(
        missing, fnp.zeros_like(v), lambda _, start: stop_gradient(start), failed="nan"
    )
    return form.leaves(v + change)


def _backward(
    f: Slope,
    settings: Settings,
    scheme: Scheme,
    residuals: tuple[Leaves, Tensor, list[Tensor]],
    result_cts: tuple[Leaves, Any],
) -> tuple[Leaves, Tensor, list[Tensor | None]]:
    """Return the cotangents of the start, of the times and of the parameters."""
    solutions, times, every = residuals
    cts = result_cts[0]
    places = [k for k, value in enumerate(every) if is_inexact(value.dtype)]
    followed = [every[k] for k in places]
    precision = real_dtype(solutions)
    settings = _with_more_leaves(settings, len(followed))

    def augmented(state: tuple[Leaves, Leaves, Leaves], t: Tensor) -> tuple[Leaves, Leaves, Leaves]:
        slope, of_y, of_parameters = _pulled(f, every, places, state[0], t, state[1])
        return slope, [-x for x in of_y], [-x for x in of_parameters]

    sizes = (len(solutions), 2 * len(solutions))

    def parts(leaves: Leaves) -> tuple[Leaves, Leaves, Leaves]:
        return leaves[: sizes[0]], leaves[sizes[0] : sizes[1]], leaves[sizes[1] :]

    def flat_slope(leaves: Leaves, t: Tensor, _: list[Tensor]) -> Leaves:
        return [x for component in augmented(parts(leaves), t) for x in component]

    def of_time(y: Leaves, t: Tensor, adjoint: Leaves) -> Tensor:
        """Return the cotangent of a time of the output."""
        slope = f(y, t.astype(precision), every)

        def moved(by: Tensor) -> Leaves:
            return [by.astype(real_dtype([k])) * k for k in slope]

        (time_ct,) = vjp(moved, fnp.zeros((), times.dtype))[1](adjoint)
        return time_ct

    def back(
        carry: tuple[Leaves, Leaves], slices: tuple[Leaves, Leaves, Leaves, Tensor, Tensor]
    ) -> tuple[tuple[Leaves, Leaves], tuple[Tensor, Tensor]]:
        (adjoint, sums), (before, y, ct, late, early) = carry, slices
        state = [*y, *[a + b for a, b in zip(adjoint, ct, strict=True)], *sums]
        ends = outcome_at(flat_slope, state, fnp.stack([late, early]), [], settings, scheme)
        check(ends, settings, scheme.name)
        again, adjoint, sums = parts([end[-1] for end in ends.leaves])
        lost = _is_lost(stop_gradient(again), before, y, settings)
        return (adjoint, sums), (of_time(y, late, ct), lost)

    zeros = [fnp.zeros_like(ct[0]) for ct in cts], [fnp.zeros_like(x) for x in followed]
    earlier = [stop_gradient(x[:-1]) for x in solutions]
    later = earlier, [x[1:] for x in solutions], [ct[1:] for ct in cts], times[1:], times[:-1]
    (adjoint, sums), (of_times, lost) = scan(back, zeros, later, reverse=True)
    known = _unless_lost(lost, times, scheme.name)
    adjoint = [x * known.astype(real_dtype([x])) for x in adjoint]
    sums = [x * known.astype(real_dtype([x])) for x in sums]
    of_first = -of_time([x[0] for x in solutions], times[0], adjoint)
    of_parameters: list[Tensor | None] = [None] * len(every)
    for place, total in zip(places, sums, strict=True):
        of_parameters[place] = total
    start = [a + ct[0] for a, ct in zip(adjoint, cts, strict=True)]
    return start, fnp.concatenate([of_first[None], of_times]), of_parameters


def _is_lost(again: Leaves, before: Leaves, after: Leaves, settings: Settings) -> Tensor:
    """Whether the solution that is computed backwards misses the stored one by its size.

    A solution that decays forwards grows backwards, and errors grow with it. So no method solves a
    stiff equation backwards.
    """

    def size(leaves: Leaves) -> Tensor:
        squares = [fnp.sum(abs(x) ** 2).astype(precision) for x in leaves]
        return fnp.sqrt(sum(squares, fnp.zeros((), precision)))

    precision = real_dtype(before)
    allowed = settings.atol if isinstance(settings.atol, tuple) else (settings.atol,)
    absolute = max([float(np.max(np.asarray(x), initial=0.0)) for x in allowed])
    miss = size([a - b for a, b in zip(again, before, strict=True)])
    return miss > size(before) + size(after) + 1e3 * absolute


def _unless_lost(lost: Tensor, times: Tensor, name: str) -> Tensor:
    """1, or NaN if the way back is lost and nothing can be raised.

    Raises
    ------
    ConvergenceError
        It is lost.
    """
    flags = numbers(lost)
    if flags is not None and np.any(flags):
        raise placed(
            ConvergenceError,
            f"{name}: the adjoint equation is solved backwards from y at the last time, and there"
            " errors grow so much that the solution is lost: the equation is stiff, or much decays"
            " between two times. Use derivative='steps', or more times.",
        )
    return fnp.where(fnp.any(lost), np.nan, 1.0)


def _pulled(
    f: Slope, every: list[Tensor], places: list[int], y: Leaves, t: Tensor, adjoint: Leaves
) -> tuple[Leaves, Leaves, Leaves]:
    """Return the slope, and a cotangent of it pulled back to y and to the parameters."""

    def of_both(y: Leaves, parameters: Leaves) -> Leaves:
        values = list(every)
        for place, value in zip(places, parameters, strict=True):
            values[place] = value
        return f(y, t, values)

    slope, pull = vjp(of_both, y, [every[place] for place in places])
    return slope, *pull(adjoint)


def _with_more_leaves(settings: Settings, count: int) -> Settings:
    """Absolute tolerances for cotangents, too: the least one for those of parameters."""
    if not isinstance(settings.atol, tuple):
        return settings
    least = min(float(np.min(np.asarray(size))) for size in settings.atol)
    more = tuple([least for _ in range(count)])
    return settings._replace(atol=(*settings.atol, *settings.atol, *more))


def _with_closed_values(
    name: str, slope: Slope, start: Leaves, time: Tensor, parameters: list[Tensor]
) -> tuple[Slope, list[Tensor]]:
    """Return a right-hand side whose closed-over traced values are parameters, too."""
    count = len(start)

    def flat(values: Sequence[Value]) -> list[Value]:
        tensors = [wrap(value) for value in values]
        return [concrete(x) for x in slope(tensors[:count], tensors[count], tensors[count + 1 :])]

    values = [concrete(x) for x in (*start, time, *parameters)]
    run, closed = with_closed_values(name, flat, [spec_inside(value) for value in values], values)
    param_count = len(parameters)

    def with_closed(y: Leaves, t: Tensor, every: list[Tensor]) -> Leaves:
        args = [concrete(x) for x in (*y, t, *every)]
        return [
            wrap(out)
            for out in run(args[: count + 1 + param_count], args[count + 1 + param_count :])
        ]

    return with_closed, [*parameters, *[wrap(value) for value in closed]]

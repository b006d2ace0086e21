"""All accepted steps of a solution, one after the other, and the solution between their ends.

>>> import funcgrad as fg
>>> sol = fg.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), 1.0, dense_output=True).sol
>>> sol.ts
Tensor([0.        , 0.10001..., 0.55405..., 1.        ])
>>> sol(0.5), fg.grad(sol)(0.5)
(Tensor(0.60653...), Tensor(-0.60648...))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.pytrees import Structure
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ShapeError
from funcgrad.integrate.step_methods import Leaves, OdeEquation, StepMethod, TakenStep
from funcgrad.integrate.steps import State, begun, tried
from funcgrad.tensor.tensor import Tensor, wrap


class Records(NamedTuple):
    """The accepted steps of a solution.

    Attributes
    ----------
    ends : Tensor
        The times of their ends, (count,). Beyond ``number`` all values repeat the last ones.
    leaves, slopes : list of Tensor
        The solution and its slope at the start, and at the ends: count + 1 along axis 0.
    dense : list of lists of Tensor
        The coefficients of the interpolation in each step.
    number : Tensor
        The number of accepted steps.
    whole : Tensor
        Whether the integration has ended, at the last time or by a failure.
    status, time, tried, counts
        See ``Outcome``.
    """

    ends: Tensor
    leaves: Leaves
    slopes: Leaves
    dense: Sequence[Leaves]
    number: Tensor
    whole: Tensor
    status: Tensor
    time: Tensor
    tried: Tensor
    counts: Any

    def first(self, number: int) -> Records:
        """The first steps."""
        return self._replace(
            ends=self.ends[:number],
            leaves=[x[: number + 1] for x in self.leaves],
            slopes=[x[: number + 1] for x in self.slopes],
            dense=[[x[:number] for x in coefficients] for coefficients in self.dense],
        )


def recorded(
    equation: OdeEquation,
    start: Leaves,
    span: tuple[Tensor, Tensor, Tensor],
    method: StepMethod,
    count: int,
    dense: bool = True,
) -> Records:
    """Integrate, and record ``count`` accepted steps; without slopes if not ``dense``.

    ``span`` holds the first time, the time beyond which no step goes, and the time behind which no
    step begins.
    """
    first, last, stop = span
    way, state = begun(method, equation, start, first, last, fnp.asarray(0))

    def goes_on(carry: tuple[Any, ...]) -> Tensor:
        state = State(*carry[0])
        return way.before(state, stop) & (state.status == 0) & ~carry[1]

    def step(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state = tried(method, equation, State(*carry[0]), way)
        return tuple(state), ~state.refused

    def to_next(fields: tuple[Any, ...], _: None) -> tuple[tuple[Any, ...], Any]:
        fields, is_new = while_loop(goes_on, step, (fields, way.sign > 2))
        state = State(*fields)
        coefficients = (state.new_slope, list(state.dense)) if dense else ([], [])
        return fields, (state.end, is_new, state.new, *coefficients)

    fields, records = scan(to_next, tuple(state), None, length=count)
    ends, is_new, leaves, slopes, coefficients = cast(
        "tuple[Tensor, Tensor, Leaves, Leaves, list[Leaves]]", records
    )
    state_0, state = state, State(*fields)

    def all_of(first: Leaves, later: Leaves) -> Leaves:
        return [fnp.concatenate([a[None], b]) for a, b in zip(first, later, strict=True)]

    return Records(
        ends,
        all_of(start, leaves),
        all_of(state_0.new_slope, slopes) if dense else [],
        coefficients,
        fnp.sum(is_new),
        ~way.before(state, stop) | (state.status != 0),
        state.status,
        state.end,
        state.tried,
        state.counts,
    )


@pytree(slots=True)
class OdeSolution:
    """The solution at all times: call it with a time or a vector of times.

    It is differentiable in the time and in everything that it was computed from. Beyond the ends
    it extrapolates, as SciPy does.

    Attributes
    ----------
    ts : Tensor, shape (steps + 1,)
        The times between which the solution is one polynomial.
    leaves, slopes, dense : lists of Tensor
        The solution and its slope at ``ts``, and coefficients for each step.
    number : Tensor
        The number of steps; entries beyond it repeat the last one.
    method : StepMethod
        The method of the steps, which interpolates between their ends.
    state : Structure
        The pytree that ``y0`` is.
    """

    ts: Tensor
    leaves: Leaves
    slopes: Leaves
    dense: list[Leaves]
    number: Tensor
    method: StepMethod = static_field()
    state: Structure = static_field()

    @property
    def t_min(self) -> Tensor:
        """The earliest time."""
        return fnp.minimum(self.ts[0], self.ts[-1])

    @property
    def t_max(self) -> Tensor:
        """The latest time."""
        return fnp.maximum(self.ts[0], self.ts[-1])

    def __call__(self, t: ArrayLike) -> Any:
        """The solution at a time, a pytree like ``y0``; for a vector of times with the times along
        the last axis.

        Raises
        ------
        ShapeError
            ``t`` is neither a number nor a vector.
        """
        times = fnp.asarray(wrap(operand(t, "OdeSolution")))
        if times.ndim > 1:
            raise ShapeError(
                f"OdeSolution: t has to be a time or a vector of times, got shape {times.shape}."
            )
        if times.dtype.kind != "f":
            times = times.astype(self.ts.dtype)
        if not times.ndim:
            return pytrees.unflatten(self.state, self.at(times))
        leaves = [fnp.moveaxis(leaf, 0, -1) for leaf in vmap(self.at)(times)]
        return pytrees.unflatten(self.state, leaves)

    def at(self, time: Tensor) -> Leaves:
        """The leaves of the solution at a time."""
        sign = fnp.where(self.ts[-1] < self.ts[0], -1.0, 1.0)
        place = fnp.searchsorted(sign * self.ts[1:], sign * time)
        place = fnp.clip(place, 0, fnp.maximum(self.number - 1, 0))
        start, end = self.ts[place], self.ts[place + 1]
        length = end - start
        theta = (time - start) / fnp.where(length == 0, 1.0, length)
        old, slope = [[x[place] for x in values] for values in (self.leaves, self.slopes)]
        new, new_slope = [[x[place + 1] for x in values] for values in (self.leaves, self.slopes)]
        dense = [[x[place] for x in coefficients] for coefficients in self.dense]
        taken = TakenStep(old, new, slope, new_slope, dense, length)
        return self.method.between(taken, theta)

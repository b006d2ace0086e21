"""A call of ``solve_ivp`` as one value: the equation, its span, its method and its events.

>>> import funcgrad as fg
>>> from funcgrad.integrate.explicit_pairs import RK45
>>> system = System.read(lambda t, y, rate: -rate * y, 1.0, 2.0, name="solve_ivp")
>>> settings = Settings(1e-3, 1e-6, 100, float("inf"))
>>> problem = IvpProblem(system, settings, RK45, (fg.tensor(0.0), fg.tensor(1.0)), None, None, ())
>>> problem.equation().f(system.start, fg.tensor(0.0))
[Tensor(-2.)]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import is_unknown
from funcgrad._core.trace import RAW, concrete, running_traces
from funcgrad._transforms.custom import custom_jvp
from funcgrad._transforms.linear import linearize
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.events import Condition, Event, number_of
from funcgrad.integrate.right_hand_side import System, real_dtype
from funcgrad.integrate.solutions import functions_of
from funcgrad.integrate.step_methods import (
    Counts,
    Leaves,
    OdeEquation,
    RightHandSide,
    Settings,
    StepMethod,
    equation_of,
)
from funcgrad.integrate.steps import Outcome, Scheme
from funcgrad.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class IvpProblem:
    """A call of ``solve_ivp``.

    Attributes
    ----------
    system : System
    settings : Settings
    method : StepMethod
    span : pair of Tensor
    jac : callable, optional
        The user's, called like the right-hand side.
    mass : Tensor, optional
    events : tuple of Event
    """

    system: System
    settings: Settings
    method: StepMethod
    span: tuple[Tensor, Tensor]
    jac: Callable[..., Any] | None
    mass: Tensor | None
    events: tuple[Event, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of times."""
        return self.span[0].dtype

    @property
    def precision(self) -> np.dtype[Any]:
        """The dtype of the times that the user's functions get."""
        return real_dtype(self.system.start)

    @property
    def delay(self) -> Tensor | float:
        """A zero whose derivative shifts all steps, as the start of the span does."""
        first = self.span[0]
        return 0.0 if type(concrete(first)) in RAW else first - stop_gradient(first)

    @property
    def scheme(self) -> Scheme:
        """How the equation is solved."""
        jac, system, count = self.jac, self.system, len(self.system.parameters)

        def called(y: Leaves, t: Tensor, parameters: list[Tensor]) -> Any:
            assert jac is not None
            return system.called(jac, y, t, parameters[:count])

        derivative = None if jac is None else called
        return Scheme(self.method, derivative, self.mass, self.span[1], "solve_ivp")

    def equation(self, delay: Tensor | float = 0.0) -> OdeEquation:
        """The equation with its parameters."""
        functions = functions_of(
            self.system.slope, self.system.parameters, self.scheme, delay, self.precision
        )
        return equation_of(functions[0], self.settings, self.dtype, functions[1], self.mass)

    def conditions(self) -> list[Condition]:
        """The functions of events, of the time and the leaves."""
        return [self._condition(event) for event in self.events]

    def _condition(self, event: Event) -> Condition:
        system = self.system

        def value(t: Tensor, y: Leaves) -> Tensor:
            time = t.astype(self.precision)
            return number_of(system.called(event.fun, y, time, system.parameters), self.dtype)

        return value

    def constant(self) -> IvpProblem:
        """The problem without derivatives with respect to anything that it was called with."""
        start, parameters = stop_gradient((self.system.start, self.system.parameters))
        system = replace(self.system, start=list(start), parameters=list(parameters))
        return replace(
            self,
            system=system,
            span=(stop_gradient(self.span[0]), stop_gradient(self.span[1])),
            mass=stop_gradient(self.mass),
        )

    def is_open(self) -> bool:
        """Whether the number of steps is not known, since they are staged or stand for a batch."""
        if not running_traces():
            return False
        first, last = self.span
        slope = self.equation().f(self.system.start, first)
        values = [*slope, *self.system.start, *self.system.parameters, first, last]
        return any(is_unknown(concrete(value)) for value in values)

    def work(self, outcome: Outcome) -> Counts:
        """The evaluations and factorizations of a solution."""
        if outcome.counts is not None:
            return outcome.counts
        at_start = 1 if self.settings.first is not None else 2
        none = outcome.tried - outcome.tried
        return Counts(at_start + (self.method.evaluations or 0) * outcome.tried, none, none)

    # ------------------------------------------------------------------- for a program of its own

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """The functions of the user beside the right-hand side."""
        return [*([] if self.jac is None else [self.jac]), *[event.fun for event in self.events]]

    def tensors(self) -> list[Tensor]:
        """The tensors beside the start and the parameters."""
        return [*self.span, *([] if self.mass is None else [self.mass])]

    def key(self) -> Hashable:
        """All else."""
        kinds = [(event.terminal, event.direction) for event in self.events]
        return self.settings, self.method, self.jac is None, self.mass is None, tuple(kinds)

    def joined(
        self, system: System, functions: Sequence[Callable[..., Any]], tensors: Sequence[Tensor]
    ) -> IvpProblem:
        """The problem with other functions and tensors."""
        jac, others = None, list(functions)
        if self.jac is not None:
            jac, *others = others
        events = [replace(event, fun=fun) for event, fun in zip(self.events, others, strict=True)]
        first, last, *mass = tensors
        return IvpProblem(
            system,
            self.settings,
            self.method,
            (first, last),
            jac,
            mass[0] if mass else None,
            tuple(events),
        )


def fixed_slope(equation: OdeEquation) -> RightHandSide:
    """The right-hand side as a function of y and t only: values that it closes over are constants.

    Implicit methods differentiate it.
    """

    @custom_jvp
    def f(y: Leaves, t: Tensor) -> Leaves:
        return list(stop_gradient(equation.f(y, t)))

    @f.defjvp
    def pushed(
        primals: tuple[Leaves, Tensor], tangents: tuple[Leaves, Tensor]
    ) -> tuple[Leaves, Leaves]:
        slope, push = stop_gradient(linearize(equation.f, *primals))
        return slope, push(*tangents)

    return f

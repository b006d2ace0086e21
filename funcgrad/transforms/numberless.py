"""Staging functions without numbers: the bodies of loops, and programs made of programs.

A body runs with many numbers and is staged once, so there is no number that it could look at. What
flows in are specs; a look at a number is an error in the user's terms.

>>> import numpy as np
>>> twice = flat_program("twice", lambda x: [x[0] + x[0]], [Spec((2,), np.dtype(float))])
>>> print(twice.to_text(sources=False))
program twice(a: float64[2]) -> float64[2]
  b: float64[2] = add a a
  return b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import takewhile
from typing import Any

from funcgrad.errors import TracerError
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, stand_in
from funcgrad.trace import Value, begin_level, running_traces
from funcgrad.transforms.batch import Batcher
from funcgrad.transforms.call import Call
from funcgrad.transforms.delegation import delegated
from funcgrad.transforms.record import Recorder
from funcgrad.transforms.stager import Staged, Stager
from funcgrad.transforms.whole import Whole


class Numberless(Stager):
    """A stager of a function without numbers; ``place`` names it in errors."""

    __slots__ = ("place",)

    def __init__(self, level: int, place: str, around: Stager | None = None) -> None:
        super().__init__(level, numbers=False, around=around, title=place)
        self.title = place
        self.place = place

    def need_numbers(self, *used: Staged) -> None:
        self.check()
        raise TracerError(
            f"{self.place}: a number of a traced value is looked at, as by if, while, int(t) or"
            " float(t). The function is staged once and runs with many numbers, so there is none"
            " to look at. Choose with fg.cond or fnp.where, and loop with fg.while_loop; what does"
            " not depend on the function's arguments may be looked at outside of it."
        )

    def process_call(self, call: Whole, args: Sequence[Value]) -> list[Value]:
        if isinstance(call, Call) and not call.is_staged:
            raise TracerError(
                f"{self.place}: {call.name}: inside of a function that is staged once and runs many"
                " times a value stands for many. Mark what the loop returns."
            )
        return super().process_call(call, args)


def flat_program(
    name: str, function: Callable[[Sequence[Value]], Sequence[Value]], specs: Sequence[Spec]
) -> Program:
    """The program of a function from values to values, for inputs of these specs."""
    with begin_level() as level:
        stager = Numberless(level, name)
        program, _, _ = stager.body(
            lambda values: list(function(values)), name, [stand_in(spec) for spec in specs]
        )
    return program


def running_stager() -> Stager | None:
    """The innermost stager that is running in this context."""
    return next((trace for trace in running_traces() if isinstance(trace, Stager)), None)


def staged_body(
    stager: Stager | None,
    place: str,
    function: Callable[[Sequence[Value]], list[Value]],
    specs: Sequence[Spec],
    name: str,
    holds_all: bool = False,
) -> tuple[Program, list[Value]]:
    """Stage a function as a program whose last inputs are the traced values that it closes over.

    Also returns these values.

    Parameters
    ----------
    stager : Stager, optional
        The stager of the function around. Without one, values that are closed over are unknown.
    place : str
        The name of the function in errors.
    function : callable
    specs : sequence of Spec
        The specs of the function's arguments.
    name : str
        The program's name.
    holds_all : bool
        Whether operations on values that the function closes over belong to the program too, as in
        a branch, which may not run. Otherwise they happen outside, once, as a loop needs, but for
        calls whose pullback may be nonlinear: once is not what the rule does at every step.
    """
    # Those further out as long as all inside of them do, whose tracers would hold tracers of this.
    kinds = Stager | Recorder if holds_all else Stager | Recorder | Batcher
    traces: list[Any] = [*takewhile(lambda trace: isinstance(trace, kinds), running_traces())]
    with ExitStack() as stack:
        stager_inside = Numberless(stack.enter_context(begin_level()), place, stager)
        stager_inside.knots = {} if stager is None else stager.knots
        for trace in traces:
            if isinstance(trace, Recorder):
                trace.is_plain = False
            stack.enter_context(delegated(trace, stager_inside, only_nonlinear=not holds_all))
        program, closed, _ = stager_inside.body(function, name, [stand_in(spec) for spec in specs])
    return program, closed

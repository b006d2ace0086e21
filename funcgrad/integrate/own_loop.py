"""The steps of a solution, or of an integral, as a program of their own, outside of ``jit``.

>>> import funcgrad as fg
>>> system = System.read(lambda y, t: -y, 1.0)
>>> settings = Settings(1e-6, 1e-6, 100, float("inf"))
>>> outcomes = [own_outcome(system, fg.tensor([0.0, 1.0]), settings) for _ in range(2)]
>>> outcomes[0], outcomes[1].leaves
(None, [Tensor([1.        , 0.36788])])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from funcgrad._staging.loop_programs import LoopPrograms
from funcgrad._staging.static_arguments import parts_of
from funcgrad.integrate.right_hand_side import System, real_dtype
from funcgrad.integrate.step_methods import Leaves, Settings
from funcgrad.integrate.steps import Outcome, solved
from funcgrad.tensor.tensor import Tensor

_PROGRAMS: Final = LoopPrograms()


def own_outcome(system: System, times: Tensor, settings: Settings) -> Outcome | None:
    """The steps by a program, with the bits of ``solved``; None if that has to take them."""

    def run(here: System, _: object, others: Sequence[Tensor]) -> list[Tensor]:
        precision = real_dtype(here.start)

        def slope(y: Leaves, t: Tensor) -> Leaves:
            return here.slope(y, (t + 0.0).astype(precision), here.parameters)

        outcome = solved(slope, here.start, others[0], settings)
        return [*outcome.leaves, outcome.status, outcome.time, outcome.tried]

    results = own_results(system, (), [times], settings, run)
    if results is None:
        return None
    *leaves, status, time, tried = results
    return Outcome(leaves, status, time, tried)


def own_results(
    system: System,
    functions: Sequence[Callable[..., Any] | None],
    others: list[Tensor],
    options: Hashable,
    run: Callable[[System, Sequence[Any], Sequence[Tensor]], list[Tensor]],
    at_once: bool = False,
) -> list[Tensor] | None:
    """The results of ``run(system, functions, others)`` by a program; None if there is none.

    Parameters
    ----------
    system : System
    functions : sequence of callables
        Further functions of the user; None for one that is missing.
    others : list of Tensor
    options : hashable
        All else that ``run`` depends on.
    run : callable
    at_once : bool
        Whether the first call stages it, for machine code; see ``LoopPrograms.results``.
    """
    count, split = len(system.start), len(system.start) + len(others)
    structures = (system.state, system.arguments)
    parts = tuple([parts_of(structure) for structure in structures])

    def loop(function: Callable[..., Any], tensors: list[Tensor]) -> list[Tensor]:
        here = replace(system, start=tensors[:count], parameters=tensors[split:])
        if not functions:
            return run(replace(here, function=function), (), tensors[count:split])
        first, *more = function()
        return run(replace(here, function=first), more, tensors[count:split])

    function = system.function if not functions else _together(system.function, *functions)
    args = [*system.start, *others, *system.parameters]
    key = options, count, len(others), structures, parts
    return _PROGRAMS.results(function, args, key, loop, at_once)


def _together(first: Any, *others: Any) -> Callable[..., Any]:
    """One function that closes over several, so that it can be taken apart."""
    if not others:
        return lambda: (first,)
    more = _together(*others)
    return lambda: (first, *more())


def own_integral(
    func: Callable[..., Any],
    ends: Sequence[Tensor],
    params: Sequence[Tensor],
    options: Hashable,
    integrated: Callable[[Callable[..., Any], list[Tensor], list[Tensor]], list[Tensor]],
) -> list[Tensor] | None:
    """``integrated(func, ends, params)`` by a program; None if there is none."""
    count = len(ends)

    def loop(function: Callable[..., Any], tensors: list[Tensor]) -> list[Tensor]:
        return integrated(function, tensors[:count], tensors[count:])

    return _PROGRAMS.results(func, [*ends, *params], options, loop)

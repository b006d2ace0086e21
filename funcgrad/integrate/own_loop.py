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
from funcgrad.integrate.steps import Leaves, Outcome, Settings, solved
from funcgrad.tensor.tensor import Tensor

_PROGRAMS: Final = LoopPrograms()


def own_outcome(system: System, times: Tensor, settings: Settings) -> Outcome | None:
    """The steps by a program, with the bits of ``solved``; None if that has to take them."""
    count, structures = len(system.start), (system.state, system.arguments)
    options = settings, count, structures, tuple([parts_of(structure) for structure in structures])

    def loop(function: Callable[..., Any], tensors: list[Tensor]) -> list[Tensor]:
        start, (times, *parameters) = tensors[:count], tensors[count:]
        here = replace(system, function=function, start=start, parameters=parameters)
        precision = real_dtype(start)

        def slope(y: Leaves, t: Tensor) -> Leaves:
            return here.slope(y, (t + 0.0).astype(precision), parameters)

        outcome = solved(slope, start, times, settings)
        return [*outcome.leaves, outcome.status, outcome.time, outcome.tried]

    args = [*system.start, times, *system.parameters]
    results = _PROGRAMS.results(system.function, args, options, loop)
    return None if results is None else Outcome(results[:count], *results[count:])


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

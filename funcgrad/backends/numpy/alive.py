"""Loops without what nobody reads: stacks, and what is carried for nothing else.

>>> import funcgrad as fg
>>> body = fg.program(lambda i, x, y: (i + 1, x * y, i))(0, 2.0, 3.0)
>>> alive = alive_in(Loop(body, 0, 2, 9), [False, True, False])
>>> print(alive.loop.body.to_text(sources=False))
program <lambda>(x: float64[], y: float64[]) -> float64[]
  a: float64[] = multiply x y
  return a
>>> alive.operands, alive.results, alive.loop.carried
([1, 2], [1], 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from funcgrad.programs.extract import extract, needed
from funcgrad.structure import Loop

__all__ = ["Alive", "alive_in"]


class Alive(NamedTuple):
    """What is left of a loop, and which of its operands and results are."""

    loop: Loop
    operands: list[int]
    results: list[int]


def alive_in(loop: Loop, is_read: Sequence[bool]) -> Alive:
    """A loop without what nobody reads.

    Parameters
    ----------
    loop : Loop
    is_read : sequence of bool
        Of each result.
    """
    body, condition, stop = loop.body, loop.condition, loop.shared + loop.carried
    programs = [body] if condition is None else [body, condition]
    if any(program.guards for program in programs):  # which look at what else nobody might read
        return Alive(loop, [*range(len(body.inputs))], [*range(len(body.outputs))])
    results = {k for k, flag in enumerate(is_read) if flag}
    operands: set[int] = set()
    if condition is not None:
        operands |= needed(condition, condition.outputs, ())[1]
    while True:
        operands |= needed(body, [body.outputs[k] for k in results], ())[1]
        operands |= {loop.shared + k for k in results if k < loop.carried}
        grown = results | {k - loop.shared for k in operands if loop.shared <= k < stop}
        if grown == results:
            break
        results = grown
    given = [k for k in range(len(body.inputs)) if k in operands]
    kept = sorted(results)
    own = loop._replace(
        body=extract(body, given, [body.outputs[k] for k in kept]),
        shared=len([k for k in given if k < loop.shared]),
        carried=len([k for k in kept if k < loop.carried]),
        condition=condition
        and extract(condition, [k for k in given if k < stop], condition.outputs),
    )
    return Alive(own, given, kept)

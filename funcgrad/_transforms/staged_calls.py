"""Calls within calls, staged once each.

The function of a call and its rules may call the same other functions, and these again others.
Each would be staged several times for every staging of its caller, so staged calls are cached.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

from funcgrad._core.trace import Value, concrete
from funcgrad._programs.inline import inlined
from funcgrad._transforms.call import Call, Part
from funcgrad._transforms.frozen_calls import FrozenCall, frozen_call, key_of, staged_part
from funcgrad.errors import TracerError


class StagedCalls:
    """The calls that were staged within one call, so that each is staged once.

    Only calls are kept that depend on nothing but the kinds of their arguments.

    Attributes
    ----------
    ties : list of int
        The levels of the calls that were met again within their own rules.
    """

    __slots__ = ("_known", "ties")

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Call, FrozenCall, Part]] = {}
        self.ties: list[int] = []

    def again(
        self, call: Call, values: Sequence[Value], is_known: bool
    ) -> tuple[FrozenCall, Part, tuple[Value, ...]] | None:
        """Find a call that was staged before; ``is_known`` as for ``staged_call``."""
        staged_before = self._known.get(key_of(call, values))
        if staged_before is None:
            return None
        first, frozen, body = staged_before
        call.adopt(first)
        if is_known:
            outs = body.program.evaluate([*map(concrete, values)])
            body = replace(body, results=tuple(outs))
        return frozen, body, ()

    def keep(self, call: Call, values: Sequence[Value], frozen: FrozenCall, body: Part) -> None:
        """Keep a call that depends neither on values nor on the calls in whose rules it is."""
        programs = [body.program, *[rule.program for rule in frozen.rules]]
        if frozen.users_call is None and not any(inlined(program).guards for program in programs):
            self._known[key_of(call, values)] = call, frozen, body


def staged_call(
    stager: Any, call: Call, values: Sequence[Value], is_known: bool
) -> tuple[FrozenCall, Part, tuple[Value, ...]]:
    """A call as a value, the program of its function, and its operands besides its arguments.

    ``is_known`` says whether the values of the arguments are known.

    Raises
    ------
    Exception
        The function cannot be staged, as where it hands its arrays to another library.
    """
    if stager.calls is None:
        stager.calls = StagedCalls()
        try:
            return _staged_call(stager, call, values)
        finally:
            stager.calls = None
    calls: StagedCalls = stager.calls
    staged = calls.again(call, values, is_known)
    if staged is None:
        before, level = len(calls.ties), len(stager.open_calls)
        staged = frozen, body, closed = _staged_call(stager, call, values)
        if not closed and all(tie >= level for tie in calls.ties[before:]):
            calls.keep(call, values, frozen, body)
    return staged


def _staged_call(
    stager: Any, call: Call, values: Sequence[Value]
) -> tuple[FrozenCall, Part, tuple[Value, ...]]:
    body = staged_part(stager, call.run, call.name, values)
    if any(guard.use == "number" for guard in inlined(body.program).guards):
        # Then its results are not constants, as in a program that holds for these values only.
        raise TracerError(f"{call.name}: the function uses values of its arguments in Python.")
    frozen, closed = (call.frozen, ()) if call.frozen else frozen_call(stager, call, values, body)
    return frozen, body, closed

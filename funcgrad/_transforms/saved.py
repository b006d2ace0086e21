"""Calls of programs that were read from a file, without their rules, which are Python functions.

They evaluate, batch and stage as before. Derivatives need the rule, so they raise: the derivatives
of the function's operations may differ from the rule, and would be silently wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from funcgrad._core import pytrees
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import Trace, Value
from funcgrad._programs.equation import Params
from funcgrad._programs.program import Program
from funcgrad._transforms.call import Values
from funcgrad._transforms.call_values import CUSTOM_CALL, FrozenCall
from funcgrad._transforms.calls import Part, RuleCall, Rules, Stage
from funcgrad._transforms.checkpoint import CHECKPOINT
from funcgrad._transforms.composite import Recording
from funcgrad._transforms.flat_functions import CallSignature
from funcgrad.errors import DifferentiationError


class _SavedCall(RuleCall):
    """A call without its rules."""

    __slots__ = ()

    def record_by_rule(self, args: Sequence[Value]) -> Recording:
        raise DifferentiationError(
            f"{self.name}: this call was saved without its derivative rule, which is a Python"
            " function. Save the derivative's program, in which the rule has been applied, or stage"
            " the function again."
        )

    def batched_rules(self, size: int, flags: Sequence[bool], around: Trace | None) -> Rules:
        return ()

    def staged_rules(self, stage: Stage, args: Values, outs: Values) -> Sequence[Part]:
        return ()

    @classmethod
    def rules_with_closed(
        cls, signature: Any, function: Any, rules: Sequence[Any], args: int, outs: int
    ) -> Rules:
        return ()


def saved_call(name: str, parts: Mapping[str, Any]) -> tuple[Primitive, Params]:
    """The operation of a call in a file, and its parameters, from its name and program's fields."""
    program = Program(**parts)
    if name == CHECKPOINT.name:
        return CHECKPOINT, (("body", program),)
    signature = CallSignature(name, pytrees.structure(()), ())
    function = Part(program, present=(True,) * len(program.outputs))
    call = FrozenCall(_SavedCall, signature, function)
    return CUSTOM_CALL, (("body", program), ("call", call))

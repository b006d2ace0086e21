"""Buffers that share memory: what a step changes in place, and what becomes of it.

A scatter whose operand nobody reads any more need not copy it, and neither does a loop whose carry
is only scattered into. Where the operand is an input of the function and the result an output, the
caller chooses: it may pass the same address for both.
"""

from __future__ import annotations

from collections.abc import Iterator

from funcgrad.backends.native.native_module import NativeModule
from funcgrad.backends.native.plan_steps import NativePlan, Run, Scattering, Step
from funcgrad.quick_dataclasses import dataclass
from funcgrad.structure import Loop


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which buffers of a function share memory.

    Attributes
    ----------
    roots : dict
        From buffers of intermediate results to the ones in whose memory they lie.
    in_place : dict
        From outputs to the inputs in whose memory they may lie, by their positions.
    """

    roots: dict[int, int]
    in_place: dict[int, int]


def sharing_of(plan: NativePlan, module: NativeModule) -> Sharing:
    """Find the buffers of a function that may share memory."""
    inputs, outputs = len(plan.program.inputs), {v: k for k, v in enumerate(plan.outputs)}
    first_result = inputs + len(plan.program.constants)
    last_read: dict[int, int] = {}
    for position, step in enumerate(plan.steps):
        last_read.update(dict.fromkeys(step.read(plan.views), position))
    guarded = {
        plan.views[guard.variable].buffer for guards in plan.guards.values() for guard in guards
    }
    roots: dict[int, int] = {}
    in_place: dict[int, int] = {}
    for position, step in reversed([*enumerate(plan.steps)]):
        for operand, result in _replaced(step, plan, module):
            buffer = plan.views[operand].buffer
            is_read_again = last_read[buffer] > position or step.read(plan.views).count(buffer) > 1
            if is_read_again or buffer in outputs or buffer in guarded:
                continue
            root = roots.get(result, result)
            if buffer >= first_result:
                roots[buffer] = root
            elif buffer < inputs and root in outputs:
                in_place[outputs[root]] = buffer
    return Sharing(roots, in_place)


def _replaced(step: Step, plan: NativePlan, module: NativeModule) -> Iterator[tuple[int, int]]:
    """The operands of a step that its results may take the place of, with these."""
    match step:
        case Scattering(equation=equation) if step.updates and not _may_begin_again(step, plan):
            yield equation.operands[0], step.variable
        case Run(form=Loop() as form):
            body = module.function(step.programs[0])
            for carry in range(form.carried):
                place = form.shared + carry
                if body.in_place.get(carry) == place:
                    yield step.equation.operands[place], step.variable + carry


def _may_begin_again(step: Scattering, plan: NativePlan) -> bool:
    """Whether NumPy may do all of a scatter after some of its updates: from 2**63 on."""
    indices = [step.equation.operands[index.operand] for index in step.places.indices]
    return any(plan.specs[index].dtype == "u8" for index in indices)

"""Buffers that share memory: what a step changes in place, and what becomes of it.

A scatter whose operand nobody reads any more need not copy it, and neither does a loop whose carry
is only scattered into. Large results of elementwise operations lie where their operands lay. Where
the operand is an input of the function and the result an output, the caller chooses: it may pass
the same address for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from math import prod

from funcgrad._backends.native.arena import LARGE
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.plan_steps import NativePlan, Nest, Run, Scattering, Step
from funcgrad._backends.native.views import View, whole
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.structures import Loop


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
    candidates = plan.lives.keys() - guarded - outputs.keys()
    roots: dict[int, int] = {}
    in_place: dict[int, int] = {}
    for position, step in reversed([*enumerate(plan.steps)]):
        if isinstance(step, Nest):
            shared = _overwritten(step, plan, position, candidates)
            roots.update({buffer: roots.get(result, result) for buffer, result in shared})
            continue
        for operand, result in _replaced(step, plan, module):
            buffer = plan.views[operand].buffer
            if not plan.views[operand].covers(plan.specs[buffer].shape):
                continue
            is_read_again = last_read[buffer] > position or step.read(plan.views).count(buffer) > 1
            if is_read_again or buffer in outputs or buffer in guarded:
                continue
            root = roots.get(result, result)
            if buffer >= first_result:
                roots[buffer] = root
            elif buffer < inputs and root in outputs:
                in_place[outputs[root]] = buffer
    return Sharing(roots, in_place)


def _overwritten(
    nest: Nest, plan: NativePlan, position: int, candidates: Set[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of large buffers of a nest: a result may lie where an operand lies that ends there.

    Each element is read before it is overwritten, for both have elements of one size in one order.
    """
    plain = whole(0, nest.shape).broadcast(nest.shape)
    size = prod(nest.shape)

    def sizes(variable: int, view: View) -> tuple[int, int]:
        """The bytes of an element, and of the buffer."""
        dtype, spec = plan.specs[variable].dtype, plan.specs[view.buffer]
        return dtype.itemsize, prod(spec.shape) * spec.dtype.itemsize

    def is_plain(view: View) -> bool:
        return view.broadcast(nest.shape) == plain and not view.offset

    ending: dict[tuple[int, int], list[int]] = {}
    views = [view for view in nest.reads.values() if not is_plain(view)]
    elsewhere = {view.buffer for view in views}
    for variable, view in nest.reads.items():
        one, total = sizes(variable, view)
        if one * size == total >= LARGE and view.buffer in candidates:
            places = ending.setdefault((one, total), [])
            ends = plan.lives[view.buffer][1] == position
            if ends and view.buffer not in elsewhere and view.buffer not in places:
                places.append(view.buffer)
    folded = {member.variable for member in nest.members if member.folded is not None}
    for variable, view in nest.stores.items():
        begins = plan.lives[view.buffer][0] == position
        places = ending.get(sizes(variable, view), [])
        if places and begins and variable not in folded and is_plain(view):
            yield places.pop(0), view.buffer


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

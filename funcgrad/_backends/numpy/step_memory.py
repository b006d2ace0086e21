"""The memory of loops: each step writes its results into the memory of earlier steps.

After the first step a loop allocates nothing. Values that a step makes and reads are written where
the first step put them. A carry that shares its memory with nothing else is overwritten once
nothing reads it any more; if the next carry has to exist beside it, two buffers take turns. Stacked
outputs are written directly into their rows, if their operations can do that.

>>> import funcgrad as fg
>>> body = fg.program(lambda a, b: (b, a + b))(fg.tensor([1.0, 2.0]), fg.tensor([3.0, 4.0]))
>>> memory_of(body, 0, 2).sources  # the sum overwrites `a`, which nothing reads again
{0: 1, 1: 0}
>>> body = fg.program(lambda a: (fg.numpy.sin(a), fg.numpy.cos(a)))(fg.tensor([1.0, 2.0]))
>>> memory = memory_of(body, 0, 1)
>>> memory.spares, memory.turns(), memory.rows
({0: 1}, {0: 0}, {1: 2})
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from funcgrad._backends.numpy.fusion import BLOCK
from funcgrad._backends.numpy.plan import Plan, plan_of, takes_a_place
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.structures import Control
from funcgrad._programs.liveness import aliases, makes_its_own
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class StepMemory:
    """Where the results of a loop's body are stored.

    Attributes
    ----------
    body : Program
    shared : int
        The number of inputs before the carry.
    plan : Plan
        The body's plan.
    owned : set of int
        The carries (entries of the carry) that share their memory with nothing else.
    sources : mapping
        From an owned carry to the carry whose memory, of the previous step, it overwrites.
    spares : mapping
        From an owned carry that is made in a spare buffer to its variable.
    rows : mapping
        From an output that is made in its row of a stack to its variable.
    reused : frozenset of int
        The variables that are written where the previous step wrote them.
    """

    body: Program
    shared: int
    plan: Plan
    owned: AbstractSet[int]
    sources: Mapping[int, int]
    spares: Mapping[int, int]
    rows: Mapping[int, int]
    reused: frozenset[int]

    def turns(self) -> dict[int, int]:
        """For each carry with a spare buffer, the carry whose memory is the next spare buffer."""
        specs = self.body.inputs
        free = [k for k in sorted(self.owned) if k not in self.sources.values()]
        turns = {}
        for k in self.spares:
            spec = specs[self.shared + k]
            turns[k] = next(carry for carry in free if specs[self.shared + carry] == spec)
            free.remove(turns[k])
        return turns


def memory_of(body: Program, shared: int, carried: int, block: int = BLOCK) -> StepMemory:
    """Plan the memory of a loop.

    Parameters
    ----------
    body : Program
        A body without calls and formulas.
    shared, carried : int
        See ``Loop``.
    block : int
        See ``plan_of``.
    """
    if _is_foreign(body):  # a user's rule may store its arguments
        return StepMemory(body, shared, plan_of(body, block), set(), {}, {}, {}, frozenset())
    owned = _owned(body, shared, carried)
    plan = plan_of(body, block, [shared + k for k in owned])
    for variable in body.outputs[carried:]:  # a row is a better place than the memory of a carry
        _keep_off_inputs(plan, body, variable)
    places = _places(body, plan)
    sources, spares = {}, {}
    for k in owned:
        start = _start(plan, body, body.outputs[k])
        if start < len(body.inputs):
            sources[k] = start - shared
        elif start in places:
            spares[k] = start
    rows: dict[int, int] = {}
    for k in range(carried, len(body.outputs)):
        start = _start(plan, body, body.outputs[k])
        if start in places and start not in rows.values() and start not in spares.values():
            rows[k] = start
    outputs = {*body.outputs}
    leaving = {root for variable in outputs for root in aliases(body)[variable]}
    held = {_start(plan, body, variable) for variable in leaving}
    reused = frozenset(places - held)
    return StepMemory(body, shared, plan, owned, sources, spares, rows, reused)


def _is_foreign(program: Program) -> bool:
    """Whether a user's function runs in a program."""
    for equation in program.equations:
        structure = equation.operation.structure
        if equation.operation.is_foreign:
            return True
        if isinstance(structure, Control):
            runs = structure.runs(**dict(equation.params))
            if any(_is_foreign(inner) for inner, _ in runs):
                return True
    return False


def _owned(body: Program, shared: int, carried: int) -> set[int]:
    """The carries that share no memory with other values at any step, if they do not at first."""
    roots, makers = aliases(body), body.index.makers
    outputs = body.outputs[:carried]
    stacked = {*body.outputs[carried:]}
    readers: dict[int, set[int]] = {}
    for k, variable in enumerate(outputs):
        for root in roots[variable]:
            readers.setdefault(root, set()).add(k)
    owned = {k for k in range(carried) if body.inputs[shared + k].shape}

    def is_alone(k: int) -> bool:
        variable = outputs[k]
        root = roots[variable][0]
        if roots[variable] != (variable,) or readers[root] != {k}:
            return False
        if shared <= root < shared + carried:
            return root - shared in owned
        position = makers[root]
        if position < 0 or variable in stacked:
            return False
        return makes_its_own(body.equations[position].operation)

    def is_handed_on(k: int) -> bool:
        """Whether the step returns the carry at most once, unchanged; no output is a view of it."""
        positions = readers.get(shared + k, set())
        return all(outputs[other] == shared + k for other in positions) and len(positions) < 2

    while True:
        still_owned = {k for k in owned if is_alone(k) and is_handed_on(k)}
        if still_owned == owned:
            return still_owned
        owned = still_owned


def _start(plan: Plan, body: Program, variable: int) -> int:
    """The variable for which the memory of this one was allocated."""
    makers = body.index.makers
    while makers[variable] in plan.takes:
        variable = plan.takes[makers[variable]]
    return variable


def _keep_off_inputs(plan: Plan, body: Program, variable: int) -> None:
    """Change a plan so that a variable is not made in the memory of an input."""
    makers = body.index.makers
    while makers[variable] in plan.takes:
        variable, taker = plan.takes[makers[variable]], variable
        if variable < len(body.inputs):
            del plan.takes[makers[taker]]
            return


def _places(body: Program, plan: Plan) -> set[int]:
    """The arrays that equations outside of kernels can write into existing memory."""
    inside = {*plan.in_kernels}
    roots = aliases(body)
    places = set()
    for position, equation in enumerate(body.equations):
        variable = plan.firsts[position]
        if (
            position not in inside
            and position not in plan.takes
            and len(equation.results) == 1
            and equation.results[0].shape
            and takes_a_place(equation)
            and roots[variable] == (variable,)
        ):
            places.add(variable)
    return places

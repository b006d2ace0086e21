"""The plan of a program: its steps, where results lie in memory, and when they are dropped.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0) * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
>>> plan = plan_of(staged)
>>> plan.steps, plan.takes
([0, 1], {1: 3})
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod

import numpy as np

from funcgrad.backends.numpy.fusion import BLOCK, Kernel, Step, blocked_operands, is_total, steps
from funcgrad.backends.numpy.slots import Life, leaving, slots_of, takes_a_place
from funcgrad.primitive import Primitive
from funcgrad.programs.equation import Equation
from funcgrad.programs.liveness import Aliases, aliases, makes_its_own
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Contraction, Trait


@dataclass(frozen=True, slots=True)
class Plan:
    """How a program runs.

    Attributes
    ----------
    specs : sequence of Spec
        Of each variable.
    firsts : list of int
        The first variable that each equation defines.
    steps : list of int or Kernel
    ends : list of int
        For each variable the last step that reads it; -1 if none does, and for an output the number
        of steps.
    takes : dict
        For the position of an equation the operand whose memory its result takes: an array of its
        shape and dtype that nothing reads any more. Within kernels, blocks are taken likewise.
    homes : dict
        For variables of kernels whose blocks become blocks of one that is read outside, by taking
        their memory: that variable, in whose place they are made.
    outside : frozenset of int
        Of the variables that kernels define those that are read outside of them.
    slots : mapping
        For large intermediate results the slot of memory that they lie in; see ``slots_of``.
    leaving : frozenset of int
        Large results that are returned, or whose memory a returned result has taken.
    """

    specs: Sequence[Spec]
    firsts: list[int]
    steps: list[Step]
    ends: list[int]
    takes: dict[int, int]
    homes: dict[int, int]
    outside: frozenset[int]
    slots: Mapping[int, int]
    leaving: frozenset[int]


def is_plain_ufunc(operation: Primitive) -> bool:
    """Whether an operation is an elementwise function of NumPy's, which takes an array for its
    result after its arguments."""
    return isinstance(operation.evaluate, np.ufunc) and operation.evaluate.signature is None


def plan_of(program: Program, block: int = BLOCK, owned: Collection[int] = ()) -> Plan:
    """The plan of a program, with kernels over blocks of ``block`` bytes.

    The memory of inputs that are ``owned`` may be taken over.
    """
    specs = program.specs()
    firsts = [results.start for results in program.index.results]
    order = steps(program, block)
    ends = _ends(program, firsts, order)
    shared = aliases(program)
    outside = frozenset(_outside(program, firsts, order, ends))
    takes: dict[int, int] = {}
    homes: dict[int, int] = {}
    moments = _moments(program, order, ends, shared, owned)
    for step in order:
        members = (step,) if isinstance(step, int) else step.members
        kernel = None if isinstance(step, int) else step
        for position in members:
            operand = _taken(program.equations[position], position, kernel, specs, shared, moments)
            if operand is None:
                continue
            if kernel is None:
                takes[position] = operand
            elif moments.makers[operand] in kernel.members:
                if firsts[position] not in outside:
                    takes[position] = operand
                    continue
                # Its place is in the whole result; so it is for what it could take the memory of.
                while moments.makers[operand] in takes:
                    operand = takes[moments.makers[operand]]
                if operand not in outside and is_plain_ufunc(
                    program.equations[moments.makers[operand]].operation
                ):
                    homes[operand] = firsts[position]
    lives = _lives(program, specs, firsts, order, takes, outside, shared, moments)
    slots = slots_of(lives, len(order), block)
    left = leaving(lives, len(order), block)
    return Plan(specs, firsts, order, ends, takes, homes, outside, slots, left)


def _lives(
    program: Program,
    specs: Sequence[Spec],
    firsts: Sequence[int],
    order: Sequence[Step],
    takes: Mapping[int, int],
    outside: frozenset[int],
    shared: Aliases,
    moments: _Moments,
) -> list[Life]:
    """The lives of the results that can be written into given memory; a kernel is one moment."""
    numbers = [n for n, s in enumerate(order) for _ in ((s,) if isinstance(s, int) else s.members)]
    numbers.append(len(order))
    taker = {operand: firsts[position] for position, operand in takes.items()}
    foreign = {
        operand
        for equation in program.equations
        if equation.operation.is_foreign
        for operand in equation.operands
    }  # who knows what a user's rule keeps
    lives = []
    for number, step in enumerate(order):
        for position in (step,) if isinstance(step, int) else step.members:
            equation, variable = program.equations[position], firsts[position]
            fits = takes_a_place(equation, is_plain_ufunc(equation.operation))
            if isinstance(step, Kernel):
                fits = variable in outside and not is_total(equation, step)
            if not fits or position in takes or shared[variable] != (variable,):
                continue
            heirs = [variable]
            while heirs[-1] in taker:
                heirs.append(taker[heirs[-1]])
            if not foreign.isdisjoint(heirs):
                continue
            end = max(numbers[moments.gone[heir]] for heir in heirs)
            lives.append(Life(variable, specs[variable], number, max(end, number)))
    return lives


def _ends(program: Program, firsts: Sequence[int], order: Sequence[Step]) -> list[int]:
    ends = [-1] * len(program.specs())
    for number, step in enumerate(order):
        for position in (step,) if isinstance(step, int) else step.members:
            equation = program.equations[position]
            for operand in equation.operands:
                ends[operand] = number
            for variable in range(firsts[position], firsts[position] + len(equation.results)):
                ends[variable] = max(ends[variable], number)
    for variable in program.outputs:
        ends[variable] = len(order)
    return ends


def _outside(
    program: Program, firsts: Sequence[int], order: Sequence[Step], ends: Sequence[int]
) -> set[int]:
    outside = {*program.index.guarded, *program.outputs}
    home = {p: n for n, step in enumerate(order) if isinstance(step, Kernel) for p in step.members}
    makers = {firsts[position]: number for position, number in home.items()}
    for position, equation in enumerate(program.equations):
        for operand in equation.operands:
            if operand in makers and home.get(position) != makers[operand]:
                outside.add(operand)
    return outside & makers.keys()


@dataclass(frozen=True, slots=True)
class _Moments:
    """The times at which variables are made and dropped, counted in equations as they run.

    ``made`` is when the equation of a variable runs, and ``gone`` when the last one runs that reads
    any variable which may share its memory.
    """

    when: dict[int, int]
    makers: Sequence[int]
    gone: list[int]
    inner: list[bool]


def _moments(
    program: Program,
    order: Sequence[Step],
    ends: Sequence[int],
    shared: Aliases,
    given_up: Collection[int],
) -> _Moments:
    positions = [p for s in order for p in ((s,) if isinstance(s, int) else s.members)]
    when = {position: moment for moment, position in enumerate(positions)}
    makers = program.index.makers
    last = [-1] * len(makers)
    for position in positions:
        for operand in program.equations[position].operands:
            last[operand] = when[position]
    for variable in program.outputs:
        last[variable] = len(positions)
    gone = list(last)
    for variable, roots in enumerate(shared):
        for root in roots:
            gone[root] = max(gone[root], last[variable])
    owned = [position >= 0 and _is_given_up(program.equations[position]) for position in makers]
    for variable in given_up:
        owned[variable] = True
    return _Moments(when, makers, gone, owned)


def _is_given_up(equation: Equation) -> bool:
    """Whether a result's memory may be taken over by a later result that is computed from it.

    Not so for a product that cannot be written into given memory. Its memory is fresh at each call;
    if it is freed early, the next product gets it. Kept longer, it goes back to the system, which
    gives it anew, page by page (a mixture of Gaussians took 1.6 times as long).
    """
    operation = equation.operation
    if not makes_its_own(operation):
        return False
    is_product = isinstance(operation.structure, Contraction)
    return not is_product or Trait.WRITES_INTO in operation.traits


def _taken(
    equation: Equation,
    position: int,
    kernel: Kernel | None,
    specs: Sequence[Spec],
    shared: Aliases,
    moments: _Moments,
) -> int | None:
    """The operand whose memory the result of an equation may take."""
    if not is_plain_ufunc(equation.operation) or not equation.results[0].shape:
        return None
    result = equation.results[0]
    if result.dtype.kind == "c" and prod(result.shape) == 1:
        return None  # NumPy rounds a single complex product otherwise when it is put over a factor
    flags = blocked_operands(equation, specs, kernel.rows) if kernel else ()
    for k, operand in enumerate(equation.operands):
        spec = specs[operand]
        if (
            moments.inner[operand]
            and spec.shape == result.shape
            and spec.dtype == result.dtype
            and shared[operand] == (operand,)
            and moments.gone[operand] == moments.when[position]
            and (kernel is None or kernel.flat or flags[k])
        ):
            return operand
    return None

"""The plan of a program: its steps, where results are stored, and when they are dropped.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0) * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
>>> plan = plan_of(staged)
>>> plan.steps, plan.takes
([0, 1], {1: 3})
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

import numpy as np

from funcgrad._backends.numpy.fusion import BLOCK, Kernel, Step, members_of, steps
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Contraction, Trait
from funcgrad._programs.equation import Equation
from funcgrad._programs.liveness import Aliases, aliases, makes_its_own
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of a program's steps and the memory of their results.

    Attributes
    ----------
    specs : sequence of Spec
        Specs by variable.
    firsts : list of int
        For each equation, the first variable that it defines.
    steps : list of int or Kernel
    ends : list of int
        For each variable, the last step that makes or reads it; -1 if there is none, and for an
        output the number of steps.
    takes : dict
        From the position of an equation to the operand that its result overwrites: an array of the
        result's shape and dtype that nothing reads any more. Within kernels this holds for blocks.
    outside : frozenset of int
        The variables defined in kernels that are read outside of them.
    """

    specs: Sequence[Spec]
    firsts: list[int]
    steps: list[Step]
    ends: list[int]
    takes: dict[int, int]
    outside: frozenset[int]

    @property
    def in_kernels(self) -> list[int]:
        """The positions of the equations that run in kernels."""
        return [p for step in self.steps if isinstance(step, Kernel) for p in step.members]


def is_plain_ufunc(operation: Primitive) -> bool:
    """Whether an operation is an elementwise ufunc, whose call accepts an array for the result."""
    return isinstance(operation.evaluate, np.ufunc) and operation.evaluate.signature is None


def takes_a_place(equation: Equation) -> bool:
    """Whether an equation can be evaluated into existing memory, as by ``out=``."""
    is_stack = Trait.WRITES_INTO in equation.operation.traits and len(equation.results[0].shape) > 1
    return is_stack or is_plain_ufunc(equation.operation)


def plan_of(program: Program, block: int = BLOCK, owned: Collection[int] = ()) -> Plan:
    """Plan a program, with kernels over blocks of ``block`` bytes.

    Results may overwrite the inputs that are ``owned``.
    """
    specs = program.specs()
    firsts = [results.start for results in program.index.results]
    order = steps(program, block)
    ends = _ends(program, firsts, order)
    shared = aliases(program)
    outside = frozenset(_outside(program, firsts, order))
    takes: dict[int, int] = {}
    moments = _moments(program, order, shared, owned)
    for step in order:
        for position in members_of(step):
            operand = _taken(program.equations[position], position, specs, shared, moments)
            if operand is None:
                continue
            # In a kernel a block may overwrite a block of a result that is not needed as a whole.
            is_alone = isinstance(step, int)
            is_inside = moments.makers[operand] in members_of(step)
            if is_alone or (is_inside and firsts[position] not in outside):
                takes[position] = operand
    return Plan(specs, firsts, order, ends, takes, outside)


def _ends(program: Program, firsts: Sequence[int], order: Sequence[Step]) -> list[int]:
    ends = [-1] * len(program.specs())
    for number, step in enumerate(order):
        for position in members_of(step):
            equation = program.equations[position]
            for operand in equation.operands:
                ends[operand] = number
            for variable in range(firsts[position], firsts[position] + len(equation.results)):
                ends[variable] = max(ends[variable], number)
    for variable in program.outputs:
        ends[variable] = len(order)
    return ends


def _outside(program: Program, firsts: Sequence[int], order: Sequence[Step]) -> set[int]:
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
    """The times at which variables are made and last read, counted in equations as they run.

    Attributes
    ----------
    when : dict
        The time at which the equation at a position runs.
    makers : sequence of int
        The position of the equation that makes each variable.
    last_reads : list of int
        For each variable, the last time that it or a variable sharing its memory is read.
    owned : list of bool
        Whether a result may overwrite the variable once it is not read any more.
    """

    when: dict[int, int]
    makers: Sequence[int]
    last_reads: list[int]
    owned: list[bool]


def _moments(
    program: Program,
    order: Sequence[Step],
    shared: Aliases,
    owned_inputs: Collection[int],
) -> _Moments:
    positions = [position for step in order for position in members_of(step)]
    when = {position: moment for moment, position in enumerate(positions)}
    makers = program.index.makers
    last = [-1] * len(makers)
    for position in positions:
        for operand in program.equations[position].operands:
            last[operand] = when[position]
    for variable in program.outputs:
        last[variable] = len(positions)
    last_reads = list(last)
    for variable, roots in enumerate(shared):
        for root in roots:
            last_reads[root] = max(last_reads[root], last[variable])
    owned = [position >= 0 and _may_be_taken(program.equations[position]) for position in makers]
    for variable in owned_inputs:
        owned[variable] = True
    return _Moments(when, makers, last_reads, owned)


def _may_be_taken(equation: Equation) -> bool:
    """Whether a later result that is computed from an equation's result may overwrite it.

    Products that cannot be written into existing memory are not overwritten: each allocates its
    result, and gets the memory of the previous product if that was freed early. Otherwise the
    memory returns to the system, which hands it out again page by page (a mixture of Gaussians
    took 1.6 times as long).
    """
    operation = equation.operation
    if not makes_its_own(operation):
        return False
    is_product = isinstance(operation.structure, Contraction)
    return not is_product or Trait.WRITES_INTO in operation.traits


def _taken(
    equation: Equation,
    position: int,
    specs: Sequence[Spec],
    shared: Aliases,
    moments: _Moments,
) -> int | None:
    """The operand that the result of an equation may overwrite; None if there is none."""
    if not is_plain_ufunc(equation.operation) or not equation.results[0].shape:
        return None
    result = equation.results[0]
    if result.dtype.kind == "c" and prod(result.shape) == 1:
        return None  # NumPy rounds a single complex product differently if it overwrites a factor
    for operand in equation.operands:
        spec = specs[operand]
        if (
            moments.owned[operand]
            and spec.shape == result.shape
            and spec.dtype == result.dtype
            and shared[operand] == (operand,)
            and moments.last_reads[operand] == moments.when[position]
        ):
            return operand
    return None

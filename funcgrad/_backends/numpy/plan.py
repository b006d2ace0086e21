"""Plan a program's memory: which results overwrite an operand, and when arrays are deleted.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0) * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
>>> plan_of(staged).takes  # the product overwrites the sum
{1: 3}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Contraction, Trait
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory of a program's results.

    Attributes
    ----------
    specs : sequence of Spec
        Specs by variable.
    ends : list of int
        For each variable, the position of the last equation that makes or reads it. It is -1 if
        there is none, and the number of equations for an output.
    takes : dict
        From the position of an equation to the variable that its result overwrites: an array of the
        same shape and dtype that is not read again.
    reused : sequence of int
        In the body of a loop, the results that a step writes into the memory of an earlier step.
    turns : mapping
        In the body of a loop, from a carry to the reused result that becomes the next carry. The
        two exchange their memory after each step.
    """

    specs: Sequence[Spec]
    ends: list[int]
    takes: dict[int, int]
    reused: Sequence[int] = ()
    turns: Mapping[int, int] = field(default_factory=dict)


def aliases(program: Program) -> list[tuple[int, ...]]:
    """For each variable, the variables that own the memory it may use.

    >>> import funcgrad as fg
    >>> staged = fg.program(lambda x: (x + 1.0)[1:] * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
    >>> aliases(staged)  # x, two constants, the sum, a view of it, the product
    [(0,), (1,), (2,), (3,), (3,), (5,)]
    """
    makers: list[tuple[int, ...]] = [(k,) for k in range(program.index.first_result)]
    for equation in program.equations:
        shared: set[int] = set()
        if not equation.operation.owns:  # a reshape or an index may return a view of its operand
            shared.update(*[makers[variable] for variable in equation.operands])
        for _ in equation.results:
            makers.append(tuple(sorted(shared)) or (len(makers),))
    return makers


def plan_of(program: Program, owned: Collection[int] = (), pooled: bool = False) -> Plan:
    """Plan the memory of a program.

    Parameters
    ----------
    program : Program
    owned : collection of int
        The inputs that may be overwritten.
    pooled : bool
        Whether a result may overwrite any array that is not read again, not only an operand. The
        array is kept until then. So this is for loops, which keep it for the next step anyway.
    """
    specs, shared, index = program.specs(), aliases(program), program.index
    ends = [-1] * len(specs)
    for position, equation in enumerate(program.equations):
        for variable in (*equation.operands, *index.results[position]):
            ends[variable] = position
    for variable in program.outputs:
        ends[variable] = len(program.equations)
    last_reads = list(ends)  # reads of the memory, by any variable that shares it
    for variable, roots in enumerate(shared):
        for root in roots:
            last_reads[root] = max(last_reads[root], ends[variable])
    may_be_taken = [
        v in owned or (maker >= 0 and shared[v] == (v,) and _may_be_taken(program.equations[maker]))
        for v, maker in enumerate(index.makers)
    ]
    takes: dict[int, int] = {}
    free: dict[tuple[Any, ...], list[int]] = {}  # by shape and dtype
    for position, equation in enumerate(program.equations):
        operands = dict.fromkeys(equation.operands)
        dead = [v for v in operands if may_be_taken[v] and last_reads[v] == position]
        result = equation.results[0]
        kind = result.shape, result.dtype
        places = [v for v in dead if (specs[v].shape, specs[v].dtype) == kind]
        if places and _takes_memory(equation):
            takes[position] = places[0]
        elif free.get(kind) and _writes_into(equation):
            takes[position] = free[kind].pop()
        for v in dead if pooled else ():
            if v != takes.get(position):
                free.setdefault((specs[v].shape, specs[v].dtype), []).append(v)
    return Plan(specs, ends, takes)


def plan_of_steps(body: Program, shared: int, carried: int) -> Plan:
    """Plan the memory of a loop's body, whose carry is made of the inputs after the shared ones.

    If a step makes the next carry, and no other carry shares its memory, the step may overwrite the
    present carry (the first is a copy), or leave its memory to the carry after the next. A result
    that is not carried is written where the step before wrote it. Stacks get copies.

    >>> import funcgrad as fg
    >>> step = fg.program(lambda x: fg.numpy.tanh(x) + 0.1 * x)(fg.tensor([1.0, 2.0]))
    >>> plan = plan_of_steps(step, 0, 1)
    >>> plan.takes, plan.reused, plan.turns  # 0.1 * x overwrites x, and the sum the tanh
    ({1: 0, 2: 2}, [2], {0: 2})
    """
    roots, makers = aliases(body), body.index.makers
    next_carry = body.outputs[:carried]
    leaving = Counter(root for variable in next_carry for root in roots[variable])
    owned = [
        shared + k
        for k, variable in enumerate(next_carry)
        if makers[variable] >= 0 and roots[variable] == (variable,) and leaving[variable] == 1
    ]
    plan = plan_of(body, owned, pooled=True)

    def start(variable: int) -> int:
        """The variable for which the memory of this one was allocated."""
        while makers[variable] in plan.takes:
            variable = plan.takes[makers[variable]]
        return variable

    held = {start(root) for root in leaving}
    places = [
        results.start
        for position, results in enumerate(body.index.results)
        if position not in plan.takes and _writes_into(body.equations[position])
    ]
    turns = {v: start(body.outputs[v - shared]) for v in owned if v not in held}
    turns = {v: variable for v, variable in turns.items() if variable in places}
    reused = [v for v in places if v not in held or v in turns.values()]
    return replace(plan, reused=reused, turns=turns)


def _takes_memory(equation: Equation) -> bool:
    """Whether an equation is an elementwise ufunc on arrays, which can overwrite an operand."""
    evaluate, result = equation.operation.evaluate, equation.results[0]
    if not isinstance(evaluate, np.ufunc) or evaluate.signature is not None or not result.shape:
        return False
    # NumPy rounds a single complex product differently if it overwrites a factor.
    return result.dtype.kind != "c" or prod(result.shape) != 1


def _writes_into(equation: Equation) -> bool:
    """Whether an equation is a ufunc, or a product, that can write into any array."""
    is_product = equation.operation.evaluate is np.matmul and bool(equation.results[0].shape)
    return is_product or _takes_memory(equation)


def _may_be_taken(equation: Equation) -> bool:
    """Whether a later result may overwrite an equation's result.

    Products that cannot write into existing memory are not overwritten. Each allocates its result,
    and gets the memory of the previous product if that was freed early. Otherwise the memory
    returns to the system, which hands it out again page by page: a mixture of Gaussians took 1.6
    times as long.
    """
    operation = equation.operation
    is_product = isinstance(operation.structure, Contraction)
    return operation.owns and (not is_product or Trait.WRITES_INTO in operation.traits)

"""The plan of a program's memory: which results overwrite an operand, and when arrays are dropped.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0) * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
>>> plan_of(staged).takes  # the product overwrites the sum
{1: 3}
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Contraction, Trait
from funcgrad._programs.equation import Equation
from funcgrad._programs.liveness import aliases
from funcgrad._programs.program import Program


@dataclass(frozen=True, slots=True)
class Plan:
    """The memory of a program's results.

    Attributes
    ----------
    specs : sequence of Spec
        Specs by variable.
    ends : list of int
        For each variable, the position of the last equation that makes or reads it; -1 if there is
        none, and for an output the number of equations.
    takes : dict
        From the position of an equation to the operand that its result overwrites: an array of the
        result's shape and dtype that nothing reads any more.
    """

    specs: Sequence[Spec]
    ends: list[int]
    takes: dict[int, int]


def plan_of(program: Program) -> Plan:
    """Plan the memory of a program."""
    specs, shared, index = program.specs(), aliases(program), program.index
    ends = [-1] * len(specs)
    for position, equation in enumerate(program.equations):
        for variable in (*equation.operands, *index.results[position]):
            ends[variable] = position
    for variable in program.outputs:
        ends[variable] = len(program.equations)
    last_reads = list(ends)  # of the memory, which other variables may share
    for variable, roots in enumerate(shared):
        for root in roots:
            last_reads[root] = max(last_reads[root], ends[variable])
    may_be_taken = [
        maker >= 0 and shared[v] == (v,) and _may_be_taken(program.equations[maker])
        for v, maker in enumerate(index.makers)
    ]
    takes: dict[int, int] = {}
    for position, equation in enumerate(program.equations):
        if not _takes_memory(equation):
            continue
        result = equation.results[0]
        for operand in equation.operands:
            same = specs[operand].shape == result.shape and specs[operand].dtype == result.dtype
            if same and may_be_taken[operand] and last_reads[operand] == position:
                takes[position] = operand
                break
    return Plan(specs, ends, takes)


def _takes_memory(equation: Equation) -> bool:
    """Whether an equation is an elementwise ufunc on arrays, which can overwrite an operand."""
    evaluate, result = equation.operation.evaluate, equation.results[0]
    if not isinstance(evaluate, np.ufunc) or evaluate.signature is not None or not result.shape:
        return False
    # NumPy rounds a single complex product differently if it overwrites a factor.
    return result.dtype.kind != "c" or prod(result.shape) != 1


def _may_be_taken(equation: Equation) -> bool:
    """Whether a later result that is computed from an equation's result may overwrite it.

    Products that cannot be written into existing memory are not overwritten: each allocates its
    result, and gets the memory of the previous product if that was freed early. Otherwise the
    memory returns to the system, which hands it out again page by page (a mixture of Gaussians
    took 1.6 times as long).
    """
    operation = equation.operation
    is_product = isinstance(operation.structure, Contraction)
    return operation.owns and (not is_product or Trait.WRITES_INTO in operation.traits)

"""All passes at once, until nothing changes any more.

>>> import funcgrad as fg
>>> print(optimize(fg.program(fg.grad(lambda x: x * x))(2.0)).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply a x
  c: float64[] = add b b
  return c
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, TypeAlias

from funcgrad.passes.contractions import CONTRACTING
from funcgrad.passes.fold import FOLDING
from funcgrad.passes.identity import copy_products_with_identities
from funcgrad.passes.relax import RELAXED
from funcgrad.passes.schedule import schedule
from funcgrad.passes.simplify import ALGEBRA
from funcgrad.passes.sink import SINKING
from funcgrad.passes.unread import leave_out_unread
from funcgrad.passes.workbench import Rules, improve, joined
from funcgrad.programs.program import Program

Pass: TypeAlias = Callable[[Program], Program]

_EXACT: Final[Rules] = joined(ALGEBRA, FOLDING, SINKING)
_ALL: Final[Rules] = joined(_EXACT, CONTRACTING)
_RELAXED: Final[Rules] = joined(_EXACT, RELAXED, CONTRACTING)


def simplified(program: Program) -> Program:
    """A program that means the same to the bit, by the rules that do not reorder sums."""
    return improve(program, _EXACT)


def optimize(
    program: Program, relaxed: bool = False, more: Rules = MappingProxyType({})
) -> Program:
    """A program that means the same and does less.

    Parameters
    ----------
    program : Program
    relaxed : bool
        Whether results may differ in their last digits, by what `funcgrad.passes.relax` says.
    more : mapping, optional
        Rules besides, which are tried last.

    Returns
    -------
    Program
        With the inputs, outputs and guards of the other. Sums, and so matrix products, may be added
        up in another order where that saves work on large arrays. Unless relaxed, all else has
        the bits that it had.

    Notes
    -----
    First loops and branches lose the results that nothing reads. The rules of all passes are tried
    on each equation in turn, which also merges equal equations and drops those that nothing reads.
    That is repeated until nothing changes, which takes one round or two; after a few it stops in
    any case. Then products with identity matrices become copies, and last the equations are put in
    an order that needs less memory.
    """
    program = leave_out_unread(program)
    program = improve(program, joined(_RELAXED if relaxed else _ALL, more))
    return schedule(copy_products_with_identities(program))


def extended(program: Program, relaxed: bool, more: Rules) -> Program:
    """An optimized program, changed by more rules, and by all where these made changes."""
    return improve(program, joined(_RELAXED if relaxed else _ALL, more), more)

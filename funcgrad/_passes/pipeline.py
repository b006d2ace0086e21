"""Apply all passes until nothing changes.

>>> import funcgrad as fg
>>> print(optimize(fg.program(fg.grad(lambda x: x * x))(2.0)).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply a x
  c: float64[] = add b b
  return c
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from funcgrad._passes.contractions import CONTRACTING
from funcgrad._passes.dead_code import leave_out_unread
from funcgrad._passes.few_of_order import SELECTING
from funcgrad._passes.fold import FOLDING
from funcgrad._passes.identity import copy_products_with_identities
from funcgrad._passes.relax import RELAXED
from funcgrad._passes.schedule import schedule
from funcgrad._passes.simplify import ALGEBRA
from funcgrad._passes.sink import SINKING
from funcgrad._passes.trials_of_passes import tried
from funcgrad._passes.workbench import Rules, improve, joined
from funcgrad._programs.program import Program

_EXACT: Final[Rules] = joined(ALGEBRA, FOLDING, SINKING, SELECTING)
_ALL: Final[Rules] = joined(_EXACT, CONTRACTING)
_RELAXED: Final[Rules] = joined(_EXACT, RELAXED, CONTRACTING)


def simplified(program: Program) -> Program:
    """Apply the rules that keep every bit and do not reorder sums."""
    return tried(improve, program, _EXACT)


def optimize(
    program: Program, relaxed: bool = False, more: Rules = MappingProxyType({})
) -> Program:
    """Rewrite a program to one with the same results and less work.

    Parameters
    ----------
    program : Program
    relaxed : bool
        Whether results may differ in their last digits, within the bounds in ``relax.py``.
    more : mapping, optional
        Additional rules, which are tried last.

    Returns
    -------
    Program
        A program with the same inputs, outputs and guards. The terms of sums, and so of matrix
        products, may be added in another order if that saves work on large arrays. Unless relaxed,
        all other results stay equal to the last bit.

    Notes
    -----
    First, loops and branches lose unread results. Then the rules of all passes are tried on each
    equation in turn; this also merges equal equations and drops unread ones. It is repeated until
    nothing changes, mostly once or twice. Then products with identity matrices become copies, and
    finally the equations are put in an order that needs less memory.
    """
    program = tried(leave_out_unread, program)
    rules = _RELAXED if relaxed else _ALL
    program = tried(improve, program, joined(rules, more) if more else rules, not relaxed)
    return tried(schedule, tried(copy_products_with_identities, program))


def extended(program: Program, relaxed: bool, more: Rules) -> Program:
    """Apply more rules to an optimized program, and all rules to the equations that they change."""

    def improve_again(program: Program, rules: Rules) -> Program:
        return improve(program, rules, more)

    return tried(improve_again, program, joined(_RELAXED if relaxed else _ALL, more), False)

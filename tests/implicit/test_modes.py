"""Solutions have the derivatives of their closed forms, in every mode and by every solver."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from tests.implicit.subjects import MODES, SOLUTIONS, Function, X
from tests.together import together

LONG = (
    *("jvp of jit", "reverse over reverse", "reverse over forward", "jit of hessian"),
    *("jit of vmap of grad", "a loop in a program"),
)
"""Modes that take longest, which solutions have in turn."""
TRIED = [
    (kind, mode)
    for turn, kind in enumerate(SOLUTIONS)
    for mode in MODES
    if mode not in LONG or (turn + LONG.index(mode)) % 2
]


@pytest.mark.slow
@together(("kind", "mode"), TRIED, pieces=2)
def test_a_solution_is_differentiated_as_its_closed_form_is(kind: str, mode: str) -> None:
    solution, closed_form = SOLUTIONS[kind]
    wanted = of_closed_form(closed_form, mode)
    np.testing.assert_allclose(MODES[mode](solution, X), wanted, rtol=1e-6, atol=1e-8)


@cache
def of_closed_form(closed_form: Function, mode: str) -> Any:
    """The derivative of a closed form; several solutions have the same one."""
    return MODES[mode](closed_form, X)


@pytest.mark.parametrize("kind", ["a loop", "custom_root"])
def test_derivatives_of_the_third_order(kind: str) -> None:
    def third(f):
        return fg.jacfwd(fg.jacrev(fg.jacfwd(f)))(X)

    solution, closed_form = SOLUTIONS[kind]
    np.testing.assert_allclose(third(solution), third(closed_form), rtol=1e-7, atol=1e-9)

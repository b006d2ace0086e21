"""The NumPy source of a program is a module that runs wherever it is pasted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.trace import concrete
from funcgrad._passes.pipeline import optimize
from tests.subjects import SUBJECTS, assert_bits
from tests.together import together


def pasted(program: fg.Program, text: str) -> Callable[..., Any]:
    """The function of a text in a module of its own."""
    module: dict[str, Any] = {}
    exec(text, module)
    constants = program.numpy_constants()
    if constants:
        return module["with_constants"](constants)
    assert "with_constants" not in module
    functions = [each for each in module.values() if getattr(each, "__globals__", 0) is module]
    (function,) = functions
    return function


@together("lines", [False, True])
@together("name", SUBJECTS)
def test_the_text_of_every_program_runs_when_it_is_pasted(name: str, lines: bool) -> None:
    program = SUBJECTS[name].staged()
    values = [concrete(leaf) for leaf in fg.tree.leaves(SUBJECTS[name].args)]
    for each in (program, optimize(program)):
        with np.errstate(all="ignore"):
            found = pasted(each, each.to_numpy_source(lines))(*values)
            assert_bits(list(found), list(each.evaluate(values)))


def test_a_text_says_what_it_is_to_be_given() -> None:
    table, small = np.arange(1000.0), np.arange(3.0)
    program = fg.program(lambda x: fnp.sum(x * table) + fnp.sum(small))(table)
    text = program.to_numpy_source()
    assert "def with_constants(constants):" in text
    assert "program.numpy_constants()" in text
    (constant,) = program.numpy_constants()
    assert np.shares_memory(constant, program.constants[0].value)
    assert_bits(list(pasted(program, text)(table)), program.evaluate([table]))
    assert fg.program(fnp.sin)(1.0).numpy_constants() == ()


def test_the_source_of_what_is_lowered_runs_when_it_is_pasted() -> None:
    table = np.arange(1000.0)
    lowered = fg.jit(lambda x: fnp.sum(fnp.sin(x) * table)).lower(table)
    found = pasted(lowered.optimized, lowered.source)(table)
    assert_bits(list(found), lowered.optimized.evaluate([table]))

"""A program that is appended to one without numbers stands there as if it had been evaluated."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied, flat_program
from funcgrad.errors import TracerError
from tests.control.nests import LIBRARY, Nest, function_of, nests
from tests.subjects import SUBJECTS
from tests.together import together


def check(program: Program) -> None:
    """Compare what is appended with what evaluating stages, operation by operation."""
    staged = flat_program("appended", lambda values: applied(program, values), program.inputs)
    assert staged == flat_program("appended", program.evaluate, program.inputs)
    assert staged.to_text() == flat_program("appended", program.evaluate, program.inputs).to_text()


@together("name", SUBJECTS)
def test_subjects(name: str) -> None:
    program = SUBJECTS[name].staged()
    with suppress(TracerError):  # where a number is looked at
        check(program)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(nests(2))
def test_loops_and_branches(nest: Nest) -> None:
    gradient = fg.grad(function_of(nest, LIBRARY), (0, 1, 2))
    check(fg.program(gradient)(fnp.ones(2), fnp.ones(2), fg.tensor(0.5)))


ODD: dict[str, Any] = {
    "a result that is an argument": lambda x, y: (y, x),
    "a result that is a constant": lambda x, y: (2.0, x * 2.0, np.arange(2.0)),
    "a constant twice": lambda x, y: (x * 2.0, 2.0 + y),
    "a checkpoint": lambda x, y: fg.checkpoint(lambda x: fnp.sin(x) * y)(x),
    "a run done again": lambda x, y: fg.grad(fg.checkpoint(lambda x: fnp.sin(x) * y))(x),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_programs(name: str) -> None:
    check(fg.program(ODD[name])(fg.tensor(2.0), fg.tensor(3.0)))


def test_values_of_another_kind_are_staged_one_by_one() -> None:
    program = fg.program(lambda x: x * 2.0)(fg.tensor(3.0))
    specs = fg.program(lambda x: x)(np.float32(3.0)).inputs
    staged = flat_program("single", lambda values: applied(program, values), specs)
    assert [str(spec) for spec in staged.results(*specs)] == ["float32[]"]

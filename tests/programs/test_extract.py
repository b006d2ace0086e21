"""Parts of programs, and programs that take their inputs from longer lists of arguments."""

from __future__ import annotations

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.specs import Spec
from funcgrad._programs.extract import extract, rewired
from tests.subjects import assert_bits

F8 = np.dtype(np.float64)


def test_a_program_reads_its_inputs_among_others() -> None:
    program = fg.program(lambda x, y: (fnp.sin(x) - 2.0 * y, y, 3.0))(1.0, fnp.ones(2))
    specs = [Spec((3,), F8), program.inputs[1], Spec((), F8), program.inputs[0]]
    moved = rewired(program, specs, [3, 1]).verify()
    assert moved.inputs == tuple(specs)
    x, y = 0.5, np.array([1.0, -2.0])
    assert_bits(moved.evaluate([np.zeros(3), y, np.float64(7.0), x]), program.evaluate([x, y]))
    back = extract(moved, [3, 1], moved.outputs)
    assert_bits(back.evaluate([x, y]), program.evaluate([x, y]))


def test_one_input_may_be_read_twice() -> None:
    program = fg.program(lambda x, y: x * y)(fg.tensor(1.0), fg.tensor(2.0))
    assert rewired(program, program.inputs[:1], [0, 0]).verify().evaluate([3.0]) == [9.0]


def test_guards_go_along() -> None:
    program = fg.program(lambda x, y: x if y > 0 else -x)(fg.tensor(1.0), fg.tensor(2.0))
    moved = rewired(program, [*program.inputs, Spec((), F8)], [2, 0]).verify()
    assert len(moved.guards) == len(program.guards) == 1
    assert moved.evaluate([2.0, 5.0, 3.0]) == [3.0]

"""A file can name every primitive: each is among the public names of its module."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
from tests.conformance import Case, every_case, every_primitive

FIRST = {case.primitive.name: case for case in reversed([*every_case(every_primitive())])}


@pytest.mark.parametrize("case", FIRST.values(), ids=str)
def test_every_primitive_is_written_and_read(case: Case) -> None:
    with np.errstate(all="ignore"):
        program = fg.program(case.function())(*case.args)
        restored = pickle.loads(pickle.dumps(program))
        assert restored == program
        assert_array_equal(restored(*case.args), program(*case.args))

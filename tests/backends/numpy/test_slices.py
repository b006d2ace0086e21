"""Which parts of one row of an array operations take, found from their index maps."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.backends.numpy.slices import Slice, Slices

KEYS = [
    (),
    *[(entry,) for entry in np.s_[1, -1, 1:, :0:-1, ::2, ::-2, 1:2, None]],
    *[(slice(None), entry) for entry in np.s_[0, 1:, ::-1, 3:0:-2, None]],
    np.s_[1:, ::2],
    np.s_[::-1, ::-1],
    np.s_[..., -1],
    np.s_[0, None, 2:],
]


def slice_of(f: Any, x: Any) -> Slice | None:
    """What the only result of a function is of its argument."""
    program = fg.program(f)(x)
    assert len(program.equations) == 1
    return Slices(program).of(program.outputs[0])


@pytest.mark.parametrize("shape", [(3, 4, 5), (3, 2, 1), (3, 1, 4), (3, 1, 1)])
def test_a_part_of_a_row_is_what_its_index_takes_of_the_row(shape: tuple[int, ...]) -> None:
    x = np.arange(float(np.prod(shape))).reshape(shape)
    tried = 0
    for key in KEYS:
        try:
            expected = x[(2, *key)]
        except IndexError:
            continue
        if not np.size(expected):
            continue
        found = slice_of(lambda x, key=key: x[(2, *key)], x)
        assert found is not None, key
        assert (found.array, found.row) == (0, 2)
        np.testing.assert_array_equal(np.ravel(x[found.row][found.key]), np.ravel(expected))
        tried += 1
    assert tried > 6


def test_what_is_of_several_rows_or_in_another_order_is_no_part_of_a_row() -> None:
    x = np.arange(24.0).reshape(4, 3, 2)
    for f in (
        lambda x: x[1:3],
        lambda x: x[:, 0],
        lambda x: x[::-1],
        lambda x: fnp.reshape(x, (24,)),
        lambda x: fnp.transpose(x, (1, 0, 2)),
        lambda x: fnp.broadcast_to(x, (2, 4, 3, 2)),
    ):
        assert slice_of(f, x) is None
    assert slice_of(lambda x: fnp.transpose(x, (0, 2, 1)), x[:1]) is None


def test_neighbouring_rows_make_a_run() -> None:
    program = fg.program(lambda x: (x[1, 1:], x[2, 1:], x[3, 1:], x[3, :2]))(np.ones((5, 3)))
    slices = Slices(program)
    first, second, third, other = program.outputs
    run = slices.run((first, second, third))
    assert run is not None
    assert run.row == 1
    assert slices.run((second, first)) is None
    assert slices.run((second, other)) is None
    assert slices.run((first, third)) is None

"""Operations on rows where the rows are last: the letters of products, and indices."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.movement import keys_behind
from funcgrad._programs.moved_elements import letters_of
from tests.together import together
from tests.transforms.support import numbers


@together("second", [(3,), (3, 2), (4, 3, 2), (5, 4, 3, 2)])
@together("first", [(3,), (2, 3), (4, 2, 3), (5, 4, 2, 3)])
def test_letters_of_products_are_those_of_einsum(first: Any, second: Any) -> None:
    x, y = numbers(*first), numbers(*second)
    program = fg.program(fnp.matmul)(x, y)
    letters = letters_of(program.equations[0], program.specs())
    if letters is not None:
        one, other, result = letters
        np.testing.assert_allclose(np.einsum(f"{one},{other}->{result}", x, y), x @ y)
    else:
        assert first[:-2] != second[:-2]


KEYS = [
    (),
    (0,),
    (None,),
    (...,),
    *[(rows,) for rows in np.s_[:, 0:5, 1:, :4, -5:, ::-1, ::2]],
    *[np.s_[:, entry] for entry in np.s_[0, 1:, None, ..., ::-1]],
    *[np.s_[..., entry] for entry in np.s_[0, 1:, None, :]],
    np.s_[:, 1, None],
    np.s_[:, ..., 0],
    np.s_[:, 0, ...],
    np.s_[..., 0, :],
    np.s_[..., None, 1:],
    np.s_[..., 1, 1:, :],
    np.s_[..., :1, 1, None],
    np.s_[..., :1, :, :1],
]


@pytest.mark.parametrize("shape", [(5,), (5, 4), (4, 5), (5, 4, 3), (5, 5, 5)])
def test_an_index_that_takes_all_rows_takes_the_same_where_they_are_last(shape: Any) -> None:
    x = numbers(*shape)
    found = []
    for key in KEYS:
        try:
            expected = x[key]
        except IndexError:
            continue
        keys = keys_behind((Key(key),), shape)
        if keys is not None:
            found.append(key)
            turned = np.moveaxis(x, 0, -1)[keys[0]]
            np.testing.assert_array_equal(turned, np.moveaxis(expected, 0, -1), repr(key))
    assert (slice(None),) in found
    assert len(shape) == 1 or all(key in found for key in (np.s_[:, 0], np.s_[..., 0]))

"""What operations of a staged function share is what is the same to the bit."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad._transforms.constant_pool import ConstantPool


def test_constants_that_are_equal_but_not_the_same_are_kept_apart() -> None:
    values: list[Any] = [0.0, -0.0, 0, False, np.float64(0.0), np.float32(0.0), 0j, np.zeros(())]
    pool = ConstantPool()
    places = [pool.constant(value) for value in values]
    assert places == [pool.constant(value) for value in values]
    assert len({*places}) == len(values) - 1  # an array without axes has the bits of a scalar
    assert [type(constant.value) for constant in pool.constants] == [*map(type, values[:-1])]


def test_a_number_that_went_leaves_nothing_to_one_in_its_place() -> None:
    pool = ConstantPool()
    for k in range(2000):  # most of which come to lie where another has lain
        value = np.float64(k % 7) * 1.0
        place = pool.constant(value)
        assert pool.constants[place].value == k % 7
        del value
    assert len(pool.constants) == 7


def test_an_array_that_is_written_to_is_another_constant() -> None:
    pool, array = ConstantPool(), np.zeros(3)
    first = pool.constant(array.copy())
    array[0] = 1.0
    assert pool.constant(array) != first


@pytest.mark.parametrize(("one", "other"), [("l", "q"), ("f", "d")])
def test_kinds_of_values_keep_their_dtypes(one: str, other: str) -> None:
    first, second = np.ones(3, one), np.ones(3, other)
    staged = fg.program(lambda a, b: (a + a, b + b, (a + a)[:2], a[0] + a[1]))(first, second)
    chars = [equation.results[0].dtype.char for equation in staged.equations]
    assert chars[0] == (first + first).dtype.char
    assert chars[1] == (second + second).dtype.char
    shapes = [equation.results[0].shape for equation in staged.equations]
    assert {(3,), (2,), ()} == {*shapes}
    kind = fg.program(lambda x: (x + 1.0, fg.tensor(2.0) * x))(1.0)
    assert [equation.results[0].weak for equation in kind.equations] == [True, False]

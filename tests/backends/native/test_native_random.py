"""Random words as machine code are those of the NumPy backend, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Random
from funcgrad._primitives.random_bits import BITS, SPLIT, fold_key, random_bits
from funcgrad.tensor.tensor import apply
from tests.backends.native.test_native import assert_same
from tests.backends.native.test_native_loops import called_back

KEY = np.array([123456789, 2**63 + 987], np.uint64)
KEYS = np.arange(12, dtype=np.uint64).reshape(2, 3, 2) * np.uint64(2**61 + 12345)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [BITS, SPLIT])
@pytest.mark.parametrize(
    "shape", [(), (1,), (2, 2), (5,), (8,), (9,), (31,), (32,), (33,), (3, 50), (0,)], ids=str
)
def test_words_of_any_shape(shape: tuple[int, ...], stream: int) -> None:
    f = lambda key: apply(random_bits, key, shape=shape, stream=stream)  # noqa: E731
    for key in (KEY, KEYS, KEYS[::-1, 1]):
        assert called_back(f, key) == "nothing"
        assert_same(f, key, exact=True)


@pytest.mark.parametrize(
    "number",
    [3, -5, np.int8(-1), np.arange(-3, 3).reshape(2, 3), np.arange(2**64 - 3, 2**64, dtype="Q")],
    ids=str,
)
def test_numbers_are_folded_into_keys(number: Any) -> None:
    for key in (KEY, KEYS):
        assert called_back(lambda k, n: apply(fold_key, k, n), key, number) == "nothing"
        assert_same(lambda k, n: apply(fold_key, k, n), key, number, exact=True)


def test_loops_draw_natively() -> None:
    def walk(key: Any) -> Any:
        step = lambda c, i: (c + fg.random.uniform(fg.random.fold_in(key, i), (3,)), None)  # noqa: E731
        return fg.scan(step, fnp.zeros(3), np.arange(100))[0]

    assert called_back(walk, KEY) == "nothing"
    assert_same(walk, KEY, exact=True)
    assert_same(lambda k: [fg.random.randint(key, (5,), 0, 10) for key in fg.random.split(k)], KEY)


@pytest.mark.parametrize("primitive", [random_bits, fold_key], ids=str)
def test_a_wrong_formula_is_found(primitive: Primitive) -> None:
    structure = primitive.structure
    assert isinstance(structure, Random)
    block = structure.block
    assert block is not None
    wrong = Random(lambda m, a, b, number, **params: block(m, b, a, number, **params))
    fg.testing.check_primitive(primitive)
    with pytest.raises(fg.errors.CheckError, match="random words"):
        fg.testing.check_primitive(replace(primitive, structure=wrong))

"""What is left of arrays behind whole vectors: it is right, and nothing beyond it is touched."""

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.backends.native.test_native_nests import run_natively
from tests.together import together

pytest.importorskip("llvmlite")

LENGTHS = (1, 3, 7, 9, 17, 33, 70)
DTYPES = "?bhefdFD"


def values(char: str, *shape: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(sum(shape)).integers(1, 5, shape)
    return numbers.astype(char) * (1 - 0.5j if char in "FD" else 1)


@pytest.fixture
def at_the_end_of_memory() -> Any:
    """Copy arrays to where the next byte must not be read."""
    if not sys.platform.startswith("linux"):
        pytest.skip("needs pages that nobody may read")
    pages = []

    def placed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        size = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        memory = mmap.mmap(-1, size + mmap.PAGESIZE)
        pages.append(memory)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + size), mmap.PAGESIZE, 0) == 0
        copy = np.frombuffer(memory, array.dtype, array.size, size - array.nbytes)
        copy[:] = array.ravel()
        return copy.reshape(array.shape)

    return placed


@pytest.mark.parametrize("char", DTYPES)
def test_nothing_behind_an_array_is_read(char: str, at_the_end_of_memory: Any) -> None:
    for length in LENGTHS:
        x = at_the_end_of_memory(values(char, length).astype(char))
        for f in (lambda x: x | x if char == "?" else x * x + x, lambda x: fnp.sum(x, axis=0)):
            run = fg.jit(f, backend="native")
            for _ in range(4):  # later calls hand over the memory itself
                assert_allclose(run(x), f(x), rtol=1e-2 if char == "e" else 1e-5)


@together("char", DTYPES)
def test_nothing_behind_a_part_is_written(char: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return fnp.concatenate([~x, y | y] if char == "?" else [x + x, y * y], axis=1)

    for length in LENGTHS:
        x, y = values(char, 3, length).astype(char), values(char, 3, length).astype(char)
        assert_array_equal(run_natively(f, x, y), f(x, y))


@together(("wide", "narrow"), [("q", "b"), ("q", "h"), ("i", "B"), ("d", "b"), ("f", "b")])
def test_nothing_behind_numbers_that_became_narrower_is_written(wide: str, narrow: str) -> None:
    """LLVM 22 wrote all bytes of the wide number where one lane was active."""

    def f(x: Any) -> Any:
        return fnp.stack([fnp.astype(x + x, narrow), fnp.astype(x, narrow)])

    for length in (*LENGTHS, 65):
        x = values(wide, length)
        assert_array_equal(run_natively(f, x), f(x))


@pytest.mark.parametrize("char", "fdD")
def test_rows_of_every_length_and_their_reductions(char: str) -> None:
    for length in LENGTHS:
        x = values(char, 4, length).astype(char)

        def f(x: Any) -> Any:
            rows = fnp.exp(0.25 * x)
            return rows / fnp.sum(rows, axis=1, keepdims=True), fnp.sum(rows * rows, axis=0)

        for result, expected in zip(run_natively(f, x), f(x), strict=True):
            assert_allclose(result, expected, rtol=1e-5 if char == "f" else 1e-13)


@pytest.mark.parametrize("reduce", [fnp.max, fnp.min, fnp.prod, fnp.any, fnp.all])
def test_lanes_that_are_not_active_count_for_nothing(reduce: Any) -> None:
    for length in LENGTHS:
        x = np.random.default_rng(length).standard_normal((3, length)) - 4.0
        run = fg.jit(lambda x: reduce(x * 1.5, axis=1), backend="native")
        for signed in (x, -x, x * np.nan, np.full_like(x, -0.0)):
            assert_allclose(run(signed), reduce(signed * 1.5, axis=1), rtol=1e-12)

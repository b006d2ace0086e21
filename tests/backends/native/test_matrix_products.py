"""Products of matrices in native code: as near to the exact ones as sums of products can be."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import native_code, product_text
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.plan_steps import MatrixProduct
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.processor import Processor
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.conformance import in_turn
from tests.together import together

pytest.importorskip("llvmlite")

LETTERS = (
    "ij,jk->ik",
    "ij,jk->ki",
    "ij,kj->ik",
    "ji,jk->ik",
    "ji,kj->ki",
    "ij,j->i",
    "j,jk->k",
    "bij,bjk->bik",
    "bij,bkj->ikb",
    "ij,bjk->bik",
    "bij,jkl->bikl",
    "bijl,ljk->bik",
    "ilj,ljk->ik",
)


def run(f: Callable[..., Any], *args: Any, machine: Processor | None = None) -> Any:
    (out,) = machine_code_of(f, *args, machine=machine)
    return np.asarray(out)


def operands(letters: str, sizes: dict[str, int], dtype: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    texts = letters.split("->")[0].split(",")
    return [rng.standard_normal([sizes[x] for x in text]).astype(dtype) for text in texts]


def assert_product(
    letters: str, *args: Any, flipped: bool = False, machine: Processor | None = None
) -> None:
    def f(x: Any, y: Any) -> Any:
        return fnp.einsum(letters, x[..., ::-1], y[::-1]) if flipped else fnp.einsum(letters, x, y)

    x, y = args
    wide = [np.asarray(z, np.longdouble) for z in (x, y)]
    if flipped:
        wide = [wide[0][..., ::-1], wide[1][::-1]]
    exact = np.einsum(letters, *wide)
    size = np.einsum(letters, *map(np.abs, wide))
    out = run(f, x, y, machine=machine)
    assert (out.dtype, out.shape) == (x.dtype, exact.shape)
    assert np.all(np.abs(out - exact) <= 20 * np.finfo(out.dtype).eps * size)


LENGTHS = st.integers(1, 9) | st.integers(1, 70)


@given(st.sampled_from(LETTERS), LENGTHS, LENGTHS, LENGTHS, st.booleans(), st.booleans())
def test_products_of_any_sizes(
    letters: str, i: int, j: int, k: int, single: bool, flipped: bool
) -> None:
    sizes = {"i": i, "j": j, "k": k, "b": 3, "l": 5}
    args = operands(letters, sizes, np.float32 if single else np.float64, i)
    assert_product(letters, *args, flipped=flipped)


@together("dtype", [np.float32, np.float64], ids=str)
@together("letters", ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "ij,j->i"])
def test_products_of_many_numbers(letters: str, dtype: Any) -> None:
    assert_product(letters, *operands(letters, {"i": 61, "j": 900, "k": 131}, dtype))


KINDS = [*product((13, 33), (np.float32, np.float64))]


@pytest.mark.slow
@pytest.mark.parametrize("machine", OTHERS, ids=lambda machine: machine.cpu)
def test_products_on_other_processors(machine: Processor) -> None:
    """Two sizes and two dtypes take turns over letters."""
    for number, letters in enumerate(LETTERS):
        ((i, dtype),) = in_turn(KINDS, number, 1)
        sizes = {"i": i, "j": 31, "k": 21, "b": 2, "l": 3}
        assert_product(letters, *operands(letters, sizes, dtype), machine=machine)


def test_bits_depend_on_nothing_but_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    most = dict.fromkeys((128, 256, 512), 1 << 29)  # narrow vectors leave such products to NumPy
    monkeypatch.setattr(product_text, "_MOST", most)
    monkeypatch.setenv("FUNCGRAD_CACHE", "0")
    x, y = operands("ij,jk->ik", {"i": 37, "j": 500, "k": 83}, np.float32)
    room = np.empty(x.size + 1, np.float32)
    elsewhere = room[1:].reshape(x.shape)
    elsewhere[...] = x
    whole = run(fnp.matmul, x, y)
    np.testing.assert_array_equal(run(fnp.matmul, elsewhere, y), whole)
    np.testing.assert_array_equal(run(fnp.matmul, x[:29], y[:, :50].copy()), whole[:29, :50])
    for level in (0, 2):
        monkeypatch.setattr(native_code, "FIRST", level)
        np.testing.assert_array_equal(run(fnp.matmul, x, y), whole)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite_spread_along_rows_and_columns(number: float) -> None:
    x, y = operands("ij,jk->ik", {"i": 20, "j": 20, "k": 20}, np.float64)
    x[3, 4] = y[5, 6] = number
    out, expected = run(fnp.matmul, x, y), x @ y
    np.testing.assert_array_equal(np.isnan(out), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(out), np.isinf(expected))


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0))])
def test_products_of_nothing(shapes: tuple[Any, Any]) -> None:
    x, y = map(np.zeros, shapes)
    np.testing.assert_array_equal(run(fnp.matmul, x, y), x @ y)


def test_transposed_operands_and_results_are_not_copied() -> None:
    x, y = operands("ij,kj->ik", {"i": 40, "j": 40, "k": 40}, np.float64)
    staged = fg.program(lambda x, y: fnp.exp(x @ y.T) @ y)(x, y)
    steps = plan_of(NATIVE.prepare(staged, False)).steps
    assert [type(step) for step in steps].count(MatrixProduct) == 2
    assert len(steps) == 3


@together("chars", ["dD", "Ff", "ld", "Dd", "fD", "lD", "FD", "DD", "fd"], quick=3)
def test_operands_are_converted_to_the_dtype_of_the_product(chars: str) -> None:
    rng = np.random.default_rng(0)
    for shapes in (((8,), (8,)), ((3, 4), (4, 5)), ((30, 40), (40, 50)), ((2, 3, 4), (4,))):
        a, b = [
            (5 * rng.standard_normal(shape) + (2j if char in "FD" else 0)).astype(char)
            for shape, char in zip(shapes, chars, strict=True)
        ]
        expected = np.matmul(a, b)
        for f in (fnp.matmul, lambda a, b: fg.scan(lambda c, _: (a @ b, None), a @ b, None, 2)[0]):
            jitted = fg.jit(f, backend="native")
            out = np.asarray(jitted(a, b))
            assert out.dtype == expected.dtype
            precision = 100 * np.finfo(out.dtype).eps
            np.testing.assert_allclose(out, expected, precision, 100 * precision)
            assert jitted.lower(a, b).source.startswith("; called back: nothing")


@pytest.mark.parametrize(
    "shapes",
    [
        ((4, 1, 2, 3), (5, 3, 2)),
        ((1, 2, 3), (4, 3, 2)),
        ((3, 1, 20, 30), (1, 2, 30, 25)),
        ((1, 4), (3, 4, 2)),
        ((1, 2, 3), (0, 3, 2)),
    ],
)
def test_stacks_are_repeated(shapes: tuple[Any, Any]) -> None:
    x, y = [np.random.default_rng(1).standard_normal(shape) for shape in shapes]

    def f(x: Any, y: Any) -> Any:
        return fnp.matmul(fnp.sin(x), y) + fnp.sum(x)

    jitted = fg.jit(f, backend="native")
    np.testing.assert_allclose(jitted(x, y), f(x, y), 1e-13, 1e-13)
    assert jitted.lower(x, y).source.startswith("; called back: nothing")

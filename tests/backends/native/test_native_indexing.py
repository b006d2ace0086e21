"""Gathers and scatters as machine code are NumPy's, for any integers, dtypes and axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.structure.folds import SUM, Fold
from funcgrad._core.structure.index_maps import IndexArray, Places
from funcgrad._core.structure.structures import Gather, Scatter
from funcgrad._primitives.blocks import take_block
from funcgrad.tensor.tensor import apply
from funcgrad.testing.operations.interpreter import gathered, scattered
from tests.backends.native.test_native import assert_same, native
from tests.backends.native.test_native_loops import called_back
from tests.together import together

INTEGERS = st.sampled_from("bBhHiIlLqQ")
DTYPES = st.sampled_from("?bHiqefdFD")


WORDS = st.sampled_from(["set", "add", "multiply", "min", "max"])


@given(st.integers(1, 20), st.integers(0, 3), INTEGERS, DTYPES, WORDS, st.integers(0, 2), st.data())
def test_gathers_and_scatters_are_numpys(
    columns: int, count: int, integer: str, char: str, word: str, axis: int, data: Any
) -> None:
    shape = (3, 4, columns)
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = (5 * draw.standard_normal(shape)).astype(char)
    size = shape[axis]
    low = 0 if integer in "BHILQ" else -size
    index = draw.integers(low, size, (count, 2)).astype(integer)
    leading: Any = (slice(None),) * axis
    u = (5 * draw.standard_normal(x[(*leading, index)].shape)).astype(char)
    assert called_back(lambda x, i: x[(*leading, i)], x, index) == "nothing"
    assert_same(lambda x, i: x[(*leading, i)], x, index, exact=True)
    assert_same(lambda x, i: x[::-1, ::2].T[0 * i], x, index, exact=True)
    if char in "FD" and word in ("min", "max"):
        return
    scatter = lambda x, i, u: getattr(x.at[(*leading, i)], word)(u)  # noqa: E731
    assert_same(scatter, x, index, u, exact=word != "multiply")


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_pairs_of_index_arrays_broadcast(rows: int, columns: int, data: Any) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = draw.standard_normal((2, 5, 6, 3))
    i, j = draw.integers(-5, 5, (rows, 1)), draw.integers(-6, 6, columns)
    u = draw.standard_normal((2, rows, columns, 3))
    f = lambda x, i, j: x[:, i, j]  # noqa: E731
    assert_same(f, x, i, j, exact=True)
    assert_same(lambda x, i, j, u: x.at[:, i, j].add(u), x, i, j, u, exact=True)
    assert_same(fg.grad(lambda x: fnp.sum(fnp.sin(f(x, i, j)))), x)


KEYS: tuple[Any, ...] = (1, slice(1, None), (slice(None), 2), (-1, slice(None, None, -2)), ...)


@together("key", KEYS, ids=str)
@together("char", "?efD")
def test_windows_are_replaced(key: Any, char: str) -> None:
    x = np.arange(12).reshape(3, 4).astype(char)
    assert called_back(lambda x: x.at[key].set(x[key]), x).find("replace") < 0
    assert_same(lambda x: x.at[key].set(x[key][..., ::-1].T.T), x, exact=True)


@pytest.mark.parametrize("wrong", [5, -6, 2**40, -(2**40)])
def test_an_integer_out_of_bounds_is_numpys_error(wrong: int) -> None:
    x, index = np.arange(5.0), np.array([0, 4, -5, wrong])

    def gather(x: Any, i: Any) -> Any:
        return x[i] * 2

    def scatter(x: Any, i: Any) -> Any:
        return x.at[i].add(x[:4])

    for f in (gather, scatter):
        compiled_f = native(f)
        compiled_f(x, index % 5)
        with pytest.raises(IndexError, match=rf"index {wrong} is out of bounds"):
            compiled_f(x, index)
        compiled_f(x, index % 5)
    looped = native(lambda x, i: fg.scan(lambda c, k: (c + x[k], None), 0.0, i)[0])
    with pytest.raises(IndexError, match="out of bounds"):
        looped(x, index)


def test_windows_are_operands_of_indexing_out_of_bounds() -> None:
    def f(x: Any, i: Any) -> Any:
        double = 2.0 * x
        return double[2:][i[1:]] + double[1:].at[i[1:]].add(double[3:6])[:3]

    x, index = np.arange(9.0), np.array([0, 3, -2, 1])
    assert_same(f, x, index, exact=True)
    with pytest.raises(IndexError, match="index 40 is out of bounds"):
        native(f)(x, 10 * index + 10)


def test_unsigned_integers_beyond_all_bounds() -> None:
    index = np.array([1, 2**64 - 1, 2**63], np.uint64)
    f = lambda x, i: x[i]  # noqa: E731
    try:
        expected: Any = f(fnp.arange(3.0), index)
    except Exception as error:
        with pytest.raises(type(error)):
            native(f)(np.arange(3.0), index)
    else:
        np.testing.assert_array_equal(native(f)(np.arange(3.0), index), expected)


def whole(*_: Any) -> Any:
    raise NotImplementedError


def places(mode: Any) -> Places:
    """Of rows of a 4 by 5 array: ``x[:, i]``."""
    return Places((4, 6), 0, (5, 0), (IndexArray(1, (0, 1), 5, 1, mode),))


MODES = ("raise", "wrap", "clip", "fill")


@pytest.mark.parametrize("mode", MODES)
def test_integers_wrap_are_clipped_or_read_zeros(mode: Any) -> None:
    where = places(mode)

    def evaluate(x: Any, i: Any) -> Any:
        elements = gathered(where, [list(x.flat), list(i.flat)], x.dtype.type(0))
        return np.array(elements, x.dtype).reshape(where.shape)

    read = Primitive(
        "read", evaluate, lambda x, i: Spec(where.shape, x.dtype), DISCRETE, whole, lambda: (),
        structure=Gather(lambda *shapes: where),
    )  # fmt: skip
    x, i = np.arange(1.0, 21).reshape(4, 5), np.array([0, 4, -1, -5, 2, 3])
    assert_same(lambda x, i: apply(read, x, i), x, i, exact=True)
    if mode != "raise":
        assert_same(lambda x, i: apply(read, x, i), x, i * 7 - 3, exact=True)


@together("mode", MODES)
@together("fold", [None, SUM], ids=["set", "add"])
def test_scatters_write_where_integers_say(mode: Any, fold: Fold | None) -> None:
    where = places(mode)

    def evaluate(x: Any, i: Any, u: Any) -> Any:
        lists = [list(x.flat), list(i.flat), list(u.flat)]
        elements = scattered(where, fold, x.dtype, lists[0], lists[2], lists)
        return np.array(elements, x.dtype).reshape(x.shape)

    write = Primitive(
        "write", evaluate, lambda x, i, u: Spec(x.shape, x.dtype), DISCRETE, whole, lambda: (),
        structure=Scatter(lambda *shapes: where, updates=2, fold=fold),
    )  # fmt: skip
    x, u = np.arange(20.0).reshape(4, 5), np.arange(1.0, 25).reshape(4, 6)
    i = np.array([0, 4, -1, -5, 2, 3])
    assert_same(lambda x, i, u: apply(write, x, i, u), x, i, u, exact=True)
    if mode != "raise":
        assert_same(lambda x, i, u: apply(write, x, i, u), x, i * 7 - 3, u, exact=True)


def test_loops_read_and_write_single_places() -> None:
    def fibonacci(x: Any) -> Any:
        return fg.fori_loop(2, 30, lambda k, t: t.at[k].set(t[k - 1] + t[k - 2]), x)

    assert called_back(fibonacci, np.ones(30)) == "nothing"
    assert_same(fibonacci, np.ones(30), exact=True)
    assert_same(fg.grad(lambda x: fibonacci(x)[-1]), np.ones(30))
    batch = np.arange(1.0, 91).reshape(3, 30)
    assert_same(fg.vmap(fibonacci), batch, exact=True)
    assert NATIVE.name == "native"


@pytest.mark.parametrize("char", "?bfeD")
def test_pieces_are_joined_padded_and_added(char: str) -> None:
    x = np.arange(-3, 3).reshape(2, 3).astype(char)

    def moved(x: Any) -> Any:
        joined = fnp.concatenate([x, x[:, ::-1].T.reshape(2, 3), x[:0]])
        return (
            joined,
            fnp.stack([x.T, x.T]),
            fnp.roll(x, 1),
            fnp.pad(x, 1),
            fnp.broadcast_to(x, (2, 2, 3)),
        )

    assert called_back(moved, x) == "nothing"
    assert_same(moved, x, exact=True)
    assert_same(lambda x: fnp.concatenate([x, x.astype(float)]), x, exact=True)
    if char == "f":
        added = fg.grad(lambda x: fnp.sum(x[0] * x[1] + x[1, ::-1] * 2 + x[:, 1:].sum()))
        assert called_back(added, x) == "nothing"
        assert_same(added, x)


@pytest.mark.slow
@given(st.sampled_from("?bHiqQefd"), st.integers(0, 40), st.sampled_from(["left", "right"]))
def test_places_in_sorted_tables_are_found_by_bisection(char: str, size: int, side: Any) -> None:
    draw = np.random.default_rng(size)
    table = np.sort((5 * draw.standard_normal((3, size))).astype(char), axis=1)
    x = (5 * draw.standard_normal((3, 4, 2))).astype(char)
    if char in "efd":
        table[:, -2:], x[:, 0] = np.nan, np.nan
    f = lambda table, x: fnp.searchsorted(table, x, side=side)  # noqa: E731
    assert called_back(f, table[0], x) == "nothing"
    assert_same(f, table[0], x, exact=True)
    assert_same(fg.vmap(f), table, x, exact=True)
    assert_same(f, table[0], x.astype(np.float32), exact=True)


def test_places_in_tables_of_complex_numbers_are_numpys() -> None:
    table, x = np.array([1, 1 + 2j, 3]), np.array([2.0, 1 + 1j])
    assert called_back(fnp.searchsorted, table, x) == "searchsorted"
    assert_same(fnp.searchsorted, table, x, exact=True)


def test_blocks_of_blocks_are_found_in_batches_and_loops() -> None:
    draw = np.random.default_rng(7)
    images, i, j = draw.standard_normal((5, 6, 7, 3)), draw.integers(-9, 9, 5), np.arange(-2, 3)
    crop = lambda x, i, j: fnp.sin(_cut(_cut(x, i, 4), j, 5, 1))  # noqa: E731
    slope = fg.grad(lambda x, i, j: fnp.sum(crop(x, i, j) ** 2))
    for f in (crop, slope):
        assert called_back(fg.vmap(f), images, i, j) == "nothing"
        assert_same(fg.vmap(f), images, i, j)
        assert_same(fg.vmap(f, in_axes=(None, 0, 0)), images[0], i, j)
        assert_same(fg.vmap(f, in_axes=(0, None, 0)), images, 1, j)
        assert_same(lambda x, *ij, f=f: fg.scan(lambda _, k: (_, f(x, *k)), 0, ij), images[0], i, j)


@pytest.mark.parametrize(("i", "j", "axis"), [(3, 0, 0), (0, -9, 1), (3, 9, 0)])
def test_blocks_of_blocks_that_reach_beyond_an_array_name_the_axis(
    i: int, j: int, axis: int
) -> None:
    f = lambda x, i, j: _cut(_cut(x, i, 4, mode="raise"), j, 5, 1, "raise")  # noqa: E731
    with pytest.raises(IndexError, match=f"does not lie within axis {axis}, "):
        fg.jit(f, backend="native")(np.ones((6, 7)), i, j)


def _cut(x: Any, start: Any, size: int, axis: int = 0, mode: str = "clip") -> Any:
    return take_block(x, start, axes=(axis,), sizes=(size,), mode=mode)

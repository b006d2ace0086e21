"""Sorting, searching and quantiles: derivatives move with the elements."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, ShapeError, TracerError
from tests.together import together

NUMBERS = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, np.inf, np.nan])
ARRAYS = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=5), elements=NUMBERS)


@given(ARRAYS, st.data())
def test_sorting_is_numpys_and_stable(x: Any, data: st.DataObject) -> None:
    axis = data.draw(st.none() | st.integers(-x.ndim, x.ndim - 1))
    np.testing.assert_array_equal(np.asarray(fnp.sort(x, axis)), np.sort(x, axis))
    np.testing.assert_array_equal(
        np.asarray(fnp.argsort(x, axis)), np.argsort(x, axis, kind="stable")
    )
    down = np.asarray(fnp.sort(x, axis, descending=True))
    np.testing.assert_array_equal(down, np.flip(np.sort(x, axis), 0 if axis is None else axis))
    order = fnp.argsort(x, axis, descending=True)
    np.testing.assert_array_equal(np.asarray(fnp.take_along_axis(x, order, axis)), down)


@given(hnp.arrays(np.float64, st.integers(1, 8), elements=st.sampled_from([0.0, 1.0, 2.0])))
def test_the_derivative_of_sort_is_the_stable_permutation(x: Any) -> None:
    tangent = np.arange(1.0, x.size + 1)
    for descending in (False, True):
        order = np.argsort(-x if descending else x, kind="stable")

        def function(x: Any, down: bool = descending) -> Any:
            return fnp.sort(x, descending=down)

        _, pushed = fg.jvp(function, (x,), (tangent,))
        np.testing.assert_array_equal(np.asarray(pushed), tangent[order])
        (pulled,) = fg.vjp(function, x)[1](tangent)
        np.testing.assert_array_equal(np.asarray(pulled)[order], tangent)


def test_sort_has_second_derivatives_and_batches() -> None:
    x = np.array([3.0, 1.0, 2.0])
    weight = np.array([1.0, 10.0, 100.0])
    hessian = fg.hessian(lambda x: (weight * fnp.sort(x) ** 2).sum())(x)
    np.testing.assert_array_equal(np.asarray(hessian), np.diag([200.0, 2.0, 20.0]))
    xs = np.stack([x, -x, x[::-1]])
    got = fg.vmap(fg.grad(lambda x: (weight * fnp.sort(x)).sum()))(xs)
    expected = np.empty_like(xs)
    np.put_along_axis(expected, np.argsort(xs), np.broadcast_to(weight, xs.shape), -1)
    np.testing.assert_array_equal(np.asarray(got), expected)


@given(hnp.arrays(np.float64, (2, 6), elements=st.integers(0, 5)), st.integers(-6, 5))
def test_partition_puts_one_element_in_its_place(x: Any, kth: int) -> None:
    got = np.asarray(fnp.partition(x, kth, axis=1))
    np.testing.assert_array_equal(got[:, kth], np.sort(x, 1)[:, kth])
    np.testing.assert_array_equal(np.sort(got, 1), np.sort(x, 1))
    gradient = fg.grad(lambda x: fnp.partition(x, kth, axis=1)[:, kth].sum())(x)
    np.testing.assert_array_equal(np.asarray(gradient).sum(1), [1.0, 1.0])
    assert (x[np.asarray(gradient) == 1] == got[:, kth]).all()
    order = np.asarray(fnp.argpartition(x, kth, axis=1))
    np.testing.assert_array_equal(np.take_along_axis(x, order, 1), got)


@together("size", [7, 150, 1500])  # sorted, sorted as machine code only, partitioned
def test_partition_selects_the_same_of_equal_elements_as_a_sort(size: int) -> None:
    rng = np.random.default_rng(size)
    kth = (size // 3, size - 2)
    weights = np.array([1.0, 10.0])

    def chosen(x: Any) -> Any:
        below = fnp.partition(x, kth)[: kth[0]].sum()
        return below + (weights * fnp.partition(x, kth)[np.array(kth)]).sum()

    for x in (rng.integers(0, 4, size), np.where(rng.random(size) < 0.4, np.nan, 1.0)):
        x = x.astype(float)
        order, expected = np.argsort(x, kind="stable"), np.zeros(size)
        expected[order[: kth[0]]] = 1.0
        np.add.at(expected, order[list(kth)], weights)
        np.testing.assert_array_equal(fnp.argpartition(x, kth)[list(kth)], order[list(kth)])
        for run in (
            fg.grad(chosen),
            fg.jit(fg.grad(chosen)),
            fg.jit(fg.grad(chosen), backend="numpy"),
        ):
            np.testing.assert_array_equal(run(x), expected)


def test_partition_of_nothing_takes_any_place_as_numpys() -> None:
    for place in (0, -3, (1, 5)):
        for function in (fnp.partition, fnp.argpartition):
            assert function(np.zeros((2, 0)), place).shape == (2, 0)
            assert fg.jit(lambda x, f=function, k=place: f(x, k))(np.zeros(0)).shape == (0,)


def test_lexsort_is_numpys_also_in_a_batch() -> None:
    keys = np.array([[[1, 0, 1], [0, 0, 1]], [[2, 2, 1], [3, 1, 1]]])
    np.testing.assert_array_equal(np.asarray(fnp.lexsort(tuple(keys))), np.lexsort(tuple(keys)))
    np.testing.assert_array_equal(np.asarray(fnp.lexsort(keys, axis=0)), np.lexsort(keys, axis=0))
    got = fg.vmap(fnp.lexsort)(keys)
    np.testing.assert_array_equal(np.asarray(got), np.stack([np.lexsort(k) for k in keys]))


def test_tables_may_differ_from_example_to_example() -> None:
    tables = np.array([[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]])
    x = np.array([[0.5, 9.0], [5.5, 0.0]])
    expected = [[1, 3], [1, 0]]
    got = fg.vmap(fnp.searchsorted)(tables, x)
    np.testing.assert_array_equal(np.asarray(got), expected)
    nested = fg.vmap(fg.vmap(fnp.searchsorted), in_axes=(None, 1))(tables, x[:, None])
    np.testing.assert_array_equal(np.asarray(nested), [expected])


def test_quantiles_differentiate_in_the_elements_and_in_the_order() -> None:
    x = fg.tensor([4.0, 1.0, 2.0])
    np.testing.assert_allclose(
        np.asarray(fg.grad(lambda x: fnp.quantile(x, 0.75))(x)), [0.5, 0.0, 0.5]
    )
    assert float(fg.grad(lambda q: fnp.quantile(x, q))(0.75)) == 4.0  # (4 − 2) over a step of 1/2
    assert float(fg.grad(lambda q: fnp.percentile(x, q))(25.0)) == 0.02
    np.testing.assert_array_equal(np.asarray(fg.grad(fnp.median)(x)), [0.0, 0.0, 1.0])
    batch = fg.vmap(fnp.quantile)(np.stack([x, 2 * x]), np.array([0.0, 1.0]))
    np.testing.assert_array_equal(np.asarray(batch), [1.0, 8.0])


def test_quantiles_keep_float32_and_flatten_by_default() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert fnp.median(x).dtype == np.float32
    assert float(fnp.median(x)) == 2.5
    assert fnp.median(np.arange(4)).dtype == np.float64
    assert fnp.median(x, axis=(0, 1), keepdims=True).shape == (1, 1)


def test_distinct_elements_are_numpys_and_need_a_concrete_array() -> None:
    x = np.array([[2, 1], [2, 3]])
    np.testing.assert_array_equal(np.asarray(fnp.unique_values(x)), [1, 2, 3])
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        got, expected = getattr(fnp, name)(x), getattr(np, name)(x)
        assert got._fields == expected._fields
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)
    np.testing.assert_array_equal(np.asarray(fnp.unique(x, axis=0)), np.unique(x, axis=0))
    with pytest.raises(TracerError, match="concrete"):
        fg.vmap(fnp.unique_values)(x)


def test_bad_arguments_are_explained() -> None:
    with pytest.raises(FuncgradError, match=r"q has to be in 0 \.\. 1"):
        fnp.quantile([1.0], 1.5)
    with pytest.raises(FuncgradError, match="median_unbiased"):
        fnp.quantile([1.0], 0.5, method="cubic")
    with pytest.raises(ShapeError, match="no elements"):
        fnp.quantile(np.zeros((0, 2)), 0.5, axis=0)
    with pytest.raises(DtypeError, match="complex"):
        fnp.median([1j])
    with pytest.raises(ShapeError, match="kth=3"):
        fnp.partition([1.0, 2.0], 3)
    with pytest.raises(ShapeError, match="1-d"):
        fnp.searchsorted([[1.0]], 1.0)
    with pytest.raises(FuncgradError, match="ascend"):
        fnp.digitize(1.0, [1.0, 3.0, 2.0])
    for x, bins in ((1j, [1.0, 2.0]), (1.0, [1j, 2.0])):
        with pytest.raises(DtypeError, match="digitize: complex numbers have no order"):
            fnp.digitize(x, bins)


LONG = np.random.default_rng(0).standard_normal((3, 200))
LONG_KINDS = {
    "apart": LONG,
    "ties": np.round(LONG, 1),
    "one tie": np.concatenate([LONG, LONG[:, :1]], axis=1),
    "zeros": np.where(abs(LONG) < 0.1, np.copysign(0.0, LONG), LONG),
    "infinities": np.where(abs(LONG) > 2, LONG * np.inf, LONG),
    "a NaN": np.where(LONG.max() == LONG, np.nan, LONG),
    "NaNs": np.where(LONG > 1, np.nan, LONG),
}


@together("descending", [False, True])
@together("axis", [0, 1])
@together("kind", LONG_KINDS)
def test_long_orders_are_stable_and_so_are_derivatives(
    kind: str, axis: int, descending: bool
) -> None:
    x = LONG_KINDS[kind] if axis else LONG_KINDS[kind].T
    flipped = np.flip(x, axis) if descending else x
    order = np.argsort(flipped, axis, kind="stable")
    if descending:
        order = x.shape[axis] - 1 - np.flip(order, axis)
    np.testing.assert_array_equal(fnp.argsort(x, axis, descending=descending), order)
    weight = np.arange(float(x.size)).reshape(x.shape)

    def function(x: Any) -> Any:
        return fnp.sort(x, axis, descending=descending)

    np.testing.assert_array_equal(
        fg.jvp(function, (x,), (weight,))[1], np.take_along_axis(weight, order, axis)
    )
    expected = np.empty_like(weight)
    np.put_along_axis(expected, order, weight, axis)
    for found in (
        fg.vjp(function, x)[1](weight)[0],
        fg.jit(lambda x: fg.vjp(function, x)[1](weight)[0])(x),
        fg.vmap(lambda x: fg.vjp(function, x)[1](weight)[0])(np.stack([x, x]))[1],
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("size", [5, 300])
def test_what_is_sorted_past_the_chosen_is_absent(size: int) -> None:
    """The root's derivative at 0 is infinite, and no cotangent reaches it."""
    x = np.append(np.random.default_rng(1).uniform(1, 2, size), 0.0)
    for choose in (fnp.median, lambda y: fnp.sort(y)[-1], lambda y: fnp.sum(fnp.sort(y)[1:3])):

        def function(x: Any, choose: Any = choose) -> Any:
            return choose(fnp.sqrt(x))

        with np.errstate(all="ignore"):
            for slope in (fg.grad(function), fg.jit(fg.grad(function))):
                found = np.asarray(slope(x))
                assert np.all(np.isfinite(found))
                assert np.any(found)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_along_an_axis_under_transformations(axis: int) -> None:
    rng = np.random.default_rng(3)
    x, indices = rng.standard_normal((2, 3, 4)), rng.integers(0, 3, (2, 3, 4))

    def f(x: Any, indices: Any) -> Any:
        return fnp.take_along_axis(x, indices, axis)

    one = np.take_along_axis(x[0], indices[0], axis)
    np.testing.assert_array_equal(fg.jit(f)(x[0], indices[0]), one)
    np.testing.assert_array_equal(fg.program(f)(x[0], indices[0]).verify()(x[0], indices[0]), one)
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [a if place == 0 else a[0] for a, place in zip((x, indices), axes, strict=True)]
        several = [np.broadcast_to(a, (2, 3, 4)) for a in args]
        rows = [np.take_along_axis(a, i, axis) for a, i in zip(*several, strict=True)]
        expected = np.stack(rows)
        np.testing.assert_array_equal(fg.vmap(f, axes)(*args), expected)
    ct = rng.standard_normal((3, 4))
    expected = np.zeros((3, 4))
    for place in np.ndindex(3, 4):
        source = list(place)
        source[axis] = indices[0][place]
        expected[tuple(source)] += ct[place]

    def pulled(x: Any) -> Any:
        return fg.vjp(lambda x: f(x, indices[0]), x)[1](ct)[0]

    np.testing.assert_allclose(pulled(x[0]), expected)
    np.testing.assert_allclose(fg.jit(pulled)(x[0]), expected)
    np.testing.assert_allclose(fg.vmap(pulled)(x)[0], expected)


def test_common_elements_of_signed_and_unsigned_integers() -> None:
    one = np.array([2**53, 2**53 + 1, 3, -1])  # of which two are one number as float64
    other = np.array([3, 2**53], np.uint64)
    common, places, others = fnp.intersect1d(one, other, return_indices=True)
    np.testing.assert_array_equal(common, np.array([3.0, 2.0**53]))
    np.testing.assert_array_equal((places, others), [[2, 0], [0, 1]])
    assert common.dtype == np.float64
    np.testing.assert_array_equal(fnp.intersect1d(one[1:], other, assume_unique=True), common)


@pytest.mark.parametrize("method", ["linear", "lower", "midpoint", "inverted_cdf"])
def test_an_order_that_is_nan(method: Any) -> None:
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(ArgumentError, match=r"quantile: q has to be in 0 \.\. 1"):
        fg.grad(lambda q: fnp.quantile(x, q, method=method))(np.nan)
    for transform in (fg.jit, fg.vmap):  # which cannot look at all numbers
        result = transform(lambda q: fnp.quantile(x, q, method=method))(np.array([np.nan, 1.0]))
        np.testing.assert_array_equal(result, [np.nan, 3.0])
        left_out = transform(lambda q: fnp.nanquantile(x, q, method=method))(np.array([np.nan]))
        np.testing.assert_array_equal(left_out, [np.nan])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_quantiles_of_nothing_without_nan_are_nan_as_numpys(dtype: Any) -> None:
    for name, order in (("nanquantile", 0.5), ("nanpercentile", 50.0)):
        for axis, keepdims in ((0, False), (0, True), (1, False), (None, False), (None, True)):
            f = partial(getattr(fnp, name), q=order, axis=axis, keepdims=keepdims)
            expected = getattr(np, name)(np.ones((0, 3), dtype), order, axis, keepdims=keepdims)
            for transform in (lambda f: f, fg.jit):
                result = np.asarray(transform(f)(np.ones((0, 3), dtype)))
                np.testing.assert_array_equal(result, expected, strict=True)
    assert fnp.nanquantile(np.ones((0, 3)), [0.1, 0.2], axis=0).shape == (2, 3)
    with pytest.warns(RuntimeWarning, match="invalid value"):
        fnp.nanquantile([], 0.5)

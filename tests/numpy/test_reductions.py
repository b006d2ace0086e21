"""Reductions and running sums: NumPy's values, and derivatives at the edges."""

import warnings
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, ShapeError
from tests.every_mode import assert_every_mode

FLOATS = st.floats(-100, 100, width=16)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@st.composite
def arrays_and_axes(draw, dtypes="?bifdFD"):
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(SHAPES)
    values = draw(hnp.arrays(np.float64, shape, elements=FLOATS))
    x = (values % 2 > 1 if dtype == "?" else values).astype(dtype)
    if dtype in "FD":
        x = x + 1j * x[::-1] if x.ndim else x * (1 + 1j)
        x = x.astype(dtype)
    rank = x.ndim
    one = st.integers(-rank, rank - 1) if rank else st.none()
    several = st.lists(st.integers(0, max(rank - 1, 0)), unique=True, max_size=rank).map(tuple)
    axis = draw(st.one_of(st.none(), one, several if rank else st.just(())))
    return np.asarray(x), axis, draw(st.booleans())


def assert_same(ours, theirs, rtol=1e-5):
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-4 if rtol > 1e-6 else 1e-9)


def quietly(f, *args, **kwargs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return f(*args, **kwargs)


def number_of(x, axis):
    axes = range(x.ndim) if axis is None else np.atleast_1d(axis).astype(int)
    return np.prod([x.shape[a] for a in axes])


# ----------------------------------------------------------------------------------------- values


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all"])
@given(case=arrays_and_axes())
def test_values(name, case):
    x, axis, keepdims = case
    theirs = quietly(getattr(np, name), x, axis=axis, keepdims=keepdims)
    ours = quietly(getattr(fnp, name), x, axis=axis, keepdims=keepdims)
    assert_same(ours, np.asarray(theirs), 1e-3 if x.dtype.char in "fF" else 1e-7)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "ptp"])
@given(case=arrays_and_axes("bifd"))
def test_extrema(name, case):
    x, axis, keepdims = case
    if not number_of(x, axis) and (x.size or 0 not in np.sum(x, axis=axis).shape):
        with pytest.raises(ShapeError, match="zero-size"):
            getattr(fnp, name)(x, axis=axis, keepdims=keepdims)
    elif x.size:
        ours = getattr(fnp, name)(x, axis=axis, keepdims=keepdims)
        assert_same(ours, np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims)))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions(name, axis, keepdims):
    x = np.array([[1.0, 3.0, 3.0], [0.0, np.nan, 5.0]])
    ours = getattr(fnp, name)(x, axis=axis, keepdims=keepdims)
    assert_same(ours, np.asarray(getattr(np, name)(x, axis=axis, keepdims=keepdims)))


@given(case=arrays_and_axes())
def test_counts(case):
    x, axis, keepdims = case
    ours = fnp.count_nonzero(x, axis=axis, keepdims=keepdims)
    assert_same(ours, np.asarray(np.count_nonzero(x, axis=axis, keepdims=keepdims)))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", ["f", "d", "D"])
def test_dtypes_to_compute_in(name, dtype):
    x = np.array([[1, 2], [3, 4]], np.int8)
    ours = getattr(fnp, name)(x, axis=0, dtype=dtype)
    assert_same(ours, getattr(np, name)(x, axis=0, dtype=dtype))


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod"])
def test_small_integers_stay_small_if_asked(name):
    x = np.array([[100, 2], [3, 4]], np.int64)
    ours = getattr(fnp, name)(x, axis=0, dtype=np.int8)
    assert_same(ours, getattr(np, name)(x, axis=0, dtype=np.int8))


def test_half_precision_means_are_computed_in_single():
    x = np.full(3000, 60.0, np.float16)  # their sum is infinite in half precision
    assert fnp.mean(x).dtype == np.float16
    assert fnp.mean(x).item() == 60.0
    assert fnp.var(x).item() == 0.0


@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "any", "all", "prod"])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_where_chooses_what_counts(name, axis, keepdims):
    x = np.array([[1.0, 2.0, np.inf], [3.0, 0.0, 5.0]])
    where = np.array([[True, True, False], [True, True, True]])
    ours = getattr(fnp, name)(x, axis=axis, keepdims=keepdims, where=where)
    theirs = getattr(np, name)(x, axis=axis, keepdims=keepdims, where=where)
    assert_same(ours, np.asarray(theirs))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_with_a_bound(name):
    x = np.array([[1.0, 7.0], [3.0, 4.0]])
    for kwargs in (
        {"initial": 3.5},
        {"initial": 3.5, "axis": 0},
        {"initial": 3.5, "where": np.array([True, False])},
        {"initial": 3.5, "where": np.array([True, False]), "axis": 1, "keepdims": True},
    ):
        assert_same(getattr(fnp, name)(x, **kwargs), np.asarray(getattr(np, name)(x, **kwargs)))
    empty = getattr(fnp, name)(np.zeros((2, 0), np.float32), axis=1, initial=3.5)
    assert_same(empty, np.full(2, 3.5, np.float32))
    with pytest.raises(ShapeError, match="initial"):
        getattr(fnp, name)(x, where=x > 2)


def test_initial_summands_and_factors():
    assert fnp.sum([1.0, 2.0], initial=10.0).item() == 13.0
    assert fnp.prod([2.0, 3.0], initial=10.0).item() == 60.0


def test_axes_out_of_bounds_and_named_twice():
    with pytest.raises(AxisError, match=r"sum: axis 2"):
        fnp.sum([[1.0]], axis=2)
    with pytest.raises(ShapeError, match="twice"):
        fnp.sum([[1.0]], axis=(0, -2))


def test_of_nothing():
    assert fnp.sum([]).item() == 0
    assert fnp.prod([]).item() == 1
    assert fnp.logsumexp([]).item() == -np.inf
    assert np.isnan(quietly(fnp.mean, []).item())
    np.testing.assert_array_equal(fnp.sum(np.zeros((0, 2)), axis=0), [0.0, 0.0])


@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_nan_left_out(name, axis):
    x = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, 5.0]])
    assert_same(
        quietly(getattr(fnp, name), x, axis=axis), np.asarray(quietly(getattr(np, name), x, axis))
    )
    assert_same(getattr(fnp, name)([[1, 2]], axis=0), getattr(np, name)([[1, 2]], axis=0))


@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanargmax", "nanargmin"])
def test_extrema_without_nan(name):
    x = np.array([[1.0, np.nan, 3.0], [7.0, np.nan, 5.0]])
    assert_same(getattr(fnp, name)(x, axis=1), getattr(np, name)(x, axis=1))
    assert_same(getattr(fnp, name)([[1, 2]], axis=0), getattr(np, name)([[1, 2]], axis=0))
    if "arg" in name:
        with pytest.raises(ShapeError, match="only NaN"):
            getattr(fnp, name)(x, axis=0)
    else:
        np.testing.assert_array_equal(
            getattr(fnp, name)(x, axis=0), quietly(getattr(np, name), x, axis=0)
        )


def test_what_is_left_out_has_no_gradient():
    x = fg.tensor([4.0, np.nan, 1.0])
    for f in (fnp.nansum, fnp.nanmean, fnp.nanvar, fnp.nanstd, fnp.nanmax, fnp.nanprod):
        gradient = np.asarray(fg.grad(lambda x, f=f: f(fnp.sqrt(x)))(x))
        assert np.all(np.isfinite(gradient))
        assert gradient[1] == 0.0


# -------------------------------------------------------------------------------------- gradients

SOME = np.array([[1, 0, 1, 1], [1, 1, 0, 1], [0, 1, 1, 1]], np.bool_)

REDUCTIONS: dict[str, Any] = {
    "sum": fnp.sum,
    "mean": fnp.mean,
    "prod": fnp.prod,
    "max": fnp.max,
    "min": fnp.min,
    "var": fnp.var,
    "var of a sample": lambda x, **kw: fnp.var(x, correction=1, **kw),
    "var of some": lambda x, **kw: fnp.var(x, where=SOME, **kw),
    "std": fnp.std,
    "std of some": lambda x, **kw: fnp.std(x, where=SOME, **kw),
    "logsumexp": fnp.logsumexp,
    "ptp": fnp.ptp,
    "mean of some": lambda x, **kw: fnp.mean(x, where=SOME, **kw),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 1, -2, (2, 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_every_mode(name, axis, keepdims):
    x = np.random.default_rng(3).uniform(0.5, 2.0, (2, 3, 4))
    assert_every_mode(lambda x: fnp.sin(REDUCTIONS[name](x, axis=axis, keepdims=keepdims)), x)


@pytest.mark.parametrize("f", [fnp.var, fnp.std])
def test_complex_variance_differentiates(f):
    fg.testing.check_grads(f, (np.array([1 + 2j, 3 - 1j, -2j]),), order=1)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "var", "std", "logsumexp"])
def test_single_precision_gradients(name):
    x = np.array([1.0, 2.0, 3.0], np.float32)
    assert fg.grad(getattr(fnp, name))(x).dtype == np.float32


# ------------------------------------------------------------------------------------------ edges


def test_ties_share_the_gradient():
    x = fg.tensor([[1.0, 2.0, 2.0], [3.0, 0.0, 0.0]])
    np.testing.assert_array_equal(
        fg.grad(lambda x: fnp.sum(fnp.max(x, axis=1)))(x), [[0, 0.5, 0.5], [1, 0, 0]]
    )
    np.testing.assert_array_equal(fg.grad(fnp.min)(x), [[0, 0, 0], [0, 0.5, 0.5]])


def test_what_is_not_greatest_has_no_gradient_at_any_order():
    def f(x):
        return fnp.max(fnp.sqrt(x))

    x = fg.tensor([0.0, 4.0])
    np.testing.assert_array_equal(fg.grad(f)(x), [0.0, 0.25])
    np.testing.assert_allclose(fg.hessian(f)(x), np.array([[0, 0], [0, -1 / 32]]))


def test_nan_is_greatest_and_least():
    x = fg.tensor([1.0, np.nan, 3.0])
    for f in (fnp.max, fnp.min):
        assert np.isnan(f(x).item())
        np.testing.assert_array_equal(fg.grad(f)(x), [0.0, 1.0, 0.0])


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_products_with_zeros(zeros):
    x = np.array([2.0, 3.0, -1.5, 4.0, 0.5])
    x[:zeros] = 0.0
    others = np.array([np.prod(np.delete(x, i)) for i in range(5)])
    np.testing.assert_allclose(fg.grad(fnp.prod)(x), others)
    pairs = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(fg.hessian(fnp.prod)(x), pairs)

    def weighted(x):
        return fnp.sum(fnp.cumprod(x) * np.arange(1.0, 6.0))

    fg.testing.check_grads(weighted, (x,), order=1)
    jacobian = fg.jacrev(fg.grad(weighted))(x)
    np.testing.assert_allclose(jacobian, fg.jacfwd(fg.grad(weighted))(x))
    expected = sum(
        (k + 1)
        * np.array(
            [
                [
                    0.0 if i == j or max(i, j) > k else np.prod(np.delete(x[: k + 1], [i, j]))
                    for j in range(5)
                ]
                for i in range(5)
            ]
        )
        for k in range(5)
    )
    np.testing.assert_allclose(jacobian, expected, atol=1e-12)


def test_deviation_of_equal_numbers_has_no_slope():
    for value in (1.0, 0.1, 1e30):
        x = np.full(3, value)
        assert fnp.std(x).item() == 0.0
        assert fnp.var(x).item() == 0.0
        np.testing.assert_allclose(fg.grad(fnp.std)(x), np.zeros(3), atol=1e-15 * value)
        assert np.all(np.isfinite(np.asarray(fg.hessian(fnp.std)(x))))


def test_deviation_without_degrees_of_freedom_is_numpys():
    for f, g in ((fnp.var, np.var), (fnp.std, np.std)):
        assert np.isnan(quietly(f, [1.0], correction=1).item())
        assert quietly(f, [1.0, 2.0], ddof=3) == quietly(g, [1.0, 2.0], ddof=3)


@pytest.mark.parametrize(
    ("x", "value", "gradient"),
    [
        ([0.0, 0.0], np.log(2), [0.5, 0.5]),
        ([1000.0, 1000.0], 1000 + np.log(2), [0.5, 0.5]),
        ([-np.inf, 1.0], 1.0, [0.0, 1.0]),
        ([-np.inf, -np.inf], -np.inf, [0.0, 0.0]),
        ([np.inf, 1.0], np.inf, [1.0, 0.0]),
        ([np.inf, np.inf, -np.inf], np.inf, [0.5, 0.5, 0.0]),
    ],
)
def test_logsumexp_at_infinity(x, value, gradient):
    np.testing.assert_allclose(fnp.logsumexp(x), value)
    np.testing.assert_allclose(fg.grad(fnp.logsumexp)(fg.tensor(x)), gradient)
    assert np.all(np.isfinite(np.asarray(fg.hessian(fnp.logsumexp)(fg.tensor(x)))))


def test_logsumexp_of_integers_and_of_rows():
    x = np.array([[1, 2], [3, 4]])
    np.testing.assert_allclose(fnp.logsumexp(x, axis=1), np.log(np.exp(x).sum(1)))
    np.testing.assert_allclose(fnp.logsumexp(x * 1j), np.log(np.exp(x * 1j).sum()))


# ---------------------------------------------------------------------- running sums, differences


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_running(name, axis):
    for x in (np.array([[1.0, np.nan, 3.0], [2.0, 0.0, 5.0]]), np.arange(6, dtype=np.int8)[None]):
        ours, theirs = getattr(fnp, name)(x, axis=axis), getattr(np, name)(x, axis=axis)
        assert_same(ours, theirs)


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("include_initial", [False, True])
def test_running_by_the_array_api(name, include_initial):
    ours = getattr(fnp, f"cumulative_{name}")
    x = np.arange(1.0, 7.0).reshape(2, 3)
    for case, axis in ((x, 0), (x, -1), (x[0], None), (x.astype(np.int8), 1)):
        expected = getattr(np, f"cum{name}")(case, axis)  # the long names came with NumPy 2.1
        if include_initial:
            expected = np.insert(expected, 0, getattr(np, name)([]), axis or 0)
        assert_same(ours(case, axis=axis, include_initial=include_initial), expected)
    with pytest.raises(ShapeError, match="2 axes"):
        ours(x)
    with pytest.raises(ShapeError, match="0-d"):
        ours(1.0)


def test_gradient_of_a_running_sum_runs_backwards():
    weights = np.array([1.0, 10.0, 100.0])
    gradient = fg.grad(lambda x: fnp.sum(fnp.cumsum(x) * weights))(np.ones(3))
    np.testing.assert_array_equal(gradient, [111.0, 110.0, 100.0])


@given(st.integers(0, 3), st.sampled_from([0, 1, -1]), st.booleans(), st.booleans())
def test_differences(n, axis, before, after):
    x = np.arange(12.0).reshape(3, 4) ** 2
    kwargs = {"n": n, "axis": axis}
    if before:
        kwargs["prepend"] = 1.0
    if after:
        kwargs["append"] = x * 2
    assert_same(fnp.diff(x, **kwargs), np.diff(x, **kwargs))


def test_differences_of_bools_and_wrong_arguments():
    assert_same(fnp.diff([True, True, False]), np.diff([True, True, False]))
    with pytest.raises(ShapeError, match="times"):
        fnp.diff([1.0], n=-1)
    with pytest.raises(ShapeError, match="diff"):
        fnp.diff(np.ones((2, 2)), append=np.ones((3, 3)))
    with pytest.raises(AxisError, match="diff"):
        fnp.diff(1.0)


def test_differences_in_a_row():
    x = [[1.0, 4.0], [9.0, 16.0]]
    assert_same(fnp.ediff1d(x, to_end=[1, 2], to_begin=0), np.ediff1d(x, to_end=[1, 2], to_begin=0))
    assert_same(fnp.ediff1d([1, 5]), np.ediff1d([1, 5]))


def test_integrals():
    y = np.arange(12.0).reshape(3, 4) ** 2
    places = np.array([0.0, 1.0, 3.0, 3.5])
    assert_same(fnp.trapezoid(y), np.trapezoid(y))
    assert_same(fnp.trapezoid(y, dx=0.5, axis=0), np.trapezoid(y, dx=0.5, axis=0))
    assert_same(fnp.trapezoid(y, places), np.trapezoid(y, places))
    assert_same(fnp.trapezoid(y, places[:3], axis=0), np.trapezoid(y, places[:3], axis=0))
    assert_same(fnp.trapezoid(y, y), np.trapezoid(y, y))

    def area(y, x):
        return fnp.sum(fnp.trapezoid(y, x))

    fg.testing.check_grads(area, (y, places))


# ------------------------------------------------------------------------------------- statistics


def test_weighted_means():
    x = np.arange(24.0).reshape(2, 3, 4)
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"axis": 1},
        {"axis": 1, "weights": [1.0, 2.0, 3.0]},
        {"weights": x + 1},
        {"axis": (2, 0), "weights": np.arange(8).reshape(4, 2)},
        {"axis": 1, "weights": [1.0, 2.0, 3.0], "keepdims": True},
    )
    for kwargs in cases:
        assert_same(fnp.average(x, **kwargs), np.asarray(np.average(x, **kwargs)))
        for ours, theirs in zip(
            fnp.average(x, returned=True, **kwargs),
            np.average(x, returned=True, **kwargs),
            strict=True,
        ):
            np.testing.assert_allclose(ours, theirs)
    with pytest.raises(ShapeError, match="weights"):
        fnp.average(x, axis=1, weights=[1.0, 2.0])


def test_covariances():
    x = np.random.default_rng(4).standard_normal((3, 6))
    y = x[::-1] ** 2
    importances, frequencies = np.arange(1.0, 7.0), np.array([1, 2, 0, 1, 3, 1])
    for kwargs in (
        {},
        {"bias": True},
        {"ddof": 2},
        {"rowvar": False},
        {"y": y},
        {"fweights": frequencies},
        {"aweights": importances},
        {"fweights": frequencies, "aweights": importances},
        {"aweights": importances, "ddof": 0},
    ):
        assert_same(fnp.cov(x, **kwargs), np.cov(x, **kwargs))
    assert_same(fnp.cov(x[0]), np.cov(x[0]))
    assert_same(fnp.cov(x + 1j * y), np.cov(x + 1j * y))
    assert_same(fnp.corrcoef(x), np.corrcoef(x))
    assert_same(fnp.corrcoef(x, y), np.corrcoef(x, y))
    assert_same(fnp.corrcoef(x[0]), np.asarray(np.corrcoef(x[0])))
    with pytest.raises(ShapeError, match="axes"):
        fnp.cov(np.ones((2, 2, 2)))

    def loss(x):
        return fnp.sum(fnp.corrcoef(x) ** 3) + fnp.sum(fnp.cov(x, aweights=importances))

    fg.testing.check_grads(loss, (x,))


@pytest.mark.parametrize("name", ["sum", "mean", "max", "argmax", "cumsum", "prod", "var", "any"])
def test_methods_and_numpys_functions(name):
    x = np.array([[1.0, 4.0], [3.0, 2.0]])
    expected = getattr(np, name)(x, axis=1)
    np.testing.assert_allclose(getattr(fg.tensor(x), name)(axis=1), expected)
    np.testing.assert_allclose(getattr(np, name)(fg.tensor(x), axis=1), expected)


@pytest.mark.parametrize("correction", [0, 1])
@pytest.mark.parametrize("x", [np.ones(3), np.zeros(2), np.full(4, 1e8), np.full((2, 3), 0.1)])
def test_the_deviation_of_equal_numbers_has_no_curvature(x, correction):
    def deviation(x):
        return fnp.std(x, correction=correction)

    zeros = np.zeros(x.shape + x.shape)
    for hessian in (fg.hessian, lambda f: fg.jacrev(fg.grad(f)), lambda f: fg.jacfwd(fg.jacfwd(f))):
        np.testing.assert_array_equal(hessian(deviation)(x), zeros)
        np.testing.assert_array_equal(fg.jit(hessian(deviation))(x), zeros)


def test_derivatives_of_numbers_that_are_nearly_equal_keep_their_digits():
    for far in (1.0, 1e3, -1e8):
        apart = np.array([0.0, 3.0, -1.0]) * 2.0**-20  # exact beside each of these; not their mean
        for f in (fnp.std, fnp.var):
            expected = fg.grad(f)(apart)
            np.testing.assert_allclose(fg.grad(f)(apart + far), expected, rtol=1e-14)
            expected = np.asarray(fg.hessian(f)(apart))
            size = float(np.max(abs(expected)))
            np.testing.assert_allclose(fg.hessian(f)(apart + far), expected, atol=1e-14 * size)


@pytest.mark.parametrize("order", sorted(set(permutations((1e200, 1e200, 0.0, 0.0)))))
def test_the_product_of_others_does_not_overflow_beside_zeros(order):
    x = np.array(order)
    derivatives = [
        fg.grad(fnp.prod),
        fg.jacfwd(fnp.prod),
        fg.jit(fg.grad(fnp.prod)),
        lambda x: fg.vmap(fg.grad(fnp.prod))(x[None])[0],
        lambda x: fg.grad(lambda x: fnp.sum(fnp.prod(x.reshape(1, 4), axis=-1)))(x),
        lambda x: fg.grad(lambda x: fnp.prod(x.reshape(2, 2)))(x),
        lambda x: fg.grad(lambda x: fnp.sum(fnp.prod(x[:, None] * np.ones(3), axis=0)))(x),
    ]
    for derivative in derivatives:
        np.testing.assert_array_equal(derivative(x), np.zeros(4))
    second = np.asarray(fg.hessian(fnp.prod)(x))
    both = np.outer(x == 0, x == 0) & ~np.eye(4, dtype=bool)
    np.testing.assert_array_equal(second, np.where(both, np.inf, 0.0))  # 1e400
    single = np.where(np.arange(4) == np.argmax(x == 0), 0.0, 2.0)
    np.testing.assert_array_equal(fg.grad(fnp.prod)(single), np.where(single == 0, 8.0, 0.0))

"""Reductions and running sums: errors, and derivatives at the edges."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import AxisError, ShapeError
from tests.every_mode import assert_every_mode
from tests.together import refused, together


def test_half_precision_means_are_computed_in_single():
    x = np.full(3000, 60.0, np.float16)  # their sum is infinite in half precision
    assert fnp.mean(x).dtype == np.float16
    assert fnp.mean(x).item() == 60.0
    assert fnp.var(x).item() == 0.0


test_words = refused(
    [
        (lambda: fnp.sum([[1.0]], axis=2), AxisError, "sum: axis 2"),
        (lambda: fnp.sum([[1.0]], axis=(0, -2)), ShapeError, "twice"),
        (lambda: fnp.max([]), ShapeError, "zero-size"),
        (lambda: fnp.min([1.0, 3.0], where=[True, False]), ShapeError, "initial"),
        (lambda: fnp.nanargmax([np.nan]), ShapeError, "all elements are NaN"),
        (lambda: fnp.cumulative_sum(np.ones((2, 3))), ShapeError, "2 axes"),
        (lambda: fnp.cumulative_prod(1.0), ShapeError, "0-d"),
        (lambda: fnp.average(np.ones((2, 3)), axis=1, weights=[1.0, 2.0]), ShapeError, "weights"),
        (lambda: fnp.cov(np.ones((2, 2, 2))), ShapeError, "axes"),
    ]
)


def test_the_log_of_a_sum_of_nothing_is_minus_infinity():
    assert fnp.logsumexp([]).item() == -np.inf


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


@together("name", REDUCTIONS)
def test_every_mode(name):
    x = np.random.default_rng(3).uniform(0.5, 2.0, (2, 3, 4))
    for axes in ({"axis": (2, 0)}, {"axis": -2, "keepdims": True}):
        assert_every_mode(lambda x, axes=axes: fnp.sin(REDUCTIONS[name](x, **axes)), x)


@pytest.mark.parametrize("f", [fnp.var, fnp.std])
def test_complex_variance_differentiates(f):
    fg.testing.check_grads(f, (np.array([1 + 2j, 3 - 1j, -2j]),), order=1)


@together("name", ["sum", "mean", "prod", "max", "var", "std", "logsumexp"])
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


@together(
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


def test_gradient_of_a_running_sum_runs_backwards():
    weights = np.array([1.0, 10.0, 100.0])
    gradient = fg.grad(lambda x: fnp.sum(fnp.cumsum(x) * weights))(np.ones(3))
    np.testing.assert_array_equal(gradient, [111.0, 110.0, 100.0])


def test_differences_of_wrong_arguments():
    with pytest.raises(ShapeError, match="times"):
        fnp.diff([1.0], n=-1)
    with pytest.raises(ShapeError, match="diff"):
        fnp.diff(np.ones((2, 2)), append=np.ones((3, 3)))
    with pytest.raises(AxisError, match="diff"):
        fnp.diff(1.0)


# ------------------------------------------------------------------------------------- statistics


@together("correction", [0, 1])
@together("x", [np.ones(3), np.zeros(2), np.full(4, 1e8), np.full((2, 3), 0.1)])
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


@together("order", sorted(set(permutations((1e200, 1e200, 0.0, 0.0)))))
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

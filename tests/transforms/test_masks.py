"""Masks of absent cotangents: selected once behind several products, halves that make a whole, and
masks that stay smaller than their cotangents. What is absent stays absent."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.convolution import convolve, correlate, spread
from funcgrad._transforms.reached_operands import reached
from tests.together import together

X = np.array([[4.0, 0.0, 1.0], [0.0, 9.0, np.nan], [np.inf, 0.25, 0.0]])
SMOOTH = np.where(np.isfinite(X) & (X > 0), X, 0.5)
MASK = np.array([[True, False, True], [False, True, False], [False, True, False]])
RISES = np.array([True, False, True])


def _names(f: Any, *args: Any) -> list[str]:
    return [equation.name for equation in fg.program(fg.grad(f))(*args).equations]


def _squares_of_leaky_roots(x: Any) -> Any:
    return fnp.sum(fnp.where(MASK, fnp.where(x > 2, fnp.sqrt(x), 1 / x), 0.0) ** 2)


def _sums_of_rows_and_columns(x: Any) -> Any:
    roots = fnp.sqrt(x)
    return fnp.sum(fnp.where(x[0] > 0.75, roots.sum(0), roots.sum(1)))


def _roots_within(x: Any) -> Any:
    roots = fnp.sqrt(fnp.where(x >= 0, x, 1 / x))
    return fnp.sum(fnp.where(MASK, roots, 0.0) ** 2)


def _rows_and_columns(x: Any) -> Any:
    roots = fnp.sqrt(x)
    return fnp.sum(roots[fnp.array([0, 0])][:, 0]) + fnp.sum(roots[:, fnp.array([1, 1])][1:])


def _masked_rows(x: Any) -> Any:
    rows = fnp.sqrt(x)[fnp.array([0, 2, 0])]
    taken = np.array([[0], [1], [0]]) <= 0 * fnp.isfinite(x[0, 0])  # a value of the program
    return fnp.sum(fnp.where(taken, rows, 0.0) @ fnp.ones((3, 2)))


def _in_a_loop(x: Any) -> Any:
    def step(total, row):
        return fnp.where(RISES, total + fnp.sqrt(row), 2 * total), None

    return fnp.sum(fg.scan(step, fnp.zeros(3), x)[0][:1])


def _leaky_behind_roots(x: Any) -> Any:
    roots = fnp.sqrt(x)
    return fnp.sum(fnp.where(MASK, fnp.where(roots > 1, roots, 0.5 * roots), 0.0))


def _small_here_and_large_there(x: Any) -> Any:
    roots, small = fnp.sqrt(x), x < 1
    here = fnp.where(MASK, fnp.where(small, roots, 0.0), 0.0)
    return fnp.sum(here + fnp.where(MASK, 0.0, fnp.where(small, 0.0, roots)))


def _large_ones_twice(x: Any) -> Any:
    roots, large = fnp.sqrt(x), x > 0.4
    twice = fnp.where(large, roots, 0.0) + fnp.where(large, roots * roots, 0.0)
    return fnp.sum(fnp.where(MASK, twice, 0.0))


ROWS, COLUMNS = np.indices((3, 3))
FUNCTIONS: dict[Any, Any] = {
    _squares_of_leaky_roots: lambda x: MASK,
    _roots_within: lambda x: MASK,
    _leaky_behind_roots: lambda x: MASK,
    _small_here_and_large_there: lambda x: (x < 1) == MASK,
    _large_ones_twice: lambda x: MASK & (x > 0.4),
    _rows_and_columns: lambda x: (ROWS + COLUMNS == 0) | (COLUMNS == 1) & (ROWS > 0),
    _masked_rows: lambda x: ROWS == 0,
    _in_a_loop: lambda x: COLUMNS == 0,
}
"""Functions, and the elements that they read."""


@together(("f", "read"), FUNCTIONS.items())
def test_elements_that_are_not_read_have_no_cotangent(f, read):
    """They are 1 in what the gradient is compared with, where no derivative is infinite or NaN."""
    for x in (X, np.zeros((3, 3)), SMOOTH):
        with np.errstate(all="ignore"):
            reads = read(x)
            expected = np.where(reads, fg.grad(f)(np.where(reads, x, 1.0)), 0.0)
            assert_array_equal(fg.grad(f)(x), expected)
            assert_array_equal(fg.jit(fg.grad(f), backend="numpy")(x), expected)
            assert_allclose(fg.vmap(fg.grad(f))(x[None])[0], expected, rtol=1e-14)
            again = fg.grad(lambda x, f=f: fnp.sum(fg.grad(f)(x)))
            expected = np.where(reads, again(np.where(reads, x, 1.0)), 0.0)
            assert_allclose(fg.jit(again, backend="numpy")(x), expected, rtol=1e-14)
    pushed = [fg.jvp(f, (SMOOTH,), (column,))[1] for column in np.eye(9).reshape(9, 3, 3)]
    assert_allclose(np.reshape(pushed, (3, 3)), fg.grad(f)(SMOOTH), rtol=1e-12)


def test_parts_of_rows_and_of_columns_make_no_whole():
    """One condition chooses both parts, but the elements of an array under the other axes."""
    x = np.ones((3, 3))
    x[0, 1] = x[2, 1] = 0.0  # neither column 1 nor rows 0 and 2 are chosen
    slope = np.asarray(fg.jit(fg.grad(_sums_of_rows_and_columns), backend="numpy")(x))
    assert_array_equal(slope == 0, [[False, True, False], [False] * 3, [False, True, False]])


def test_both_branches_make_a_whole():
    def f(x):
        return fnp.sum(fnp.where(x > 0, x, 0.2 * x) @ fnp.ones((3, 2)))

    assert not {"any", "logical_or", "logical_and"} & {*_names(lambda x: f(fnp.tanh(x) @ X), X)}
    slopes = fg.grad(lambda x: fnp.sum(fg.grad(lambda x: f(x * x) ** 2)(x)))
    assert not {"any", "logical_or"} & {e.name for e in fg.program(slopes)(X).equations}


def test_a_chain_of_products_is_selected_once():
    def f(x):
        return fnp.sum(fnp.where(x > 0, fnp.log(fnp.sqrt(fnp.exp(fnp.sin(x)))), 0.0))

    assert _names(f, X).count("where") == 3  # in the function, in front of the chain, and behind


CONVOLUTIONS: dict[str, Any] = {
    "convolve": (convolve, ((2, 3, 5), (4, 3, 2)), {}),
    "strided": (convolve, ((2, 3, 6), (4, 3, 2)), {"strides": (2,), "dilations": (2,)}),
    "planes": (convolve, ((2, 1, 4, 5), (3, 1, 2, 3)), {"strides": (1, 2), "dilations": (2, 1)}),
    "groups": (convolve, ((2, 4, 5), (6, 2, 2)), {"groups": 2}),
    "spread": (spread, ((2, 4, 4), (4, 3, 2)), {"shape": (5,)}),
    "correlate": (correlate, ((2, 3, 5), (2, 4, 4)), {"sizes": (2,)}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_products_reach_what_ones_show(name):
    product, shapes, given = CONVOLUTIONS[name]
    count = len(shapes[0]) - 2
    params = {"strides": (1,) * count, "dilations": (1,) * count, "groups": 1, **given}
    draws = np.random.default_rng(5)
    primals = [draws.standard_normal(shape) for shape in shapes]
    shape = product(*primals, **params).shape
    for share in (0.0, 0.05, 0.3, 1.0):
        for small in (shape, (1, *shape[1:]), (shape[0], 1, *shape[2:]), shape[-1:]):
            mask = draws.random(small) < share
            wide = np.broadcast_to(mask, shape).astype(float)
            ones = [np.ones(x.shape) for x in primals]
            routes = product.differential.transposes
            expected = [route(wide, *ones, **params) != 0 for route in routes]
            masks = reached(product, mask, shape, primals, params)
            for found, right, x in zip(masks, expected, primals, strict=True):
                assert_array_equal(np.broadcast_to(found, x.shape), right)


def test_a_small_mask_stays_small():
    x, y = np.ones((4, 3, 5)), np.ones((4, 5, 2))
    masks = reached(matmul, np.ones((4, 1, 1), bool), (4, 3, 2), [x, y], {})
    assert [mask.shape for mask in masks] == [(4, 1, 1), (4, 1, 1)]

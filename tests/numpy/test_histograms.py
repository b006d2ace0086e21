"""Histograms and sets: their derivatives and errors."""

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError, TracerError
from tests.together import refused

ELEMENTS = np.array([0.3, 1.2, 2.9, 1.7])
WEIGHTS = np.array([1.0, 2.0, 0.5, 4.0])


def test_counts_are_linear_in_weights() -> None:
    counts = fg.jacrev(lambda w: fnp.histogram(ELEMENTS, [0.0, 1.0, 2.0, 3.0], weights=w)[0])
    np.testing.assert_array_equal(counts(WEIGHTS), [[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 1, 0]])
    table = fg.jacrev(lambda w: fnp.bincount([0, 2, 2, 1], w))(WEIGHTS)
    np.testing.assert_array_equal(table, [[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 1, 0]])


def test_counts_do_not_move_with_the_elements_but_bounds_do() -> None:
    edges = fg.jacfwd(lambda x: fnp.histogram(x, 2)[1])(ELEMENTS)
    np.testing.assert_allclose(edges, [[1.0, 0, 0, 0], [0.5, 0, 0.5, 0], [0, 0, 1.0, 0]])
    counts = fg.jacfwd(lambda x: fnp.histogram(x, 2)[0] * 1.0)(ELEMENTS)
    np.testing.assert_array_equal(counts, np.zeros((2, 4)))


def test_a_density_follows_bounds_and_weights() -> None:
    fg.testing.check_grads(
        lambda edges, w: fnp.histogram(ELEMENTS, edges, density=True, weights=w)[0],
        (np.array([0.0, 1.0, 2.0, 3.0]), WEIGHTS),
    )
    fg.testing.check_grads(
        lambda w: fnp.histogram2d(ELEMENTS, WEIGHTS, 2, density=True, weights=w)[0], (WEIGHTS,)
    )


def test_batches_of_elements_have_counts() -> None:
    batch = np.stack([ELEMENTS, ELEMENTS**2])
    found = fg.vmap(lambda x: fnp.histogram(x, 3)[0])(batch)
    np.testing.assert_array_equal(found, [np.histogram(x, 3)[0] for x in batch])


def test_members_of_sets_keep_their_derivatives() -> None:
    x, y = np.array([3.0, 1.0, 2.0]), np.array([2.0, 5.0])
    rows = {
        "union1d": [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]],
        "intersect1d": [[0, 0, 1]],
        "setdiff1d": [[0, 1, 0], [1, 0, 0]],
        "setxor1d": [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
    }
    for name, expected in rows.items():
        found = fg.jacrev(getattr(fnp, name))(x, y)
        np.testing.assert_array_equal(found, expected, err_msg=name)
        with pytest.raises(TracerError, match="has to be concrete"):
            fg.vmap(getattr(fnp, name))(np.stack([x, x]), np.stack([y, y]))


def test_membership_is_asked_of_batches_too() -> None:
    x, table = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0, 9.0, 1.0], [4.0, 0.0, 0.0]])
    found = fg.vmap(fnp.isin)(x, table)
    np.testing.assert_array_equal(found, [[True, True], [False, True]])
    shared = fg.vmap(lambda x: fnp.isin(x, table[0], invert=True))(x)
    np.testing.assert_array_equal(shared, [[False, False], [True, True]])


test_words = refused(
    [
        (lambda: fnp.bincount([0.5]), DtypeError, "x has to be of integers"),
        (lambda: fnp.bincount([-1]), ArgumentError, "must not be negative"),
        (lambda: fnp.bincount([[1]]), ShapeError, "x has to be 1-d"),
        (lambda: fnp.bincount([1], [1.0, 2.0]), ShapeError, r"weights of the shape \(2,\)"),
        (lambda: fnp.bincount([1], [1j]), DtypeError, "weights have to be real"),
        (lambda: fnp.bincount(np.ones(1, np.uint64)), DtypeError, "uint64 may not fit"),
        (lambda: fnp.histogram([1j]), DtypeError, "complex numbers have no order"),
        (lambda: fnp.histogram([1.0], 0), ArgumentError, "there has to be a bin at least"),
        (lambda: fnp.histogram([1.0], 2.5), DtypeError, "bins has to be an integer"),
        (lambda: fnp.histogram([1.0], [1.0, 0.0]), ArgumentError, "bounds of bins have to ascend"),
        (lambda: fnp.histogram([1.0], [[1.0]]), ShapeError, "bounds stand on one axis"),
        (lambda: fnp.histogram([np.inf]), ArgumentError, "is not finite"),
        (lambda: fnp.histogram([1.0], 2, (2, 1)), ArgumentError, "from 2 to 1 is empty"),
        (lambda: fnp.histogram([1.0], 2, (2,)), ShapeError, "a range is a pair"),
        (lambda: fnp.histogram([1.0], 10**17, (1, 1 + 1e-15)), Exception, "bins|large|size|alloc"),
        (lambda: fnp.histogram([1.0], 100, (1.0, 1 + 1e-15)), ArgumentError, "are too many"),
        (lambda: fnp.histogram([1.0], "no rule"), ArgumentError, "not a valid estimator"),
        (lambda: fnp.histogram([1.0], "auto", weights=[1.0]), DtypeError, "not defined with weig"),
        (lambda: fnp.histogram([1.0], weights=[1.0, 2.0]), ShapeError, "do not fit elements"),
        (lambda: fnp.histogram2d([1.0], [1.0, 2.0]), ShapeError, "x and y have to be 1-d"),
        (lambda: fnp.histogramdd([[1.0]], [1, 2]), ShapeError, "need as many bins and ranges"),
        (lambda: fnp.choose([2], [1.0, 2.0]), IndexError, "integers have to be from 0 to 1"),
        (lambda: fnp.choose([0], []), ShapeError, "nothing to choose from"),
        (lambda: fnp.choose([0.5], [1.0]), DtypeError, "a has to be of integers"),
    ]
)

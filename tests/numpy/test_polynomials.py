"""Polynomials: derivatives with respect to coefficients and places, zeros, fits, errors."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ShapeError, TracerError
from tests.together import refused

PLACES = np.array([-1.5, -0.5, 0.0, 0.5, 2.0])
SAMPLES = np.array([1.0, -0.3, 0.2, 0.9, 3.1])


@pytest.mark.parametrize("p", [[1.0, -3.0, 2.0], [2.0, 1.0, 3.0], [0.0, 1.0, -4.0, 1.0, 0.0]])
def test_zeros_move_as_the_implicit_function_theorem_says(p: Any) -> None:
    p = np.array(p)
    found = np.asarray(fnp.roots(p))
    slope = np.polyval(np.polyder(p), found)
    for k, tangent in enumerate(np.eye(p.size)):
        zeros, moved = fg.jvp(fnp.roots, (p,), (tangent,))
        np.testing.assert_allclose(zeros, np.roots(p), rtol=1e-12, atol=1e-15)
        expected = -np.polyval(tangent, found) / slope
        np.testing.assert_allclose(moved, expected, rtol=1e-9, atol=1e-12, err_msg=str(k))


def test_zeros_have_second_derivatives() -> None:
    fg.testing.check_grads(fnp.roots, (np.array([2.0, -3.0, -4.0, 1.0]),))


def test_zeros_that_become_complex_are_so() -> None:
    assert fnp.roots([1.0, 0.0, -1.0]).dtype == np.float64
    assert fnp.roots([1.0, 0.0, 1.0]).dtype == np.complex128
    fg.testing.check_grads(lambda p: abs(fnp.roots(p)), (np.array([1.0, 0.5, 1.0]),))


def test_a_polynomial_of_a_matrix_is_its_characteristic_one() -> None:
    matrix = np.array([[2.0, 1.0], [0.5, 3.0]])
    np.testing.assert_allclose(fnp.poly(matrix), np.poly(matrix), rtol=1e-14)
    np.testing.assert_allclose(fg.jacrev(fnp.poly)(matrix)[1], -np.eye(2), atol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 3])
def test_a_fit_is_numpys_and_differentiable_in_all(degree: int) -> None:
    weights = np.array([1.0, 2.0, 0.5, 1.0, 3.0])

    def fit(x: Any, y: Any, w: Any) -> Any:
        return fnp.polyfit(x, y, degree, w=w)

    arguments = PLACES, SAMPLES, weights
    expected = np.polyfit(PLACES, SAMPLES, degree, w=weights)
    np.testing.assert_allclose(fit(*arguments), expected, rtol=1e-12)
    fg.testing.check_grads(fit, arguments, order=1)


@pytest.mark.parametrize("cov", [True, "unscaled"])
def test_covariances_are_numpys(cov: Any) -> None:
    for samples in (SAMPLES, np.stack([SAMPLES, SAMPLES**2], 1)):
        found = fnp.polyfit(PLACES, samples, 2, cov=cov)
        expected = np.polyfit(PLACES, samples, 2, cov=cov)
        for own, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, other, rtol=1e-11)
    fg.testing.check_grads(lambda y: fnp.polyfit(PLACES, y, 2, cov=cov)[1], (SAMPLES,), order=1)


def test_a_full_fit_says_how_good_it_is() -> None:
    found = fnp.polyfit(PLACES, SAMPLES, 2, full=True)
    expected = np.polyfit(PLACES, SAMPLES, 2, full=True)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)


def test_samples_that_do_not_determine_a_polynomial_are_warned_about() -> None:
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned"):
        found = fnp.polyfit([1.0, 1.0], [2.0, 4.0], 1)
    np.testing.assert_allclose(found, [1.5, 1.5])


def test_leading_zeros_of_a_batch_are_looked_at_for_each_example() -> None:
    with pytest.raises(TracerError, match="inside vmap"):
        fg.vmap(fnp.polymul, branches=False)(np.ones((2, 2)), np.ones((2, 2)))
    found = fg.vmap(fnp.polymul)(np.ones((2, 2)), np.ones((2, 2)))
    np.testing.assert_array_equal(found, [[1.0, 2.0, 1.0]] * 2)
    found = fg.vmap(fnp.convolve)(np.ones((2, 2)), np.ones((2, 2)))
    np.testing.assert_array_equal(found, [[1.0, 2.0, 1.0]] * 2)


test_words = refused(
    [
        (lambda: fnp.polyval(1.0, 2.0), ShapeError, "coefficients need an axis"),
        (lambda: fnp.polyadd([[1.0]], [1.0]), ShapeError, "polyadd: one axis is needed"),
        (lambda: fnp.polyder([1.0], -1), ShapeError, "m must not be negative"),
        (lambda: fnp.polyint([1.0], 3, [1.0, 2.0]), ShapeError, "k has 2 constants, but 3"),
        (lambda: fnp.polydiv([], [1.0]), ShapeError, "a polynomial needs a coefficient"),
        (lambda: fnp.poly([[1.0, 2.0]]), ShapeError, "poly: "),
        (lambda: fnp.roots([[1.0]]), ShapeError, "roots: coefficients have to be 1-d"),
        (lambda: fnp.polyfit([], [], 1), ShapeError, "polyfit: x has to be 1-d and not empty"),
        (lambda: fnp.polyfit([1.0], [1.0, 2.0], 0), ShapeError, "2 samples do not fit 1 pos"),
        (lambda: fnp.polyfit([1.0], [1.0], 0, w=[1.0, 2.0]), ShapeError, "weights of the shape"),
        (lambda: fnp.polyfit([1.0], [1.0], -1), ShapeError, "deg must not be negative"),
        (
            lambda: fnp.polyfit([1.0, 2.0], [1.0, 2.0], 1, cov=True),
            ArgumentError,
            "a covariance needs more samples than coefficients",
        ),
        (lambda: fnp.convolve([], [1.0]), ShapeError, "a sequence that is not empty"),
        (lambda: fnp.convolve([1.0], [1.0], "half"), ArgumentError, "mode has to be one of"),
    ]
)

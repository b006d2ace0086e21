"""Activations beside the first ones: corners, ends, and kinds of arguments."""

from math import erf, exp, inf, nan, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.together import together

KEY = fg.random.key(0)

# Function, value and slope at minus infinity, and at plus infinity.
FORMS = {
    "relu6": (nn.relu6, (0, 0), (6, 0)),
    "hard_tanh": (nn.hard_tanh, (-1, 0), (1, 0)),
    "hard_sigmoid": (nn.hard_sigmoid, (0, 0), (1, 0)),
    "hard_silu": (nn.hard_silu, (0, 0), (inf, 1)),
    "selu": (nn.selu, (-1.7580993408473766, 0), (inf, 1.0507009873554805)),
    "celu": (nn.celu, (-1, 0), (inf, 1)),
    "wide celu": (lambda x: nn.celu(x, alpha=2.0), (-2, 0), (inf, 1)),
    "mish": (nn.mish, (0, 0), (inf, 1)),
    "softsign": (nn.softsign, (-1, 0), (1, 0)),
    "squareplus": (nn.squareplus, (0, 0), (inf, 1)),
    "sparse_plus": (nn.sparse_plus, (0, 0), (inf, 1)),
    "sparse_sigmoid": (nn.sparse_sigmoid, (0, 0), (1, 0)),
}
every = pytest.mark.parametrize(("f", "left", "right"), FORMS.values(), ids=FORMS)
POINTS = np.array([-7.3, -3.4, -2.1, -0.7, -1e-3, 1e-3, 0.4, 1.7, 2.9, 3.3, 6.5])


@every
def test_ends(f, left, right):
    for x, (value, slope) in ((-inf, left), (inf, right)):
        for mode in (fg.grad(f), lambda x: fg.jvp(f, (x,), (1.0,))[1]):
            assert_allclose(f(x), value, rtol=1e-15)
            assert_allclose(mode(x), slope, rtol=1e-15)
        assert_array_equal(fg.grad(fg.grad(f))(x), 0)
    assert np.isnan(f(nan).item())
    assert np.isnan(f(fg.tensor([nan, 1.0])).tolist()[0])


@every
def test_kinds(f, left, right):
    for dtype in ("float16", "float32"):
        x = fg.tensor(POINTS.astype(dtype))
        assert f(x).dtype == dtype
        assert_allclose(f(x), f(POINTS), rtol=0.01, atol=0.01)
    assert f(np.zeros((0, 3))).shape == (0, 3)
    assert_allclose(f([1, 2]), f([1.0, 2.0]))
    with pytest.raises(DtypeError, match="complex"):
        f(1j)


def test_corners_have_the_smaller_slope():
    corners = {nn.relu6: (0.0, 6.0), nn.hard_tanh: (-1.0, 1.0), nn.hard_sigmoid: (-3.0, 3.0)}
    for f, places in corners.items():
        assert [fg.grad(f)(x).item() for x in places] == [0, 0]
    assert [fg.grad(nn.hard_silu)(x).item() for x in (-3.0, 3.0)] == [0, 1]
    assert_allclose([fg.grad(f)(0.0) for f in (nn.celu, nn.squareplus)], [1, 0.5])


def test_tails_and_widths():
    assert_allclose(nn.squareplus(-1e100), 1e-100, rtol=1e-14)
    assert_allclose(nn.mish(-100.0), -100 * exp(-100), rtol=1e-13)
    fg.testing.check_grads(lambda a: nn.celu(POINTS, alpha=a), (1.3,))
    fg.testing.check_grads(lambda b: nn.squareplus(POINTS, width=b), (1.3,))


def projected(z):
    """The closest point of the simplex, by bisection of the level."""
    low, high = z.max() - 1, z.max()
    level = low
    for _ in range(200):
        level = (low + high) / 2
        low, high = (level, high) if np.maximum(z - level, 0).sum() > 1 else (low, level)
    return np.maximum(z - level, 0)


def test_sparsemax_is_the_projection():
    z = np.random.default_rng(0).normal(size=(5, 4))
    assert_allclose(nn.sparsemax(z), [projected(row) for row in z], atol=1e-12)
    assert_allclose(nn.sparsemax(z.T, axis=0), np.asarray(nn.sparsemax(z)).T, rtol=1e-13)
    fg.testing.check_grads(nn.sparsemax, (fg.tensor(z),))
    assert_array_equal(nn.sparsemax([5.0, 1.0]), [1, 0])
    assert_array_equal(nn.sparsemax([-inf, 0.0, 0.0]), [0, 0.5, 0.5])
    assert_array_equal(nn.sparsemax([inf, 0.0]), [1, 0])
    ties = fg.jacrev(nn.sparsemax)(fg.tensor([1.0, 1.0, -3.0]))
    assert_array_equal(ties, [[0.5, -0.5, 0], [-0.5, 0.5, 0], [0, 0, 0]])
    assert_array_equal(fg.vmap(nn.sparsemax)(z), nn.sparsemax(z))
    assert nn.sparsemax(z.astype("float32")).dtype == np.float32
    with pytest.raises(ShapeError, match="no logits"):
        nn.sparsemax(np.zeros((2, 0)))


def test_glu():
    x = np.random.default_rng(1).normal(size=(4, 6))
    assert_allclose(nn.glu(x), x[:, :3] / (1 + np.exp(-x[:, 3:])), rtol=1e-13)
    assert_allclose(nn.glu(x, 0), np.asarray(nn.glu(x.T)).T, rtol=1e-13)
    with pytest.raises(ShapeError, match="odd size"):
        nn.glu(np.ones((2, 3)))


# ---------------------------------------------------------------------------------- initializers


def test_variances():
    shape = (60, 90)
    for kind in ("truncated_normal", "normal", "uniform"):
        for mode, fan in (("fan_in", 60), ("fan_out", 90), ("fan_avg", 75)):
            drawn = nn.variance_scaling(KEY, shape, scale=3.0, mode=mode, distribution=kind)
            assert_allclose(np.var(np.asarray(drawn)), 3 / fan, rtol=0.05)
    assert_array_equal(nn.variance_scaling(KEY, (2, 2), scale=0.0), np.zeros((2, 2)))
    for f in (nn.lecun_normal, nn.lecun_uniform):
        assert_allclose(np.var(np.asarray(f(KEY, (3, 60, 30)))), 1 / 180, rtol=0.1)
        assert f(KEY, (2, 0), "float32").shape == (2, 0)
    with pytest.raises(ArgumentError, match="mode has to be one of 'fan_in'"):
        nn.variance_scaling(KEY, shape, mode="fan")
    with pytest.raises(ArgumentError, match="at least 0"):
        nn.variance_scaling(KEY, shape, scale=-1.0)


def test_truncated_normal_has_its_distribution():
    drawn = np.sort(np.asarray(nn.truncated_normal(KEY, 4000, stddev=0.5)))
    assert np.abs(drawn).max() <= 1
    cdf = np.array(
        [(erf(x / 0.5 / sqrt(2)) + erf(2 / sqrt(2))) / (2 * erf(2 / sqrt(2))) for x in drawn]
    )
    assert np.abs(cdf - (np.arange(4000) + 0.5) / 4000).max() < 1.63 / sqrt(4000)


@together("shape", [(5, 3), (3, 5), (2, 3, 4), (4, 4), (0, 3)])
@together("dtype", ["float64", "complex128"])
def test_orthogonal(shape, dtype):
    matrix = np.asarray(nn.orthogonal(KEY, shape, dtype, scale=2.0))
    assert matrix.shape == shape
    assert matrix.dtype == dtype
    flat = matrix.reshape(-1, shape[-1])
    small = flat if flat.shape[0] >= flat.shape[1] else flat.conj().T
    if flat.size:
        assert_allclose(small.conj().T @ small, 4 * np.eye(min(flat.shape)), atol=1e-12)
    assert nn.orthogonal(KEY, (3, 2), "float16").dtype == np.float16
    with pytest.raises(ShapeError):
        nn.orthogonal(KEY, 3)


def test_orthogonal_matrices_are_uniform():
    """A mean of 0: without the signs of the triangle the first entry would be negative mostly."""
    many = fg.vmap(lambda key: nn.orthogonal(key, (2, 2)))(fg.random.split(KEY, 400))
    assert fnp.abs(fnp.mean(many, axis=0)).max() < 4 * sqrt(0.5 / 400)

"""Cotangents may be smaller than what they belong to: of fewer axes, or of size 1 along some."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.transforms.entries import keep

X = np.random.default_rng(5).uniform(0.5, 1.5, (3, 3, 3, 3))  # equal sizes: no axis is told by its
WEIGHTS = np.array([1.0, 10.0, 100.0])
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": fnp.sum,
    "mean": fnp.mean,
    "max": fnp.max,
    "min": fnp.min,
    "prod": fnp.prod,
    "logsumexp": fnp.logsumexp,
    "var": fnp.var,
}
AXES = [0, 1, 2, 3, (0, 1), (0, 2), (1, 3), (0, 3), (2, 3)]


# The cotangent of a product with WEIGHTS, of which all elements are added up, is WEIGHTS alone.


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_cotangent_of_fewer_axes_goes_through_a_reduction(name: str, axis: Any) -> None:
    reduce = REDUCTIONS[name]

    def small(x: Any) -> Any:
        return fnp.sum(reduce(x, axis=axis) * WEIGHTS)

    def whole(x: Any) -> Any:
        y = reduce(x, axis=axis)
        return fnp.sum(y * np.broadcast_to(WEIGHTS, y.shape))

    assert_allclose(fg.grad(small)(X), fg.grad(whole)(X), rtol=1e-13)
    assert_allclose(fg.jit(fg.grad(small))(X), fg.grad(whole)(X), rtol=1e-13)
    _, tangent = fg.jvp(small, (X,), (X**2,))
    assert_allclose(np.sum(np.asarray(fg.grad(small)(X)) * X**2), tangent, rtol=1e-12)


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_it_does_so_under_other_transformations(axis: Any) -> None:
    def small(x: Any) -> Any:
        return fnp.sum(fnp.sum(x * x * x, axis=axis) * WEIGHTS)

    def whole(x: Any) -> Any:
        y = fnp.sum(x * x * x, axis=axis)
        return fnp.sum(y * np.broadcast_to(WEIGHTS, y.shape))

    around: dict[str, Callable[[Any], Any]] = {
        "grad": lambda f: fg.grad(lambda x: fnp.sum(fg.grad(f)(x) * X))(X),
        "vmap": lambda f: fg.vmap(fg.grad(f))(np.stack([X, 2 * X])),
        "jvp": lambda f: fg.jvp(fg.grad(f), (X,), (X,))[1],
    }
    for transform in around.values():
        assert_allclose(transform(small), transform(whole), rtol=1e-12)


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_it_does_so_with_gaps(axis: Any) -> None:
    chosen = np.array([True, False, True])

    def small(x: Any) -> Any:
        return fnp.sum(fnp.where(chosen, fnp.sum(x, axis=axis), 0.0) * WEIGHTS)

    def whole(x: Any) -> Any:
        return fnp.sum(fnp.sum(x, axis=axis) * np.where(chosen, WEIGHTS, 0.0))

    assert_allclose(fg.grad(small)(X), fg.grad(whole)(X), rtol=1e-13)


def test_sizes_that_differ() -> None:
    x = np.ones((2, 3, 4))
    slope = fg.grad(lambda x: fnp.sum(fnp.sum(x, axis=1) * np.arange(4.0)))(x)
    assert_allclose(slope, np.broadcast_to(np.arange(4.0), x.shape))


@pytest.mark.parametrize(
    ("shape", "axis", "kept"),
    [
        ((4,), (1,), (1, 1, 4)),  # of an output (2, 4)
        ((2, 4), (1,), (2, 1, 4)),
        ((1, 4), (1,), (1, 1, 4)),
        ((3,), (2,), (1, 3, 1)),
        ((3,), (0,), (1, 1, 3)),
        ((4,), (0, 1), (1, 1, 4)),
    ],
)
def test_reduced_axes_come_back_in_their_places(shape: Any, axis: Any, kept: Any) -> None:
    wide = (2, 3, 4)
    ct = np.arange(float(np.prod(shape))).reshape(shape)
    found = keep(ct, wide, {"axis": axis, "keepdims": False})
    assert found.shape == kept
    assert_allclose(found.ravel(), ct.ravel())


def test_what_has_its_axes_is_left_as_it_is() -> None:
    ct = np.ones((2, 1, 4))
    assert keep(ct, (2, 3, 4), {"axis": (1,), "keepdims": True}) is ct
    assert keep(2.0, (2, 3, 4), {"axis": (1,), "keepdims": False}) == 2.0

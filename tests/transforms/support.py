"""What the tests of the transformations share: trees, loops and comparisons."""

from typing import Any, NamedTuple

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees


class Point(NamedTuple):
    x: Any
    y: Any


@fg.pytree
class Layer:
    weight: Any
    bias: Any
    name: Any = fg.static_field(default="layer")


def assert_same(actual: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-12) -> None:
    """Check the structure, and the shapes and numbers of all leaves; dtypes where arrays say one.

    Every leaf of ``actual`` has to be a tensor that no transformation follows any more.
    """
    assert pytrees.structure(actual) == pytrees.structure(expected)
    for own, other in zip(pytrees.leaves(actual), pytrees.leaves(expected), strict=True):
        assert type(own) is fg.Tensor or own._trace.is_remote  # it may be on a device
        assert own.shape == np.shape(other)
        if isinstance(other, (np.ndarray, np.generic, fg.Tensor)):
            assert own.dtype == other.dtype
        assert_allclose(np.asarray(own), np.asarray(other), rtol=rtol, atol=atol)


def halved(x: Any) -> Any:
    """A loop in a branch."""
    if x > 0:
        while x > 1.0:
            x = x / 2
        return fnp.log(x)
    return x * x


def newton(x: Any) -> Any:
    """A square root, by as many steps as the number needs."""
    y = x
    while fnp.abs(y * y - x) > 1e-10 * x:
        y = (y + x / y) / 2
    return y


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random numbers, the same on every run."""
    return np.random.default_rng(seed).standard_normal(shape)


def complex_numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random complex numbers, the same on every run."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)

"""Lengths and directions in machine code are those of evaluation, at all sizes of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.norms import directed
from tests.backends.native.other_machines import machine_code_of as run
from tests.together import together

pytest.importorskip("llvmlite")

SIZES = {
    "usual": [[1.5, -2.0, 0.25, 3.0], [0.0, 1.0, -0.0, 0.0]],
    "zeros": [[0.0, -0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]],
    "large": [[1e200, 1.0, 1e-200, 0.0], [1.7e308, 1.7e308, 1e300, 1.0]],
    "small": [[1e-300, 1e-310, 0.0, 0.0], [1e-160, 1e-150, -1e-200, 5e-324]],
    "between": [[1.5 * 2**480, 2.0**480, 2.0**479, 0.0], [2.0**-480, 2.0**-481, 2.0**-482, 0.0]],
    "single": [[1e38, 1e38, 1.0, 0.0], [1e-30, 1e-40, 0.0, 1e-45]],
    "half": [[6e4, 6e4, 1e-7, 0.0], [1e-5, -2e-7, 0.0, 0.0]],
    "edges": [[np.inf, 1.0, -2.0, 3.0], [np.nan, np.inf, 1.0, 0.0]],
    "large and NaN": [[1e200, np.nan, 0.0, 1.0], [-np.inf, 0.0, 1e-300, 1e300]],
}


def assert_agrees(f: Any, *args: Any, size: float = 0.0, compiled: Any = None) -> None:
    """Compare each element; or, where terms of a size cancel, beside that size."""
    with np.errstate(all="ignore"):
        expected = [np.asarray(y) for y in fg.program(f)(*args).evaluate(list(args))]
    results = run(f, *args) if compiled is None else [np.asarray(compiled(*args))]
    for one, other in zip(results, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        precision = 8 * np.finfo(other.dtype).eps
        for part in (np.real, np.imag):
            least = max(4 * np.finfo(other.dtype).tiny, size * precision)
            assert_allclose(part(one), part(other), precision, least)


def numbers(name: str, char: str) -> Any:
    with np.errstate(all="ignore"):
        x = np.array(SIZES[name]).astype(char.lower())
    if char not in "FD":
        return x
    turned = np.empty(x.shape, char)
    turned.real, turned.imag = x, x[:, ::-1]
    return turned


LENGTHS = [
    lambda x, a=axis, k=keepdims: fnp.linalg.vector_norm(x, axis=a, keepdims=k)
    for axis in (0, 1, (0, 1))
    for keepdims in (False, True)
]


@together("char", "deDfF", quick=3)
def test_lengths_and_directions_are_evaluations(char: str) -> None:
    every, c = [numbers(name, char) for name in SIZES], np.array([[2.0], [-0.5]], char.lower())
    calls: list[tuple[Any, list[Any]]] = [(f, [(x,) for x in every]) for f in LENGTHS]
    calls += [(lambda c, x: directed(c, x, axis=(1,)), [(c, x) for x in every])]
    calls += [(lambda x: fnp.linalg.norm(x), [(x[0, 0],) for x in every])]
    for f, several in calls:
        compiled = fg.jit(f, backend="native")
        for args in several:
            assert_agrees(f, *args, compiled=compiled)


def test_norms_are_machine_code_in_every_mode() -> None:
    def size(x: Any) -> Any:
        return fnp.linalg.norm(x)

    x = np.random.default_rng(0).standard_normal((5, 3))
    direction = fg.grad(size)
    for f in (
        size,
        direction,
        fg.hessian(size),
        fg.vmap(direction),
        lambda x: fg.jvp(direction, (x,), (x[::-1],))[1],
        lambda x: fg.scan(lambda c, _: (c / size(c) + 0.1, size(c)), x, None, length=4),
    ):
        assert_agrees(f, x, size=1.0)
        source = fg.jit(f, backend="native").lower(x).source
        assert source.startswith("; called back: nothing")


def test_the_derivative_at_the_origin_is_zero() -> None:
    for x in (np.zeros(3), np.zeros(3, np.complex64)):
        gradient = fg.grad(lambda x: fnp.linalg.norm(x))
        (out,) = run(gradient, x)
        assert_array_equal(out, x)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_lengths_of_nothing(shape: tuple[int, ...]) -> None:
    for axis in range(len(shape)):
        assert_agrees(lambda x, a=axis: fnp.linalg.vector_norm(x, axis=a), np.zeros(shape))


def test_complex_infinities_and_overflows_are_not_nan() -> None:
    """NumPy's product of infinite or large complex numbers has parts that are NaN."""
    for char, size in (("F", 1e38), ("D", 1.5e308)):
        x = np.array([size + 1j * size, size - 1j], char)
        assert_allclose(fnp.linalg.norm(x / 4), np.sqrt(3.0) / 4 * size, 1e-6)
        assert fnp.linalg.norm(np.array([np.inf + 1j, 1.0], char)) == np.inf
        direction = fg.grad(lambda x: fnp.linalg.norm(x))(x)
        assert_allclose(np.abs(direction), np.sqrt([2 / 3, 1 / 3]), 1e-6)

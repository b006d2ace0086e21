"""Blocks at traced places: one program for all, in every mode, by both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DtypeError, ShapeError, TracerError
from tests.together import together

X = np.arange(1.0, 9.0)
TABLE = X.reshape(2, 4)
PLACES = (0, 1, 5, 6, 7, 8, 100, -1, -2, -3, -5, -8, -9, -100)


def test_a_block_is_moved_inside_the_array() -> None:
    for start in PLACES:
        first = min(max(start + 8 * (start < 0), 0), 5)
        expected = X[first : first + 3]
        changed = X.copy()
        changed[first : first + 3] = [0, -1, -2]
        for index in ((start,), [np.int32(start)], np.array([start])):
            assert_array_equal(fnp.dynamic_slice(X, index, (3,)), expected)
            assert_array_equal(fnp.dynamic_update_slice(X, np.array([0, -1, -2]), index), changed)
    assert fnp.dynamic_slice(X.astype(np.float32), (0,), (2,)).dtype == np.float32


@together("backend", ["numpy", "native"])
def test_one_program_serves_all_places(backend: str) -> None:
    functions: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (fnp.roll, np.roll),
        (lambda x, k: fnp.roll(x, (k, 1), (0, 0)), lambda x, k: np.roll(x, (k, 1), (0, 0))),
        (lambda x, k: fnp.tril(x[None], k), lambda x, k: np.tril(x[None], k)),
        (fnp.triu, np.triu),
        (
            lambda x, k: fnp.dynamic_slice(x, (k,), (3,)),
            lambda x, k: x[(first := min(max(k + 8 * (k < 0), 0), 5)) : first + 3],
        ),
    ]
    for function, expected in functions:
        jitted = fg.jit(function, backend=backend)
        for k in PLACES:
            assert_array_equal(jitted(X, k), expected(X, k))
        assert jitted.stagings == 1


@together("backend", ["numpy", "native"])
def test_slices_of_a_constant_size_are_one_program_inside_the_array(backend: str) -> None:
    functions: list[Callable[..., Any]] = [
        lambda x, i: x[i : i + 3],
        lambda x, i: x[i + 1 : 1 + (i + 3)],
        lambda x, i: x[i - 1 : i + 1 : 1],
        lambda x, i: x[2 * i : 2 * i + 2],
        lambda x, i: x.reshape(2, 4)[..., i : i + 2],
        lambda x, i: x.reshape(2, 4)[1, None, i : 1 + i],
    ]
    for function in functions:
        jitted = fg.jit(function, backend=backend)
        for i in (1, 2):
            assert_array_equal(jitted(X, i), function(X, i))
        assert jitted.stagings == 1
        for i in PLACES:  # beyond the ends the shape is another, and so is the program
            assert_array_equal(jitted(X, i), function(X, i))
    update = fg.jit(lambda x, i: x.at[i : i + 2].multiply(10.0), backend=backend)
    for i in (1, 2, 6, -4):
        expected = X.copy()
        expected[i : i + 2] *= 10
        assert_array_equal(update(X, i), expected)
    assert update.stagings == 1


def smoothed(x: Any) -> Any:
    """A sum over windows of three, and an update of each."""

    def step(i: Any, state: Any) -> Any:
        total, y = state
        window = y[i : i + 3]
        return total + fnp.sum(window**2 * y[i + 2]), y.at[i : i + 2].add(window[1:] * 0.5)

    return fg.fori_loop(0, 6, step, (0.0, x))[0]


@together("backend", ["numpy", "native"])
def test_windows_in_loops_have_derivatives_of_every_order(backend: str) -> None:
    direction = np.cos(X)
    both = np.stack([X, direction])
    for function, x in (
        (smoothed, X),
        (fg.grad(smoothed), X),
        (fg.hessian(smoothed), X),
        (lambda x: fg.jvp(fg.grad(smoothed), (x,), (direction,))[1], X),
        (fg.vmap(fg.grad(smoothed)), both),
    ):
        jitted = fg.jit(function, backend=backend)
        assert_allclose(jitted(x), function(x), 1e-12)
    if backend == "native":
        pytest.importorskip("llvmlite")
        lines = fg.jit(fg.grad(smoothed), backend="native").lower(X).source.splitlines()
        assert lines[0] == "; called back: nothing"


@together("compiled", [False, True])
def test_batches_of_places(compiled: bool) -> None:
    starts = np.array([1, 4, 2])

    def run(f: Any, *axes: Any) -> Any:
        return fg.jit(fg.vmap(f, in_axes=axes)) if compiled else fg.vmap(f, in_axes=axes)

    expected = np.stack([X[i - 1 : i + 2] for i in starts])
    window = run(lambda x, i: x[i - 1 : i + 2], None, 0)
    assert_array_equal(window(X, starts), expected)
    gradient = run(fg.grad(lambda x, i: fnp.sum(x[i : i + 2] ** 2)), None, 0)
    want = np.zeros((3, 8))
    for row, i in zip(want, starts, strict=True):
        row[i : i + 2] = 2 * X[i : i + 2]
    assert_array_equal(gradient(X, starts), want)
    tables = np.stack([TABLE, -TABLE, 2 * TABLE])
    block = run(lambda x, i, j: fnp.dynamic_slice(x, (j, i), (1, 2)), 0, 0, None)
    assert_array_equal(
        block(tables, np.array([0, 1, 9]), 1), [TABLE[1:, :2], -TABLE[1:, 1:3], 2 * TABLE[1:, 2:]]
    )
    put = run(lambda x, i: fnp.dynamic_update_slice(x, x[:1] * 10, (i,)), 0, 0)
    rows = np.stack([X, -X])
    changed = rows.copy()
    changed[0, 3], changed[1, 7] = 10, -10
    assert_array_equal(put(rows, np.array([3, -1])), changed)
    shifts = run(fnp.roll, None, 0)
    assert_array_equal(shifts(X, starts), [np.roll(X, k) for k in starts])
    nested = run(lambda x, i: fg.vmap(lambda j: x[i + j : i + j + 2])(fnp.arange(2)), None, 0)
    assert_array_equal(nested(X, starts), [[X[i : i + 2], X[i + 1 : i + 3]] for i in starts])


def test_gradients_with_respect_to_blocks() -> None:
    def loss(x: Any, u: Any, k: Any) -> Any:
        return fnp.sum(fnp.dynamic_update_slice(x, u, (k,)) ** 3)

    u = np.array([2.0, 3.0])
    for k in (2, 7):
        first = min(k, 6)
        of_x, of_u = fg.jit(fg.grad(loss, argnums=(0, 1)))(X, u, k)
        expected = 3 * X**2
        expected[first : first + 2] = 0
        assert_allclose(of_x, expected)
        assert_allclose(of_u, 3 * u**2)


def test_a_slice_that_leaves_the_array_in_a_loop_is_an_error() -> None:
    def beyond(x: Any) -> Any:
        return fg.fori_loop(0, 7, lambda i, c: c + x[i : i + 3], fnp.zeros(3))

    for backend in ("numpy", "native"):
        with pytest.raises(IndexError, match="bounds of a slice are out of range"):
            fg.jit(beyond, backend=backend)(X)
    sizes = fg.jit(lambda x: fg.fori_loop(0, 3, lambda i, c: c + fnp.sum(x[i : 2 * i]), 0.0))
    with pytest.raises(TracerError, match="bounds of a slice have to be concrete"):
        sizes(X)


def test_arguments_that_do_not_fit() -> None:
    for shape, indices, sizes in (
        ((8,), (0, 0), (3,)),
        ((8,), (0,), (3, 1)),
        ((8,), (0,), (9,)),
        ((8,), np.zeros((1, 1), int), (3,)),
    ):
        with pytest.raises(ShapeError, match="dynamic_slice: "):
            fnp.dynamic_slice(np.zeros(shape), indices, sizes)
    with pytest.raises(ShapeError, match="dynamic_update_slice: a block of the shape"):
        fnp.dynamic_update_slice(X, np.zeros(9), (0,))
    with pytest.raises(DtypeError, match="start_indices"):
        fg.jit(lambda k: fnp.dynamic_slice(X, (k,), (2,)))(1.5)
    with pytest.raises(DtypeError, match="without loss"):
        fnp.dynamic_update_slice(np.zeros(3, int), [0.5], (0,))
    for function in (fnp.roll, fnp.tril, fnp.triu):
        with pytest.raises(DtypeError, match="has to be an integer"):
            fg.jit(lambda k, f=function: f(X, k))(1.5)

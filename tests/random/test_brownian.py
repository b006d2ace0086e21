"""Brownian paths: their law, the same path at any times, and clear errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import random
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.random.brownian_paths import path_at, path_keys, path_on_grid

KEY = random.key(5)


def test_a_path_does_not_depend_on_the_times_that_are_asked_for() -> None:
    times = np.array([0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9999, 1.0])
    value, area = random.brownian(KEY, times, (2,), integral=True)
    assert value.shape == area.shape == (8, 2)
    for row, time in enumerate(times):
        alone = random.brownian(KEY, time, (2,), integral=True)
        np.testing.assert_array_equal(alone[0], value[row])
        np.testing.assert_array_equal(alone[1], area[row])
    staged = fg.jit(lambda t: random.brownian(KEY, t, (2,)))(times)
    np.testing.assert_allclose(staged, value, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(value[0], np.zeros(2))
    shorter = random.brownian(KEY, times)  # the first element of a shape is the same
    np.testing.assert_array_equal(shorter, value[:, 0])


@pytest.mark.parametrize("steps", [1, 8, 6])
def test_a_finer_grid_has_the_same_path(steps: int) -> None:
    keys = path_keys(KEY, 2, "test")
    coarse, fine = path_on_grid(keys, steps), path_on_grid(keys, 4 * steps)
    alone = path_at(keys, fnp.asarray(np.arange(steps + 1) / steps))
    for x, y, z in zip(coarse, fine, alone, strict=True):
        np.testing.assert_array_equal(x, y[::4])
        np.testing.assert_array_equal(x, z)


def test_the_integral_is_the_integral_of_the_path() -> None:
    times = np.linspace(0.0, 3.0, 2**13 + 1)
    path, area = random.brownian(KEY, times, t1=3.0, integral=True)
    inner = np.cumsum((np.asarray(path)[1:] + np.asarray(path)[:-1]) / 2) * (times[1] - times[0])
    np.testing.assert_allclose(area[1:], inner, atol=2e-4)


@pytest.mark.parametrize("steps", [4, 5])
def test_increments_and_areas_have_the_law_of_brownian_motion(steps: int) -> None:
    count = 4000
    keys = random.split(random.key(11), count)
    ends = np.arange(steps + 1) / steps * 2.0
    path, area = fg.vmap(lambda key: random.brownian(key, ends, t1=2.0, integral=True))(keys)
    h = 2.0 / steps
    widths = np.diff(path, axis=1)
    bulges = np.diff(area, axis=1) / h - (np.asarray(path)[:, 1:] + np.asarray(path)[:, :-1]) / 2
    both = np.concatenate([widths / np.sqrt(h), bulges / np.sqrt(h / 12)], axis=1)
    np.testing.assert_allclose(both.mean(0), 0.0, atol=4.5 / np.sqrt(count))
    covariance = both.T @ both / count
    np.testing.assert_allclose(covariance, np.eye(2 * steps), atol=4.5 * np.sqrt(2 / count))
    np.testing.assert_allclose((both**4).mean(0), 3.0, atol=4.5 * np.sqrt(96 / count))


def test_batches_and_precisions() -> None:
    keys = random.split(KEY, 3)
    times = np.array([0.2, 0.7])
    batch = fg.vmap(lambda key: random.brownian(key, times, (2,)))(keys)
    loop = np.stack([random.brownian(key, times, (2,)) for key in keys])
    np.testing.assert_array_equal(batch, loop)
    low = random.brownian(KEY, times, (), "float32")
    assert low.dtype == np.float32
    np.testing.assert_array_equal(low, random.brownian(KEY, times).astype("float32"))
    assert random.brownian(KEY, 0.5).shape == ()
    assert random.brownian(KEY, np.zeros((0, 2)), (3,)).shape == (0, 2, 3)


def test_paths_over_longer_intervals_are_scaled_and_differentiable_in_the_ends() -> None:
    unit = random.brownian(KEY, [0.25, 0.5])
    long = random.brownian(KEY, [2.0, 3.0], t0=1.0, t1=5.0)
    np.testing.assert_allclose(long, 2.0 * np.asarray(unit), rtol=1e-14)

    def last(end: Any) -> Any:
        return random.brownian(KEY, end, t1=end)

    np.testing.assert_allclose(fg.grad(last)(4.0), last(1.0) / 4.0, rtol=1e-14)
    assert float(fg.grad(lambda t: random.brownian(KEY, t))(0.3)) == 0.0


def test_asking_again_is_no_second_use_of_the_key() -> None:
    with random.check_keys():
        random.brownian(KEY, 0.5)
        random.brownian(KEY, 0.25)


def test_errors_say_what_is_wrong() -> None:
    with pytest.raises(ArgumentError, match=r"brownian: t has to be from t0=0.0 to t1=1.0"):
        random.brownian(KEY, [0.5, 1.5])
    with pytest.raises(ArgumentError, match="t0 has to be less than t1"):
        random.brownian(KEY, 0.5, t0=1.0, t1=1.0)
    with pytest.raises(DtypeError, match="t has to be real, got complex128"):
        random.brownian(KEY, 0.5j)
    with pytest.raises(DtypeError, match=r"brownian: .*key"):
        random.brownian(3.0, 0.5)
    with pytest.raises(ShapeError, match=r"fg\.vmap"):
        random.brownian(random.split(KEY), 0.5)
    outside = fg.jit(lambda t: random.brownian(KEY, t))(fg.tensor([0.5, 1.5, -0.1]))
    np.testing.assert_array_equal(np.isnan(outside), [False, True, True])


def test_paths_never_change() -> None:
    path, area = random.brownian(random.key(0), [0.3, 0.5, 1.0], integral=True)
    np.testing.assert_allclose(path, PATH, rtol=1e-13)
    np.testing.assert_allclose(area, AREA, rtol=1e-13)


PATH = [-0.48425719659387984, -0.49220051608756477, 0.3140728370217101]
AREA = [-0.16957866279067935, -0.26116991878645, -0.1850592328069883]

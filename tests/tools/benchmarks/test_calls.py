"""The overhead of a call: jitted, eager, and in NumPy alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.tools.benchmarks.functions import layers, mlp, rows

VECTOR = fg.tensor(np.linspace(0.1, 1.0, 1000))
SMALL = fg.tensor(np.linspace(0.1, 1.0, 10))


def wave(x):
    return fnp.sin(x) * x + 1.0


def numpy_wave(x):
    return np.sin(x) * x + 1.0


HOW: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "jit": fg.jit}
WAVES: dict[str, Callable[[Any], Any]] = {"numpy": lambda f: numpy_wave, **HOW}


@pytest.mark.benchmark(group="call: number")
@pytest.mark.parametrize("how", WAVES)
def test_a_number(benchmark, how):
    f = WAVES[how](wave)
    x = np.float64(0.5) if how == "numpy" else fg.tensor(0.5)
    f(x)
    assert_allclose(benchmark(f, x), numpy_wave(0.5))


@pytest.mark.benchmark(group="call: vector of 1000")
@pytest.mark.parametrize("how", WAVES)
def test_a_vector(benchmark, how):
    f = WAVES[how](wave)
    x = np.asarray(VECTOR) if how == "numpy" else VECTOR
    f(x)
    assert_allclose(benchmark(f, x), numpy_wave(np.asarray(VECTOR)))


@pytest.mark.benchmark(group="call: dict of 20 arrays")
@pytest.mark.parametrize("how", HOW)
def test_a_dict(benchmark, how):
    def halved(tree):
        return fg.tree.map(lambda x: x * 0.5, tree)

    f = HOW[how](halved)
    tree = {f"key {k}": SMALL + float(k) for k in range(20)}
    f(tree)
    benchmark.extra_info["leaves"] = len(tree)
    assert_allclose(benchmark(f, tree)["key 7"], 0.5 * np.asarray(tree["key 7"]))


@pytest.mark.benchmark(group="call: guards")
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("ways", [1, 2, 8])
def test_ways_that_alternate(benchmark, how, ways):
    def f(x, way):
        for k in range(8):
            if way == k:
                return x * float(k)
        return x

    g = HOW[how](f)
    numbers = [fg.tensor(float(k)) for k in range(ways)]

    def every_way():
        return [g(SMALL, number) for number in numbers]

    every_way()
    benchmark.extra_info["calls"] = ways
    for k, found in enumerate(benchmark(every_way)):
        assert_allclose(found, np.asarray(SMALL) * k)


@pytest.mark.benchmark(group="call: shapes")
@pytest.mark.parametrize("shapes", [1, 4, 16])
def test_shapes_that_alternate(benchmark, shapes):
    f = fg.jit(wave)
    arrays = [fnp.ones(k) for k in range(shapes)]

    def every_shape():
        return [f(array) for array in arrays]

    every_shape()
    benchmark.extra_info["calls"] = shapes
    for array, found in zip(arrays, benchmark(every_shape), strict=True):
        assert_allclose(found, numpy_wave(np.asarray(array)))


@pytest.mark.benchmark(group="call: gradient of a perceptron")
@pytest.mark.parametrize("how", HOW)
def test_a_gradient(benchmark, how):
    gradient = fg.grad(mlp)
    f = HOW[how](gradient)
    params, x = layers(), rows()
    f(params, x)
    found = benchmark(f, params, x)
    assert_allclose(found[0]["bias"], gradient(params, x)[0]["bias"])

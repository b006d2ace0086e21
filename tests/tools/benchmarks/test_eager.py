"""Benchmarks without staging: single operations, derivatives, batches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.tools.benchmarks.functions import chain, layers, mlp, rows

X = np.linspace(0.1, 1.0, 10)


@pytest.mark.benchmark(group="eager: one operation")
@pytest.mark.parametrize("how", ["numpy", "tensor", "operator"])
def test_one_operation(benchmark, how):
    t = fg.tensor(X)
    found = {
        "numpy": lambda: np.multiply(X, X),
        "tensor": lambda: fnp.multiply(t, t),
        "operator": lambda: t * t,
    }
    assert_allclose(benchmark(found[how]), X * X)


@pytest.mark.benchmark(group="eager: derivatives of a hundred operations")
@pytest.mark.parametrize("how", ["value", "grad", "jvp"])
def test_derivatives(benchmark, how):
    work = {"value": chain, "grad": fg.grad(chain), "jvp": lambda x: fg.jvp(chain, (x,), (1.0,))[1]}
    found = benchmark(work[how], 2.0)
    expected = chain(2.0) if how == "value" else fg.grad(chain)(2.0)
    assert_allclose(found, expected)


@pytest.mark.benchmark(group="eager: perceptron")
@pytest.mark.parametrize("how", ["value", "grad", "vmap", "vmap of grad"])
def test_perceptron(benchmark, how):
    work = {
        "value": mlp,
        "grad": fg.grad(mlp),
        "vmap": fg.vmap(mlp, in_axes=(None, 0)),
        "vmap of grad": fg.vmap(fg.grad(mlp), in_axes=(None, 0)),
    }
    params, x = layers(), rows()
    found = benchmark(work[how], params, x)
    benchmark.extra_info["rows"] = x.shape[0]
    assert all(bool(fnp.all(fnp.isfinite(leaf))) for leaf in fg.tree.leaves(found))

"""Functions of trees on flat vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors, interop
from funcgrad.interop.flat_bridge import FlatBridge
from tests.together import refused

LIKE = {"w": np.ones((2, 2)), "b": (np.float32(0.5), 2.0)}


def loss(p: Any, scale: Any = 1.0) -> Any:
    return scale * fnp.sum(p["w"] ** 3) * p["b"][1] + fnp.exp(p["b"][0])


FLAT = interop.flat(loss, LIKE)
X = np.array([0.5, 2.0, 1.0, 2.0, 3.0, -1.0])  # exact in float32


def test_values_and_derivatives() -> None:
    def of_vector(x: Any) -> Any:
        return loss({"w": x[2:].reshape(2, 2), "b": (x[0], x[1])})

    value, gradient = FLAT.value_and_grad(X)
    assert type(value) is float
    np.testing.assert_allclose(value, of_vector(fg.tensor(X)), rtol=1e-6)
    np.testing.assert_allclose(gradient, fg.grad(of_vector)(X), rtol=1e-6)
    np.testing.assert_allclose(FLAT.grad(X), gradient)
    np.testing.assert_allclose(FLAT.hess(X), fg.hessian(of_vector)(X), rtol=1e-6)
    np.testing.assert_allclose(FLAT.hvp(X, X[::-1]), FLAT.hess(X) @ X[::-1], rtol=1e-6)
    np.testing.assert_allclose(FLAT(np.stack([X, 2 * X])), [FLAT(X), FLAT(2 * X)])
    np.testing.assert_allclose(FLAT.value(X, 0.0), np.exp(0.5), rtol=1e-6)
    assert FLAT.value(np.zeros((0, 6))).shape == (0,)


def test_results_may_be_written_to_and_arguments_too() -> None:
    x = X.copy()
    for out in (FLAT.grad(x), FLAT.hess(x), FLAT.hvp(x, x), FLAT.ravel(FLAT.unravel(x))):
        assert out.dtype == np.float64
        out[0] = 7.0
    tree = FLAT.unravel(x)
    x[:] = 0.0
    assert tree["b"][1] == 2.0


def test_names_and_trees() -> None:
    assert FLAT.names == ("b.0", "b.1", "w[0, 0]", "w[0, 1]", "w[1, 0]", "w[1, 1]")
    assert FLAT.size == 6
    np.testing.assert_array_equal(FLAT.ravel(FLAT.unravel(X)), X)
    assert FLAT.unravel(X)["b"][0].dtype == np.float32
    assert interop.flat(lambda x: x, 1.0).names == ("x",)


def test_solvers_take_it() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    problem = interop.flat(lambda p: fnp.sum((p["w"] - 2.0) ** 2) + p["b"] ** 4, {"w": X, "b": 1.0})
    for options in ({"method": "L-BFGS-B"}, {"method": "Newton-CG", "hess": problem.hess}):
        found = optimize.minimize(problem.value_and_grad, np.ones(7), jac=True, **options)
        np.testing.assert_allclose(problem.unravel(found.x)["w"], 2.0, atol=1e-3)


test_mistakes = refused(
    [
        (lambda: FLAT.value(np.ones(5)), errors.ShapeError, r"value: expected .*\(6,\), got .*5"),
        (lambda: FLAT.grad(np.ones((2, 6))), errors.ShapeError, "named in flat.names"),
        (lambda: FLAT.value(np.ones((2, 5))), errors.ShapeError, r"shape \(m, 6\)"),
        (lambda: FLAT.ravel({"w": 1.0}), errors.TreeError, "ravel: the tree"),
        (
            lambda: FLAT.ravel({"w": np.ones(4), "b": (1.0, 1.0)}),
            errors.ShapeError,
            r"tree\['w'\] has shape \(4,\), expected \(2, 2\)",
        ),
        (lambda: interop.flat(loss, {"n": 3}), errors.DtypeError, r"like\['n'\] has dtype int64"),
        (lambda: interop.flat(loss, {"z": 3j}), errors.DtypeError, "complex128, .* two leaves"),
        (lambda: interop.flat(lambda p: p, X).value(X), errors.ShapeError, "return a number, got"),
        (lambda: interop.flat(3.0, X), errors.FunctionError, "flat: expected a function"),  # type: ignore[arg-type]
    ]
)


def test_bridges_have_the_same_bits_at_every_call() -> None:
    """PyTorch's ``gradcheck`` asks for it."""
    bridge = FlatBridge(lambda _, values: fnp.sum(fnp.exp(fnp.sin(values[0])) * values[0] ** 1.3))
    x, ct = np.random.default_rng(0).uniform(0.1, 1.0, (5, 7)), np.array(1.0)
    static = (None, (True,), (True,))
    for run, values in (
        (bridge.pulled.run, [x, ct]),
        (bridge.pushed.run, [x, x]),
        (bridge.pulled.pulled.run, [x, ct, x]),
    ):
        flags = static if len(values) == 2 else (static, (True, True), (True,))
        first, *others = [bits(run(flags, values)) for _ in range(4)]
        assert others == [first] * 3


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(tree)]

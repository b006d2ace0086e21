"""`minimize` and `least_squares` of pytrees: every method, bounds as trees, their results."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    DeviceError,
    DtypeError,
    FunctionError,
    MissingPackageError,
    ShapeError,
    TreeError,
)
from funcgrad.scipy.optimize import least_squares, minimize
from tests.backends.fake_device import FakeDevice
from tests.together import together

METHODS = [
    *["Nelder-Mead", "Powell", "CG", "BFGS", "L-BFGS-B", "TNC", "COBYLA", "COBYQA", "SLSQP"],
    *["Newton-CG", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr", "dogleg"],
]
START: Any = {"a": np.array([[0.5, -0.3]]), "b": (2.0, np.float32(0.5))}


INSIDE = {"a": np.array([[0.5, 0.3]]), "b": (0.4, 0.5)}


def bowl(p: Any) -> Any:
    """A convex function with the minimum at a = [1, 2], b = (-1, 3)."""
    first, second = p["b"]
    return fnp.sum(fnp.cosh(p["a"] - np.array([1.0, 2.0]))) + (first + 1) ** 2 + (second - 3) ** 2


@together("method", [None, *METHODS])
def test_every_method_finds_the_minimum_of_a_tree(method: str | None) -> None:
    found = minimize(bowl, START, method=method, tol=1e-6)
    np.testing.assert_allclose(found.x["a"], [[1.0, 2.0]], atol=1e-3)
    np.testing.assert_allclose(found.x["b"][0], -1.0, atol=1e-3)
    np.testing.assert_allclose(found.x["b"][1], 3.0, atol=1e-3)
    assert found.x["b"][1].dtype == np.float32
    assert isinstance(found, scipy.optimize.OptimizeResult)
    if method in ("BFGS", "SLSQP", "Newton-CG"):
        assert found.jac["a"].shape == (1, 2)


@together("method", [name for name in METHODS if name[:2] not in ("Ne", "Po", "CO")])
def test_methods_get_derivatives_and_take_no_differences(method: str) -> None:
    """Differences would need one more call for each variable."""
    calls = []

    def counted(p: Any) -> Any:
        calls.append(isinstance(p["a"], fg.Tensor) and p["a"]._trace is not None)
        return bowl(p)

    minimize(counted, START, method=method)
    assert all(calls)  # each of them is differentiated


def test_arguments_and_vectors_are_those_of_scipy() -> None:
    found = minimize(lambda x, c, d: fnp.sum((x - c) ** 2) + d, [0.0, 1.0], (np.ones(2), 5.0))
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)
    assert found.fun == pytest.approx(5.0)
    whole = minimize(lambda x: (x - 3) ** 2, 1)
    assert whole.x.dtype == float
    assert whole.x == pytest.approx(3.0)
    staged = minimize(fg.jit(bowl), START)
    np.testing.assert_allclose(staged.x["a"], [[1.0, 2.0]], atol=1e-4)


@pytest.mark.parametrize("method", ["L-BFGS-B", "TNC", "SLSQP", "trust-constr", "COBYQA"])
def test_bounds_are_prefixes_of_the_tree(method: str) -> None:
    def at(bounds: Any) -> Any:
        return minimize(bowl, INSIDE, method=method, bounds=bounds, tol=1e-9).x

    found = at({"a": (None, np.array([0.75, 5.0])), "b": ((-0.5, None), None)})
    np.testing.assert_allclose(found["a"], [[0.75, 2.0]], atol=2e-3)
    np.testing.assert_allclose(found["b"][0], -0.5, atol=2e-3)
    np.testing.assert_allclose(found["b"][1], 3.0, atol=2e-3)
    found = at({"a": None, "b": (0.0, 2.5)})
    np.testing.assert_allclose(found["b"], [0.0, 2.5], atol=2e-3)
    found = at((0.0, 1.5))
    np.testing.assert_allclose(found["a"], [[1.0, 1.5]], atol=2e-3)


def test_bounds_of_vectors_are_those_of_scipy() -> None:
    def f(x: Any) -> Any:
        return fnp.sum((x - 3.0) ** 2)

    for bounds in ([(0, 1), (None, 2)], scipy.optimize.Bounds([0, -np.inf], [1, 2])):
        np.testing.assert_allclose(minimize(f, np.zeros(2), bounds=bounds).x, [1.0, 2.0])
    np.testing.assert_allclose(minimize(f, np.zeros(2), bounds=(0, 1)).x, [1.0, 1.0])
    np.testing.assert_allclose(minimize(f, np.zeros(3), bounds=[(0, 1)] * 3).x, 1.0)


@pytest.mark.parametrize("method", [None, "SLSQP", "trust-constr"])
def test_constraints_are_functions_of_the_tree(method: str | None) -> None:
    def total(p: Any) -> Any:
        return fnp.sum(p["a"]) + p["b"][0] + p["b"][1]

    constraints: list[Any] = [
        {"type": "eq", "fun": lambda p: total(p) - 1.0},
        {"type": "eq", "fun": lambda p, goal: total(p) - goal, "args": (1.0,)},
        scipy.optimize.NonlinearConstraint(total, 1.0, 1.0),
        scipy.optimize.LinearConstraint(np.ones((1, 4)), 1.0, 1.0),
    ]
    for constraint in constraints:
        found = minimize(bowl, START, method=method, constraints=[constraint], tol=1e-9)
        assert float(total(found.x)) == pytest.approx(1.0, abs=1e-5)
        slope = fg.grad(bowl)(fg.tree.map(fnp.float64, found.x))
        np.testing.assert_allclose(fg.tree.ravel(slope)[0], slope["b"][0], atol=1e-2)
    several = minimize(
        bowl, START, constraints=scipy.optimize.NonlinearConstraint(lambda p: p["a"][0], -1.0, 0.5)
    )
    np.testing.assert_allclose(several.x["a"], [[0.5, 0.5]], atol=1e-5)


def test_no_constraints_are_none() -> None:
    free, given = minimize(bowl, START), minimize(bowl, START, constraints=[])
    assert given.nfev == free.nfev
    assert "hess_inv" in given  # of BFGS, which SLSQP does not have


def test_callbacks_see_trees_and_may_stop() -> None:
    seen: list[Any] = []
    minimize(bowl, START, callback=seen.append)
    assert len(seen) > 1
    assert seen[-1]["a"].shape == (1, 2)

    def stop(p: Any) -> None:
        seen.append(p)
        raise StopIteration

    seen.clear()
    minimize(bowl, START, method="BFGS", callback=stop)
    assert len(seen) == 1


def test_progress_shows_steps_and_the_value() -> None:
    for call in (
        lambda: minimize(bowl, START, progress=True),
        lambda: minimize(bowl, START, method="Nelder-Mead", progress=True),
        lambda: least_squares(lambda p: p["a"] - 1.0, {"a": np.zeros(3)}, progress=True),
    ):
        shown = io.StringIO()
        with redirect_stderr(shown):
            call()
        assert "step" in shown.getvalue()


# ----------------------------------------------------------------------------------- least squares

TIMES = np.linspace(0.0, 1.0, 20)


def misfit(p: Any) -> Any:
    return {"all": p["scale"] * fnp.exp(-p["rates"] * TIMES[:, None]) - np.exp(-TIMES[:, None])}


@together("method", ["trf", "dogbox", "lm"])
@together("loss", ["linear", "soft_l1"])
def test_least_squares_of_trees(method: str, loss: str) -> None:
    if method == "lm":
        loss = "linear"  # the only one that it has
    start: Any = {"scale": 2.0, "rates": np.array([0.5, 3.0])}
    found = least_squares(misfit, start, method=method, loss=loss)
    assert float(found.x["scale"]) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(found.x["rates"], 1.0, atol=1e-5)
    assert found.fun["all"].shape == (20, 2)
    assert found.grad["rates"].shape == (2,)
    assert found.jac.shape == (40, 3)


def test_least_squares_within_bounds_and_with_more_variables_than_residuals() -> None:
    start: Any = {"scale": 0.5, "rates": np.array([0.5, 0.9])}
    found = least_squares(misfit, start, bounds={"scale": (0.0, 0.8), "rates": None})
    assert float(found.x["scale"]) == pytest.approx(0.8, abs=1e-6)
    wide = least_squares(lambda x, c, d: (x - c).sum() * d, np.zeros(5), (2.0,), {"d": 3.0})
    assert float(np.sum(wide.x)) == pytest.approx(10.0)


@together(
    ("call", "kind", "words"),
    [
        (lambda: minimize(fnp.sum, np.zeros(0)), ShapeError, "minimize: x0 has no elements"),
        (lambda: least_squares(lambda p: p, {}), ShapeError, "least_squares: x0 has no elements"),
        (lambda: minimize(bowl, {"a": 1j, "b": (0.0, 0.0)}), DtypeError, "x0['a']"),
        (lambda: least_squares(misfit, {"scale": True, "rates": 1.0}), DtypeError, "['scale']"),
        (
            lambda: minimize(bowl, START, bounds={"a": (0.0, np.ones(3)), "b": None}),
            ShapeError,
            "bounds['a']: a limit of shape (3,) does not fit a leaf of shape (1, 2)",
        ),
        (lambda: minimize(bowl, START, bounds={"c": None}), TreeError, "minimize: bounds"),
        (lambda: minimize(fnp.sum, np.zeros(2), bounds=[(0, 1)]), ShapeError, "1 pairs of bounds"),
        (lambda: minimize(fnp.sum, np.zeros(2), bounds=[0, 1, 2]), ArgumentError, "bounds[0]"),
        (lambda: minimize(bowl, START, constraints=[lambda p: 0.0]), ArgumentError, "a dict with"),
    ],
)
def test_bad_input_is_explained(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert words in str(caught.value)


@pytest.mark.parametrize("missing", ["scipy", "tqdm"])
def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    for name in (missing, f"{missing}.optimize"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPackageError, match=f"pip install {missing}"):
        minimize(bowl, START, progress=True)


def test_a_function_in_the_place_of_variables_is_refused() -> None:
    for name in ("minimize", "least_squares"):
        with pytest.raises(FunctionError, match=f"{name}: expected a function, got a list of 1"):
            getattr(fg.scipy.optimize, name)([1.0], lambda x: x)


@together("method", ["Nelder-Mead", "L-BFGS-B", "Newton-CG", "trust-exact", "trust-constr"])
def test_minima_are_on_the_device_of_the_variables(method: str) -> None:
    device = FakeDevice("fake:minimize")
    goal = fg.put(np.array([0.5, 2.0]), device)
    seen = []

    def value(p: Any) -> Any:
        seen.append(p["x"].device)
        return fnp.sum((p["x"] - goal) ** 2) + (p["y"] - 1.0) ** 2

    start: Any = {"x": fnp.zeros_like(goal), "y": 0.0}
    found = minimize(value, start, method=method, tol=1e-8)
    np.testing.assert_allclose(found.x["x"], [0.5, 2.0], atol=1e-3)
    assert set(seen) == {device.name}
    assert found.x["x"].device == device.name


def test_constraints_and_residuals_on_a_device() -> None:
    device = FakeDevice("fake:constraints")
    goal = fg.put(np.array([0.5, 2.0]), device)
    start = fnp.zeros_like(goal)
    limit = scipy.optimize.NonlinearConstraint(lambda x: fnp.sum(x * goal), -np.inf, 1.0)
    for method in ("SLSQP", "trust-constr"):
        found = minimize(
            lambda x: fnp.sum((x - goal) ** 2), start, method=method, constraints=limit
        )
        np.testing.assert_allclose(found.x, np.array([0.5, 2.0]) / 4.25, rtol=1e-3)
    fitted = least_squares(lambda x: {"r": x**2 - goal}, start + 0.1, bounds=(0.0, 1.0))
    np.testing.assert_allclose(fitted.x, [np.sqrt(0.5), 1.0], rtol=1e-5)
    assert fitted.x.device == fitted.grad.device == fitted.fun["r"].device == device.name
    with pytest.raises(DeviceError, match=r"on the host.*fg.put"):
        least_squares(lambda p: p[0] * 2.0, (start, np.ones(2)))

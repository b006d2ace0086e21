"""Proximal operators minimize what they say, and proximal gradients reach the minimum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad.errors import ArgumentError, ConvergenceError, DtypeError, ShapeError
from tests.together import together

prox = optim.prox
RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(4, 3))
SIGNAL = np.repeat([0.0, 2.0, -1.0], 5) + 0.3 * RNG.normal(size=15)

PENALTIES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any], Any]] = {
    "l1": (prox.l1, lambda x: np.abs(x).sum(), MATRIX),
    "group": (
        lambda x, s: prox.group(x, s, axis=1),
        lambda x: np.sqrt((x * x).sum(1)).sum(),
        MATRIX,
    ),
    "nuclear": (prox.nuclear, lambda x: np.linalg.norm(x, "nuc"), MATRIX),
    "total variation": (prox.total_variation, lambda x: np.abs(np.diff(x)).sum(), SIGNAL),
}


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.7, 50.0])
@pytest.mark.parametrize("name", PENALTIES)
def test_operators_are_least(name: str, scale: float) -> None:
    operator, penalty, v = PENALTIES[name]
    best = np.asarray(operator(v, scale))

    def cost(x: Any) -> Any:
        return scale * penalty(x) + 0.5 * ((x - v) ** 2).sum()

    for size in (1e-1, 1e-3):
        for _ in range(50):
            assert cost(best + size * RNG.normal(size=v.shape)) >= cost(best) - 1e-12
    if name == "total variation" and scale == 50.0:
        np.testing.assert_allclose(best, v.mean(), rtol=1e-12)


@pytest.mark.parametrize(
    "name", [n if n == "l1" else pytest.param(n, marks=pytest.mark.slow) for n in PENALTIES]
)
def test_operators_are_differentiable_batched_and_staged(name: str) -> None:
    operator, _, v = PENALTIES[name]
    weights = np.cos(np.arange(v.size)).reshape(v.shape)

    def f(x: Any, scale: Any) -> Any:
        return fnp.sum(weights * operator(x, scale) ** 2)

    fg.testing.check_grads(f, (v, 0.3))
    np.testing.assert_allclose(fg.jit(f)(v, 0.3), f(v, 0.3), rtol=1e-12)
    scales = np.array([0.1, 0.9, 0.3])
    loop = [float(f(v, s)) for s in scales]
    np.testing.assert_allclose(fg.vmap(f, (None, 0))(v, scales), loop, rtol=1e-12)
    assert np.asarray(operator(v.astype(np.float32), 0.3)).dtype == np.float32


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_total_variation_of_long_signals(scale: float) -> None:
    v = np.cumsum(RNG.normal(size=300)) + RNG.normal(size=300)
    x = np.asarray(prox.total_variation(v, scale))
    forces, jumps = np.cumsum(x - v)[:-1], np.diff(x)
    assert np.abs(forces).max() <= scale * (1.0 + 1e-9)
    jumping = np.abs(jumps) > 1e-9
    np.testing.assert_allclose(forces[jumping], scale * np.sign(jumps[jumping]), rtol=1e-8)


def test_boxes_simplices_and_trees() -> None:
    tree = {"a": fg.tensor([-1.0, 0.5]), "b": fg.tensor(3.0)}
    assert float(prox.box(tree, 0.0, 1.0)["b"]) == 1.0
    assert float(prox.box(tree, upper=1.0)["a"][0]) == -1.0
    np.testing.assert_allclose(fnp.sum(prox.simplex(fg.tensor([1.0, 2.0, 0.0]), 3.0)), 3.0)
    assert float(prox.l1(tree, 1.0)["b"]) == 2.0
    with pytest.raises(ShapeError, match="vector"):
        prox.total_variation(np.ones((2, 2)))
    assert prox.total_variation(np.ones(1)).shape == (1,)


@together("name", PENALTIES)
def test_negative_scales(name: str) -> None:
    operator, _, v = PENALTIES[name]
    with pytest.raises(ArgumentError, match=r"prox\.\w+: scale has to be at least 0, got -0.5"):
        operator(v, -0.5)
    scales = np.array([-0.5, 0.5])
    batch = np.asarray(fg.jit(fg.vmap(operator, (None, 0)))(v, scales))
    assert np.isnan(batch[0]).all()
    np.testing.assert_allclose(batch[1], operator(v, 0.5), rtol=1e-12, atol=1e-15)


A = RNG.normal(size=(20, 6))
B = A @ np.array([2.0, 0.0, -1.0, 0.0, 0.0, 0.5]) + 0.1 * RNG.normal(size=20)


def lasso(weight: Any, b: Any = B, **options: Any) -> Any:
    return optim.proximal_gradient(
        lambda w, b: 0.5 * fnp.sum((A @ w - b) ** 2),
        np.zeros(6),
        lambda w, step: prox.l1(w, weight * step),
        (b,),
        **options,
    )


def test_the_lasso_satisfies_its_conditions() -> None:
    w = np.asarray(lasso(4.0))
    slope = A.T @ (A @ w - B)
    np.testing.assert_allclose(slope[w != 0], -4.0 * np.sign(w[w != 0]), rtol=1e-8)
    assert np.abs(slope[w == 0]).max() <= 4.0
    assert 0 < (w == 0).sum() < 6


def test_solution_maps_are_differentiable_batched_and_staged() -> None:
    def f(weight: Any) -> Any:
        return fnp.sum(np.arange(6.0) * lasso(weight))

    step = 1e-4
    difference = (float(f(4.0 + step)) - float(f(4.0 - step))) / (2.0 * step)
    assert float(fg.grad(f)(4.0)) == pytest.approx(difference, rel=1e-6)
    assert float(fg.jvp(f, (4.0,), (1.0,))[1]) == pytest.approx(difference, rel=1e-6)
    assert float(fg.grad(fg.grad(f))(4.0)) == pytest.approx(0.0, abs=1e-9)  # pieces of lines
    batch = np.array([4.0, 1.0, 9.0])
    loop = [float(f(weight)) for weight in batch]
    staged = fg.jit(fg.vmap(f))
    np.testing.assert_allclose(staged(batch), loop, rtol=1e-9)
    np.testing.assert_array_equal(staged(batch[::-1].copy()), np.asarray(staged(batch))[::-1])
    slope = fg.jacrev(lambda b: lasso(4.0, b))(B)
    np.testing.assert_allclose(
        slope @ (B - B.mean()),
        fg.jvp(lambda b: lasso(4.0, b), (B,), (B - B.mean(),))[1],
        atol=1e-12,
    )


def test_too_few_steps_are_told() -> None:
    with pytest.raises(ConvergenceError, match="maxiter"):
        lasso(4.0, maxiter=2)
    assert np.isnan(np.asarray(lasso(4.0, maxiter=2, failed="nan"))).all()


def test_nan_complex_and_integer_arguments() -> None:
    for operator in (prox.l1, prox.group):
        assert np.isnan(operator(np.array([np.nan]), 1.0)).all()
        assert np.isnan(operator(np.array([2.0]), np.nan)).all()
        np.testing.assert_array_equal(operator(np.array([3, 0]), 0.5), [2.5, 0.0])
        np.testing.assert_allclose(operator(np.array([3.0 + 4.0j]), 1.0), [2.4 + 3.2j])
    loss = lambda x, y: fnp.sum((x - y) ** 2)  # noqa: E731
    y = np.array([1.0, 2.0])
    x = optim.proximal_gradient(loss, np.zeros(2), lambda x, step: x, y)  # one argument
    np.testing.assert_allclose(x, y, rtol=1e-9)
    for start in (np.zeros(2, int), np.zeros(2, complex)):
        with pytest.raises(DtypeError, match="proximal_gradient"):
            optim.proximal_gradient(loss, start, lambda x, step: x, y)

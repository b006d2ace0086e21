"""An example whose result was not selected adds nothing to what all examples share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

Function = Callable[..., Any]
NOISE = np.random.default_rng(3).standard_normal((3, 3))
MATRIX = NOISE @ NOISE.T + np.diag([2.0, 4.0, 7.0])
VECTOR = np.array([1.0, -2.0, 0.5])
SCALES = np.array([1.0, -1.0, 2.0])
"""The second makes a matrix of NaN."""

OPERATIONS: dict[str, Function] = {
    "solve": lambda a, s: fnp.linalg.solve(a, VECTOR * s, failed="nan"),
    "solve with a shared matrix": lambda a, s: fnp.linalg.solve(MATRIX + s * np.eye(3), a[..., :1]),
    "inv": lambda a, s: fnp.linalg.inv(a, failed="nan"),
    "cholesky": lambda a, s: fnp.linalg.cholesky(a, failed="nan"),
    "det": lambda a, s: fnp.linalg.det(a),
    "slogdet": lambda a, s: fnp.linalg.slogdet(a)[1],
    "eigh": lambda a, s: fnp.linalg.eigh(a, failed="nan")[1] ** 2,
    "eigvalsh": lambda a, s: fnp.linalg.eigvalsh(a, failed="nan"),
    "solve_triangular": lambda a, s: fg.scipy.linalg.solve_triangular(
        a, VECTOR * s, lower=True, failed="nan"
    ),
}


def one(operation: Function) -> Function:
    def value(shared: Any, scale: Any) -> Any:
        a = MATRIX * fnp.sqrt(scale) + shared * fnp.diag(VECTOR)
        a = a + shared**2 * fnp.ones((3, 3)) / 9.0
        out = fnp.sum(fnp.sin(operation(a, shared)))
        return fnp.where(scale > 0.0, out, 3.0)

    return value


def of_batch(operation: Function) -> Function:
    f = one(operation)
    return lambda shared: fnp.sum(fg.vmap(f, in_axes=(None, 0))(shared, SCALES))


def of_stack(operation: Function) -> Function:
    def total(shared: Any) -> Any:
        scale = SCALES[:, None, None]
        a = MATRIX * fnp.sqrt(scale) + shared * fnp.diag(VECTOR)
        a = a + shared**2 * fnp.ones((3, 3)) / 9.0
        out = fnp.sin(operation(a, shared))
        out = fnp.sum(fnp.reshape(out, (3, -1)), axis=1)
        return fnp.sum(fnp.where(SCALES > 0.0, out, 3.0))

    return total


def of_the_others(operation: Function) -> Function:
    f = one(operation)
    return lambda shared: f(shared, 1.0) + f(shared, 2.0) + 3.0


DERIVATIVES: dict[str, Callable[[Function], Function]] = {
    "grad": fg.grad,
    "jit of grad": lambda f: fg.jit(fg.grad(f)),
    "grad of jit": lambda f: fg.grad(fg.jit(f)),
    "grad of grad": lambda f: fg.grad(fg.grad(f)),
    "jvp of grad": lambda f: lambda x: fg.jvp(fg.grad(f), (x,), (1.0,))[1],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together("name", OPERATIONS)
@together("way", DERIVATIVES)
def test_what_was_not_selected_adds_nothing_to_shared_gradients(name: str, way: str) -> None:
    derive, operation = DERIVATIVES[way], OPERATIONS[name]
    expected = derive(of_the_others(operation))(0.3)
    assert np.isfinite(expected)
    assert_allclose(derive(of_batch(operation))(0.3), expected, rtol=1e-9)
    assert_allclose(derive(of_stack(operation))(0.3), expected, rtol=1e-9)


def test_derivatives_do_not_refuse_a_matrix_that_was_rejected() -> None:
    """Equal eigenvalues have vectors without derivative, and a matrix without rank no factors."""
    stack = np.stack([MATRIX, np.eye(3), np.ones((3, 3))])
    chosen = np.array([True, False, False])[:, None, None]
    for vectors in (lambda a: fnp.linalg.eigh(a)[1], lambda a: fnp.linalg.qr(a)[0]):

        def alone(a: Any, vectors: Function = vectors) -> Any:
            return fnp.sum(vectors(a)[..., 0] ** 3)

        def total(a: Any, vectors: Function = vectors) -> Any:
            return fnp.sum(fnp.where(chosen, vectors(a), 0.0)[..., 0] ** 3)

        slopes = fg.grad(total)(stack)
        assert_allclose(slopes[0], fg.grad(alone)(MATRIX), rtol=1e-10)
        assert not slopes[1:].any()
        assert_allclose(fg.jit(fg.grad(total))(stack), slopes, rtol=1e-10)

        def one(a: Any, chosen: Any, vectors: Function = vectors) -> Any:
            return fnp.sum(fnp.where(chosen, vectors(a), 0.0)[..., 0] ** 3)

        of_each = fg.vmap(fg.grad(one))
        assert_allclose(of_each(stack, chosen), slopes, rtol=1e-10)
        assert_allclose(fg.jit(of_each)(stack, chosen), slopes, rtol=1e-10)
        assert not np.asarray(of_each(stack[1:], chosen[1:])).any()


@pytest.mark.parametrize("name", ["matmul", "einsum", "tensordot"])
def test_rejected_rows_leave_what_all_rows_are_multiplied_with_alone(name: str) -> None:
    rows = np.array([[1.0, 2.0], [np.nan, 1.0], [3.0, np.inf]])
    product: Function = {
        "matmul": fnp.matmul,
        "einsum": lambda x, w: fnp.einsum("ij,jk->ik", x, w),
        "tensordot": lambda x, w: fnp.tensordot(x, w, 1),
    }[name]

    def total(w: Any) -> Any:
        return fnp.sum(fnp.where(np.array([[True], [False], [False]]), product(rows, w) ** 2, 0.0))

    expected = fg.grad(lambda w: fnp.sum((rows[:1] @ w) ** 2))(MATRIX[:2, :2])
    assert_allclose(fg.grad(total)(MATRIX[:2, :2]), expected)
    assert_allclose(fg.jit(fg.grad(total))(MATRIX[:2, :2]), expected)
    direction = np.ones((2, 2))
    moved = fg.jvp(fg.grad(total), (MATRIX[:2, :2],), (direction,))[1]
    assert_allclose(fg.grad(lambda w: fnp.sum(fg.grad(total)(w)))(MATRIX[:2, :2]), moved)
    assert np.isfinite(moved).all()


def newton_step(x: Any, damping: Any, failed: str = "nan") -> Any:
    """Step to the least energy by a factor of the damped Hessian, or stay where it has none."""

    def energy(x: Any) -> Any:
        return fnp.sum(x**4 / 4.0) - fnp.sum(x**2) + x @ MATRIX @ x / 20.0

    hessian = fg.hessian(energy)(x) + damping * np.eye(3)
    factor = fnp.linalg.cholesky(hessian, failed=failed)
    half = fg.scipy.linalg.solve_triangular(factor, fg.grad(energy)(x), lower=True, failed=failed)
    step = fg.scipy.linalg.solve_triangular(factor.T, half, failed=failed)
    new = x - step
    return fnp.where(energy(new) < energy(x), new, x)


@pytest.mark.parametrize("mode", [lambda f: f, fg.jit])
def test_rejected_steps_leave_the_gradient_of_what_is_shared_alone(mode: Any) -> None:
    """A matrix is not positive definite at the second start, whose step is rejected."""
    starts = np.array([[1.5, -1.2, 1.4], [0.01, 0.02, 0.01], [2.0, 1.0, -2.0]])

    def batch(damping: Any, x: Any) -> Any:
        return fnp.sum(fg.vmap(newton_step, in_axes=(0, None))(x, damping) ** 2)

    def others(damping: Any) -> Any:
        return sum(fnp.sum(newton_step(x, damping, "raise") ** 2) for x in starts[::2])

    assert np.isnan(fnp.linalg.cholesky(MATRIX / 10.0 - 2.0 * np.eye(3), failed="nan")).any()
    slope = mode(fg.grad(batch))(0.1, starts)
    assert_allclose(slope, fg.grad(others)(0.1), rtol=1e-9)
    assert np.isfinite(mode(fg.grad(batch, argnums=1))(0.1, starts)).all()


@pytest.mark.parametrize("way", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_a_rule_may_leave_out_a_cotangent_where_others_are_absent_for_some_examples(
    way: Any,
) -> None:
    """None is zero for every example; the other cotangent is absent where nothing selects it."""
    product = fg.custom_vjp(lambda x, y: x * y)
    product.defvjp(lambda x, y: (x * y, None), lambda _, ct: (None, ct * np.inf))

    def chosen(x: Any, y: Any, is_chosen: Any) -> Any:
        return fnp.where(is_chosen, product(x, y), 1.0)

    numbers, flags = np.array([1.0, 2.0]), np.array([True, False])
    slopes = way(fg.vmap(fg.grad(chosen, argnums=(0, 1))))(numbers, numbers, flags)
    np.testing.assert_array_equal(slopes, [[0.0, 0.0], [np.inf, 0.0]])

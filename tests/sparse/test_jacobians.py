"""Sparse Jacobians and Hessians have the bits of dense ones, in every mode and transformation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse


def chain(x: Any) -> Any:
    return fnp.sin(x[1:]) * x[:-1] ** 2


def bordered(x: Any) -> Any:
    return fnp.concatenate([fnp.sum(x**3, keepdims=True), x[1:] * x[0], chain(x)])


def rosenbrock(x: Any) -> Any:
    return fnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


X = np.linspace(0.5, 2.0, 7)


@pytest.mark.parametrize("mode", [None, "forward", "reverse", "both"])
@pytest.mark.parametrize("f", [chain, bordered, lambda x: x[:0], lambda x: fnp.ones(2) + 0 * x[0]])
def test_it_is_the_dense_jacobian(f: Callable[[Any], Any], mode: str | None) -> None:
    J = sparse.jacobian(f, mode=mode, verify=True)(X)
    assert isinstance(J, scipy.sparse.csr_array)
    assert_allclose(J.toarray(), np.asarray(fg.jacfwd(f)(X)).reshape(J.shape), rtol=1e-14)
    assert J.has_canonical_format


def test_modes_take_the_products_that_they_say() -> None:
    counts = {
        mode: sparse.jacobian(bordered, mode=mode).products(X)
        for mode in ("forward", "reverse", "both")
    }
    assert counts["forward"] == (7, 0)
    assert counts["reverse"][0] == 0
    assert counts["both"][1] == 1
    assert sum(counts["both"]) < 7


@pytest.mark.parametrize("f", [rosenbrock, lambda x: fnp.sum(x[0] * x**2), lambda x: x[0] * 2.0])
def test_it_is_the_dense_hessian(f: Callable[[Any], Any]) -> None:
    hessian = sparse.hessian(f, verify=True)
    H = hessian(X)
    dense = np.asarray(fg.hessian(f)(X))
    assert_allclose(H.toarray(), dense, rtol=1e-13, atol=1e-12)
    assert (H.toarray() == H.toarray().T).all()
    lower = hessian.lower(X)
    assert (lower.toarray() == np.tril(H.toarray())).all()
    assert lower.nnz <= H.nnz


def test_single_precision() -> None:
    x = X.astype(np.float32)
    assert sparse.jacobian(chain)(x).dtype == np.float32
    assert sparse.hessian(rosenbrock)(x).dtype == np.float32


def test_holomorphic_functions() -> None:
    z = X + 0.5j * X[::-1]
    for mode in ("forward", "reverse"):
        J = sparse.jacobian(chain, holomorphic=True, mode=mode, verify=True)(z)
        dense = np.asarray(fg.jacfwd(chain, holomorphic=True)(z))
        assert_allclose(J.toarray(), dense, rtol=1e-13)
    with pytest.raises(fg.errors.DifferentiationError, match="holomorphic=True"):
        sparse.jacobian(chain)(z)


# ------------------------------------------------------------------------------- trees


def test_trees_of_blocks() -> None:
    def f(params: Any, x: Any) -> Any:
        return {"r": params["b"] * x, "s": (params["a"] ** 2).sum()}

    params = {"a": np.arange(1.0, 4.0), "b": np.arange(6.0).reshape(2, 3)}
    J, dense = sparse.jacobian(f)(params, X[:3]), fg.jacfwd(f)(params, X[:3])
    for row in ("r", "s"):
        for column in ("a", "b"):
            block = np.asarray(dense[row][column])
            assert (J[row][column].toarray() == block.reshape(J[row][column].shape)).all()
    both = sparse.jacobian(f, argnums=(0, 1))(params, X[:3])
    assert both["r"][1].shape == (6, 3)
    assert both["s"][0]["a"].toarray().tolist() == [[2.0, 4.0, 6.0]]


def test_hessians_of_trees() -> None:
    def f(p: Any) -> Any:
        return fnp.sum(p["a"] ** 2 * p["b"][0])

    p = {"a": X[:3], "b": X[:2]}
    H, dense = sparse.hessian(f)(p), fg.hessian(f)(p)
    for row in "ab":
        for column in "ab":
            assert_allclose(H[row][column].toarray(), np.asarray(dense[row][column]))


def test_value_and_jacobian() -> None:
    value, J = sparse.value_and_jacobian(chain)(X)
    assert_allclose(np.asarray(value), np.asarray(chain(X)))
    assert (J.toarray() == sparse.jacobian(chain)(X).toarray()).all()


# ------------------------------------------------------------------------- transformations


def test_inside_of_transformations() -> None:
    jacobian = sparse.jacobian(chain)
    dense = np.asarray(fg.jacfwd(chain)(X))
    J = fg.jit(jacobian)(X)
    assert isinstance(J, sparse.SparseArray)
    assert_allclose(np.asarray(J.toarray()), dense, rtol=1e-14)
    batch = fg.vmap(jacobian)(fnp.stack([X, 2 * X]))
    assert batch.shape == (2, 6, 7)
    assert_allclose(np.asarray(batch.toarray()[0]), dense, rtol=1e-14)

    def third(x: Any) -> Any:
        return sparse.hessian(rosenbrock)(x).data.sum()

    expected = fg.grad(lambda x: fg.hessian(rosenbrock)(x).sum())(X)
    for f in (third, fg.jit(third)):
        assert_allclose(np.asarray(fg.grad(f)(X)), np.asarray(expected), rtol=1e-12)


def test_a_newton_step_is_jitted_and_differentiated() -> None:
    from funcgrad.scipy.sparse.linalg import spsolve

    def step(x: Any, shift: Any) -> Any:
        def f(x: Any) -> Any:
            return x**3 + fnp.roll(x, 1) - shift

        return x - spsolve(sparse.jacobian(f)(x), f(x))

    def dense(x: Any, shift: Any) -> Any:
        def f(x: Any) -> Any:
            return x**3 + fnp.roll(x, 1) - shift

        return x - fnp.linalg.solve(fg.jacfwd(f)(x), f(x))

    assert_allclose(np.asarray(fg.jit(step)(X, 2.0)), np.asarray(dense(X, 2.0)), rtol=1e-12)
    slope = fg.jit(fg.grad(lambda s: step(X, s).sum()))(2.0)
    assert_allclose(float(slope), float(fg.grad(lambda s: dense(X, s).sum())(2.0)), rtol=1e-10)


# ---------------------------------------------------------------------------------- paths


def test_another_path_widens_the_pattern() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x[0] > 0 else x * x[0]

    jacobian = sparse.jacobian(f, verify=True)
    for sign in (1.0, -1.0, 1.0):
        dense = np.asarray(fg.jacfwd(f)(sign * X))
        assert (jacobian(sign * X).toarray() == dense).all()
    assert jacobian(X).nnz == 13


def test_closed_over_values_may_change() -> None:
    places = [0]

    def f(x: Any) -> Any:
        return x * x[places[0]]

    jacobian = sparse.jacobian(f, verify=True)
    for k in (0, 3):
        places[0] = k
        assert (jacobian(X).toarray() == np.asarray(fg.jacfwd(f)(X))).all()


# ------------------------------------------------------------------------------- patterns


def test_a_pattern_of_the_user() -> None:
    given = sparse.pattern(chain)(X)
    for pattern in (given, given.matrix, given.matrix.toarray()):
        J = sparse.jacobian(chain, pattern=pattern, verify=True)(X)
        assert J.nnz == given.nnz
    too_small = np.eye(6, 7)
    sparse.jacobian(chain, pattern=too_small)(X)
    with pytest.raises(fg.errors.CheckError, match=r"lacks elements: in row 0 .* 6 of 6 rows"):
        sparse.jacobian(chain, pattern=too_small, verify=True)(X)
    with pytest.raises(fg.errors.CheckError, match="lacks elements"):
        sparse.hessian(rosenbrock, pattern=np.eye(7), verify=True)(X)


def test_wrong_calls_say_so() -> None:
    with pytest.raises(fg.errors.ShapeError, match=r"pattern has 3 columns, .* 7 elements"):
        sparse.jacobian(chain, pattern=np.eye(3))(X)
    with pytest.raises(fg.errors.ShapeError, match=r"pattern has 7 rows, .* has 6 elements"):
        sparse.jacobian(chain, pattern=np.eye(7))(X)
    with pytest.raises(fg.errors.ArgumentError, match="mode has to be one of"):
        sparse.jacobian(chain, mode="backward")
    with pytest.raises(fg.errors.ArgumentError, match="has to be symmetric"):
        sparse.hessian(rosenbrock, pattern=np.tri(7))(X)
    with pytest.raises(fg.errors.DifferentiationError, match="whose derivative is zero"):
        sparse.jacobian(lambda x: x > 1)(X)
    with pytest.raises(fg.errors.DifferentiationError, match="has to return one number"):
        sparse.hessian(chain)(X)
    with pytest.raises(fg.errors.ArgumentError, match="verify=True compares values"):
        fg.jit(sparse.jacobian(chain, verify=True))(X)
    with pytest.raises(fg.errors.FunctionError, match=r"sparse\.jacobian: expected a function"):
        sparse.jacobian(X)  # type: ignore[arg-type]


def test_results_belong_to_the_caller() -> None:
    jacobian = sparse.jacobian(chain)
    first = jacobian(X)
    first.data[:] = 0
    first.indices[:] = 0
    assert_allclose(jacobian(X).toarray(), np.asarray(fg.jacfwd(chain)(X)), rtol=1e-14)


def test_operators() -> None:
    A = sparse.jacobian_operator(chain)(X)
    dense = np.asarray(fg.jacfwd(chain)(X))
    v = np.arange(7.0)
    assert_allclose(A @ v, dense @ v)
    assert_allclose(A.rmatvec(v[:6]), dense.T @ v[:6])
    H = sparse.hessian_operator(rosenbrock)(X)
    assert_allclose(H @ v, np.asarray(fg.hessian(rosenbrock)(X)) @ v)


def test_operators_of_integers() -> None:
    for operator in (sparse.jacobian_operator, sparse.hessian_operator):
        with pytest.raises(fg.errors.DifferentiationError, match="_operator: x is of dtype int64"):
            operator(rosenbrock)(np.arange(5))

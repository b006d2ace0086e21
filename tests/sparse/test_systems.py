"""Sparse linear equations: SciPy's solutions, with derivatives in A and b."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad._primitives.sparse_matrices import SparseFactors
from funcgrad.scipy.sparse.linalg import cg, factorized, gmres, splu, spsolve
from funcgrad.sparse.sparse_arrays import SparseArray


def matrix(dtype: Any = float) -> SparseArray:
    dense = np.diag([4.0, 5.0, 6.0, 7.0]) + np.diag([1.0, 2.0, -1.0], 1) + np.diag([0.5], -3)
    if np.dtype(dtype).kind == "c":
        dense = dense * (1 + 0.5j)
    return sparse.from_scipy(scipy.sparse.csr_array(dense.astype(dtype)))


B = np.arange(1.0, 5.0)


@pytest.mark.parametrize("dtype", [float, np.float32, complex])
@pytest.mark.parametrize("shape", [(4,), (4, 2), (3, 4, 1), (0, 4, 1), (4, 0)])
def test_solutions(dtype: Any, shape: tuple[int, ...]) -> None:
    A = matrix(dtype)
    b = np.linspace(1, 2, int(np.prod(shape))).reshape(shape).astype(dtype)
    x = spsolve(A, b)
    assert x.dtype == np.dtype(dtype)
    assert x.shape == shape
    assert_allclose(np.asarray(A.toarray()) @ np.asarray(x), b, rtol=1e-5)
    lu = splu(A)
    assert_allclose(np.asarray(lu.solve(b)), np.asarray(x))
    dense = np.asarray(A.toarray())
    for trans, one in (("T", dense.T), ("H", dense.conj().T)):
        assert_allclose(one @ np.asarray(lu.solve(b, trans)), b, rtol=1e-5)


def losses(A: SparseArray) -> list[Any]:
    """The same loss by each of the ways to solve."""
    ways = (
        spsolve,
        lambda A, b: splu(A).solve(b),
        lambda A, b: factorized(A)(b),
        lambda A, b: splu(A.T).solve(b, "T"),
        lambda A, b: spsolve(A, b[:, None])[:, 0],
        lambda A, b: gmres(A, b, rtol=1e-14)[0],
    )
    return [
        lambda data, b, way=way: fnp.sum(fnp.sin(way(SparseArray(data, A.pattern), b)))
        for way in ways
    ]


def test_derivatives_in_both_arguments() -> None:
    A = matrix()

    def dense(data: Any, b: Any) -> Any:
        places = A.pattern.row_numbers, A.indices
        return fnp.sum(fnp.sin(fnp.linalg.solve(fnp.zeros((4, 4)).at[places].set(data), b)))

    first, second = fg.grad(dense, (0, 1))(A.data, B), fg.hessian(dense)(A.data, B)
    for loss in losses(A):
        for got, expected in zip(fg.grad(loss, (0, 1))(A.data, B), first, strict=True):
            assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-9, atol=1e-12)
    for loss in losses(A)[:1]:
        for transformed in (fg.hessian(loss), fg.jit(fg.jacrev(fg.grad(loss)))):
            assert_allclose(
                np.asarray(transformed(A.data, B)), np.asarray(second), rtol=1e-9, atol=1e-12
            )


def test_reverse_mode_uses_the_factors_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    right = SparseFactors.of

    def counted(*args: Any) -> SparseFactors:
        made.append(1)
        return right(*args)

    monkeypatch.setattr(SparseFactors, "of", counted)
    loss = losses(matrix())[0]
    fg.grad(loss, (0, 1))(matrix().data, B)
    assert len(made) == 1
    made.clear()
    fg.grad(fg.grad(lambda s: loss(s * matrix().data, B)))(1.0)
    assert len(made) == 1


def test_a_program_factors_a_matrix_once(monkeypatch: pytest.MonkeyPatch) -> None:
    factored = []
    splu_of_scipy = scipy.sparse.linalg.splu

    def counting(stored: Any) -> Any:
        factored.append(stored.data.copy())
        return splu_of_scipy(stored)

    monkeypatch.setattr(scipy.sparse.linalg, "splu", counting)
    A = matrix()

    def repeated(data: Any) -> Any:
        changed = SparseArray(data, A.pattern)
        return fg.fori_loop(0, 5, lambda _, x: spsolve(changed, x) + 1.0, fnp.asarray(B)).sum()

    gradient = fg.jit(fg.value_and_grad(repeated))
    value, _ = gradient(A.data)
    assert len(factored) == 1
    doubled, _ = gradient(2.0 * A.data)
    assert len(factored) == 2
    monkeypatch.undo()
    x = B
    for _ in range(5):
        x = np.linalg.solve(np.asarray(A.toarray()), x) + 1.0
    assert_allclose(value, x.sum(), rtol=1e-13)
    assert abs(float(doubled) - float(value)) > 0.1
    fg.testing.check_grads(repeated, (A.data,))


def test_batches_are_loops() -> None:
    A = matrix()
    scales = np.array([1.0, 2.0, -3.0])

    def solved(scale: Any, b: Any) -> Any:
        return spsolve(scale * A, b)

    batch = fg.vmap(solved)(scales, np.stack([B, 2 * B, B]))
    assert_allclose(np.asarray(batch[1]), np.asarray(solved(2.0, 2 * B)))
    rows = fg.vmap(lambda b: spsolve(A, b))(np.stack([B, 2 * B]))
    assert_allclose(np.asarray(rows[1]), 2 * np.asarray(rows[0]))
    slopes = fg.vmap(fg.grad(lambda s: solved(s, B).sum()))(scales)
    assert_allclose(np.asarray(slopes), -np.asarray(solved(1.0, B)).sum() / scales**2)


def test_singular_matrices() -> None:
    singular = sparse.diags([1.0, 0.0])
    for solve in (spsolve, lambda A, b: splu(A).solve(b)):
        with pytest.raises(fg.errors.MatrixError, match="singular"):
            solve(singular, B[:2])
    assert np.isnan(np.asarray(spsolve(singular, B[:2], failed="nan"))).all()
    with pytest.raises(fg.errors.MatrixError, match="NaN or infinity"):
        spsolve(sparse.diags([1.0, np.nan]), B[:2])
    flags = fg.vmap(lambda s: spsolve(sparse.diags(fnp.stack([s, s])), B[:2], failed="nan"))
    assert np.isnan(np.asarray(flags(np.array([0.0, 2.0])))).tolist() == [[True] * 2, [False] * 2]


def test_wrong_calls_say_so() -> None:
    A = matrix()
    with pytest.raises(fg.errors.ArgumentError, match=r"sparse array of fg\.sparse or SciPy"):
        spsolve(np.eye(2), B[:2])
    with pytest.raises(fg.errors.MatrixShapeError, match=r"square, its shape is \(2, 4\)"):
        spsolve(A[:2], B)
    with pytest.raises(fg.errors.ShapeError, match="b has to have 4 rows"):
        spsolve(A, B[:2])
    with pytest.raises(fg.errors.ArgumentError, match="b is sparse"):
        spsolve(A, A)
    with pytest.raises(fg.errors.ArgumentError, match="'N', 'T' or 'H'"):
        splu(A).solve(B, "X")
    with pytest.raises(fg.errors.TracerError, match="nothing can be factored yet"):
        fg.jit(lambda data: splu(SparseArray(data, A.pattern)).solve(B))(A.data)


def test_programs_with_sparse_operations_are_saved() -> None:
    A = matrix()

    def f(data: Any, b: Any) -> Any:
        return spsolve(SparseArray(data, A.pattern), b), SparseArray(data, A.pattern) @ b

    program = fg.program(fg.jit(f))(A.data, B)
    loaded = fg.Program.from_json(program.to_json())
    for got, expected in zip(loaded(A.data, B), f(A.data, B), strict=True):
        assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-15)


def test_iterative_solvers_take_sparse_arrays() -> None:
    A = sparse.diags([[4.0] * 4, [1.0] * 3, [1.0] * 3], [0, 1, -1])
    assert_allclose(np.asarray(cg(A, B, rtol=1e-12)[0]), np.asarray(spsolve(A, B)))
    assert_allclose(np.asarray(cg(A.to_scipy(), B, rtol=1e-12)[0]), np.asarray(spsolve(A, B)))

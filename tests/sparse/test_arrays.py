"""Sparse arrays compute as SciPy's do, and are differentiated with respect to their nonzeros."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad.sparse.sparse_arrays import SparseArray
from tests.together import together


def drawn(seed: int, shape: tuple[int, int] = (4, 5), dtype: Any = float) -> Any:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=shape) * (rng.random(shape) < 0.4)
    if np.dtype(dtype).kind == "c":
        dense = dense + 1j * dense[::-1]
    return scipy.sparse.csr_array(dense.astype(dtype))


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "A + B": lambda a, b: a + b,
    "A - B": lambda a, b: a - b,
    "A * B": lambda a, b: a.multiply(b),
    "A @ B.T": lambda a, b: a @ b.T,
    "A.T @ B": lambda a, b: a.T @ b,
}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([float, np.float32, complex]))
def test_binary_operations(seed: int, dtype: Any) -> None:
    a, b = drawn(seed, dtype=dtype), drawn(seed + 1, dtype=dtype)
    ours = [sparse.from_scipy(x) for x in (a, b)]
    for name, combine in BINARY.items():
        expected = combine(a, b)
        for right in (ours[1], b):  # SciPy's arrays may be on the right
            if name.startswith("A.T") and right is b:
                continue
            out = combine(ours[0], right) if right is ours[1] or "B.T" not in name else None
            if out is not None:
                assert_allclose(np.asarray(out.toarray()), expected.toarray(), rtol=1e-5)
                assert out.dtype == expected.dtype


UNARY: dict[str, Callable[[Any], Any]] = {
    "-A": lambda a: -a,
    "abs(A)": abs,
    "A.T": lambda a: a.T,
    "2 A": lambda a: 2.0 * a,
    "A / 2": lambda a: a / 2.0,
    "power": lambda a: a.power(2),
    "rows": lambda a: a[1:3],
    "columns": lambda a: a[:, [3, 0]],
    "mask": lambda a: a[np.array([True, False, True, False])],
    "block": lambda a: a[::-1, 1:4],
}
DENSE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda a: a.sum(),
    "sum over rows": lambda a: a.sum(axis=0),
    "sum over columns": lambda a: a.sum(axis=-1),
    "mean": lambda a: a.mean(axis=1),
    "diagonal": lambda a: a.diagonal(),
    "upper diagonal": lambda a: a.diagonal(k=1),
    "lower diagonal": lambda a: a.diagonal(k=-2),
    "element": lambda a: a[1, 2],
    "A @ x": lambda a: a @ np.arange(5.0),
    "A @ X": lambda a: a @ np.arange(10.0).reshape(5, 2),
    "x @ A": lambda a: np.arange(4.0) @ a,
    "X @ A": lambda a: np.arange(8.0).reshape(2, 4) @ a,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_operations(name: str) -> None:
    a = drawn(3)
    out = UNARY[name](sparse.from_scipy(a))
    assert isinstance(out, SparseArray)
    assert_allclose(np.asarray(out.toarray()), UNARY[name](a).toarray())


@pytest.mark.parametrize("name", DENSE)
def test_dense_results(name: str) -> None:
    a = drawn(3)
    f = DENSE[name]
    A = sparse.from_scipy(a)
    assert_allclose(np.asarray(f(A)), np.asarray(f(a)).reshape(np.shape(f(A))), atol=1e-15)

    def loss(data: Any) -> Any:
        return fnp.sum(fnp.sin(f(SparseArray(data, A.pattern))))

    def dense_loss(data: Any) -> Any:
        rows, columns = A.pattern.row_numbers, A.indices
        return fnp.sum(fnp.sin(f(_Dense(fnp.zeros(a.shape).at[rows, columns].set(data)))))

    expected = np.asarray(fg.grad(dense_loss)(A.data))
    for transformed in (fg.grad(loss), fg.jit(fg.grad(loss)), fg.jacfwd(loss)):
        assert_allclose(np.asarray(transformed(A.data)), expected, atol=1e-14)
    batch = fg.vmap(loss)(fnp.stack([A.data, 2 * A.data]))
    assert_allclose(float(batch[1]), float(loss(2 * A.data)))


class _Dense:
    """A dense matrix with the methods of a sparse one."""

    __array_ufunc__ = None

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getattr__(self, name: str) -> Any:
        if name == "diagonal":
            return lambda k=0: fnp.diagonal(self.x, k)
        return getattr(self.x, name)

    def __matmul__(self, other: Any) -> Any:
        return self.x @ other

    def __rmatmul__(self, other: Any) -> Any:
        return other @ self.x

    def __getitem__(self, key: Any) -> Any:
        return self.x[key]


def test_scipys_arrays_on_either_side() -> None:
    S = drawn(5)
    x = fnp.arange(5.0)
    for transformed in (fg.grad, lambda f: fg.jit(fg.grad(f))):
        left = transformed(lambda x: ((S @ x) ** 2).sum())(x)
        right = transformed(lambda x: ((x @ S.T) ** 2).sum())(x)
        expected = 2 * S.T @ (S @ np.arange(5.0))
        assert_allclose(np.asarray(left), expected)
        assert_allclose(np.asarray(right), expected)
    A: Any = sparse.from_scipy(S)
    assert_allclose(np.asarray(sum([A, S, A]).toarray()), 3 * S.toarray())
    products: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
        "A @ S.T": (lambda A, S: A @ S.T, S @ S.T),
        "S @ A.T": (lambda A, S: S @ A.T, S @ S.T),
        "S.dot": (lambda A, S: S.dot(A.T), S @ S.T),
        "columns": (lambda A, S: S.tocsc() @ A.T, S @ S.T),
        "A * S": (lambda A, S: A * S, S * S),
        "S * A": (lambda A, S: S * A, S * S),
        "S + A": (lambda A, S: S + A, S + S),
        "S - A": (lambda A, S: S - 2.0 * A, -S),
    }
    for f, expected in products.values():
        for apply in (lambda f: f, fg.jit):
            out = apply(lambda A, f=f: f(A, S))(A)
            assert isinstance(out, SparseArray)
            assert_allclose(np.asarray(out.toarray()), expected.toarray(), atol=1e-14)


def test_operators_by_the_names_of_numpy() -> None:
    S, x = drawn(5), np.arange(5.0)
    A: Any = sparse.from_scipy(S)
    numpy: Any = np
    for f in (
        lambda A: numpy.matmul(A, x),
        lambda A: numpy.matmul(x[:4], A),
        lambda A: numpy.multiply(A, 2.0),
        lambda A: numpy.multiply(x, A),
        lambda A: numpy.divide(A, 2.0),
        lambda A: numpy.add(A, A),
        lambda A: numpy.subtract(A, 0.5 * A),
    ):
        out, expected = f(A), f(S.toarray())
        out = out.toarray() if isinstance(out, SparseArray) else out
        assert_allclose(np.asarray(out), np.asarray(expected), atol=1e-15)


def test_dtypes_are_those_of_scipy() -> None:
    for char in "?bilfdFD":
        S = drawn(5, dtype=char)
        A: Any = sparse.from_scipy(S)
        for other in "?ildD":
            x = np.ones(5, other)
            for apply in (lambda f: f, fg.jit):
                out, expected = apply(lambda A, x: A @ x)(A, x), S @ x
                assert out.dtype == expected.dtype
                assert_allclose(np.asarray(out), expected, rtol=1e-5)
        if char in "fdFD":
            assert (2 * A).dtype == (A / 2.0).dtype == (A**2).dtype == A.dtype


def test_functions_that_keep_zero() -> None:
    A = sparse.from_scipy(drawn(3))
    functions: Any = (np.sin, np.tanh, np.expm1, np.absolute, np.sign)
    for f in functions:
        assert_allclose(np.asarray(f(A).toarray()), f(drawn(3).toarray()))
    assert_allclose(np.asarray(A.map(lambda x: x * fnp.exp(x)).toarray()), _times_exp(drawn(3)))


def _times_exp(a: Any) -> Any:
    return a.toarray() * np.exp(a.toarray())


def test_constructors_are_scipys() -> None:
    ours = sparse.diags([[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]], [-1, 0, 2], (3, 3))
    parts = [[1.0, 2.0], [3.0, 4.0, 5.0], [6.0]]
    theirs = scipy.sparse.diags_array(parts, offsets=[-1, 0, 2], shape=(3, 3))
    assert_allclose(np.asarray(ours.toarray()), theirs.toarray())
    assert_allclose(np.asarray(sparse.eye(2, 3, k=1).toarray()), np.eye(2, 3, k=1))
    a, b = drawn(1, (2, 3)), drawn(2, (3, 2))
    A, B = sparse.from_scipy(a), sparse.from_scipy(b)
    assert_allclose(np.asarray(sparse.kron(A, b).toarray()), scipy.sparse.kron(a, b).toarray())
    blocks = sparse.block_array([[A, None], [None, B]])
    assert_allclose(
        np.asarray(blocks.toarray()), scipy.sparse.block_array([[a, None], [None, b]]).toarray()
    )
    drawn_one = sparse.random(fg.random.key(1), 8, 5, density=0.2)
    assert drawn_one.nnz == 8
    assert drawn_one.pattern == sparse.random(fg.random.key(1), 8, 5, density=0.2).pattern
    slope = fg.grad(lambda d: sparse.diags(d, 1).sum(axis=0)[1] ** 2)(fnp.arange(1.0, 4.0))
    assert slope.tolist() == [2.0, 0.0, 0.0]


def test_it_is_a_pytree_and_is_pickled() -> None:
    import pickle

    A = sparse.from_scipy(drawn(3))
    leaves, structure = fg.tree.flatten(A)
    assert len(leaves) == 1
    assert fg.tree.unflatten(structure, leaves).pattern is A.pattern
    copy = pickle.loads(pickle.dumps(A))
    assert copy.pattern == A.pattern
    assert repr(A) == f"SparseArray: 4 rows, 5 columns, {A.nnz} of float64"


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dense by NumPy": (np.asarray, r"toarray\(\) for a dense"),
    "dense by fnp": (fnp.sin, r"toarray\(\) for a dense"),
    "plus a number": (lambda A: A + 1.0, r"would be dense. Write A.toarray\(\) \+ x"),
    "minus by NumPy": (lambda A: np.ones((4, 5)) - A, r"Write x - A\.toarray\(\)"),
    "function by fnp": (lambda A: fnp.linalg.norm(A), r"norm: .*A\.toarray\(\)"),
    "function by NumPy": (np.sum, r"np\.sum of a sparse array is not available. Write A\.sum\("),
    "in a module of NumPy": (np.linalg.det, r"Write np\.linalg\.det of A\.toarray\(\)"),
    "several": (lambda A: np.vstack([np.ones(5), A]), r"np\.vstack of a sparse array"),
    "cosine": (np.cos, r"np\.cos of A\.toarray\(\)"),
    "map": (lambda A: A.map(fnp.cos), "is 1.0 at 0"),
    "power": (lambda A: A**0, "has to be positive"),
    "quotient": (lambda A: A / A, "divides by the zeros"),
    "columns": (lambda A: A @ np.ones(4), r"shape \(4,\) does not fit .* 5 columns"),
    "rows": (lambda A: np.ones(5) @ A, r"shape \(5,\) does not fit .* 4 rows"),
    "shapes": (lambda A: A + A.T, "do not fit"),
    "product": (lambda A: A @ A, "as many columns as B has rows"),
    "index": (lambda A: A[7], "axis 0 of size 4"),
    "pairs": (lambda A: A[[0, 1], [1, 2]], r"Write A\[rows\]\[:, columns\] for the block"),
    "times a matrix": (lambda A: A * scipy.sparse.csr_matrix((4, 5)), "Write A @ S, or A.multiply"),
    "a matrix times": (lambda A: scipy.sparse.csr_matrix((4, 5)) * A, "Write A @ S, or A.multiply"),
    "a tensor times": (
        lambda A: fnp.ones(5) * scipy.sparse.csr_matrix((4, 5)),
        "Write A @ S, or A.multiply",
    ),
    "map by fnp": (fnp.sin, r"A\.map\(f\) for an elementwise function"),
    "batch": (
        lambda A: SparseArray(fnp.stack([A.data, A.data]), A.pattern).to_scipy(),
        r"in a batch of \(2,\) is not one matrix",
    ),
    "three keys": (lambda A: A[0, 0, 0], "2 axes, got 3 keys"),
    "axis": (lambda A: A.sum(axis=2), "axis has to be 0, 1, -1 or -2"),
    "broadcast": (lambda A: A * np.ones(3), "has to broadcast"),
    "scipy": (lambda A: sparse.from_scipy(np.eye(2)), "expected a sparse matrix of SciPy"),
    "kron": (lambda A: sparse.kron(A, np.eye(2)), "expected a sparse array"),
    "range": (lambda A: sparse.array([1.0], [5], [0, 1], (1, 2)), r"indices\[0\] is 5"),
    "order": (lambda A: sparse.array([1.0, 2.0], [1, 0], [0, 2], (1, 2)), "1, 0 of row 0 do not"),
    "twice": (lambda A: sparse.array([1.0, 2.0], [1, 1], [0, 2], (1, 2)), "1, 1 of row 0 do not"),
    "starts": (lambda A: sparse.array([1.0], [0], [0, 1, 1], (1, 2)), "indptr has to have 2"),
    "data": (lambda A: sparse.array([1.0, 2.0], [0], [0, 1], (1, 2)), "1 indices do not fit"),
    "floats": (lambda A: sparse.array([1.0], [0.5], [0, 1], (1, 2)), "vector of integers"),
    "diagonal": (lambda A: sparse.diags([1.0, 2.0], 0, (3, 3)), "has 3 elements, got 2"),
    "offsets": (lambda A: sparse.diags([[1.0]], [0, 1], (3, 3)), "1 diagonals and 2 offsets"),
    "blocks": (lambda A: sparse.block_array([[A, A.T]]), "need one size"),
    "density": (lambda A: sparse.random(fg.random.key(0), 2, 2, 3.0), "between 0 and 1"),
}


@together("name", REFUSED)
def test_wrong_calls_say_so(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(fg.errors.FuncgradError, match=message):
        call(sparse.from_scipy(drawn(3)))


def test_functions_of_scipy_say_that_they_take_arrays() -> None:
    from scipy.sparse import linalg

    S = scipy.sparse.csr_array(np.eye(3))
    for f in (
        lambda x: S.multiply(x),
        lambda x: linalg.spsolve(S, x),
        lambda x: linalg.aslinearoperator(S) @ x,
        lambda x: scipy.sparse.coo_array((x, (np.arange(3), np.arange(3)))),
    ):
        with pytest.raises(fg.errors.TracerError, match=r"scipy\.sparse.* accepts only arrays"):
            fg.grad(lambda x, f=f: f(x).sum())(fnp.ones(3))
    with pytest.raises(fg.errors.ArgumentError, match="would be dense"):
        operator.gt(fg.tensor(np.ones(3)), S)


def test_constructors_of_scipy_say_it_in_the_cause() -> None:
    """They answer any exception with one of their own, "unrecognized constructor input"."""
    for x, transform in ((fnp.eye(3), fg.jit), (fnp.ones((2, 3, 3)), fg.vmap)):
        with pytest.raises(ValueError, match="unrecognized") as told:
            transform(scipy.sparse.csr_array)(x)
        assert "fg.sparse.from_scipy" in str(told.value.__cause__)
    with pytest.raises(ValueError, match="unrecognized") as told:
        scipy.sparse.csr_array(sparse.eye(3))
    assert "A.to_scipy()" in str(told.value.__cause__)


def test_an_empty_key_selects_everything() -> None:
    A = sparse.eye(3)
    assert A[()].toarray().tolist() == A.toarray().tolist()


def test_a_jitted_function_does_not_watch_a_pattern() -> None:
    """Patterns never change, and compute some of their parts when they are first asked for."""
    A, x = sparse.diags([np.arange(1.0, 5.0), np.ones(3)], [0, 1]), fnp.ones(4)
    multiply = fg.jit(lambda A, x: A @ x)
    multiply(A, x)
    assert A.pattern.transposed.shape == (4, 4)
    assert A.pattern.row_numbers.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert multiply(A, x).tolist() == [2.0, 3.0, 4.0, 4.0]
    assert multiply.stagings == 1

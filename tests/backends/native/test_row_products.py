"""Products with sparse matrices are machine code, in all dtypes, layouts and stacks."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad._primitives.sparse_matrices import sampled_product, sparse_product
from funcgrad.sparse.sparse_arrays import SparseArray
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.backends.native.test_native_loops import called_back
from tests.together import together

pytest.importorskip("llvmlite")
pytest.importorskip("scipy")

CHARS = "dFfD"
COLUMNS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 71, 130]


def drawn(shape: tuple[int, ...], char: str = "d", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    out = rng.normal(size=shape)
    return (out + 1j * rng.normal(size=shape) if char in "FD" else out).astype(char)


def matrix(kind: str, char: str = "d") -> Any:
    """A matrix of 9 by 6, in which all rows have elements, or some, or none."""
    rng = np.random.default_rng(3)
    places = rng.random((9, 6)) < {"all": 0.4, "some": 0.2, "none": -1.0, "dense": 2.0}[kind]
    if kind == "all":
        places[:, 2] = True
    A = sparse.from_scipy(_scipy(places))
    return SparseArray(fnp.asarray(drawn((A.nnz,), char)), A.pattern)


def _scipy(places: np.ndarray) -> Any:
    import scipy.sparse

    return scipy.sparse.csr_array(places.astype(float))


def close(ours: Any, theirs: Any) -> None:
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    assert_allclose(np.asarray(ours), theirs, rtol=1e-4 if theirs.dtype.char in "fF" else 1e-12)


@together("kind", ["all", "some", "none", "dense"])
@together("char", CHARS, quick=2)
def test_products_in_all_widths(kind: str, char: str) -> None:
    A, y = matrix(kind, char), drawn((9,), char)
    dense = np.asarray(A.toarray())
    vectors = fg.jit(lambda A, x, y: (A @ x, y @ A), backend="native")
    x = drawn((6,), char)
    for ours, theirs in zip(vectors(A, x, y), (dense @ x, y @ dense), strict=True):
        close(ours, theirs)
    for count in COLUMNS if kind == "all" else (1, 5, 33):
        X = drawn((6, count), char)
        close(fg.jit(lambda A, x: A @ x, backend="native")(A, X), dense @ X)
        Y = drawn((count, 9), char)
        close(fg.jit(lambda A, y: y @ A, backend="native")(A, Y), Y @ dense)


@together("kind", ["all", "some"])
@together("char", CHARS, quick=2)
@together("count", [None, 3, 40, 1, 8, 71], quick=3)
def test_gradients(kind: str, char: str, count: int | None) -> None:
    """The nonzeros' cotangents are products of rows, and the vector's a product with ``A.T``."""
    A = matrix(kind, char)
    x = drawn((6,) if count is None else (6, count), char)

    def loss(A: Any, x: Any) -> Any:
        return fnp.sum(fnp.abs(A @ x) ** 2)

    slope = fg.grad(loss, (0, 1))
    for out, theirs in zip(
        fg.jit(slope, backend="native")(A, x),
        fg.grad(loss, (0, 1))(np.asarray(A.toarray()), x),
        strict=True,
    ):
        if isinstance(out, SparseArray):
            close(out.data, np.asarray(theirs)[A.pattern.row_numbers, A.indices])
        else:
            close(out, theirs)
    assert called_back(slope, A, x) == "nothing"


@pytest.mark.parametrize("which", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("count", [None, 5])
def test_stacks(which: tuple[int | None, int | None], count: int | None) -> None:
    A = matrix("some")
    x = drawn((6,) if count is None else (6, count))

    def slope(data: Any, x: Any) -> Any:
        def loss(data: Any, x: Any) -> Any:
            B = SparseArray(data, A.pattern)
            return fnp.sum(fnp.sin(B @ x)) + fnp.sum(fnp.cos(x.T @ B.T))

        return fg.value_and_grad(loss, (0, 1))(data, x)

    data = fnp.stack([A.data, 2.0 * A.data, fnp.cos(A.data)])
    args = [
        xs if axis == 0 else one
        for xs, one, axis in ((data, A.data, which[0]), (np.stack([x, -x, x**2]), x, which[1]))
    ]
    batched = fg.vmap(slope, in_axes=which)
    assert called_back(batched, *args) == "nothing"
    ours = fg.tree.leaves(fg.jit(batched, backend="native")(*args))
    for out, theirs in zip(ours, fg.tree.leaves(batched(*args)), strict=True):
        close(out, theirs)
    alone = [
        slope(*[a[k] if axis == 0 else a for a, axis in zip(args, which, strict=True)])
        for k in range(3)
    ]
    for k, one in enumerate(alone):
        for out, theirs in zip(ours, fg.tree.leaves(one), strict=True):
            close(out[k], theirs)


@together("char", CHARS, quick=2)
@together("machine", OTHERS)
def test_other_machines(machine: Any, char: str) -> None:
    A, layout = matrix("some", char), matrix("some").pattern.layout
    for count in (1, 7):
        x, y = drawn((6, count), char), drawn((9, count), char)
        for operation, args in (
            (lambda d, x: sparse_product(d, x, layout=layout), (np.asarray(A.data), x)),
            (lambda d, y: sparse_product(d, y, layout=layout.flipped), (np.asarray(A.data), y)),
            (lambda y, x: sampled_product(y, x, layout=layout), (y, x)),
        ):
            (out,) = machine_code_of(operation, *args, machine=machine)
            close(out, operation(*args))


def test_large_matrices_and_second_derivatives() -> None:
    A = sparse.random(fg.random.key(0), 900, 700, density=0.01)
    x = drawn((700,))
    dense = np.asarray(A.toarray())

    def loss(A: Any, x: Any) -> Any:
        return fnp.sum(fnp.sin(A @ x))

    close(fg.jit(lambda A, x: A @ x, backend="native")(A, x), dense @ x)
    v = drawn((700,), seed=1)
    twice = fg.jit(lambda x: fg.jvp(fg.grad(lambda x: loss(A, x)), (x,), (v,))[1], backend="native")
    close(twice(x), -dense.T @ (np.sin(dense @ x) * (dense @ v)))


def test_mixed_dtypes_are_called_back() -> None:
    A, x = matrix("all", "f"), drawn((6,))
    product = fg.jit(lambda A, x: A @ x, backend="native")
    close(product(A, x), np.asarray(A.toarray()).astype(float) @ x)
    assert "sparse products of float32, float64" in product.lower(A, x).source.splitlines()[0]

"""Sparse derivatives in threads and inside of one another, and input that is wrong."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from tests.together import together

X = np.linspace(0.5, 2.0, 5)
BATCH = np.stack([X, X**2, 3 - X])


def chain(x: Any) -> Any:
    return fnp.sin(x[1:]) * x[:-1] ** 3


def energy(x: Any) -> Any:
    return fnp.sum(chain(x) ** 2)


def sparsely(transform: Any, f: Any) -> Callable[[Any], Any]:
    """The dense matrix, by way of the sparse one."""
    return lambda x: transform(f)(x).toarray()


PAIRS = {
    "jacobian": (sparsely(sparse.jacobian, chain), fg.jacfwd(chain)),
    "hessian": (sparsely(sparse.hessian, energy), fg.hessian(energy)),
    "jacobian of a gradient": (sparsely(sparse.jacobian, fg.grad(energy)), fg.hessian(energy)),
    "of a jitted function": (sparsely(sparse.jacobian, fg.jit(chain)), fg.jacfwd(chain)),
    "of a loop": (
        sparsely(sparse.jacobian, lambda x: fg.fori_loop(0, 3, lambda _, y: y * fnp.roll(y, 1), x)),
        fg.jacfwd(lambda x: fg.fori_loop(0, 3, lambda _, y: y * fnp.roll(y, 1), x)),
    ),
}
TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "itself": (lambda f: f, X),
    "jit": (fg.jit, X),
    "vmap": (fg.vmap, BATCH),
    "jit of vmap": (lambda f: fg.jit(fg.vmap(f)), BATCH),
    "vmap of jit": (lambda f: fg.vmap(fg.jit(f)), BATCH),
    "grad": (lambda f: fg.grad(lambda x: fnp.sum(fnp.sin(fnp.asarray(f(x))))), X),
    "vmap of grad": (lambda f: fg.vmap(fg.grad(lambda x: fnp.sum(f(x) ** 2))), BATCH),
    "jvp": (lambda f: lambda x: fg.jvp(f, (x,), (x[::-1],))[1], X),
    "jacrev": (fg.jacrev, X),
    "grad of grad": (lambda f: fg.grad(lambda x: fnp.sum(fg.jacfwd(f)(x) ** 2)), X),
}


@together("transform", TRANSFORMS, quick=len(TRANSFORMS) // 2)
@together("pair", PAIRS)
def test_nested_transformations(pair: str, transform: str) -> None:
    apply, x = TRANSFORMS[transform]
    ours, dense = PAIRS[pair]
    expected = np.asarray(apply(dense)(fg.tensor(x)))
    assert_allclose(np.asarray(apply(ours)(fg.tensor(x))), expected, rtol=1e-11, atol=1e-12)


def test_a_jacobian_of_the_elements_of_a_jacobian() -> None:
    second = sparse.jacobian(lambda x: sparse.jacobian(chain)(x).data)(X)
    expected = fg.jacfwd(lambda x: sparse.jacobian(chain)(x).data)(X)
    assert_allclose(second.toarray(), np.asarray(expected), rtol=1e-12)
    assert second.nnz <= 16


def branching(x: Any) -> Any:
    return x[1:] * x[:-1] if x[0] > 1 else fnp.sin(x[1:]) + x[0]


@pytest.mark.parametrize("transform", ["vmap", "jit of vmap"])
@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
def test_examples_that_take_different_paths(kind: str, transform: str) -> None:
    """Their matrices have one pattern, the union of all paths."""

    def scalar(x: Any) -> Any:
        return fnp.sum(branching(x) ** 2)

    ours, dense, nnz = {
        "jacobian": (sparse.jacobian(branching), fg.jacfwd(branching), 11),
        "hessian": (sparse.hessian(scalar), fg.hessian(scalar), 19),
    }[kind]
    ours(BATCH[0])  # which has a smaller pattern
    expected = np.stack([np.asarray(dense(x)) for x in BATCH])
    apply, _ = TRANSFORMS[transform]
    for _ in range(2):
        out = apply(ours)(BATCH)
        assert out.nnz == nnz
        assert_allclose(np.asarray(out.toarray()), expected, rtol=1e-12, atol=1e-14)
    alone = fg.vmap(fg.jit(lambda x: ours(x).toarray()))(BATCH)
    assert_allclose(np.asarray(alone), expected, rtol=1e-12, atol=1e-14)


def test_a_batch_of_compiled_matrices_has_one_pattern() -> None:
    """A program is for all values of its arguments, whichever path its first call took."""
    compiled = fg.jit(sparse.jacobian(branching))
    dense = fg.jacfwd(branching)
    for x in BATCH:
        J = compiled(x)
        assert J.nnz == 11
        assert_allclose(np.asarray(J.toarray()), np.asarray(dense(x)), rtol=1e-12, atol=1e-14)
    out = fg.vmap(compiled)(BATCH)
    expected = np.stack([np.asarray(dense(x)) for x in BATCH])
    assert_allclose(np.asarray(out.toarray()), expected, rtol=1e-12, atol=1e-14)


def test_a_function_that_closes_over_examples_of_different_paths() -> None:
    def shifted(x: Any, transform: Any = sparse.jacobian) -> Any:
        return transform(lambda y: y * y[::-1] if x[0] > 1 else y + x[0])(x[1:])

    expected = fg.vmap(lambda x: shifted(x, fg.jacfwd))(BATCH)
    batched = fg.vmap(lambda x: shifted(x).toarray())
    for apply in (batched, fg.jit(batched)):
        assert_allclose(np.asarray(apply(BATCH)), np.asarray(expected), rtol=1e-12)


def test_more_paths_than_a_program_has() -> None:
    def f(x: Any) -> Any:
        for k in range(20):
            if x[0] * 10 > k:
                x = x * 0.9 + x[::-1] * 0.1
        return fnp.tanh(x)

    out = fg.vmap(lambda x: sparse.jacobian(f)(x).toarray())(BATCH)
    assert_allclose(np.asarray(out), np.asarray(fg.vmap(fg.jacfwd(f))(BATCH)), rtol=1e-12)


@pytest.mark.slow
def test_threads_that_take_different_paths() -> None:
    def f(x: Any) -> Any:
        for k in range(4):
            if x[0] > k:
                x = x * fnp.roll(x, k + 1)
        return x

    points = [X + shift for shift in (0.0, 1.0, 2.0, 3.0)]
    expected = [np.asarray(fg.jacfwd(f)(x)) for x in points]
    for _ in range(5):
        jacobian = sparse.jacobian(f)
        together = threading.Barrier(8)

        def work(k: int, jacobian: Any = jacobian, together: Any = together) -> None:
            together.wait()
            for turn in range(6):
                place = (k + turn) % 4
                assert_allclose(jacobian(points[place]).toarray(), expected[place], rtol=1e-12)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))


def test_a_path_that_fails_leaves_the_others() -> None:
    def f(x: Any) -> Any:
        if x[0] > 1:
            raise KeyError("no such path")
        return x * x[0] if x[0] < 0 else x * 2

    jacobian = sparse.jacobian(f)
    for sign in (1, -1):
        with pytest.raises(KeyError):
            jacobian(X + 2)
        assert (jacobian(sign * X).toarray() == np.asarray(fg.jacfwd(f)(sign * X))).all()


WRONG: dict[str, tuple[type[Exception], Callable[[], Any]]] = {
    r"out of range for 3 columns": (
        fg.errors.ArgumentError,
        lambda: sparse.array([1.0], [3], [0, 1], (1, 3)),
    ),
    r"indices\[0\] is -1": (
        fg.errors.ArgumentError,
        lambda: sparse.array([1.0], [-1], [0, 1], (1, 3)),
    ),
    r"the indices 2, 1 of row 0 do not ascend": (
        fg.errors.ArgumentError,
        lambda: sparse.array([1.0, 2.0], [2, 1], [0, 2], (1, 3)),
    ),
    r"the indices 1, 1 of row 0": (
        fg.errors.ArgumentError,
        lambda: sparse.array([1.0, 2.0], [1, 1], [0, 2], (1, 3)),
    ),
    r"indptr has to ascend": (
        fg.errors.ArgumentError,
        lambda: sparse.array([1.0], [0], [0, 2, 0, 1], (3, 3)),
    ),
    r"indptr has to have 4 elements": (
        fg.errors.ShapeError,
        lambda: sparse.array([1.0], [0], [0, 1], (3, 3)),
    ),
    r"A @ x: an operand of shape \(4,\) does not fit": (
        fg.errors.ShapeError,
        lambda: sparse.eye(3) @ np.ones(4),
    ),
    r"Write A\.toarray\(\)": (fg.errors.LeafError, lambda: np.asarray(sparse.eye(3))),
    r"np\.cos of a sparse array is not available": (
        fg.errors.ArgumentError,
        lambda: np.cos(sparse.eye(3)),
    ),
    r"sparse\.pattern: expected a function": (
        fg.errors.FunctionError,
        lambda: sparse.pattern(X),  # type: ignore[arg-type]
    ),
    r"x is of dtype int64: only floating-point and complex values": (
        fg.errors.DifferentiationError,
        lambda: sparse.pattern(chain)(np.arange(4)),
    ),
    r"patterns of shapes \(2, 2\) and \(3, 3\)": (
        fg.errors.ShapeError,
        lambda: sparse.eye(2).pattern | sparse.eye(3).pattern,
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_input_says_what_to_write(message: str) -> None:
    kind, call = WRONG[message]
    with pytest.raises(kind, match=message):
        call()


def test_functions_that_return_nothing_have_an_empty_pattern() -> None:
    for nothing in (None, ()):
        assert sparse.pattern(lambda x, out=nothing: out)(X).shape == (0, 5)

"""`batch_size` of vmap and of Jacobians: blocks of examples, one after another, same results."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, BatchError
from tests.transforms.support import Point, assert_same, complex_numbers, numbers

X = numbers(7, 3)
FORMS: list[Callable[[Any], Any]] = [lambda f: f, fg.jit]
SIZES = [1, 2, 3, 7, 10]


def branching(row: Any, scale: Any, *, shift: Any) -> Any:
    return Point(fnp.sin(row) * scale, row.sum() + shift if row[0] > 0 else -row[1])


@pytest.mark.parametrize("form", FORMS, ids=["eager", "jit"])
@pytest.mark.parametrize("size", SIZES)
def test_blocks_give_the_results_of_the_whole_batch(form: Any, size: int) -> None:
    options: dict[str, Any] = {"in_axes": (1, None), "out_axes": Point(-1, 0)}
    expected = fg.vmap(branching, **options)(X.T, 2.0, shift=X[:, 0])
    blocks = form(fg.vmap(branching, **options, batch_size=size))
    assert_same(blocks(X.T, 2.0, shift=X[:, 0]), expected)


@pytest.mark.parametrize("form", FORMS, ids=["eager", "jit"])
def test_derivatives_and_nesting(form: Any) -> None:
    f = lambda row: fnp.sin(row).prod() if row[0] > 0 else fnp.cos(row).prod()  # noqa: E731
    total = lambda x: fnp.sum(fg.vmap(f, batch_size=2)(x) ** 2)  # noqa: E731
    plain = lambda x: fnp.sum(fg.vmap(f)(x) ** 2)  # noqa: E731
    assert_same(form(fg.grad(total))(X), fg.grad(plain)(X))
    push = lambda g: lambda x: fg.jvp(fg.grad(g), (x,), (fnp.cos(x),))[1]  # noqa: E731
    assert_same(form(push(total))(X), push(plain)(X))
    assert_same(form(fg.vmap(fg.grad(f), batch_size=3))(X), fg.vmap(fg.grad(f))(X))
    nested = fg.vmap(fg.vmap(fnp.exp, batch_size=2), batch_size=3)
    assert_same(form(nested)(X), np.exp(X))


@pytest.mark.parametrize("form", FORMS, ids=["eager", "jit"])
@pytest.mark.parametrize("transform", [fg.jacfwd, fg.jacrev, fg.hessian])
def test_jacobians(form: Any, transform: Any) -> None:
    def f(point: Any) -> Any:
        return {"a": fnp.stack([point.x[0] * point.y, fnp.sin(point.x).sum()]), "b": point.y**3}

    at = Point(X[0], 2.0)
    for size in SIZES:
        assert_same(form(transform(f, batch_size=size))(at), transform(f)(at))
    aux = lambda point: (f(point), point.x * 2)  # noqa: E731
    blocks = form(transform(aux, has_aux=True, batch_size=2))(at)
    assert_same(blocks, transform(aux, has_aux=True)(at))


def test_complex_jacobians() -> None:
    z = complex_numbers(4)
    for f, transform in ((fnp.abs, fg.jacfwd), (lambda x: x * (1 + 2j), fg.jacrev)):
        at = z if transform is fg.jacfwd else z.real
        assert_same(transform(f, batch_size=3)(at), transform(f)(at))
    holomorphic = fg.jacrev(fnp.exp, holomorphic=True, batch_size=3)(z)
    assert_same(holomorphic, fg.jacrev(fnp.exp, holomorphic=True)(z))


def test_results_without_the_batch_and_batches_without_arguments() -> None:
    out = fg.vmap(lambda row: (row.sum(), 3.0), out_axes=(0, None), batch_size=2)(X)
    assert_same(out, (X.sum(1), 3.0))
    with pytest.raises(BatchError, match="out_axes is None"):
        fg.vmap(fnp.sum, out_axes=None, batch_size=2)(X)
    with pytest.raises(BatchError, match="batch sizes differ"):
        fg.vmap(lambda x, y: x + y, batch_size=2)(X, X[:2])
    assert_same(fg.vmap(lambda: 2.0, axis_size=5, batch_size=2)(), np.full(5, 2.0))
    assert_same(fg.vmap(fnp.sum, batch_size=2)(X[:0]), np.zeros(0))


@pytest.mark.parametrize("size", [0, -2, 1.5, "all", [2], np.ones(2)])
def test_other_sizes_are_refused(size: Any) -> None:
    transforms: dict[str, Any] = {
        "vmap": fg.vmap,
        "jacfwd": fg.jacfwd,
        "jacrev": fg.jacrev,
        "hessian": fg.hessian,
    }
    for name, transform in transforms.items():
        with pytest.raises(ArgumentError, match=f"{name}: batch_size has to be a positive integer"):
            transform(fnp.sum, batch_size=size)


def test_a_program_has_one_loop_and_memory_one_block() -> None:
    staged = fg.program(fg.vmap(lambda x: fnp.sin(x) * 2, batch_size=10))(np.ones(1000))
    assert len(staged.equations) < 8

    def peak(f: Any) -> int:
        tracemalloc.start()
        f(np.ones(1000))
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return taken

    wide = lambda x: fnp.sin(x * fnp.arange(1000.0)).sum()  # noqa: E731
    whole = peak(fg.vmap(wide))
    assert peak(fg.vmap(wide, batch_size=10)) < whole / 20
    dense = lambda x: fnp.sin(x * fnp.sum(x))  # noqa: E731
    assert peak(fg.jacrev(dense, batch_size=10)) < peak(fg.jacrev(dense)) / 1.5

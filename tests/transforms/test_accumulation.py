"""Cotangents of many patches: the same, with the same holes, whoever follows them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

X = np.random.default_rng(3).uniform(0.5, 1.5, (4, 3))
FIRST, SECOND = np.array([2, 0, 2, -1]), np.array([[1], [0]], np.uint64)

TAKES: dict[str, Callable[[Any], Any]] = {
    "row": lambda x: x[2],
    "last row": lambda x: x[-1],
    "element": lambda x: x[1, -1],
    "column": lambda x: x[:, 0],
    "all but one": lambda x: x[1:],
    "backwards": lambda x: x[::-2, ::-1],
    "new axis": lambda x: x[..., None, 1],
    "nothing": lambda x: x[2:2],
    "rows": lambda x: x[FIRST],
    "columns": lambda x: x[:, SECOND],
    "pairs": lambda x: x[FIRST, np.array([0, 1, 0, 2], np.int8)],
    "unique": lambda x: x[np.array([3, 1])],
    "mask": lambda x: x[X > 1.0],
    "traced rows": lambda x: x[fnp.argsort(x[:, 0])],
    "traced columns": lambda x: x[:, fnp.argmax(x, axis=1)[:2]],
    "whole": lambda x: x * 2.0,
    "sum": lambda x: fnp.sum(x),
}

AROUND: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "jit": fg.jit,
    "program": lambda f: lambda x: fg.program(f)(x)(x),
    "vmap": lambda f: lambda x: fg.vmap(f)(fnp.stack([x, x]))[1],
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,))[0],
    "vjp": lambda f: lambda x: fg.vjp(f, x)[0],
    "vmap of vmap": lambda f: lambda x: fg.vmap(fg.vmap(f))(fnp.stack([x, x])[None])[0, 1],
}


def of_parts(names: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        total: Any = 0.0
        for number, name in enumerate(names):
            total = total + fnp.sum(fnp.sin(TAKES[name](x) * (1.0 + 0.1 * number)) ** 2)
        return total

    return f


several = st.lists(st.sampled_from(list(TAKES)), min_size=1, max_size=9)


@given(several)
def test_whoever_follows_the_patches_gets_the_same(names: list[str]) -> None:
    gradient = fg.grad(of_parts(names))
    expected = gradient(X)
    for name, around in AROUND.items():
        assert_allclose(around(gradient)(X), expected, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.slow
@given(several)
def test_second_derivatives_of_patches(names: list[str]) -> None:
    f, direction = of_parts(names), np.cos(X)
    step = 1e-5
    expected = (
        np.asarray(fg.grad(f)(X + step * direction)) - np.asarray(fg.grad(f)(X - step * direction))
    ) / (2 * step)
    forward = fg.hvp(f, (X,), (direction,))
    assert_allclose(forward, expected, rtol=1e-6, atol=1e-6)
    reverse = fg.grad(lambda x: fnp.sum(fg.grad(f)(x) * direction))(X)
    assert_allclose(reverse, forward, rtol=1e-12, atol=1e-12)
    staged = fg.jit(lambda x: fg.hvp(f, (x,), (direction,)))(X)
    assert_allclose(staged, forward, rtol=1e-12, atol=1e-12)


@together("name", AROUND)
def test_what_no_patch_reaches_is_absent(name: str) -> None:
    """The derivative of the root is infinite at 0: times nothing it is nothing, not NaN."""

    def f(x: Any) -> Any:
        y = fnp.sqrt(x)
        return y[1] + y[1:3].sum() + y[np.array([3])].sum()

    with np.errstate(all="ignore"):  # as NumPy warns where a program is evaluated
        found = AROUND[name](fg.grad(f))(np.array([0.0, 1.0, 4.0, 1.0]))
    assert_array_equal(found, [0.0, 1.0, 0.25, 0.5])


@together("name", AROUND)
def test_patches_with_holes(name: str) -> None:
    def f(x: Any) -> Any:
        y = fnp.sqrt(x)
        return sum(fnp.where(y[k] > 0, y[k], 0.0) for k in range(4)) + y[3]

    with np.errstate(all="ignore"):  # as NumPy warns where a program is evaluated
        found = AROUND[name](fg.grad(f))(np.array([0.0, 1.0, 4.0, 1.0]))
    assert_array_equal(found, [0.0, 0.5, 0.25, 1.0])


@together("dtype", [np.float16, np.float32, np.complex64])
@together("name", AROUND)
def test_patches_have_the_dtype_of_what_they_are_taken_from(name: str, dtype: Any) -> None:
    wide = np.arange(1.0, 4.0)

    def f(x: Any) -> Any:
        return fnp.real(x[0] @ wide + x[1] @ wide + fnp.sum(x[FIRST] @ wide))

    found = AROUND[name](fg.grad(f))(X.astype(dtype))
    assert found.dtype == dtype
    assert_allclose(found, fg.grad(f)(X.astype(dtype)), rtol=1e-3)


def test_patches_that_overlap_much_are_joined_in_between() -> None:
    def f(x: Any) -> Any:
        return sum(fnp.sum(x[k % 2 :] ** 2) * (1.0 + k) for k in range(20))

    x = np.arange(1.0, 6.0)
    program = fg.program(fg.grad(f))(x)
    names = [equation.operation.name for equation in program.equations]
    assert 2 <= names.count("assemble") <= 6
    assert_allclose(program(x), fg.grad(f)(x), rtol=1e-13)


def test_one_operation_for_all_rows() -> None:
    def f(x: Any) -> Any:
        return sum(fnp.sum(row**2) for row in x)

    names = [equation.operation.name for equation in fg.program(fg.grad(f))(X).equations]
    assert (names.count("assemble"), names.count("place")) == (1, 0)


def test_one_operation_for_all_index_arrays_of_an_axis() -> None:
    def f(x: Any) -> Any:
        return sum(fnp.sum(x[np.array([k, 0])] ** 2) for k in range(4))

    names = [equation.operation.name for equation in fg.program(fg.grad(f))(X).equations]
    assert names.count("deposit") == 1

"""Sums of products over the steps of a loop are one product, unless a step reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.step_sums import sum_after_loops
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program

RNG = np.random.default_rng(0)
XS = RNG.normal(size=(12, 1, 8))
WIDE = RNG.normal(size=(12, 10))


def loops_of(program: Program) -> list[Any]:
    return [e for e in program.equations if e.name in ("scan", "while_loop", "loop")]


def carried(program: Program) -> list[int]:
    return [dict(equation.params)["carried"] for equation in loops_of(program)]


def staged(f: Callable[..., Any], *args: Any) -> tuple[Program, Program]:
    """A program, and the same with sums after its loops; they have the same values."""
    before = optimize(fg.program(f)(*args))
    after = sum_after_loops(before).verify()
    assert sum_after_loops(after) == after
    for x, y in zip(fg.tree.leaves(after(*args)), fg.tree.leaves(before(*args)), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        digits = 1e-4 if x.dtype == np.float32 else 1e-12
        assert_allclose(np.asarray(x), np.asarray(y), rtol=digits, atol=digits)
    return before, after


def assert_native(f: Callable[..., Any], *args: Any) -> None:
    pytest.importorskip("llvmlite")
    expected = fg.tree.leaves(f(*args))
    for x, y in zip(fg.tree.leaves(fg.jit(f, backend="native")(*args)), expected, strict=True):
        digits = 1e-4 if x.dtype == np.float32 else 1e-12
        assert_allclose(np.asarray(x), np.asarray(y), rtol=digits, atol=digits)


def recurrent(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = fnp.tanh(x @ w + h @ u)
        return h, h

    return fnp.sum(fg.scan(step, fnp.zeros((xs.shape[1], u.shape[0]), xs.dtype), xs)[1] ** 2)


@pytest.mark.parametrize("char", "fd")
def test_gradients_of_matrices_in_loops_are_one_product(char: str) -> None:
    w, u, xs = (0.3 * RNG.normal(size=(8, 16)), 0.2 * RNG.normal(size=(16, 16)), XS)
    args = tuple([x.astype(char) for x in (w, u, xs)])
    gradient = fg.grad(recurrent, argnums=(0, 1))
    before, after = staged(gradient, *args)
    assert carried(before)[-1] == 3
    assert carried(after)[-1] == 1
    assert_native(gradient, *args)
    examples = np.stack([args[2], 2 * args[2]])
    assert_native(fg.vmap(gradient, in_axes=(None, None, 0)), *args[:2], examples)


def test_second_derivatives() -> None:
    w, u = 0.3 * RNG.normal(size=(8, 16)), 0.2 * RNG.normal(size=(16, 16))

    def product(w: Any, v: Any) -> Any:
        return fg.jvp(lambda w: fg.grad(recurrent)(w, u, XS), (w,), (v,))[1]

    staged(product, w, w[::-1])
    assert_native(product, w, w[::-1])


def several(xs: Any) -> Any:
    """Sums of several products, from the last step to the first."""

    def step(carry: Any, x: Any) -> Any:
        total, other, k = carry
        y = fnp.sin(x * k)
        first = fnp.outer(x, y) + (fnp.outer(y, y) + total)
        return (first, other + y[:, None] * x, k + 1.0), y

    start = (fnp.ones((10, 10)), fnp.zeros((10, 10)), 0.5)
    return fg.scan(step, start, xs, reverse=True)


def test_sums_of_several_products_and_their_beginnings() -> None:
    before, after = staged(several, WIDE)
    assert carried(before) == [3]
    assert carried(after) == [1]
    assert_native(several, WIDE)


def test_loops_inside_loops() -> None:
    def outer_steps(xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            inner = fg.scan(
                lambda s, k: (s + fnp.outer(x * k, x), None), fnp.zeros((10, 10)), np.arange(9.0)
            )[0]
            return c + fnp.tanh(inner), None

        return fg.scan(step, fnp.zeros((10, 10)), xs)[0]

    assert_native(outer_steps, WIDE)


def test_an_infinite_factor_reaches_the_same_elements() -> None:
    xs = WIDE.copy()
    xs[3, 4], xs[5, 2] = np.inf, np.nan
    with np.errstate(all="ignore"):
        _, after = staged(moments, xs)
        assert carried(after) == [0]
        assert_native(moments, xs)


def moments(xs: Any) -> Any:
    return fg.scan(lambda c, x: (c + fnp.outer(x, x), None), fnp.zeros((10, 10)), xs)[0]


def read_in_the_step(xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = c + fnp.outer(x, x)
        return c, fnp.sum(c)

    return fg.scan(step, fnp.zeros((10, 10)), xs)


def read_before_the_step(xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return c + fnp.outer(x, x), fnp.sum(c)

    return fg.scan(step, fnp.zeros((10, 10)), xs)


def also_something_else(xs: Any) -> Any:
    return fg.scan(
        lambda c, x: (c + fnp.outer(x, x) + fnp.cos(c[:1]), None), fnp.zeros((10, 10)), xs
    )[0]


def scaled(xs: Any) -> Any:
    return fg.scan(lambda c, x: (0.9 * c + fnp.outer(x, x), None), fnp.zeros((10, 10)), xs)[0]


def difference(xs: Any) -> Any:
    return fg.scan(lambda c, x: (fnp.outer(x, x) - c, None), fnp.zeros((10, 10)), xs)[0]


def twice(xs: Any) -> Any:
    return fg.scan(lambda c, x: (c + c + fnp.outer(x, x), None), fnp.zeros((10, 10)), xs)[0]


def many_rows(xs: Any) -> Any:
    many = fnp.stack([xs] * 6, axis=1)
    return fg.scan(lambda c, x: (c + x.T @ x, None), fnp.zeros((10, 10)), many)[0]


def shared_factor(xs: Any) -> Any:
    m = xs.T @ xs
    return fg.scan(lambda c, x: (c + x[:, None] * m, None), fnp.zeros((10, 10)), xs)[0]


def shared_column(xs: Any) -> Any:
    v = xs.T @ xs[:, 0]
    return fg.scan(lambda c, x: (c + x[:, None] * v, None), fnp.zeros((10, 10)), xs)[0]


def replaced(xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        return fnp.outer(x, x), fnp.sum(c)

    return fg.scan(step, fnp.zeros((10, 10)), xs)


def unchanged(xs: Any) -> Any:
    return fg.scan(lambda c, x: (c, fnp.outer(x, x) + c), xs.T @ xs, xs)


def few_steps(xs: Any) -> Any:
    return moments(xs[:4])


def whole_numbers(xs: Any) -> Any:
    return fg.scan(
        lambda c, x: (c + fnp.outer(x, x), None), fnp.zeros((10, 10), int), fnp.astype(10 * xs, int)
    )[0]


def until(xs: Any) -> Any:
    def step(c: Any) -> Any:
        k, total = c
        return k + 1, total + fnp.outer(xs[k], xs[k])

    return fg.while_loop(lambda c: c[0] < 9, step, (0, fnp.zeros((10, 10))))[1]


@pytest.mark.parametrize(
    "f",
    [
        read_in_the_step,
        read_before_the_step,
        also_something_else,
        scaled,
        difference,
        twice,
        many_rows,
        shared_factor,
        shared_column,
        replaced,
        unchanged,
        few_steps,
        whole_numbers,
        until,
    ],
)
def test_other_loops_stay(f: Callable[..., Any]) -> None:
    before = optimize(fg.program(f)(WIDE))
    assert sum_after_loops(before) is before
    assert_native(f, WIDE)

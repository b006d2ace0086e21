"""Loops change arrays in place: the same bits, and time by what a step changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.in_place import change_in_place
from funcgrad._programs.program import Program
from tests.subjects import assert_bits
from tests.together import together

STEPS = 6


def _window(x: Any) -> Any:
    return fg.scan(
        lambda c, i: (c + fnp.sum(fnp.sin(fnp.dynamic_slice(x, (i,), (3,)))), None),
        0.0,
        fnp.arange(STEPS),
    )[0]


def _element(x: Any) -> Any:
    return fg.scan(lambda c, i: (c * fnp.sin(x[i]), None), 1.0, fnp.arange(STEPS) % 4)[0]


def _two(x: Any) -> Any:
    return fg.scan(lambda c, i: (c + x[i] * x[i - 1], None), 0.0, fnp.arange(STEPS))[0]


def _written(x: Any) -> Any:
    def step(c: Any, i: Any) -> Any:
        return c.at[i].set(fnp.sin(c[i] * c[i + 1])), None

    return fnp.sum(fg.scan(step, x, fnp.arange(STEPS))[0] ** 2)


def _added(x: Any) -> Any:
    return fnp.sum(fg.scan(lambda c, i: (c.at[i].add(c[i + 1]), None), x, fnp.arange(STEPS))[0])


def _nested(x: Any) -> Any:
    def outer(c: Any, i: Any) -> Any:
        inner = fg.scan(lambda d, k: (d + x[i] * fnp.cos(x[k]), None), 0.0, fnp.arange(3))[0]
        return c + inner, None

    return fg.scan(outer, 0.0, fnp.arange(STEPS))[0]


def _until(x: Any) -> Any:
    def step(state: Any) -> Any:
        return state[0] + 1, state[1] + fnp.sum(fnp.sin(x[state[0] : state[0] + 2]))

    return fg.while_loop(lambda state: state[0] < STEPS, step, (0, 0.0))[1]


READERS = {f.__name__[1:]: f for f in (_window, _element, _two, _written, _added, _nested, _until)}
by_reader = pytest.mark.parametrize("f", READERS.values(), ids=READERS)


def names_inside(program: Program) -> set[str]:
    names: set[str] = set()
    for equation in program.equations:
        names.add(equation.name)
        for _, value in equation.params:
            if isinstance(value, Program):
                names |= names_inside(value)
    return names


@by_reader
@together("dtype", [np.float64, np.complex128, np.float32], quick=2)
def test_gradients_keep_their_bits(f: Callable[..., Any], dtype: Any) -> None:
    x = np.random.default_rng(5).standard_normal(9).astype(dtype)
    x[3] = -0.0
    gradient = fg.grad(lambda x: fnp.real(f(x))) if dtype is np.complex128 else fg.grad(f)
    staged = fg.program(gradient)(x)
    assert_bits(change_in_place(staged)(x), staged(x))
    for backend in ("numpy", "native"):
        run: Any = fg.jit(gradient, backend=backend)
        close = 1e-5 if dtype is np.float32 else 1e-12
        assert_allclose(run(x), gradient(x), rtol=close, atol=close)


@by_reader
def test_second_order_batches_and_forward_mode(f: Callable[..., Any]) -> None:
    x = np.random.default_rng(6).standard_normal((2, 9))
    for g, argument in (
        (fg.hessian(f), x[0]),
        (fg.jacfwd(fg.grad(f)), x[0]),
        (fg.vmap(fg.grad(f)), x),
    ):
        assert_allclose(fg.jit(g)(argument), g(argument), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["window", "element", "added", "until"])
def test_no_step_adds_a_whole_array(name: str) -> None:
    x = np.ones(2000)
    names = names_inside(
        change_in_place(fg.jit(fg.grad(READERS[name]), backend="numpy").lower(x).optimized)
    )
    assert names & {"scatter_add", "put_block"}
    assert not names & {"deposit", "spread_block", "last_writes"}


def test_several_updates_are_added_in_place_to_large_arrays_only() -> None:
    small, large = (
        names_inside(change_in_place(fg.jit(fg.grad(_two)).lower(np.ones(size)).optimized))
        for size in (9, 2000)
    )
    assert "deposit" in small
    assert "scatter_add" not in small
    assert "scatter_add" in large
    assert "deposit" not in large
    x = np.random.default_rng(7).standard_normal(2000)
    assert_allclose(fg.jit(fg.grad(_two))(x), fg.grad(_two)(x), rtol=1e-14)


def test_arrays_that_may_hold_negative_zeros_are_added_as_a_whole() -> None:
    def summed(start: Any, u: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            return c + fnp.zeros(4).at[i].add(u) * 1.0, None

        return fg.scan(step, start, fnp.arange(2))[0]

    def deposited(start: Any, u: Any) -> Any:
        def pull(c: Any, i: Any) -> Any:
            (ct,) = fg.vjp(lambda x: x[i], fnp.ones(4))[1](u)
            return c + ct, None

        return fg.scan(pull, start, fnp.arange(2))[0]

    start = np.array([-0.0, 1.0, -0.0, -0.0])
    for f in (summed, deposited):
        staged = fg.program(f)(start, 2.0)
        assert_bits(change_in_place(staged)(start, 2.0), staged(start, 2.0))
        fixed = fg.program(lambda u, f=f: f(fnp.asarray(start), u))(2.0)
        assert_bits(change_in_place(fixed)(2.0), fixed(2.0))
        plain = fg.program(lambda u, f=f: f(fnp.zeros(4), u))(2.0)
        assert_bits(change_in_place(plain)(2.0), plain(2.0))


@pytest.mark.parametrize("count", [0, 2])
def test_a_loop_of_no_steps_returns_the_negative_zeros_that_it_begins_with(count: int) -> None:
    def f(n: Any, u: Any) -> Any:
        def more(c: Any) -> Any:
            return c[0] + 1, (fnp.zeros(4) + c[1]).at[c[0]].add(1.0)

        def step(c: Any, i: Any) -> Any:
            y = c + fg.grad(lambda x: x[i] * u)(c)
            return fg.while_loop(lambda t: t[0] < n, more, (0, -y))[1], y

        return fg.scan(step, fnp.zeros(4), fnp.arange(3))[1]

    args = fg.tensor(count), fg.tensor(0.0)
    assert_bits(fg.jit(f, backend="native")(*args), f(*args))


def test_readers_come_before_the_scatter_that_overwrites() -> None:
    def step(c: Any, i: Any) -> Any:
        changed = c.at[i].set(0.0)
        return changed.at[i + 1].set(c[i]), None

    x = np.arange(5.0)
    staged = fg.program(lambda x: fg.scan(step, x, fnp.arange(3))[0])(x)
    changed = change_in_place(staged)
    loop = changed.equations[-1]
    body = dict(loop.params)["body"]
    names = [equation.name for equation in body.equations]
    assert names.index("gather") < names.index("scatter_set")
    assert_bits(changed(x), staged(x))


def test_a_scatter_comes_before_all_of_its_readers() -> None:
    """Its first reader is a scatter that comes later itself, and after the second reader."""

    def step(c: Any, i: Any) -> Any:
        first = c.at[i].set(0.0)
        second = first.at[i + 1].set(2.0)
        return second, first[i + 1]

    x = np.arange(5.0) + 1.0
    staged = fg.program(lambda x: fg.scan(step, x, fnp.arange(3)))(x)
    changed = change_in_place(staged)
    changed.verify()
    assert_bits(changed(x), staged(x))

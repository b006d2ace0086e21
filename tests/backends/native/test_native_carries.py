"""Carries of loops: in registers, in place, or in places that take turns, they are evaluation's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.native_code import BEST, FIRST
from tests.backends.native.test_native import assert_same
from tests.backends.native.test_native_levels import begin_with_the_best
from tests.together import together

pytest.importorskip("llvmlite")

X = np.arange(40.0) % 7


def one_scatter(x: Any) -> Any:
    return fg.fori_loop(0, 39, lambda k, x: x.at[k].set(0.5 * x[k] + x[(k + 3) % 40] - x[-1]), x)


def two_scatters(x: Any) -> Any:
    def step(carry: Any, k: Any) -> Any:
        x, total = carry
        x = x.at[k].multiply(1.5)
        x = x.at[(k + 1) % 40].add(x[k])
        return (x, total + x[0]), x[1]

    return fg.scan(step, (x, x[3]), fnp.arange(40))


def nested_loops(x: Any) -> Any:
    def outer(k: Any, x: Any) -> Any:
        x = x.at[k].set(x[k - 1])
        return fg.fori_loop(0, 5, lambda j, x: x.at[j].add(x[k]), x)

    return fg.fori_loop(0, 40, outer, x)


def exchanged(x: Any) -> Any:
    step = lambda k, c: (c[1].at[k].set(c[0][k + 1]), c[0].at[k].add(c[1][k]))  # noqa: E731
    return fg.fori_loop(0, 39, step, (x, 2 * x))


def read_afterwards(x: Any) -> Any:
    return fg.fori_loop(0, 40, lambda k, c: (c[0].at[k].set(k), c[1] + c[0]), (x, 2 * x))


def stacked_before(x: Any) -> Any:
    return fg.scan(lambda x, k: (x.at[k].add(1.0), x), x, fnp.arange(40))


def shared_at_first(x: Any) -> Any:
    return fg.fori_loop(0, 40, lambda k, y: y.at[k].add(x[k] + y[0]), x) + x


def until_it_is_full(x: Any) -> Any:
    step = lambda c: (c[0].at[c[1] % 40].add(c[0][0]), c[1] + 1)  # noqa: E731
    return fg.while_loop(lambda c: fnp.sum(c[0]) < 300.0, step, (x + 1.0, 0))


def chosen(x: Any) -> Any:
    add = lambda x, k: x.at[k].add(1.0)  # noqa: E731
    keep = lambda x, k: x  # noqa: E731
    return fg.fori_loop(0, 40, lambda k, x: fg.cond(x[k] > 3, add, keep, x, k), x)


def window(x: Any) -> Any:
    double = 2.0 * x
    return fg.fori_loop(0, 5, lambda k, y: y.at[k].add(y[k + 1]), double[7:20])


def windows_of_one_array(x: Any) -> Any:
    double = 2.0 * x
    step = lambda y, z: (y.at[2].add(z), y[0] * z)  # noqa: E731
    return fg.scan(step, double[3:11], double[5:30])


def scattered_window(x: Any) -> Any:
    double = 2.0 * x
    return double[4:30].at[fnp.argmax(double[5:9])].set(fnp.sort(double[3:12])[2])


def window_of_one_branch(x: Any) -> Any:
    double = 2.0 * x
    return fg.cond(double[3] > 1, lambda y: y * 2.0, lambda y: y + 1.0, double[9:12])


SCATTERS: tuple[Callable[[Any], Any], ...] = (
    one_scatter,
    two_scatters,
    nested_loops,
    exchanged,
    read_afterwards,
    stacked_before,
    shared_at_first,
    until_it_is_full,
    chosen,
    window,
    windows_of_one_array,
    scattered_window,
    window_of_one_branch,
)


@pytest.fixture(params=[FIRST, BEST], autouse=True)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile at a level, before the first call."""
    if request.param == BEST:
        begin_with_the_best(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("f", SCATTERS)
@pytest.mark.parametrize("count", [40, 41])
def test_scatters_in_loops_are_evaluations(f: Callable[[Any], Any], count: int) -> None:
    x = np.resize(X, count)
    assert_same(f, x, exact=True)
    assert_same(fg.vmap(f), np.stack([x, x[::-1]]), exact=True)
    assert_same(fg.grad(lambda x: sum(fnp.sum(fnp.sin(y)) for y in fg.tree.leaves(f(x)))), x)


def test_a_step_that_only_scatters_copies_nothing_that_lies_there() -> None:
    source = fg.jit(one_scatter, backend="native").lower(np.zeros(1_000)).source
    step, _, loop = source.partition("call ptr @memcpy")
    assert "icmp ne ptr" in step.rsplit("define ", 1)[1]
    assert loop.count("call ptr @memcpy") == 1  # before the first step


def few_numbers(x: Any) -> Any:
    """Steps over small arrays, whose elements are also read one by one and in windows."""

    def step(carry: Any, k: Any) -> Any:
        y, total = carry
        turned = fnp.stack([y[(j + 1) % y.size] - y[j] for j in range(y.size)])
        z = fnp.concatenate([turned[:1] * k, y[1:] + turned[1:]])
        return (z * 0.5, total + fnp.sum(z)), (fnp.max(z), z[::-1])

    return fg.scan(step, (x, x[0]), fnp.arange(9).astype(x.dtype))


@together("char", "deDfF", quick=3)
def test_few_numbers_are_evaluations(char: str) -> None:
    for count in (1, 2, 3, 8, 9, 17) if char in "FD" else (1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 17):
        x = np.resize(X, count).astype(char) * (1 + 2j if char in "FD" else 1)
        f = few_numbers if char not in "FD" else few_complex_numbers
        assert_same(f, x, exact=char in "de")


def few_complex_numbers(x: Any) -> Any:
    return fg.scan(lambda y, _: (y[::-1] * 0.5 + x, y[0]), x, None, length=7)


def test_few_numbers_lie_on_the_stack() -> None:
    for count in (2, 3, 8, 12):
        program = fg.jit(few_numbers, backend="native").lower(np.ones(count)).optimized
        module, function = NATIVE._written(program)
        assert function.size == 0
        body = next(text for text in module.texts if "@f1(" in text.partition("{")[0])
        assert "masked" not in body
        assert f"alloca [{64 if count <= 8 else 128} x i8]" in body


def turned_wave(s: Any) -> Any:
    u = s[0] * 1.0
    v = s[1] + 0.1 * (fnp.roll(u, 1) - 2 * u + fnp.roll(u, -1))
    return fnp.stack([(u + 0.1 * v)[::-1], v[::-1]])


def summed_rows(s: Any) -> Any:
    t = fnp.cumsum(s[0])
    w = fnp.cumsum(s[0] + 1e-6 * fnp.cumsum(t - s[1]))
    return 0.015 * fnp.stack([w, fnp.cumsum(fnp.sin(s[1] + 1e-3 * t))])[::-1]


@together("step", [turned_wave, summed_rows])
@together("count", [7, 6], quick=1)
def test_large_carries_are_read_from_where_the_step_before_wrote_them(
    step: Callable[[Any], Any], count: int
) -> None:
    """Also where their memory held other results of that step first."""
    s = np.random.default_rng(0).normal(size=(2, 256))
    assert_same(lambda s: fg.scan(lambda c, _: (step(c), None), s, None, length=count)[0], s)
    assert_same(lambda s: fg.fori_loop(0, fnp.argmax(s[0]) + 5, lambda _, c: step(c), s), s)


def in_another_order(s: Any) -> Any:
    """Pieces of a small array, the last of them first."""
    q, p = s[:2] * 1.0, s[2:]
    last = -q / fnp.sum(q * q)
    return s + 0.01 * fnp.concatenate([p, last])


def test_pieces_of_small_arrays_in_another_order_than_they_lie_in_are_compiled() -> None:
    """LLVM 22 joins vectors that are stored so before the last is known, and aborts."""
    s = np.array([1.0, 0.2, 0.3, 1.1])

    def loop(s: Any) -> Any:
        return fg.fori_loop(0, 9, lambda _, c: in_another_order(in_another_order(c)), s)

    assert_same(loop, s)
    assert_same(fg.grad(lambda s: fnp.sum(loop(s) ** 2)), s)


def pendulum(s: Any) -> Any:
    def slope(s: Any) -> Any:
        return fnp.stack([s[1], -fnp.sin(s[0]) - 0.1 * s[1]])

    def step(_: Any, s: Any) -> Any:
        middle = slope(s + 0.005 * slope(s))
        return s + 0.01 * middle

    return fg.fori_loop(0, 20, step, s)


def test_few_sums_are_computed_one_by_one() -> None:
    """A vector would wait for the sine of an angle, which the next angle does not need."""
    assert_same(pendulum, np.array([1.0, 0.5]))
    assert_same(fg.grad(lambda s: fnp.sum(pendulum(s) ** 2)), np.array([1.0, 0.5]))
    assert "x double>" not in fg.jit(pendulum, backend="native").lower(np.ones(2)).source
    for f in (fnp.exp, fnp.sqrt, lambda x: 1.0 / (1.0 + x)):  # of these a vector is quicker
        source = fg.jit(f, backend="native").lower(np.ones(4)).source
        assert "<4 x double>" in source or "<2 x double>" in source


def test_sums_of_few_products_are_computed_one_by_one() -> None:
    """A vector would wait until both sums that it reads have been written."""
    m = np.array([[0.9, 0.3], [-0.2, 0.8]])

    def loop(s: Any) -> Any:
        return fg.fori_loop(0, 20, lambda _, s: fnp.sum(m * s, axis=1) + 0.1 * s, s)

    assert_same(loop, np.ones(2))
    assert_same(fg.grad(lambda s: fnp.sum(loop(s) ** 2)), np.ones(2))
    assert "x double>" not in fg.jit(loop, backend="native").lower(np.ones(2)).source
    stays = fg.jit(lambda s: s * 0.99 + 0.01 * s.T, backend="native").lower(m)
    assert "<2 x double>" in stays.source

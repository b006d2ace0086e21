"""Memory of a call: results lie where nothing lies that is still read."""

import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.sharing import MemoryPlan
from tests.together import together

SIZE = 1000
BYTES = 8 * SIZE


def arena(f: Callable[..., Any], *args: Any) -> int:
    """The bytes that a call takes besides its results, in arrays."""
    _, function = NATIVE._written(fg.jit(f, backend="native").lower(*args).optimized)
    return round(function.size / BYTES)


def chain(x: Any) -> Any:
    """Results of different index spaces, so that each is a step of its own."""
    for k in range(6):
        x = fnp.cumsum(x) * x + k
    return fnp.cumsum(x)


def stored_early(x: Any) -> Any:
    """A result that is stored before all of its nest's operands have been read."""
    y, z = fnp.cumsum(x), fnp.cumsum(-x)
    t = fnp.cumsum(y + z * 2)
    u, v = t * 2, y * t + z
    return t, fnp.cumsum(u), fnp.cumsum(v)


def reversed_beside(x: Any) -> Any:
    """An operand that is read forwards and backwards."""
    y = fnp.cumsum(x)
    return fnp.cumsum(y - y[::-1])


def transposed_beside(x: Any) -> Any:
    y = fnp.cumsum(x[:900]).reshape(30, 30)
    return fnp.cumsum(y * 2 + y.T, axis=0)


def of_other_width(x: Any) -> Any:
    y = fnp.cumsum(x)
    z = fnp.cumsum(y.astype(np.float32) * 2)
    return fnp.cumsum(z.astype(np.float64) + z)


def reduced_too(x: Any) -> Any:
    y = fnp.cumsum(x)
    return fnp.cumsum(fnp.exp(-y)), fnp.sum(y)


def of_complex(x: Any) -> Any:
    z = fnp.cumsum(x + 2j * x)
    return fnp.cumsum(z.real * 2), fnp.cumsum(z * 1j), fnp.cumsum(z.imag)


def in_a_loop(x: Any) -> Any:
    return fg.scan(lambda c, _: (fnp.cumsum(c) * 0.01 + c, stored_early(c)[2]), x, None, length=5)


PROGRAMS = (
    chain,
    stored_early,
    reversed_beside,
    transposed_beside,
    of_other_width,
    reduced_too,
    of_complex,
    in_a_loop,
)


@together("f", PROGRAMS, ids=lambda f: f.__name__)
def test_nothing_is_overwritten_that_is_read_later(f: Callable[..., Any]) -> None:
    x = np.linspace(-1.0, 1.0, SIZE)
    staged = fg.jit(f, backend="native", exact=True)
    for _ in range(2):
        for left, right in zip(
            fg.tree.leaves(staged(x)), fg.tree.leaves(f(fg.tensor(x))), strict=True
        ):
            np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_results_lie_where_operands_lay_and_in_the_memory_of_outputs() -> None:
    assert arena(chain, np.ones(SIZE)) == 1


def test_steps_share_the_memory_that_they_take_for_a_moment() -> None:
    def loop(x: Any) -> Any:
        return fg.scan(lambda c, _: (fnp.cumsum(c) + c[::-1], None), x, None, length=3)[0]

    once, often = arena(loop, np.ones(SIZE)), arena(lambda x: loop(loop(loop(x))), np.ones(SIZE))
    assert often <= once + 1


def test_places_of_one_time_do_not_meet() -> None:
    draws = np.random.default_rng(5)
    plan = MemoryPlan()
    plan.add_output("%o0", 1000, 7)
    placed: list[tuple[int, int, int, int]] = []
    for _ in range(200):
        size, begin = int(draws.integers(1, 500)), int(draws.integers(20))
        end = begin + int(draws.integers(6))
        place = plan.place(size, begin, end)
        for other, extent, first, last in placed:
            assert last < begin or first > end or place + size <= other or other + extent <= place
        name, offset = plan.located(place)
        limit, latest = (plan.size, 99) if name == "%arena" else (1000, 6)
        assert 0 <= offset <= limit - size
        assert end <= latest
        placed.append((place, size, begin, end))
    assert {plan.located(place)[0] for place, *_ in placed} == {"%o0", "%arena"}


def test_many_places_of_one_size_do_not_meet_and_are_few() -> None:
    draws, plan = np.random.default_rng(7), MemoryPlan()
    begins = np.sort(draws.integers(0, 200, 500))
    lives = [(int(begin), int(begin + draws.integers(9))) for begin in begins]
    plan.place(100, 0, 300)
    places = plan.place_many(100, lives)
    for k, (begin, end) in enumerate(lives):
        beside = {places[j] for j in range(k) if lives[j][1] >= begin and lives[j][0] <= end}
        assert places[k] not in beside
    most = max(sum(first <= moment <= last for first, last in lives) for moment in range(210))
    assert sorted({*places}) == list(range(128, 128 * (most + 1), 128))
    assert plan.size == 100 + 28 + 128 * most


def unrolled(x: Any) -> Any:
    """Many steps of two shapes, some of inputs only."""
    carry, width = x[:4], x[:16].reshape(4, 4)
    for k in range(400):
        carry = fnp.tanh(width @ carry + x[k % 9 : k % 9 + 4]) * (1 + k % 3 + x[-1])
    return fnp.sum(carry)


@pytest.mark.slow
def test_long_rows_of_steps_are_written_in_short_blocks_with_few_bytes() -> None:
    x = np.linspace(-1.0, 1.0, SIZE)
    derivative = fg.jit(fg.value_and_grad(unrolled), backend="native")
    for one, other in zip(derivative(x), fg.value_and_grad(unrolled)(x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    lowered = derivative.lower(x)
    _, function = NATIVE._written(lowered.optimized)
    assert function.size < 64 * 400 * 6
    body = lowered.source.partition("define internal i32 @f0")[2].partition("\n}")[0]
    blocks = body.partition("start:")[2].split(":\n")
    calls = [block.count("\n") for block in blocks if "call" in block]
    assert len(calls) > 5
    assert max(calls[1:]) < 400


def test_writers_are_free_when_they_have_written() -> None:
    """Nothing that writes a program is in a cycle, which would keep the program's constants."""
    x = np.ones((3, 9, 9))
    for f in (fnp.tanh, lambda x: x @ x, lambda x: fnp.exp(x) if x[0, 0, 0] > 0 else x):
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)  # also while another thread writes a program
        try:
            arena(f, x)
            gc.collect()
            assert not [each for each in gc.garbage if isinstance(each, FunctionText)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


@pytest.mark.slow
def test_large_intermediate_results_lie_in_the_memory_of_the_last_run() -> None:
    resource = pytest.importorskip("resource")

    def faults() -> int:
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

    x = np.linspace(0.0, 0.1, 64_000).reshape(1000, 64)

    def slopes(centers: Any, factors: Any) -> Any:
        def total(centers: Any) -> Any:
            moved = fnp.einsum("kij,nkj->nki", factors, x[:, None] - centers)
            return fnp.sum(fnp.log(fnp.sum(fnp.exp(-fnp.sum(moved * moved, -1)), -1)))

        return fg.grad(total)(centers)

    def check(function: Any, args: Any, expected: Any) -> None:
        for _ in range(2):
            np.testing.assert_allclose(function(*args), expected, rtol=1e-9)

    compiled: dict[int, Any] = {}
    for count in (36, 60, 36):  # of 37 to 62 MB
        args = np.linspace(0.0, 1.0, count * 64).reshape(count, 64), np.full((count, 64, 64), 1e-3)
        function = compiled.setdefault(count, fg.jit(slopes, backend="native"))
        expected = slopes(*args)
        check(function, args, expected)
        fewest = 10_000
        for _ in range(5):  # better code may take its place at any call, and other memory
            before = faults()
            function(*args)
            fewest = min(fewest, faults() - before)
        assert fewest < 1000
        with ThreadPoolExecutor(3) as pool:
            works = [pool.submit(check, function, args, expected) for _ in range(3)]
            for work in works:
                work.result()

"""Elementwise operations on large arrays: blocks, and sums in place, never change a number.

Programs are made at random: of elementwise operations, views, reductions and indices, with results
that are held in lists, closures, NumPy views, buffers, exceptions and threads. Whatever is held is
looked at when all is done. The reference are the same programs with entries for small arrays, which
write into nothing.
"""

from __future__ import annotations

import functools
import gc
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._transforms import large_entries, record
from funcgrad._transforms.large_entries import LARGE
from tests.conformance import at_all, by_primitive, every_case, every_primitive, representatives
from tests.in_threads import in_threads
from tests.together import together
from tests.tools.benchmarks.measured import peak

Values = list[Any]


@contextmanager
def limit(size: int) -> Iterator[None]:
    """The number of bytes from which on arrays count as large."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "LARGE", size)
        patch.setattr(large_entries, "_BLOCK", max(64, size // 2))
        yield


def numbers(*shape: int, dtype: Any = float, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.3, 1.7, shape).astype(dtype)


# Programs. Every step takes values from a list and adds one.

UNARY: list[Callable[[Any], Any]] = [
    fnp.sin,
    fnp.cos,
    fnp.exp,
    fnp.tanh,
    fnp.sqrt,
    fnp.log,
    fnp.arctan,
    fnp.square,
    fnp.negative,
    fnp.reciprocal,
    fg.nn.sigmoid,
    fg.nn.relu,
    lambda x: x**3,
    lambda x: +x,
    lambda x: x + 1,
    lambda x: 2.0 - x,
    lambda x: x * 0.5,
    lambda x: x * x,
    lambda x: x[::-1],
    lambda x: x[..., ::2].repeat(2, axis=-1)[..., : x.shape[-1]],
    lambda x: x.at[..., 1:].multiply(0.5),
    lambda x: fnp.sin(x.T).T,
    lambda x: fnp.exp(fnp.sin(x.T) + x.T).T,
    lambda x: fnp.flip(x, -1),
    lambda x: fnp.where(x > 0.7, x, 0.1),
    lambda x: x - x.mean(axis=-1, keepdims=True),
    lambda x: x / x.sum(axis=0),
    lambda x: fg.stop_gradient(x) * 0.5,
    lambda x: fg.grad(lambda y: (fnp.sin(y) * y).sum())(x),
    lambda x: fg.vjp(fnp.tanh, x)[1](x)[0],
    lambda x: fg.checkpoint(lambda y: fnp.cos(y) * y)(x),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (2 + y * y),
    lambda x, y: x ** (0.1 * y),
    fnp.hypot,
    fnp.maximum,
    lambda x, y: x * y[..., :1],
    lambda x, y: x[..., :1, :] * y if x.ndim > 1 else x * y,
    lambda x, y: x * y.mean(),
]

STEPS = st.lists(
    st.tuples(
        st.integers(0, len(UNARY) + len(BINARY) - 1),
        st.integers(0, 6),
        st.integers(0, 6),
        st.sampled_from(["let go", "hold", "hold a view", "hold an array", "hold a buffer"]),
    ),
    min_size=1,
    max_size=9,
)


def run(steps: Any, x: Any, held: Values) -> Any:
    """A program; what it holds of concrete values goes to a list, with a copy of its numbers."""
    values: Values = [x, fg.tensor(numbers(*x.shape, dtype=x.dtype, seed=1))]
    for number, first, second, use in steps:
        a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
        value = UNARY[number](a) if number < len(UNARY) else BINARY[number - len(UNARY)](a, b)
        values = [*values[-3:], value]  # the older ones may go
        seen = fg.stop_gradient(value)
        if use == "hold":
            held.append((value, seen, np.array(seen)))
        elif use == "hold a view":
            held.append((None, seen[..., 1:], np.array(seen)[..., 1:]))
        elif use == "hold an array":
            held.append((None, np.asarray(seen)[..., ::2], np.array(seen)[..., ::2]))
        elif use == "hold a buffer":
            buffer: Any = np.asarray(seen)
            held.append((None, memoryview(buffer), np.array(seen)))
    return fnp.sum(values[-1] * values[0])


def outcome(steps: Any, x: Any) -> list[Any]:
    """Value and gradient twice over, and a pullback called twice; nothing held has changed."""
    held: Values = []
    both = fg.value_and_grad(lambda x: run(steps, x, held))
    results: list[Any] = []
    for _ in range(2):
        value, gradient = both(x)
        results += [value, gradient]
    value, pullback = fg.vjp(lambda x: fnp.sin(x) * run(steps, x, held), x)
    ct = fg.tensor(numbers(*x.shape, dtype=x.dtype, seed=2))
    results += [value, *pullback(ct), *pullback(ct)]
    _, push = fg.linearize(lambda x: run(steps, x, held), x)
    results += [push(ct), fg.jvp(both, (x,), (ct,))[1][1]]
    copies = [np.array(result) for result in results]
    results += [both(x)[0], pullback(ct)[0]]
    for result, copy in zip(results, copies, strict=False):
        assert_array_equal(result, copy)
    for _, seen, copy in held:
        assert_array_equal(np.asarray(seen), copy)
    return [np.asarray(result) for result in results]


def assert_alike(steps: Any, x: Any) -> None:
    with limit(sys.maxsize):
        expected = outcome(steps, x)
    with limit(256):
        found = outcome(steps, x)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert_array_equal(one, other)


SHAPES = st.sampled_from([(100,), (7, 40), (2, 3, 20), (1, 90), (90, 1)])
DTYPES = st.sampled_from([np.float64, np.float32])


@hypothesis.given(STEPS, SHAPES, DTYPES)
@hypothesis.settings(max_examples=50, deadline=None)
def test_programs_give_the_same_bits(steps: Any, shape: tuple[int, ...], dtype: Any) -> None:
    assert_alike(steps, fg.tensor(numbers(*shape, dtype=dtype)))


@together("number", range(len(UNARY) + len(BINARY)))
@together("use", ["let go", "hold", "hold a buffer"])
def test_every_step_gives_the_same_bits(number: int, use: str) -> None:
    steps = [(0, 0, 0, use), (number, 0, 1, use), (number, 1, 0, use), (2, 0, 0, use)]
    assert_alike(steps, fg.tensor(numbers(7, 40)))


@together("shape", [(3, 200), (200, 3)])
def test_products_with_rows_and_columns_add_up_block_by_block(shape: tuple[int, int]) -> None:
    """The third product adds in place, and a block that came twice would count twice."""
    rows, columns = numbers(3, 1, shape[1]), numbers(3, shape[0], 1, seed=1)
    x = fg.tensor(numbers(*shape, seed=2))

    def f(x: Any) -> Any:
        return sum([fnp.sum(x * factor) for factor in (*rows, *columns)])

    with limit(256):
        gradient = fg.grad(f)(x)
    assert_allclose(gradient, rows.sum(0) + columns.sum(0))


# Every operation.

# Their derivatives are integrals and series, which go on until all numbers are near enough.
IN_STEPS = frozenset(["gammainc", "gammaincc", "gammainc_in_shape", "sph_harm_y"])

ELEMENTWISE = representatives(
    case
    for case in every_case(every_primitive())
    if case.primitive.form in ("elementwise", "selecting", "reducing") and case.differentiable
)


@pytest.mark.slow
@by_primitive(ELEMENTWISE)
def test_every_operation_gives_the_same_bits(cases: list[Any]) -> None:
    at_all(cases, assert_same_bits)


def assert_same_bits(case: Any) -> None:
    def pulled() -> list[Any]:
        def f(*varied: Any) -> Any:
            args = list(case.args)
            for k, x in zip(case.differentiable, varied, strict=True):
                args[k] = x
            return case.primitive(*args, **case.sample.params)

        out, pullback = fg.vjp(f, *[case.args[k] for k in case.differentiable])
        cts = numbers(*out.shape).astype(out.dtype), np.ones(out.shape, out.dtype)
        return [np.asarray(x) for x in (out, *pullback(cts[0]), *pullback(cts[1]))]

    with np.errstate(all="ignore"):
        with limit(sys.maxsize):
            expected = pulled()
        with limit(9):  # bytes: of two elements
            found = pulled()
    # Complex products of one number and of many may round differently in NumPy.
    is_complex = any(np.iscomplexobj(x) for x in (*found, *case.args))
    rounding = 1e-14 if is_complex or case.primitive.name in IN_STEPS else 0
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert_allclose(one, other, rtol=rounding, atol=0)


# Memory.


def loss(x: Any) -> Any:
    return fnp.sum(fnp.sin(x) * fnp.exp(-(x**2)) + fnp.tanh(x) * x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_peak_of_memory(dtype: Any) -> None:
    x = fg.tensor(numbers(40 * LARGE // 8, dtype=dtype))
    # The sine, the exponential, the hyperbolic tangent, two products and their sum; blocks.
    assert peak(lambda: fg.value_and_grad(loss)(x)) < 6.5 * x.nbytes


def test_after_a_call_large_arrays_are_let_go() -> None:
    x = fg.tensor(numbers(2**21))
    gradient = fg.grad(loss)

    def fails(x: Any) -> Any:
        raise RuntimeError(str(loss(x).shape))

    failing = fg.grad(fails)
    gc.collect()
    tracemalloc.start()
    try:
        gradient(x)
        with pytest.raises(RuntimeError):
            failing(x)
        left = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert left < x.nbytes


def test_what_no_factor_reads_is_not_kept() -> None:
    x, constant = (fg.tensor(numbers(8, 2**17 + 8, seed=k)) for k in (0, 3))
    chains: list[tuple[int, Callable[[Any], Any]]] = [
        (0, lambda x: fnp.sum(-x + 1)),
        (0, lambda x: fnp.mean(x + 1)),
        (0, lambda x: fnp.sum(fnp.sum(x + 1, axis=1))),
        (0, lambda x: fnp.sum(fnp.sin(x))),
        (0, lambda x: fnp.sum((x + 1) * constant)),
        (1, lambda x: fnp.sum(fnp.exp(x) * 2)),
        (1, lambda x: fnp.sum(fnp.cos(fnp.sin(x)))),
        (1, lambda x: fnp.sum(fnp.exp(x) * constant)),
        (2, lambda x: fnp.sum(1 / (1 + x))),
        (3, lambda x: fnp.sum(fnp.sin(x) * fnp.exp(-(x**2)) + fnp.tanh(x) * x)),
    ]
    for count, f in chains:
        gc.collect()
        tracemalloc.start()
        try:
            _, pullback = fg.vjp(f, x)
            held = tracemalloc.get_traced_memory()[0] / x.nbytes
        finally:
            tracemalloc.stop()
        assert round(held, 1) == count
        assert pullback(1.0)[0].shape == x.shape


# Threads, and what is held in odd places.


def test_threads_that_share_a_function() -> None:
    n = LARGE // 8
    gradient = fg.grad(loss)
    points = [fg.tensor(numbers(n, seed=seed)) for seed in range(4)]
    expected = [np.array(fg.grad(loss)(x)) for x in points]
    wrong: list[int] = []

    def work(k: int) -> None:
        last: Any = None
        for _ in range(12):
            found = gradient(points[k])
            for result in (found, last):  # the one before has not changed meanwhile
                if result is not None and not np.array_equal(result, expected[k]):
                    wrong.append(k)
            last = found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        in_threads(work, 4)
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_values_held_by_an_exception_a_generator_and_a_finalizer_stay() -> None:
    x = fg.tensor(numbers(LARGE // 8))
    expected = np.sin(np.asarray(x)) * 2

    class Kept:
        def __init__(self, value: Any) -> None:
            self.value = value

    found: Values = []

    def f(x: Any) -> Any:
        held = fg.stop_gradient(fnp.sin(x) * 2)
        found.append(value for value in [held])
        found.append(Kept(held))
        found.append(functools.partial(lambda value: value, held))
        if len(found) == 3:
            raise ValueError(held)
        return loss(x)

    gradient = fg.grad(f)
    with pytest.raises(ValueError, match="1") as caught:
        gradient(x)
    for _ in range(3):
        gradient(x)
    assert_array_equal(caught.value.args[0], expected)
    for generator, kept, call in zip(found[::3], found[1::3], found[2::3], strict=True):
        for value in (next(generator), kept.value, call()):
            assert_array_equal(value, expected)


def test_an_array_of_the_users_is_never_written_to() -> None:
    array = numbers(LARGE // 8)
    copy = array.copy()
    gradient = fg.grad(lambda x: loss(x * array + array))
    first = np.array(gradient(array))
    assert_array_equal(array, copy)
    assert_array_equal(gradient(array), first)
    array *= 2
    assert not np.array_equal(gradient(copy), first)

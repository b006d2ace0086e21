"""Many threads at once: every value is exact, since no mutable state is shared."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import EscapedTracerError
from tests.in_threads import in_threads

THREADS = 8
CALLS = 40


@pytest.fixture(autouse=True)
def _eager_switching() -> Iterator[None]:
    """Let threads interrupt each other as often as Python can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def f(x):
    y = fnp.sin(x) * x + fnp.where(x > 0, fnp.sqrt(x), 0.0)
    return fnp.sum(y[1:] * y[:-1]) + fnp.max(x @ x)


@fg.custom_vjp
def cube(x):
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, ct: (ct * 3 * x**2,))


@fg.custom_jvp
def tripled(x):
    return x * 3


tripled.defjvp(lambda primals, tangents: (primals[0] * 3, tangents[0] * 3))


def wave(x):
    return fnp.sin(x) * x


ONE = np.ones(5)

TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "evaluate": f,
    "grad": fg.grad(f),
    "value_and_grad": lambda x: fg.value_and_grad(f)(x)[1],
    "vjp": lambda x: fg.vjp(f, x)[1](2.0)[0],
    "jvp": lambda x: fg.jvp(f, (x,), (ONE,))[1],
    "linearize": lambda x: fg.linearize(f, x)[1](ONE),
    "linear_transpose": lambda x: fg.linear_transpose(lambda y: fnp.sum(y * x), x)(1.0)[0],
    "vmap": fg.vmap(wave),
    "vmap of grad": fg.vmap(fg.grad(wave)),
    "grad of vmap": fg.grad(lambda x: fnp.sum(fg.vmap(wave)(x))),
    "hessian": fg.hessian(f),
    "hvp": lambda x: fg.hvp(f, (x,), (ONE,)),
    "jacrev": fg.jacrev(lambda x: x * fnp.sum(x)),
    "jacfwd": fg.jacfwd(lambda x: x * fnp.sum(x)),
    "checkpoint": fg.grad(fg.checkpoint(f)),
    "grad of grad": fg.grad(lambda x: fnp.sum(fg.grad(f)(x))),
    "custom_vjp": fg.grad(lambda x: fnp.sum(cube(x) * x)),
    "custom_jvp": fg.grad(lambda x: fnp.sum(tripled(x) * x)),
    "probe": lambda x: fg.grad(lambda x: fnp.sum(fg.probe(x * x, "p") ** 2), probes=("p",))(x)[1][
        "p"
    ],
    "stop_gradient": fg.grad(lambda x: fnp.sum(fg.stop_gradient(x) * x)),
}


def points(number: int) -> np.ndarray:
    return np.random.default_rng(number).uniform(0.1, 2.0, (CALLS, 5))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRANSFORMED)
def test_one_function_object_in_every_thread(name: str) -> None:
    transformed = TRANSFORMED[name]
    expected = [[np.asarray(transformed(x)) for x in points(k)] for k in range(THREADS)]
    found = in_threads(lambda k: [np.asarray(transformed(x)) for x in points(k)])
    assert_array_equal(found, expected)


def test_all_transformations_at_once() -> None:
    functions = list(TRANSFORMED.values())
    x = points(0)[0]
    expected = [np.asarray(g(x)) for g in functions]

    def work(number: int) -> None:
        order = np.random.default_rng(number).permutation(len(functions) * 15) % len(functions)
        for k in order:
            assert_array_equal(functions[k](x), expected[k])

    in_threads(work)


# ---------------------------------------------------------------------------------- shared results


def test_one_pullback_in_every_thread() -> None:
    x = np.random.default_rng(0).uniform(0.1, 2.0, 3000)
    _, pullback = fg.vjp(lambda x: fnp.sin(x) * x + x + x + x[::-1], x)
    cts = np.random.default_rng(1).uniform(size=(THREADS, 3000))
    expected = [np.asarray(pullback(ct)[0]) for ct in cts]
    found = in_threads(lambda k: [np.asarray(pullback(cts[k])[0]) for _ in range(CALLS)])
    for own, once in zip(found, expected, strict=True):
        assert_array_equal(own, [once] * CALLS)


def test_one_checkpointed_pullback_in_every_thread() -> None:
    x = points(0)[0]
    _, pullback = fg.vjp(fg.checkpoint(wave), x)
    (expected,) = pullback(ONE)
    for found in in_threads(lambda k: [pullback(ONE * 2**k)[0] / 2**k for _ in range(CALLS)]):
        assert_array_equal(fnp.stack(found), [np.asarray(expected)] * CALLS)


def test_one_linearization_in_every_thread() -> None:
    x = points(0)[0]
    _, push = fg.linearize(f, x)
    expected = push(ONE)
    for found in in_threads(lambda k: [push(ONE * 2**k) / 2**k for _ in range(CALLS)]):
        assert_array_equal(fnp.stack(found), [float(expected)] * CALLS)


def test_derivatives_of_one_pullback_in_every_thread() -> None:
    _, pullback = fg.vjp(lambda x: x**3, 2.0)

    def pulled(ct):
        return pullback(ct)[0]

    def work(_: int) -> Any:
        return [(fg.grad(pulled)(1.0), fg.vmap(pulled)(ONE)) for _ in range(CALLS)]

    for results in in_threads(work):
        for slope, batch in results:
            assert_array_equal(slope, 12.0)
            assert_array_equal(batch, 12.0 * ONE)


# ---------------------------------------------------------------------------------- one trace


def term(x, k):
    for _ in range(20):
        x = fnp.sin(x) * (1 + k / 10) + x
    return fnp.sum(x)


def threaded(x):
    return sum(in_threads(lambda k: term(x * (k + 1), k)))


def alone(x):
    return sum(term(x * (k + 1), k) for k in range(THREADS))


def reverse(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return fg.grad(f)


MODES: dict[str, Callable[..., Callable[[Any], Any]]] = {
    "reverse": reverse,
    "forward": lambda f: lambda x: fg.jvp(f, (x,), (ONE,))[1],
    "linearize": lambda f: lambda x: fg.linearize(f, x)[1](ONE),
    "vmap": fg.vmap,
    "vmap of grad": lambda f: lambda x: fg.vmap(reverse(f))(fnp.stack([x, x])),
    "forward over reverse": lambda f: lambda x: fg.jvp(reverse(f), (x,), (ONE,))[1],
    "reverse over reverse": lambda f: fg.grad(lambda x: fnp.sum(reverse(f)(x))),
}


@pytest.mark.parametrize("mode", MODES)
def test_one_trace_in_many_threads(mode: str) -> None:
    transform = MODES[mode]
    x = points(0)[0]
    expected = np.asarray(transform(alone)(x))
    for _ in range(5):
        # The order in which threads add to the record decides how sums are rounded.
        found = np.asarray(transform(threaded)(x))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_integers_make_the_order_of_a_record_invisible() -> None:
    def g(x):
        def work(k):
            y = x
            for _ in range(50):
                y = y + (k + 1)
            return y * x

        return fnp.sum(sum(in_threads(work)))

    x = np.arange(5.0)
    expected = sum(2 * x + 50 * (k + 1) for k in range(THREADS))
    for _ in range(10):
        assert_array_equal(fg.grad(g)(x), expected)


# ---------------------------------------------------------------------------------- contexts


def test_transformations_of_one_thread_are_not_seen_by_another() -> None:
    inside, done = threading.Event(), threading.Event()
    seen = []

    def slow(x):
        inside.set()
        assert done.wait(60)
        return x * x

    def other() -> None:
        assert inside.wait(60)
        seen.append(fg.grad(lambda y: y**3)(2.0))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert_array_equal(fg.grad(slow)(3.0), 6.0)
    thread.join()
    assert_array_equal(seen[0], 12.0)


def test_levels_that_end_in_another_order_than_they_began() -> None:
    # Two transformations in two threads, the first to begin is the first to end.
    first_inside, second_inside, first_done = (threading.Event() for _ in range(3))

    def first(x):
        first_inside.set()
        assert second_inside.wait(60)
        return x * x

    def second(x):
        second_inside.set()
        assert first_done.wait(60)
        return x * fg.grad(lambda y: x * y)(1.0)

    def run_first() -> Any:
        result = fg.grad(first)(3.0)
        first_done.set()
        return result

    def run_second() -> Any:
        assert first_inside.wait(60)
        return fg.grad(second)(4.0)

    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(run_first), pool.submit(run_second)]
        assert [float(result.result()) for result in results] == [6.0, 8.0]


def test_a_copied_context_in_every_thread() -> None:
    def g(x):
        contexts = [contextvars.copy_context() for _ in range(THREADS)]

        def work(k):
            return contexts[k].run(lambda: fg.grad(lambda y: x * y * y)(k + 1.0))

        return sum(in_threads(work))

    assert_array_equal(fg.grad(g)(1.0), sum(2.0 * (k + 1) for k in range(THREADS)))


def test_a_tracer_that_outlives_its_transformation_in_a_thread_is_refused() -> None:
    go = threading.Event()
    raised = []

    def late(x) -> None:
        go.wait(60)
        with pytest.raises(EscapedTracerError):
            x * x
        raised.append(True)

    threads = []

    def g(x):
        threads.append(threading.Thread(target=late, args=(x,)))
        threads[-1].start()
        return x * x

    fg.grad(g)(1.0)
    fg.jvp(g, (1.0,), (1.0,))
    fg.vmap(g)(ONE)
    go.set()
    for thread in threads:
        thread.join()
    assert raised == [True] * 3


def test_errors_in_one_thread_leave_the_others_alone() -> None:
    def work(number: int) -> Any:
        for _ in range(CALLS):
            if number % 2:
                with pytest.raises(ZeroDivisionError):
                    fg.grad(lambda x: x * (1 // 0))(1.0)
            else:
                assert_array_equal(fg.grad(lambda x: x * fg.grad(lambda y: x * y)(1.0))(3.0), 6.0)
        return True

    assert in_threads(work) == [True] * THREADS


def test_warning_filters_of_numpy_are_each_thread_s_own() -> None:
    def work(number: int) -> Any:
        for _ in range(CALLS):
            if number % 2:
                with np.errstate(all="raise"), pytest.raises(FloatingPointError):
                    fg.grad(lambda x: 1 / x)(np.float64(0.0))
            else:
                fg.grad(lambda x: 1 / x)(np.float64(0.0))
        return True

    assert in_threads(work) == [True] * THREADS

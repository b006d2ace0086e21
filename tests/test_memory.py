"""The memory that funcgrad holds, and for how long: with the garbage collector off.

A primitive of this file's own makes the arrays whose lives are followed, by weak references.
"""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.elementwise import elementwise
from funcgrad._transforms.forward import Pusher
from funcgrad.tensor.tensor import apply

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_collector")]


class Watched:
    """An operation x * x that remembers, weakly, every array that it made."""

    def __init__(self) -> None:
        self.calls = 0
        self.made: list[weakref.ref] = []
        self.primitive: Any = elementwise("watched", self.evaluate, partials=(lambda y, x: x + x,))

    def evaluate(self, x: Any) -> Any:
        result = np.asarray(x * x)
        self.calls += 1
        self.made.append(weakref.ref(result))
        return result

    def __call__(self, x: Any) -> fg.Tensor:
        return apply(self.primitive, x)

    @property
    def alive(self) -> int:
        return sum(array() is not None for array in self.made)


def chain(step: Callable[[Any], Any], length: int) -> Callable[[Any], Any]:
    def f(x):
        for _ in range(length):
            x = step(x)
        return fnp.sum(x)

    return f


def ones(size: int = 10) -> np.ndarray:
    return np.ones(size)


# ---------------------------------------------------------------------------------- freed at once


def test_a_dropped_pullback_frees_every_intermediate() -> None:
    watched = Watched()
    out, pullback = fg.vjp(chain(watched, 20), ones())
    assert watched.alive == 20
    pullback(1.0)
    assert watched.alive == 20
    del pullback
    assert watched.alive == 0
    assert_array_equal(out, 10.0)


@pytest.mark.parametrize(
    "run",
    [
        lambda f, x: fg.grad(f)(x),
        lambda f, x: fg.value_and_grad(f)(x),
        lambda f, x: fg.vjp(f, x)[1](1.0),
        lambda f, x: fg.jvp(f, (x,), (x,)),
        lambda f, x: fg.linearize(f, x)[1](x),
        lambda f, x: fg.vmap(f)(x[None]),
        lambda f, x: fg.grad(fg.checkpoint(f))(x),
        lambda f, x: fg.grad(lambda x: fnp.sum(fg.grad(f)(x)))(x),
        lambda f, x: fg.jvp(fg.grad(f), (x,), (x,)),
        lambda f, x: fg.vmap(fg.grad(f))(x[None]),
        lambda f, x: fg.hvp(f, (x,), (x,)),
        lambda f, x: fg.hessian(f)(x),
        lambda f, x: fg.jacrev(f)(x),
        lambda f, x: fg.linear_transpose(lambda y: fnp.sum(f(x) * y), x)(1.0),
    ],
)
def test_a_transformation_leaves_nothing_behind(run: Callable[..., Any]) -> None:
    watched = Watched()
    run(chain(watched, 5), ones())
    assert watched.calls >= 5
    assert watched.alive == 0


def test_a_gradient_with_aux_holds_what_it_hands_out_only() -> None:
    watched = Watched()

    def f(x):
        y = watched(watched(x))
        return fnp.sum(watched(y)), y

    gradient, aux = fg.grad(f, has_aux=True)(ones())
    assert watched.alive == 1
    del aux
    assert watched.alive == 0
    assert_array_equal(gradient, np.full(10, 8.0))


def test_forward_mode_holds_no_more_than_the_last_values() -> None:
    watched = Watched()
    seen = []

    def step(x):
        seen.append(watched.alive)
        return watched(x)

    fg.jvp(chain(step, 20), (ones(),), (ones(),))
    assert max(seen) <= 2


def test_a_linearization_frees_its_intermediates() -> None:
    watched = Watched()
    _, push = fg.linearize(chain(watched, 5), ones())
    push(ones())
    assert watched.alive > 0
    del push
    assert watched.alive == 0


def test_an_exception_frees_its_intermediates() -> None:
    watched = Watched()

    def f(x):
        x = watched(watched(x))
        raise ValueError("expected")

    for transformed in (
        fg.grad(f),
        fg.vmap(f),
        fg.grad(fg.checkpoint(f)),
        fg.grad(fg.grad(f)),
        lambda x: fg.vjp(f, x),
        lambda x: fg.jvp(f, (x,), (x,)),
        lambda x: fg.linearize(f, x),
    ):
        with pytest.raises(ValueError, match="expected"):
            transformed(ones())
        assert watched.alive == 0
    assert watched.calls == 14


# ---------------------------------------------------------------------------------- no cycles


def own_garbage() -> list[Any]:
    """Objects of the package that only the garbage collector can free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        found = [
            thing
            for thing in gc.garbage
            if type(thing).__module__.startswith("funcgrad")
            or getattr(thing, "__module__", "").startswith("funcgrad")
            or isinstance(thing, np.ndarray)
        ]
        return [f"{type(thing)}: {thing!r:.200}" for thing in found]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def test_cycles_would_be_seen() -> None:
    pusher = Pusher(1)
    holder = [pusher.dual(np.ones(3), np.ones(3))]
    holder.append(holder)
    del holder, pusher
    assert len(own_garbage()) == 3  # the trace, the tape that it has, and the value


def failing(x):
    raise ValueError("expected")


@pytest.mark.parametrize(
    "run",
    [
        lambda x: fg.grad(lambda x: fnp.sum(fnp.sin(x) * x))(x),
        lambda x: fg.vjp(lambda x: x * x, x)[1](x),
        lambda x: fg.vjp(lambda x: (x, {"a": x}), x)[1]((x, {"a": x})),
        lambda x: fg.jvp(lambda x: x * x, (x,), (x,)),
        lambda x: fg.linearize(lambda x: x * x, x)[1](x),
        lambda x: fg.linear_transpose(lambda x: x * 2, x)(x),
        lambda x: fg.vmap(lambda x: x * x)(x),
        lambda x: fg.vmap(fg.grad(lambda x: x * x))(x),
        lambda x: fg.jacrev(lambda x: x * x)(x),
        lambda x: fg.jacfwd(lambda x: x * x)(x),
        lambda x: fg.hessian(lambda x: fnp.sum(x * x))(x),
        lambda x: fg.grad(fg.checkpoint(lambda x: fnp.sum(x * x)))(x),
        lambda x: fg.jvp(fg.checkpoint(steps(2)), (x,), (x,)),
        lambda x: fg.vmap(fg.grad(fg.checkpoint(lambda x: x * x)))(x),
        lambda x: fg.grad(lambda x: fnp.sum(fnp.where(x > 0, fnp.sort(x)[1:][0], 0.0)))(x),
        lambda x: fg.grad(lambda x: fnp.sum(fg.probe(x, "p") ** 2), probes=("p",))(x),
        lambda x: fg.grad(lambda x: fnp.sum(fg.stop_gradient(x) * x))(x),
        lambda x: np.asarray(fg.tensor(x)),
    ],
)
def test_no_cycles(run: Callable[..., Any]) -> None:
    x = np.array([1.0, 2.0, 3.0])
    run(x)  # what is imported or cached at first use
    gc.collect()
    run(x)
    assert own_garbage() == []


@pytest.mark.parametrize(
    "run",
    [
        lambda x: fg.grad(failing)(x),
        lambda x: fg.vjp(failing, x),
        lambda x: fg.jvp(failing, (x,), (x,)),
        lambda x: fg.vmap(failing)(x),
        lambda x: fg.grad(fg.checkpoint(failing))(x),
        lambda x: fg.grad(lambda x: x)(x),
        lambda x: fg.grad(lambda x: float(x[0]))(x),
        lambda x: fg.tensor(x) @ fg.tensor(np.ones(7)),
        lambda x: fnp.sum(fg.tensor(x), axis=5),
        lambda x: fg.vmap(lambda x: bool(x), branches=False)(x),
    ],
)
def test_no_cycles_after_errors(run: Callable[..., Any]) -> None:
    def attempt():
        try:
            run(np.array([1.0, 2.0, 3.0]))
        except (ValueError, TypeError):
            return
        raise AssertionError("expected an error")

    attempt()
    gc.collect()
    attempt()
    assert own_garbage() == []


# ---------------------------------------------------------------------------------- length


def test_a_hundred_thousand_operations() -> None:
    length = 100_000

    def f(x):
        for _ in range(length // 2):
            x = x * 1.00001
            x = x + 1e-6
        return x

    _, pullback = fg.vjp(f, 1.0)
    assert_allclose(pullback(1.0)[0], 1.00001 ** (length // 2))
    del pullback  # which frees the record, without recursion either
    assert_allclose(fg.jvp(f, (1.0,), (1.0,))[1], 1.00001 ** (length // 2))


def test_a_million_operations() -> None:
    def f(x):
        for _ in range(1_000_000):
            x = x + 1e-9
        return x

    assert_array_equal(fg.grad(f)(1.0), 1.0)


def test_a_long_chain_of_every_kind() -> None:
    def f(x):
        for _ in range(5_000):
            x = fnp.where(x > 0, x, -x)[::-1]
            x = fnp.sum(x.reshape(2, 2), axis=1)[np.array([0, 1, 0, 1])] * 0.5
        return fnp.sum(x)

    gradient = fg.grad(f)(np.array([0.1, 0.2, 0.3, 0.4]))
    assert np.all(np.isfinite(np.asarray(gradient)))
    assert_allclose(gradient, fg.grad(fg.checkpoint(f))(np.array([0.1, 0.2, 0.3, 0.4])))


def test_second_derivatives_of_a_long_chain() -> None:
    def f(x):
        for _ in range(10_000):
            x = x * 1.0001
        return x * x

    expected = 2 * 1.0001**20_000
    assert_allclose(fg.grad(fg.grad(f))(1.0), expected)
    assert_allclose(fg.jvp(fg.grad(f), (1.0,), (1.0,))[1], expected)


def test_many_levels() -> None:
    f: Callable[[Any], Any] = fnp.exp
    for _ in range(7):
        f = fg.grad(f)
    assert_allclose(f(0.5), np.exp(0.5))
    g: Callable[[Any], Any] = fnp.sum
    for _ in range(20):
        g = fg.checkpoint(g)
    assert_array_equal(fg.grad(g)(np.ones(2)), np.ones(2))
    h: Callable[[Any], Any] = fnp.sin
    for _ in range(30):
        h = fg.vmap(h)
    assert h(np.ones((1,) * 30)).shape == (1,) * 30


# ---------------------------------------------------------------------------------- peaks


def peak(work: Callable[[], Any]) -> int:
    """The greatest number of bytes that work needs in addition to those before it.

    The least of several times, since the test runner's own thread allocates too.
    """
    work()
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            work()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
    return min(peaks)


SIZE = 20_000
BYTES = 8 * SIZE


def steps(length: int) -> Callable[[Any], Any]:
    return chain(lambda x: fnp.sin(x) * 1.01, length)


def test_forward_mode_needs_constant_memory() -> None:
    x = ones(SIZE)
    short = peak(lambda: fg.jvp(steps(3), (x,), (x,)))
    assert peak(lambda: fg.jvp(steps(60), (x,), (x,))) < short + BYTES / 2


def test_evaluation_needs_constant_memory() -> None:
    x = fg.tensor(ones(SIZE))
    assert peak(lambda: steps(60)(x)) < 5 * BYTES


def test_reverse_mode_needs_memory_for_the_record_and_little_more() -> None:
    x = ones(SIZE)
    assert peak(lambda: fg.grad(steps(60))(x)) < (2 * 60 + 10) * BYTES


def test_checkpoints_need_less_memory_and_run_again() -> None:
    x = ones(SIZE)
    watched = Watched()
    inner = chain(watched, 10)

    def piece(x):
        return x + 0.0 * inner(x)

    plain, remembered = chain(piece, 8), chain(fg.checkpoint(piece), 8)
    assert peak(lambda: fg.grad(remembered)(x)) < 0.45 * peak(lambda: fg.grad(plain)(x))

    watched.calls = 0
    expected = fg.grad(plain)(x)
    assert watched.calls == 80
    found = fg.grad(remembered)(x)
    assert watched.calls == 80 + 160
    assert_allclose(found, expected)


def test_a_checkpointed_record_holds_the_arguments_only() -> None:
    watched = Watched()
    _, pullback = fg.vjp(fg.checkpoint(chain(watched, 10)), ones())
    assert watched.alive == 0
    pullback(1.0)
    assert watched.alive == 0
    assert watched.calls == 20


def growth(work: Callable[[], Any]) -> int:
    """The bytes that two hundred calls leave behind: at least 50 for each, if any is left.

    Python keeps freed tuples and the like for later; a collection empties these stores. The test
    runner's own thread allocates too. A leak would show in every round, so the least of several
    rounds counts.
    """
    work()
    tracemalloc.start()
    try:
        work()
        rounds = []
        for _ in range(5):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(200):
                work()
            gc.collect()
            rounds.append(tracemalloc.get_traced_memory()[0] - before)
        return min(rounds)
    finally:
        tracemalloc.stop()


def test_a_pullback_called_often_does_not_grow() -> None:
    _, pullback = fg.vjp(lambda x: fnp.sum(fnp.sin(x)[1:] * x[:-1]), ones(100))
    assert growth(lambda: pullback(1.0)) < 8000
    _, push = fg.linearize(lambda x: fnp.sum(fnp.sin(x)[1:] * x[:-1]), ones(100))
    assert growth(lambda: push(ones(100))) < 8000


@pytest.mark.parametrize(
    "run",
    [
        lambda x: fg.grad(steps(3))(x),
        lambda x: fg.jvp(steps(3), (x,), (x,)),
        lambda x: fg.vmap(fg.grad(lambda x: x * x))(x),
        lambda x: fg.grad(fg.checkpoint(steps(3)))(x),
        lambda x: steps(3)(fg.tensor(x)),
    ],
)
def test_a_transformation_called_often_does_not_grow(run: Callable[..., Any]) -> None:
    x = ones(100)
    assert growth(lambda: run(x)) < 8000


def test_gradients_of_many_slices_need_one_buffer() -> None:
    x = ones(SIZE)

    def f(x):
        return sum(fnp.sum(x[k : k + 10]) for k in range(200))

    assert peak(lambda: fg.grad(f)(x)) < 10 * BYTES


def test_views_hold_no_copies() -> None:
    x = fg.tensor(ones(SIZE))
    assert peak(lambda: [x[k:].reshape(-1, 1).T for k in range(50)]) < BYTES

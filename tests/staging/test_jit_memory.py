"""The memory that a jitted function keeps, and for how long: with the garbage collector off."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends import choice
from tests.in_threads import in_threads
from tests.scripts import printed

pytestmark = pytest.mark.usefixtures("without_collector")

SIZE = 20_000
BYTES = 8 * SIZE


@pytest.fixture(autouse=True)
def _code_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread compiles better code while memory is measured."""
    if choice.DEFAULT == "native" and find_spec("llvmlite") is not None:
        monkeypatch.setattr("funcgrad._backends.native.native_code._PATIENCE", 0)


def assert_nothing_left(
    work: Callable[[], Any], calls: int, least: int = 2000, programs: int = 0
) -> None:
    """Check that a number of calls leaves no memory behind, and no cycles.

    Where the default backend writes machine code, llvmlite leaves a pointer and a dict in a cycle
    for each of so many ``programs`` that the calls compile.

    A leak would show in every round, so one round of several that leaves nothing is
    enough: the test runner's own threads allocate too. Python keeps freed tuples and the like for
    later; a collection empties these stores, and returns the number of objects in cycles.
    """
    permitted = 2 * programs if choice.DEFAULT == "native" else 0
    for _ in range(calls // 4 + 1):
        work()
    tracemalloc.start()
    try:
        found = []
        for _ in range(8):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(calls):
                work()
            cycles = gc.collect()
            left = tracemalloc.get_traced_memory()[0] - before
            if left < least and cycles <= permitted:
                return
            found.append(f"{left} bytes, {cycles} objects in cycles")
    finally:
        tracemalloc.stop()
    raise AssertionError(f"{calls} calls left behind: {found}")


def test_what_is_left_would_be_seen() -> None:
    kept: list[Any] = []
    with pytest.raises(AssertionError, match="bytes"):
        assert_nothing_left(lambda: kept.append(bytearray(64)), calls=1000)

    def cycle() -> None:
        own: list[Any] = []
        own.append(own)

    with pytest.raises(AssertionError, match="10 objects"):
        assert_nothing_left(cycle, calls=10)


# -------------------------------------------------------------------------- called again and again

VECTOR = fg.tensor(np.linspace(0.1, 1.0, 100))
TREE = {"w": VECTOR, "b": fg.tensor(0.5)}


def loss(tree: Any) -> Any:
    return fnp.sum(fnp.tanh(tree["w"] * 2.0 + tree["b"]))


CALLED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "array": (lambda x: fnp.sin(x) * x, (VECTOR,)),
    "array of the caller's": (lambda x: fnp.sin(x) * x, (np.ones(100),)),
    "number": (lambda x: x * x + 1.0, (0.5,)),
    "scalar": (lambda x: fnp.sum(x * x), (VECTOR,)),
    "dict": (fg.value_and_grad(loss), (TREE,)),
    "view": (lambda x: x[1:], (VECTOR,)),
    "nothing": (lambda x: None, (VECTOR,)),
    "the argument": (lambda x: (x, x), (VECTOR,)),
}


@pytest.mark.parametrize("name", CALLED)
def test_calls_leave_nothing_behind(name: str) -> None:
    f, args = CALLED[name]
    staged = fg.jit(f)
    assert_nothing_left(lambda: staged(*args), calls=1000)


def test_ten_thousand_calls_leave_nothing_behind() -> None:
    staged = fg.jit(fg.value_and_grad(loss))
    assert_nothing_left(lambda: staged(TREE), calls=10_000, least=10_000)


def test_results_hold_no_other_results() -> None:
    staged = fg.jit(lambda x: (x * 2.0, fnp.sum(x)))
    x = fg.tensor(np.ones(SIZE))
    sums = [staged(x)[1] for _ in range(10)]
    tracemalloc.start()
    try:
        sums += [staged(x)[1] for _ in range(50)]
        assert tracemalloc.get_traced_memory()[0] < BYTES / 2
    finally:
        tracemalloc.stop()
    assert_array_equal(sums, [float(SIZE)] * 60)


def test_signatures_that_alternate_leave_nothing_behind() -> None:
    staged = fg.jit(lambda x: fnp.sin(x) * 2.0)
    arguments = [fnp.ones(k) for k in range(20)] + [0.5, 1, True, np.float32(2.0), 1j]

    def every_signature() -> None:
        for x in arguments:
            staged(x)

    assert_nothing_left(every_signature, calls=40, least=80)


def test_ways_that_alternate_leave_nothing_behind() -> None:
    staged = fg.jit(lambda x, way: x * 2.0 if way > 0 else x[:1] if way < 0 else x + 1.0)

    def every_way() -> None:
        for way in (1.0, 0.0, -1.0):
            staged(VECTOR, way)

    assert_nothing_left(every_way, calls=300, least=600)


def test_calls_that_fail_leave_nothing_behind() -> None:
    def f(x: Any) -> Any:
        return fnp.sin(x) + fnp.ones(3)

    staged = fg.jit(f)
    staged(fnp.ones(3))

    def fail() -> None:
        try:
            staged(fnp.ones(4))
        except fg.errors.ShapeError:
            return
        raise AssertionError("expected an error")

    assert_nothing_left(fail, calls=100)


@pytest.mark.slow
def test_more_signatures_than_are_kept_take_no_more_memory() -> None:
    staged = fg.jit(lambda x: x * 2.0)
    sizes = iter(range(1000, 10_000))

    def hundred_more() -> None:
        for _ in range(100):
            staged(np.ones(next(sizes)))

    # The first rounds fill what is kept, with several thousand bytes for each signature.
    assert_nothing_left(hundred_more, calls=1, least=50_000, programs=100)


# ------------------------------------------------------------------------------- dropped, and freed


class Token:
    """An object that a function can close over and that supports weak references."""

    def __init__(self) -> None:
        self.scale = 2.0


class Made:
    """A jitted function, and weak references to all that it closes over."""

    def __init__(self) -> None:
        token, table = Token(), np.ones(SIZE)

        def f(x: Any) -> Any:
            return x * table * token.scale if fnp.sum(x) > 0 else fnp.flip(x) + table

        self.staged = fg.jit(f)
        self._witnesses = [weakref.ref(each) for each in (f, token, table, self.staged)]

    @property
    def alive(self) -> list[bool]:
        """Whether the function, two closed-over objects and the jitted function are alive."""
        return [each() is not None for each in self._witnesses]


def test_what_a_dropped_function_held_is_free_at_once() -> None:
    made = Made()
    for x in (np.ones(SIZE), -np.ones(SIZE), 1.0, np.ones((1, 1))):
        made.staged(x)
    assert made.alive == [True] * 4
    del made.staged
    assert made.alive == [False] * 4


def test_what_a_dropped_function_derived_is_free_at_once() -> None:
    made = Made()
    total = fg.jit(lambda f, x: fnp.sum(f(x)), static_argnums=0)
    x = fnp.ones(SIZE)
    fg.grad(total, argnums=1)(made.staged, x)
    fg.jvp(made.staged, (x,), (x,))
    fg.vmap(lambda factor: made.staged(x) * factor)(fnp.ones(2))
    fg.jit(fg.grad(lambda x: fnp.sum(made.staged(x))))(x)
    del total, made.staged
    assert made.alive == [False] * 4


def test_a_result_outlives_the_function_that_made_it() -> None:
    made = Made()
    found = made.staged(-np.ones(SIZE))
    del made.staged
    assert made.alive == [False] * 4
    assert_array_equal(found, np.zeros(SIZE))


def test_a_function_that_failed_keeps_nothing() -> None:
    made = Made()
    for _ in range(2):
        with pytest.raises(fg.errors.ShapeError):
            made.staged(np.ones(3))
    del made.staged
    assert made.alive == [False] * 4


@pytest.mark.slow
def test_functions_that_are_made_and_dropped_leave_nothing_behind() -> None:
    x = fg.tensor(np.ones(100))

    def once() -> None:
        table = np.arange(100.0)
        staged = fg.jit(fg.grad(lambda x: fnp.sum(x * x * table) if x[0] > 0 else fnp.sum(x)))
        staged(x)
        staged(-x)

    assert_nothing_left(once, calls=50, least=10_000, programs=100)


# -------------------------------------------------------------------------------- in many threads


def test_many_threads_leave_nothing_behind() -> None:
    staged = fg.jit(lambda x, way: {"out": x * 2.0 if way > 0 else fnp.sin(x)})
    arguments = [(fnp.ones(size), way) for size in range(1, 5) for way in (1.0, -1.0)]

    def work(_: int) -> None:
        for _ in range(20):
            for x, way in arguments:
                staged(x, way)

    assert_nothing_left(lambda: in_threads(work), calls=3, least=5000)


def test_what_many_threads_staged_at_once_is_free_when_dropped() -> None:
    made = Made()
    found: list[Any] = []
    in_threads(lambda _: found.append([made.staged(np.full(SIZE, s)) for s in (1.0, -1.0)]))
    assert len(found) == 8
    for positive, negative in found:
        assert_array_equal(positive, np.full(SIZE, 2.0))
        assert_array_equal(negative, np.zeros(SIZE))
    del made.staged
    assert made.alive == [False] * 4


# --------------------------------------------------------------------------------- deep trees


def nested(kind: str, depth: int) -> Any:
    """A tree of containers, nested to a depth."""
    tree: Any = 1.0
    for _ in range(depth):
        tree = {"tuple": (tree,), "list": [tree, 2.0], "dict": {"a": tree, "b": 0.5}}[kind]
    return tree


def innermost(tree: Any) -> Any:
    while isinstance(tree, (tuple, list, dict)):
        tree = tree["a"] if isinstance(tree, dict) else tree[0]
    return tree


def doubled(tree: Any) -> Any:
    """Twice the innermost leaf, and a tree of the same depth."""
    return innermost(tree) * 2.0, tree


WAYS: dict[str, Callable[[Any], Any]] = {
    "jit": lambda tree: fg.jit(doubled)(tree),
    "program": lambda tree: fg.program(doubled)(tree),
    "grad": lambda tree: fg.grad(lambda tree: doubled(tree)[0])(tree),
    "jit of grad": lambda tree: fg.jit(fg.grad(lambda tree: doubled(tree)[0]))(tree),
    "vmap": lambda tree: fg.vmap(doubled, in_axes=None, axis_size=1, out_axes=None)(tree),
    "jvp": lambda tree: fg.jvp(doubled, (tree,), (tree,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tuple", "list", "dict"])
@pytest.mark.parametrize("way", WAYS)
def test_memory_is_linear_in_the_depth_of_a_tree(way: str, kind: str) -> None:
    def peak(tree: Any) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            WAYS[way](tree)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    WAYS[way](nested(kind, 3))
    found = []
    for _ in range(3):  # a thread that still compiles for earlier tests allocates, too
        found.append([peak(nested(kind, depth)) for depth in (100, 400)])
        low, high = [min(column) for column in zip(*found, strict=True)]
        if high < 6 * low:  # four times is linear, sixteen quadratic
            return
    raise AssertionError(found)


def test_names_of_deep_leaves_leave_out_the_middle() -> None:
    program = fg.program(innermost)(nested("tuple", 100))
    assert program.names == ("tree" + "[0]" * 8 + "..." + "[0]" * 10,)
    with pytest.raises(fg.errors.ShapeError, match=r"tree\[0\]\[0\].*\.\.\..*expected shape"):
        program(fg.tree.map(lambda _: np.ones(2), nested("tuple", 100)))


def test_the_first_function_of_a_process_leaves_nothing_large_behind() -> None:
    """After the compiler is loaded: 20 operations on megabytes, whose results are dropped."""
    text = """
import gc, tracemalloc
import numpy as np, funcgrad as fg, funcgrad.numpy as fnp
fg.jit(fnp.sin)(np.ones(2))  # loads what staging and compiling need
gc.collect(); gc.disable()

def work():
    def f(x):
        for _ in range(20):
            x = fnp.sin(x) * x
        return x
    jitted = fg.jit(f)
    jitted(np.ones(125_000)), jitted(np.ones(125_000))

tracemalloc.start()
work()
print(tracemalloc.get_traced_memory()[0])
"""
    done = printed(text)
    assert int(done) < 300_000, done

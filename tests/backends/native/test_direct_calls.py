"""Calls that machine code takes itself: the same results and errors as by Python's entries."""

from __future__ import annotations

import builtins
import gc
import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import cpython
from funcgrad._staging import jit as staging
from tests.together import together

pytest.importorskip("llvmlite")

X = fg.tensor([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def _best_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code is never improved, as if it were the best, and ``fg.debug`` was never used."""
    monkeypatch.setattr("funcgrad._backends.native.native_code._PATIENCE", 0)
    monkeypatch.setattr("funcgrad._hooks.result_watch.WATCHING.begun", False)


class NotTakenError(Exception):
    """Machine code has left a call to Python."""


def refuse(*_: Any, **__: Any) -> Any:
    raise NotTakenError


def native(f: Callable[..., Any], *args: Any) -> Any:
    """The jitted function, which has seen these arguments."""
    jitted = fg.jit(f, backend="native")
    for _ in range(2):
        jitted(*args)
    return jitted


@contextmanager
def only_tables(f: Any) -> Iterator[Any]:
    """The jitted function, which refuses what machine code does not take."""
    before = f._ways
    f._ways = (*before[:-1], refuse)
    try:
        yield f
    finally:
        f._ways = before


def taken(f: Any, *args: Any) -> Any:
    """The result of a call that machine code takes."""
    with only_tables(f):
        return f(*args)


def by_python(f: Any, *args: Any) -> Any:
    return f._ways[-1](f, *args)


def left(f: Any, *args: Any, **kwargs: Any) -> bool:
    """Whether a call is left to Python."""
    with only_tables(f), pytest.raises(NotTakenError):
        f(*args, **kwargs)
    return True


def assert_same(one: Any, other: Any) -> None:
    """Check trees of tensors: their structures, the types and the bits of their values."""
    assert fg.tree.structure(one) == fg.tree.structure(other)
    for a, b in zip(fg.tree.leaves(one), fg.tree.leaves(other), strict=True):
        assert type(a) is fg.Tensor
        assert type(a._value) is type(b._value)
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def pair(x: Any) -> Any:
    return x * x, x


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "tensor": (lambda x: x + 1.0, (X,)),
    "array": (pair, (np.ones((2, 3), np.float32),)),
    "number": (lambda x: x + 1, (fg.tensor(2.5),)),
    "NumPy's numbers": (
        lambda *v: [fg.tree.map(lambda x: x & x if x.dtype == bool else x + x, v)],
        (np.float32(1.5), np.int64(3), np.bool_(True), np.complex128(1j), np.int8(-1)),
    ),
    "Python's float": (lambda x: (x * x, x), (1.5,)),
    "Python's complex": (lambda x, y: x * y, (1.5j, X)),
    "tensor of Python's float": (lambda x: x + X, (fg.tensor(3.0),)),
    "tuple": (lambda t, x: ((t[0] * x, t[1][0]), t[1]), ((X, (2.0, X)), X)),
    "dict": (
        lambda t: {"z": [t["a"][0] * 2.0, t["a"][1]["é"]], "y": None},
        ({"b": X, "a": (X, {"é": np.ones(2)}, None, ())},),
    ),
    "none": (lambda n, x: (x, n), (None, X)),
    "no results": (lambda x: (), (X,)),
    "no arguments": (lambda: X * 2.0, ()),
    "no elements": (lambda x: x + 1.0, (np.ones((0, 3)),)),
    "many": (lambda *v: v[::-1], tuple(fg.tensor(np.full(k, 1.0 * k)) for k in range(40))),
    "scalars of every kind": (lambda x: [x.astype(c)[0] for c in "?bhilBHILefdFD"], (X,)),
}


@together("name", CALLS)
def test_results_are_those_of_python(name: str) -> None:
    f, args = CALLS[name]
    g = native(f, *args)
    assert_same(taken(g, *args), by_python(g, *args))


def test_dicts_may_have_another_order() -> None:
    g = native(lambda t: t["a"] - t["b"], {"a": X, "b": 1.0})
    assert_array_equal(taken(g, {"b": 1.0, "a": X}), [0.0, 1.0, 2.0])


@fg.pytree
class Layer:
    weight: Any


def test_other_calls_are_left_to_python() -> None:
    g = native(lambda x, y: x * y, X, X)
    matrix = np.ones((3, 3))
    misaligned = np.zeros(25, np.int8)[1:].view(np.float64)
    others = [np.arange(3), fg.tensor(X, dtype=np.float32), matrix[:, 0], misaligned]
    others += [np.ones(3, ">f8"), 2.0, X[:2], fg.tensor(matrix), None, [1.0, 2.0, 3.0], "no", (X,)]
    for other in others:
        assert left(g, X, other)
        assert left(g, other, X)
    assert left(g, X)
    assert left(g, X, X, X)
    assert left(g, X, y=X)
    g(X, 3)
    assert left(g, X, 3)
    g(Layer(X).weight, True)
    assert left(g, X, True)
    assert left(native(lambda layer: layer.weight * 2.0, Layer(X)), Layer(X))
    assert left(native(lambda items: items[0] * 2.0, [X]), [X])
    assert left(native(lambda x: fnp.sum(x > 1.0).astype(int) + 0 * 1, X), X[:2])
    with pytest.raises(TypeError):
        g(X)


def test_forms_take_turns() -> None:
    g = native(lambda x: x + 1.0, X)
    arguments = [X, np.ones((2, 2)), fg.tensor(np.float32(3.0)), 2.0, {"no": X}["no"], X[:1]]
    for _ in range(2):
        for argument in arguments:
            g(argument)
    for argument in arguments:
        assert_same(taken(g, argument), by_python(g, argument))


def test_paths_through_branches_take_turns() -> None:
    g = native(lambda x: x * 2.0 if x[0] > 0.0 else -x, X)
    for _ in range(2):
        g(-X)
    assert_array_equal(taken(g, X), [2.0, 4.0, 6.0])
    assert_array_equal(taken(g, -X), [1.0, 2.0, 3.0])


SCALE = {"factor": 2.0}
FACTOR = 2.0


def test_outside_values_that_change_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    offset, given, array = 1.0, [1.0], np.ones(3)

    def f(x: Any, by: float = 1.0, *, less: float = 0.0) -> Any:
        total = x * 0.0
        for k in range(len(given)):
            total = total + given[k]
        return x * SCALE["factor"] * FACTOR * by + offset - less + total + array

    g = native(f, X)

    def holds() -> bool:
        expected = fg.tensor(f(X))
        assert_same(taken(g, X), expected)
        return True

    def noticed() -> bool:
        assert left(g, X)
        assert_array_equal(g(X), f(X))
        g(X)
        return holds()

    assert holds()
    monkeypatch.setitem(SCALE, "factor", 3.0)
    assert noticed()
    monkeypatch.setitem(globals(), "FACTOR", 4.0)
    assert noticed()
    offset = 2.0
    assert noticed()
    f.__defaults__ = (5.0,)
    assert noticed()
    f.__kwdefaults__ = {"less": 3.0}
    assert noticed()
    given.append(2.0)
    assert noticed()
    array[1] = 7.0
    assert noticed()
    monkeypatch.setitem(globals(), "range", lambda n: builtins.range(n + 1 - 1))
    assert noticed()
    f.__code__ = (lambda x, by=1.0, *, less=0.0: (x, given, array, offset)[0] * 5.0).__code__
    assert_array_equal(g(X), [5.0, 10.0, 15.0])


def test_an_attribute_that_is_set_is_noticed() -> None:
    def f(x: Any) -> Any:
        return x * getattr(f, "by", 1.0)

    g = native(f, X)
    assert_array_equal(g(X), X)
    f.by = 2.0  # type: ignore[attr-defined]
    assert_array_equal(g(X), [2.0, 4.0, 6.0])


def test_error_states_are_left_to_python() -> None:
    g = native(lambda x: 1.0 / x, X)
    zero = fg.tensor(np.zeros(3))
    assert_array_equal(taken(g, zero), [np.inf] * 3)
    with np.errstate(divide="raise"):
        assert left(g, zero)
        with pytest.raises(FloatingPointError):
            g(zero)
    assert_array_equal(taken(g, zero), [np.inf] * 3)


def test_watched_calls_are_left_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    g = native(lambda x: x + 1.0, X)
    monkeypatch.setattr("funcgrad._hooks.result_watch.WATCHING.begun", False)
    assert_array_equal(taken(g, X), [2.0, 3.0, 4.0])
    monkeypatch.setattr("funcgrad._hooks.result_watch.WATCHING.begun", True)
    assert left(g, X)


def test_code_that_is_to_be_improved_is_timed_by_python_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[None] = []
    monkeypatch.setattr("funcgrad._backends.native.native_code._PATIENCE", 10**7)
    monkeypatch.setattr("funcgrad._backends.native.native_code.read_code", lambda name: None)
    monkeypatch.setattr(
        "funcgrad._backends.native.native_code.begin_thread", lambda *_, **__: begun.append(None)
    )
    g = native(lambda x: x + 1.25, X)
    calls, timed, by_python = 0, list[int](), g._ways[-1]

    def noted(*args: Any, **kwargs: Any) -> Any:
        timed.append(calls)
        return by_python(*args, **kwargs)

    g._ways = (*g._ways[:-1], noted)
    while not begun and calls < 10**6:
        g(X)
        calls += 1
        g._ways = (*[way for way in g._ways if isinstance(way, tuple)], noted)
    assert begun
    assert 5 < len(timed) < calls / 10
    assert_array_equal(taken(g, X), [2.25, 3.25, 4.25])


def test_errors_are_those_of_python() -> None:
    g = native(lambda x, n: x**n, np.array([2, 3]), np.array([1, 2]))
    assert_array_equal(taken(g, np.array([2, 3]), np.array([1, 2])), [2, 9])
    wrong = np.array([2, 3]), np.array([1, -2])
    with pytest.raises(ValueError, match="negative integer powers") as told:
        by_python(g, *wrong)
    with pytest.raises(ValueError, match="negative integer powers") as again:
        g(*wrong)
    assert str(again.value) == str(told.value)
    assert left(g, *wrong)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers of POSIX")
def test_exceptions_of_signals_go_through() -> None:
    """A signal handler's exception is raised unchanged; Python explains errors of the program."""
    g = native(lambda x, n: fg.while_loop(lambda c: c < n, lambda c: c + x, x * 0.0), 1.0, 10.0)
    assert float(taken(g, 1.0, 10.0)) == 10.0

    def raises(*_: Any) -> None:
        raise TimeoutError("enough")

    before = signal.signal(signal.SIGALRM, raises)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with only_tables(g), pytest.raises(TimeoutError, match="enough"):
            g(1.0, 1e15)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert float(taken(g, 1.0, 10.0)) == 10.0


def test_references_are_balanced() -> None:
    tree = {"a": (X, fg.tensor(2.5)), "b": (np.ones(2), 1.5)}

    def f(t: Any, x: Any) -> Any:
        if x[0] > 0.0:
            return fg.tree.map(lambda y: y + 1.0, t)
        return x, fnp.sum(x)

    g = native(f, tree, X)
    g(tree, -X)
    g(tree, -X)
    power = native(lambda x, n: x**n, np.array([2, 3]), np.array([1, 2]))
    held = [tree, tree["a"], tree["b"], X, X._value, tree["b"][0], fg.Tensor, np.ndarray]
    held += [np.dtype(float), None, False, True, np.float64, tuple, g._ways[0], g._ways[0][0], g]

    def calls() -> None:
        for _ in range(1000):
            taken(g, tree, X)
            taken(g, tree, -X)
            left(g, tree, X[::-1])
            with pytest.raises(ValueError, match="negative"):
                power(np.array([2, 3]), np.array([1, -2]))

    calls()
    gc.collect()
    before, blocks = [sys.getrefcount(thing) for thing in held], sys.getallocatedblocks()
    calls()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in held]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 50
    assert abs(sys.getallocatedblocks() - blocks) < 500


def test_tables_may_be_forgotten_while_they_are_used() -> None:
    def f(x: Any) -> Any:
        return fg.while_loop(lambda c: c[0] < 2000.0, lambda c: c + 1.0, x)

    g = native(f, X)
    expected = f(X)
    wrong: list[Any] = []
    stop = time.perf_counter() + 1.0

    def call() -> None:
        while time.perf_counter() < stop:
            if not np.array_equal(g(X), expected):
                wrong.append(1)

    def forget() -> None:
        while time.perf_counter() < stop:
            g._forget()
            g._forms = {}
            for signature in g._signatures.values():
                signature._tables = {}

    threads = [threading.Thread(target=work) for work in (call, call, forget)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_method_is_an_ordinary_one() -> None:
    g = native(lambda x: x + 1.0, X)
    call: Any = staging.Jitted.__call__
    assert_array_equal(call(g, X), [2.0, 3.0, 4.0])
    assert_array_equal(g.__call__(X), [2.0, 3.0, 4.0])
    assert str(inspect.signature(call)) == "(self, /, *args, **kwargs)"
    with pytest.raises(TypeError, match="for 'Jitted' objects"):
        call(1.0, X)
    with pytest.raises(SystemError):
        staging.Jitted.__new__(staging.Jitted)(X)


LAYOUTS = ["ARRAY_RANK", "ARRAY_SIZES", "ARRAY_DTYPE"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_in_another_layout_of_memory_python_takes_all_calls(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert cpython.takes_calls()
    monkeypatch.setattr(cpython, name, getattr(cpython, name) + 8)
    assert not cpython.takes_calls()
    g = native(lambda x: x + 1.75, X)
    assert left(g, X)
    assert_array_equal(g(X), [2.75, 3.75, 4.75])


def test_if_fields_are_elsewhere_python_takes_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpython, "_FIELDS", {(int, "real"): None})
    assert not cpython.takes_calls()
    assert left(native(lambda x: x + 2.75, X), X)

"""Calls of jitted functions that run machine code: their arguments, results, references, errors."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.interface import MISS
from funcgrad._backends.native import cpython
from funcgrad._staging.jit import Jitted
from tests.in_threads import in_threads
from tests.together import together

pytest.importorskip("llvmlite")

X = fg.tensor([1.0, 2.0, 3.0])


class Pair(NamedTuple):
    left: Any
    right: Any


@fg.pytree
class Layer:
    weight: Any
    bias: Any
    name: str = fg.static_field(default="layer")


def native(f: Callable[..., Any]) -> Any:
    return fg.jit(f, backend="native")


def called(f: Any, *args: Any, **kwargs: Any) -> Any:
    """The answer of a function that has an entry for such calls."""
    for _ in range(2):
        f(*args, **kwargs)
    assert f._entries
    return f(*args, **kwargs)


TREES = {
    "tensor": X,
    "array": np.ones((2, 3), np.float32),
    "scalar": fg.tensor(2.5),
    "numpy's numbers": (np.float32(1.5), np.int64(3), np.bool_(True), np.complex128(1j)),
    "Python's numbers": (1.5, 3, 2j, -1),
    "truth": (True, np.array([True, False])),
    "complex": np.ones(2, np.complex64),
    "lists": [X, [X, []], ()],
    "dict": {"b": X, "a": {"c": 1.0}},
    "none": (None, X),
    "named tuple": Pair(X, Pair(1.0, X)),
    "dataclass": Layer(X, {"x": 2.0}),
    "no elements": np.ones((0, 3)),
    "no leaves": ((), {}, None),
}


@together("name", TREES)
def test_trees_come_apart_and_are_made_as_by_python(name: str) -> None:
    tree = TREES[name]
    f = native(
        lambda t, *, k: (
            t,
            [fg.tree.map(lambda x: x & x if x.dtype == bool else x + x, t)],
            {"k": k, "z": None},
        )
    )
    answer = called(f, tree, k=tree)
    plain = fg.jit(f._function, backend="numpy")
    expected = plain(tree, k=tree)
    assert fg.tree.structure(answer) == fg.tree.structure(expected)
    for got, wanted, given in zip(
        fg.tree.leaves(answer), fg.tree.leaves(expected), fg.tree.leaves((tree,) * 3), strict=True
    ):
        assert type(got) is fg.Tensor
        assert type(got._value) is type(wanted._value)
        assert got.dtype == wanted.dtype
        assert_array_equal(got, wanted)
        if type(given) is np.ndarray:
            assert not np.shares_memory(np.asarray(got), given)


def test_arguments_in_another_order_or_place_are_as_good() -> None:
    f = native(lambda x, y: x * 2.0 + y)
    matrix = np.arange(12.0).reshape(3, 4)
    expected = called(f, fg.tensor(matrix), matrix)
    swapped = matrix.astype(">f8")
    bytes_ = np.zeros(97, np.int8)
    crooked = bytes_[1:].view(np.float64).reshape(3, 4)
    crooked[...] = matrix
    wide = np.repeat(matrix, 2, axis=1)[:, ::2]
    for other in (np.asfortranarray(matrix), swapped, crooked, wide, matrix[::-1][::-1]):
        assert_array_equal(f(fg.tensor(matrix), other), expected)
        assert_array_equal(f(fg.tensor(other), matrix), expected)
    tensors = fg.tensor(matrix.T).T, fg.tensor(np.repeat(matrix, 2, axis=1))[:, ::2]
    for tensor in tensors:
        assert_array_equal(f(tensor, matrix), expected)
    with pytest.raises(TypeError):
        f(matrix)


def test_a_static_part_that_differs_is_told_apart() -> None:
    f = native(lambda layer: layer.weight * len(layer.name))
    assert_array_equal(called(f, Layer(X, 1.0)), [5.0, 10.0, 15.0])
    assert_array_equal(f(Layer(X, 1.0, "no")), [2.0, 4.0, 6.0])
    assert_array_equal(f(Layer(X, 1.0)), [5.0, 10.0, 15.0])


SCALE = {"factor": 2.0}


def test_outside_values_that_change_are_noticed() -> None:
    offset = 1.0

    def f(x: Any, by: float = 1.0) -> Any:
        return x * SCALE["factor"] * by + offset

    g = native(f)
    assert_array_equal(called(g, X), [3.0, 5.0, 7.0])
    try:
        SCALE["factor"] = 3.0
        assert_array_equal(g(X), [4.0, 7.0, 10.0])
    finally:
        SCALE["factor"] = 2.0
    offset = 2.0
    assert_array_equal(g(X), [4.0, 6.0, 8.0])
    f.__defaults__ = (5.0,)
    assert_array_equal(g(X), [12.0, 22.0, 32.0])


def test_other_error_states_are_left_to_others() -> None:
    f = native(lambda x: 1.0 / x)
    zero = fg.tensor(np.zeros(1))
    assert called(f, zero) == np.inf
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(zero)
    with np.errstate(all="ignore"):
        assert f(zero) == np.inf


def test_results_are_new_where_errors_are_noticed() -> None:
    f, x = native(lambda x: (x, x + 1.0)), np.ones(3)
    with np.errstate(all="raise"):
        same, _ = called(f, x)
    x[0] = 9.0
    assert_array_equal(same, np.ones(3))


def test_a_jitted_function_stays_what_it_was() -> None:
    def f(x: Any, y: float = 2.0) -> Any:
        """Add."""
        return x + y

    g, plain = native(f), fg.jit(f, backend="numpy")
    called(g, X)
    both: list[Any] = [g, plain]
    for jitted in both:
        jitted(X)
        assert isinstance(jitted, Jitted)
        assert (jitted.__name__, jitted.__doc__, inspect.unwrap(jitted)) == ("f", "Add.", f)
        assert inspect.signature(jitted) == inspect.signature(f)
        assert repr(jitted) == f"jit({f!r})"

    class Model:
        apply = g

    assert_array_equal(Model().apply.__func__(X), [3.0, 4.0, 5.0])
    assert_array_equal(partial(g, y=1.0)(X), [2.0, 3.0, 4.0])


def module_function(x: Any) -> Any:
    return x + 1.0


jitted_function = native(module_function)


def test_it_pickles_after_calls() -> None:
    called(jitted_function, X)
    again = pickle.loads(pickle.dumps(jitted_function))
    assert type(again).__name__ == "Jitted"
    assert_array_equal(again(X), [2.0, 3.0, 4.0])


def test_it_is_freed_without_the_collector() -> None:
    f = native(lambda x: fnp.partition(x, 0) + 1.0)
    called(f, X)
    witnesses = [weakref.ref(f._entries[0]), weakref.ref(f)]
    gc.collect()
    gc.disable()
    try:
        del f
        assert [witness() for witness in witnesses] == [None, None]
    finally:
        gc.enable()


def test_derivatives_of_it_are_those_of_its_function() -> None:
    f = native(lambda x: fnp.sum(x * x))
    called(f, X)
    assert_array_equal(fg.grad(f)(X), [2.0, 4.0, 6.0])
    assert_array_equal(fg.vmap(f)(fg.tensor(np.eye(2))), [1.0, 1.0])


def test_references_are_balanced() -> None:
    tree: Any = {"a": [X, 2.5], "b": Layer(np.ones(2), (1, None))}
    f = native(lambda t, k: (fg.tree.map(lambda x: x + 1, t), fnp.partition(k, 0), k))
    called(f, 1.0, k=X)  # another kind, so that some calls miss
    called(f, tree, k=X)
    held = [tree, tree["a"], tree["b"], X, X._value, Layer, fg.Tensor, np.ndarray, np.dtype(float)]
    held += [None, f._entries[0], MISS, tree["b"].weight, "k", np.ndarray]

    def calls() -> None:
        for _ in range(3000):
            f(tree, k=X)
            f(1.0, k=X)
            f({"a": [X.T, 2.5], "b": tree["b"]}, k=X[::-1])

    calls()
    gc.collect()
    before, blocks = [sys.getrefcount(thing) for thing in held], sys.getallocatedblocks()
    calls()
    gc.collect()
    after = [sys.getrefcount(thing) for thing in held]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 50
    assert abs(sys.getallocatedblocks() - blocks) < 500


OUTCOME: list[BaseException | None] = [None]


def checked(x: Any) -> Any:
    if OUTCOME[0] is not None:
        raise OUTCOME[0]
    return np.array(x)


check = fg.extend.Primitive(
    "check",
    checked,
    lambda x: x,
    fg.extend.DISCRETE,
    lambda primitive, size, args, batched, params: primitive(*args),
)


def test_errors_in_callbacks_are_evaluation_s_and_interrupts_go_through() -> None:
    f = native(lambda x: fg.extend.apply(check, x + 0.0) * 2.0)
    assert_array_equal(called(f, X), [2.0, 4.0, 6.0])
    try:
        OUTCOME[0] = ValueError("no")
        with pytest.raises(ValueError, match="no"):
            f(X)
        OUTCOME[0] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            f(X)
    finally:
        OUTCOME[0] = None
    assert_array_equal(f(X), [2.0, 4.0, 6.0])


def test_threads_share_a_function_while_it_improves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("funcgrad._backends.native.native_code._PATIENCE", 50_000)
    f = native(lambda x: fnp.sum(fnp.partition(fnp.tanh(x), 0) * x))
    inputs = [fg.tensor(np.linspace(0.1, k, 50)) for k in range(1, 9)]
    expected = [float(f(x)) for x in inputs]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(400):
            if float(f(inputs[k])) != expected[k]:
                wrong.append(k)

    in_threads(work)
    assert wrong == []


@pytest.mark.parametrize(
    ("holder", "name", "wrong", "told"),
    [
        (cpython, "HEAD", cpython.HEAD + 8, "an object's type, .*"),
        (cpython, "ARRAY_FLAGS", cpython.ARRAY_FLAGS + 4, "an array's flags"),
        (cpython, "DENSE", 0x100, "an array's flags"),
        (cpython, "WRITABLE", 0x901, "an array's flags"),
        (cpython, "_ARRAY_TYPE", 3, "NumPy's functions"),
    ],
)
def test_another_layout_of_memory_is_noticed(
    monkeypatch: pytest.MonkeyPatch, holder: Any, name: str, wrong: int, told: str
) -> None:
    cpython.checked()
    monkeypatch.setattr(holder, name, wrong)
    with pytest.raises(cpython.NativeError, match=f"in another way: {told}$"):
        cpython.checked()

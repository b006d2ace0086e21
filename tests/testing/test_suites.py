"""Suites for optimizers and layers, comparisons of trees, and counts of stagings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad.errors import ArgumentError, CheckError, FunctionError, ShapeError
from funcgrad.testing import assert_trees_close, check_layer, check_optimizer, max_variants
from tests.together import together

# ------------------------------------------------------------------------------------ optimizers


def momentum(**changes: Any) -> optim.Optimizer[Any]:
    """Gradient descent with momentum, written by hand; some of its parts replaced."""

    def init(params):
        return {"m": fg.tree.map(fnp.zeros_like, params), "count": fg.tensor(0)}

    def update(grads, state, params):
        m = fg.tree.map(lambda m, g: 0.5 * m + g, state["m"], grads)
        return fg.tree.map(lambda m: -0.05 * m, m), {"m": m, "count": state["count"] + 1}

    return optim.Optimizer(**{"init": init, "update": update, **changes})


def test_optimizers_that_keep_the_contract_pass():
    check_optimizer(momentum(), dtypes=("float32", "float64", "complex64"))
    check_optimizer(momentum(), params=[fg.tensor([2.0, 3.0])])
    chained = optim.chain(clip=optim.clip_by_norm(10.0), adam=optim.adamw(0.01))
    check_optimizer(chained)
    check_optimizer(optim.clip(1.0), without=("descent", "derivative"))


def growing(grads, state, params):
    return grads, {**state, "old": grads}


def wide(grads, state, params):
    m = fg.tree.map(lambda g: g * np.ones(g.shape), grads)
    return fg.tree.map(lambda m: -0.05 * m, m), {**state, "count": state["count"] + 1}


def dividing(grads, state, params):
    return fg.tree.map(lambda g: -0.01 * g / fnp.sqrt(fnp.sum(g * g)), grads), state


STEPS: list[Any] = []


def counting(grads, state, params):
    STEPS.append(1)
    return fg.tree.map(lambda g: -0.01 * len(STEPS) * g, grads), state


def mixing(grads, state, params):
    """Another step in a batch, as of a function that mixes its examples."""
    return fg.tree.map(lambda g: -0.01 * g * (1 + ("vmap" in repr(g))), grads), state


def detached(grads, state, params):
    return fg.tree.map(lambda g: -0.05 * g * fg.stop_gradient(g), grads), state


@together(
    ("update", "names"),
    [
        (growing, {"state", "dtypes", "scan", "descent"}),
        (wide, {"dtypes"}),
        (dividing, {"zeros"}),
        (counting, {"pure"}),
        (mixing, {"vmap"}),
        (detached, {"derivative"}),
    ],
)
def test_broken_promises_of_optimizers_are_named(update, names):
    with pytest.raises(CheckError, match=r"check_optimizer: Optimizer breaks \d of 9") as caught:
        check_optimizer(momentum(update=update))
    lines = str(caught.value).splitlines()
    broken = {line.partition(":")[0] for line in lines if line and not line.startswith((" ", "ch"))}
    assert names <= broken


def test_what_is_no_optimizer_is_refused():
    with pytest.raises(ArgumentError, match="has no function init"):
        check_optimizer(optim.adam)
    with pytest.raises(ArgumentError, match=r"without=\['speed'\].*promises are state, pure"):
        check_optimizer(momentum(), without=("speed",))
    with pytest.raises(ArgumentError, match="without='jit'"):
        check_optimizer(momentum(), without="jit")


# ---------------------------------------------------------------------------------------- layers


@fg.pytree
class Scale:
    weight: fg.Tensor
    power: int = fg.static_field(default=2)

    def __call__(self, x):
        return self.weight * x**self.power


X = fg.tensor([0.5, 1.25, 1.75])


def test_layers_that_keep_the_contract_pass():
    check_layer(Scale(X), X)
    key = fg.random.key(0)
    check_layer(fg.nn.Dropout(0.5), X, apply=lambda layer, x: layer(x, key=key))
    check_layer(fg.nn.MLP.init(key, (3, 4, 2)), X)


CALLS: list[Any] = []


def broken(name: str) -> Any:
    @fg.pytree
    class Layer:
        weight: Any

        def __call__(self, x):
            if name == "modes":
                return self.weight * steep(x)
            if name == "dtypes":
                return self.weight * x * np.ones(3)
            if name == "pure":
                CALLS.append(1)
                return self.weight * x * len(CALLS)
            if name == "vmap":
                return self.weight * x * (1 + ("vmap" in repr(x)))
            return self.weight * x

    return Layer(2.0 if name == "tree" else X)


steep = fg.custom_jvp(fnp.sin)
steep.defjvp(lambda primals, tangents: (fnp.sin(*primals), 2 * fnp.cos(*primals) * tangents[0]))


@together(
    ("name", "promise"),
    [
        ("modes", "derivative: First and second derivatives"),
        ("dtypes", "dtypes: Results and gradients"),
        ("pure", "pure: A call changes nothing"),
        ("vmap", "vmap: A batch of layers"),
        ("tree", "tree: Parameters are tensors"),
        ("pickled", "pickled: A copy by pickle"),
    ],
)
def test_broken_promises_of_layers_are_named(name, promise):
    with pytest.raises(CheckError, match="check_layer: Layer breaks") as caught:
        check_layer(broken(name), X, without=() if name == "pickled" else ("pickled",))
    assert f"\n{promise}" in str(caught.value)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ArgumentError, match=r"a dict cannot be called. Pass apply="):
        check_layer({"w": X}, X)


# ----------------------------------------------------------------------------------------- trees


def test_trees_that_are_close_pass():
    assert_trees_close({"a": X, "b": (1, None)}, {"a": X + 1e-9, "b": (1, None)}, 1e-8)
    assert_trees_close(np.nan, np.nan)
    assert_trees_close([np.inf, 2], [np.inf, 2])
    assert_trees_close(fg.tensor([1j]), fg.tensor([1j + 1e-9]))


@together(
    ("actual", "expected", "text"),
    [
        ({"a": X}, {"b": X}, "the structures differ"),
        ({"a": X}, {"a": X + 0.5}, r"\['a'\]  at \[0\]: 0.5 and 1 differ by 0.5, .*; 3 of 3"),
        ({"a": X}, {"a": X[:2]}, r"has shape \(3,\), expected \(2,\)"),
        ({"a": X}, {"a": X.astype("float32")}, "has dtype float64, expected float32"),
        (np.nan, 1.0, "nan and 1 differ"),
        (np.inf, -np.inf, "inf and -inf differ"),
        ([3, 4], [3, 5], r"\[1\]  4 and 5 differ by 1"),
        ([0.0] * 20, [1.0] * 20, "and 12 more"),
    ],
)
def test_differences_are_shown_by_path(actual, expected, text):
    with pytest.raises(CheckError, match=text):
        assert_trees_close(actual, expected)


def test_tolerances_are_checked():
    with pytest.raises(ArgumentError, match="rtol has to be at least 0"):
        assert_trees_close(1.0, 1.0, rtol=-1)


# -------------------------------------------------------------------------------------- variants


def test_variants_are_counted():
    f = fg.jit(lambda x: x * 2 if x[0] > 0 else -x)
    with max_variants(f, 1):
        f(X)
        f(2 * X)
    with max_variants(f, 0):
        f(X)
    with pytest.raises(CheckError, match="was staged once, more than 0 times"), max_variants(f, 0):
        f(-X)
    with pytest.raises(CheckError, match="was staged 2 times, more than once"), max_variants(f, 1):
        assert f(X.astype("float32")).shape != f(X[:2]).shape
    with pytest.raises(FunctionError, match="has to be a jitted function"), max_variants(len, 1):
        pass
    with pytest.raises(ShapeError), max_variants(f, -1):
        pass

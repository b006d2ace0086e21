"""probe: gradients with respect to intermediate values."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError, LeafError
from tests.transforms.support import assert_same, numbers


def square(w):
    h = fg.probe(3.0 * w, "h")
    return fnp.sum(h * h)


def test_the_gradient_comes_with_that_of_the_marked_value() -> None:
    assert_same(fg.grad(square, probes=("h",))(2.0), (36.0, {"h": 12.0}))
    found = fg.value_and_grad(square, probes=["h"])(2.0)
    assert_same(found, (36.0, (36.0, {"h": 12.0})))


def test_outside_of_a_gradient_that_asks_a_probe_is_the_identity() -> None:
    assert_same(square(2.0), 36.0)
    assert_same(fg.grad(square)(2.0), 36.0)
    assert_same(fg.jvp(square, (2.0,), (1.0,)), (36.0, 36.0))
    assert_same(fg.vmap(square)(np.ones(2)), np.full(2, 9.0))
    assert_same(fg.probe([1, 2], "x"), np.array([1, 2]))
    assert_same(
        fg.grad(lambda x: fg.probe(x, "other") * fg.probe(x, "y"), probes=("y",))(3.0),
        (6.0, {"y": 3.0}),
    )


def test_only_what_is_computed_from_the_returned_value_counts() -> None:
    def f(w):
        h = w * w
        marked = fg.probe(h, "h")
        return marked * 10 + h * 1000

    assert_same(fg.grad(f, probes=("h",))(1.0), (2020.0, {"h": 10.0}))


def test_several_values_and_arguments_and_aux() -> None:
    def f(p, x):
        a = fg.probe(p["w"] @ x, "a")
        b = fg.probe(fnp.tanh(a), "b")
        return fnp.sum(b), {"a": a, "text": "aux"}

    p, x = {"w": numbers(2, 3)}, numbers(3)
    (grads, probes), aux = fg.grad(f, (0, 1), has_aux=True, probes=("b", "a"))(p, x)
    a = p["w"] @ x
    slope = 1 - np.tanh(a) ** 2
    assert_same(probes, {"a": slope, "b": np.ones(2)})
    assert_same(grads, ({"w": np.outer(slope, x)}, p["w"].T @ slope))
    assert_same(aux["a"], a)
    assert aux["text"] == "aux"


def test_values_that_do_not_depend_on_the_argument_can_be_marked() -> None:
    def f(w):
        return w * fg.probe(5.0, "constant") ** 2

    assert_same(fg.grad(f, probes=("constant",))(3.0), (25.0, {"constant": 30.0}))


def test_a_value_without_influence_has_a_zero_gradient() -> None:
    def f(w):
        fg.probe(w * np.ones(3, np.float32), "unused")
        return w

    assert_same(fg.grad(f, probes=("unused",))(3.0), (1.0, {"unused": np.zeros(3, np.float32)}))


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_the_gradient_has_the_shape_and_dtype_of_the_value(dtype: str) -> None:
    x = numbers(2, 3).astype(dtype)
    _, probes = fg.grad(lambda x: fnp.sum(abs(fg.probe(x, "x")) ** 2), probes=("x",))(x)
    assert_same(probes, {"x": 2 * x}, rtol=1e-6)


# --------------------------------------------------------------------------------- composition


def test_under_vmap_of_the_gradient() -> None:
    x = numbers(4)
    assert_same(fg.vmap(fg.grad(square, probes=("h",)))(x), (18 * x, {"h": 6 * x}))


def test_inside_vmap_the_gradient_has_the_batch_on_axis_0() -> None:
    x = numbers(4, 3)
    found = fg.grad(lambda x: fnp.sum(fg.vmap(square)(x)), probes=("h",))(x)
    assert_same(found, (18 * x, {"h": 6 * x}))
    nested = fg.grad(lambda x: fnp.sum(fg.vmap(fg.vmap(square))(x)), probes=("h",))(x)
    assert_same(nested, (18 * x, {"h": 6 * x}))


def test_a_probed_gradient_can_be_differentiated() -> None:
    def probe_gradient(w):
        return fg.grad(lambda w: fg.probe(w * w, "h") ** 3, probes=("h",))(w)[1]["h"]

    assert_same(probe_gradient(2.0), 3 * 4.0**2)
    assert_same(fg.grad(probe_gradient)(2.0), 12 * 2.0**3)
    assert_same(fg.jvp(probe_gradient, (2.0,), (1.0,)), (48.0, 96.0))


def test_through_an_inner_derivative() -> None:
    def f(w):
        return fg.grad(square)(w) + fg.jvp(lambda x: x * w, (2.0,), (1.0,))[1]

    assert_same(fg.grad(f, probes=("h",))(2.0), (19.0, {"h": 6.0}))


def test_the_innermost_gradient_that_asks_gets_the_value() -> None:
    def inner(w):
        return fg.grad(square, probes=("h",))(w)[1]["h"] * fg.probe(w * 2, "k")

    found = fg.grad(inner, probes=("k",))(2.0)  # of 6 w times k, where k is 2 w
    assert_same(found, (24 * 2.0, {"k": 12.0}))


def test_inside_checkpoints_and_custom_rules() -> None:
    assert_same(fg.grad(fg.checkpoint(square), probes=("h",))(2.0), (36.0, {"h": 12.0}))
    nested = fg.checkpoint(lambda w: fg.checkpoint(square)(w) + fg.probe(w, "w"))
    assert_same(fg.grad(nested, probes=("h", "w"))(2.0), (37.0, {"h": 12.0, "w": 1.0}))

    @fg.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda p, t: (p[0] * p[0], 20 * p[0] * t[0]))
    found = fg.grad(lambda w: f(fg.probe(3 * w, "h")), probes=("h",))(1.0)
    assert_same(found, (180.0, {"h": 60.0}))


def test_checkpoints_that_run_again_inside_a_probed_gradient() -> None:
    found = fg.grad(fg.grad(fg.checkpoint(square)), probes=("h",))(2.0)
    assert_same(found, fg.tree.map(np.asarray, fg.grad(fg.grad(square), probes=("h",))(2.0)))
    out, pullback = fg.vjp(fg.checkpoint(square), 2.0)
    assert_same((out, pullback(1.0)), (36.0, (36.0,)))


def test_probes_of_other_threads_are_their_own() -> None:
    def run(k: int) -> Any:
        return fg.grad(square, probes=("h",))(float(k))

    with ThreadPoolExecutor(8) as pool:
        for k, found in enumerate(pool.map(run, range(200))):
            assert_same(found, (18.0 * k, {"h": 6.0 * k}))


# --------------------------------------------------------------------------------- errors


def marked_twice(w):
    return fg.probe(w, "h") + fg.probe(w, "h")


NOT_MARKED = "grad: the function marked no value as 'h'; it marked none"
NO_ARRAY = "probe: expected an array or a number, got 'text'"


@pytest.mark.parametrize(
    ("f", "kind", "reason"),
    [
        (marked_twice, DifferentiationError, "probe: 'h' was marked twice in one gradient"),
        (lambda w: w, DifferentiationError, NOT_MARKED),
        (lambda w: w * fg.probe(3, "h"), DifferentiationError, "probe: 'h' has dtype int64"),
        (lambda w: w * fg.probe("text", "h"), LeafError, NO_ARRAY),
    ],
)
def test_mistakes_are_named_and_leave_nothing_behind(f: Any, kind: Any, reason: str) -> None:
    with pytest.raises(kind) as caught:
        fg.grad(f, probes=("h",))(2.0)
    assert reason in str(caught.value)
    assert_same(fg.grad(square, probes=("h",))(2.0), (36.0, {"h": 12.0}))
    assert_same(fg.grad(marked_twice)(2.0), 2.0)


def test_a_missing_name_is_told_with_those_that_were_marked() -> None:
    with pytest.raises(DifferentiationError, match=r"marked no value as 'x'; it marked \['h'\]"):
        fg.grad(square, probes=("h", "x"))(2.0)


def test_a_value_is_marked_within_forward_mode() -> None:
    """Both the value and its tangent depend on the marked value: h v, and dh v + h for dv = 1."""

    def loss(w: Any) -> Any:
        out, tangent = fg.jvp(lambda v: fg.probe(v * v, "h") * v, (w,), (1.0,))
        return out + tangent  # w³ + 3 w²

    slope, probes = fg.grad(loss, probes=("h",))(2.0)
    assert (float(slope), float(probes["h"])) == (24.0, 3.0)

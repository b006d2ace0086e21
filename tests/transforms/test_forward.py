"""jvp: what a user may rely on."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, complex_numbers, numbers


def test_value_and_directional_derivative() -> None:
    out, tangent = fg.jvp(lambda x, y: x * y**2, (2.0, 3.0), (1.0, 10.0))
    assert_same((out, tangent), (18.0, 9.0 + 120.0))


@together(
    "tree",
    [
        (2.0, 3.0),
        {"b": [2.0, None], "a": np.arange(3.0)},
        Point(2.0, {"x": 3.0}),
        Layer(np.arange(6.0).reshape(2, 3), None),
        None,
        {},
    ],
    ids=str,
)
def test_trees_go_in_and_out(tree: Any) -> None:
    direction = pytrees.map(lambda x: np.asarray(x) * 0.0 + 1.5, tree)
    out, tangent = fg.jvp(lambda t: pytrees.map(lambda x: x * x, t), (tree,), (direction,))
    assert_same(out, pytrees.map(lambda x: np.asarray(x) ** 2, tree))
    assert_same(tangent, pytrees.map(lambda x: 3 * np.asarray(x), tree))


def test_lists_of_primals_and_tangents_will_do() -> None:
    assert_same(fg.jvp(lambda x, y: x * y, [2.0, 3.0], [1.0, 1.0]), (6.0, 5.0))


def test_no_arguments() -> None:
    assert_same(fg.jvp(lambda: 2.0, (), ()), (2.0, 0.0))


def test_aux_is_handed_through() -> None:
    def f(x):
        return x * x, {"double": x * 2, "name": "text", "none": None}

    out, tangent, aux = fg.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert_same((out, tangent), (9.0, 6.0))
    assert_same(aux["double"], 6.0)
    assert (aux["name"], aux["none"]) == ("text", None)


def test_results_that_do_not_depend_on_the_primals_have_zero_tangents() -> None:
    constant = fg.tensor([1.0, 2.0])

    def f(x):
        return constant, 3.0, fnp.floor(x), fg.stop_gradient(x), x

    _, tangent = fg.jvp(f, (2.5,), (1.0,))
    assert_same(tangent, (np.zeros(2), 0.0, 0.0, 0.0, 1.0))


def test_integer_and_boolean_results_have_zeros_of_their_dtype() -> None:
    out, tangent = fg.jvp(lambda x: (x > 0, fnp.argmax(x)), (numbers(3),), (numbers(3),))
    assert_same(tangent, (np.zeros(3, bool), np.int64(0)))
    assert [leaf.dtype for leaf in out] == [leaf.dtype for leaf in tangent]


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_tangents_have_the_dtype_of_their_primals(dtype: str) -> None:
    x = numbers(3).astype(dtype)
    _, tangent = fg.jvp(lambda x: (x * 2.0, abs(x) ** 2), (x,), (x,))
    assert_same(tangent, (2 * x, 2 * (x * x.conj()).real), rtol=5e-3)


def test_python_numbers_as_tangents_take_the_primal_s_dtype() -> None:
    out, tangent = fg.jvp(lambda x: x * x, (np.float32(3.0),), (1,))
    assert_same((out, tangent), (np.float32(9.0), np.float32(6.0)))
    assert fg.jvp(lambda z: z * z, (1j,), (1.0,))[1] == 2j


def test_a_python_number_does_not_widen_float32() -> None:
    x = np.array([0.1, 0.2], np.float32)
    out, tangent = fg.jvp(lambda s: s * x, (2.0,), (1.0,))
    assert_same((out, tangent), (2.0 * x, x))


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x, t = np.asarray(numbers(*shape)), np.asarray(numbers(*shape, seed=1))
    assert_same(fg.jvp(lambda x: x * x, (x,), (t,)), (x * x, 2 * x * t))
    assert_same(fg.jvp(lambda x: fnp.sum(x * x), (x,), (t,))[1], np.sum(2 * x * t))


def test_complex_directions() -> None:
    z, t = complex_numbers(3), complex_numbers(3, seed=1)
    assert_same(fg.jvp(lambda z: z * z, (z,), (t,))[1], 2 * z * t)
    assert_same(fg.jvp(lambda z: abs(z) ** 2, (z,), (t,))[1], 2 * (z.conj() * t).real)
    assert_same(fg.jvp(fnp.conj, (z,), (t,))[1], t.conj())
    assert_same(fg.jvp(lambda z: z.real * 1j, (z,), (t,))[1], t.real * 1j)


def test_derivatives_of_every_order() -> None:
    def derivative(f):
        return lambda x: fg.jvp(f, (x,), (1.0,))[1]

    f, expected = fnp.sin, (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin)
    for reference in expected:
        f = derivative(f)
        assert_same(f(0.3), reference(0.3))


def test_forward_over_reverse_over_forward() -> None:
    def inner(x):
        return fg.jvp(lambda y: y**4, (x,), (1.0,))[1]

    assert_same(fg.jvp(fg.grad(inner), (2.0,), (1.0,)), (12 * 4.0, 24 * 2.0))


def test_the_tangent_may_be_an_outer_tracer() -> None:
    def f(t):
        return fg.jvp(lambda x: x**2, (3.0,), (t,))[1]

    assert_same(fg.grad(f)(1.0), 6.0)
    assert_same(fg.vmap(f)(np.arange(3.0)), 6.0 * np.arange(3.0))


def test_control_flow_may_look_at_truth_values() -> None:
    def f(x):
        while x < 100:
            x = x * x
        return x

    assert_same(fg.jvp(f, (3.0,), (1.0,)), (6561.0, 8 * 3.0**7))


def test_memory_is_constant_in_the_length_of_a_loop() -> None:
    def f(x, steps):
        for _ in range(steps):
            x = fnp.sin(x)
        return x

    def peak(steps):
        x = numbers(1000)
        tracemalloc.start()
        fg.jvp(lambda x: f(x, steps), (x,), (x,))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(2)
    assert peak(400) < peak(4) + 20_000

"""grad, value_and_grad, vjp: what a user may rely on."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from tests.together import together
from tests.transforms.support import Layer, Point, assert_same, complex_numbers, numbers

# --------------------------------------------------------------------------------- arguments


def polynomial(x, y, z=1.0):
    return x * x * y + y**3 * z


def test_grad_is_in_the_first_argument_by_default() -> None:
    assert_same(fg.grad(polynomial)(2.0, 3.0), np.float64(12.0))


def test_a_result_without_derivatives_has_a_pullback_to_zeros() -> None:
    _, pull = fg.vjp(lambda x: 0, 2.0)
    assert_same(pull(1.0)[0], np.float64(0.0))


@together(
    ("argnums", "expected"),
    [
        (0, 12.0),
        (1, 31.0),
        (-1, 31.0),
        (-2, 12.0),
        ((0,), (12.0,)),
        ((0, 1), (12.0, 31.0)),
        ((1, 0), (31.0, 12.0)),
        ([0, -1], (12.0, 31.0)),
        ((), ()),
        (np.int64(1), 31.0),
    ],
)
def test_argnums_choose_arguments(argnums: Any, expected: Any) -> None:
    assert_same(fg.grad(polynomial, argnums)(2.0, 3.0), expected)
    value, grads = fg.value_and_grad(polynomial, argnums)(2.0, 3.0)
    assert_same(value, 39.0)
    assert_same(grads, expected)


def test_keyword_arguments_are_handed_on_and_not_differentiated() -> None:
    assert_same(fg.grad(polynomial)(2.0, y=3.0), 12.0)
    assert_same(fg.grad(polynomial, argnums=1)(2.0, 3.0, z=10.0), 4 + 270.0)
    assert_same(fg.grad(lambda x, *, flag: x * 2 if flag else x)(1.0, flag="any object"), 2.0)


def test_other_arguments_arrive_as_they_are() -> None:
    marker = object()

    def f(x, other, array):
        assert other is marker
        assert type(array) is np.ndarray
        return x * array.sum()

    assert_same(fg.grad(f)(2.0, marker, np.ones(3)), 3.0)


def test_the_gradient_has_the_function_s_name_and_docstring() -> None:
    assert fg.grad(polynomial).__name__ == "polynomial"
    assert fg.value_and_grad(polynomial).__wrapped__ is polynomial


def test_callables_of_every_kind() -> None:
    class Scaled:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return x * self.scale

        def method(self, x):
            return x * x * self.scale

    assert_same(fg.grad(Scaled(3.0))(1.0), 3.0)
    assert_same(fg.grad(Scaled(3.0).method)(1.0), 6.0)
    assert_same(fg.grad(partial(polynomial, y=3.0))(2.0), 12.0)


# --------------------------------------------------------------------------------- pytrees


@together(
    "tree",
    [
        2.0,
        (2.0, 3.0),
        [2.0, [3.0, (4.0,)]],
        {"b": 2.0, "a": np.arange(3.0)},
        Point(2.0, {"x": 3.0}),
        Layer(np.arange(6.0).reshape(2, 3), None),
        {"none": None, "empty": (), "x": [1.0], "also": {}},
        [Layer(2.0, Point(3.0, 4.0), name="other"), None],
    ],
    ids=str,
)
def test_gradients_have_the_tree_of_the_argument(tree: Any) -> None:
    def f(t):
        return sum(fnp.sum(leaf**2) for leaf in pytrees.leaves(t))

    expected = pytrees.map(lambda leaf: 2 * np.asarray(leaf), tree)
    assert_same(fg.grad(f)(tree), expected)
    _, pullback = fg.vjp(f, tree)
    assert_same(pullback(1.0), (expected,))


def test_the_function_gets_its_own_types() -> None:
    def f(layer, point):
        assert isinstance(layer, Layer)
        assert isinstance(point, Point)
        assert layer.name == "out"
        assert isinstance(layer.weight, fg.Tensor)
        return layer.weight * point.x

    assert_same(
        fg.grad(f, argnums=(0, 1))(Layer(2.0, None, "out"), Point(3.0, 5.0)),
        (Layer(3.0, None, "out"), Point(2.0, 0.0)),
    )


@pytest.mark.parametrize("tree", [(), [], {}, None])
def test_an_argument_without_leaves_has_an_empty_gradient(tree: Any) -> None:
    assert fg.grad(lambda t: 1.0)(tree) == tree


def test_unused_leaves_get_zeros_of_their_shape_and_dtype() -> None:
    x = {"used": np.float32(2.0), "unused": np.ones((2, 0, 3), np.complex64)}
    grads = fg.grad(lambda t: t["used"] * 3)(x)
    assert_same(grads, {"used": np.float32(3.0), "unused": np.zeros((2, 0, 3), np.complex64)})


def test_a_constant_function_has_a_zero_gradient() -> None:
    assert_same(fg.grad(lambda x: 1.0)(np.ones(3)), np.zeros(3))


# --------------------------------------------------------------------------------- has_aux


def test_aux_is_handed_through_with_any_leaves() -> None:
    def f(x):
        y = x * x
        return y, {"y": y, "name": "text", "none": None, "list": [1, y + 1], "object": f}

    grad, aux = fg.grad(f, has_aux=True)(3.0)
    (value, same_aux), same_grad = fg.value_and_grad(f, has_aux=True)(3.0)
    out, pullback, vjp_aux = fg.vjp(f, 3.0, has_aux=True)
    assert_same((grad, same_grad, value, out), (6.0, 6.0, 9.0, 9.0))
    assert_same(pullback(1.0), (6.0,))
    for found in (aux, same_aux, vjp_aux):
        assert_same([found["y"], found["list"][1]], [9.0, 10.0])
        assert (found["name"], found["none"], found["list"][0]) == ("text", None, 1)
        assert found["object"] is f


def test_aux_of_an_inner_gradient_stays_differentiable_outside() -> None:
    def f(x):
        return fg.grad(lambda y: (y * x, y * y * x), has_aux=True)(x)[1]

    assert_same(fg.grad(f)(2.0), 12.0)


# --------------------------------------------------------------------------------- dtypes


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D"])
def test_gradients_have_the_dtype_of_the_argument(dtype: str) -> None:
    x = numbers(3).astype(dtype)
    value, grad = fg.value_and_grad(lambda x: fnp.sum(abs(x * 2.0) ** 2))(x)
    assert value.dtype == np.zeros(0, dtype).real.dtype
    assert_same(grad, 8 * x, rtol=5e-3)


def test_each_of_mixed_dtypes_gets_its_own_back() -> None:
    x32, x64 = np.array([1, 2], np.float32), np.array([3, 4], np.float64)
    z = np.array([1j, 2], np.complex64)
    grads = fg.grad(lambda a, b, c: fnp.sum(a * b * abs(c) ** 2), (0, 1, 2))(x32, x64, z)
    square = abs(z) ** 2
    expected = (
        (x64 * square).astype("f"),
        (x32 * square).astype("d"),
        (2 * z * x32 * x64).astype("F"),
    )
    assert_same(grads, expected, rtol=1e-6)


def test_a_python_number_does_not_widen_float32() -> None:
    x = np.array([0.1, 0.2], np.float32)
    value, grad = fg.value_and_grad(lambda s: fnp.sum(s * x))(2.0)
    assert value.dtype == np.float32
    assert value == np.sum(2.0 * x)
    assert grad.dtype == np.float64
    assert_allclose(float(grad), float(x.sum()), rtol=1e-6)


def test_float32_stays_float32_at_second_order() -> None:
    second = fg.grad(fg.grad(lambda x: fnp.sin(x) * x))(np.float32(0.5))
    assert second.dtype == np.float32


# ------------------------------------------------------------------------------ shapes


@together("shape", [(), (0,), (3,), (2, 0, 3), (2, 3), (1, 1)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    x = numbers(*shape)
    assert_same(fg.grad(lambda x: fnp.sum(x * x))(x), np.asarray(2 * x))
    assert_same(fg.grad(lambda x: fnp.sum(x * x))(fg.tensor(x)), np.asarray(2 * x))


def test_broadcast_arguments_get_their_own_shape_back() -> None:
    a, b = numbers(3, 1), numbers(4)
    grads = fg.grad(lambda a, b: fnp.sum(a * b), (0, 1))(a, b)
    assert_same(grads, (np.full((3, 1), b.sum()), np.full(4, a.sum())))


def test_a_gradient_is_no_broadcast_view_that_others_share() -> None:
    grad = fg.grad(lambda x: fnp.sum(x))(np.ones(3))
    array = np.asarray(grad)
    assert_array_equal(array, np.ones(3))
    assert not array.flags.writeable


# ------------------------------------------------------------------------------ complex


def test_a_complex_gradient_is_dx_plus_i_dy() -> None:
    z = 1.5 - 0.7j
    assert_same(fg.grad(lambda z: z.real**2 * z.imag)(z), 2 * 1.5 * -0.7 + 1j * 1.5**2)
    assert_same(fg.grad(lambda z: abs(z) ** 2)(z), 2 * z)


def test_a_step_along_minus_the_complex_gradient_descends() -> None:
    def loss(z):
        return fnp.sum(abs(z * z - (3 + 4j)) ** 2)

    z = complex_numbers(3)
    for _ in range(400):
        z = z - 0.01 * fg.grad(loss)(z)
    assert_allclose(float(loss(z)), 0.0, atol=1e-9)


def test_the_pullback_is_adjoint_under_the_real_inner_product() -> None:
    def f(z, x):
        return fnp.exp(z) * x, fnp.conj(z) * z * 1j + x

    z, x = complex_numbers(3), numbers(3, seed=1)
    dz, dx = complex_numbers(3, seed=2), numbers(3, seed=3)
    u, v = complex_numbers(3, seed=4), complex_numbers(3, seed=5)
    _, (du, dv) = fg.jvp(f, (z, x), (dz, dx))
    _, pullback = fg.vjp(f, z, x)
    cz, cx = pullback((u, v))
    assert cx.dtype == np.float64
    forward = np.sum((np.conj(u) * du + np.conj(v) * dv).real)
    backward = np.sum((np.conj(cz) * dz).real) + np.sum(cx * dx)
    assert_allclose(float(forward), float(backward))


# ------------------------------------------------------------------------------ pullbacks


def test_a_pullback_can_be_called_many_times() -> None:
    out, pullback = fg.vjp(lambda x, y: {"a": x * y, "b": (x, y)}, 2.0, 3.0)
    assert_same(out, {"a": 6.0, "b": (2.0, 3.0)})
    for scale in (1.0, -2.0, 0.0):
        ct = {"a": scale, "b": (1.0, 0.0)}
        assert_same(pullback(ct), (3.0 * scale + 1.0, 2.0 * scale))


def test_a_pullback_is_linear() -> None:
    x = numbers(3)
    _, pullback = fg.vjp(lambda x: fnp.exp(x) * x[::-1], x)
    u, v = numbers(3, seed=1), numbers(3, seed=2)
    both = 2.0 * pullback(u)[0] - 3.0 * pullback(v)[0]
    assert_same(pullback(2.0 * u - 3.0 * v)[0], both)


def test_a_pullback_under_vmap_and_grad_and_jvp() -> None:
    x = numbers(3)
    _, pullback = fg.vjp(lambda x: fnp.sin(x), x)
    (rows,) = fg.vmap(pullback)(np.eye(3))
    assert_same(rows, np.diag(np.cos(x)))
    assert_same(fg.grad(lambda ct: fnp.sum(pullback(ct)[0]))(np.ones(3)), np.cos(x))
    assert_same(fg.jvp(lambda ct: pullback(ct)[0], (x,), (x,))[1], x * np.cos(x))


def test_a_pullback_of_a_value_that_is_being_differentiated() -> None:
    def f(x):
        _, pullback = fg.vjp(lambda y: y**3, x)
        return pullback(1.0)[0] + pullback(x)[0]

    assert_same(fg.grad(f)(2.0), 6 * 2.0 + 9 * 2.0**2)


def test_integer_results_take_any_cotangent() -> None:
    out, pullback = fg.vjp(lambda x: (x * 2, fnp.argmax(x)), np.array([1.0, 3.0]))
    assert_same(out, (np.array([2.0, 6.0]), np.int64(1)))
    assert_same(pullback((np.ones(2), 0)), (np.array([2.0, 2.0]),))


def test_arrays_count_as_they_were_when_they_met_an_operation() -> None:
    x, scale, picked = np.ones(3), np.full(3, 2.0), np.array([0, 2])
    out, pullback = fg.vjp(lambda x: (x * scale)[picked] @ scale[:2], x)
    x[:] = scale[:] = np.nan
    picked[:] = 1
    assert_same(out, 8.0)
    assert_same(pullback(1.0), (np.array([4.0, 0.0, 4.0]),))


def test_a_long_chain_needs_no_recursion() -> None:
    def f(x):
        for _ in range(20_000):
            x = x + 1e-6
        return x * x

    assert_same(fg.grad(f)(1.0), 2 * (1.0 + 20_000e-6), rtol=1e-6)


# ----------------------------------------------------------------------- nesting and closures


def test_derivatives_of_every_order() -> None:
    f, expected = fnp.exp, np.exp(0.3)
    for _ in range(5):
        f = fg.grad(f)
        assert_same(f(0.3), expected)


def test_no_perturbation_confusion() -> None:
    def outer(x):
        return x * fg.grad(lambda y: x + y)(2.0)

    assert_same(fg.grad(outer)(1.0), 1.0)

    def product(x):
        return fg.grad(lambda y: x * y * y)(x) * x  # 2 x² · x

    assert_same(fg.grad(product)(3.0), 6 * 3.0**2)


def test_closures_over_outer_tracers_at_every_level() -> None:
    def f(a):
        def g(b):
            def h(c):
                return a * b * c * c

            return fg.grad(h)(b) * a  # 2 a² b²

        return fg.grad(g)(a)  # 4 a² b at b = a

    assert_same(fg.grad(f)(2.0), 12 * 2.0**2)


def test_grad_of_vmap_of_grad() -> None:
    x = numbers(4)

    def f(scale):
        return fnp.sum(fg.vmap(fg.grad(lambda v: scale * v**3))(x))

    assert_same(fg.grad(f)(2.0), np.sum(3 * x**2))
    assert_same(fg.grad(lambda x: fnp.sum(fg.vmap(fg.grad(lambda v: v**3))(x)))(x), 6 * x)


def test_per_example_gradients_equal_a_loop() -> None:
    params = {"w": numbers(3, 2), "b": numbers(2, seed=1)}
    inputs, targets = numbers(5, 3, seed=2), numbers(5, 2, seed=3)

    def loss(p, x, y):
        return fnp.sum((fnp.tanh(x @ p["w"] + p["b"]) - y) ** 2)

    grads = fg.vmap(fg.grad(loss), in_axes=(None, 0, 0))(params, inputs, targets)
    for k in range(5):
        one = fg.grad(loss)(params, inputs[k], targets[k])
        assert_same(pytrees.map(lambda g, k=k: g[k], grads), one)


def test_jvp_of_vmap_of_vjp() -> None:
    x, t = numbers(4), numbers(4, seed=1)

    def f(x):
        return fg.vmap(lambda v: fg.vjp(fnp.sin, v)[1](v)[0])(x)

    out, tangent = fg.jvp(f, (x,), (t,))
    assert_same(out, np.cos(x) * x)
    assert_same(tangent, (np.cos(x) - x * np.sin(x)) * t)


def test_control_flow_may_look_at_truth_values_and_integers() -> None:
    def f(x, n):
        for _ in range(int(x)):
            x = x * x if x > 1 else x + 1
        return x[None][fnp.argmax(x[None])] if n else -x

    assert_same(fg.grad(f)(2.5, True), 4 * 2.5**3)


# ----------------------------------------------------------------------- plain NumPy


def test_functions_of_plain_numpy_differentiate_unchanged() -> None:
    def f(x):
        return np.sum(np.sin(x) ** 2 + np.maximum(x, 0.0)) / np.size(x) + np.mean(np.exp(-x))

    x = np.array([-1.0, 0.5, 2.0])
    expected = (np.sin(2 * x) + (x > 0)) / 3 - np.exp(-x) / 3
    assert_same(fg.grad(f)(x), expected)
    assert_same(fg.jvp(f, (x,), (np.ones(3),))[1], expected.sum())


def test_arrays_on_the_left_of_an_operator() -> None:
    a = numbers(3, 3)
    x = numbers(3, seed=1)
    assert_same(fg.grad(lambda x: np.sum(a @ x))(x), a.sum(0))
    assert_same(fg.grad(lambda x: np.sum(a * x))(x), a.sum(0))
    assert_same(fg.grad(lambda x: np.sum(np.float64(2.0) / x))(x), -2 / x**2)
    assert_same(fg.grad(lambda x: np.sum(a[0] - x))(x), -np.ones(3))


# ----------------------------------------------------------------------- guarded branches


def test_where_keeps_the_other_branch_out_at_any_order() -> None:
    def f(x):
        return fnp.where(x > 0, fnp.sqrt(x), 0.0)

    g = f
    for _ in range(3):
        g = fg.grad(g)
        assert_same(g(-1.0), 0.0)
        assert_same(g(0.0), 0.0)


def test_warnings_of_masked_branches_are_silent_and_numpy_s_settings_are_kept() -> None:
    assert_same(fg.grad(lambda x: fnp.where(x > 0, fnp.log(x), x))(0.0), 1.0)
    before = np.geterr()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fg.grad(lambda x: fnp.log(x))(0.0)
    assert np.geterr() == before

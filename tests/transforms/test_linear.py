"""linearize and linear_transpose: what a user may rely on."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DifferentiationError
from tests.backends.fake_device import FakeDevice
from tests.together import together
from tests.transforms.support import Layer, assert_same, complex_numbers, numbers

# --------------------------------------------------------------------------------- linearize


def test_linearize_is_jvp_at_a_fixed_point() -> None:
    def f(x, p):
        return {"a": fnp.sin(x) * p[0], "b": (p[1] @ x, x > 0)}

    x, p = numbers(3), (numbers(), numbers(2, 3, seed=1))
    out, push = fg.linearize(f, x, p)
    for seed in range(3):
        t, q = numbers(3, seed=seed), (numbers(seed=seed + 5), numbers(2, 3, seed=seed + 9))
        expected = fg.jvp(f, (x, p), (t, q))
        assert_same((out, push(t, q)), fg.tree.map(np.asarray, expected))


def test_linearize_evaluates_once() -> None:
    calls = []

    def f(x):
        calls.append(x.shape)
        return x**3

    out, push = fg.linearize(f, 2.0)
    assert_same((out, push(1.0), push(2.0), push(0.0)), (8.0, 12.0, 24.0, 0.0))
    assert calls == [()]


def test_the_push_works_under_every_transformation() -> None:
    x = numbers(3)
    _, push = fg.linearize(fnp.sin, x)
    assert_same(fg.vmap(push)(np.eye(3)), np.diag(np.cos(x)))
    assert_same(fg.grad(lambda t: fnp.sum(push(t)))(x), np.cos(x))
    assert_same(fg.linear_transpose(push, x)(x), (np.cos(x) * x,))
    out, again = fg.linearize(push, x)
    assert_same((out, again(x)), (np.cos(x) * x, np.cos(x) * x))


def test_linearize_inside_a_gradient() -> None:
    def f(x):
        out, push = fg.linearize(lambda y: x * y**2, x)
        return out + push(x)  # x³ + 2 x³

    assert_same(fg.grad(f)(2.0), 9 * 4.0)


def test_linearize_of_constants_and_empty_trees() -> None:
    out, push = fg.linearize(lambda x, t: (1.0, x[0:0]), np.ones(2), {})
    assert_same(out, (1.0, np.ones(0)))
    assert_same(push(np.ones(2), {}), (0.0, np.zeros(0)))


def test_linearize_through_custom_rules_and_checkpoints() -> None:
    @fg.custom_jvp
    def cube(x):
        return x**3

    @cube.defjvp
    def _(primals, tangents):
        return primals[0] ** 3, 30.0 * primals[0] ** 2 * tangents[0]

    @fg.custom_vjp
    def square(x):
        return x**2

    square.defvjp(lambda x: (x**2, x), lambda x, ct: (20.0 * x * ct,))

    _, push = fg.linearize(lambda x: fg.checkpoint(lambda y: cube(y) + square(y) + y)(x), 2.0)
    assert_same(push(1.0), 120.0 + 40.0 + 1.0)


# --------------------------------------------------------------------------------- transposes


def test_the_transpose_of_a_matrix_product() -> None:
    matrix, u = numbers(2, 3), numbers(2, seed=1)
    transposed = fg.linear_transpose(lambda x: matrix @ x, np.zeros(3))
    assert_same(transposed(u), (matrix.T @ u,))
    assert_same(fg.vmap(transposed)(np.eye(2)), (matrix,))


def linear_functions() -> dict[str, Any]:
    c = numbers(4, seed=3)
    return {
        "scale": lambda x: 3.0 * x / c,
        "slice": lambda x: x[::-2],
        "gather": lambda x: x[np.array([0, 0, 3])],
        "reshape": lambda x: x.reshape(2, 2).T,
        "sum": lambda x: fnp.sum(x) * fnp.ones(2),
        "mean": fnp.mean,
        "cumsum": fnp.cumsum,
        "concatenate": lambda x: fnp.concatenate([x, -x, x - x[0]]),
        "where": lambda x: fnp.where(c > 0, x, 0.0),
        "select": lambda x: fnp.where(c > 0, x, 2 * x),
        "matmul": lambda x: fnp.outer(c, c) @ x,
        "dot": lambda x: c @ x,
        "cast": lambda x: x.astype("f").astype("d"),
        "nested": lambda x: fg.vmap(lambda v: v * c)(x),
        "tangent": lambda x: fg.jvp(fnp.sin, (c,), (x,))[1],
        "cotangent": lambda x: fg.vjp(fnp.sin, c)[1](x)[0],
        "nothing": lambda x: fnp.zeros(3),
    }


@together("name", linear_functions())
def test_adjointness(name: str) -> None:
    f = linear_functions()[name]
    x = numbers(4)
    out = np.asarray(f(fg.tensor(x)))
    u = numbers(*out.shape, seed=1)
    (pulled,) = fg.linear_transpose(f, x)(u)
    np.testing.assert_allclose(float(fnp.sum(pulled * x)), np.sum(u * out), rtol=1e-6, atol=1e-12)


def test_complex_transposes_are_adjoint_under_the_real_inner_product() -> None:
    a, z, u = complex_numbers(3, seed=1), complex_numbers(3), complex_numbers(3, seed=2)
    for f in (lambda z: a * z, lambda z: a * fnp.conj(z), lambda z: fnp.real(z) * a):
        (pulled,) = fg.linear_transpose(f, z)(u)
        np.testing.assert_allclose(
            np.sum((np.conj(np.asarray(pulled)) * z).real),
            np.sum((u.conj() * np.asarray(f(fg.tensor(z)))).real),
        )


def test_trees_and_several_arguments() -> None:
    def f(layer, y):
        return {"sum": layer.weight + y, "twice": 2.0 * layer.bias}

    transposed = fg.linear_transpose(f, Layer(1.0, np.ones(2)), 1.0)
    assert_same(transposed({"sum": 5.0, "twice": np.ones(2)}), (Layer(5.0, np.full(2, 2.0)), 5.0))


def test_the_transpose_of_the_transpose() -> None:
    matrix, x = numbers(2, 3), numbers(3)
    transposed = fg.linear_transpose(lambda x: matrix @ x, x)
    again = fg.linear_transpose(lambda u: transposed(u)[0], np.zeros(2))
    assert_same(again(x), (matrix @ x,))


def test_only_shapes_and_dtypes_of_the_example_matter() -> None:
    transposed = fg.linear_transpose(lambda x: 2.0 * x, np.full(2, np.nan, np.float32))
    assert_same(transposed(np.array([1, 2], np.float32)), (np.array([2, 4], np.float32),))


def test_coefficients_may_be_traced() -> None:
    def f(c):
        return fg.linear_transpose(lambda x: c * x, 0.0)(3.0)[0]

    assert_same(fg.grad(f)(5.0), 3.0)
    assert_same(fg.vmap(f)(np.arange(3.0)), 3 * np.arange(3.0))


@together(
    ("f", "reason"),
    [
        (lambda x: x * x, "multiply is not linear in argument(s) 0, 1"),
        (lambda x: fnp.sin(x), "sin is not linear"),
        (lambda x: 1.0 / x, "divide is not linear in argument(s) 1"),
        (lambda x: x**2, "square is not linear"),
        (lambda x: abs(x), "absolute is not linear"),
        (lambda x: fnp.max(x), "max is not linear"),
        (lambda x: fnp.maximum(x, 0.0), "maximum is not linear"),
        (lambda x: fnp.prod(x), "prod is not linear"),
        (lambda x: x @ x, "matmul is not linear in argument(s) 0, 1"),
        (lambda x: fnp.where(x > 0, x, 0.0), "greater is not linear"),
        (lambda x: fnp.floor(x), "floor is not linear"),
        (lambda x: x % 2.0, "remainder is not linear"),
        (lambda x: x + 1.0, "affine: add adds a constant"),
        (lambda x: x - np.ones(3), "affine: subtract adds a constant"),
        (lambda x: fnp.where(np.array([True, False, True]), x, 1.0), "affine: where adds"),
        (lambda x: fnp.concatenate([x, np.ones(1)]), "affine: concatenate adds"),
        (lambda x: (x, 1.0), "returns a constant that is not zero"),
    ],
)
def test_what_is_not_linear_is_refused_by_name(f: Any, reason: str) -> None:
    with pytest.raises(DifferentiationError, match="linear_transpose: the function") as caught:
        fg.linear_transpose(f, np.ones(3))
    assert reason in str(caught.value)


def test_a_constant_on_a_device_is_refused_by_name() -> None:
    device = FakeDevice("fake:affine")
    x, one = fg.put((np.ones(3), np.ones(1)), device)
    cases: list[tuple[Any, str]] = [
        (lambda x: x + 1.0, "affine: add adds a constant"),
        (lambda x: fnp.concatenate([x, one]), "affine: concatenate adds a constant"),
        (lambda x: (x - one)[:0], "affine: subtract adds a constant"),
        (lambda x: (x, one), "returns a constant"),
        (lambda x: fg.fori_loop(0, 2, lambda i, y: y + one, x), "affine"),
    ]
    for f, reason in cases:
        with pytest.raises(DifferentiationError, match=f"linear_transpose: .*{reason}"):
            fg.linear_transpose(f, x)
    gets = device.counts.gets
    transposed = fg.linear_transpose(lambda x: fnp.sin(one) * x + 0.0 * one, x)
    assert device.counts.gets == gets + 2  # whether an operation, or the result, is not zero
    np.testing.assert_allclose(transposed(x)[0], np.sin(np.ones(3)))

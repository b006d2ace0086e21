"""Laws that hold for every function, tested on functions and arrays that hypothesis makes.

A program is a short list of instructions on vectors of three numbers. All are smooth everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.testing import laws

pytestmark = pytest.mark.slow

Vector = np.ndarray
Function = Callable[[Any], Any]

SIZE = 3
MATRIX = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.1, 0.7, 0.2]])

# Each takes one or two vectors and returns one, of a size that stays moderate.
UNARY: dict[str, Function] = {
    "sin": fnp.sin,
    "tanh": fnp.tanh,
    "gauss": lambda x: fnp.exp(-x * x),
    "sigmoid": fg.nn.sigmoid,
    "root": lambda x: fnp.sqrt(1 + x * x),
    "log": lambda x: fnp.log(2 + x * x),
    "inverse": lambda x: 1 / (1 + x * x),
    "arctan": fnp.arctan,
    "matrix": lambda x: MATRIX @ x,
    "reverse": lambda x: x[::-1],
    "roll": lambda x: fnp.roll(x, 1),
    "running sum": fnp.cumsum,
    "mean": lambda x: fnp.mean(x) + 0 * x,
    "normalize": lambda x: x / fnp.sqrt(1 + fnp.sum(x * x)),
    "softmax": fg.nn.softmax,
    "gather": lambda x: x[np.array([2, 0, 0])],
    "pieces": lambda x: fnp.concatenate([x[1:], x[:1] * 2.0]),
    "outer": lambda x: fnp.sum(fnp.outer(x, fnp.cos(x)), axis=0),
    "update": lambda x: x.at[1].multiply(x[0]),
    "choose": lambda x: fnp.where(np.array([True, False, True]), fnp.sin(x), x),
    "checkpoint": fg.checkpoint(lambda x: fnp.sin(x) * x),
    "constant": lambda x: fnp.ones(SIZE) * 0.5,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / (1 + y * y),
    "arctan2": lambda x, y: fnp.arctan2(x, 2 + y * y),
    "logaddexp": fnp.logaddexp,
    "hypot": lambda x, y: fnp.hypot(x, 1 + y * y),
    "power": lambda x, y: (1 + x * x) ** fnp.tanh(y),
    "dot": lambda x, y: fnp.dot(x, y) + 0 * x,
}
LINEAR = ("matrix", "reverse", "roll", "running sum", "mean", "gather", "pieces")

numbers = st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 3))
vectors = st.lists(numbers, min_size=SIZE, max_size=SIZE).map(np.array)
scalars = numbers


class Program:
    """A function made of instructions, each of which uses earlier results."""

    def __init__(self, instructions: list[tuple[str, int, int]]) -> None:
        self.instructions = instructions

    def __repr__(self) -> str:
        return f"Program({self.instructions})"

    def __call__(self, x: Any) -> Any:
        made = [x]
        for name, first, second in self.instructions:
            a, b = made[first % len(made)], made[second % len(made)]
            y = UNARY[name](a) if name in UNARY else BINARY[name](a, b)
            made.append(fnp.tanh(y) if name == "multiply" else y)
        return made[-1]


places = st.integers(0, 5)
instructions = st.tuples(st.sampled_from([*UNARY, *BINARY]), places, places)
programs = st.lists(instructions, min_size=1, max_size=6).map(Program)
linear_instructions = st.tuples(st.sampled_from([*LINEAR, "add", "subtract"]), places, places)
linear_programs = st.lists(linear_instructions, min_size=1, max_size=6).map(Program)


def value(x: Any) -> Vector:
    return np.asarray(x)


def total(f: Function) -> Function:
    return lambda x: fnp.sum(f(x))


def near(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    expected = value(expected)
    scale = max(1.0, float(np.max(abs(expected), initial=0.0)))
    assert_allclose(value(actual), expected, rtol=tolerance, atol=tolerance * scale)


# ---------------------------------------------------------------------------------- first order


LAWS = (
    laws.modes_agree,
    laws.grad_is_numerical,
    laws.hessian_symmetric,
    laws.vmap_is_loop,
    laws.pure,
)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(f=programs, x=vectors)
def test_laws_of_a_function(law: Any, f: Program, x: Vector) -> None:
    law(f, (fg.tensor(x),))


@given(programs, vectors, vectors)
def test_values_that_come_with_derivatives(f: Program, x: Vector, v: Vector) -> None:
    for out in (fg.jvp(f, (x,), (v,))[0], fg.vjp(f, x)[0]):
        assert_array_equal(out, f(fg.tensor(x)))


@given(programs, vectors, vectors, vectors, scalars)
def test_tangents_are_linear(f: Program, x: Vector, v: Vector, w: Vector, a: float) -> None:
    def push(t: Vector) -> Vector:
        return value(fg.jvp(f, (x,), (t,))[1])

    near(push(a * v + w), a * push(v) + push(w))


@given(programs, vectors, vectors, vectors, scalars)
def test_cotangents_are_linear(f: Program, x: Vector, u: Vector, w: Vector, a: float) -> None:
    _, pullback = fg.vjp(f, x)
    near(pullback(a * u + w)[0], a * value(pullback(u)[0]) + value(pullback(w)[0]))


@given(programs, programs, vectors, scalars, scalars)
def test_gradients_are_linear(f: Program, g: Program, x: Vector, a: float, b: float) -> None:
    found = fg.grad(lambda x: fnp.sum(a * f(x) + b * g(x)))(x)
    near(found, a * value(fg.grad(total(f))(x)) + b * value(fg.grad(total(g))(x)))


@given(programs, programs, vectors)
def test_the_chain_rule(f: Program, g: Program, x: Vector) -> None:
    laws.chain_rule(g)(f, (fg.tensor(x),))


@given(programs, programs, vectors, vectors)
def test_the_product_rule(f: Program, g: Program, x: Vector, v: Vector) -> None:
    (a, da), (b, db) = fg.jvp(f, (x,), (v,)), fg.jvp(g, (x,), (v,))
    near(fg.jvp(lambda x: f(x) * g(x), (x,), (v,))[1], da * b + a * db)
    _, pull_f = fg.vjp(f, x)
    _, pull_g = fg.vjp(g, x)
    expected = value(pull_f(v * b)[0]) + value(pull_g(v * a)[0])
    near(fg.vjp(lambda x: f(x) * g(x), x)[1](v)[0], expected)


@given(programs, vectors)
def test_jacobians_agree(f: Program, x: Vector) -> None:
    forward, reverse = fg.jacfwd(f)(x), fg.jacrev(f)(x)
    near(forward, reverse)
    columns = [value(fg.jvp(f, (x,), (e,))[1]) for e in np.eye(SIZE)]
    near(forward, np.stack(columns, axis=1))


@given(programs, vectors)
def test_what_is_stopped_is_constant(f: Program, x: Vector) -> None:
    found = fg.grad(lambda x: fnp.sum(x * fg.stop_gradient(f(x))))(x)
    near(found, f(fg.tensor(x)))


# ---------------------------------------------------------------------------------- second order


@given(programs, vectors)
def test_hessians_are_symmetric_and_agree(f: Program, x: Vector) -> None:
    hessian = value(fg.hessian(total(f))(x))
    near(hessian, hessian.T)
    near(fg.jacrev(fg.grad(total(f)))(x), hessian)
    near(fg.jacfwd(fg.jacfwd(total(f)))(x), hessian)
    near(fg.jacrev(fg.jacfwd(total(f)))(x), hessian)


@given(programs, vectors, vectors)
def test_hessian_vector_products(f: Program, x: Vector, v: Vector) -> None:
    expected = value(fg.hessian(total(f))(x)) @ v
    near(fg.hvp(total(f), (x,), (v,)), expected)
    near(fg.jvp(fg.grad(total(f)), (x,), (v,))[1], expected)
    near(fg.grad(lambda x: fnp.dot(fg.grad(total(f))(x), v))(x), expected)
    near(fg.grad(lambda x: fg.jvp(total(f), (x,), (v,))[1])(x), expected)


@given(programs, vectors, vectors, vectors)
def test_third_derivatives_do_not_depend_on_the_modes(
    f: Program, x: Vector, v: Vector, w: Vector
) -> None:
    def along(g: Function, t: Vector) -> Function:
        return lambda x: fg.jvp(g, (x,), (t,))[1]

    def back(g: Function) -> Function:
        return lambda x: fnp.dot(fg.grad(total(g))(x), v)

    expected = along(along(along(total(f), v), v), w)(x)
    near(along(back(along(f, v)), w)(x), expected, 1e-8)
    near(fnp.dot(fg.grad(back(back(f)))(x), w), expected, 1e-8)


# ---------------------------------------------------------------------------------- batches


@given(programs, st.lists(vectors, min_size=1, max_size=4).map(np.stack))
def test_the_gradient_of_a_batch_is_a_loop(f: Program, xs: Any) -> None:
    gradients = [value(fg.grad(total(f))(x)) for x in xs]
    near(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(xs), np.stack(gradients))


@given(programs, vectors, st.integers(-2, 1), st.integers(-2, 1))
def test_axes_go_where_they_are_said_to_go(f: Program, x: Vector, i: int, o: int) -> None:
    rows = np.stack([x, x / 2])
    found = fg.vmap(f, in_axes=i, out_axes=o)(np.moveaxis(rows, 0, i))
    near(np.moveaxis(value(found), o, 0), fg.vmap(f)(rows), 1e-13)


@given(programs, vectors)
def test_batches_of_hessians(f: Program, x: Vector) -> None:
    rows = np.stack([x, -x])
    near(fg.vmap(fg.hessian(total(f)))(rows), np.stack([fg.hessian(total(f))(r) for r in rows]))


@given(programs, vectors, vectors)
def test_a_batch_of_tangents_is_a_jacobian(f: Program, x: Vector, v: Vector) -> None:
    _, push = fg.linearize(f, x)
    near(value(fg.vmap(push)(np.eye(SIZE))).T @ v, push(v))
    _, pullback = fg.vjp(f, x)
    near(v @ value(fg.vmap(pullback)(np.eye(SIZE))[0]), pullback(v)[0])


# ---------------------------------------------------------------------------------- linear maps


@given(programs, vectors, vectors)
def test_linearize_is_forward_mode(f: Program, x: Vector, v: Vector) -> None:
    out, push = fg.linearize(f, x)
    expected = fg.jvp(f, (x,), (v,))
    assert_array_equal(out, expected[0])
    near(push(v), expected[1], 1e-12)


@given(linear_programs, vectors, vectors)
def test_the_transpose_of_the_transpose(f: Program, x: Vector, u: Vector) -> None:
    transposed = fg.linear_transpose(f, x)
    near(np.dot(value(transposed(u)[0]), x), np.dot(u, value(f(fg.tensor(x)))))
    twice = fg.linear_transpose(lambda u: transposed(u)[0], u)
    near(twice(x)[0], f(fg.tensor(x)), 1e-12)


@given(programs, vectors, vectors)
def test_the_transpose_of_a_linearization_is_the_pullback(f: Program, x: Vector, u: Vector) -> None:
    _, push = fg.linearize(f, x)
    near(fg.linear_transpose(push, x)(u)[0], fg.vjp(f, x)[1](u)[0], 1e-12)


@given(linear_programs, vectors, vectors)
def test_linear_functions_are_their_own_derivative(f: Program, x: Vector, v: Vector) -> None:
    near(fg.jvp(f, (x,), (v,))[1], f(fg.tensor(v)), 1e-12)
    near(fg.hessian(total(f))(x), np.zeros((SIZE, SIZE)))


# ---------------------------------------------------------------------------------- rules, repeated


@given(programs, vectors)
def test_checkpoints_change_nothing(f: Program, x: Vector) -> None:
    assert_array_equal(fg.grad(fg.checkpoint(total(f)))(x), fg.grad(total(f))(x))
    near(fg.hessian(fg.checkpoint(total(f)))(x), fg.hessian(total(f))(x), 1e-12)


@given(programs, vectors, vectors)
def test_rules_that_repeat_the_derivative_change_nothing(f: Program, x: Vector, v: Vector) -> None:
    def forward(x):
        return fg.vjp(f, x)

    @fg.custom_vjp
    def reverse_ruled(x):
        return f(x)

    reverse_ruled.defvjp(forward, lambda pullback, ct: pullback(ct))

    @fg.custom_jvp
    def forward_ruled(x):
        return f(x)

    forward_ruled.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    expected = fg.grad(total(f))(x)
    near(fg.grad(total(forward_ruled))(x), expected, 1e-12)
    near(fg.jvp(forward_ruled, (x,), (v,))[1], fg.jvp(f, (x,), (v,))[1], 1e-12)
    near(fg.grad(total(reverse_ruled))(x), expected, 1e-12)


def test_large_cotangents_that_broadcast() -> None:
    # From some size on cotangents are added in place, the small ones of sums among them.
    x = np.random.default_rng(0).standard_normal((3000, 4))
    w = np.arange(3000.0)[:, None]

    def f(x):
        y = x * 2
        parts = fnp.sum(fnp.where(x > 0, y, 0)) + fnp.sum(y[1:]) + fnp.sum(y[:, 1])
        return parts + sum(fnp.sum(fnp.sum(y, axis=1, keepdims=True) * w) for _ in range(2))

    expected = 2 * ((x > 0) + 2 * w)
    expected[1:] += 2
    expected[:, 1] += 2
    assert_allclose(fg.grad(f)(x), expected)


@pytest.mark.parametrize("shape", [(), (7,), (300, 300)])
def test_the_cotangent_of_a_number_is_one_sum(shape: tuple[int, ...]) -> None:
    """The sum has the bits of NumPy's, which adds in pairs, also under jit."""
    x = np.asarray(np.random.default_rng(0).standard_normal(shape))

    def f(scale: Any) -> Any:
        return fnp.sum(scale * x)

    assert fg.grad(f)(2.0) == np.sum(x) == fg.jit(fg.grad(f))(2.0)

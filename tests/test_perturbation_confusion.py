"""Nested derivatives keep their variables apart: in all mixtures of modes, closures, threads."""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

Function = Callable[[Any], Any]
Operator = Callable[[Function], Function]


def forward(f: Function) -> Function:
    return lambda x: fg.jvp(f, (x,), (1.0,))[1]


def reverse(f: Function) -> Function:
    return fg.grad(f)


def pulled(f: Function) -> Function:
    return lambda x: fg.vjp(f, x)[1](1.0)[0]


def pushed(f: Function) -> Function:
    return lambda x: fg.linearize(f, x)[1](1.0)


def jacobian(f: Function) -> Function:
    return fg.jacfwd(f)


def batched(f: Function) -> Function:
    return lambda x: fg.vmap(fg.grad(f))(fnp.stack([x, x]))[1]


def remembered(f: Function) -> Function:
    return fg.grad(fg.checkpoint(f))


OPERATORS = (forward, reverse, pulled, pushed, jacobian, batched, remembered)


def every_mixture(depth: int, operators: tuple[Operator, ...] = OPERATORS) -> Any:
    """A test of all sequences of operators, the outermost first."""
    names = ("outer", "inner", "innermost")[:depth]
    return together(names, itertools.product(operators, repeat=depth))


# ---------------------------------------------------------------------------------- the classics


@every_mixture(2)
def test_siskind_and_pearlmutter(outer: Operator, inner: Operator) -> None:
    # d/dx (x * d/dy (x + y)) is 1; confusing the two perturbations gives 2.
    assert_allclose(outer(lambda x: x * inner(lambda y: x + y)(1.0))(1.0), 1.0)


@every_mixture(2)
def test_the_inner_function_is_constant_in_its_own_variable(
    outer: Operator, inner: Operator
) -> None:
    assert_allclose(outer(lambda x: x * inner(lambda y: x * x + 0 * y)(1.0))(3.0), 0.0)
    assert_allclose(outer(lambda x: inner(lambda y: y * y)(2.0) + 0 * x)(3.0), 0.0)


@every_mixture(2)
def test_products_of_outer_and_inner_variable(outer: Operator, inner: Operator) -> None:
    # d/dx [x d/dy (x y^2)] at y = 3 is d/dx 6 x^2
    assert_allclose(outer(lambda x: x * inner(lambda y: x * y * y)(3.0))(2.0), 24.0)
    # the inner point depends on x: d/dx [d/dy (x y^2) at y = x^2] = d/dx 2 x^3
    assert_allclose(outer(lambda x: inner(lambda y: x * y * y)(x * x))(2.0), 24.0)


@every_mixture(2)
def test_functions_that_return_functions(outer: Operator, inner: Operator) -> None:
    # Siskind and Pearlmutter's s(u)(g)(x) = g(x + u): the derivative of a curried function.
    def shift(u: Any) -> Callable[[Function], Function]:
        return lambda g: lambda x: g(x + u)

    def shifted_slope(g: Function) -> Function:
        return lambda x: outer(lambda u: shift(u)(g)(x))(0.0)

    assert_allclose(shifted_slope(fnp.exp)(1.0), np.e)
    twice = shifted_slope(lambda x: inner(fnp.exp)(x))
    assert_allclose(twice(1.0), np.e)
    assert_allclose(outer(lambda u: inner(lambda v: shift(u)(shift(v)(fnp.sin))(0.5))(0.0))(0.0),
                    -np.sin(0.5))  # fmt: skip


@every_mixture(3, (forward, reverse, pushed, batched))
def test_three_levels(outer: Operator, inner: Operator, innermost: Operator) -> None:
    def f(x):
        def g(y):
            return y * innermost(lambda z: x * y * z * z)(x)  # 2 x^2 y^2

        return inner(g)(x * 2)  # 4 x^2 y at y = 2 x: 8 x^3

    assert_allclose(outer(f)(1.5), 24 * 1.5**2)


@every_mixture(3, (forward, reverse, pushed))
def test_the_middle_level_may_be_left_out(
    outer: Operator, inner: Operator, innermost: Operator
) -> None:
    # The innermost function sees the outermost variable only.
    found = outer(lambda x: inner(lambda y: y * innermost(lambda z: x * z)(y * 0 + 1.0))(2.0))(3.0)
    assert_allclose(found, 1.0)


@every_mixture(2)
def test_derivatives_of_the_same_function_object(outer: Operator, inner: Operator) -> None:
    def f(x):
        return x**3

    slope = inner(f)
    assert_allclose(outer(lambda x: slope(x) * f(x) * slope(2.0))(1.0), 15.0 * 12.0)
    assert_allclose(outer(slope)(2.0), 12.0)


# ---------------------------------------------------------------------------------- closures


@every_mixture(2, (forward, reverse, pushed, pulled))
def test_pullbacks_of_outer_functions_called_within(outer: Operator, inner: Operator) -> None:
    def f(x):
        out, pullback = fg.vjp(lambda y: x * y * y, x)
        return inner(lambda ct: pullback(ct * x)[0] * out)(1.0)  # 2 x^2 * x * x^3

    assert_allclose(outer(f)(1.5), 12 * 1.5**5)


@together("outer", OPERATORS)
def test_a_pullback_handed_out_of_an_inner_level(outer: Operator) -> None:
    def f(x):
        pullbacks = []

        def g(y):
            _, pullback = fg.vjp(lambda z: x * z * z, x)
            pullbacks.append(pullback)
            return x * y

        fg.grad(g)(2.0)
        return pullbacks[0](1.0)[0]  # 2 x^2

    assert_allclose(outer(f)(3.0), 12.0)


def test_an_outer_tracer_as_tangent_and_as_cotangent() -> None:
    assert_allclose(fg.grad(lambda t: fg.jvp(lambda x: x * x * t, (3.0,), (t,))[1])(2.0), 24.0)
    assert_allclose(fg.grad(lambda t: fg.vjp(lambda x: x * x * t, 3.0)[1](t)[0])(2.0), 24.0)
    assert_allclose(
        fg.jvp(lambda t: fg.linearize(lambda x: x * x * t, 3.0)[1](t), (2.0,), (1.0,))[1], 24.0
    )


def test_both_variables_meet_at_both_levels() -> None:
    def f(x, y):
        return fg.grad(lambda a, b: fnp.sin(a * y) * fnp.cos(b * x), argnums=(0, 1))(x, y)

    def sum_of_parts(x, y):
        a, b = f(x, y)
        return a * b

    def reference(x, y):
        a = y * np.cos(x * y) * np.cos(y * x)
        b = -x * np.sin(x * y) * np.sin(y * x)
        return a * b

    found = fg.grad(sum_of_parts, argnums=(0, 1))(0.7, 1.3)
    h = 1e-6
    expected = (
        (reference(0.7 + h, 1.3) - reference(0.7 - h, 1.3)) / (2 * h),
        (reference(0.7, 1.3 + h) - reference(0.7, 1.3 - h)) / (2 * h),
    )
    assert_allclose(found, expected, rtol=1e-8)


def test_vmap_inside_and_outside_closing_over_the_batch() -> None:
    x = np.array([1.0, 2.0, 3.0])
    found = fg.vmap(
        lambda x: fg.grad(lambda y: fnp.sum(fg.vmap(lambda z: x * y * z)(x * fnp.ones(2))))(x)
    )(x)
    assert_allclose(found, 2 * x**2)


def test_a_gradient_step_within_a_gradient() -> None:
    # MAML in one line: d/dw L(w - a L'(w)) = L'(w - a L'(w)) (1 - a L''(w))
    def loss(w):
        return w**4

    found = fg.grad(lambda w: loss(w - 0.1 * fg.grad(loss)(w)))(0.5)
    moved = 0.5 - 0.1 * 4 * 0.5**3
    assert_allclose(found, 4 * moved**3 * (1 - 0.1 * 12 * 0.5**2))


def test_an_exception_between_levels_leaves_nothing_behind() -> None:
    class ExpectedError(Exception):
        pass

    def failing(y):
        raise ExpectedError

    def f(x):
        with pytest.raises(ExpectedError):
            fg.grad(failing)(x)
        return x * fg.grad(lambda y: x + y)(1.0)

    assert_allclose(fg.grad(f)(1.0), 1.0)
    assert_allclose(forward(f)(1.0), 1.0)


# ---------------------------------------------------------------------------------- threads


def in_thread(work: Callable[[], Any], context: contextvars.Context | None = None) -> Any:
    """Run work in a thread of its own, and hand its result back."""
    results = []

    def target() -> None:
        results.append(work())

    thread = threading.Thread(target=target if context is None else lambda: context.run(target))
    thread.start()
    thread.join()
    return results[0]


# Not within a checkpoint: it runs its function again, and tells its context where to record to.
@every_mixture(2, (forward, reverse, pulled, pushed, jacobian, batched))
def test_an_inner_derivative_in_a_thread(outer: Operator, inner: Operator) -> None:
    # The thread begins with an empty context, so nothing there says that a level runs around it.
    def f(x):
        return x * in_thread(lambda: inner(lambda y: x * y + y * y)(x))  # 3 x^2

    assert_allclose(outer(f)(2.0), 12.0)


@every_mixture(2)
def test_an_inner_derivative_in_a_thread_with_the_context(outer: Operator, inner: Operator) -> None:
    def f(x):
        context = contextvars.copy_context()
        return x * in_thread(lambda: inner(lambda y: x * y + y * y)(x), context)

    assert_allclose(outer(f)(2.0), 12.0)


@pytest.mark.parametrize("outer", [forward, reverse, pushed, batched])
def test_threads_within_threads(outer: Operator) -> None:
    def f(x):
        def middle():
            return fg.grad(lambda y: in_thread(lambda: fg.grad(lambda z: x * y * z)(y)) * y)(x)

        return in_thread(middle)  # d/dy x y^2 at x: 2 x^2

    assert_allclose(outer(f)(3.0), 12.0)


@pytest.mark.parametrize("outer", [forward, reverse, pushed, batched])
def test_a_pool_of_threads_within_a_function(outer: Operator) -> None:
    def f(x):
        def term(k):
            return fg.grad(lambda y: x * y**k)(x)  # k x^k

        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(term, range(1, 6)))

    assert_allclose(outer(f)(1.1), sum(k * k * 1.1 ** (k - 1) for k in range(1, 6)))


def test_a_generator_suspends_a_level() -> None:
    def partial_sums(x):
        total = 0.0
        for k in range(3):
            total = total + fg.grad(lambda y, k=k: x * y**k)(x)
            yield total

    def f(x):
        sums = partial_sums(x)
        next(sums)
        first = next(sums)  # x
        return first * fg.grad(lambda y: x * y)(1.0) + next(sums)  # x^2 + x + 2 x^2

    assert_allclose(fg.grad(f)(2.0), 13.0)

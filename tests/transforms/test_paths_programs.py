"""Programs that people write with `if` and `while`, on batches: as the loop over the examples."""

import operator
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.transforms.support import assert_same, newton


def bisection(target: Any) -> Any:
    """The root of x³ + x = target, with a number of steps that depends on the target."""
    low, high = 0.0 * target, 1.0 + 0.0 * target
    while high**3 + high < target:
        low, high = high, high * 2
    while high - low > 1e-2:
        middle = (low + high) / 2
        if middle**3 + middle < target:
            low = middle
        else:
            high = middle
    return (low + high) / 2 + 0.1 * target


def simpson(a: Any) -> Any:
    """The integral of exp(-a t²) over 0 ≤ t ≤ 2, by recursion where it is inaccurate."""

    def f(t: float) -> Any:
        return fnp.exp(-a * t * t)

    def rule(left: float, right: float) -> Any:
        return (right - left) / 6 * (f(left) + 4 * f((left + right) / 2) + f(right))

    def integral(left: float, right: float, whole: Any, tolerance: float) -> Any:
        middle = (left + right) / 2
        first, second = rule(left, middle), rule(middle, right)
        if fnp.abs(first + second - whole) < 15 * tolerance or tolerance < 1e-5:
            return first + second + (first + second - whole) / 15
        return integral(left, middle, first, tolerance / 2) + integral(
            middle, right, second, tolerance / 2
        )

    return integral(0.0, 2.0, rule(0.0, 2.0), 1e-4)


TREE: Any = (1.0, (0.5, 10.0, (0.7, 20.0, 25.0)), (2.5, 30.0, 40.0))


def decision_tree(x: Any) -> Any:
    node = TREE
    while isinstance(node, tuple):
        bound, left, right = node
        node = left if x < bound else right
    return node * x


def tax(income: Any) -> Any:
    paid, last = 0.0, 0.0
    for bound, rate in ((0.5, 0.0), (1.0, 0.1), (2.0, 0.2), (5.0, 0.4)):
        if income <= bound:
            return paid + rate * (income - last)
        paid, last = paid + rate * (bound - last), bound
    return paid + 0.5 * (income - last)


def payoff(price: Any) -> Any:
    """A call with a barrier, a cap and a rebate."""
    if price > 4.0:
        return 0.2
    value = max(price - 1.0, 0.0)
    return min(value, 2.0) * fnp.sqrt(price)


def bouncing_ball(height: Any) -> Any:
    """The height at time 2 of a ball that is dropped, and loses speed at each bounce."""
    left, speed = 2.0 + 0.0 * height, 0.0 * height
    y = height
    for _ in range(8):
        until = (speed + fnp.sqrt(speed * speed + 2 * 9.81 * y)) / 9.81
        if until >= left:
            return y + speed * left - 0.5 * 9.81 * left * left
        speed = 0.7 * (9.81 * until - speed)
        left, y = left - until, 0.0 * height
    return y


def larger_root(b: Any) -> Any:
    """The larger root of a x² + b x - 1, where a falls to 0 with b."""
    a = b - 1.0 if b > 1.0 else 0.0 * b
    if a == 0:
        return 1.0 / b
    discriminant = b * b + 4 * a
    if discriminant < 0:
        return fnp.nan * b
    return (-b + fnp.sqrt(discriminant)) / (2 * a)


PROGRAMS = [bisection, newton, simpson, decision_tree, tax, payoff, bouncing_ball, larger_root]


def examples(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(0.2, 4.5, count)


def each(f: Callable[[Any], Any], batch: Any) -> np.ndarray[Any, Any]:
    return np.array([float(f(fg.tensor(x))) for x in batch])


@pytest.mark.parametrize("f", PROGRAMS, ids=operator.attrgetter("__name__"))
def test_values_and_gradients(f: Any) -> None:
    batch = examples(25)
    assert_same(fg.vmap(f)(batch), each(f, batch))
    slopes = each(fg.grad(f), batch)
    assert_same(fg.vmap(fg.grad(f))(batch), slopes)
    assert_same(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(batch), slopes)


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS, ids=operator.attrgetter("__name__"))
def test_a_batch_is_faster_than_the_loop(f: Any) -> None:
    batch = examples(10_000)
    paths = len(fg.debug.paths(f)(batch))
    times = []
    for run in (lambda: fg.vmap(f)(batch), lambda: each(f, batch[:1000])):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    ratio = 10 * times[1] / times[0]
    assert ratio >= 5 or paths > 12, (ratio, paths)

"""``check``: it raises where a condition does not hold, in every mode, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug
from funcgrad._programs.inline import inlined
from funcgrad.debug.checks import CHECK
from funcgrad.errors import ArgumentError, ConditionError, DtypeError
from tests.together import together

Function = Callable[..., Any]


def root(x: Any) -> Any:
    debug.check(x >= 0, "x is negative", x=x)
    return fnp.sqrt(x)


def spent(carry: Any, x: Any) -> Any:
    carry = carry - x
    debug.check(carry > 0, "nothing is left", carry=carry)
    return carry, carry * 2.0


WAYS: dict[str, Callable[[Function], Function]] = {
    "eager": lambda f: f,
    "jit": fg.jit,
    "jit of jit": lambda f: fg.jit(lambda *args: fg.jit(f)(*args)),
    "checkpoint": fg.checkpoint,
    "jit of checkpoint": lambda f: fg.jit(fg.checkpoint(f)),
    "program": lambda f: lambda *args: fg.program(f)(*map(fnp.ones_like, args))(*args),
}
DERIVED: dict[str, Callable[[Function], Function]] = {
    "value": lambda f: f,
    "grad": lambda f: fg.grad(lambda *args: fnp.sum(fg.tree.leaves(f(*args))[0])),
    "jvp": lambda f: lambda *args: fg.jvp(f, args, args)[1],
}


@together("derive", DERIVED.values(), ids=DERIVED)
@together("way", WAYS.values(), ids=WAYS)
def test_it_raises_with_the_values(way: Any, derive: Any) -> None:
    for f in (way(derive(root)), derive(way(root))):
        f(fg.tensor(4.0))
        expected = r"^x is negative: x = -1.0 \(at test_checks"
        with np.errstate(invalid="ignore"), pytest.raises(ConditionError, match=expected):
            f(fg.tensor(-1.0))
        f(fg.tensor(4.0))


@together("derive", DERIVED.values(), ids=DERIVED)
@together("way", WAYS.values(), ids=WAYS)
def test_it_names_the_step(way: Any, derive: Any) -> None:
    def f(start: Any, xs: Any) -> Any:
        return fg.scan(spent, start, xs)

    for g in (way(derive(f)), derive(way(f))):
        g(fg.tensor(9.0), fg.tensor([1.0, 1.0]))
        with pytest.raises(ConditionError, match=r"carry = -2.0, step 1 of scan"):
            g(fg.tensor(5.0), fg.tensor([3.0, 4.0]))


@pytest.mark.parametrize(
    "way", [fg.vmap, lambda f: fg.jit(fg.vmap(f)), lambda f: fg.vmap(fg.jit(f))]
)
def test_it_names_the_example(way: Any) -> None:
    f = way(root)
    np.testing.assert_array_equal(f(fg.tensor([1.0, 4.0])), [1.0, 2.0])
    with pytest.raises(ConditionError, match=r"x = -4.0, example 1"):
        f(fg.tensor([1.0, -4.0]))
    g = way(fg.grad(root))
    g(fg.tensor([1.0, 4.0]))
    with pytest.raises(ConditionError, match=r"x = -4.0, example 1"):
        g(fg.tensor([1.0, -4.0]))
    twice = way(fg.vmap(root))
    with pytest.raises(ConditionError, match=r"x = -4.0, example 1, example 0"):
        twice(fg.tensor([[1.0, 1.0], [-4.0, 1.0]]))


@pytest.mark.parametrize("way", [lambda f: f, fg.jit])
def test_loops_and_branches(way: Any) -> None:
    def step(c: Any) -> Any:
        debug.check(c != 4, "four", c=c)
        return c + 1

    counted = way(lambda x: fg.while_loop(lambda c: c < 9, step, x))
    assert counted(5) == 9
    with pytest.raises(ConditionError, match="c = 4, step 3 of while_loop"):
        counted(1)

    def positive(x: Any) -> Any:
        debug.check(x > 1.0, "small", x=x)
        return x * 2.0

    def never(x: Any) -> Any:
        debug.check(False, "never")
        return -x

    chosen = way(lambda x: fg.cond(x > 0.0, positive, lambda x: -x, x))
    assert chosen(-2.0) == 2.0
    assert chosen(2.0) == 4.0
    with pytest.raises(ConditionError, match="small"):
        chosen(0.5)
    other = way(lambda x: fg.cond(x > 0.0, positive, never, x))
    assert other(2.0) == 4.0
    with pytest.raises(ConditionError, match="never"):
        other(-2.0)
    batch = way(lambda xs: fg.vmap(lambda x: fg.cond(x > 0.0, positive, lambda x: -x, x))(xs))
    np.testing.assert_array_equal(batch(fg.tensor([2.0, -1.0])), [4.0, 1.0])
    with pytest.raises(ConditionError, match=r"small: x = 0.5, example 1"):
        batch(fg.tensor([2.0, 0.5]))


@pytest.mark.parametrize("way", [lambda f: f, fg.jit])
def test_examples_of_a_batch_that_have_ended_are_not_checked(way: Any) -> None:
    def step(c: Any) -> Any:
        debug.check(c < 4.0, "four", c=c)
        return c + 1.0

    f = way(lambda xs: fg.vmap(lambda x: fg.while_loop(lambda c: c < 4.0, step, x))(xs))
    np.testing.assert_array_equal(f(fg.tensor([0.0, 3.0, 9.0])), [4.0, 4.0, 9.0])


def test_a_program_keeps_it_and_prints_it() -> None:
    staged = fg.program(root)(4.0)
    assert "check 'x is negative'" in staged.to_text()
    optimized = fg.jit(root).lower(4.0).optimized
    assert CHECK in [equation.operation for equation in inlined(optimized).equations]


def test_elements_are_found_in_arrays() -> None:
    def f(x: Any, y: Any) -> Any:
        debug.check(x > y, "too small", x=x, y=y, all=fnp.sum(x))
        return x

    with pytest.raises(ConditionError, match=r"x = 1.0, y = 2.0, all = 4.0, at \[1\]"):
        f(fg.tensor([3.0, 1.0]), fg.tensor([2.0, 2.0]))
    with pytest.raises(ConditionError, match=r"y = \[1., 2., ..., 8., 9.\]"):
        debug.check(False, "wrong", y=np.arange(1.0, 10.0))


def test_checks_in_rules_of_custom_derivatives() -> None:
    @fg.custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    def back(x: Any, ct: Any) -> Any:
        debug.check(x > 0.0, "in the rule", x=x)
        return (ct * 2.0,)

    f.defvjp(lambda x: (x * 2.0, x), back)
    for g in (fg.grad(f), fg.jit(fg.grad(f)), fg.grad(fg.jit(f))):
        assert g(1.0) == 2.0
        with pytest.raises(ConditionError, match=r"in the rule: x = -1.0"):
            g(-1.0)


def test_derivatives_of_a_compiled_loop_of_unknown_length() -> None:
    def f(x: Any) -> Any:
        def doubled(c: Any) -> Any:
            debug.check(c != 6.0, "it is 6", c=c)
            return c * 2.0

        return fg.while_loop(lambda c: c < 20.0, doubled, x * 2.0) * x

    for gradient in (fg.grad(fg.jit(f)), fg.jit(fg.grad(f)), fg.jit(fg.grad(fg.jit(f)))):
        assert gradient(1.0) == 64.0
        with pytest.raises(ConditionError, match=r"it is 6: c = 6.0, step 1 of"):
            gradient(1.5)


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(DtypeError, match=r"check: the condition has dtype float64.*x > 0"):
        debug.check(fg.tensor(1.0), "wrong")
    with pytest.raises(ArgumentError, match="check: the message is 3"):
        debug.check(True, 3)  # type: ignore[arg-type]


def test_without_assertions_nothing_is_checked() -> None:
    code = "from funcgrad import debug; debug.check(False, 'wrong')"
    subprocess.run([sys.executable, "-O", "-c", code], check=True)


@pytest.mark.parametrize("size", [6, 7])
def test_it_shows_all_elements_of_short_vectors(size: int) -> None:
    with pytest.raises(ConditionError) as caught:
        debug.check(False, "never", x=fg.tensor(np.arange(float(size))))
    assert ("..." in str(caught.value)) == (size > 6)

"""Functions with rules of their own in loops and branches, rules that are no derivatives.

Such a rule has no symmetric second derivative: forward over reverse, reverse over forward and the
like are programs of their own, and each is the same whether a loop is Python's, runs eagerly, or is
staged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.conformance import in_turn
from tests.control.nests import held_back, turned

Body = Callable[[Any], Any]
X = fg.tensor([0.4, -0.9])

RULES: dict[str, Body] = {
    "custom_vjp": lambda x: 2.0 * held_back(3.0 * x),  # so that some are held back
    "custom_jvp": turned,
}


def python_loop(body: Body, x: Any) -> Any:
    for _ in range(3):
        x = body(x)
    return x


def counted(body: Body, x: Any, **options: Any) -> Any:
    return fg.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, body(c[1])), (0, x), **options)[1]


LOOPS: dict[str, Callable[[Body, Any], Any]] = {
    "while_loop": counted,
    "while_loop with few states": lambda body, x: counted(body, x, checkpoints=2),
    "fori_loop": lambda body, x: fg.fori_loop(0, 3, lambda _, c: body(c), x),
    "scan": lambda body, x: fg.scan(lambda c, _: (body(c), None), x, length=3)[0],
    "scan with checkpoints": lambda body, x: fg.scan(
        lambda c, _: (body(c), None), x, length=3, checkpoint_every=2
    )[0],
    "checkpoint": lambda body, x: fg.checkpoint(lambda x: python_loop(body, x))(x),
    "checkpoints": lambda body, x: python_loop(fg.checkpoint(body), x),
    "cond": lambda body, x: python_loop(lambda x: fg.cond(x[0] > 9.0, abs, body, x), x),
    "jit": lambda body, x: python_loop(fg.jit(body), x),
    "while_loop in cond": lambda body, x: fg.cond(x[0] > 9.0, abs, lambda x: counted(body, x), x),
    "cond in while_loop": lambda body, x: counted(lambda x: fg.cond(x[0] > 9.0, abs, body, x), x),
    "scan in while_loop": lambda body, x: counted(
        lambda x: fg.scan(lambda c, _: (body(c), None), x, length=1)[0], x
    ),
}

ORDERS: dict[str, Callable[[Body], Body]] = {
    "reverse": fg.jacrev,
    "forward over forward": lambda f: fg.jacfwd(fg.jacfwd(f)),
    "forward over reverse": lambda f: fg.jacfwd(fg.jacrev(f)),
    "reverse over forward": lambda f: fg.jacrev(fg.jacfwd(f)),
    "reverse over reverse": lambda f: fg.jacrev(fg.jacrev(f)),
}


@cache
def in_python(rule: str, order: str) -> np.ndarray[Any, Any]:
    """What a loop of Python's comes to."""
    return np.asarray(ORDERS[order](of(python_loop, RULES[rule]))(X))


def of(loop: Callable[[Body, Any], Any], rule: Body) -> Body:
    """A function of an array to a number, whose steps read the array too."""

    def f(x: Any) -> Any:
        return fnp.sum(loop(lambda c: rule(c) * fnp.cos(x) + 0.1 * x[..., ::-1], x))

    return f


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_is_no_derivative_means_the_same_in_every_loop(
    rule: str, loop: str, order: str
) -> None:
    """Every other one is staged, in one of three ways in turn: each meets every rule and loop."""
    transform = ORDERS[order]
    f = of(LOOPS[loop], RULES[rule])
    expected = in_python(rule, order)
    staged: dict[str, Body] = {
        "jit": fg.jit(transform(f)),
        "of jit": transform(fg.jit(f)),
        "vmap": lambda x: fg.jit(fg.vmap(transform(f)))(fnp.stack([x, 0.5 * x]))[0],
    }
    turn = [*RULES].index(rule) + [*LOOPS].index(loop) + [*ORDERS].index(order)
    chosen = in_turn([*staged.items()], turn // 2, 1) if turn % 2 else []
    for name, way in [("eager", transform(f)), *chosen]:
        error = np.max(abs(np.asarray(way(X)) - expected)) / np.max(abs(expected))
        assert error < 1e-10, name


def test_the_ways_to_a_second_derivative_differ_with_such_rules() -> None:
    """Without this the test above could not tell one from another."""
    for rule in RULES.values():
        f = of(python_loop, rule)
        for name in ("forward over reverse", "reverse over forward"):
            found = np.asarray(ORDERS[name](f)(X))
            assert not np.allclose(found, found.T), name


THIRD: dict[str, Callable[[Body], Body]] = {
    "three times reverse": lambda f: fg.jacrev(fg.jacrev(fg.jacrev(f))),
    "forward over reverse over forward": lambda f: fg.jacfwd(fg.jacrev(fg.jacfwd(f))),
    "hessian of a jit": lambda f: fg.jacrev(fg.hessian(fg.jit(f))),
}


@pytest.mark.slow
@pytest.mark.parametrize("order", THIRD)
@pytest.mark.parametrize("checkpoints", [None, 2])
def test_third_derivatives_of_a_loop_with_such_a_rule(checkpoints: int | None, order: str) -> None:
    def body(x: Any) -> Any:
        return held_back(turned(x)) + 0.5 * x

    f = of(lambda body, x: counted(body, x, checkpoints=checkpoints), body)
    expected = np.asarray(THIRD[order](of(python_loop, body))(X))
    staged = (checkpoints is None) == (order == "forward over reverse over forward")
    for way in (THIRD[order](f), fg.jit(THIRD[order](f)))[: 1 + staged]:
        np.testing.assert_allclose(way(X), expected, rtol=1e-10, atol=1e-12)


def test_the_number_of_steps_may_depend_on_the_example() -> None:
    def f(x: Any) -> Any:
        def goes_on(c: Any) -> Any:
            return fnp.sum(c * c) > 0.4

        return fnp.sum(fg.while_loop(goes_on, lambda c: 0.7 * held_back(c) * fnp.cos(x), 2 * x))

    xs = fnp.stack([X, 0.3 * X, 2.0 * X])
    for order in ("forward over reverse", "reverse over reverse"):
        transform = ORDERS[order]
        expected = np.stack([np.asarray(transform(f)(x)) for x in xs])
        for way in (fg.vmap(transform(f)), fg.jit(fg.vmap(transform(f)))):
            np.testing.assert_allclose(way(xs), expected, rtol=1e-9, atol=1e-12, err_msg=order)


# ------------------------------------------------------------------ rules on what is closed over


@fg.custom_vjp
def tamed(x):
    return x * 1.0


tamed.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (fnp.where(abs(ct) > 0.25, 0.25 * ct, ct),))

LOOPS_AROUND = {
    "map": lambda x: fg.map(lambda k: k * 0.15 * tamed(x), np.arange(1.0, 4.0)),
    "scan": lambda x: fg.scan(lambda c, k: (c + k * 0.15 * tamed(x), None), x, np.arange(3.0))[0],
    "while_loop": lambda x: fg.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] + 0.15 * tamed(x)), (0, x)
    )[1],
    "fori_loop": lambda x: fg.fori_loop(0, 3, lambda k, c: c + 0.15 * tamed(x), x),
    "loops in a loop": lambda x: fg.fori_loop(
        0,
        3,
        lambda k, c: fg.fori_loop(0, 2, lambda j, d: d + 0.05 * tamed(x) + 0.07 * tamed(c), c),
        x,
    ),
    "branches in a loop": lambda x: fg.fori_loop(
        0, 3, lambda k, c: fg.cond(k > 0, lambda c: c + 0.15 * tamed(x), lambda c: c, c), x
    ),
}


def with_its_derivative(f: Callable[[Any], Any]) -> Any:
    """A function with a rule that pushes through it, and so is as linear as that."""
    custom = fg.custom_jvp(f)
    custom.defjvp(lambda primals, tangents: fg.jvp(f, primals, tangents))
    return custom


@fg.custom_jvp
def sine(x):
    return fnp.sin(x)


sine.defjvp(lambda p, t: (sine(*p), fnp.cos(p[0]) * t[0]))


@fg.custom_vjp
def kept_sine(x):
    return fnp.sin(x)


kept_sine.defvjp(lambda x: (kept_sine(x), x), lambda x, ct: (ct * fnp.cos(x),))

WITHIN: dict[str, Any] = {
    "jit": fg.jit(lambda x: tamed(x) * 1.0),
    "scan": lambda x: fg.scan(lambda c, _: (tamed(c), None), x, None, length=1)[0],
    "jit of a scan": fg.jit(lambda x: fg.scan(lambda c, _: (tamed(c), x), x, None, length=1)[0]),
    "while_loop": lambda x: fg.while_loop(
        lambda c: c[0] < 1, lambda c: (c[0] + 1, tamed(c[1])), (0, x)
    )[1],
    "cond": lambda x: fg.cond(fnp.sum(x) > 100.0, lambda x: x, tamed, x),
    "checkpoint": fg.checkpoint(tamed),
    "rule": with_its_derivative(tamed),
    "rule that reads": with_its_derivative(kept_sine),
    "rule in jit": fg.jit(with_its_derivative(tamed)),
}


def in_a_loop(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fg.scan(lambda c, k: (c + k * 0.15 * inner(x), None), x, np.arange(3.0))[0]


LOOPS_AROUND["a linear rule in loops in a loop"] = in_a_loop(in_a_loop(sine))
LOOPS_AROUND.update({f"{name} in a loop": in_a_loop(inner) for name, inner in WITHIN.items()})


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS_AROUND)
def test_a_rule_that_is_not_linear_is_applied_at_every_step(name: str) -> None:
    """Also where its arguments are the same at all steps: it sees the cotangent of each."""
    x = np.array([0.1, 0.3])

    def f(x):
        return fnp.sum(LOOPS_AROUND[name](x))

    expected = fg.grad(f)(x)
    results = {
        "jit of grad": fg.jit(fg.grad(f))(x),
        "grad of jit": fg.grad(fg.jit(f))(x),
        "program of grad": fg.program(fg.grad(f))(x)(x),
        "grad of program": fg.grad(fg.program(f)(x))(x),
        "vmap of grad": fg.vmap(fg.grad(f))(x[None])[0],
        "jit of vmap of grad": fg.jit(fg.vmap(fg.grad(f)))(x[None])[0],
        "grad of vmap": fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))(x[None])[0],
        "jit of grad of vmap": fg.jit(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs))))(x[None])[0],
    }
    assert {mode: np.asarray(result).tolist() for mode, result in results.items()} == {
        mode: pytest.approx(np.asarray(expected).tolist(), rel=1e-12) for mode in results
    }


def test_a_branch_of_examples_may_differentiate_a_rule_on_what_it_closes_over() -> None:
    def f(x):
        slope = fg.grad(lambda z: kept_sine(z) * z)
        return fg.cond(x > 1.0, lambda y: y, lambda y: y + slope(x), x)

    xs = np.array([0.4, 0.9, 1.5])
    expected = np.stack([np.asarray(fg.grad(f)(x)) for x in xs])
    for way in (fg.vmap(fg.grad(f)), fg.jit(fg.vmap(fg.grad(f)))):
        np.testing.assert_allclose(way(xs), expected, rtol=1e-12)

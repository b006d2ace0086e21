"""In every nest of transformations a rule may read what any of them follows.

Each layer of a nest brings in a variable. A function with a rule is called with one of them and
closes over others: the function and its rule read them, or the rule alone, or work that is dropped.
The rules are no derivatives of their functions, so it is seen which of them a nest goes by.

What a nest comes to is what it comes to with reverse mode in the place of forward mode, a Python
loop in the place of a batch, and neither programs nor checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, product
from random import Random
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import EscapedTracerError, GuardError

Function = Callable[[Any], Any]


def read_by_bwd(w: Any) -> Function:
    f = fg.custom_vjp(lambda x: fnp.sin(x))
    f.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * fnp.cos(x) * fnp.exp(sum(w)),))
    return f


def read_by_fwd(w: Any) -> Function:
    f = fg.custom_vjp(lambda x: fnp.sin(x))
    f.defvjp(lambda x: (fnp.sin(x), sum(w) * fnp.cos(x)), lambda slope, ct: (ct * slope,))
    return f


def read_by_a_pushforward(w: Any) -> Function:
    f = fg.custom_jvp(lambda x: fnp.sin(x))
    f.defjvp(lambda p, t: (f(*p), sum(w) * t[0] * fnp.cos(p[0])))
    return f


def read_by_function_and_bwd(w: Any) -> Function:
    f = fg.custom_vjp(lambda x: fnp.sin(x * sum(w)))
    f.defvjp(
        lambda x: (fnp.sin(x * sum(w)), x), lambda x, ct: (3.0 * ct * sum(w) * fnp.cos(x * sum(w)),)
    )
    return f


def read_by_function_and_pushforward(w: Any) -> Function:
    f = fg.custom_jvp(lambda x: fnp.sin(x * sum(w)))
    f.defjvp(lambda p, t: (fnp.sin(p[0] * sum(w)), 3.0 * t[0] * sum(w) * fnp.cos(p[0] * sum(w))))
    return f


def read_for_nothing(w: Any) -> Function:
    def f(x: Any) -> Any:
        _ = fnp.sin(sum(w) * x) + fnp.cos(sum(w))
        return fnp.sin(x)

    return f


def read_for_nothing_by_a_call(w: Any) -> Function:
    def function(x: Any) -> Any:
        _ = fnp.sin(sum(w))
        return fnp.sin(x)

    f = fg.custom_vjp(function)
    f.defvjp(lambda x: (function(x), x), lambda x, ct: (ct * fnp.cos(x) * 2.0,))
    return f


MAKERS: dict[str, Function] = {
    "bwd": read_by_bwd,
    "fwd": read_by_fwd,
    "pushforward": read_by_a_pushforward,
    "function and bwd": read_by_function_and_bwd,
    "function and pushforward": read_by_function_and_pushforward,
    "nothing, in a checkpoint": lambda w: fg.checkpoint(read_for_nothing(w)),
    "nothing, in a call": read_for_nothing_by_a_call,
}


def with_gradient(g: Function) -> Function:
    def both(x: Any) -> Any:
        value, slope = fg.value_and_grad(g)(x)
        return value + 0.7 * slope

    return both


def with_tangent(g: Function) -> Function:
    def both(x: Any) -> Any:
        value, slope = fg.jvp(g, (x,), (1.0,))
        return value + 0.7 * slope

    return both


LAYERS: dict[str, Callable[[Function], Function]] = {
    "grad": with_gradient,
    "jvp": with_tangent,
    "vmap": lambda g: lambda x: fnp.sum(fg.vmap(g)(fnp.stack([x, 1.5 * x]))),
    "jit": fg.jit,
    "checkpoint": fg.checkpoint,
    "scan": lambda g: lambda x: fg.scan(lambda c, _: (g(c), None), x, length=1)[0],
}
PLAIN: dict[str, Callable[[Function], Function]] = {
    "grad": with_gradient,
    "jvp": with_gradient,
    "vmap": lambda g: lambda x: g(x) + g(1.5 * x),
    "jit": lambda g: g,
    "checkpoint": lambda g: g,
    "scan": lambda g: g,
}


def nested(
    layers: dict[str, Callable[[Function], Function]],
    names: Sequence[str],
    maker: str,
    argument: int,
    read: Sequence[int],
) -> Any:
    """What a nest comes to, whose call has one variable for argument and closes over others."""

    def body(variables: list[Any]) -> Any:
        if len(variables) == len(names):
            f = MAKERS[maker]([variables[k] for k in read])
            return f(variables[argument]) * (1.0 + 0.3 * sum(variables))
        layer = layers[names[len(variables)]]
        start = 0.3 + 0.5 * variables[-1] if variables else 0.4
        return layer(lambda v: body([*variables, v]))(start)

    return body([])


def check(nests: Any) -> None:
    """Compare nests with the plain ones, and raise for all that differ."""
    wrong = []
    for nest in nests:
        try:
            result, expected = nested(LAYERS, *nest), nested(PLAIN, *nest)
            np.testing.assert_allclose(result, expected, rtol=1e-8)
        except Exception as error:
            wrong.append(f"{nest}: {type(error).__name__}: {str(error)[:200]}")
    assert not wrong, "\n".join([f"{len(wrong)} nests differ:", *wrong[:20]])


@pytest.mark.slow
def test_two_layers() -> None:
    ways = cycle(range(3))
    nests = product(product(LAYERS, repeat=2), MAKERS, (0, 1))
    check((*nest, ([1 - nest[-1]], [0, 1], [1, 0])[next(ways)]) for nest in nests)


@pytest.mark.slow
def test_three_layers() -> None:
    """The call has each of the variables for argument, and closes over the others."""
    makers, five = cycle(MAKERS), [name for name in LAYERS if name != "scan"]
    nests = product(product(five, repeat=3), range(3))
    check(
        (names, next(makers), argument, [k for k in range(3) if k != argument])
        for names, argument in nests
    )


def test_more_layers() -> None:
    random = Random(17)

    def nests() -> Any:
        yield ["grad", "vmap", "grad"], "fwd", 1, [2]  # what is read has the batch inside of it
        yield ["grad", "vmap", "vmap"], "bwd", 2, [1, 2]  # both batches have ended
        yield ["grad", "checkpoint", "grad"], "bwd", 1, [1, 2]  # staged where numbers are read
        # The values that are closed over become arguments of a call that is staged again.
        yield ["jvp", "grad", "checkpoint", "vmap"], "function and pushforward", 0, [1, 3, 2]
        for _ in range(50):
            depth = random.choice((3, 4, 5))
            names = random.choices([*LAYERS], k=depth)
            read = random.sample(range(depth), random.randint(1, depth))
            yield names, random.choice([*MAKERS]), random.randrange(depth), read

    check(nests())


@pytest.mark.parametrize("maker", ["function and bwd", "function and pushforward"])
def test_a_rule_is_for_the_argument_whatever_differentiates_in_what_is_closed_over(
    maker: str,
) -> None:
    x, w = 0.3, 0.7
    by_rule = 3.0 * w * np.cos(x * w)
    by_operations = np.cos(x * w) - x * w * np.sin(x * w)

    def f(x: Any) -> Function:
        return lambda w: MAKERS[maker]([w])(x)

    def pushed(x: Any) -> Any:
        return fg.jvp(f(x), (w,), (1.0,))

    def pulled(x: Any) -> Any:
        return fg.value_and_grad(f(x))(w)

    for both in (pushed, pulled):
        for h in (both, fg.jit(both), fg.checkpoint(both)):
            found = [
                [fg.grad(lambda x, h=h, k=k: h(x)[k])(x) for k in range(2)],
                [*fg.jvp(h, (x,), (1.0,))[1]],
                [*fg.jacrev(lambda x, h=h: fnp.stack(h(x)))(x)],
            ]
            np.testing.assert_allclose(np.array(found, float), [[by_rule, by_operations]] * 3)


def test_a_rule_may_look_at_numbers_of_a_batch() -> None:
    """The cotangents of the examples differ, so the rule runs for each answer."""
    looking = fg.custom_vjp(lambda x, w: fnp.sin(x))
    looking.defvjp(
        lambda x, w: (fnp.sin(x), w), lambda w, ct: (ct * w if ct > 0 else -ct * w * w, 0.0)
    )
    weights = fg.tensor([2.0, -3.0, 5.0])

    def total(x: Any) -> Any:
        return fnp.sum(fg.vmap(lambda w: looking(x, w) * w)(weights))

    np.testing.assert_allclose(fg.grad(total)(0.3), 2.0 * 2.0 + 3.0 * 9.0 + 5.0 * 5.0)


def test_a_rule_that_is_staged_with_what_it_closes_over_takes_one_path() -> None:
    def looking(w: Any) -> Function:
        f = fg.custom_vjp(lambda x: fnp.sin(x))
        f.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * w if ct > 0 else -ct * w,))
        return f

    def total(weights: Any) -> Any:
        return fg.grad(lambda x: fnp.sum(fg.vmap(lambda w: looking(w)(x) * w)(weights)))(0.3)

    np.testing.assert_allclose(total(fg.tensor([2.0, 3.0])), 13.0)
    with pytest.raises(GuardError, match="would take another path"):
        total(fg.tensor([2.0, -3.0]))


def test_rules_that_close_over_what_has_ended_are_refused_with_words() -> None:
    def hiding(w: Any) -> Function:
        f = fg.custom_vjp(lambda x: fnp.sin(x))
        f.defvjp(lambda x: (fnp.sin(x), lambda ct: ct * w), lambda pull, ct: (pull(ct),))
        return f

    def refusing(w: Any) -> Function:
        def rule(p: Any, t: Any) -> Any:
            if "reverse" not in repr(t) and "linear" not in repr(t):
                raise ValueError("this rule wants to be transposed")
            return fnp.sin(p[0]), t[0] * w

        f = fg.custom_jvp(lambda x: fnp.sin(x))
        f.defjvp(rule)
        return f

    def gradient(maker: Function) -> Any:
        return fg.grad(lambda x: fnp.sum(fg.vmap(lambda w: maker(w)(x) * w)(fnp.ones(2))))(0.3)

    np.testing.assert_allclose(gradient(hiding), 2.0)  # what the function hides is seen
    with pytest.raises(EscapedTracerError, match="Make it an argument of the function"):
        gradient(refusing)


def test_a_rule_may_look_at_numbers_of_the_argument() -> None:
    def looking(w: Any) -> Function:
        f = fg.custom_jvp(lambda x: fnp.sin(x))
        f.defjvp(lambda p, t: (fnp.sin(p[0]), (2.0 if float(p[0]) > 0.0 else 5.0) * w * t[0]))
        return f

    weights = fg.tensor([1.0, 2.0])
    gradient = fg.grad(lambda x: fnp.sum(fg.vmap(lambda w: looking(w)(x) * w)(weights)))
    np.testing.assert_allclose([gradient(0.3), gradient(-0.3)], [10.0, 25.0])

"""Rules may close over traced values that nothing else reads, and dropped work may read them.

A rule runs when a pullback does, when the transformation whose values it closes over may have
ended. Whatever stands around the call and around the function that makes it, what comes of it is
what Python's loops over examples make of it, staged or not.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

Function = Callable[[Any], Any]
Maker = Callable[[Any], Function]


def read_by_bwd(w: Any) -> Function:
    f = fg.custom_vjp(lambda x: fnp.sin(x))
    f.defvjp(lambda x: (fnp.sin(x), x), lambda x, ct: (ct * fnp.cos(x) * fnp.exp(w),))
    return f


def read_by_fwd(w: Any) -> Function:
    f = fg.custom_vjp(lambda x: fnp.sin(x))
    f.defvjp(lambda x: (fnp.sin(x), w * fnp.cos(x)), lambda slope, ct: (ct * slope,))
    return f


def read_by_a_pushforward(w: Any) -> Function:
    f = fg.custom_jvp(lambda x: fnp.sin(x))
    f.defjvp(lambda p, t: (f(*p), w * t[0] * fnp.cos(p[0])))
    return f


def read_for_nothing(w: Any) -> Function:
    def f(x: Any) -> Any:
        _ = fnp.sin(w * x) + fnp.cos(w)
        return fnp.sin(x)

    return f


def read_for_nothing_by_a_call(w: Any) -> Function:
    def function(x: Any) -> Any:
        _ = fnp.sin(w)
        return fnp.sin(x)

    f = fg.custom_vjp(function)
    f.defvjp(lambda x: (function(x), x), lambda x, ct: (ct * fnp.cos(x),))
    return f


MAKERS: dict[str, Maker] = {
    "bwd": read_by_bwd,
    "fwd": read_by_fwd,
    "pushforward": read_by_a_pushforward,
    "nothing": read_for_nothing,
    "nothing, in a checkpoint": lambda w: fg.checkpoint(read_for_nothing(w)),
    "nothing, in a call": read_for_nothing_by_a_call,
}


def mapped(f: Function) -> Function:
    return lambda x: fnp.sum(fg.vmap(f)(fnp.stack([x, 2.0 * x])))


INSIDE: dict[str, Callable[[Function], Function]] = {
    "nothing": lambda g: g,
    "vmap": mapped,
    "grad": fg.grad,
    "jvp": lambda g: lambda x: fg.jvp(g, (x,), (x,))[1],
    "vjp": lambda g: lambda x: fg.vjp(g, x)[1](x)[0],
    "checkpoint": fg.checkpoint,
    "jit": fg.jit,
    "grad in vmap": lambda g: mapped(fg.grad(g)),
    "vmap in grad": lambda g: fg.grad(mapped(g)),
    "scan": lambda g: lambda x: fg.scan(lambda c, _: (g(c), None), x, length=1)[0],
    "while_loop": lambda g: (
        lambda x: fg.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, g(c[1])), (0, x))[1]
    ),
    "cond": lambda g: lambda x: fg.cond(x > 0.0, g, lambda x: x, x),
}

XS = fg.tensor([0.4, 0.8])


def total(h: Function) -> Function:
    return lambda xs: fnp.sum(fg.vmap(h)(xs))


def one_by_one(f: Function) -> Any:
    return np.stack([np.asarray(f(x)) for x in XS])


AROUND: dict[str, tuple[Callable[[Function], Any], Callable[[Function], Any]]] = {
    "grad of vmap": (lambda h: fg.grad(total(h))(XS), lambda h: one_by_one(fg.grad(h))),
    "jit of grad of vmap": (
        lambda h: fg.jit(fg.grad(total(h)))(XS),
        lambda h: one_by_one(fg.grad(h)),
    ),
    "vmap of grad": (lambda h: fg.vmap(fg.grad(h))(XS), lambda h: one_by_one(fg.grad(h))),
    "grad of checkpoint of vmap": (
        lambda h: fg.grad(fg.checkpoint(total(h)))(XS),
        lambda h: one_by_one(fg.grad(h)),
    ),
    "grad of vmap of checkpoint": (
        lambda h: fg.grad(total(fg.checkpoint(h)))(XS),
        lambda h: one_by_one(fg.grad(h)),
    ),
    "linearize of vmap": (
        lambda h: fg.linearize(fg.vmap(h), XS)[1](fnp.ones(2)),
        lambda h: one_by_one(lambda x: fg.linearize(h, x)[1](1.0)),
    ),
    "pullbacks of vmap, mapped": (
        lambda h: fg.vmap(fg.vjp(fg.vmap(h), XS)[1])(fnp.eye(2))[0].sum(0),
        lambda h: one_by_one(fg.grad(h)),
    ),
    "grad of grad of vmap": (
        lambda h: fg.grad(lambda y: fnp.sum(fg.grad(total(h))(y)))(XS),
        lambda h: one_by_one(fg.grad(fg.grad(h))),
    ),
    "grad of vmap of vmap": (
        lambda h: fg.grad(total(lambda a: total(lambda b: h(a * b))(XS)))(XS),
        lambda h: one_by_one(fg.grad(lambda a: h(a * XS[0]) + h(a * XS[1]))),
    ),
}


@pytest.mark.slow
@together("around", AROUND)
@together("maker", MAKERS)
def test_what_only_a_rule_reads_may_be_traced(maker: str, around: str) -> None:
    ways = AROUND[around]
    for inside, put_on in product(INSIDE, (lambda w: 1.5 * w, lambda w: fg.tensor(0.4))):

        def h(w: Any, inside: str = inside, put_on: Function = put_on, maker: str = maker) -> Any:
            return INSIDE[inside](MAKERS[maker](w))(put_on(w))

        try:
            found, expected = [way(h) for way in ways]
        except Exception as error:
            error.add_note(f"Inside stands {inside}.")
            raise
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12, err_msg=inside)


def test_a_rule_of_a_call_in_a_rule_reads_the_batch() -> None:
    """The pullback of the outer call runs that of the inner one when both batches have ended."""

    def h(w: Any) -> Any:
        inner = read_by_bwd(w)
        outer = fg.custom_vjp(lambda x: inner(x) * 2.0)
        outer.defvjp(lambda x: fg.vjp(lambda y: inner(y) * 2.0, x), lambda pull, ct: pull(ct))
        return outer(1.5 * w)

    expected = one_by_one(fg.grad(h))
    np.testing.assert_allclose(fg.grad(total(h))(XS), expected)
    np.testing.assert_allclose(fg.vmap(fg.grad(h))(XS), expected)

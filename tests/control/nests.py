"""Random nests of loops and branches, run by the library or by plain Python.

A nest is a tree of tuples. ``run`` interprets it with the functions that it is given: those of
``funcgrad``, or ``PLAIN``, which are Python's own loops and branches.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp

Nest = tuple[Any, ...]


def _plain_scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    **_: Any,
) -> Any:
    count = len(xs) if length is None else length
    carry, ys = init, []
    for k in range(count)[:: -1 if reverse else 1]:
        carry, y = f(carry, None if xs is None else xs[k])
        ys.append(y)
    return carry, None if ys[0] is None else fnp.stack(ys[:: -1 if reverse else 1])


def _plain_while(cond: Callable[[Any], Any], body: Callable[[Any], Any], value: Any) -> Any:
    while cond(value):
        value = body(value)
    return value


def _plain_for(lower: int, upper: int, body: Callable[..., Any], value: Any) -> Any:
    for i in range(int(lower), int(upper)):
        value = body(i, value)
    return value


PLAIN = SimpleNamespace(
    scan=_plain_scan,
    while_loop=_plain_while,
    fori_loop=_plain_for,
    cond=lambda pred, t, f, *ops: t(*ops) if pred else f(*ops),
    switch=lambda k, branches, *ops: branches[min(max(int(k), 0), len(branches) - 1)](*ops),
)
LIBRARY = fg


@fg.custom_vjp
def held_back(x: Any) -> Any:
    """A sine, whose rule is no derivative: it turns cotangents round, and holds them back."""
    return fnp.sin(x)


def _pulled(x: Any, ct: Any) -> tuple[Any, ...]:
    return (0.8 * fnp.clip(ct * fnp.cos(x * x), -1.0, 1.0)[..., ::-1] * x,)


held_back.defvjp(lambda x: (fnp.sin(x), x), _pulled)


@fg.custom_jvp
def turned(x: Any) -> Any:
    """A product, whose rule is no derivative: it turns tangents round."""
    return x * x


@turned.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return turned(x), 0.5 * fnp.sin(x) * (x * t + t)[..., ::-1]


OPERATIONS: tuple[Callable[..., Any], ...] = (
    lambda w, v, s: (fnp.sin(v) * w, s),
    lambda w, v, s: (v * s, fnp.tanh(s) + v[0]),
    lambda w, v, s: (v + w * s, s * 0.5 + fnp.sum(v) * fnp.sum(w)),
    lambda w, v, s: (v[::-1] * fnp.cos(w), s - v[1] * s),
    lambda w, v, s: (fnp.exp(-v * v), fnp.sin(s * w[0])),
    lambda w, v, s: (0.7 * v, s),
    lambda w, v, s: (fnp.tanh(w @ v) * v, 1.1 * s),
    # With rules from here on.
    lambda w, v, s: (held_back(v * w), s + 0.2 * v[0]),
    lambda w, v, s: (turned(v) + 0.3 * w, s),
)
RULES = 2
"""How many of the operations, the last ones, have rules of their own."""


def run(nest: Nest, library: Any, w: Any, v: Any, s: Any) -> Any:
    """What a nest makes of a vector and a number, with a vector that all of it closes over."""
    kind, *rest = nest
    if kind == "operations":
        for k in rest[0]:
            v, s = OPERATIONS[k](w, v, s)
        return v, s
    if kind == "sequence":
        for each in rest[0]:
            v, s = run(each, library, w, v, s)
        return v, s
    if kind == "cond":
        threshold, first, second = rest
        return library.cond(
            s > threshold,
            lambda v, s: run(first, library, w, v, s),
            lambda v, s: run(second, library, w, v, s),
            v,
            s,
        )
    if kind == "switch":
        k = fnp.floor(2.0 * s).astype(int)
        return library.switch(
            k, [lambda v, s, each=each: run(each, library, w, v, s) for each in rest[0]], v, s
        )
    if kind == "scan":
        return _scanned(rest, library, w, v, s)
    if kind == "for":
        count, inner = rest
        return library.fori_loop(0, count, lambda i, c: _step(inner, library, w, i, c), (v, s))
    assert kind == "while"
    count, inner = rest

    def goes_on(carry: Any) -> Any:
        return (carry[0] < count) & (abs(carry[1][1]) < 4.0)

    def body(carry: Any) -> Any:
        return carry[0] + 1, run(inner, library, w, *carry[1])

    return library.while_loop(goes_on, body, (0, (v, s)))[1]


def _step(inner: Nest, library: Any, w: Any, i: Any, carry: Any) -> Any:
    v, s = run(inner, library, w, *carry)
    return v, s + 0.01 * i


def _scanned(rest: list[Any], library: Any, w: Any, v: Any, s: Any) -> Any:
    reverse, uses, inner = rest
    xs = fnp.stack([v, w, v * w])

    def step(carry: Any, x: Any) -> Any:
        inner_v, inner_s = run(inner, library, w, carry[0] + 0.1 * x, carry[1])
        return (inner_v, inner_s), inner_v * x

    (v, s), ys = library.scan(step, (v, s), xs, reverse=reverse)
    if uses == "carry":
        return v, s
    if uses == "ys":
        return fnp.sum(ys, axis=0), s
    return v + ys[1], s + ys[0, 0]


def function_of(nest: Nest, library: Any) -> Callable[..., Any]:
    """A function of three arguments to a number."""

    def f(w: Any, v: Any, s: Any) -> Any:
        out_v, out_s = run(nest, library, w, v, s)
        return fnp.sum(fnp.sin(out_v)) + 0.3 * out_s

    return f


def _operations(count: int) -> st.SearchStrategy[Nest]:
    codes = st.lists(st.integers(0, count - 1), min_size=1, max_size=3)
    return codes.map(lambda own: ("operations", own))


def _around(
    inner: st.SearchStrategy[Nest], operations: st.SearchStrategy[Nest]
) -> st.SearchStrategy[Nest]:
    uses = st.sampled_from(["carry", "ys", "both"])
    return st.one_of(
        st.tuples(st.just("scan"), st.booleans(), uses, inner),
        st.tuples(st.just("cond"), st.sampled_from([-0.5, 0.2, 0.9]), inner, operations),
        st.tuples(st.just("switch"), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("for"), st.integers(0, 3), inner),
        st.tuples(st.just("while"), st.integers(0, 3), inner),
        st.tuples(st.just("sequence"), st.lists(inner, min_size=1, max_size=2)),
    )


def nests(depth: int, has_rules: bool = True) -> st.SearchStrategy[Nest]:
    """Nests of at most some depth, with a loop or a branch at the top."""
    operations = _operations(len(OPERATIONS) - (0 if has_rules else RULES))
    found = _around(operations, operations)
    for _ in range(depth - 1):
        found = st.one_of(_around(found, operations), found)
    return found

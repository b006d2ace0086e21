"""Staging loops takes as long whatever the number of steps, and looks at numbers still work."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._control.transformed_loops import split_invariants
from funcgrad._programs.suspicious import warn_of_loops
from tests.together import together

AGES = 10**12


def endless(x: Any) -> Any:
    """Loops that nobody would see the end of."""
    y = fg.fori_loop(0, AGES, lambda i, y: fnp.sin(y) * x, x)
    z = fg.while_loop(lambda z: z == z, lambda z: z + y, y)
    return fg.checkpoint(fnp.cos)(z) * y


@together(
    ("function", "x"),
    [
        (endless, 0.5),
        (fg.grad(endless), 0.5),
        (fg.grad(fg.grad(endless)), 0.5),
        (fg.vmap(endless), [0.5, 0.7]),
        (fg.jit(endless), 0.5),
        (fg.grad(fg.jit(endless)), 0.5),
    ],
)
def test_no_step_runs_while_a_loop_is_staged(function: Any, x: Any) -> None:
    program = fg.jit(lambda x: function(x)).lower(fg.tensor(x)).optimized
    assert {"scan", "while_loop"} & {equation.name for equation in program.equations}


def doubled(x: Any) -> Any:
    return fg.fori_loop(0, 5, lambda i, y: 2.0 * y, x)


@fg.custom_jvp
def square(x: Any) -> Any:
    return x * x


square.defjvp(lambda primals, tangents: (square(*primals), 20.0 * primals[0] * tangents[0]))


def looks_at_a_result(x: Any) -> Any:
    y = doubled(x)
    return 3.0 * y if y > 10.0 else y


def looks_at_what_follows(x: Any) -> Any:
    y = square(doubled(x)) + 1.0
    z = fg.checkpoint(lambda v: v * y)(x)
    return z * float(fnp.round(y)) if z > 100.0 else z


def looks_at_another(x: Any) -> Any:
    y = doubled(x)
    return y if x > 1.0 else -y


def looks_inside_of_a_call(x: Any) -> Any:
    y = doubled(x)

    def f(v: Any) -> Any:
        return v * y if y > 10.0 else v - y

    return fg.checkpoint(f)(x)


@pytest.mark.parametrize(
    "f", [looks_at_a_result, looks_at_what_follows, looks_at_another, looks_inside_of_a_call]
)
def test_numbers_that_come_of_loops_may_be_looked_at(f: Any) -> None:
    staged, gradient = fg.jit(f), fg.jit(fg.grad(f))
    for x in (0.1, 2.0, 0.2):
        np.testing.assert_allclose(staged(x), f(x))
        np.testing.assert_allclose(gradient(x), fg.grad(f)(x))
        np.testing.assert_allclose(fg.grad(staged)(x), fg.grad(f)(x))


def test_a_function_is_staged_once_if_it_looks_at_no_loop() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return looks_at_another(x)

    fg.program(f)(0.5)
    assert len(calls) == 1


def test_threads_stage_and_run_loops_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    f = fg.jit(fg.grad(lambda x: fnp.sum(doubled(fnp.sin(x)))))
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda k: f(fg.tensor([0.1 * k])), range(8))]
    for k, own in enumerate(found):
        np.testing.assert_allclose(own, [32.0 * np.cos(0.1 * k)])


def test_a_long_python_loop_is_warned_of_at_its_line() -> None:
    def long(x: Any, count: int = 10_001) -> Any:
        for _ in range(count):
            x = x * 0.5
        return x

    message = (
        r"jit: long has 10,001 operations, 10,001 of them from the line test_staging.py:\d+: a"
        r" Python loop is written out.*fg.fori_loop, fg.scan and fg.while_loop"
    )
    f = fg.jit(long)
    with pytest.warns(RuntimeWarning, match=message):
        f(1.0)
    f(2.0)
    fg.jit(lambda x: long(x, 9_000))(1.0)


def test_a_long_program_of_many_lines_is_no_loop() -> None:
    (equation,) = fg.program(lambda x: x * 0.5)(1.0).equations
    for lines, warnings in ((1, 1), (10, 1), (11, 0)):
        places = [replace(equation, source=f"f.py:{k % lines}") for k in range(10_001)]
        told: list[str] = []
        warn_of_loops(replace(fg.program(abs)(1.0), equations=tuple(places)), told.append)
        assert len(told) == warnings


def names_and_sizes(program: fg.Program) -> list[tuple[str, int, int]]:
    """The equations, with how many operands and results they have."""
    return [(each.name, len(each.operands), len(each.results)) for each in program.equations]


def test_what_nobody_reads_is_not_computed() -> None:
    def scanned(x: Any, w: Any) -> Any:
        def step(c: Any, y: Any) -> Any:
            first, second, alone = c
            return (first * y, second + first, fnp.sin(alone) * w), (second, fnp.exp(first))

        return fg.scan(step, (x, x, x), fnp.ones(3))

    def repeated(x: Any, w: Any) -> Any:
        return fg.while_loop(
            lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2.0, fnp.sin(c[2]) * w), (0, x, x)
        )

    def chosen(x: Any, w: Any) -> Any:
        return fg.cond(x > 0, lambda: (x * 2.0, fnp.sin(w)), lambda: (-x, fnp.cos(w)))

    one, two = fg.tensor(0.5), fg.tensor(2.0)
    for f, take, sizes in (
        (scanned, lambda out: out[0][1], ("scan", 3, 2)),
        (scanned, lambda out: out[1][0][1], ("scan", 3, 3)),
        (scanned, lambda out: out[0][2], ("scan", 2, 1)),
        (repeated, lambda out: out[1], ("while_loop", 2, 2)),
        (chosen, lambda out: out[0], ("switch", 2, 1)),
    ):
        own = fg.jit(lambda x, w, f=f, take=take: take(f(x, w)))
        assert sizes in names_and_sizes(own.lower(one, two).optimized)
        np.testing.assert_allclose(own(one, two), take(f(one, two)))


def test_a_first_gradient_of_a_scan_takes_few_calls() -> None:
    """Staging, its derivative, the passes and NumPy's text: 5,440 calls on CPython 3.11."""

    def total(x: Any) -> Any:
        return fnp.sum(fg.scan(lambda c, a: (fnp.tanh(c + a), c), 0.0, x)[1])

    def first() -> Any:
        return fg.jit(fg.grad(total), backend="numpy")(fg.tensor([1.0, 2.0, 3.0]))

    first()
    events: list[str] = []
    sys.setprofile(lambda frame, event, _: events.append(event))
    try:
        first()
    finally:
        sys.setprofile(None)
    assert 0 < events.count("call") <= 5700


def test_invariants_move_also_where_each_step_reads_their_operands() -> None:
    body = fg.program(lambda w, c: fnp.sin(w) * c + w)(2.0, 3.0)
    before, step, shared = split_invariants(body, 1)
    assert before is not None
    assert [equation.operation.name for equation in before.equations] == ["sin"]
    assert [equation.operation.name for equation in step.equations] == ["multiply", "add"]
    assert shared == [0]

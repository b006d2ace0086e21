"""``debug.print``: what a function prints, its program prints too, in every mode and in order."""

from __future__ import annotations

from typing import Any

import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import debug as untyped
from funcgrad.errors import ArgumentError

debug: Any = untyped  # its `print` is in expressions below


def told(x: Any) -> Any:
    """Print before, in and behind two loops and a branch; the same text twice in a row."""
    debug.print("start {}", x)
    debug.print("hello")
    debug.print("hello")

    def step(c, k):
        debug.print("at {c:.1f}, {}", k, c=c)
        return c + k, c

    y, _ = fg.scan(step, x * 2.0, fnp.arange(2.0))
    debug.print("between {}", y)

    def doubled(c):
        debug.print("doubled")
        return c * 2.0

    z = fg.while_loop(lambda c: c < 10.0, doubled, y)

    def large(z):
        debug.print("large {}", z)
        return z

    z = fg.cond(z > 3.0, large, lambda z: z, z)
    debug.print("end")
    return z * x


LINES = """start 1.0
hello
hello
at 2.0, 0.0 (step 0 of scan)
at 2.0, 1.0 (step 1 of scan)
between 3.0
doubled (step 0 of while_loop)
doubled (step 1 of while_loop)
large 12.0
end
"""
WAYS: dict[str, Any] = {
    "eager": lambda f: f,
    "jit": fg.jit,
    "numpy": lambda f: fg.jit(f, backend="numpy"),
    "jit of jit": lambda f: fg.jit(lambda x: fg.jit(f)(x)),
    "checkpoint": lambda f: fg.jit(fg.checkpoint(f)),
    "program": lambda f: lambda x: fg.program(f)(x)(x),
    "grad": fg.grad,
    "jvp": lambda f: lambda x: fg.jvp(f, (x,), (x,)),
    "jit of jvp": lambda f: fg.jit(lambda x: fg.jvp(f, (x,), (x,))),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_lines_are_printed_in_order_at_each_call(way, capsys):
    function = way(told)
    for _ in range(2):
        function(fg.tensor(1.0))
        assert capsys.readouterr().out == LINES
    function(fg.tensor(2.0))
    assert capsys.readouterr().out.startswith(
        "start 2.0\nhello\nhello\nat 4.0, 0.0 (step 0 of scan)\n"
    )


@pytest.mark.parametrize("derive", [lambda f: fg.grad(fg.jit(f)), lambda f: fg.jit(fg.grad(f))])
def test_derivatives_of_programs_print_in_order(derive, capsys):
    function = derive(told)
    for _ in range(2):
        function(fg.tensor(1.0))
        lines = capsys.readouterr().out.splitlines()
        expected = [line.partition(" (step")[0] for line in LINES.splitlines()]
        # What reverse mode computes again is printed again.
        assert [line.partition(" (step")[0] for line in lines[: len(expected)]] == expected
        assert {line.partition(" (step")[0] for line in lines[len(expected) :]} <= {"doubled"}


@pytest.mark.parametrize("way", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_a_batch_prints_each_example(way, capsys):
    def f(x):
        debug.print("x {}", x)
        return fg.fori_loop(0, 2, lambda k, c: (debug.print("c {}", c), c + x)[1], x)

    function = way(fg.vmap(f))
    function(fg.tensor([1.0, 2.0]))
    capsys.readouterr()
    function(fg.tensor([1.0, 2.0]))
    lines = capsys.readouterr().out.replace("of fori_loop", "of scan").splitlines()
    assert lines == [
        "x 1.0 (example 0)",
        "x 2.0 (example 1)",
        "c 1.0 (step 0 of scan, example 0)",
        "c 2.0 (step 0 of scan, example 1)",
        "c 2.0 (step 1 of scan, example 0)",
        "c 4.0 (step 1 of scan, example 1)",
    ]


def test_a_branch_that_is_not_taken_prints_nothing(capsys):
    def f(x):
        return fg.cond(x > 0, lambda x: x, lambda x: (debug.print("negative"), -x)[1], x)

    function = fg.jit(f)
    function(fg.tensor(1.0))
    assert capsys.readouterr().out == ""
    function(fg.tensor(-1.0))
    assert capsys.readouterr().out == "negative\n"


def test_arrays_and_formats(capsys):
    fg.jit(lambda x: (debug.print("{} {total:.2e} {{}}", x, total=x.sum()), x)[1])(fnp.ones(2))
    assert capsys.readouterr().out == "[1. 1.] 2.00e+00 {}\n"


def test_the_derivative_is_the_functions():
    assert (
        float(fg.grad(told)(fg.tensor(1.0))) == float(fg.jit(fg.grad(told))(fg.tensor(1.0))) == 20
    )


def test_wrong_arguments_are_explained():
    with pytest.raises(ArgumentError, match="has to be a string"):
        debug.print(fg.tensor(1.0))
    with pytest.raises(ArgumentError, match="has a field without a value: 'x'"):
        debug.print("{x}", y=1.0)
    with pytest.raises(ArgumentError, match="has a field without a value: Replacement index 1"):
        debug.print("{} {}", 1.0)

"""Loops and choices as machine code: stacks of unknown length, any dtype, guards, depth."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._control.loop_operation import LOOP
from funcgrad._core.structure.structures import Loop
from funcgrad._programs.program import Program
from funcgrad.tensor.tensor import apply
from tests.backends.native.test_native import assert_same, native
from tests.together import together

X = np.array([0.9, 0.4, 1.3])


def called_back(f: Callable[..., Any], *args: Any) -> str:
    """The names of the operations that NumPy evaluates."""
    source: str = fg.jit(f, backend="native").lower(*args).source
    called = [line for line in source.splitlines() if line.startswith("; called back: ")]
    lines = [line.removeprefix("; called back: ") for line in called]
    return ", ".join([line.partition(":")[0] for line in lines])


def grown(x: Any) -> Any:
    return fg.while_loop(lambda c: fnp.sum(c) < 50, lambda c: c * 1.5 + fnp.square(c) / 9, x)


def counted(x: Any, count: Any) -> Any:
    return fg.while_loop(
        lambda c: c[0] < count, lambda c: (c[0] + 1, c[1] * 1.01 + x / (1 + c[0])), (0, x)
    )[1]


ORDERS: dict[str, Callable[[Any], Any]] = {
    "gradient": fg.grad,
    "Hessian, forward over reverse": lambda f: fg.jacfwd(fg.grad(f)),
    "Hessian, reverse over reverse": lambda f: fg.jacrev(fg.grad(f)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_while_loops_are_machine_code(order: str) -> None:
    derived = ORDERS[order](lambda x: fnp.sum(grown(x)))
    assert called_back(derived, X) == "nothing"
    assert_same(derived, X)
    assert_same(derived, 100 * X)  # not one step


@together("count", [0, 1, 16, 513, 2, 15, 17, 511, 512, 3000], quick=4)
def test_stacks_hold_the_states_of_any_number_of_steps(count: int) -> None:
    derived = fg.grad(lambda x, n: fnp.sum(counted(x, n)))
    assert_same(derived, X, count)
    assert_same(fg.jacfwd(lambda x, n: derived(x, n)), X, count)


def test_rows_wider_than_the_first_memory() -> None:
    wide = np.linspace(0.1, 1.0, 3000)
    assert_same(fg.grad(lambda x, n: fnp.sum(counted(x, n))), wide, 40)


def test_while_loops_within_loops_choices_and_batches() -> None:
    def nested(x: Any) -> Any:
        return fg.while_loop(
            lambda c: fnp.sum(c) < 900,
            lambda c: fg.cond(fnp.sum(c) > 70, lambda c: 1.4 * c + 1, lambda c: grown(c) + c, c),
            x,
        )

    scanned = lambda x: fg.scan(lambda c, _: (grown(c / 40) * c, c), x, None, length=3)  # noqa: E731
    assert called_back(fg.grad(lambda x: fnp.sum(nested(x))), X) == "nothing"
    assert_same(fg.grad(lambda x: fnp.sum(nested(x))), X)
    assert_same(fg.grad(lambda x: fnp.sum(scanned(x)[0] + scanned(x)[1])), X)
    batch = np.stack([X, X / 7, 90 * X, X * 2])
    assert_same(fg.vmap(fg.grad(lambda x: fnp.sum(grown(x)))), batch)
    assert_same(fg.vmap(fg.grad(lambda x: fnp.sum(nested(x)))), batch)


@pytest.mark.parametrize("char", "efdFD")
def test_loops_and_choices_move_any_dtype(char: str) -> None:
    x = X.astype(char)

    def value(x: Any) -> Any:
        return fg.while_loop(lambda c: fnp.sum(c.real) < 40, lambda c: c * 1.5, x)

    def chosen(x: Any) -> Any:
        return fg.switch(2, (lambda x: x, lambda x: x + 1, lambda x: x[::-1]), x)

    for f in (
        value,
        lambda x: fg.scan(lambda c, a: (c + a, c[::-1]), x, fnp.stack([x, x])),
        chosen,
    ):
        lines = called_back(f, x)
        assert not {"loop", "while_loop", "scan", "switch"} & {*lines.split(", ")}
        assert_same(f, x)
    assert "while_reverse" not in called_back(fg.grad(lambda x: fnp.sum(value(x)).real), x)
    assert_same(fg.grad(lambda x: fnp.sum(value(x)).real), x)


def test_errors_in_the_midst_of_stacks_come_out_and_leave_no_memory() -> None:
    def inverted(x: Any) -> Any:
        step = lambda c: (c[0] + 1, fnp.linalg.inv(c[1]))  # noqa: E731
        return fnp.sum(fg.while_loop(lambda c: c[0] < 9000, step, (0.0, x))[1])

    f = native(fg.grad(inverted))
    regular, singular = 2 * np.eye(16), np.zeros((16, 16))
    assert np.isfinite(np.asarray(f(regular))).all()
    before = 0
    for k in range(40):
        with pytest.raises(fg.errors.FuncgradError, match="singular"):
            f(singular)
        if k % 20 == 0:
            f(regular)  # 18 megabytes of states
        if k == 20:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_memory_that_stacks_are_refused_is_an_error() -> None:
    def endless(x: Any) -> Any:
        return fnp.sum(fg.while_loop(lambda c: c[0] > 0, lambda c: fnp.sin(c) + c, x))

    big = np.ones(2**21)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    f = native(fg.grad(endless))
    f(-big)
    used = resource.getpagesize() * int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, most))
    try:
        with pytest.raises(MemoryError):
            f(big)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    assert_same(fg.grad(endless), -big[:3])


def looped(body: Program, steps: int) -> Callable[[Any], Any]:
    loop = Loop(body, 0, 1, steps)
    return lambda x: apply(LOOP, x, **loop.params())[0]


def test_guards_inside_of_loops_are_checked() -> None:
    body = fg.program(lambda c: c * 2 if c < 50 else c / 3)(np.float64(1.0))
    program = fg.program(looped(body, 3))(np.float64(1.0))
    run = NATIVE.compile(NATIVE.prepare(program, False)).run
    assert run(np.float64(2.0)) == (16.0,)
    assert run(np.float64(20.0)) is None
    assert run(np.float64(100.0)) is None
    assert run(np.float64(3.0)) == (24.0,)


@pytest.mark.parametrize("depth", [40, 1000])
def test_loops_may_be_nested_until_python_refuses(depth: int) -> None:
    program = fg.program(lambda c: c + 1.0)(np.float64(1.0))
    for level in range(depth):
        program = fg.program(looped(program, 2 if level < 3 else 1))(np.float64(1.0))
    if depth == 40:
        assert NATIVE.compile(NATIVE.prepare(program, False)).run(np.float64(1.0)) == (9.0,)
        return
    with pytest.raises(RecursionError):
        NATIVE.compile(program)


@pytest.mark.parametrize("char", "df")
def test_python_numbers_are_carried(char: str) -> None:
    def mixed(x: Any) -> Any:
        return fg.while_loop(
            lambda c: c[0] < 7, lambda c: (c[0] + 2, c[1] * 1.5, x * c[1] + c[0]), (0, 2.5, x)
        )

    assert called_back(mixed, X.astype(char)) == "nothing"
    assert_same(mixed, X.astype(char), exact=True)
    derived = fg.grad(lambda x: fnp.sum(mixed(x)[2]))
    assert called_back(derived, X.astype(char)) == "nothing"
    assert_same(derived, X.astype(char))
    assert_same(fg.jacrev(derived), X.astype(char))

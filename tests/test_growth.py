"""The cost of loops is linear in their length, under every transformation; counted, not timed.

Two counts stand for time: the bytes that the operations of a staged function read and write, and
the calls of Python and C functions while it runs. Both are the same on every machine. The benchmark
``tests.tools.benchmarks.growth`` measures time and memory.
"""

from collections.abc import Callable
from typing import Any

import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.costs import costs
from funcgrad._programs.equation import Equation
from funcgrad._transforms.stager import Stager
from tests.counts import LENGTHS, MOST, added, calls_made
from tests.together import together
from tests.tools.benchmarks.loops import DEPTHS, LOOPS, WAYS, of_length
from tests.tools.benchmarks.measured import exponent, least_exponent

LINEAR = [*[name for name, loop in LOOPS.items() if loop.exponent == 1], *DEPTHS]


def bytes_touched(name: str, way: str, length: int) -> int:
    f, x = of_length(name, length)
    found = costs(fg.program(WAYS[way](f))(x))
    return sum(own.bytes_read + own.bytes_written for own in found.operations)


@pytest.mark.slow
@together("way", WAYS)
@together("name", LINEAR)
def test_what_operations_touch_grows_linearly(name: str, way: str) -> None:
    assert added(lambda length: bytes_touched(name, way, length)) < MOST


@pytest.mark.slow
@together("way", WAYS)
@together("name", LINEAR)
def test_calls_grow_linearly(name: str, way: str) -> None:
    def amount(length: int) -> int:
        f, x = of_length(name, length)
        run = WAYS[way](f)
        return calls_made(lambda: run(x))

    assert added(amount) < MOST


@pytest.mark.parametrize("name", ["rows", "leaves", "sections"])
def test_staging_grows_linearly(name: str) -> None:
    def amount(length: int) -> int:
        f, x = of_length(name, length)
        return calls_made(lambda: fg.jit(fg.grad(f))(x))

    amount(LENGTHS[0])  # what is done once, as imports are, is not counted
    assert added(amount) < MOST


def test_a_square_is_noticed() -> None:
    def amount(length: int) -> int:
        f, x = of_length("writes", 8 * length)
        found = costs(fg.program(f)(x))
        return sum(own.bytes_read + own.bytes_written for own in found.operations)

    assert added(amount) > MOST
    assert added(lambda length: calls_made(lambda: [abs(k) for k in range(length**2)])) > MOST


def test_a_step_is_no_growth() -> None:
    """Counts of 100 per step up to length 200, and of 250 beyond: linear, with a jump."""
    lengths = (100, 200, 400)
    steps = [100 * 100, 100 * 200, 250 * 400]
    assert exponent(lengths, steps) > 1.5
    assert least_exponent(lengths, steps) == pytest.approx(1)
    squares = [n * n for n in lengths]
    assert exponent(lengths, squares) == pytest.approx(2)
    assert least_exponent(lengths, squares) == pytest.approx(2)


def chain_of_choices(count: int) -> Callable[[Any], Any]:
    """An else-if chain: each choice is in a branch of the one before."""

    def put_on(x: Any, number: int) -> Any:
        if number == count:
            return x * x
        return fg.cond(
            x < number, lambda x: fnp.sin(x) * number, lambda x: put_on(x, number + 1), x
        )

    return lambda x: put_on(x, 0)


def chain_of_calls(count: int) -> Callable[[Any], Any]:
    """Nested functions with rules: each calls the one before, as do its rules."""
    f: Any = fnp.sin
    for _ in range(count):
        f = with_rules(f)
    return f


def with_rules(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    f = fg.custom_vjp(lambda x: 1.5 * inner(x))
    f.defvjp(lambda x: (1.5 * inner(x), x), lambda x, ct: (ct * inner(x),))
    return f


TRANSFORMS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "grad": lambda f: fg.program(fg.grad(f)),
    "grad of grad": lambda f: fg.program(fg.grad(fg.grad(f))),
    "vmap of grad": lambda f: fg.program(lambda x: fg.vmap(fg.grad(f))(fnp.stack([x, x]))),
    "program": fg.program,
}


@pytest.mark.slow
@pytest.mark.parametrize("chain", [chain_of_choices, chain_of_calls])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_programs_staged_grow_linearly_with_what_stands_in_one_another(
    chain: Any, name: str
) -> None:
    """Each level would double the work if it were repeated for every use."""

    def amount(depth: int) -> int:
        f = chain(depth)
        return calls_made(lambda: TRANSFORMS[name](f)(0.5), Stager.finish)

    few, more, most = map(amount, (3, 6, 12))
    assert most - more < MOST * (more - few)


def test_equations_are_hashed_as_often_as_there_are_more_of_them() -> None:
    def amount(depth: int) -> int:
        staged = fg.program(fg.grad(chain_of_choices(depth)))
        return calls_made(lambda: staged(0.5), Equation.__hash__)

    few, more, most = map(amount, (3, 6, 12))
    assert most - more < MOST * (more - few)

"""What loops cost grows as their length, under every transformation. Counted, not timed.

Two counts stand for time: the bytes that the operations of a staged function read and write, and
the calls of Python and C functions while it runs. Both are the same on every machine. The benchmark
``tests.benchmarks.growth`` measures time and memory.
"""

import pytest

import funcgrad as fg
from funcgrad.passes.costs import costs
from tests.benchmarks.loops import DEPTHS, LOOPS, WAYS, of_length
from tests.benchmarks.measured import exponent, least_exponent
from tests.counts import LENGTHS, MOST, added, calls_made

LINEAR = [*[name for name, loop in LOOPS.items() if loop.exponent == 1], *DEPTHS]


def bytes_touched(name: str, way: str, length: int) -> int:
    f, x = of_length(name, length)
    found = costs(fg.program(WAYS[way](f))(x))
    return sum(own.bytes_read + own.bytes_written for own in found.operations)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LINEAR)
def test_what_operations_touch_grows_linearly(name: str, way: str) -> None:
    assert added(lambda length: bytes_touched(name, way, length)) < MOST


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", LINEAR)
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
    """Of 100 for each up to 200, and 250 from there on, twice as much for twice the length."""
    lengths = (100, 200, 400)
    steps = [100 * 100, 100 * 200, 250 * 400]
    assert exponent(lengths, steps) > 1.5
    assert least_exponent(lengths, steps) == pytest.approx(1)
    squares = [n * n for n in lengths]
    assert exponent(lengths, squares) == pytest.approx(2)
    assert least_exponent(lengths, squares) == pytest.approx(2)

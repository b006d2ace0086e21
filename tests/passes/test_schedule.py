"""Scheduling changes the order of equations, and nothing else; it needs less memory at once."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.costs import peak_bytes
from funcgrad._passes.schedule import memory_order, reordered, schedule
from funcgrad._passes.workbench import improve
from funcgrad._programs.program import Program
from funcgrad.errors import GuardError
from tests.subjects import SUBJECTS, assert_bits, inputs, run_steps, steps
from tests.together import together
from tests.transforms.support import numbers

SIZE = 20_000
BYTES = 8 * SIZE


def assert_reordered(program, args):
    """Check the laws of a scheduled program, whether it needs less memory or not."""
    order, peak = memory_order(program)
    other = reordered(program, order).verify()
    assert sorted(order) == list(range(len(program.equations)))
    assert peak == peak_bytes(other)
    assert Counter(e.operation for e in other.equations) == Counter(
        e.operation for e in program.equations
    )
    assert [(g.use, g.source) for g in other.guards] == [(g.use, g.source) for g in program.guards]
    assert reordered(other, np.argsort(order).tolist()) == program
    places = np.argsort(order).tolist()
    assert all(places[first] < places[second] for first, second in recomputations(program))
    assert_bits(other(*args), program(*args))
    return other


def recomputations(program):
    """Equations that a checkpoint runs again, each after the last one that stands before it."""
    for second, equation in enumerate(program.equations):
        earlier = [k for k in range(second) if program.equations[k].epoch < equation.epoch]
        if earlier:
            yield earlier[-1], second


@together("subject", SUBJECTS.values(), ids=SUBJECTS)
def test_results_keep_their_bits(subject):
    with np.errstate(all="ignore"):
        assert_reordered(subject.staged(), subject.args)
        assert_reordered(improve(subject.staged(), {}), subject.args)


@settings(max_examples=40)
@given(
    first=st.lists(steps, min_size=1, max_size=12),
    second=st.lists(steps, min_size=1, max_size=12),
    arguments=inputs,
    kept=st.lists(st.integers(0, 99), min_size=1, max_size=4),
)
def test_random_programs_keep_their_bits_and_their_guards(first, second, arguments, kept):
    def f(*args):
        values = run_steps(first, *args)
        if bool(fnp.any(fnp.isnan(values[-1]))):  # a guard, behind which the rest stays
            values += run_steps(second, *args)
        else:
            values += run_steps(second, *values, *args)
        return [values[k % len(values)] for k in kept]

    with np.errstate(all="ignore"):
        assert_reordered(fg.program(f)(*arguments), arguments)


def branches(x, count=30):
    return sum([fnp.sin(x * float(k + 2)) for k in range(count)])


def two_at_once(x):
    """Large values, made in one order and used in the reverse order."""
    large = [fnp.exp(x * float(k)) for k in range(2, 22)]
    return sum([fnp.sum(value) for value in reversed(large)])


def checkpoints(x):
    for _ in range(3):
        x = fg.checkpoint(lambda x: branches(x, 12))(x)
    return fnp.sum(x)


LARGE = {
    "branches": branches,
    "gradient of branches": fg.grad(lambda x: fnp.sum(branches(x))),
    "reversed": two_at_once,
    "chain": lambda x: fnp.sin(fnp.cos(fnp.exp(x))),
    "gradient of a chain": fg.grad(lambda x: fnp.sum(fnp.tanh(fnp.sin(fnp.tanh(x) * x)))),
    "views": lambda x: sum([fnp.flip(x)[k:-k] * 2.0 for k in range(1, 2)]) + x[2:],
    "outputs": lambda x: [x * float(k) for k in range(2, 20)],
    "checkpoints": fg.grad(checkpoints),
}
by_large = pytest.mark.parametrize("f", LARGE.values(), ids=LARGE)


@by_large
def test_the_peak_is_never_higher_and_nothing_is_left_to_gain(f):
    x = numbers(SIZE)
    for program in (fg.program(f)(x), improve(fg.program(f)(x), {})):
        found = schedule(program)
        assert peak_bytes(found) <= peak_bytes(program)
        assert schedule(found) is found
        assert_bits(found(x), program(x))


def test_what_is_computed_again_stays_late():
    program = improve(fg.program(fg.grad(checkpoints))(numbers(SIZE)), {})
    assert len(list(recomputations(program))) > 20
    other = assert_reordered(program, (numbers(SIZE),))
    assert peak_bytes(other) < 10 * BYTES < peak_bytes(program)


@pytest.mark.parametrize("name", ["branches", "gradient of branches", "reversed"])
def test_large_values_are_made_when_they_are_used(name):
    x = numbers(SIZE)
    program = improve(fg.program(LARGE[name])(x), {})
    assert peak_bytes(program) >= 20 * BYTES
    assert peak_bytes(schedule(program)) <= 4 * BYTES


def measured_peak(program: Program, x: np.ndarray) -> int:
    """The bytes that a program really needs if its equations run one after another."""

    def run(x: np.ndarray) -> None:
        program.evaluate([x])

    run(x)
    peaks = []
    for _ in range(3):
        tracemalloc.start()
        try:
            run(x)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def test_the_memory_that_is_really_needed_is_less():
    x = numbers(SIZE)
    program = improve(fg.program(branches)(x), {})
    assert measured_peak(program, x) > 20 * BYTES
    assert measured_peak(schedule(program), x) < 5 * BYTES


def test_a_program_that_needs_little_or_gains_nothing_stays_itself():
    for f, x in ((branches, numbers(100)), (LARGE["chain"], numbers(SIZE)), (branches, 1.0)):
        program = fg.program(f)(x)
        assert schedule(program) is program


def test_the_first_guard_that_does_not_hold_is_still_the_one_that_raises():
    def f(x, y):
        wide = x * 2.0
        if fnp.sum(wide) > 0:  # what this looks at takes more memory than what the next one does
            y = y + 1.0
        if y > 0:
            y = y * 3.0
        return fnp.sum(wide) * y

    program = fg.program(f)(numbers(SIZE) ** 2, 1.0)
    other = reordered(program, memory_order(program)[0])
    for each in (program, other):
        with pytest.raises(GuardError, match="was True"):
            each(-(numbers(SIZE) ** 2), -5.0)
    uses = [guard.source for guard in other.guards]
    assert sorted(range(2), key=lambda k: other.guards[k].variable) == [0, 1]
    assert uses == [guard.source for guard in program.guards]


def test_what_stands_behind_a_guard_is_not_tried_before_it():
    def f(x, base, exponent):
        wide = x * 2.0
        return fnp.sum(wide) + (base**exponent if fnp.sum(wide) > 0 else 0)

    x, base = numbers(SIZE) ** 2, np.array([2])
    program = fg.program(f)(x, base, np.array([3]))
    other = reordered(program, memory_order(program)[0])
    assert_bits(other(x, base, np.array([3])), program(x, base, np.array([3])))
    with pytest.raises(ValueError, match="negative"):
        other(x, base, np.array([-3]))
    with pytest.raises(GuardError):  # although NumPy refuses this power
        other(-x, base, np.array([-3]))


@fg.custom_jvp
def told(x):
    return np.asarray(x) * 2.0


told.defjvp(lambda primals, tangents: (told(*primals), tangents[0] * 2.0))


def test_calls_of_a_users_functions_keep_their_order():
    def f(x, y):
        return fnp.sum(told(x)) * told(y)  # the second needs less, and could come first

    program = fg.program(f)(numbers(SIZE), 1.0)
    other = reordered(program, memory_order(program)[0])
    calls = [
        [e.results for e in p.equations if e.name == "custom_jvp told"] for p in (program, other)
    ]
    assert [spec.shape for (spec,) in calls[0]] == [(SIZE,), ()]
    assert calls[0] == calls[1]


def test_long_and_wide_programs_need_no_recursion():
    def long(x):
        for _ in range(3000):
            x = fnp.sin(x) + 1.0
        return x

    def wide(x):
        return fnp.concatenate([x * float(k) for k in range(2000)])

    for f in (long, wide):
        program = fg.program(f)(numbers(2))
        assert memory_order(program)[0] == list(range(len(program.equations)))

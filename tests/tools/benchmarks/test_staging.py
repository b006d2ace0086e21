"""From a function to code: staging, optimizing, compiling; and how that grows with length."""

import sys
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._passes.costs import peak_bytes
from funcgrad._passes.pipeline import optimize
from funcgrad._passes.schedule import memory_order
from tests.tools.benchmarks.functions import chain, layers, loop, mlp, rows

LOOPS = {f"loop of {steps}": steps for steps in (500, 1000, 2000)}
by_name = pytest.mark.parametrize("name", ["chain", "mlp", *LOOPS])
by_loop = pytest.mark.parametrize("name", LOOPS)


def subject(name, timed):
    """A function and its arguments; run as a test only, loops are a tenth as long."""
    if name in LOOPS:
        return fg.grad(loop(LOOPS[name] if timed else LOOPS[name] // 10)), (np.ones(300),)
    return {"chain": (chain, (2.0,)), "mlp": (fg.value_and_grad(mlp), (layers(), rows()))}[name]


@cache
def staged(name, timed):
    """The program of a subject."""
    f, args = subject(name, timed)
    return fg.program(f)(*args)


@cache
def optimized(name, timed):
    """The program of a subject after all passes."""
    return optimize(staged(name, timed))


@pytest.mark.benchmark(group="stage")
@by_name
def test_stage(benchmark, name):
    f, args = subject(name, benchmark.enabled)
    program = benchmark(fg.program(f), *args)
    benchmark.extra_info["equations"] = len(program.equations)
    assert len(program.equations) > 20


@pytest.mark.benchmark(group="optimize")
@by_name
def test_optimize(benchmark, name):
    before = staged(name, benchmark.enabled)
    program = benchmark(optimize, before)
    benchmark.extra_info["equations"] = len(before.equations)
    benchmark.extra_info["equations left"] = len(program.equations)
    assert len(program.equations) <= len(before.equations)


@pytest.mark.benchmark(group="compile")
@by_name
def test_compile(benchmark, name):
    program = optimized(name, benchmark.enabled)
    run = benchmark(compile_program, program)
    benchmark.extra_info["equations"] = len(program.equations)
    args = subject(name, benchmark.enabled)[1]
    found = run(*[np.asarray(leaf) for leaf in fg.tree.leaves(args)])
    assert len(found) == len(program.outputs)


@pytest.mark.benchmark(group="schedule")
@by_loop
def test_schedule(benchmark, name):
    program = optimized(name, benchmark.enabled)
    order, peak = benchmark(memory_order, program)
    benchmark.extra_info["equations"] = len(program.equations)
    assert len(order) == len(program.equations)
    assert peak <= peak_bytes(program)


# --------------------------------------------------------------------------------- without times


def sizes_of(steps):
    """Equations before and after passes, and lines of source."""
    program = fg.program(fg.grad(loop(steps)))(np.ones(3))
    less = optimize(program)
    lines = less.to_numpy_source().splitlines()
    return np.array([len(program.equations), len(less.equations), len(lines)])


def test_every_step_of_a_loop_adds_the_same():
    sizes = [sizes_of(steps) for steps in (50, 100, 200)]
    assert_array_equal(sizes[2] - sizes[1], 2 * (sizes[1] - sizes[0]))


def test_a_long_loop_gives_the_gradient_that_it_gives_eagerly():
    program = optimized("loop of 2000", timed=True)
    assert 2000 * 3 <= len(program.equations) <= 2000 * 6
    x = np.linspace(-1.0, 1.0, 300)
    (found,) = compile_program(program)(x)
    assert_array_equal(found, fg.grad(loop(2000))(x))


def calls(work):
    """The number of calls of Python functions."""
    count = 0

    def notice(frame, event, arg):
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def work_of(steps):
    """The stages for a loop of a number of steps."""
    f, x = fg.grad(loop(steps)), np.ones(10)  # too small for some passes to do anything
    program = fg.program(f)(x)
    less = optimize(program)
    return {
        "stage": lambda: fg.program(f)(x),
        "optimize": lambda: optimize(program),
        "compile": lambda: compile_program(less),
        "schedule": lambda: memory_order(less),
    }


@pytest.mark.parametrize("stage", ["stage", "optimize", "compile", "schedule"])
def test_work_grows_with_length_and_no_faster(stage):
    short, middle, long = [calls(work_of(steps)[stage]) for steps in (40, 80, 160)]
    assert middle - short > 40
    assert long - middle < 2.2 * (middle - short)

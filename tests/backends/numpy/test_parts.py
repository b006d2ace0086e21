"""Long programs become several functions, with the results of a single one."""

from __future__ import annotations

import gc
import traceback
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.backends.numpy import backend
from funcgrad.backends.numpy.backend import compile_program
from funcgrad.backends.numpy.parts import LONGEST
from funcgrad.backends.numpy.source import Source
from funcgrad.backends.numpy.writer import numpy_source
from funcgrad.errors import GuardError
from funcgrad.passes.pipeline import optimize
from funcgrad.trace import concrete
from tests.backends.numpy.test_plans import subject
from tests.subjects import SUBJECTS, assert_bits, function_of

pytestmark = pytest.mark.slow


def compiled(source: Source) -> Callable[..., Any]:
    """The function of a source, compiled as the backend does it."""
    return backend._function(source)


@pytest.mark.parametrize("longest", [1, 3, 10])
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_program_in_parts_gives_the_same_bits(name: str, longest: int) -> None:
    program = SUBJECTS[name].staged()
    values = [concrete(leaf) for leaf in fg.tree.leaves(SUBJECTS[name].args)]
    for each in (program, optimize(program)):
        source = numpy_source(each, lines=True, longest=longest)
        with np.errstate(all="ignore"):
            for run in (compiled(source), function_of(source)):
                assert_bits(list(run(*values)), list(each.evaluate(values)))


@pytest.mark.parametrize("start", range(0, 160, 40))
def test_parts_hand_on_what_plans_put_in_shared_memory(start: int) -> None:
    """Kernels, slots, shelves and the memory that results reuse all cross the ends of parts."""
    for seed in range(start, start + 40):
        program, args = subject(seed)
        block, longest = (16, 24, 40, 64)[seed % 4], 1 + seed % 5
        whole = function_of(numpy_source(program, block=block))
        cut = compiled(numpy_source(program, block=block, longest=longest))
        with np.errstate(all="ignore"):
            expected = [np.array(each) for each in whole(*args)]
            found = cut(*args)
            cut(*args)  # which must not write to what is returned
        assert_bits([np.array(each) for each in found], expected)


def looped(x: Any) -> Any:
    y = x
    for _ in range(LONGEST):
        y = fnp.sin(y * 0.9 + x) - y / 3.0
    return fnp.sum(y)


def looped_numbers(x: Any) -> Any:
    y = x
    for _ in range(LONGEST // 2):
        y = y * y * 0.3 + x * y
    return y


def test_a_long_program_is_cut_and_a_short_one_is_not() -> None:
    x = np.linspace(0.1, 0.8, 8)
    staged = optimize(fg.program(fg.value_and_grad(looped))(x))
    source = numpy_source(staged)
    assert len(source.functions) > 4
    assert max(function.count("\n") for function in source.functions) < 2 * LONGEST
    assert_bits(list(compile_program(staged)(x)), list(staged.evaluate([x])))
    assert len(numpy_source(fg.program(fnp.sin)(1.0)).functions) == 1


def test_a_long_program_on_numbers_stays_whole() -> None:
    staged = optimize(fg.program(fg.grad(looped_numbers))(0.5))
    assert len(staged.equations) > 2 * LONGEST
    assert len(numpy_source(staged).functions) == 1
    cut = numpy_source(staged, longest=LONGEST)
    assert len(cut.functions) > 2
    assert_bits(list(compiled(cut)(0.5)), list(compile_program(staged)(0.5)))


def test_a_guard_that_does_not_hold_ends_all_parts() -> None:
    program = fg.program(lambda x: fnp.sin(x * x) if x > 0 else x)(2.0)
    for raises in (True, False):
        run = compiled(numpy_source(program, longest=1, raises=raises))
        assert_bits(list(run(3.0)), list(program.evaluate([3.0])))
        if raises:
            with pytest.raises(GuardError):
                run(-3.0)
        else:
            assert run(-3.0) is None


@pytest.mark.parametrize("table", [None, np.arange(1000.0)], ids=["text", "with constants"])
def test_errors_show_the_line_of_the_text(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(program: fg.Program, lines: bool, raises: bool) -> Source:
        return numpy_source(program, lines, raises=raises, longest=1)

    monkeypatch.setattr(backend, "numpy_source", cut)

    def f(x: Any) -> Any:
        y = fnp.exp(x) if table is None else fnp.exp(x) + fnp.sum(table)
        return fnp.log(x * y)

    run = compile_program(fg.program(f)(np.ones(2)))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError) as raised:
        run(np.zeros(2))
    shown = "".join(traceback.format_exception(raised.value)).splitlines()
    (at,) = [k for k, line in enumerate(shown) if line.strip().startswith("log(")]
    assert "in f_" in shown[at - 1]


def test_the_parts_of_a_program_go_without_the_collector() -> None:
    program = fg.program(lambda x: fnp.sin(x * x) + x)(2.0)
    gc.collect()
    gc.disable()
    try:
        run = compiled(numpy_source(program, longest=1))
        run(3.0)
        names = [name for name in run.__code__.co_names if name.startswith("f_")]
        parts = [weakref.ref(run.__globals__[name]) for name in names]
        assert len(parts) > 1
        del run
        assert not any(part() for part in parts)
    finally:
        gc.enable()


def test_nothing_lives_longer_than_in_one_function() -> None:
    """Each of 40 steps drops an array of 80 kB, and the gradient reads each again."""

    def f(x: Any) -> Any:
        for _ in range(40):
            x = fnp.sin(x)[::-1]
        return fnp.sum(x)

    x = np.linspace(0.0, 1.0, 10_000)
    program = optimize(fg.program(fg.grad(f))(x))
    peaks = []
    for longest in (10**6, 20):
        run = compiled(numpy_source(program, longest=longest))
        tracemalloc.start()
        try:
            run(x)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.05 * peaks[0]

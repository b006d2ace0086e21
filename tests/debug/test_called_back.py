"""Counts of operations that machine code calls back."""

from threading import Thread
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp


def counted(f: Any, *args: Any) -> dict[str, int]:
    run = fg.jit(f, backend="native")
    run(*args)
    with fg.debug.called_back() as counts:
        run(*args)
    run(*args)  # which nobody counts
    return dict(counts)


def test_programs_that_never_leave_count_nothing() -> None:
    assert counted(lambda x: fnp.sum(fnp.sin(x)), np.ones(5)) == {}


def test_each_step_of_a_loop_counts() -> None:
    def steps(x: Any) -> Any:
        return fg.scan(lambda c, _: (fg.scipy.special.exprel(c) + 2.0, None), x, None, length=7)[0]

    assert counted(steps, np.float64(3.0)) == {"exprel": 7}


@pytest.mark.parametrize("x", [0.5, np.nan])
def test_operations_that_leave_at_times_say_so_and_count(x: float) -> None:
    def solved(right: Any) -> Any:
        lower = np.tril(np.ones((30, 30)))
        return fg.scipy.linalg.solve_triangular(lower, right, lower=True)

    right = np.full(30, x)
    lines = fg.jit(solved, backend="native").lower(right).source.splitlines()
    assert lines[0] == "; called back: nothing"
    assert lines[1].startswith("; called back at times: triangular_solve: ")
    assert counted(solved, right) == ({"triangular_solve": 1} if x != x else {})


def test_products_of_complex_numbers_at_infinity() -> None:
    z = np.array([1 + 1j, 2.0, 3j])
    source = fg.jit(fnp.prod, backend="native").lower(z).source
    assert "; called back at times: prod: a result that is not finite" in source
    assert counted(fnp.prod, z) == {}
    assert counted(fnp.prod, np.array([complex(np.inf, np.nan), 2.0, 3j])) == {"prod": 1}


def test_every_call_back_that_gives_a_result_is_announced() -> None:
    kernel, x = np.array([1.0, np.inf, 2.0]), np.arange(8.0)

    def gradient(kernel: Any, x: Any) -> Any:
        return fg.grad(lambda x: fnp.sum(fnp.convolve(x, kernel, mode="valid")))(x)

    with np.errstate(all="ignore"):
        for argument in (kernel, np.ones(3)):
            counts = counted(gradient, argument, x)
            source = fg.jit(gradient, backend="native").lower(argument, x).source
            for name in counts:
                assert f"; called back at times: {name}" in source


def test_threads_count_for_themselves() -> None:
    run = fg.jit(fg.scipy.special.exprel, backend="native")
    run(np.ones(2))
    with fg.debug.called_back() as counts:
        thread = Thread(target=run, args=(np.ones(2),))
        thread.start()
        thread.join()
    assert not counts

"""vmap of random functions that branch in Python equals the plain loop over their examples."""

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.transforms.branching import BATCHES, PROGRAMS, Function, distinct_paths, looped

QUICK = 5
THOROUGH = 100


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(actual), expected, rtol=1e-7, atol=1e-9)


def check_eager(program: Any, rng: np.random.Generator) -> None:
    """Values, derivatives of two orders, both modes, both nestings, and the number of runs."""
    f = Function(program)
    batch = rng.normal(size=int(rng.integers(1, 12)))
    values, slopes = looped(f, batch), looped(fg.grad(f), batch)
    bends = looped(fg.grad(fg.grad(f)), batch)
    paths = distinct_paths(f, batch)
    f.runs = 0
    close(fg.vmap(f)(batch), values)
    assert f.runs == paths

    def total(xs: Any) -> Any:
        return fnp.sum(fg.vmap(f)(xs))

    ones = np.ones_like(batch)
    close(fg.vmap(fg.grad(f))(batch), slopes)
    close(fg.grad(total)(batch), slopes)
    close(fg.jvp(fg.vmap(f), (batch,), (ones,))[1], slopes)
    close(fg.vmap(lambda x: fg.jvp(f, (x,), (1.0,))[1])(batch), slopes)
    close(fg.vmap(fg.grad(fg.grad(f)))(batch), bends)
    close(fg.grad(lambda xs: fnp.sum(fg.grad(total)(xs)))(batch), bends)
    close(fg.jvp(fg.grad(total), (batch,), (ones,))[1], bends)
    close(np.asarray(fg.hessian(total)(batch)), np.diag(bends))


def check_nested(program: Any, rng: np.random.Generator) -> None:
    """Batches of batches, to three levels, with the derivative at each place."""
    f = Function(program)
    batch = rng.normal(size=(2, 2, 2))
    values, slopes = looped(f, batch), looped(fg.grad(f), batch)
    close(fg.vmap(fg.vmap(fg.vmap(f)))(batch), values)
    close(fg.vmap(fg.vmap(fg.vmap(fg.grad(f))))(batch), slopes)
    inner = fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs)))
    close(fg.vmap(fg.vmap(inner))(batch), slopes)
    outer = fg.grad(lambda xs: fnp.sum(fg.vmap(fg.vmap(fg.vmap(f)))(xs)))
    close(outer(batch), slopes)


def check_patterns(program: Any, rng: np.random.Generator) -> None:
    """Batches of batches whose answers form many patterns, with derivatives of two orders."""
    f = Function(program)
    batch = rng.normal(size=(6, 4))
    values, slopes = looped(f, batch), looped(fg.grad(f), batch)
    bends = looped(fg.grad(fg.grad(f)), batch)
    close(fg.vmap(fg.vmap(f))(batch), values)

    def total(xs: Any) -> Any:
        return fnp.sum(fg.vmap(f)(xs))

    close(fg.vmap(fg.grad(total))(batch), slopes)
    close(fg.vmap(fg.vmap(fg.grad(fg.grad(f))))(batch), bends)
    close(fg.vmap(fg.grad(lambda xs: fnp.sum(fg.grad(total)(xs))))(batch), bends)
    ones = np.ones_like(batch)
    close(fg.jvp(fg.vmap(fg.grad(total)), (batch,), (ones,))[1], bends)


def check_staged(program: Any, rng: np.random.Generator) -> None:
    """Under jit, in every place; also for other batches of the same size."""
    f = Function(program)
    jit = partial(fg.jit, backend="numpy")  # in a fraction of the time of machine code
    jitted = jit(fg.vmap(f))
    slope = jit(fg.grad(lambda xs: fnp.sum(fg.vmap(f)(xs))))
    bend = jit(fg.vmap(fg.grad(fg.grad(f))))
    inside = fg.vmap(jit(f))
    for _ in range(2):
        batch = rng.normal(size=5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # functions with many paths run unstaged
            close(jitted(batch), looped(f, batch))
            close(slope(batch), looped(fg.grad(f), batch))
            close(bend(batch), looped(fg.grad(fg.grad(f)), batch))
            close(inside(batch), looped(f, batch))
            close(fg.vmap(fg.grad(jit(f)))(batch), looped(fg.grad(f), batch))


CHECKS = [check_eager, check_nested, check_patterns, check_staged]


@pytest.mark.parametrize("examples", [QUICK, pytest.param(THOROUGH, marks=pytest.mark.slow)])
@pytest.mark.parametrize("check", CHECKS)
def test_batches_equal_the_loop(check: Any, examples: int) -> None:
    @settings(max_examples=examples)
    @given(PROGRAMS, BATCHES)
    def run(program: Any, rng: np.random.Generator) -> None:
        check(program, rng)

    run()

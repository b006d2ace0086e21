"""Passes that reorder sums of products: the programs that they make, and their rounding errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._passes.contractions import fold_into_contractions
from funcgrad._passes.workbench import improve
from funcgrad._programs.program import Program
from tests.counts import MOST, added, calls_made
from tests.subjects import SUBJECTS
from tests.together import together
from tests.transforms.support import numbers


def names_of(program: Program) -> list[str]:
    return [equation.operation.name for equation in program.equations]


def staged(f: Callable[..., Any], *args: Any) -> Program:
    return improve(fg.program(f)(*args), {})


def single(*shape: int, seed: int = 0) -> Any:
    return numbers(*shape, seed=seed).astype(np.float32)


def assert_close(change: Callable[[Program], Program], program: Program, *args: Any) -> Program:
    """Check a pass where all arguments are 1 at most: absolute errors are those of sums."""
    changed = change(program).verify()
    assert change(changed) == changed
    specs, before = changed.specs(), program.specs()
    assert [specs[v] for v in changed.outputs] == [before[v] for v in program.outputs]
    with np.errstate(all="ignore"):
        pairs = zip(pytrees.leaves(changed(*args)), pytrees.leaves(program(*args)), strict=True)
    for own, other in pairs:
        own, other = np.asarray(own), np.asarray(other)
        scale = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
        rtol = 1000 * np.finfo(own.dtype).eps if own.dtype.kind in "fc" else 0
        np.testing.assert_allclose(own, other, rtol=rtol, atol=rtol * scale)
    return changed


@together("name", SUBJECTS)
def test_any_program_means_the_same(name: str) -> None:
    subject = SUBJECTS[name]
    assert_close(fold_into_contractions, subject.staged(), *subject.args)
    assert_close(fold_into_contractions, improve(subject.staged(), {}), *subject.args)


# ----------------------------------------------------------------------- sums of contractions

SUMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...], list[str]]] = {
    "what both have is summed with the rest": (
        lambda x, y: fnp.sum(fnp.einsum("nki,kij->nkj", x, y), axis=1),
        (50, 4, 6),
        (4, 6, 5),
        ["contract"],
    ),
    "a stack of products": (
        lambda x, y: fnp.sum(x @ y, axis=0),
        (7, 30, 20),
        (7, 20, 10),
        ["contract"],
    ),
    "all products of numbers": (lambda x, y: fnp.sum(x * y), (30, 20), (30, 20), ["contract"]),
    "long columns of products of numbers": (
        lambda x, y: fnp.sum(x * y, axis=0),
        (1000, 10),
        (1000, 10),
        ["contract"],
    ),
    "long rows of products of numbers": (
        lambda x, y: fnp.sum(x * y, axis=1),
        (100, 200),
        (100, 200),
        ["contract"],
    ),
}


@together("name", SUMS)
@together("dtype", [np.float32, np.float64])
def test_sums_become_part_of_products(name: str, dtype: Any) -> None:
    f, first, second, expected = SUMS[name]
    x, y = numbers(*first).astype(dtype), numbers(*second, seed=1).astype(dtype)
    program = staged(f, x, y)
    folded = assert_close(fold_into_contractions, program, x, y)
    assert names_of(folded) == expected


@pytest.mark.parametrize("name", SUMS)
def test_rounding_is_that_of_a_sum_in_another_order(name: str) -> None:
    f, first, second, _ = SUMS[name]
    x, y = single(*first), single(*second, seed=1)
    wide, of_sizes = [
        np.asarray(f(*[fg.tensor(g(z.astype(float))) for z in (x, y)])) for g in (np.array, np.abs)
    ]
    own = np.asarray(fold_into_contractions(staged(f, x, y))(x, y))
    terms = x.size * y.size / max(own.size, 1)
    assert np.all(abs(own - wide) <= terms * np.finfo(np.float32).eps * of_sizes)


@together("name", SUMS)
@together("seed", range(4))
def test_nan_and_infinities_stay_where_they_were(name: str, seed: int) -> None:
    f, first, second, _ = SUMS[name]
    rng = np.random.default_rng(seed)
    args = [numbers(*first), numbers(*second, seed=1)]
    for arg in args:
        places = rng.integers(arg.size, size=max(3, arg.size // 50))
        arg.flat[places] = rng.choice([np.inf, -np.inf, 0.0, np.nan], places.size)
    program = staged(f, *args)
    with np.errstate(all="ignore"):
        own, other = fold_into_contractions(program)(*args), program(*args)
    assert_array_equal(np.where(np.isfinite(own), 0, own), np.where(np.isfinite(other), 0, other))


@together(
    "f",
    [
        lambda x, y: (fnp.sum(x @ y, axis=0), x @ y),
        lambda x, y: fnp.sum(x[0] @ y),
        lambda x, y: fnp.sum((x * x).astype(int), axis=0),
        lambda x, y: fnp.sum(x[:3, :3] * y[:3, :3], axis=0),
        lambda x, y: fnp.sum(fnp.outer(x[0, :2], y[:2, 0]), axis=0),
        # Where x has infinities of either sign, which factors that are added up before do not have:
        lambda x, y: fnp.sum(x @ y, axis=0),
        lambda x, y: fnp.sum(x @ y, axis=1, keepdims=True),
        lambda x, y: fnp.sum(x @ y),
        lambda x, y: fnp.sum(fnp.stack([x, x]) @ y, axis=0),
        lambda x, y: fnp.sum(fnp.einsum("ni,kij->nkj", x, fnp.stack([y, y])), axis=0),
        lambda x, y: fnp.sum(fnp.broadcast_to(x, (9, 30, 20)) * y.T, axis=0),
    ],
)
def test_what_others_need_or_changes_terms_or_saves_nothing_stays(f: Any) -> None:
    x, y = numbers(30, 20), numbers(20, 30, seed=1)
    program = staged(f, x, y)
    assert fold_into_contractions(program) == program


def test_a_guarded_product_stays() -> None:
    def f(x):
        y = x * x
        return fnp.sum(y) if float(y[0]) > 0 and bool((x[:1] * x[:1])[0] > 0) else x[0]

    x = numbers(5)
    program = staged(f, x)
    folded = fold_into_contractions(program)
    assert [guard.use for guard in folded.guards] == [guard.use for guard in program.guards]
    assert_close(fold_into_contractions, program, x)


# -------------------------------------------------------------------------------------- speed


def loss(w: Any, u: Any, b: Any, h: Any, xs: Any) -> Any:
    for x in xs:
        h = fnp.tanh(x @ u + h @ w + b)
    return fnp.sum(h * h)


GRADIENT = fg.grad(loss, (0, 1, 2))


def rnn(steps: int, *batch: int) -> tuple[Any, ...]:
    shapes = ((8, 8), (4, 8), (8,), (*batch, 8), (steps, *batch, 4))
    return tuple(0.5 * single(*shape, seed=k) for k, shape in enumerate(shapes))


def test_long_loops_take_calls_in_proportion() -> None:
    def amount(steps: int) -> int:
        program = staged(GRADIENT, *rnn(steps, 2))
        return calls_made(lambda: fold_into_contractions(program))

    assert added(amount) < MOST

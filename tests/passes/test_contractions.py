"""Passes that reorder sums of products: what they make of programs, and how exact that is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import trees
from funcgrad.passes.common import merge_common_subexpressions
from funcgrad.passes.contractions import fold_into_contractions
from funcgrad.passes.dead_code import remove_dead_code
from funcgrad.passes.product_sums import merge_sums_of_products
from funcgrad.passes.products import merge_products
from funcgrad.passes.workbench import improve
from funcgrad.programs.program import Program
from tests.counts import MOST, added, calls_made
from tests.programs import SUBJECTS
from tests.transforms.support import numbers

PASSES = {
    each.__name__: each for each in (fold_into_contractions, merge_sums_of_products, merge_products)
}
by_pass = pytest.mark.parametrize("change", PASSES.values(), ids=PASSES)


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
        pairs = zip(trees.leaves(changed(*args)), trees.leaves(program(*args)), strict=True)
    for own, other in pairs:
        own, other = np.asarray(own), np.asarray(other)
        scale = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
        rtol = 1000 * np.finfo(own.dtype).eps if own.dtype.kind in "fc" else 0
        np.testing.assert_allclose(own, other, rtol=rtol, atol=rtol * scale)
    return changed


@by_pass
@pytest.mark.parametrize("name", SUBJECTS)
def test_any_program_means_the_same(change: Any, name: str) -> None:
    subject = SUBJECTS[name]
    assert_close(change, subject.staged(), *subject.args)
    assert_close(change, improve(subject.staged(), {}), *subject.args)


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
    "all products of numbers": (
        lambda x, y: fnp.sum(x * y),
        (30, 20),
        (30, 20),
        ["contract"],
    ),
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


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
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


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("seed", range(4))
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


@pytest.mark.parametrize(
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


# ----------------------------------------------------------------------------- transpositions


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x, y: fnp.einsum("ij,jk->ik", x.T, y.T), ["contract"]),
        (lambda x, y: fnp.einsum("ij,kj->ijk", x, y.T).T, ["contract"]),
        (lambda x, y: fnp.einsum("ij,kj->ik", y, x.T), ["matmul"]),
        (lambda x, y: (x.T @ y.T).T, ["matmul"]),
        (lambda x, y: fnp.einsum("ij,i->j", x, y[0]), ["view", "matmul"]),
        (lambda x, y: (y @ x).T, ["matmul", "transpose"]),
        (
            lambda x, y: fnp.einsum(
                "nij,njk->nik", fnp.broadcast_to(y, (6, 4, 5)), fnp.stack([x] * 6)
            ),
            ["stack", "contract"],
        ),
    ],
)
def test_contractions_take_what_is_not_transposed(f: Any, expected: list[str]) -> None:
    x, y = numbers(5, 4), numbers(4, 5, seed=1)
    folded = assert_close(fold_into_contractions, staged(f, x, y), x, y)
    assert names_of(folded) == expected


# -------------------------------------------------------------------- products with one factor


def run(w: Any, h: Any, xs: Any) -> Any:
    for x in xs:
        h = fnp.tanh(x @ w + h)
    return h


def test_slices_of_an_array_are_multiplied_at_once() -> None:
    args = single(3, 5), single(2, 5, seed=1), single(10, 2, 3, seed=2)
    merged = assert_close(merge_products, staged(run, *args), *args)
    names = names_of(merged)
    assert (names.count("matmul"), names.count("concatenate")) == (1, 0)
    assert len(names) <= len(staged(run, *args).equations)


def test_vectors_are_rows() -> None:
    def f(w, h, xs):
        for x in xs:
            h = fnp.tanh(w @ x + h)
        return h

    args = numbers(5, 3), numbers(5, seed=1), numbers(10, 3, seed=2)
    merged = assert_close(merge_products, staged(f, *args), *args)
    assert names_of(merged).count("matmul") == 1


def test_some_slices_and_other_arrays() -> None:
    def f(w, a, b, c, d, xs):
        return [fnp.sin(x @ w) for x in (a, b, c, d, xs[1])], [x @ w.T for x in xs[2:6, :, :2]]

    args = single(3, 2), *[single(4, 3, seed=k) for k in range(4)], single(9, 4, 3, seed=5)
    merged = assert_close(merge_products, staged(f, *args), *args)
    assert names_of(merged).count("matmul") == 2
    assert names_of(merged).count("concatenate") == 1  # the others are a part of one array


def test_products_that_depend_on_each_other_stay() -> None:
    def f(w, h):
        for _ in range(10):
            h = fnp.tanh(h @ w)
        return h

    args = single(3, 3), single(2, 3)
    program = staged(f, *args)
    assert merge_products(program) == program


def test_products_of_products_with_the_same_matrix() -> None:
    def f(w, v, xs):
        return [(x @ w) @ v for x in xs]

    args = single(3, 4), single(4, 5, seed=1), single(8, 2, 3, seed=2)
    merged = assert_close(merge_products, staged(f, *args), *args)
    assert names_of(merged).count("matmul") == 2


def test_results_that_are_needed_early_make_two_families() -> None:
    def f(w, h, xs):
        first = [x @ w for x in xs[:4]]
        middle = fnp.tanh(sum(first))
        return middle, [(x + middle) @ w for x in xs[4:]], first

    args = single(3, 3), single(2, 3, seed=1), single(8, 2, 3, seed=2)
    merged = assert_close(merge_products, staged(f, *args), *args)
    assert names_of(merged).count("matmul") == 2


def test_large_factors_are_not_copied() -> None:
    def f(w, xs):
        return [fnp.tanh(x) @ w for x in xs]

    args = single(64, 64), single(6, 256, 64)
    program = staged(f, *args)
    assert merge_products(program) == program


# ---------------------------------------------------------------------------- sums of products


def loss(w: Any, u: Any, b: Any, h: Any, xs: Any) -> Any:
    for x in xs:
        h = fnp.tanh(x @ u + h @ w + b)
    return fnp.sum(h * h)


GRADIENT = fg.grad(loss, (0, 1, 2))


def rnn(steps: int, *batch: int) -> tuple[Any, ...]:
    shapes = ((8, 8), (4, 8), (8,), (*batch, 8), (steps, *batch, 4))
    return tuple(0.5 * single(*shape, seed=k) for k, shape in enumerate(shapes))


@pytest.mark.parametrize("batch", [(), (3,)])
def test_gradients_of_what_all_steps_share_are_one_product(batch: tuple[int, ...]) -> None:
    args = rnn(20, *batch)
    program = staged(GRADIENT, *args)
    merged = assert_close(merge_sums_of_products, program, *args)
    merged = merge_common_subexpressions(merged)
    names = names_of(merged)
    assert names.count("contract") == 2  # one for each matrix
    assert names.count("concatenate") == 2  # the states, and what comes back; inputs are an array
    assert names.count("matmul") == 20 + 20 + 19  # forward twice, and back
    assert names.count("add") < 45
    assert len(names) < 0.6 * len(program.equations)


def test_rounding_of_merged_gradients() -> None:
    args = rnn(200, 4)
    program = staged(GRADIENT, *args)
    merged = merge_products(merge_sums_of_products(program))
    exact = staged(GRADIENT, *[x.astype(float) for x in args])(*[x.astype(float) for x in args])
    for own, before, best in zip(merged(*args), program(*args), exact, strict=True):
        scale = np.max(np.abs(best))
        assert np.max(np.abs(own - best)) < 2 * np.max(np.abs(before - best)) + 1e-6 * scale


def test_other_terms_stay() -> None:
    def f(a, b, xs, ys):
        return a + sum(x.T @ y for x, y in zip(xs, ys, strict=True)) + fnp.sin(b) + xs[0].T @ a

    args = single(3, 3), single(3, 3, seed=1), single(9, 3, 3, seed=2), single(9, 3, 3, seed=3)
    merged = assert_close(merge_sums_of_products, staged(f, *args), *args)
    names = names_of(merged)
    assert (names.count("contract"), names.count("sin")) == (1, 1)
    assert names.count("matmul") <= 1


def test_terms_that_are_not_finite() -> None:
    def f(xs, ys):
        return sum(x.T @ y for x, y in zip(xs, ys, strict=True))

    xs, ys = numbers(6, 2, 3), numbers(6, 2, 4, seed=1)
    xs[1, 0, 0], ys[2, 1, 1], xs[4, 0, 0] = np.inf, np.nan, -np.inf
    program = staged(f, xs, ys)
    merged = merge_sums_of_products(program)
    assert "contract" in names_of(merged)
    with np.errstate(all="ignore"):
        own, other = np.asarray(merged(xs, ys)), np.asarray(program(xs, ys))
    assert_array_equal(np.isfinite(own), np.isfinite(other))
    assert_array_equal(np.isnan(own), np.isnan(other))


def test_not_more_is_joined_than_is_good_for_memory() -> None:
    args = tuple(0.1 * single(*s) for s in ((64, 64), (4, 64), (64,), (32, 64), (100, 32, 4)))
    program = merge_sums_of_products(staged(GRADIENT, *args))
    specs = program.specs()[-sum(len(equation.results) for equation in program.equations) :]
    joined = [
        spec for spec, name in zip(specs, names_of(program), strict=True) if name == "concatenate"
    ]
    assert joined
    assert max(np.prod(spec.shape) * spec.dtype.itemsize for spec in joined) <= 2**18


def test_large_terms_are_not_joined() -> None:
    args = rnn(4, 8)[:1] + tuple(single(*s) for s in ((4, 256, 128), (4, 256, 128)))
    program = staged(
        lambda a, xs, ys: sum(fnp.sin(x).T @ fnp.sin(y) for x, y in zip(xs, ys, strict=True)), *args
    )
    assert merge_sums_of_products(program) == program


def test_what_is_done_again_is_joined_for_itself() -> None:
    def f(w, h):
        for _ in range(3):
            h = fg.checkpoint(lambda w, h: run_steps(w, h))(w, h)
        return fnp.sum(h)

    def run_steps(w, h):
        for _ in range(10):
            h = fnp.tanh(h @ w)
        return h

    args = 0.3 * single(6, 6), single(4, 6, seed=1)
    program = staged(fg.grad(f), *args)
    merged = assert_close(merge_sums_of_products, program, *args)
    epochs = [each.epoch for each in merged.equations]
    starts = np.cumsum([0, *[len(each.results) for each in merged.equations]])
    first = len(merged.inputs) + len(merged.constants)
    made_in = dict(zip(starts + first, epochs, strict=False))
    joined = [e for e in merged.equations if e.operation.name == "concatenate"]
    assert len(joined) >= 6
    for equation in joined:
        assert len({made_in.get(variable, 0) for variable in equation.operands} - {0}) <= 1


# -------------------------------------------------------------------------------------- speed


def test_long_loops_take_calls_in_proportion() -> None:
    def amount(steps: int) -> int:
        program = staged(GRADIENT, *rnn(steps, 2))
        changed = []

        def work() -> None:
            changed.append(program)
            for change in PASSES.values():
                changed.append(change(changed[-1]))

        count = calls_made(work)
        assert remove_dead_code(changed[-1]) == changed[-1]
        return count

    assert added(amount) < MOST

"""Passes that change rounding: they apply, keep their bounds, and keep NaN and infinities."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes import relax
from funcgrad._passes.pipeline import optimize
from tests.passes.expressions import inputs, run, steps
from tests.subjects import bits, public_functions
from tests.together import together

Pass = Callable[[fg.Program], fg.Program]
PASSES: dict[str, Pass] = dict(public_functions(relax))


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def names_of(program: fg.Program) -> list[str]:
    return [equation.operation.name for equation in program.equations]


def sample(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-2, 2, shape).astype(np.float32)


F, ROW, COLUMN = sample(50, 40), sample(40), sample(50, 1)
Case = tuple[Pass, Callable[..., Any], str, float, Callable[..., Any]]


def result(f: Any, r: Any, c: Any) -> Any:
    """The scale 0.0, for bounds in ulp of the result itself rather than of its terms."""
    return 0.0


CASES: dict[str, Case] = {
    "(f * a) * b": (
        relax.group_small_factors,
        lambda f, r, c: (f * r) * r[::-1],
        "view multiply multiply",
        3,
        result,
    ),
    "a * (f / b)": (
        relax.group_small_factors,
        lambda f, r, c: c * (f / c[0]),
        "view divide multiply",
        3,
        result,
    ),
    "(f / a) / b": (
        relax.group_small_factors,
        lambda f, r, c: (f / c) / r[0],
        "view multiply divide",
        3,
        result,
    ),
    "f * a + f * b": (
        relax.share_factors,
        lambda f, r, c: f * r + f * c,
        "add multiply",
        3,
        lambda f, r, c: abs(f * r) + abs(f * c),
    ),
    "f * a - b * f": (
        relax.share_factors,
        lambda f, r, c: f * r - c * f,
        "subtract multiply",
        3,
        lambda f, r, c: abs(f * r) + abs(f * c),
    ),
    "sum(f * a)": (
        relax.sum_before_scaling,
        lambda f, r, c: fnp.sum(f * c, axis=1, keepdims=True),
        "sum multiply",
        41,
        lambda f, r, c: np.sum(abs(f * c), axis=1, keepdims=True),
    ),
    "mean(f * row)": (
        relax.sum_before_scaling,
        lambda f, r, c: fnp.mean(f * r, axis=0),
        "mean multiply",
        51,
        lambda f, r, c: np.mean(abs(f * r), axis=0),
    ),
    "sum of rows of f @ a": (
        relax.sum_before_multiplying,
        lambda f, r, c: fnp.sum(fnp.einsum("ni,kij->nkj", f, fnp.stack([f[10:]] * 2)), axis=0),
        "view stack sum contract",
        50 * 40,
        lambda f, r, c: np.stack([np.sum(abs(f) @ abs(f[10:]), axis=0)] * 2),
    ),
    "sum of columns of a stack of products": (
        relax.sum_before_multiplying,
        lambda f, r, c: fnp.sum(fnp.stack([f, f]) @ f.T, axis=-1, keepdims=True),
        "stack transpose sum contract reshape",
        50 * 40,
        lambda f, r, c: np.stack([np.sum(abs(f) @ abs(f.T), axis=-1, keepdims=True)] * 2),
    ),
}


@together("case", CASES.values(), ids=CASES)
def test_bounds(case: Case) -> None:
    change, f, wanted, bound, scale = case
    staged = fg.program(f)(F, ROW, COLUMN)
    changed = change(staged).verify()
    assert names_of(changed) == wanted.split()
    own, other = np.asarray(changed(F, ROW, COLUMN)), np.asarray(staged(F, ROW, COLUMN))
    assert own.dtype == other.dtype == np.float32
    ulp = np.spacing(np.maximum(abs(other), scale(F, ROW, COLUMN)).astype(np.float32))
    assert np.all(abs(own.astype(np.float64) - other) <= bound * ulp)
    assert names_of(relax.relax(staged)) == wanted.split()
    assert names_of(optimize(staged, relaxed=True)) == wanted.split()


@together("case", CASES.values(), ids=CASES)
def test_only_who_asks_gets_it(case: Case) -> None:
    _, f, *_ = case
    staged = fg.program(f)(F, ROW, COLUMN)
    own, other = optimize(staged)(F, ROW, COLUMN), staged(F, ROW, COLUMN)
    assert bits(own) == bits(other)


@together(
    "f",
    [
        lambda x: x * 0.0,
        lambda x: x - x,
        lambda x: x / x,
        lambda x: x + 0.0,
        lambda x: 0.0 * (x * 0.3),
        lambda x: (x * 0.3) / np.inf,
        lambda x: (x * 0.3) * np.nan,
        lambda x: 1e30 * (1e30 * x),  # 1e60 is no float32
        lambda x: 1e-30 * (1e-30 * x),
        lambda x: x / 1e-45,
        lambda x: 0.3 * fnp.negative(x) + x * x,
    ],
)
def test_what_is_never_done(f: Any) -> None:
    x = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)
    staged = fg.program(f)(x)
    changed = optimize(staged, relaxed=True)
    assert bits(changed(x)) == bits(staged(x))
    assert len(changed.equations) == len(optimize(staged).equations)


def test_other_dtypes_stay() -> None:
    i, z = np.arange(3), np.array([1j, 2.0])
    for f, x in (
        (lambda i: 3 * (5 * i), i),
        (lambda z: (z * 0.3) * 0.7, z),
        (lambda z: z / 0.3, z),
        (lambda z: z * z + z * 0.3, z),
        (lambda z: fnp.sum(z * 0.3), z),
        (lambda i: i / 3, i),
    ):
        staged = fg.program(f)(x)
        assert names_of(relax.relax(staged)) == names_of(staged)


def test_what_is_needed_anyway_is_not_done_twice() -> None:
    def f(f: Any, r: Any, c: Any) -> Any:
        product = f * r
        return product, product * c[0], fnp.sum(product, axis=0), product + f * c

    staged = fg.program(f)(F, ROW, COLUMN)
    assert len(relax.relax(staged).equations) == len(staged.equations)


def test_a_sum_that_is_known_is_scaled() -> None:
    def f(f: Any, r: Any, c: Any) -> Any:
        product = f * c
        return product, fnp.sum(f, axis=1, keepdims=True), fnp.sum(product, axis=1, keepdims=True)

    staged = fg.program(f)(F, ROW, COLUMN)
    assert names_of(relax.relax(staged)) == ["multiply", "sum", "multiply"]


@pytest.mark.parametrize("change", PASSES.values(), ids=PASSES)
def test_random_expressions(change: Pass) -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        chosen, args = steps(rng), inputs(rng)
        staged = fg.program(lambda *args, chosen=chosen: run(chosen, *args))(*args)
        changed = change(staged).verify()
        assert len(changed.equations) <= len(staged.equations)
        assert change(changed) == changed
        before, after = staged.specs(), changed.specs()
        assert [after[v] for v in changed.outputs] == [before[v] for v in staged.outputs]


def test_where_summands_cancel_the_zero_may_have_the_other_sign() -> None:
    def f(f: Any, a: Any, b: Any) -> Any:
        total = f * a + f * b
        return a * float(total), total

    args = np.float64(-1.0), np.float64(2.0), np.float64(-2.0)
    staged = fg.program(f)(*args)
    assert not np.signbit(staged(*args)[1])
    with pytest.raises(fg.errors.GuardError, match=r"was 0\.0; for these arguments it is -0\.0"):
        relax.share_factors(staged)(*args)
    assert bits(fg.jit(f, relaxed=True)(*args)[0]) == bits(f(*args)[0])


def test_gradients_stay_close() -> None:
    def loss(x: Any) -> Any:
        share = fg.nn.softmax(x / 0.7, axis=1) * 0.3
        return fnp.sum(share * x + share * x[0])

    staged = fg.program(fg.value_and_grad(loss))(F)
    relaxed = optimize(staged, relaxed=True)
    assert relaxed != optimize(staged)
    for own, other in zip(relaxed(F), staged(F), strict=True):
        np.testing.assert_allclose(own, other, rtol=2e-5, atol=2e-6)


@together("small", [(), (1,), (3,), (5, 1), (1, 3), (1, 1), (4, 1, 1), (1, 5, 3)])
@together("axis", [0, 1, 2, (0, 1), (0, 2), (0, 1, 2)])
@together("name", ["sum", "mean"])
def test_reductions_of_any_broadcast(small: Any, axis: Any, name: str) -> None:
    x = np.random.default_rng(3).uniform(-2, 2, small)

    def f(x: Any) -> Any:
        return getattr(fnp, name)(fnp.broadcast_to(x, (4, 5, 3)), axis=axis)

    staged = fg.program(f)(x)
    for change in PASSES.values():
        np.testing.assert_allclose(change(staged).verify()(x), staged(x), rtol=1e-14)

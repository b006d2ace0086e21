"""Rows last: which operations are computed so, which are not; the numbers are the same."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.rows_last import put_rows_last
from funcgrad._core import pytrees
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.program import Program
from tests.counts import MOST, added, calls_made
from tests.subjects import SUBJECTS, assert_bits, fixed
from tests.together import together
from tests.transforms.support import numbers

ROWS = 2000


def names_of(program: Program) -> list[str]:
    return [equation.operation.name for equation in program.equations]


def turned(f: Callable[..., Any], *args: Any) -> Program:
    """The program of a function with rows last; fails if it does not differ."""
    staged = fg.program(f)(*args)
    program = put_rows_last(staged).verify()
    assert program != staged
    assert put_rows_last(program) == program
    specs, before = program.specs(), staged.specs()
    assert [specs[v] for v in program.outputs] == [before[v] for v in staged.outputs]
    assert program.inputs == staged.inputs
    return program


def computed_with_rows_first(program: Program) -> list[str]:
    """The operations that still make arrays of rows, but for copies and views."""
    moves = {"transpose", "broadcast_to", "reshape", "view"}
    return [
        equation.operation.name
        for equation in program.equations
        if equation.results[0].shape[:1] == (ROWS,)
        and equation.results[0].shape != (ROWS,)
        and equation.operation.name not in moves
    ]


def column(x: Any) -> Any:
    return fnp.sum(x, axis=-1, keepdims=True)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ------------------------------------------------------------------------------- random programs

ROUNDED_ONCE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, rng: x + y,
    "multiply": lambda x, y, rng: x * y,
    "subtract": lambda x, y, rng: x - y,
    "divide": lambda x, y, rng: x / (1.5 + fnp.abs(y)),
    "maximum": lambda x, y, rng: fnp.maximum(x, y),
    "where": lambda x, y, rng: fnp.where(x > y, x, -y),
    "sqrt": lambda x, y, rng: fnp.sqrt(fnp.abs(x)),
    "cast": lambda x, y, rng: x + (y > 0).astype(x.dtype),
    "scalar": lambda x, y, rng: x * 0.5 + 1,
    "max": lambda x, y, rng: fnp.max(x, axis=axis_of(x, rng), keepdims=True) - y,
    "min": lambda x, y, rng: x + fnp.min(y, axis=axis_of(y, rng), keepdims=True),
    "any": lambda x, y, rng: x + fnp.any(y > 0, axis=axis_of(y, rng), keepdims=True),
    "argmax": lambda x, y, rng: x + fnp.argmax(y, axis=2)[:, :, None],
    "taken": lambda x, y, rng: x - y[:, 1:2],
    "newaxis": lambda x, y, rng: x - y[:, :, 0][..., None],
    "placed": lambda x, y, rng: x + fnp.stack([y[..., 2], y[..., 0], y[..., 1]], axis=2),
    "joined": lambda x, y, rng: fnp.concatenate([x[:, 2:], y[:, :2]], axis=1),
    "reshaped": lambda x, y, rng: fnp.reshape(fnp.reshape(x, (ROWS, 15)) + 1, x.shape) * y,
    "swapped": lambda x, y, rng: fnp.swapaxes(fnp.swapaxes(x, 1, 2) + y[:, :1, :1], 1, 2),
    "repeated": lambda x, y, rng: fnp.broadcast_to(x[:, :1], y.shape) + y,
    "row": lambda x, y, rng: x + fg.tensor(np.arange(3.0, dtype=x.dtype)),
    "table": lambda x, y, rng: x * fg.tensor(np.ones((1, 5, 1), x.dtype)),
    "sorted": lambda x, y, rng: x + fnp.sort(y, axis=2),
}
SUMS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, y, rng: fnp.sum(x, axis=axis_of(x, rng), keepdims=True) * 0.2 - y,
    "mean": lambda x, y, rng: x - fnp.mean(y, axis=axis_of(y, rng), keepdims=True),
    "dropped": lambda x, y, rng: x + fnp.sum(y, axis=2)[:, :, None],
    "var": lambda x, y, rng: x + fnp.var(y, axis=(1, 2))[:, None, None],
    "total": lambda x, y, rng: x - fnp.mean(y, axis=(0, 2), keepdims=True),
    "product": lambda x, y, rng: x + y @ (np.ones((3, 3), x.dtype) / 3),
    "einsum": lambda x, y, rng: fnp.einsum("kij,nkj->nki", np.full((5, 3, 3), 0.3, x.dtype), x) - y,
    "gram": lambda x, y, rng: x + fnp.einsum("nki,nkj->kij", x, y)[:, 0] / ROWS,
    "outer": lambda x, y, rng: x + fnp.einsum("nk,nj->nkj", y[:, :, 0], y[:, 0]) * 0.1,
}


def axis_of(x: Any, rng: Any) -> Any:
    return [1, 2, (1, 2)][int(rng.integers(3))]


def random_program(table: dict[str, Any], seed: int, dtype: Any) -> tuple[Program, tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    chosen = [str(name) for name in rng.choice(sorted(table), 8)]
    places = rng.integers(0, 3, (8, 2))

    def f(x: Any, row: Any, y: Any) -> Any:
        draws = np.random.default_rng(seed)
        values = [x[:, None, :] - row, x[:, None, :] * y, x[:, None, :] * 0.1 + row]
        for name, (first, second) in zip(chosen, places, strict=True):
            x, y = values[-1 - first], values[-1 - second]
            values.append(table[name](x, y, draws))
        return fnp.max(values[-1], axis=0), values[-1][:, 0, 0], values[-2][:, :, 1]

    args = tuple(
        rng.standard_normal(shape).astype(dtype) for shape in ((ROWS, 3), (5, 3), (ROWS, 5, 1))
    )
    return fg.program(f)(*args), args


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_rounded_once_keeps_its_bits(dtype: Any) -> None:
    changed = 0
    for seed in range(12):
        program, args = random_program(ROUNDED_ONCE, seed, dtype)
        last = put_rows_last(program).verify()
        changed += last != program
        assert_bits(last(*args), program(*args))
    assert changed > 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_are_right_up_to_rounding(dtype: Any) -> None:
    changed = 0
    for seed in range(12):
        program, args = random_program({**ROUNDED_ONCE, **SUMS}, seed, dtype)
        last = put_rows_last(program).verify()
        changed += last != program
        for own, other in zip(last(*args), program(*args), strict=True):
            scale = np.max(np.abs(np.asarray(other)))
            atol = 300 * np.finfo(dtype).eps * scale
            np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=0, atol=atol)
    assert changed > 8


def test_the_compiled_program_has_the_bits_of_the_evaluated_one() -> None:
    for seed in range(4):
        program, args = random_program({**ROUNDED_ONCE, **SUMS}, seed, np.float32)
        last = put_rows_last(program)
        assert_bits(compile_program(last)(*args), tuple(last.evaluate(args)))


@together("name", SUBJECTS)
def test_small_programs_stay(name: str) -> None:
    program = optimize(SUBJECTS[name].staged())
    assert put_rows_last(program) is program


# -------------------------------------------------------------------------------- each operation

X, Y, ROW = numbers(ROWS, 5, 3), numbers(ROWS, 5, 3, seed=1), numbers(3, seed=2)


def one_by_one(x: Any) -> Any:
    """Arithmetic between the rows, so that it pays to have them last."""
    x = x - fnp.max(x, axis=-1, keepdims=True)
    return x * fnp.min(x, axis=-1, keepdims=True)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "a row for all": lambda x: x + ROW,
    "a table for all": lambda x: x + np.ones((1, 5, 3)),
    "a column": lambda x: x / x[:, :, :1],
    "comparison": lambda x: fnp.where(x > x[:, :1], x, 0.0),
    "cast": lambda x: (x > 0).astype(np.float64) + x.astype(np.float32),
    "complex": lambda x: fnp.real(x * 1j + x),
    "constant": lambda x: fg.stop_gradient(x) + x,
    "sum": lambda x: x - fnp.sum(x, axis=(1, 2))[:, None, None],
    "mean": lambda x: x - fnp.mean(x, axis=1, keepdims=True),
    "prod": lambda x: x - fnp.prod(x, axis=2, keepdims=True),
    "any": lambda x: x * fnp.any(x > 1, axis=2, keepdims=True),
    "logsumexp": lambda x: x - fg.nn.logsumexp(x, axis=2, keepdims=True),
    "argmin": lambda x: x + fnp.argmin(x, axis=1)[:, None, :],
    "reshape": lambda x: one_by_one(fnp.reshape(x, (ROWS, 3, 5))),
    "index": lambda x: x[:, 2:, 1] + x[:, :-2, 1],
    "ellipsis": lambda x: x[..., 1:] - x[..., None, 0],
    "transposition": lambda x: one_by_one(fnp.transpose(x, (0, 2, 1))),
    "broadcast": lambda x: fnp.broadcast_to(x[:, :1], (ROWS, 5, 3)) * x,
    "concatenation": lambda x: fnp.concatenate([x, x[:, :2]], axis=1),
    "stack": lambda x: fnp.stack([x, x[:, ::-1]], axis=2),
    "patches": lambda x: fg.grad(
        lambda z: fnp.sum(one_by_one(z)[:, 1:] * fnp.exp(one_by_one(z)[:, 2:3]))
    )(x),
    "placement": lambda x: fg.grad(lambda z: fnp.sum(one_by_one(z)[:, 1:] ** 2))(x),
    "product": lambda x: fnp.einsum("kij,nkj->nki", np.ones((5, 2, 3)), x),
    "matrix product": lambda x: x[:, 0] @ np.ones((3, 4)),
    "stack of matrices": lambda x: x @ np.ones((3, 4)),
}


@together("name", OPERATIONS)
def test_operations_are_done_with_rows_last(name: str) -> None:
    def f(x: Any) -> Any:
        return fnp.max(one_by_one(OPERATIONS[name](one_by_one(x - ROW))), axis=0)

    program = turned(f, X)
    assert computed_with_rows_first(program) == []
    assert names_of(program)[:2] == ["transpose", "broadcast_to"]
    assert names_of(program).count("transpose") <= 3
    np.testing.assert_allclose(np.asarray(program(X)), np.asarray(f(fg.tensor(X))), rtol=1e-9)


TOTALS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: fnp.sum(x, axis=0),
    "sum with rows": lambda x: fnp.sum(x, axis=(0, 2)),
    "sum of all": fnp.sum,
    "kept": lambda x: fnp.max(x, axis=(0, 1), keepdims=True),
    "argmax": lambda x: fnp.argmax(x, axis=0),
    "transposition": lambda x: fnp.transpose(x, (1, 2, 0)) * 2.0,
    "other transposition": lambda x: fnp.transpose(x, (2, 0, 1))[:, 5],
    "product over rows": lambda x: fnp.einsum("nki,nkj->kij", x, x),
    "matrix product over rows": lambda x: x[:, 0].T @ x[:, 1],
    "vector": lambda x: np.ones(ROWS) @ x[:, 0],
    "product of all": lambda x: fnp.vdot(x[:, 0, 0], x[:, 1, 0]),
}


@together("name", TOTALS)
def test_what_has_no_rows_reads_them_as_they_lie(name: str) -> None:
    def f(x: Any) -> Any:
        return TOTALS[name](one_by_one(one_by_one(x - ROW)))

    program = turned(f, X)
    assert computed_with_rows_first(program) == []
    assert names_of(program).count("broadcast_to") == 1  # on the way in, and not back
    np.testing.assert_allclose(np.asarray(program(X)), np.asarray(f(fg.tensor(X))), rtol=1e-9)


def test_a_transposition_that_puts_the_rows_last_is_none() -> None:
    program = turned(lambda x: fnp.transpose(one_by_one(x), (1, 2, 0)), X)
    assert names_of(program)[2:] == ["max", "subtract", "min", "multiply"]


def test_products_of_matrices_are_of_views() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        y = fnp.tanh(x @ w)
        y = fnp.exp(y - fnp.max(y, axis=1, keepdims=True)) * fnp.min(y, axis=1, keepdims=True)
        return y.T @ x, fnp.sum(y @ v.T, axis=0), y @ v[0]

    args = numbers(ROWS, 40), numbers(40, 5, seed=1), numbers(7, 5, seed=2)
    program = turned(f, *args)
    assert "broadcast_to" not in names_of(program)
    assert "contract" not in names_of(program)
    for own, other in zip(program(*args), f(*map(fg.tensor, args)), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-9, atol=1e-9)


def test_what_cannot_be_done_gets_the_rows_first_once() -> None:
    def f(x: Any) -> Any:
        y = one_by_one(one_by_one(x - ROW))
        ordered = fnp.sort(y, axis=2), fnp.cumsum(y, axis=0)
        return fnp.sum(one_by_one(ordered[0])), fnp.sum(ordered[1])

    program = turned(f, X)
    names = names_of(program)
    assert names.count("broadcast_to") == names.count("transpose") == 3  # in, out and in again
    for own, other in zip(program(X), f(fg.tensor(X)), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-9)


def test_rows_without_numbers_are_joined_with_others() -> None:
    empty = np.zeros((ROWS, 0, 3))

    def f(x: Any) -> Any:
        return one_by_one(fnp.concatenate([empty, one_by_one(x - ROW), empty], 1))

    np.testing.assert_allclose(np.asarray(turned(f, X)(X)), f(fg.tensor(X)), rtol=1e-12)


def test_calls_with_rules_of_their_own_get_what_they_got() -> None:
    @fg.custom_jvp
    def pair(x):
        return fnp.cumsum(x, axis=0), x + 1.0

    pair.defjvp(lambda primals, tangents: (pair(*primals), pair(*tangents)))

    def f(x: Any) -> Any:
        first, second = pair(one_by_one(one_by_one(x - ROW)))
        return fnp.sum(one_by_one(first)), second[0]

    program = turned(f, X)
    for own, other in zip(program(X), f(fg.tensor(X)), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-9)


# ---------------------------------------------------------------------------- what is worth it


@pytest.mark.parametrize(
    ("f", "args"),
    [
        pytest.param(one_by_one, (numbers(100, 3),), id="small"),
        pytest.param(one_by_one, (numbers(20, 500, 3),), id="few rows"),
        pytest.param(one_by_one, (numbers(ROWS, 500),), id="long rows"),
        pytest.param(lambda x: x * 2.0 + 1.0, (X,), id="nothing between rows"),
        pytest.param(lambda x: fnp.sort(x - ROW, axis=1), (X,), id="hardly anything"),
        pytest.param(lambda x, y: x + y, (X, Y), id="in and out"),
        pytest.param(lambda x: x @ np.ones((5, 3)), (X[:, :, 0],), id="a product of matrices"),
        pytest.param(
            lambda x, y: fnp.sum(x @ y), (X, np.swapaxes(Y, 1, 2)), id="a product for each row"
        ),
        pytest.param(lambda x: one_by_one(x)[:, :1], (numbers(70, 16),), id="a microsecond"),
    ],
)
def test_what_gains_nothing_stays(f: Any, args: Any) -> None:
    program = optimize(fg.program(f)(*args))
    assert put_rows_last(program) is program


def test_a_large_output_with_nothing_to_gain_stays_as_it_is() -> None:
    def f(x: Any, y: Any) -> Any:
        score = one_by_one(one_by_one(x - ROW))
        return fnp.sum(score), fnp.exp(y * 2.0) + 1.0

    program = turned(f, X, Y)
    y_parts = [e for e in program.equations if e.operation.name in ("exp", "add")]
    assert [e.results[0].shape for e in y_parts] == [(ROWS, 5, 3)] * 2


def test_outputs_are_in_c_order() -> None:
    def f(x: Any) -> Any:
        y = one_by_one(one_by_one(one_by_one(x - ROW)))
        return y, fnp.max(y, axis=2), fnp.max(y, axis=2, keepdims=True)[:, :1]

    program = turned(f, X)
    for run in (compile_program(program), lambda x: program.evaluate([x])):
        for own, other in zip(run(X), f(fg.tensor(X)), strict=True):
            assert own.flags.c_contiguous
            assert_bits(own, np.asarray(other))


def test_constants_are_turned_beforehand() -> None:
    def f(x: Any, y: Any, row: Any) -> Any:
        return fnp.sum(one_by_one((x - row) * y), axis=0)

    staged = fixed(fg.program(f)(X, Y, ROW), (X, Y, ROW), 1)
    program = put_rows_last(staged).verify()
    assert names_of(program).count("transpose") == 1
    assert "reshape" not in names_of(program)
    shapes = {constant.spec.shape for constant in program.constants}
    assert {(5, 3, ROWS), (3, 1)} <= shapes
    np.testing.assert_allclose(np.asarray(program(X)), np.asarray(staged(X)), rtol=1e-9)


# -------------------------------------------------------------------------------- what is kept


def test_errors_of_sums_are_bounded() -> None:
    x, w = X[:, 0].astype(np.float32), ROW.astype(np.float32)

    def f(x: Any, w: Any) -> Any:
        y = (x - w) * fnp.max(x, axis=1, keepdims=True)
        return fnp.sum(y * fnp.min(x, axis=1, keepdims=True), axis=0), fnp.sum(y, axis=1), x.T @ y

    program = turned(f, x, w)
    exact = f(*[fg.tensor(each.astype(np.float64)) for each in (x, w)])
    sizes = f(*[fg.tensor(np.abs(each).astype(np.float64)) for each in (x, -np.abs(w))])
    sizes = [np.abs(np.asarray(size)) + np.max(np.abs(x)) ** 3 for size in sizes]
    for own, best, size, terms in zip(program(x, w), exact, sizes, (ROWS, 3, ROWS), strict=True):
        bound = (terms + 4) * np.finfo(np.float32).eps * size
        assert np.all(np.abs(np.asarray(own) - np.asarray(best)) <= terms * bound)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(special: float) -> None:
    def f(x: Any) -> Any:
        y = fnp.exp(x - fnp.max(x, axis=2, keepdims=True))
        return fnp.sum(y, axis=2), fnp.max(y, axis=0), fnp.sum(y, axis=(0, 1))

    x = X.copy()
    x[7, 1, 2] = special
    program = turned(f, x)
    for own, other in zip(program(x), f(fg.tensor(x)), strict=True):
        np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-9)


def test_guards_and_sources_stay() -> None:
    def f(x: Any) -> Any:
        y = one_by_one(one_by_one(x - ROW))
        return fnp.sum(y) if float(fnp.max(y)) > -1e9 and bool(x[3, 0, 0] < 99) else y

    x = fg.tensor(X)
    staged = fg.program(f)(x)
    program = turned(f, x)
    assert [(g.use, g.value) for g in program.guards] == [(g.use, g.value) for g in staged.guards]
    assert all(equation.source for equation in program.equations)
    with pytest.raises(fg.errors.GuardError):
        program(x + 100.0)


def test_what_is_done_again_is_turned_again() -> None:
    @fg.checkpoint
    def score(x: Any, y: Any) -> Any:
        return fnp.sum(one_by_one(x - ROW) * fnp.sin(one_by_one(y)))

    def f(x: Any, y: Any) -> Any:
        return score(x, y) ** 2

    program = turned(fg.grad(f), X, Y)
    copies = [e for e in program.equations if e.operation.name == "broadcast_to"]
    assert {e.epoch for e in copies if e.results[0].shape == (5, 3, ROWS)} == {0, 1}
    expected = fg.grad(f)(fg.tensor(X), fg.tensor(Y))
    np.testing.assert_allclose(np.asarray(program(X, Y)), np.asarray(expected), rtol=1e-7)


def test_derivatives_of_the_program_are_the_same() -> None:
    def f(x: Any, row: Any) -> Any:
        return fnp.sum(fnp.tanh(one_by_one(x - row)), axis=(0, 1))

    program = turned(f, X, ROW)
    tangents = np.ones_like(X), np.ones_like(ROW)
    pairs = [
        (fg.jvp(program, (X, ROW), tangents), fg.jvp(f, (X, ROW), tangents)),
        (fg.vjp(program, X, ROW)[1](np.ones(3)), fg.vjp(f, X, ROW)[1](np.ones(3))),
        (
            fg.vmap(program, in_axes=(None, 0))(X, np.ones((2, 3))),
            fg.vmap(f, in_axes=(None, 0))(X, np.ones((2, 3))),
        ),
    ]
    for own, other in pairs:
        for mine, best in zip(pytrees.leaves(own), pytrees.leaves(other), strict=True):
            np.testing.assert_allclose(np.asarray(mine), np.asarray(best), rtol=1e-7, atol=1e-9)


# -------------------------------------------------------------------------------------- speed


def test_long_programs_take_calls_in_proportion() -> None:
    def f(steps: int, x: Any) -> Any:
        for _ in range(steps):
            x = one_by_one(fnp.tanh(x))
        return fnp.sum(x, axis=0)

    def amount(steps: int) -> int:
        staged = fg.program(partial(f, steps))(numbers(300, 4))
        return calls_made(lambda: put_rows_last(staged))

    assert added(amount) < MOST

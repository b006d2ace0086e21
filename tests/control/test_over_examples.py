"""Batches of loops that end for each example by itself, and of choices: each example apart.

Results are equal to those of the plain loop over the examples, whatever the others in the batch do.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.block_sizes import block_size
from funcgrad._backends.numpy.backend import NUMPY
from funcgrad._core.structure.structures import Control, Loop
from funcgrad._programs.program import Program
from tests.together import together

SIZES = [16, 401, 33, 2, 17, 15, 1000]
BACKENDS = ["numpy", "native"]
M = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 1.0], [0.5, 1.0, 5.0]])
TIMES = np.linspace(0.0, 2.0, 24)


def root(x: Any) -> Any:
    """By Newton's method, which NaN ends at once."""
    return fg.while_loop(lambda y: abs(y * y - x) > 1e-12 * x, lambda y: (y + x / y) / 2, x + 1.0)


def escape(x: Any) -> Any:
    """How long Mandelbrot's iteration stays bounded, and where it ends."""
    return fg.while_loop(
        lambda c: (c[0] * c[0] + c[1] * c[1] < 4.0) & (c[2] < 60),
        lambda c: (c[0] * c[0] - c[1] * c[1] + x - 1.0, 2.0 * c[0] * c[1] + 0.3, c[2] + 1),
        (0.0 * x, 0.0 * x, 0),
    )


def solved(x: Any) -> Any:
    """Newton's method in three dimensions, whose steps solve equations."""
    f = lambda y: M @ y + y**3 - x * np.array([1.0, -2.0, 3.0])  # noqa: E731
    return fg.while_loop(
        lambda c: (fnp.max(abs(f(c[0]))) > 1e-9) & (c[1] < 40),
        lambda c: (c[0] - fnp.linalg.solve(fg.jacfwd(f)(c[0]), f(c[0])), c[1] + 1),
        (fnp.zeros(3), 0),
    )[0]


def orbit(x: Any) -> Any:
    """Steps of tiny arrays of several kinds, whose elements are vectors of examples."""
    turn = x * np.array([[0.6, -0.8], [0.8, 0.6]]) + 0.5 * np.eye(2)
    ends = fnp.stack([x, 1.0 - x])

    def step(c: Any) -> Any:
        place, best, count, _ = c
        there = turn @ place[:, 0] + 0.1 * fnp.flip(place[:, 1])
        both = fnp.concatenate([there[:, None], fnp.reshape(place, (4,))[1:3, None]], axis=1)
        both, rows = fg.scan(lambda c, a: (c * 0.9 + a, fnp.sum(c)), both, fnp.outer(ends, ends))
        far = fnp.diag(both @ both.T) > 4.0
        both = fg.cond(fnp.any(far), lambda b: b / fnp.max(abs(b)), lambda b: b, both)
        return both, fnp.maximum(best, rows), count + np.array([1, 2]), fnp.argmax(best)

    first = (fnp.outer(ends, ends), fnp.zeros(2), fnp.zeros(2, dtype=np.int64), fg.tensor(0))
    return fg.while_loop(lambda c: (c[2][0] < 30) & (c[1][1] < 2.5 + x), step, first)


def fitted(x: Any) -> Any:
    """A fit of 24 points by Gauss and Newton: each example runs by itself."""
    data = x * fnp.exp(-0.7 * TIMES) + 0.2
    residual = lambda p: p[0] * fnp.exp(-p[1] * TIMES) + p[2] - data  # noqa: E731

    def step(c: Any) -> Any:
        p, _, k = c
        r, jacobian = residual(p), fg.jacfwd(residual)(p)
        move = fnp.linalg.solve(jacobian.T @ jacobian + 1e-6 * np.eye(3), jacobian.T @ r)
        return p - 0.7 * move, fnp.max(abs(move)), k + 1

    start = fnp.array([1.0, 0.5, 0.0]), fg.tensor(1.0), 0
    return fg.while_loop(lambda c: (c[1] > 1e-9) & (c[2] < 50), step, start)


def chosen(x: Any) -> Any:
    branches = [lambda x: x * 2.0, lambda x: 1.0 / x, lambda x: x - 3.0, lambda x: -x * x, abs]
    return fg.switch(fnp.astype(x * 3.0, np.int64), branches, x)


def chosen_matrix(x: Any) -> Any:
    matrix = M + x * np.eye(3)
    wide = fnp.ones((12, 12)) * x + 20.0 * np.eye(12)
    return fg.cond(
        x > 1.0, lambda a, b: fnp.sum(fnp.linalg.inv(b)) + a[0], lambda a, b: a @ a[1], matrix, wide
    )


def walked(x: Any) -> Any:
    """Choices in the steps of a scan."""

    def step(c: Any, a: Any) -> Any:
        c = fg.cond(c > a, lambda c: 0.5 * (c + a), lambda c: c * 1.25 + 0.1, c)
        return c, c * a

    return fg.scan(step, x, np.linspace(0.0, 3.0, 9))


def nested(x: Any) -> Any:
    """Loops in a loop: all of them end by themselves."""
    inner = lambda y: fg.while_loop(lambda z: z < 3.0 * y, lambda z: z * 1.5 + 0.1, y)  # noqa: E731
    return fg.while_loop(lambda y: y < 50.0, inner, x)


def counted(x: Any) -> Any:
    """A number of steps that is known when the example is."""
    return fg.fori_loop(0, fnp.astype(x * 9.0, np.int64), lambda i, y: y * 0.75 + i, x)


def sorted_until(x: Any) -> Any:
    """Steps that NumPy runs."""
    step = lambda y: fnp.sort(-y) + 0.5  # noqa: E731
    return fg.while_loop(lambda y: y[0] < 0.2, step, x * np.array([3.0, -2.0]))


FUNCTIONS = [root, escape, solved, orbit, fitted, chosen, chosen_matrix, walked, nested, counted]
EXACT = [root, escape, chosen, walked, nested, counted]
"""Functions of operations that are rounded once."""


def numbers(size: int) -> Any:
    return np.random.default_rng(size).uniform(0.05, 2.0, size)


def equal_bits(x: Any, y: Any) -> None:
    for one, other in zip(fg.tree.leaves(x), fg.tree.leaves(y), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), strict=True)


def rows(tree: Any, key: Any) -> Any:
    return fg.tree.map(lambda leaf: np.asarray(leaf)[key], tree)


def loops_over_examples(program: Program) -> list[Loop]:
    """The loops over examples in a program, and in the programs inside."""
    loops = []
    for equation in program.equations:
        structure, params = equation.operation.structure, dict(equation.params)
        if isinstance(structure, Control):
            if params.get("examples"):
                loops.append(Loop(**params))
            for inner, _ in structure.runs(**params):
                loops += loops_over_examples(inner)
    return loops


# ------------------------------------------------------------------------------------- the values


@together("f", FUNCTIONS, ids=lambda f: f.__name__)
@together("size", SIZES, quick=3)
def test_results_are_those_of_the_plain_loop(f: Any, size: int) -> None:
    """NumPy's backend, which knows no blocks of examples, is tried at three of the sizes."""
    x = numbers(size)
    expected = {k: fg.tree.leaves(f(x[k])) for k in (0, size // 2, size - 1)}
    for backend in BACKENDS if size in (2, 16, 401) else ("native",):
        own = fg.jit(fg.vmap(f), backend=backend)(x)
        for k, leaves in expected.items():
            for one, row in zip(leaves, fg.tree.leaves(rows(own, k)), strict=True):
                if f in EXACT:
                    np.testing.assert_array_equal(row, np.asarray(one))
                else:
                    np.testing.assert_allclose(row, np.asarray(one), 1e-9, 1e-9)


@pytest.mark.slow
@together("f", FUNCTIONS, ids=lambda f: f.__name__)
@together("size", SIZES)
def test_a_permuted_batch_gives_permuted_bits(f: Any, size: int) -> None:
    x, order = numbers(size), np.random.default_rng(1).permutation(size)
    own = fg.jit(fg.vmap(f), backend="native")
    equal_bits(own(x[order]), rows(own(x), order))


@together("f", FUNCTIONS, ids=lambda f: f.__name__)
@together("value", [np.nan, 1e9, np.inf], quick=1)
def test_an_example_does_not_change_others(f: Any, value: float) -> None:
    if (f, value) in (
        (chosen_matrix, np.inf),
        (counted, 1e9),
        (counted, np.nan),
        (counted, np.inf),
    ):
        return  # refused, or very long
    x = numbers(140)
    own = fg.jit(fg.vmap(f), backend="native")
    alone = own(x)
    changed = x.copy()
    changed[[3, 77, 139]] = value
    left = np.setdiff1d(np.arange(140), [3, 77, 139])
    with np.errstate(all="ignore"):
        equal_bits(rows(own(changed), left), rows(alone, left))


# -------------------------------------------------------------------------------- derivatives

DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "gradient of each": lambda f: fg.vmap(fg.grad(f)),
    "gradient of the batch": lambda f: fg.grad(lambda x: fnp.sum(fg.vmap(f)(x))),
    "tangents": lambda f: lambda x: fg.jvp(fg.vmap(f), (x,), (x * 0.0 + 1.0,))[1],
    "tangents of each": lambda f: fg.vmap(lambda x: fg.jvp(f, (x,), (1.0,))[1]),
    "second": lambda f: fg.vmap(fg.grad(fg.grad(f))),
    "Hessian": lambda f: lambda x: fnp.diag(fg.hessian(lambda x: fnp.sum(fg.vmap(f)(x)))(x)),
    "linearized": lambda f: lambda x: fg.linearize(fg.vmap(f), x)[1](fnp.ones_like(x)),
}


@pytest.mark.slow
@pytest.mark.parametrize("f", [root, escape, solved, orbit, chosen, chosen_matrix, walked, nested])
@together("order", DERIVATIVES)
@together("backend", BACKENDS)
def test_derivatives(f: Any, order: str, backend: str) -> None:
    total = lambda x: sum([fnp.sum(leaf) for leaf in fg.tree.leaves(f(x)) if leaf.dtype == float])  # noqa: E731
    x = numbers(17)
    plain = fg.grad(fg.grad(total)) if order in ("second", "Hessian") else fg.grad(total)
    expected = np.array([float(plain(one)) for one in x])
    own = fg.jit(DERIVATIVES[order](total), backend=backend)(x)
    np.testing.assert_allclose(np.asarray(own), expected, 1e-8, 1e-8)


@together("backend", BACKENDS)
@together("checkpoints", [None, 2, 5], quick=2)
def test_derivatives_by_values_that_all_share(backend: str, checkpoints: Any) -> None:
    def ended(w: Any, x: Any) -> Any:
        grown = lambda c: (fnp.tanh(w @ c[0]) + c[0] * 1.2, c[1] + 1)  # noqa: E731
        return fg.while_loop(
            lambda c: fnp.sum(c[0] ** 2) < 40.0, grown, (x * np.ones(3), 0), checkpoints
        )[0]

    loss = lambda w, x: fnp.sum(fg.vmap(ended, in_axes=(None, 0))(w, x) ** 2)  # noqa: E731
    x = numbers(20)
    expected = sum([fg.grad(lambda w, x: fnp.sum(ended(w, x) ** 2))(0.1 * M, one) for one in x])
    own = fg.jit(fg.grad(loss), backend=backend)(0.1 * M, x)
    np.testing.assert_allclose(np.asarray(own), np.asarray(expected), 1e-9)
    both = fg.jit(fg.grad(loss, argnums=(0, 1)), backend=backend)(0.1 * M, x)
    np.testing.assert_allclose(np.asarray(both[0]), np.asarray(expected), 1e-9)


def test_cotangents_of_shared_values_are_added_in_products() -> None:
    """The gradient does not hold a matrix for each example."""
    step = lambda w, c: fnp.tanh(w @ c) + 1.2 * c  # noqa: E731
    ended = lambda w, x: fg.while_loop(  # noqa: E731
        lambda c: fnp.sum(c) < 40.0, lambda c: step(w, c), x * np.ones(3)
    )
    loss = lambda w, x: fnp.sum(fg.vmap(ended, in_axes=(None, 0))(w, x))  # noqa: E731
    program = fg.program(fg.grad(loss))(M, numbers(50))
    assert not loops_over_examples(program)
    assert all(spec.shape[:1] != (50,) or len(spec.shape) < 3 for spec in program.specs())


# ------------------------------------------------------------------------------- the programs


def test_which_loops_go_over_examples() -> None:
    x = numbers(5)
    for f in FUNCTIONS:
        (loop,) = loops_over_examples(fg.program(fg.vmap(f))(x))
        assert (loop.length, loop.carried) == (5, 0)
    shared_end = lambda x: fg.fori_loop(0, 5, lambda i, y: y * x, x)  # noqa: E731
    assert not loops_over_examples(fg.program(fg.vmap(shared_end))(x))
    until = lambda x, n: fg.fori_loop(0, n, lambda i, y: y * x, x)  # noqa: E731
    assert not loops_over_examples(fg.program(fg.vmap(until, in_axes=(0, None)))(x, 4))
    one_branch = lambda x, n: fg.switch(n, [abs, fnp.sin], x)  # noqa: E731
    assert not loops_over_examples(fg.program(fg.vmap(one_branch, in_axes=(0, None)))(x, 1))
    both = fg.program(fg.vmap(lambda x, n: root(x) + until(x, n), in_axes=(0, None)))(x, 4)
    assert len(loops_over_examples(both)) == 1


def test_values_that_all_share_are_not_copied() -> None:
    def summed(table: Any, x: Any) -> Any:
        step = lambda c: (c[0] + 1, c[1] + x + table[c[0]])  # noqa: E731
        return fg.while_loop(lambda c: c[1] < 30.0, step, (0, x))

    own = fg.vmap(summed, in_axes=(None, 0))
    (loop,) = loops_over_examples(fg.program(own)(np.arange(1000.0), numbers(7)))
    assert sorted([spec.shape for spec in loop.body.inputs[: loop.shared]]) == [(), (1000,)]
    assert [spec.shape for spec in loop.body.inputs[loop.shared :]] == [()] * 2


def test_the_way_back_goes_over_examples() -> None:
    x = numbers(5)
    total = lambda x: fnp.sum(fg.vmap(root)(x) ** 2)  # noqa: E731
    for derived in (fg.grad(total), fg.vmap(fg.value_and_grad(root)), fg.vmap(fg.grad(solved_sum))):
        names = [
            loop.body.equations[0].name for loop in loops_over_examples(fg.program(derived)(x))
        ]
        assert names[-1] == "while_reverse"
        assert {*names} <= {"while_loop", "while_reverse"}


def solved_sum(x: Any) -> Any:
    return fnp.sum(solved(x))


def test_numpy_runs_all_examples_together() -> None:
    for f in FUNCTIONS:
        prepared = NUMPY.prepare(fg.program(fg.vmap(f))(numbers(5)), False)
        assert not loops_over_examples(prepared)
        names = [equation.name for equation in prepared.equations]
        assert names.count("scan") == (f is walked)


@pytest.mark.parametrize(
    ("f", "sizes"),
    [
        (root, (200,)),
        (solved, (16,)),
        (orbit, (32,)),
        (fitted, (1,)),
        (chosen, (1000,)),
        (chosen_matrix, (1,)),
        (sorted_until, (1000,)),
    ],
)
def test_the_work_of_a_step_chooses_how_many_examples_run_together(f: Any, sizes: Any) -> None:
    loops = loops_over_examples(fg.program(fg.vmap(f))(numbers(1000)))
    assert tuple(map(block_size, loops)) == sizes
    few = loops_over_examples(fg.program(fg.vmap(f))(numbers(9)))
    assert block_size(few[0]) in (1, 9)


def test_effects_keep_their_order() -> None:
    """A loop that prints runs for the whole batch, as outside of programs."""

    def f(x: Any) -> Any:
        def step(c: Any) -> Any:
            fg.debug.print("{}", c)
            return c * 2.0

        return fg.while_loop(lambda c: c < 4.0, step, x)

    assert not loops_over_examples(fg.program(fg.vmap(f))(numbers(3)))
    texts = []
    for run in (fg.vmap(f), fg.jit(fg.vmap(f), backend="numpy")):
        with redirect_stdout(io.StringIO()) as text:
            run(np.array([1.0, 3.0]))
        texts.append(text.getvalue())
    assert texts[0]


def test_random_keys() -> None:
    def draws(key: Any) -> Any:
        """Draw until a number is large."""

        def step(c: Any) -> Any:
            key, _, n = c
            key, sub = fg.random.split(key)
            return key, fg.random.uniform(sub), n + 1

        return fg.while_loop(lambda c: c[1] < 0.8, step, (key, fg.tensor(0.0), 0))[1:]

    keys = fg.random.split(fg.random.key(3), 40)
    expected = [draws(key) for key in keys]
    for backend in BACKENDS:
        values, counts = fg.jit(fg.vmap(draws), backend=backend)(keys)
        assert [*map(float, values)] == [float(value) for value, _ in expected]
        assert [*map(int, counts)] == [int(count) for _, count in expected]


@together("backend", BACKENDS)
def test_batches_of_batches(backend: str) -> None:
    x = numbers(24).reshape(4, 6)
    power = lambda x, y: fg.while_loop(lambda c: c < 20.0 * y, lambda c: c * (1.0 + x), y)  # noqa: E731
    table = fg.vmap(fg.vmap(power, in_axes=(None, 0)), in_axes=(0, None))
    own = np.asarray(fg.jit(table, backend=backend)(x[:, 0], x[0]))
    expected = [[float(power(a, b)) for b in x[0]] for a in x[:, 0]]
    np.testing.assert_array_equal(own, expected)
    pairs = np.asarray(fg.jit(fg.vmap(fg.vmap(root)), backend=backend)(x))
    np.testing.assert_array_equal(pairs, [[float(root(one)) for one in row] for row in x])
    gradient = fg.jit(fg.vmap(fg.grad(lambda x: fnp.sum(fg.vmap(root)(x)))), backend=backend)(x)
    np.testing.assert_allclose(np.asarray(gradient), 0.5 / np.sqrt(x), 1e-9)


@together("backend", BACKENDS)
def test_matrices_that_only_some_examples_invert(backend: str) -> None:
    f = lambda m: fg.cond(m[0, 0] > 0, fnp.linalg.inv, lambda m: m, m)  # noqa: E731
    matrices = np.zeros((20, 12, 12)) + (np.arange(20) % 2)[:, None, None] * np.eye(12)
    own = np.asarray(fg.jit(fg.vmap(f), backend=backend)(matrices))
    np.testing.assert_array_equal(own, matrices)


@together("dtype", ["float32", "int32", "complex128", "bool"])
@together("backend", BACKENDS)
def test_dtypes(dtype: str, backend: str) -> None:
    x = np.arange(1, 40).astype(dtype)

    def f(x: Any) -> Any:
        y, n = fg.while_loop(lambda c: c[1] < abs(x) * 2, lambda c: (c[0] + x, c[1] + 1), (x, 0))
        return y, n, fg.cond(abs(x) > 5, lambda x: x, lambda x: x + x, x)

    own = fg.jit(fg.vmap(f), backend=backend)(x)
    for k in (0, 7, 38):
        equal_bits(rows(own, k), fg.tree.map(np.asarray, f(x[k])))


def tiny(x: Any) -> Any:
    """Up to 4 steps of a tiny array, in the dtype of its example."""
    step = lambda c: (fnp.flip(c[0]) + x * c[0][:1], c[1] + 1)  # noqa: E731
    return fg.while_loop(lambda c: c[1] < fnp.real(x) % 5, step, (fnp.stack([x, x + x, x]), 0))


@together("dtype", ["float16", "float32", "int8", "int64", "uint32", "complex64"])
@together("size", [17, 1, 2, 16, 64], quick=2)
def test_tiny_arrays_of_many_dtypes(dtype: str, size: int) -> None:
    x = (np.arange(size) % 9).astype(dtype)
    own = fg.jit(fg.vmap(tiny), backend="native")(x)
    for k in {0, size // 2, size - 1}:
        equal_bits(rows(own, k), fg.tree.map(np.asarray, tiny(x[k])))


def test_lanes_of_threads_and_of_exact_programs_have_one_result() -> None:
    x = numbers(1000)
    plain = fg.jit(fg.vmap(orbit), backend="native")(x)
    equal_bits(fg.jit(fg.vmap(orbit), backend="native", threads=2)(x), plain)
    equal_bits(fg.jit(fg.vmap(orbit), backend="native", exact=True)(x), plain)
    assert fg.jit(fg.vmap(orbit), backend="native")(x[:0])[0].shape == (0, 2, 2)


def test_numbers_of_python_in_a_batch() -> None:
    """An example counts by a Python number, as outside of a batch."""
    x = np.arange(1, 20).astype("float32") / 8
    step = lambda c: (c[0] + 1, c[1] * 1.1)  # noqa: E731
    f = lambda x: fg.while_loop(lambda c: c[0] * c[1] < 9.0, step, (0, x))  # noqa: E731
    for backend in BACKENDS:
        n, y = fg.jit(fg.vmap(f), backend=backend)(x)
        assert (n.dtype, y.dtype) == (np.int64, np.float32)
        equal_bits((n[7], y[7]), fg.tree.map(np.asarray, f(x[7])))


def test_numbers_that_an_earlier_loop_counted() -> None:
    """In a function that was staged for one example, the count is a number of Python's.

    In a batch it is an array, which keeps its precision.
    """

    def f(x: Any) -> Any:
        count = fg.while_loop(lambda n: n * n < x, lambda n: n + 1.0, 0.0)
        return fg.while_loop(lambda c: c[1] < 30.0, lambda c: (c[0], c[1] + c[0]), (count, x))

    x = np.arange(1, 20).astype("float32")
    for own in (fg.vmap(fg.jit(f)), fg.jit(fg.vmap(fg.jit(f)))):
        results = own(x)
        for k in range(19):
            equal_bits(rows(results, k), fg.tree.map(np.asarray, f(x[k])))


def test_forms_of_programs() -> None:
    x = numbers(6)
    program = fg.program(fg.vmap(escape))(x)
    expected = program(x)
    again = fg.Program.from_json(program.to_json())
    assert again == program
    equal_bits(again(x), expected)
    assert "examples=True" in str(program)

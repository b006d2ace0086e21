"""Small operations of one kind become rows of one, to the last bit, where that is quicker."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.backends.numpy.backend import compile_program
from funcgrad.backends.numpy.prepare import prepared
from funcgrad.backends.numpy.roles import roles
from funcgrad.backends.numpy.stacking import stack_small_operations
from funcgrad.backends.numpy.stacks import BLOCK_BYTES
from funcgrad.passes.costs import bytes_of, peak_bytes
from funcgrad.passes.pipeline import optimize
from funcgrad.passes.schedule import schedule
from funcgrad.primitives.activations import shift
from funcgrad.primitives.elementwise import batch_elementwise
from funcgrad.primitives.selection import fmax, fmin
from funcgrad.programs.program import Program
from funcgrad.structure import Trait
from tests.conformance import every_primitive
from tests.subjects import SPECIAL, assert_bits
from tests.transforms.support import numbers

DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def count(program: Program, name: str) -> int:
    return [equation.operation.name for equation in program.equations].count(name)


def stacked(f: Callable[..., Any], *args: Any) -> Program:
    """The program of a function, stacked; it does what the function's own program does."""
    staged = fg.program(f)(*args)
    program = stack_small_operations(staged).verify()
    assert_bits(program(*args), staged(*args))
    assert len(program.equations) <= len(staged.equations)
    return program


def is_left_alone(f: Callable[..., Any], *args: Any) -> bool:
    staged = fg.program(f)(*args)
    return stack_small_operations(staged) is staged


def chain(x: Any) -> Any:
    """Seven operations, all elementwise."""
    return fnp.exp(-fnp.square(x * 2.0 - 1.0)) / (1.5 + fnp.abs(x))


def rosenbrock(x: Any) -> Any:
    total: Any = 0.0
    for _ in range(4):
        x = fnp.sin(x)
        a, b = x[:-1], x[1:]
        total = total + fnp.sum(100.0 * (b - a**2) ** 2 + (1.0 - a) ** 2)
    return total


# ------------------------------------------------------------------------------- what is stacked


@DTYPES
def test_what_steps_do_to_their_own_state_is_done_once(dtype: Any) -> None:
    def f(x: Any) -> Any:
        total: Any = 0.0
        for _ in range(5):
            x = fnp.sin(x)
            total = total + chain(x)
        return total

    program = stacked(f, numbers(7).astype(dtype))
    names = ("sin", "concatenate", "exp", "square", "divide", "add")
    assert [count(program, name) for name in names] == [5, 1, 1, 1, 1, 1 + 5]


@DTYPES
def test_a_loop_with_its_gradient(dtype: Any) -> None:
    x = numbers(10).astype(dtype)
    staged = fg.program(fg.value_and_grad(rosenbrock))(x)
    program = prepared(optimize(staged)).verify()
    names = ("sin", "cos", "assemble", "place", "square", "sum", "concatenate")
    assert [count(program, name) for name in names] == [4, 4, 4, 0, 3, 1, 1]
    assert prepared(program) == program
    (value, slope), (own_value, own_slope) = program(x), staged(x)
    assert_bits(slope, own_slope)
    np.testing.assert_allclose(value, own_value, rtol=1e-6)
    assert_bits(tuple(map(fg.tensor, compile_program(program)(x))), (value, slope))


def test_rows_of_an_array_are_not_copied() -> None:
    def f(xs: Any) -> Any:
        return [chain(x) for x in xs]

    program = stacked(f, numbers(5, 3))
    assert count(program, "concatenate") == 0
    assert count(program, "exp") == 1
    assert count(program, "view") <= 5 + 1


def test_inputs_of_their_own_are_joined() -> None:
    def f(xs: Any) -> Any:
        return {name: chain(x) for name, x in xs.items()}

    program = stacked(f, {name: numbers(3) + k for k, name in enumerate("abcd")})
    assert (count(program, "concatenate"), count(program, "exp")) == (1, 1)


def test_what_all_rows_share_broadcasts() -> None:
    def f(xs: Any, w: Any, column: Any, number: Any) -> Any:
        scale = fnp.exp(w)
        return [fnp.square((x * scale + column) * number) - w for x in xs]

    args = numbers(4, 2, 3), numbers(3), numbers(2, 1), 2.5
    program = stacked(f, *args)
    assert [count(program, name) for name in ("multiply", "add", "square")] == [2, 1, 1]


def test_moves_along_the_other_axes() -> None:
    def f(xs: Any) -> Any:
        found = []
        for x in xs:
            x = fnp.flip(fnp.sin(x), 0)[1:, None].reshape(3, 2).T
            x = fnp.broadcast_to(x[:, None], (2, 4, 3)).astype(np.float32)
            found.append(fnp.cos(x))
        return found

    program = stacked(f, numbers(4, 7))
    names = ("sin", "flip", "reshape", "transpose", "broadcast_to", "cast", "cos")
    assert [count(program, name) for name in names] == [1] * 7


def test_many_members_are_done_in_blocks() -> None:
    program = stacked(lambda xs: [chain(x) for x in xs], numbers(100, 1000))
    sizes = [bytes_of(equation.results[0]) for equation in program.equations]
    assert max(sizes) <= BLOCK_BYTES
    assert count(program, "exp") == 4


def test_operands_that_differ_in_number_only_are_told_apart() -> None:
    def f(xs: Any) -> Any:
        return [chain(x) * 2.0 for x in xs], [chain(x) * 3.0 for x in xs]

    program = stacked(f, numbers(4, 3))
    assert count(program, "multiply") == 3


def test_python_numbers_stay_weak() -> None:
    program = stacked(lambda xs: [fnp.exp(x * 2.0) + 1 for x in xs], numbers(5, 3).astype("f"))
    assert {spec.dtype.char for spec in program.specs() if spec.shape} == {"f"}


# ---------------------------------------------------------------------------- what has to be kept


def test_what_depends_on_itself_is_done_step_by_step() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = fnp.tanh(x * 1.1) + fnp.square(x)
        return x

    assert is_left_alone(f, numbers(3))


def test_kinds_that_read_each_other_are_told_apart() -> None:
    def f(xs: Any) -> Any:
        first = [fnp.sin(x) for x in xs[:3]]
        second = [fnp.exp(x) for x in first]
        other = [fnp.exp(x) for x in xs[3:]]
        return second, [fnp.sin(x) for x in other], [fnp.sqrt(fnp.sin(x)) for x in second]

    program = stacked(f, numbers(6, 3))
    assert (count(program, "sin"), count(program, "exp")) == (3, 2)


def test_what_stands_behind_a_guard_stays_there() -> None:
    def f(xs: Any) -> Any:
        total = 0.0
        for x in xs:
            total = total + chain(x)
            if fnp.sum(total) < 0.0:
                total = -total
        return total

    assert is_left_alone(f, numbers(5, 3))


def test_what_is_looked_at_stays() -> None:
    def f(xs: Any) -> Any:
        ys = [chain(x) for x in xs]
        return ys if fnp.all(ys[2] < 100.0) else xs

    xs = numbers(4, 3)
    program = stacked(f, xs)
    assert count(program, "exp") == 1
    with pytest.raises(fg.errors.GuardError):
        program(np.full((4, 3), np.nan))


def test_what_a_checkpoint_does_again_is_done_again() -> None:
    staged = fg.program(lambda xs: [chain(x) for x in xs])(numbers(4, 3))
    size = len(staged.equations) // 4
    equations = [replace(e, epoch=k // size) for k, e in enumerate(staged.equations)]
    program = replace(staged, equations=tuple(equations)).verify()
    assert stack_small_operations(program) is program


@pytest.mark.parametrize("operation", [shift, fmax, fmin])
def test_what_looks_at_more_than_its_row_is_not_stacked(operation: Any) -> None:
    def f(xs: Any, ys: Any) -> Any:
        return [fnp.exp(operation(x, y)) * 2.0 for x, y in zip(xs, ys, strict=True)]

    xs = np.array([[-0.0, 1.0], [np.inf, 2.0], [3.0, -np.inf], [0.0, 1.0]])
    assert count(stacked(f, xs, np.abs(xs)), operation.name) == 4


def test_what_gains_nothing_stays() -> None:
    assert is_left_alone(lambda x: [fnp.sin(x * k) for k in (2.0, 3.0, 4.0)], numbers(3))
    assert is_left_alone(lambda xs: [fnp.sin(x) for x in xs], {k: numbers(3) + k for k in range(3)})
    assert is_left_alone(lambda xs: [chain(x) for x in xs], list(numbers(2, 3)))


def test_large_arrays_stay() -> None:
    assert is_left_alone(lambda xs: [chain(x) for x in xs], numbers(5, 3000))


def test_numbers_without_axes_stay() -> None:
    assert is_left_alone(lambda xs: [chain(x) for x in xs], list(numbers(5)))


def test_large_arrays_do_not_wait_for_small_ones() -> None:
    def f(xs: Any) -> Any:
        total = 0.0
        for k in range(8):
            x = fnp.sin(xs * (k + 2.0))
            total = total + x * chain(fnp.max(x, axis=1, keepdims=True))
        return total

    staged = fg.program(f)(numbers(500, 1000))
    program = stack_small_operations(staged)
    assert peak_bytes(schedule(program)) <= peak_bytes(schedule(staged))


# ------------------------------------------------------------------------------------------ bits

ROWWISE = [
    primitive
    for primitive in every_primitive()
    if primitive.batch is batch_elementwise and Trait.UNEVEN not in primitive.traits
]


def with_extremes(rng: np.random.Generator, column: Any) -> Any:
    """Half of the numbers are zeros, infinities, and others at the ends of the range."""
    extremes = rng.choice(SPECIAL, column.shape).astype(column.dtype)
    return np.where(rng.random(column.shape) < 0.5, extremes, column)


@pytest.mark.parametrize("primitive", ROWWISE, ids=lambda primitive: primitive.name)
def test_rows_have_the_bits_that_they_have_alone(primitive: Any) -> None:
    rng = np.random.default_rng(5)
    for sample in primitive.samples():
        arrays = [np.ravel(array) for array in np.broadcast_arrays(*sample.args)]
        for width in (3, 5, 11) if arrays[0].size else ():
            columns = [array[rng.integers(array.size, size=(4, width))] for array in arrays]
            if all(array.dtype.kind == "f" for array in arrays):
                columns = [with_extremes(rng, column) for column in columns]
            whole = primitive.evaluate(*columns, **sample.params)
            for row in range(4):
                alone = primitive.evaluate(*[c[row] for c in columns], **sample.params)
                assert_bits(fg.tensor(whole[row]), fg.tensor(alone))


UNARY: tuple[Callable[[Any], Any], ...] = (
    fnp.sin,
    fnp.exp,
    fnp.square,
    lambda x: 1.0 - x,
    lambda x: x[::-1],
    lambda x: fnp.roll(x, 1),
    lambda x: fnp.where(x > 0.0, x, 0.5 * x),
    lambda x: fnp.concatenate([x[1:], x[:1]]),
)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (
    fnp.add,
    fnp.multiply,
    fnp.maximum,
    lambda x, y: x / (1.5 + y * y),
)


def random_loop(rng: np.random.Generator) -> Callable[..., Any]:
    """A loop in which each step does some operations on its state, its row, and what all share."""
    plan = rng.integers(1000, size=(rng.integers(3, 10), 3))
    steps, update, ending, checkpointed = (*rng.integers(1000, size=3), rng.random() < 0.3)

    def step(state: Any, row: Any, shared: Any) -> Any:
        values = [state, row, shared]
        for kind, first, second in plan:
            x, y = values[first % len(values)], values[second % len(values)]
            operation: Any = (*UNARY, *BINARY)[kind % (len(UNARY) + len(BINARY))]
            values.append(operation(x) if operation in UNARY else operation(x, y))
        state = (fnp.sin(state), state, values[-2], fnp.tanh(state) + row)[update % 4]
        return state, values[-1]

    def loop(state: Any, rows: Any, shared: Any) -> Any:
        total: Any = 0.0
        found = []
        for k in range(3 + steps % 5):
            one = fg.checkpoint(step) if checkpointed else step
            state, value = one(state, rows[k], shared)
            total = total * 0.5 + value if ending % 2 else total + fnp.sum(value)
            found.append(value)
        return (fnp.sum(total), fnp.concatenate(found))

    return loop


@pytest.mark.parametrize("seed", range(25))
def test_random_loops_keep_their_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    loop = random_loop(rng)
    args = rng.standard_normal(6), rng.standard_normal((8, 6)), rng.standard_normal(6)
    slope = fg.value_and_grad(loop, argnums=(0, 1, 2), has_aux=True)
    for f in (loop, slope):
        program = prepared(optimize(fg.program(f)(*args)))
        assert prepared(program) == program
        stacked(f, *args)


# ----------------------------------------------------------------------------------------- roles


def test_kinds_in_a_circle_are_told_apart_by_what_they_read() -> None:
    # Three steps of: x = a(x); y = b(x); z = c(y); w = b(z). Only the first depends on itself.
    kinds = [0, 1, 2, 1] * 3
    before = [[], [0], [1], [2], [0], [4], [5], [6], [4], [8], [9], [10]]
    found = roles(kinds, before)
    assert found == [(1, 5, 9), (2, 6, 10), (3, 7, 11)]  # each after those that it reads


def test_a_kind_that_depends_on_itself_is_of_no_role() -> None:
    assert roles([0] * 9, [[], *[[k] for k in range(8)]]) == []


def test_a_very_long_program_is_left_alone() -> None:
    def f(x: Any, steps: int) -> Any:
        total: Any = 0.0
        for _ in range(steps):
            x = fnp.sin(x)
            total = total + fnp.sum(fnp.exp(x * 2.0) + 1.0)
        return total

    for steps, changes in ((20, True), (1_000, False)):
        program = optimize(fg.program(lambda x, steps=steps: f(x, steps))(numbers(10)))
        assert (stack_small_operations(program) is not program) == changes


def test_long_chains_need_no_recursion() -> None:
    count = 100_000
    kinds, before = [*range(count)], [[], *[[k] for k in range(count - 1)]]
    assert roles(kinds, before) == [(k,) for k in range(count)]

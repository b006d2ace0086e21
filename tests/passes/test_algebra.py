"""Each exact rule has its effect, keeps every bit, and ignores programs that only look similar."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.pipeline import optimize
from funcgrad._passes.workbench import Workbench, improve
from funcgrad._primitives.blocks import spread_block, take_block
from funcgrad._primitives.elementwise import add, multiply
from funcgrad._programs.program import Program
from tests.passes.expressions import inputs, run, steps
from tests.subjects import assert_bits
from tests.together import together

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.1, -0.7, 3.0, np.inf, -np.inf, np.nan)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def extremes(dtype: Any) -> list[Any]:
    """Numbers at the ends of a dtype's range, where factors stop being exact."""
    limits = np.finfo(dtype)
    small, tiny, most = limits.smallest_subnormal, limits.tiny, limits.max
    return [
        *(k * small for k in (1, 2, 3, 5, -1, -3)),
        *(tiny, -tiny, tiny - small, 1.5 * tiny, most, -most, most / 2, most / 3, most / 4),
    ]


def pairs(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every special number beside every other."""
    line = np.array([*NUMBERS, *extremes(dtype)], dtype)
    x, y = np.meshgrid(line, line)
    return x.astype(dtype), y.astype(dtype)


def names_of(program: Program) -> list[str]:
    return [equation.operation.name for equation in program.equations]


def improved(f: Callable[..., Any], *args: Any) -> list[str]:
    """The operations of a function after the passes, after a check that every bit is kept."""
    staged = fg.program(f)(*args)
    program = optimize(staged).verify()
    assert_bits(program(*args), staged(*args))
    return names_of(program)


# ------------------------------------------------------------------- reductions of single elements


@together("dtype", [np.float16, np.float32, np.float64, np.complex128])
@together(
    ("f", "wanted"),
    [
        (lambda x: fnp.sum(x, axis=()), "add"),  # of 0.0, for the sign of a zero
        (lambda x: fnp.sum(x, axis=1), "sum"),  # one operation, where these would be two
        (lambda x: fnp.sum(x, axis=1, keepdims=True), "add"),
        (lambda x: fnp.max(fnp.abs(x), axis=()), "absolute"),
        (lambda x: fnp.min(fnp.abs(x), axis=1), "absolute reshape"),
        (lambda x: fnp.all(fnp.isnan(x), axis=()), "isnan"),
        (lambda x: fnp.any(x == 0, axis=1), "equal reshape"),
        (lambda x: fnp.sum(fnp.isnan(x), axis=()), "cast_discrete isnan"),
        (lambda x: fnp.sum(x, axis=0), "sum"),
    ],
)
def test_a_reduction_of_single_elements_is_none(f: Any, wanted: str, dtype: Any) -> None:
    assert sorted(improved(f, np.array(NUMBERS, dtype)[:, None])) == wanted.split()


@pytest.mark.parametrize("number", [2, 2.5, True, 2j])
def test_the_sum_of_a_python_number_is_no_python_number(number: float) -> None:
    program = optimize(fg.program(lambda x: fnp.sum(x))(number))
    assert not program.specs()[program.outputs[0]].weak
    assert_bits(program(number), fg.tensor(np.sum(number)))


@pytest.mark.parametrize("shape", [(0, 1), (3, 0)])
def test_a_sum_of_nothing_stays(shape: tuple[int, int]) -> None:
    assert improved(lambda x: fnp.sum(x, axis=1), np.zeros(shape)) == ["sum"]


# ------------------------------------------------------------------------------------ two arguments

NEGATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "x + -y": (lambda x, y: x + -y, "subtract"),
    "-x + y": (lambda x, y: -x + y, "subtract"),
    "-(3 * x)": (lambda x, y: -(3 * x), "multiply"),
    "-(x / 3)": (lambda x, y: -(x / 3), "divide"),
    "-(3 / x)": (lambda x, y: -(3 / x), "divide"),
    "-x + -y": (lambda x, y: -x + -y, "negative subtract"),
}


@together("dtype", [np.float16, np.float32, np.float64])
@together(("f", "wanted"), NEGATIONS.values(), ids=NEGATIONS)
def test_negations_are_absorbed(f: Any, wanted: str, dtype: Any) -> None:
    assert sorted(improved(f, *pairs(dtype))) == sorted(wanted.split())


@together(
    ("f", "wanted"),
    [
        (lambda x, y: -(x + y), "add negative"),
        (lambda x, y: -(x - y), "subtract negative"),
        (lambda x, y: -x - y, "negative subtract"),
        (lambda x, y: -x * y, "negative multiply"),  # nothing takes it in
        (lambda x, y: -x / -y, "negative negative divide"),
        (lambda x, y: (-x * y, -x), "negative multiply"),
        (lambda x, y: fnp.cos(-x), "negative cos"),
        (lambda x, y: fnp.sum(-x), "negative sum"),
    ],
)
def test_negations_stay_where_moving_them_would_change_a_zero_or_gain_nothing(
    f: Any, wanted: str
) -> None:
    assert improved(f, *pairs(np.float64)) == wanted.split()


def test_negations_of_other_dtypes_stay() -> None:
    x, i = np.array([1.0, -2.0]), np.array([-128, 127], np.int8)
    assert improved(lambda x, i: x + -i, x, i) == ["negative", "add"]  # -(-128) is -128
    assert improved(lambda x, z: x + -z, x, np.array([1j, -0.0])) == ["negative", "add"]
    single = np.ones(2, np.float32)
    z, r = np.array([complex(1, -0.0)]), np.array([1.0])
    assert improved(lambda z, r: z + -r, z, r) == ["negative", "add"]  # -0.0 + 0.0 is 0.0
    assert improved(lambda z, r: z - -r, z, r) == ["negative", "subtract"]
    assert improved(lambda w, x: x + -w, 2.0, single) == ["subtract"]  # -w is as weak as w


# ------------------------------------------------------------------- neutral elements, equal ones

NEUTRAL: dict[str, tuple[Callable[..., Any], str]] = {
    "either order": (lambda x, y: (x + y, y + x, x * y, y * x), "add multiply"),
    "maxima": (lambda x, y: (fnp.maximum(x, y), fnp.maximum(y, x)), "maximum maximum"),
    "1 *": (lambda x, y: (1 * x) * (y * 1.0), "multiply"),
    "0 +": (lambda x, y: 0.0 + x, "add"),  # which makes 0.0 of -0.0
}


@together("dtype", [np.float16, np.float32])
@together(("f", "wanted"), NEUTRAL.values(), ids=NEUTRAL)
def test_neutral_elements_go(f: Any, wanted: str, dtype: Any) -> None:
    assert improved(f, *pairs(dtype)) == wanted.split()


# --------------------------------------------------------------------------------------- reshapes

X = np.array([[0.1, -0.0, 3.0, np.nan], [np.inf, 2.0, 2.0, 0.7], [1e-3, 5.0, -np.inf, 1.0]])


def test_the_last_reshape_says_all() -> None:
    assert improved(lambda x: fnp.reshape(fnp.reshape(x, (2, 6)), (12,)), X) == ["reshape"]
    assert improved(lambda x: fnp.reshape(fnp.reshape(x, (2, 6)), (3, 4)), X) == []


# ---------------------------------------------------------------------------------------- blocks

BLOCKS: dict[str, tuple[Callable[..., Any], str]] = {
    "rows, then columns": (lambda x, i, j: cut(cut(x, i, 2), j, 3, 1), "take_block"),
    "columns, then rows": (lambda x, i, j: cut(cut(x, j, 3, 1), i, 2), "take_block"),
    "both read": (
        lambda x, i, j: (lambda rows: (rows, cut(rows, j, 3, 1)))(cut(x, i, 2)),
        "take_block take_block",
    ),
    "without elements": (lambda x, i, j: cut(cut(x, i, 0), j, 3, 1), "take_block"),
    "along the same axis": (lambda x, i, j: cut(cut(x, i, 3, 1), j, 2, 1), "take_block take_block"),
    "one that may fail": (
        lambda x, i, j: cut(cut(x, i, 2, mode="raise"), j, 3, 1),
        "take_block take_block",
    ),
    "both may fail": (
        lambda x, i, j: cut(cut(x, i, 2, mode="raise"), j, 3, 1, "raise"),
        "take_block",
    ),
    "spread": (
        lambda x, i, j: spread_block(
            spread_block(x, j, axes=(1,), mode="clip", shape=(3, 9)),
            i,
            axes=(0,),
            mode="clip",
            shape=(6, 9),
        ),
        "spread_block",
    ),
}


def cut(x: Any, start: Any, size: int, axis: int = 0, mode: str = "clip") -> Any:
    return take_block(x, start, axes=(axis,), sizes=(size,), mode=mode)


@together(("f", "wanted"), BLOCKS.values(), ids=BLOCKS)
def test_blocks_of_blocks_are_blocks(f: Any, wanted: str) -> None:
    fails = "fail" in next(name for name, case in BLOCKS.items() if case[0] is f)
    for i in (-2, -1, 0, 1) if fails else (-9, -1, 0, 1, 9):
        for j in (-2, 0, 1) if fails else (-9, -1, 0, 1, 2, 9):
            assert improved(f, X, i, np.int32(j)) == wanted.split()


def test_blocks_of_batches_are_blocks_if_each_example_has_its_own() -> None:
    f, starts = BLOCKS["rows, then columns"][0], (np.array([0, 1, -7, 9]), np.array([1, 0, 9, -7]))
    images = np.stack([X, 2 * X, -X, X.T.reshape(X.shape)])
    assert improved(fg.vmap(f), images, *starts) == ["take_block"]
    shared = fg.vmap(f, in_axes=(None, 0, 0))
    assert improved(shared, X, *starts) == ["reshape", "take_block"]
    half = fg.vmap(f, in_axes=(0, None, 0))
    assert improved(half, images, 1, starts[1]) == ["take_block", "take_block"]
    slopes = fg.vmap(fg.grad(lambda x, i, j: fnp.sum(fnp.sin(f(x, i, j)))))
    names = improved(slopes, images, *starts)
    assert [name for name in names if "block" in name] == ["take_block", "spread_block"]


# --------------------------------------------------------------------------------------- reshapes

ROW, COLUMN = np.array([1.0, -0.0, np.inf, 0.1]), np.array([[2.0], [np.nan], [-0.0]])
SINKS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "read twice": (
        lambda x, r, c: (lambda b: (b, fnp.square(b)))(fnp.reshape(fnp.sin(x), (12,))),
        "sin reshape square",
    ),
    "exp": (lambda x, r, c: fnp.exp(fnp.reshape(fnp.sin(x), (12,))), "sin reshape exp"),
    "fmax": (lambda x, r, c: fnp.fmax(fnp.reshape(fnp.sin(x), (12,)), 1.0), "sin reshape fmax"),
    "fmin": (lambda x, r, c: fnp.fmin(fnp.reshape(fnp.sin(x), (12,)), -0.0), "sin reshape fmin"),
    "reshapes": (
        lambda x, r, c: fnp.reshape(fnp.sin(x), (12,)) * fnp.reshape(fnp.cos(x), (12,)) + 1.0,
        None,
    ),
    "one reshape": (lambda x, r, c: fnp.reshape(fnp.sin(x), (12,)) + 1.0, "sin add reshape"),
    "reshape beside a row": (
        lambda x, r, c: fnp.reshape(fnp.sin(x), (3, 1, 4)) * r,
        "sin multiply reshape",
    ),
    "reshape beside what it moves": (
        lambda x, r, c: fnp.reshape(fnp.sin(x), (3, 1, 4)) * c[:, None],
        "sin reshape view multiply",
    ),
    "reshapes of others": (
        lambda x, r, c: fnp.reshape(fnp.sin(x), (4, 3)) * fnp.reshape(fnp.sin(x.T), (4, 3)),
        None,
    ),
}


@together(("f", "wanted"), SINKS.values(), ids=SINKS)
def test_reshapes_sink(f: Any, wanted: str | None) -> None:
    names = improved(f, X, ROW, COLUMN)
    if wanted is not None:
        assert names == wanted.split()


def test_reshaped_complex_numbers_stay() -> None:
    """The last bit of a complex result may depend on how its operands lie in memory."""
    names = improved(lambda x: fnp.reshape(fnp.sin(x), (12,)) * (0.7 - 0.1j), X * 1j)
    assert names == ["sin", "reshape", "multiply"]


# ------------------------------------------------------------------------------------ all together


@together("start", range(0, 400, 50), quick=4)
def test_expressions_keep_their_bits(start: int) -> None:
    before = after = 0
    for seed in range(start, start + 50):
        rng = np.random.default_rng(seed)
        chosen, args = steps(rng), inputs(rng)
        staged = fg.program(lambda *args, chosen=chosen: run(chosen, *args))(*args)
        program = optimize(staged).verify()
        assert_bits(program(*args), staged(*args))
        assert len(program.equations) <= len(staged.equations)
        assert optimize(program) == program
        before, after = before + len(staged.equations), after + len(program.equations)
    assert after < 0.9 * before


def test_derivatives_of_extrema_stay_in_their_dtype() -> None:
    x = np.random.default_rng(2).standard_normal((5, 3)).astype(np.float32)

    def f(x: Any) -> Any:
        return fnp.sum(fnp.max(x, axis=1) * fnp.min(x, axis=1))

    def directional(x: Any) -> Any:
        return fg.jvp(fg.grad(f), (x,), (x,))

    for derivative in (fg.grad(f), directional, fg.vmap(fg.grad(lambda r: fnp.max(r)))):
        staged = fg.program(derivative)(x)
        for equation in staged.equations:
            wide = equation.results[0].dtype == np.float64
            assert not wide or equation.operation.name == "divide"  # of the few counts
            assert not wide or np.prod(equation.results[0].shape) <= 5


def test_many_ties_share_in_float16() -> None:
    slopes = fg.jit(fg.grad(lambda x: fnp.max(x, axis=0)))(fnp.zeros(70_000, np.float16))
    assert slopes.dtype == np.float16
    assert_bits(slopes[0], fg.tensor(np.float16(1 / 70_000)))


# -------------------------------------------------------------------------------------- the bench


def test_a_rule_that_changes_the_dtype_does_not_count() -> None:
    def first(bench: Workbench, equation: Any) -> int:
        return equation.operands[0]

    staged = fg.program(lambda x: x * 2.0)(np.arange(3))
    assert improve(staged, {multiply: (first,)}) is staged


def test_what_rules_put_is_kept_once() -> None:
    def doubled(bench: Workbench, equation: Any) -> int | None:
        x, y = equation.operands
        return bench.put(equation, multiply, (bench.constant(2.0), x)) if x == y else None

    staged = fg.program(lambda x: (x + x, 2.0 * x, x * 2.0))(np.ones(3))
    assert names_of(improve(staged, {add: (doubled,)})) == ["multiply"]


def test_a_program_that_stays_is_the_same_object() -> None:
    program = optimize(fg.program(lambda x: fnp.sin(x) + 1.0)(2.0))
    assert optimize(program) is program


def test_long_programs_take_no_recursion() -> None:
    def f(x: Any) -> Any:
        y = x
        for _ in range(3000):
            y = -(0.5 * y) + x
        return x + y

    staged = fg.program(f)(np.ones(2))
    program = optimize(staged)
    assert names_of(program).count("negative") == 0
    assert_bits(program(np.ones(2)), staged(np.ones(2)))

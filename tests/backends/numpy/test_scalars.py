"""Scalar programs run on Python floats, which changes their speed and nothing else."""

import gc
import math
import operator
import warnings
import weakref
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.backend import compile_program
from funcgrad._backends.numpy.python_text import Written, written
from funcgrad._backends.numpy.scalars import scalars_of
from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import ROUNDED_ONCE, Elementwise
from funcgrad._core.trace import concrete
from funcgrad.errors import GuardError
from tests.conformance import every_primitive
from tests.subjects import bits
from tests.together import together

SPECIAL = (0.0, -0.0, 1.0, -1.5, 0.1, 3.0, 5e-324, -5e-324, 1e-200, 1e308, -1e308)
EXTREMES = (*SPECIAL, np.inf, -np.inf, np.nan)


def assert_same(program: fg.Program, *args: Any) -> None:
    """Check that the compiled program gives the bits and the types of an evaluation."""
    values = [concrete(arg) for arg in fg.tree.leaves(args)]
    with np.errstate(all="ignore"):
        found, expected = compile_program(program)(*values), program.evaluate(values)
    for own, other in zip(found, expected, strict=True):
        assert type(own) is type(other), (own, other)
        assert bits(own) == bits(other), (own, other, args)


def checked(f: Callable[..., Any], *args: Any) -> str:
    """Check a function at some arguments; returns the lines of the compiled function."""
    program = fg.program(f)(*args)
    assert_same(program, *args)
    return program.to_numpy_source().partition("):\n")[2]


def text_of(primitive: Primitive, kinds: Sequence[str]) -> str | None:
    """How Python computes an operation on numbers of some kinds."""
    assert isinstance(primitive.structure, Elementwise)
    operands = [Written(f"{{{k}}}", kind, name=f"{{{len(kinds)}}}") for k, kind in enumerate(kinds)]
    formula = primitive.structure.formula
    return written(formula, *operands) if formula else None


def members(program: fg.Program) -> set[str]:
    """The names of the operations that run on Python numbers."""
    return {program.equations[k].operation.name for k in scalars_of(program).members}


# Every operation, at every pair of special values.

UNARY: dict[str, Callable[[Any], Any]] = {
    "negative": operator.neg,
    "square": lambda x: x**2,
    "reciprocal": fnp.reciprocal,
    "absolute": abs,
    "fabs": fnp.fabs,
    "sign": fnp.sign,
    "sqrt": fnp.sqrt,
    "isnan": fnp.isnan,
    "isinf": fnp.isinf,
    "isfinite": fnp.isfinite,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": fnp.add,
    "subtract": fnp.subtract,
    "multiply": fnp.multiply,
    "divide": fnp.divide,
    "maximum": fnp.maximum,
    "minimum": fnp.minimum,
    "less": fnp.less,
    "less_equal": fnp.less_equal,
    "greater": fnp.greater,
    "greater_equal": fnp.greater_equal,
    "equal": fnp.equal,
    "not_equal": fnp.not_equal,
    "where": lambda x, y: fnp.where(x, x, y),
    "logical_not": lambda x, y: fnp.logical_not(x < y),
    "logical_and": lambda x, y: fnp.logical_and(x < y, x < 1.0),
    "logical_or": lambda x, y: fnp.logical_or(x < y, x < 1.0),
}


def among_others(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with more arithmetic on its result, so that Python floats pay."""

    def both(*xs: Any) -> Any:
        y = f(*xs)
        chosen = fnp.where(y, xs[0], 2.0) if y.dtype == bool else y
        return y, (chosen * 3.0 - chosen * 0.5) * chosen - (chosen + 7.0) * xs[0]

    return both


ALL: dict[str, Callable[..., Any]] = {**UNARY, **BINARY}


@pytest.mark.slow
@together("name", ALL, pieces=2)
@together("kind", [float, np.float64, np.array], ids=lambda kind: kind.__name__)
def test_every_operation_is_the_same_to_the_last_bit(name: str, kind: Any) -> None:
    arity = 2 if name in BINARY else 1
    program = fg.program(among_others(ALL[name]))(*[kind(1.0)] * arity)
    assert name in members(program)
    for values in product(EXTREMES, repeat=arity):
        assert_same(program, *map(kind, values))


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
@together("constant", [0.0, -0.0, 2.0, 3, 0, np.float64(0.0), -np.inf, np.nan])
def test_constants_are_the_same_to_the_last_bit(name: str, constant: Any) -> None:
    for f in (lambda x: BINARY[name](x, constant), lambda x: BINARY[name](constant, x)):
        program = fg.program(among_others(f))(1.0)
        for x in EXTREMES:
            assert_same(program, x)


# What Python says follows from formulas; each text that there is is tried.

TEXTS = [
    (primitive, kinds, text)
    for primitive in every_primitive()
    if isinstance(primitive.structure, Elementwise) and primitive.structure.formula
    if ROUNDED_ONCE in primitive.traits and (arity := len(next(iter(primitive.samples())).args))
    for kinds in product(("float", "bool", "int"), repeat=arity)
    if (text := text_of(primitive, kinds)) is not None
]


def test_python_says_what_it_did() -> None:
    assert {primitive.name for primitive, _, _ in TEXTS} >= {*ALL, "positive", "logical_xor"}
    assert not {"exp", "signbit", "bitwise_left_shift"} & {p.name for p, _, _ in TEXTS}


@together(("primitive", "kinds", "text"), TEXTS, ids=str)
def test_every_text_has_the_bits_of_evaluation(
    primitive: Primitive, kinds: tuple[str, ...], text: str
) -> None:
    numbers = {"float": EXTREMES, "bool": (False, True), "int": (0, 1, -3, 2**62, 2**63 - 1)}
    for values in product(*[numbers[kind] for kind in kinds]):
        names = [f"x{k}" for k in range(len(kinds))]
        expression = text.format(*names, "out")
        with np.errstate(all="ignore"):
            made = eval(expression, {"np": np, "math": math}, dict(zip(names, values, strict=True)))
            expected = primitive.evaluate(*values)
        if kinds != ("int",) * len(kinds):  # beside others, whole numbers are floats
            made, expected = np.asarray(made, expected.dtype), np.asarray(expected)
        assert bits(made) == bits(expected), (values, expression)


COMPOSED: list[Callable[..., Any]] = [
    lambda m, x, y: m.where(x < 0, m.sqrt(y), m.absolute(x)) * (x - y),
    lambda m, x, y: m.subtract(-(x + y) * (y * 2.0), m.where(x < y, x, y)),
    lambda m, x, y: m.where((x < y) & ~(x == y) | m.isnan(x), -x - y, m.maximum(x, y) - (y - x)),
    lambda m, x, y: m.where(m.where(x < y, x < 1, y < 1), m.divide(x - y, y + x), +x),
    lambda m, x, y: m.where((x <= y) & (x < 1) | (y != x), m.square(x - y), m.isfinite(x) * y),
]


@pytest.mark.parametrize("formula", COMPOSED, ids=range(len(COMPOSED)))
def test_texts_within_texts_have_parentheses_where_they_need_them(formula: Any) -> None:
    text = written(formula, Written("x", "float"), Written("y", "float"))
    assert text is not None
    for x, y in product(EXTREMES, repeat=2):
        with np.errstate(all="ignore"):
            made = float(eval(text, {"np": np, "math": math}, {"x": x, "y": y}))
            expected = float(formula(intrinsics, np.float64(x), np.float64(y)))
        assert bits(made) == bits(expected), (x, y, text)


# What does not happen.


@together("name", ALL)
def test_warnings_are_numpy_s(name: str) -> None:
    arity = 2 if name in BINARY else 1
    program = fg.program(among_others(ALL[name]))(*[1.0] * arity)
    run = compile_program(program)
    for values in product(EXTREMES, repeat=arity):
        assert warned(lambda: run(*values)) == warned(lambda: program.evaluate(values))  # noqa: B023


def warned(call: Callable[[], Any]) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return {str(each.message).partition(" encountered")[0] for each in caught}


# Inner infinities, NaNs and subnormal numbers that the result does not show, and others that it
# does: the function, what is wrong in it, where it is, and where it is not.
SWALLOWED: dict[str, tuple[Callable[[Any], Any], str, float]] = {
    "shown": (lambda x: x * x * 2.0 - x, "over", 1e200),
    "sum": (lambda x: (x + x) * 0.5 - 1.0, "over", 1.7e308),
    "quotient": (lambda x: x / 1e-300 - x, "over", 1e200),
    "square": (lambda x: fnp.square(x) + x - 1.0, "over", 1e200),
    "inverse of infinity": (lambda x: 1.0 / (x * x * 2.0 - x), "over", 1e200),
    "exponential of minus infinity": (lambda x: fnp.exp(-x * x * 3.0 - x) + x, "over", 1e200),
    "hyperbolic tangent": (lambda x: fnp.tanh(x * x * x - x) * 2.0, "over", 1e200),
    "comparison": (lambda x: (x * x - x * 2.0 > 1.0) * 1.0, "over", 1e200),
    "minimum": (lambda x: fnp.minimum(x * x * x, 1.0) - 2.0, "over", 1e200),
    "choice": (lambda x: fnp.where(x > 2.0, x * 2.0, x * x * x - x), "over", 1e200),
    "not returned": (lambda x: (x * x * x - x > 0.0, x), "over", 1e200),
    "difference of infinities": (lambda x: (x * 2.0 - x * 3.0) + 1.0, "invalid", np.inf),
    "zero times infinity": (lambda x: x * 0.0 + 1.0 - x, "invalid", np.inf),
    "swallowed nan": (lambda x: fnp.where(x > 2.0, x, (x - x) * 2.0), "invalid", np.inf),
    "root": (lambda x: fnp.sqrt(x) * 2.0 - x, "invalid", -1.5),
    "division": (lambda x: (x - 3.0) / (x - 3.0) - x, "invalid", 3.0),
    "division by zero": (lambda x: 1.0 / (x - 3.0) - x, "divide", 3.0),
    "reciprocal": (lambda x: fnp.reciprocal(x - 3.0) - x, "divide", 3.0),
    "underflow": (lambda x: x * x * 3.0 - x, "under", 1e-200),
    "hidden underflow": (lambda x: x * x * 1e-10 + 1.0, "under", 1e-158),
}


@together("name", SWALLOWED)
@together("kind", [float, np.float64, fg.tensor], ids=lambda kind: kind.__name__)
def test_floating_point_errors_are_treated_as_the_user_says(name: str, kind: Any) -> None:
    f, error, bad = SWALLOWED[name]
    staged = fg.jit(f)
    results = [staged(kind(bad)), staged(kind(1.25))]
    with np.errstate(all="ignore"):
        assert bits(fg.tree.leaves(staged(kind(bad)))[0]) == bits(fg.tree.leaves(results[0])[0])
    raising: Any = {error: "raise"}
    with np.errstate(**raising):
        with pytest.raises(FloatingPointError):
            f(fg.tensor(bad))
        with pytest.raises(FloatingPointError):
            staged(kind(bad))
        assert bits(fg.tree.leaves(staged(kind(1.25)))[0]) == bits(fg.tree.leaves(results[1])[0])
    seen: list[str] = []
    calling: Any = {error: "call", "call": lambda kind, _: seen.append(kind)}
    with np.errstate(**calling):
        staged(kind(bad))
    assert seen


def test_other_errors_than_those_that_the_user_names_are_ignored() -> None:
    staged = fg.jit(lambda x, y: x * x / y - x)
    with np.errstate(divide="raise"):
        assert staged(1e200, 1.0) == np.inf
        with pytest.raises(FloatingPointError):
            staged(1.0, 0.0)
    assert staged(1.0, 0.0) == np.inf


@pytest.mark.parametrize("transform", [fg.grad, lambda f: fg.jit(fg.grad(f)), fg.value_and_grad])
def test_derivatives_of_jitted_functions_heed_the_user_too(transform: Any) -> None:
    slope = transform(fg.jit(lambda x: x * x * x * 2.0 - x))
    slope(1e200)
    with np.errstate(over="raise"):
        slope(1.0)
        with pytest.raises(FloatingPointError):
            slope(1e200)


def test_guards_hold_whatever_the_user_says_of_errors() -> None:
    program = fg.program(lambda x: x * x * 2.0 - x if x > 0 else x)(1.0)
    run = compile_program(program)
    with np.errstate(all="raise"):
        assert run(3.0) == (15.0,)
        with pytest.raises(GuardError):
            run(-1.0)


def test_what_runs_instead_goes_with_the_function() -> None:
    run = compile_program(fg.program(lambda x: x * x * 2.0 - x)(1.0))
    with np.errstate(all="raise"):
        run(3.0)
    gc.disable()
    try:
        inside = weakref.ref(run)
        del run
        assert inside() is None
    finally:
        gc.enable()


def test_a_conversion_that_does_not_pay_is_not_made() -> None:
    text = checked(lambda x, y: x * y + 1.0, np.float64(2.0), np.float64(3.0))
    assert "float" not in text
    text = checked(
        lambda x: [fg.tensor(np.array([1.0], np.float32)) * (x * k) for k in range(3, 9)], PI
    )
    assert "float(" not in text


PI = np.float64(np.pi)


# Beside what is no float64 scalar.

SINGLE = np.array([1.1, -2.3, 7.0], np.float32)
DOUBLE = np.array([1.1, -2.3, 0.4])
DOUBLES = np.linspace(0.5, 1.0, 1000)


def polynomial(x: Any) -> Any:
    return ((x * 0.3 - 1.0) * x + 0.7) * x - x * x


@pytest.mark.parametrize("x", [1.7, np.float64(1.7), np.array(1.7)], ids=repr)
def test_arrays_meet_the_scalars_that_they_would(x: Any) -> None:
    mixed: dict[str, Callable[[Any], Any]] = {
        "single": lambda y: SINGLE * y + fnp.sin(y),
        "double": lambda y: (DOUBLE + y, DOUBLE * (y * 2.0 - y)),
        "whole": lambda y: np.arange(3, dtype=np.int8) * y,
        "bools": lambda y: np.array([True, False]) * y,
        "complex": lambda y: np.complex64(1 + 2j) * y,
        "a single number": lambda y: np.float32(1.1) * y * y,
        "a whole number": lambda y: np.int64(3) * y + np.int64(2) ** 3 * y,
        "both": lambda y: (DOUBLE * y, SINGLE * y, y, y * y),
        "stacked": lambda y: fnp.stack([y, y * y]),
        "placed": lambda y: fg.tensor(DOUBLE).at[1].set(y),
        "chosen": lambda y: (fnp.where(y < DOUBLE, y, SINGLE[0]), fnp.where(y > 0, DOUBLE, y)),
        "shaped": lambda y: fnp.reshape(y, (1, 1)) + fnp.astype(y, np.float32),
        "stopped": lambda y: fg.stop_gradient(y) * y * y + y,
        "cast": lambda y: (fnp.astype(y > 1.0, float) * y, fnp.astype(y, int)),
        "the same twice": lambda y: (y, y, x, x),
        "a choice alone": lambda y: fnp.where(y > 0, y, y * y),
        "a comparison alone": lambda y: (y > 0, SINGLE * (y > 0), fnp.sum(y < DOUBLE)),
    }
    for f in mixed.values():
        checked(lambda x, f=f: f(polynomial(x)), x)
        checked(lambda x, f=f: (f(x), polynomial(x)), x)


def test_scalars_from_arrays_come_as_floats_and_go_into_arrays_as_such() -> None:
    def rosenbrock(v: Any) -> Any:
        return (1 - v[0]) ** 2 + 100 * (v[1] - v[0] ** 2) ** 2

    text = checked(fg.grad(rosenbrock), np.array([0.5, 2.0]))
    assert "= float(v[0])" in text
    assert "float64(" not in text


def test_whole_python_numbers_join() -> None:
    program = fg.program(lambda x, n: (polynomial(x * n + n), n, x > n, n * 2))(1.5, 3)
    assert "multiply" in members(program)
    for x, n in product(EXTREMES, (0, -3, 2**53 + 1, -(2**62) - 1)):
        assert_same(program, x, n)
    assert_same(fg.program(lambda x: polynomial(x) > 2**60 + 1)(1.0), 2.0**60)


def test_names_of_python_s_own_are_kept() -> None:
    def f(float: Any, abs: Any, bool: Any, float64: Any, sqrt: Any) -> Any:
        return polynomial(fnp.sqrt(fnp.abs(float * abs)) / bool * float64 - sqrt)

    checked(f, *map(np.float64, (2.0, 3.0, 4.0, 5.0, 6.0)))
    checked(f, 2.0, 3.0, 0.0, 5.0, 6.0)


# Guards.


@together("kind", [float, np.float64], ids=lambda kind: kind.__name__)
@together(
    ("f", "held", "missed"),
    [
        (lambda x: polynomial(x) if polynomial(x) < 0 else x, (1.0, 1.5), (10.0,)),
        (lambda x: polynomial(x) * int(x * x), (2.0, 2.1), (3.0,)),
        (lambda x: polynomial(x) * float(x * x), (2.0, -2.0), (2.5, np.nan)),
        (lambda x: polynomial(x) + float(x * 0.0), (0.0, 3.0), (-0.0, np.nan)),
        (lambda x: float(x / x) + polynomial(x), (0.0, -0.0, np.inf), (1.0,)),
        (lambda x: float(1.0 / x) + polynomial(x), (0.0,), (1.0, -0.0)),
        (lambda x: x * x * 2.0 - x if x else x, (1.0, np.nan), (0.0, -0.0)),
    ],
)
def test_guards_are_kept(f: Any, held: Any, missed: Any, kind: Any) -> None:
    with np.errstate(all="ignore"):
        program = fg.program(f)(kind(held[0]))
        run = compile_program(program)
        for x in held:
            assert_same(program, kind(x))
        for x in missed:
            with pytest.raises(GuardError):
                run(kind(x))


def test_guards_of_whole_numbers_are_kept() -> None:
    def f(x: Any, n: Any) -> Any:
        return polynomial(x * n) * 2.0 if n == 0 and int(n) == 0 else x

    program = fg.program(f)(1.0, 0)
    assert_same(program, 2.0, 0)
    with pytest.raises(GuardError):
        compile_program(program)(2.0, 1)


# Derivatives.


def bumpy(x: Any) -> Any:
    y = fnp.maximum(x, 0.25) * fnp.sqrt(abs(x)) / (1 + x * x)
    return fnp.where(y > 0.1, y**2, fnp.tanh(y)) + fnp.clip(x, -1, 1) * abs(x) ** 3


@together("order", [0, 1, 2])
@together("f", [bumpy, polynomial, lambda x: fnp.hypot(x, 2.0) * x**2.5 / x])
@together("kind", [float, np.float64], ids=lambda kind: kind.__name__)
def test_derivatives_are_the_same_to_the_last_bit(f: Any, order: int, kind: Any) -> None:
    for _ in range(order):
        f = fg.grad(f)
    program = fg.program(f)(kind(0.7))
    assert order == 0 or len(scalars_of(program).members) > 2
    for x in (*EXTREMES, 0.25, 0.7):
        assert_same(program, kind(x))


def test_jit_returns_what_the_function_does() -> None:
    for x in (1.5, np.float64(-2.0), fg.tensor(0.5), 0.0):
        jitted, plain = fg.jit(fg.grad(bumpy))(x), fg.grad(bumpy)(x)
        assert type(concrete(jitted)) is type(concrete(plain))
        assert bits(jitted) == bits(plain)


# Random programs.

MOVES: tuple[Callable[..., Any], ...] = (
    *UNARY.values(),
    fnp.sin,
    fnp.exp,
    fnp.hypot,
    fnp.floor,
    lambda x: x**3,
    lambda x: x**0.5,
    lambda x: x + 1,
    lambda x: 0.5 * (x > 1.0),
    lambda x: fnp.isnan(x) * x,
    lambda x: x * np.float64(0.3),
    lambda x: x * np.float32(0.3),
    lambda x: fnp.astype(x, np.float32),
    lambda x: fnp.astype(x, np.float64),
    lambda x: SINGLE * x,
    lambda x: DOUBLE * x,
    lambda x: fnp.sum(x * DOUBLE),
    lambda x: x[0] if x.ndim else x,
    fg.stop_gradient,
)
steps = st.lists(
    st.tuples(st.sampled_from(MOVES), st.integers(0, 99), st.integers(0, 99)), min_size=3
)


def walk(chosen: Sequence[Any], *inputs: Any) -> list[Any]:
    """The values of straight-line code, each computed from the latest three where possible."""
    values = [fnp.asarray(x) * 1.0 for x in inputs]
    for move, i, j in chosen:
        x, y = values[-1 - i % 3 % len(values)], values[-1 - j % len(values)]
        if move in BINARY.values() or move is fnp.hypot:
            if x.ndim and y.ndim:
                x = x[0]
            values.append(move(x, y) * 1.0)
        else:
            values.append(move(x) * 1.0)
    return values


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    steps,
    st.sampled_from([float, np.float64, np.array, np.float32]),
    st.lists(st.sampled_from(EXTREMES), min_size=4, max_size=4),
)
def test_random_programs_are_the_same_to_the_last_bit(
    chosen: Any, kind: Any, numbers: list[float]
) -> None:
    with np.errstate(all="ignore"):
        program = fg.program(lambda x, y: walk(chosen, x, y))(kind(1.0), 2.0)
        assert_same(program, kind(numbers[0]), numbers[1])
        assert_same(program, kind(numbers[2]), numbers[3])
        last = fg.program(lambda x, y: walk(chosen, x, y)[-1])(kind(1.0), 2.0)
        assert_same(last, kind(numbers[0]), numbers[1])
        slope = fg.grad(lambda x, y: fnp.sum(walk(chosen, x, y)[-1]), argnums=(0, 1))
        assert_same(fg.program(slope)(kind(1.0), 2.0), kind(numbers[2]), numbers[3])


def test_inverted_truth_values_that_are_weak_are_truth_values():
    x = np.array([1.5, -2.0])
    inverted = fg.jit(lambda x, s: ~(s < 1.0) * x, backend="numpy")
    np.testing.assert_array_equal(inverted(x, 0.5), 0 * x)
    np.testing.assert_array_equal(inverted(x, 1.5), x)

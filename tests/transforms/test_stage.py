"""Staging: what ``fg.program`` keeps of a function, and what it refuses."""

import gc
import math
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._passes.pipeline import optimize
from funcgrad.errors import (
    DifferentiationError,
    EscapedTracerError,
    GuardError,
    LeafError,
    ShapeError,
    TracerError,
)
from tests.subjects import assert_bits, wrong_cube, wrong_square
from tests.together import together
from tests.transforms.support import assert_same


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def names_of(program: fg.Program) -> list[str]:
    return [equation.name for equation in program.equations]


# -------------------------------------------------------------------------------- transformations


def energy(x: Any) -> Any:
    y = fnp.where(x > 0, fnp.log(fnp.where(x > 0, x, 1.0)), x * x)
    return fnp.sum(y * fnp.sin(x)[::-1]) + fnp.max(x) ** 3


POINT = np.array([0.5, -1.5, 2.0])


def test_programs_transform_as_their_functions_do() -> None:
    staged = fg.program(energy)(POINT)
    assert_bits(staged(POINT), energy(fg.tensor(POINT)))
    assert_same(fg.grad(staged)(POINT), fg.grad(energy)(POINT))
    assert_same(fg.value_and_grad(staged)(POINT), fg.value_and_grad(energy)(POINT))
    assert_same(fg.jvp(staged, (POINT,), (POINT,)), fg.jvp(energy, (POINT,), (POINT,)))
    assert_same(fg.hessian(staged)(POINT), fg.hessian(energy)(POINT))
    assert_same(fg.jacfwd(staged)(POINT), fg.jacfwd(energy)(POINT))
    batch = np.stack([POINT, 2 * POINT])
    assert_same(fg.vmap(staged)(batch), fg.vmap(energy)(batch))
    assert_same(fg.vmap(fg.grad(staged))(batch), fg.vmap(fg.grad(energy))(batch))
    assert_same(fg.grad(fg.checkpoint(staged))(POINT), fg.grad(energy)(POINT))
    assert_same(fg.linearize(staged, POINT)[1](POINT), fg.linearize(energy, POINT)[1](POINT))


def batched(f: Any) -> Any:
    return lambda x: fg.vmap(f)(fnp.stack([x, 2 * x]))


def twice_batched(f: Any) -> Any:
    def total(y: Any, x: Any) -> Any:
        return fg.vmap(f)(fnp.stack([y, x])).sum()

    return lambda x: fg.grad(total)(x, x)


@together(
    "transform",
    [
        fg.grad,
        fg.hessian,
        fg.jacrev,
        fg.checkpoint,
        lambda f: fg.grad(fg.checkpoint(f)),
        lambda f: lambda x: fg.jvp(f, (x,), (x,)),
        batched,
        lambda f: batched(fg.grad(f)),
        twice_batched,
    ],
)
def test_transformed_functions_stage(transform: Any) -> None:
    f = transform(energy)
    staged = fg.program(f)(POINT).verify()
    other = POINT[::-1].copy()
    assert_bits(staged(POINT), f(POINT))
    assert_bits(staged(other), f(other))


def test_linear_functions_transpose_when_staged() -> None:
    staged = fg.program(lambda x: 2.0 * x[::-1])(POINT)
    assert_same(fg.linear_transpose(staged, POINT)(POINT), (2.0 * POINT[::-1],))


def test_structural_zeros_stay_structural() -> None:
    staged = fg.program(lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0).sum())(POINT)
    assert_same(fg.grad(staged)(np.zeros(3)), np.zeros(3))


def test_programs_nest() -> None:
    inner = fg.program(lambda x: x * 2.0)(1.0)
    outer = fg.program(lambda x: inner(x) + 1.0)(1.0)
    assert names_of(outer) == ["multiply", "add"]
    assert_same(outer(5.0), 11.0)
    assert fg.program(outer)(1.0) == outer
    assert_same(fg.program(lambda x: fg.program(lambda y: x * y)(3.0)(x))(2.0)(2.0), 4.0)


# -------------------------------------------------------------------------------- rules


def test_custom_rules_are_kept() -> None:
    forward = fg.program(lambda x: wrong_cube(x) + 1.0)(2.0)
    reverse = fg.program(lambda x: wrong_square(x) + 1.0)(2.0)
    assert names_of(forward) == ["custom_jvp wrong_cube", "add"]
    assert names_of(reverse) == ["custom_vjp wrong_square", "add"]
    assert_same((forward(3.0), reverse(3.0)), (28.0, 10.0))
    assert_same(fg.grad(forward)(2.0), 120.0)
    assert_same(fg.grad(reverse)(2.0), 40.0)
    assert_same(fg.jvp(forward, (2.0,), (1.0,)), (9.0, 120.0))
    assert_same(fg.vmap(fg.grad(forward))(np.array([1.0, 2.0])), np.array([30.0, 120.0]))
    assert_same(fg.grad(fg.grad(forward))(2.0), fg.grad(fg.grad(wrong_cube))(2.0))
    assert_same(fg.program(fg.grad(wrong_square))(2.0)(3.0), 60.0)


def test_what_a_rule_closes_over_is_an_argument_of_the_call() -> None:
    def f(x: Any) -> Any:
        @fg.custom_jvp
        def g(y):
            return x * y

        g.defjvp(lambda primals, tangents: (g(*primals), 10 * x * tangents[0]))
        return g(x + 1.0)

    staged = fg.program(f)(2.0)
    assert [(e.name, len(e.operands)) for e in staged.equations] == [
        ("add", 2),
        ("custom_jvp g", 2),
    ]
    assert_same(staged(3.0), 12.0)
    assert_same(fg.grad(staged)(3.0), 4.0 + 30.0)  # in x by its operations, in y by its rule
    assert_same(fg.Program.from_json(staged.to_json())(3.0), 12.0)


def test_what_a_rule_closes_over_is_no_argument_where_it_reads_all_numbers() -> None:
    def f(x: Any) -> Any:
        g = fg.custom_jvp(lambda y: np.asarray(y).sum() * x[0])
        g.defjvp(lambda primals, tangents: (g(*primals), x[0] * tangents[0].sum()))
        return g(x + 1.0)

    for of in (fg.program, fg.jit):
        with pytest.raises(TracerError, match=r"closes over .* Pass that value as an argument"):
            of(f)(np.ones(3))


@fg.custom_jvp
def itself(x: Any) -> Any:
    return 3.0 * x


itself.defjvp(lambda primals, tangents: (itself(*primals), itself(*tangents)))


@fg.custom_vjp
def both_ways(x: Any) -> Any:
    return 3.0 * x


both_ways.defvjp(lambda x: (both_ways(x), None), lambda _, ct: (both_ways(ct),))


@together("rule", [itself, both_ways])
@together("of", [fg.grad, fg.program, lambda f: lambda x: fg.grad(fg.program(f)(x))(x)])
def test_calls_with_rules_leave_nothing_to_the_collector(rule: Any, of: Any) -> None:
    def f(x: Any) -> Any:
        return fg.checkpoint(lambda y: rule(y) * x)(x)

    of(f)(2.0)
    gc.collect()
    gc.disable()
    try:
        of(f)(2.0)
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_faulty_rule_that_closes_over_what_is_staged_is_named() -> None:
    def f(x: Any) -> Any:
        g = fg.custom_vjp(lambda y: x * y)
        g.defvjp(lambda y: (x * y, None), lambda _, ct: (x * ct, None))
        return g(x + 1.0)

    with pytest.raises(DifferentiationError, match=r"each of the 1 argument\(s\), but it"):
        fg.program(f)(2.0)


def test_programs_of_functions_with_rules_free_what_they_held() -> None:
    staged: Any = fg.program(lambda x: wrong_cube(x * fg.tensor(np.arange(100.0))))(2.0)
    value = weakref.ref(staged.constants[0].value)
    gc.disable()
    try:
        del staged
        assert value() is None
    finally:
        gc.enable()


# -------------------------------------------------------------------------------- guards


@together(
    ("f", "x", "same", "other"),
    [
        (lambda x: x if x > 0 else -x, 1.0, 2.0, -2.0),
        (lambda x: x if x else -x, 1.0, 2.0, 0.0),
        (lambda x: x * int(x), 2.0, 2.9, 3.0),
        (lambda x: x * float(x), 2.0, 2.0, 2.5),
        (lambda x: x * x.item(), 2.0, 2.0, 2.5),
        (lambda x: x * complex(x).real, 2.0, 2.0, 2.5),
        (lambda x: x * math.copysign(1.0, x), -0.0, -0.0, 0.0),
        (lambda x: x * float(x), float("nan"), float("nan"), 1.0),
        (lambda x: sum([x] * x.__index__()), 3, 3, 4),
        (lambda x: fnp.arange(5)[x:], 3, 3, 4),
        (lambda x: fnp.ones(range(5)[x]), 3, 3, 4),
        (lambda x: x[0] if x else -x[0], np.array([1.0]), np.array([2.0]), np.array([0.0])),
        (lambda x: 1.0 if fnp.all(x > 0) else 0.0, POINT, POINT * 2, POINT**2),
        (lambda x: x.shape[0] * x if float(x[1]) < 0 else x, POINT, POINT, POINT + 1),
    ],
)
def test_a_look_at_a_number_is_a_guard(f: Any, x: Any, same: Any, other: Any) -> None:
    staged = fg.program(f)(x).verify()
    assert len(staged.guards) == 1
    assert staged == fg.program(f)(x)
    assert_bits(staged(same), f(fg.tensor(same)))
    with pytest.raises(GuardError):
        staged(other)


def test_shapes_and_dtypes_are_no_guards() -> None:
    def f(x: Any) -> Any:
        assert x.shape == (3,)
        assert x.dtype == np.float64
        assert len(x) == x.size == 3
        assert repr(x) == "Traced(float64[3], in program)"
        assert isinstance(x, fg.Tensor)
        return sum(row for row in x)

    assert fg.program(f)(POINT).guards == ()


def test_arrays_cannot_be_looked_at() -> None:
    for look in (np.array, fg.Tensor.tolist, lambda x: fnp.ones(3)[x > 0], lambda x: x.item(0)):
        with pytest.raises(TracerError, match=r"[Tt]his array is being staged"):
            fg.program(look)(POINT)
    with pytest.raises((TracerError, ShapeError)):
        fg.program(bool)(POINT)


def test_equal_looks_are_one_guard() -> None:
    staged = fg.program(lambda x: sum(x for _ in range(3) if x > 0))(1.0)
    assert len(staged.guards) == 3
    staged = fg.program(lambda x: [float(x) for _ in range(3)])(float("nan"))
    assert len(staged.guards) == 1


def test_guards_under_transformations() -> None:
    staged = fg.program(lambda x: x * x if x > 0 else -x)(2.0)
    assert_same(fg.grad(staged)(3.0), 6.0)
    with pytest.raises(GuardError):
        fg.grad(staged)(-3.0)
    assert_same(fg.vmap(staged)(np.array([3.0, 4.0])), np.array([9.0, 16.0]))
    with pytest.raises(GuardError):
        fg.vmap(staged)(np.array([3.0, -3.0]))
    exact = fg.program(lambda x: x * float(x))(2.0)
    with pytest.raises(TracerError, match="being differentiated"):
        fg.grad(exact)(2.0)
    assert_same(exact(2.0), 4.0)


def test_looks_inside_a_transformation_around() -> None:
    def f(x: Any) -> Any:
        return fg.program(lambda y: y * y if y > 0 and y and int(y) == 2 else -y)(x)(x)

    assert_same(fg.grad(f)(2.0), 4.0)
    assert_same(fg.grad(f)(-2.0), -1.0)
    with pytest.raises(TracerError, match="being differentiated"):
        fg.grad(lambda x: fg.program(lambda y: y * float(y))(x)(x))(2.0)
    assert_same(fg.vmap(f)(np.array([2.0, -2.0])), np.array([4.0, 2.0]))


# -------------------------------------------------------------------------------- closures


def test_what_is_closed_over_is_a_constant() -> None:
    table = np.arange(3.0)
    staged = fg.program(lambda x: x * table)(2.0)
    table[:] = 7.0
    assert_same(staged(2.0), np.array([0.0, 2.0, 4.0]))


def test_constants_may_belong_to_a_transformation_around() -> None:
    def f(w: Any) -> Any:
        staged = fg.program(lambda x: x * w + w)(2.0).verify()
        assert "of a transformation around" in str(staged)
        assert len(staged.constants) == 1
        assert staged == fg.program(lambda x: x * w + w)(2.0)
        return staged(3.0)

    assert_same(fg.grad(f)(5.0), 4.0)
    assert_same(fg.grad(fg.grad(lambda w: f(w) * w))(5.0), 8.0)
    assert_same(fg.jvp(f, (5.0,), (1.0,)), (20.0, 4.0))
    assert_same(fg.vmap(f)(POINT), 4.0 * POINT)
    assert_same(fg.vmap(fg.grad(f))(POINT), np.full(3, 4.0))


def test_such_a_program_ends_with_the_transformation() -> None:
    kept: list[fg.Program] = []

    def f(w: Any) -> Any:
        kept.append(fg.program(lambda x: x * w)(2.0))
        return kept[0](w)

    assert_same(fg.grad(f)(5.0), 10.0)
    with pytest.raises(EscapedTracerError):
        fg.grad(lambda x: kept[0](x))(2.0)


def test_programs_staged_inside_a_transformation() -> None:
    single = np.ones(2, np.float32)

    def f(x: Any) -> Any:
        return fnp.sum(fg.program(lambda y: y * single)(x).verify()(x))

    assert_same(fg.grad(f)(2.0), 2.0)
    assert fg.vmap(f)(np.array([2.0])).dtype == np.float64
    assert fg.jvp(f, (2.0,), (1.0,))[0].dtype == np.float32


def test_random_keys_are_arguments() -> None:
    staged = fg.program(lambda key: fg.random.normal(key, (3,)))(fg.random.key(1))
    assert_bits(staged(fg.random.key(2)), fg.random.normal(fg.random.key(2), (3,)))


# -------------------------------------------------------------------------------- tracers


def test_tracers_that_escape_raise() -> None:
    kept: list[Any] = []
    fg.program(kept.append)(2.0)
    for use in (lambda t: t + 1, float, bool, np.asarray, lambda t: fnp.sin(t)):
        with pytest.raises(EscapedTracerError):
            use(kept[0])
    with pytest.raises(EscapedTracerError):
        fg.program(lambda x: x + kept[0])(2.0)
    assert_same(fg.program(lambda x: x * 2.0)(2.0)(3.0), 6.0)


def test_an_error_leaves_nothing_behind() -> None:
    def fails(x: Any) -> Any:
        raise KeyError(x.shape)

    for _ in range(3):
        with pytest.raises(KeyError):
            fg.program(fails)(2.0)
    assert_same(fg.grad(lambda x: x * x)(3.0), 6.0)


def test_results_have_to_be_arrays() -> None:
    with pytest.raises(LeafError, match="result"):
        fg.program(lambda x: {"a": x, "b": "text"})(2.0)
    with pytest.raises(LeafError, match="x"):
        fg.program(lambda x: x)("text")


def test_errors_read_as_they_do_eagerly() -> None:
    with pytest.raises(ShapeError, match="matmul"):
        fg.program(lambda x, y: x @ y)(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(DifferentiationError):
        fg.program(fg.grad(lambda x: x))(POINT)


def test_the_function_keeps_its_name() -> None:
    assert fg.program(energy).__name__ == "energy"
    assert fg.program(energy)(POINT).name == "energy"


def test_the_function_runs_once_on_real_numbers() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(f"{x[0]:.1f} {float(x[1])}")
        return x

    fg.program(f)(POINT)
    assert seen == ["0.5 -1.5"]


# -------------------------------------------------------------------------------- threads, memory


def test_a_staged_function_may_use_threads() -> None:
    def f(x: Any) -> Any:
        def part(k: int) -> Any:
            y = x * (k + 1.0)
            for _ in range(99):
                y = fnp.sin(y)
            return y

        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(part, range(8)))

    staged = fg.program(f)(POINT).verify()
    assert len(staged.equations) == 8 * 100 + 8
    assert_bits(staged(POINT), f(fg.tensor(POINT)))
    assert_bits(optimize(staged)(POINT), f(fg.tensor(POINT)))


def test_many_threads_stage_and_call_at_once() -> None:
    shared = fg.program(fg.grad(energy))(POINT)

    def work(k: int) -> None:
        point = POINT * (k + 1)
        for _ in range(10):
            assert_bits(shared(point), fg.grad(energy)(point))
            assert fg.program(fg.grad(energy))(POINT) == shared

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


def test_staging_keeps_no_intermediate() -> None:
    alive: list[Any] = []

    def f(x: Any) -> Any:
        y = fnp.sin(x)
        alive.append(weakref.ref(np.asarray(y._value)))
        return fnp.cos(y)

    gc.disable()
    try:
        staged = fg.program(f)(np.ones(1000))
        assert [ref() for ref in alive] == [None]
        assert len(staged.constants) == 0
    finally:
        gc.enable()


def test_a_constant_used_often_is_kept_once() -> None:
    table = fg.tensor(np.arange(1000.0))

    def f(x: Any) -> Any:
        for _ in range(10):
            x = x * table + 1.0
        return x

    assert len(fg.program(f)(2.0).constants) == 2


# Large arguments, which are staged without their numbers.


def counted(f: Any) -> tuple[Any, list[int]]:
    calls: list[int] = []

    def call(*args: Any) -> Any:
        calls.append(1)
        return f(*args)

    return call, calls


LARGE = np.linspace(-1.0, 1.0, 2**18)


def test_large_arguments_are_staged_without_evaluating_anything() -> None:
    def watched(x: Any) -> Any:
        y = fnp.sin(x) * x
        return fnp.sum(y), y.astype(np.float32), 2 * fnp.max(x)

    f, calls = counted(fg.value_and_grad(lambda x: watched(x)[0]))
    x = fg.tensor(LARGE)
    tracemalloc.start()
    try:
        staged = fg.program(f)(x)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(calls) == 1
    assert peak < LARGE.nbytes
    small = fg.program(f)(LARGE[:10])
    names = [equation.name for equation in staged.equations]
    assert names == [equation.name for equation in small.equations]
    for own, other in zip(staged(LARGE), f(LARGE), strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x * 2 if x[0] > 0 else x,
        lambda x: x * float(fnp.sum(x)),
        lambda x: fnp.arange(3.0)[int(fnp.sum(x * 0))] * x,
        lambda x: (f"{x[0]:.3f}", x)[1],
    ],
)
def test_a_look_at_a_number_stages_again_with_numbers(look: Any) -> None:
    f, calls = counted(look)
    staged = fg.program(f)(LARGE)
    assert len(calls) == 2
    np.testing.assert_array_equal(staged(LARGE), look(fg.tensor(LARGE)))
    assert staged.guards == fg.program(look)(LARGE).guards


def test_errors_of_large_arguments_are_those_of_small_ones() -> None:
    def messages(x: Any) -> str:
        with pytest.raises(fg.errors.ShapeError) as caught:
            fg.program(lambda x: fnp.sin(x)[None] @ fnp.ones(3))(x)
        return str(caught.value)

    assert messages(LARGE) == messages(LARGE[:10]).replace("10", str(LARGE.size))


def test_a_rule_of_ones_own_sees_the_numbers_of_large_arguments() -> None:
    @fg.custom_vjp
    def f(x: Any) -> Any:
        return x * 2 if np.asarray(x)[0] < 0 else x

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * 7,))
    np.testing.assert_array_equal(fg.program(f)(LARGE)(LARGE), LARGE * 2)
    slope = fg.program(fg.grad(lambda x: fnp.sum(f(x))))(LARGE)
    np.testing.assert_array_equal(slope(LARGE), np.full(LARGE.shape, 7.0))

"""Equations that run together, block by block, give the results of one after another."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.numpy.fusion import Kernel
from funcgrad._backends.numpy.plan import plan_of
from funcgrad._backends.numpy.writer import numpy_source
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import concrete
from funcgrad._passes.pipeline import optimize
from funcgrad._programs.liveness import makes_its_own
from funcgrad._programs.program import Program
from tests.conformance import every_case, every_primitive, representatives
from tests.subjects import function_of
from tests.together import together

BLOCK = 64  # bytes: arrays of a few hundred bytes are large then


def run_blocks(program: Program, values: list[Any], block: int = BLOCK) -> list[Any]:
    """The results of the source with small blocks."""
    run = function_of(numpy_source(program, block=block))
    found = list(run(*values))
    before = [np.array(each) for each in found]
    run(*values)  # memory that is used again is not that of results
    for own, copy in zip(found, before, strict=True):
        np.testing.assert_array_equal(np.asarray(own), copy)
    return found


def kernels_of(program: Program, block: int = BLOCK) -> list[Kernel]:
    return [step for step in plan_of(program, block).steps if isinstance(step, Kernel)]


def assert_close(found: Any, expected: Any) -> None:
    """Check for equal shapes, dtypes, NaN and infinities; sums may be added in another order."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def assert_blocks(f: Callable[..., Any], *args: Any, block: int = BLOCK) -> list[Kernel]:
    """Check a function at some arguments, and return its kernels."""
    program = optimize(fg.program(f)(*args))
    values = [concrete(arg) for arg in fg.tree.leaves((args, {}))]
    before = [np.array(value) for value in values]
    with np.errstate(all="ignore"):
        expected = program.evaluate(values)
        found = run_blocks(program, values, block)
    for own, other in zip(found, expected, strict=True):
        assert type(own) is type(other)
        assert_close(own, other)
    for value, copy in zip(values, before, strict=True):
        np.testing.assert_array_equal(value, copy)  # what is given is never written to
    return kernels_of(program, block)


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def smooth(x: Any) -> Any:
    return fnp.sum(fnp.sin(x) * fnp.exp(-(x**2)) + fnp.tanh(x) * x)


@pytest.mark.parametrize("shape", [(100,), (97,), (40, 5), (4, 3, 20), (100, 1)])
def test_one_kernel_for_a_function_and_its_gradient(shape: tuple[int, ...]) -> None:
    (kernel,) = assert_blocks(fg.value_and_grad(smooth), numbers(*shape))
    assert kernel.size == np.prod(shape)


@pytest.mark.parametrize("shape", [(100,), (97,), (40, 5), (4, 3, 20)])
def test_sums_of_products_are_made_within_kernels(shape: tuple[int, ...]) -> None:
    """Neither factor is ever a whole array."""

    def weighted(x: Any) -> Any:
        return fnp.sum(fnp.exp(x) * fnp.sin(x))

    (kernel,) = assert_blocks(weighted, numbers(*shape))
    assert len(kernel.members) == 3
    program = optimize(fg.program(weighted)(fg.tensor(numbers(*shape))))
    assert [e.operation.name for e in program.equations][-1] in ("matmul", "contract")
    assert len(assert_blocks(fg.value_and_grad(weighted), numbers(*shape))) == 1


def test_arrays_in_other_orders_are_gone_through_alike() -> None:
    x = numbers(20, 7).T
    assert assert_blocks(lambda x: (fnp.sin(x) * x + 1, x - 1), x)
    assert assert_blocks(lambda x: (fnp.sin(x) * x + 1, x - 1), numbers(200)[::-2])


def test_what_depends_on_a_sum_comes_after_the_kernel() -> None:
    kernels = assert_blocks(lambda x: (x * x) / fnp.sum(x * x) - fnp.max(fnp.sin(x)), numbers(100))
    assert len(kernels) == 2


def test_kernels_that_need_one_another_are_not_one() -> None:
    def f(x: Any, w: Any) -> Any:
        a = fnp.sin(x) * x
        b = a @ w  # by itself, between the two
        return a * 2 + b * x, fnp.cos(x) * a

    assert_blocks(f, numbers(50, 4), numbers(4, 4))


def test_a_large_array_may_be_needed_whole_and_in_blocks() -> None:
    def f(x: Any) -> Any:
        y = x * x
        return y + y[:, :1] * x.T * fnp.sin(y) + y[0]

    assert_blocks(f, numbers(12, 12))


def test_arrays_of_several_shapes_are_in_no_kernel() -> None:
    x, column = numbers(97, 4), numbers(97, 1)
    for f in (
        lambda x, column: fnp.exp(fnp.sin(x) * column) - column,
        lambda x, column: fnp.sum(fnp.sin(x), axis=1, keepdims=True) * column,
        lambda x, column: fnp.sin(x)[::-1] + column,
    ):
        assert not kernels_of(optimize(fg.program(f)(x, column)), 512)
    one = numbers(1, 1)
    (kernel,) = assert_blocks(lambda x, one: fnp.sum(fnp.exp(x * one) + one[0, 0]), x, one)
    assert len(kernel.members) == 4


def test_small_programs_have_no_kernels() -> None:
    assert not kernels_of(fg.program(fg.grad(smooth))(numbers(1000)), 2**16)


UNARY = ("negative", "square", "exp", "sin", "absolute", "sign", "isnan", "floor")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "less", "arctan2")
MOVES: tuple[Callable[[Any], Any], ...] = (
    lambda x: fnp.sum(x, axis=0),
    lambda x: fnp.sum(x, axis=-1),
    lambda x: fnp.sum(x, axis=-1, keepdims=True),
    lambda x: fnp.sum(x),
    lambda x: fnp.sum(x, axis=0, keepdims=True),
    lambda x: fnp.max(x, axis=0),
    lambda x: fnp.min(x, axis=-1, keepdims=True),
    lambda x: fnp.mean(x),
    lambda x: fnp.sum(x * fnp.exp(x)),
    lambda x: fnp.sum(x * x[..., ::-1]) if x.ndim else x,
    lambda x: x[:, :1] if x.ndim > 1 else x[..., None],
    lambda x: x[:, ::-1] if x.ndim > 1 else x[::-1],
    lambda x: x[..., :] if x.ndim else x,
    lambda x: x.T,
    lambda x: fnp.reshape(x, (x.shape[0], -1)) if x.ndim else x,
    lambda x: fnp.reshape(x, (-1,)),
    lambda x: x.astype(np.float32),
    lambda x: fnp.where(x > 0, x, -1.0),
    lambda x: fnp.broadcast_to(x, (24, 4)) if x.shape in ((4,), (24, 1), ()) else x,
    lambda x: fnp.cumsum(x, axis=0) if x.ndim else x,
    fg.nn.relu,
    fg.nn.sigmoid,
)
GIVEN = (
    numbers(24, 4),
    numbers(24, 1, seed=1),
    numbers(4, seed=2),
    numbers(24, seed=3),
    1.5,
    numbers(24, 4, seed=4),
)
step = st.one_of(
    st.tuples(st.sampled_from(UNARY), st.integers(0, 7), st.just(0)),
    st.tuples(st.sampled_from(BINARY), st.integers(0, 7), st.integers(0, 7)),
    st.tuples(st.sampled_from(range(len(MOVES))), st.integers(0, 7), st.just(0)),
)


def run_steps(chosen: list[Any], outs: int, *values: Any) -> list[Any]:
    """A straight-line function that returns its last results and some of the others."""
    known = list(values)
    for what, i, j in chosen:
        x, y = fnp.asarray(known[-1 - i % len(known)]), fnp.asarray(known[-1 - j % len(known)])
        try:
            if isinstance(what, int):
                known.append(MOVES[what](x))
            elif what in UNARY:
                known.append(getattr(fnp, what)(x))
            else:
                known.append(getattr(fnp, what)(x, y))
        except (fg.errors.ShapeError, fg.errors.DtypeError):
            continue
    return [known[-1], *[x for k, x in enumerate(known[len(values) :]) if outs >> k & 1]]


@settings(max_examples=150, deadline=None)
@given(chosen=st.lists(step, min_size=6, max_size=14), outs=st.integers(0, 2**14 - 1))
def test_random_programs(chosen: list[Any], outs: int) -> None:
    program = optimize(fg.program(lambda *xs: run_steps(chosen, outs, *xs))(*GIVEN))
    values = list(GIVEN)
    with np.errstate(all="ignore"):
        expected = program.evaluate(values)
        found = run_blocks(program, values)
    single = any(spec.dtype.char == "f" for spec in program.specs())  # on the way, maybe
    for own, other in zip(found, expected, strict=True):
        assert own.dtype == other.dtype if hasattr(own, "dtype") else type(own) is type(other)
        np.testing.assert_allclose(
            own, other, rtol=1e-4 if single else 1e-9, atol=1e-4 if single else 1e-9
        )
        assert np.shape(own) == np.shape(other)


def test_random_programs_have_kernels() -> None:
    """The generator makes useful programs: more than a third of them fuse."""
    rng = np.random.default_rng(0)
    fused = 0
    for _ in range(40):
        kinds = [*UNARY, *BINARY, *range(len(MOVES))]
        places = rng.integers(8, size=(12, 2)).tolist()
        chosen = [(kinds[rng.integers(len(kinds))], i, j) for i, j in places]
        fused += bool(
            kernels_of(optimize(fg.program(lambda *xs, c=chosen: run_steps(c, 5, *xs))(*GIVEN)))
        )
    assert fused >= 15


# What the plan relies on.


@together("primitive", [*filter(makes_its_own, every_primitive())], ids=str)
def test_results_have_memory_of_their_own_where_the_plan_says_so(primitive: Primitive) -> None:
    with np.errstate(all="ignore"):
        for sample in primitive.samples():
            out = primitive.evaluate(*sample.args, **sample.params)
            assert not any(
                isinstance(arg, np.ndarray) and np.may_share_memory(arg, out) for arg in sample.args
            )


def test_results_take_the_memory_of_what_is_not_needed_any_more() -> None:
    program = fg.program(lambda x: fnp.exp(fnp.sin(x) + 1.0))(numbers(10))
    assert program.to_numpy_source().count(" = ") == 2  # the sine, and a number made once
    kept = fg.program(lambda x: (y := fnp.sin(x), fnp.exp(y)))(numbers(10))
    assert "exp(a, a)" not in kept.to_numpy_source()
    viewed = fg.program(lambda x: ((y := fnp.sin(x))[1:], fnp.exp(y)))(numbers(10))
    assert "exp(a, a)" not in viewed.to_numpy_source()


@pytest.mark.slow
def test_every_case_runs_in_blocks() -> None:
    with np.errstate(all="ignore"):
        for case in representatives(every_case(every_primitive())):
            program = fg.program(case.function())(*case.args)
            values = [concrete(arg) for arg in fg.tree.leaves((case.args, {}))]
            for own, other in zip(
                run_blocks(program, values, 8), program.evaluate(values), strict=True
            ):
                np.testing.assert_allclose(np.asarray(own), np.asarray(other), rtol=1e-6)

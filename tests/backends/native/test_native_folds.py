"""Cumulative operations and places of extrema as machine code, for any axis, dtype and length."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad._backends.native.instructions import NotEmitted
from funcgrad._backends.native.nest_planning import neutral_of
from funcgrad._primitives.cumulative import cumulative_sum
from funcgrad._primitives.recurrence import recurrence
from funcgrad.tensor.tensor import apply
from tests.backends.native.test_native import assert_same
from tests.backends.native.test_native_loops import called_back
from tests.together import together

SHAPES = st.lists(st.sampled_from([1, 2, 3, 9, 17, 40]), min_size=1, max_size=3).map(tuple)
DTYPES = st.sampled_from("?bBhHiIlLfd")


@given(SHAPES, DTYPES, st.booleans(), st.data())
def test_cumulative_sums_and_products_have_numpys_bits(
    shape: tuple[int, ...], char: str, reverse: bool, data: Any
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = (3 * np.random.default_rng(len(shape)).standard_normal(shape)).astype(char)

    def f(x: Any) -> Any:
        total = apply(cumulative_sum, x, axis=axis % len(shape), reverse=reverse)
        return total, fnp.cumprod(x, axis=axis), fnp.cumsum(x[::-1], axis=axis)

    assert called_back(f, x) == "nothing"
    assert_same(f, x, exact=True)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 2)])
def test_nothing_is_accumulated(shape: tuple[int, ...]) -> None:
    assert_same(lambda x: fnp.cumsum(x, axis=0), np.zeros(shape), exact=True)


@given(SHAPES, DTYPES, st.booleans(), st.sets(st.integers(0, 999), max_size=4), st.data())
def test_places_of_extrema_are_the_first_ones(
    shape: tuple[int, ...], char: str, keepdims: bool, nans: set[int], data: Any
) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = (2 * np.random.default_rng(len(shape)).standard_normal(shape)).astype(char)  # many ties
    for place in nans:
        if char in "fd":
            x.flat[place % x.size] = np.nan

    def f(x: Any) -> Any:
        first = fnp.argmax(x, axis=axis, keepdims=keepdims)
        return first, fnp.argmin(x, axis=axis), fnp.argmax(x), fnp.argmin(x.T, axis=axis)

    assert called_back(f, x) == "nothing"
    assert_same(f, x, exact=True)


@pytest.mark.slow
@together("length", [31, 32, 33, 100, 1001])
@together("char", "fdbl?")
def test_ties_between_pieces_of_long_rows(length: int, char: str) -> None:
    for place in (0, 7, length // 2, length - 1):
        x = np.zeros(length)
        x[place:] = 1
        assert_same(lambda x: (fnp.argmax(x), fnp.argmin(1 - x)), x.astype(char).astype("d"))
        assert_same(lambda x: fnp.argmax(x), x.astype(char), exact=True)


@together("reverse", [False, True])
@together("shape", [(50,), (7, 9), (4, 3, 5)])
@together("char", "fd")
def test_recurrences(shape: tuple[int, ...], reverse: bool, char: str) -> None:
    draw = np.random.default_rng(3).uniform
    a, b = draw(-1, 1, shape).astype(char), draw(-1, 1, shape).astype(char)
    for axis in range(len(shape)):
        f = lambda a, b, k=axis: apply(recurrence, a, b, axis=k, reverse=reverse)  # noqa: E731
        assert called_back(f, a, b) == "nothing"
        assert_same(f, a, b)


def test_what_overflows_on_the_way_and_meets_a_zero_is_zero() -> None:
    a = np.array([1e300, 1e300, 1e300, 0.0, 2.0])
    b = np.array([1e300, 1.0, 1.0, 1.0, 1.0])
    assert_same(lambda a, b: apply(recurrence, a, b, axis=0, reverse=False), a, b, exact=True)
    assert_same(fg.grad(lambda a: fnp.cumprod(a)[-1]), a, exact=True)
    assert_same(fg.grad(lambda a: fnp.sum(fnp.cumsum(a) * a)), b[1:])


def _log_of_sum(m: Any, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)) of numbers that may be large."""
    most = m.maximum(x, y)
    return most + m.log(m.exp(x - most) + m.exp(y - most))


_FOLD = extend.Fold(_log_of_sum, start=lambda m, dtype, place, x: m.sin(m.astype(x, dtype)))
_running = extend.Primitive(
    "running_log_of_sum",
    lambda x, axis: np.logaddexp.accumulate(np.sin(x), axis=axis),
    lambda x, axis: x,
    extend.DISCRETE,
    lambda primitive, size, args, batched, params: primitive(*args, axis=params["axis"] + 1),
    structure=extend.Scan(_FOLD),
)
_whole = extend.Primitive(
    "log_of_sum",
    lambda x, axis, keepdims: np.logaddexp.reduce(np.sin(x), axis=axis, keepdims=keepdims),
    lambda x, axis, keepdims: extend.Spec(
        tuple([n for k, n in enumerate(x.shape) if k not in axis]), x.dtype
    ),
    extend.DISCRETE,
    extend.batch_reduction,
    structure=extend.Reduction(_FOLD),
)


def _length(m: Any, x: Any, y: Any) -> Any:
    return m.hypot(x, y)


def test_a_number_that_is_neutral_beside_infinity_alone_is_not_neutral() -> None:
    for combine in (_length, lambda m, x, y: m.multiply(x, y), lambda m, x, y: x + y - x * y):
        with pytest.raises(NotEmitted, match="without a neutral number"):
            neutral_of(extend.Fold(combine), np.dtype(float))


@together("char", "fd")
@together("shape", [(5,), (3, 70), (40, 3)])
def test_folds_of_a_strangers_with_exponentials(shape: tuple[int, ...], char: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(char)
    for axis in range(len(shape)):
        for f in (
            lambda x, k=axis: apply(_running, x, axis=k),
            lambda x, k=axis: apply(_whole, x, axis=(k,), keepdims=False),
        ):
            assert called_back(f, x) == "nothing"
            result = fg.jit(f, backend="native")(x)
            np.testing.assert_allclose(result, f(x), rtol=1e-5 if char == "f" else 1e-13)


@pytest.mark.slow
@together("char", "efdFD")
@together("shape", [(1,), (9,), (9000,), (3, 4), (3, 33), (40, 5), (1, 5), (5, 1)])
def test_sums_of_negative_zeros_have_the_sign_of_numpys(char: str, shape: tuple[int, ...]) -> None:
    x = -np.zeros(shape, char)
    programs: list[Callable[[Any], Any]] = [lambda x: x.T @ fnp.ones((shape[0], 3), x.dtype)]
    for axis in (None, *range(len(shape))):
        programs.append(partial(fnp.sum, axis=axis))
    for f in programs:
        natively, expected = fg.jit(f, backend="native")(x), f(fg.tensor(x))
        for component in (fnp.real, fnp.imag):
            left, right = component(natively), component(expected)
            np.testing.assert_array_equal(np.signbit(left), np.signbit(right))


@pytest.mark.parametrize("axis", [0, 1])
def test_products_of_half_precision_are_rounded_as_often_as_numpys(axis: int) -> None:
    x = np.random.default_rng(4).uniform(0.5, 2.0, (4, 4)).astype(np.float16)
    programs: list[Callable[[Any], Any]] = [partial(np.prod, axis=axis), partial(np.max, axis=axis)]
    for f in programs:
        np.testing.assert_array_equal(fg.jit(f, backend="native")(x), f(x))


@pytest.mark.parametrize("dtype", ["d", "f", "e", "D"])
def test_gradients_of_cumulative_products_are_machine_code(dtype: str) -> None:
    rng = np.random.default_rng(91)
    lines = {
        "plain": rng.uniform(0.5, 1.5, (3, 7)),
        "a zero": np.array([[2.0, 0.0, 3.0, 0.5], [0.0, 1.0, 1.5, 2.0]]),
        "two zeros": np.array([[2.0, 0.0, 3.0, 0.0], [0.0, -0.0, 1.5, 2.0]]),
        "one": np.ones((2, 1)),
        "nothing": np.ones((2, 0)),
        "special": np.array([[1.0, np.inf, 2.0], [np.nan, 2.0, 3.0]]),
    }

    def total(x: Any) -> Any:
        weights = np.arange(1.0, x.size + 1).reshape(x.shape)
        return fnp.real(fnp.sum(fnp.cumprod(x, axis=-1) * weights))

    for name, line in lines.items():
        x = line.astype(dtype) * (1 + 0.5j if dtype == "D" else 1)
        run = fg.jit(fg.grad(total), backend="native")
        assert run.lower(x).source.startswith("; called back: nothing") or not x.size, name
        with np.errstate(all="ignore"):
            got, expected = run(x), fg.grad(total)(x)
        close = {"e": 4e-3, "f": 1e-5}.get(dtype, 1e-13)
        np.testing.assert_allclose(got, expected, rtol=close, atol=close, err_msg=name)


@together("moved", [lambda x: x[::-1], lambda x: x[::2, 1:], lambda x: x.T, lambda x: x[:, ::-1].T])
@together("axis", [0, 1])
def test_a_later_step_that_copies_an_operand_leaves_a_scan_its_view(moved: Any, axis: int) -> None:
    x = np.random.default_rng(4).uniform(0.5, 1.5, (4, 5))
    f = fg.grad(lambda x: fnp.sum(fnp.cumprod(moved(x), axis=axis) ** 2))
    np.testing.assert_allclose(fg.jit(f, backend="native")(x), f(x), 1e-13)


def test_products_beyond_the_range_are_called_back() -> None:
    x = np.array([1e200, 1e200, 1e-300, 1e-200, 3.0])
    f = fg.grad(lambda x: fnp.sum(fnp.cumprod(x)[2:]))
    run = fg.jit(f, backend="native")
    assert (
        "; called back at times: pulled_in_range: a result that is not finite"
        in run.lower(x).source
    )
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(run(x), f(x), rtol=1e-12)
        with fg.debug.called_back() as counts:
            run(x)
    assert counts
    with fg.debug.called_back() as counts:
        run(np.ones(5))
    assert not counts


def test_cumulative_products_in_loops_batches_and_of_second_order() -> None:
    x = np.random.default_rng(92).uniform(0.5, 1.5, (4, 5))
    x[1, 2] = 0.0

    def transmitted(x: Any) -> Any:
        return fnp.sum(fnp.cumprod(1.0 - 0.1 * x) * x)

    def steps(x: Any) -> Any:
        move = fg.grad(transmitted)
        return fg.scan(lambda c, _: (c - 0.1 * move(c), None), x, None, length=3)[0]

    for f, argument in (
        (fg.vmap(fg.grad(transmitted)), x),
        (fg.hessian(transmitted), x[1]),
        (fg.jacfwd(fg.grad(transmitted)), x[1]),
        (steps, x[0]),
        (fg.vmap(steps), x),
    ):
        np.testing.assert_allclose(
            fg.jit(f, backend="native")(argument), f(argument), rtol=1e-11, atol=1e-13
        )

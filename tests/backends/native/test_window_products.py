"""Convolutions, their transposes and pools in native code, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._passes.pipeline import optimize
from funcgrad._primitives.convolution import convolve, correlate, spread
from funcgrad._primitives.sequences import convolve_rows
from funcgrad._primitives.sliding import overlapped, window_shares, window_sums
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.backends.native.vector_functions import HOST
from tests.together import together

pytest.importorskip("llvmlite")

Arrays = dict[str, np.ndarray[Any, Any]]


def operations(arrays: Arrays, params: dict[str, Any]) -> list[tuple[Callable[..., Any], str]]:
    """The three operations, and the names of their operands."""
    sizes, space = arrays["k"].shape[2:], arrays["x"].shape[2:]
    return [
        (lambda x, k: convolve(x, k, **params), "xk"),
        (lambda y, k: spread(y, k, shape=space, **params), "yk"),
        (lambda x, y: correlate(x, y, sizes=sizes, **params), "xy"),
    ]


def made(
    axes: Sequence[tuple[int, ...]], channels: tuple[int, int, int], examples: int, dtype: Any
) -> tuple[Arrays, dict[str, Any]]:
    """Arrays x, k and y; an axis has five numbers, see ``AXES``."""
    few, filters, groups = channels
    space = [s * (p - 1) + d * (n - 1) + 1 + left % s for n, s, d, p, left in axes]
    sizes, strides, dilations, places, _ = map(list, zip(*axes, strict=True)) if axes else [[]] * 5
    shapes = {
        "x": (examples, few * groups, *space),
        "k": (filters * groups, few, *sizes),
        "y": (examples, filters * groups, *places),
    }
    rng = np.random.default_rng(3)
    arrays = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    params = {"strides": tuple(strides), "dilations": tuple(dilations), "groups": groups}
    return arrays, params


def assert_all(arrays: Arrays, params: dict[str, Any], machine: Any = None) -> None:
    """Check all three operations within the rounding errors of sums of products."""
    for operation, names in operations(arrays, params):
        args = [arrays[name] for name in names]
        text = NATIVE.inspect(NATIVE.prepare(fg.program(operation)(*args), False))
        assert text.startswith("; called back: nothing")
        (out,) = machine_code_of(operation, *args, machine=machine)
        expected = np.asarray(operation(*args))
        assert (out.shape, out.dtype) == (expected.shape, expected.dtype)
        if out.size:
            scale = operation(*map(abs, args))
            terms = arrays["k"].size + arrays["y"].size
            assert np.all(abs(out - expected) <= terms * np.finfo(out.dtype).eps * scale)


# The size of a window, its stride and dilation, the number of places, and elements left over.
AXES = st.tuples(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 11), st.integers(0, 2)
)


@pytest.mark.slow
@given(
    st.lists(AXES, max_size=3),
    st.tuples(st.sampled_from([1, 2, 5]), st.sampled_from([1, 3, 9, 70]), st.integers(1, 3)),
    st.integers(0, 3),
    st.sampled_from([np.float32, np.float64]),
)
def test_convolutions_of_any_sizes(
    axes: list[tuple[int, ...]], channels: tuple[int, int, int], examples: int, dtype: Any
) -> None:
    assert_all(*made(axes, channels, examples, dtype))


@together(
    "axes",
    [
        [(3, 1, 1, 30, 0), (3, 1, 1, 30, 0)],  # lines by themselves
        [(3, 1, 1, 6, 0), (3, 1, 1, 6, 0)],  # joined lines
        [(1, 1, 1, 8, 0), (1, 1, 1, 8, 0)],
        [(1, 2, 1, 8, 1), (1, 2, 1, 8, 0)],
        [(4, 4, 1, 5, 0), (4, 4, 1, 5, 0)],  # windows beside each other
        [(2, 3, 2, 5, 2), (3, 2, 3, 5, 1)],
        [(3, 1, 1, 5, 0), (1, 1, 1, 1, 0), (2, 2, 1, 3, 1)],
        [(1, 1, 1, 2, 0), (2, 1, 1, 3, 0)],
        [(31, 1, 1, 500, 0)],  # more than one panel, and a long sum
        [(3, 2, 1, 400, 0)],
    ],
    ids=str,
)
@together("dtype", [np.float64, np.float32], ids=str, quick=1)
def test_typical_convolutions(axes: list[tuple[int, ...]], dtype: Any) -> None:
    assert_all(*made(axes, (3, 10, 2), 2, dtype))
    if dtype == np.float32:
        assert_all(*made(axes, (17, 1, 1), 2, dtype))


@pytest.mark.parametrize("machine", OTHERS, ids=str)
def test_convolutions_on_other_processors(machine: Any) -> None:
    assert_all(*made([(3, 1, 1, 6, 0), (3, 2, 1, 7, 1)], (3, 10, 2), 2, np.float32), machine)


@together("name", "xky")
@together("number", [np.inf, np.nan], ids=str)
def test_numbers_that_are_not_finite_reach_the_places_of_their_windows(
    name: str, number: float
) -> None:
    """Zeros around arrays, and sums between lines, are multiplied by nothing."""
    for axes in ([(3, 1, 1, 6, 1), (2, 1, 1, 5, 0)], [(3, 2, 1, 4, 1), (2, 3, 1, 4, 0)]):
        arrays, params = made(axes, (2, 3, 1), 2, np.float64)
        arrays[name][1, 1, -1, -1] = number
        for operation, names in operations(arrays, params):
            args = [arrays[letter] for letter in names]
            (out,) = machine_code_of(operation, *args)
            with np.errstate(invalid="ignore"):
                expected = operation(*args)
            np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


def test_second_order_and_batches_of_kernels() -> None:
    rng = np.random.default_rng(1)
    x, k = rng.standard_normal((3, 2, 7, 8)), rng.standard_normal((4, 5, 2, 3, 3))

    def loss(k: Any, x: Any) -> Any:
        slope = fg.grad(lambda x: fnp.sum(fnp.tanh(nn.conv(x, k, stride=2, padding="same"))))
        return fnp.sum(slope(x) ** 2)

    derivative = fg.vmap(fg.grad(loss), (0, None))
    jitted = fg.jit(derivative, backend="native")
    np.testing.assert_allclose(jitted(k, x), derivative(k, x), rtol=1e-10, atol=1e-12)
    assert jitted.lower(k, x).source.startswith("; called back: nothing")


POOLS: dict[str, Callable[..., Any]] = {
    "sums": lambda x: window_sums(x, sizes=(3, 2), strides=(2, 1), dilations=(1, 2)),
    "long sums": lambda x: window_sums(x, sizes=(9,), strides=(1,), dilations=(1,)),
    "shares": lambda x: window_shares(
        x, shape=(18, 27), sizes=(3, 2), strides=(2, 2), dilations=(1, 3)
    ),
    "shares beside each other": lambda x: window_shares(
        x, shape=(17, 37), sizes=(2, 3), strides=(2, 3), dilations=(1, 1)
    ),
    "maximum": lambda x: nn.max_pool(x, (3, 3), stride=1),
    "maximum of even windows": lambda x: nn.max_pool(x, (2, 2)),
    "least of lines": lambda x: fnp.min(x[..., ::2, :], axis=-2),
    "mean": lambda x: nn.avg_pool(x, (2, 2), stride=1, padding=1),
}


@together("name", POOLS)
@together("dtype", [np.float32, np.float64, np.int16], ids=str)
def test_pools(name: str, dtype: Any) -> None:
    x = (100 * np.random.default_rng(5).standard_normal((2, 3, 8, 12))).astype(dtype)
    pool = POOLS[name]
    jitted = fg.jit(pool, backend="native")
    np.testing.assert_allclose(jitted(x), pool(x), rtol=1e-5, atol=1e-4)
    is_looped = x.dtype.kind == "f" or "long" not in name  # sums of integers widen
    assert jitted.lower(x).source.startswith("; called back: nothing") == is_looped
    if "maximum" in name and x.dtype.kind == "f":
        x[0, 1, 2, 3] = np.nan
        np.testing.assert_array_equal(jitted(x), pool(x))


def test_elements_of_windows_go_back_to_their_places() -> None:
    y = np.random.default_rng(5).standard_normal((2, 2, 3, 4, 5))
    params = {"shape": (9, 9), "strides": (2, 1), "dilations": (1, 2)}
    for x in (y, y[:, :, :0]):
        (out,) = machine_code_of(lambda y: overlapped(y, **params), x)
        np.testing.assert_allclose(out, overlapped(x, **params), rtol=1e-14, atol=1e-14)


def test_other_dtypes_are_called_back() -> None:
    x, k = np.ones((1, 1, 5), np.int32), np.ones((1, 1, 2), np.int32)
    jitted = fg.jit(lambda x, k: nn.conv(x, k), backend="native")
    assert "convolve: products of int32, int32" in jitted.lower(x, k).source
    np.testing.assert_array_equal(jitted(x, k), nn.conv(x, k))


def test_bits_depend_on_nothing_but_the_numbers() -> None:
    """Sums have one order, in vectors and in their tails, in joined lines and in others."""
    if HOST.is_arm:
        pytest.skip("narrow vectors have other tails")
    arrays, params = made([(3, 1, 1, 6, 0), (3, 1, 1, 40, 0)], (3, 5, 1), 1, np.float64)
    x, k = arrays["x"], arrays["k"]
    (wide,) = machine_code_of(lambda x, k: convolve(x, k, **params), x, k)
    (narrow,) = machine_code_of(lambda x, k: convolve(x, k, **params), x[..., 1:8].copy(), k)
    np.testing.assert_array_equal(narrow, wide[..., 1:6])


@together("shapes", [((9,), (4,)), ((2, 9), (4,)), ((9,), (3, 4)), ((2, 3, 9), (2, 3, 4))], ids=str)
@together("mode", ["full", "valid"])
def test_convolutions_of_rows(shapes: tuple[tuple[int, ...], tuple[int, ...]], mode: str) -> None:
    rng = np.random.default_rng(2)
    x, v = [rng.standard_normal(shape) for shape in shapes]

    def f(x: Any, v: Any) -> Any:
        return convolve_rows(x, v, full=mode == "full")

    jitted = fg.jit(f, backend="native")
    np.testing.assert_allclose(jitted(x, v), f(x, v), rtol=1e-13, atol=1e-13)
    assert jitted.lower(x, v).source.startswith("; called back: nothing")


@together("sizes", [(5, 2), (3, 5), (60, 40), (4, 4)], ids=str)
@together("value", [np.inf, np.nan], ids=str)
def test_infinite_and_missing_elements_reach_no_sum_that_lacks_them(
    sizes: tuple[int, int], value: float
) -> None:
    for lead in ((), (2,)):
        x, v = np.ones((*lead, sizes[0])), np.ones(sizes[1])
        x[..., 0], v[-1] = -value, value
        run: Any = fg.jit(lambda x, v: convolve_rows(x, v, full=True), backend="native")
        np.testing.assert_array_equal(run(x, v), convolve_rows(x, v, full=True))
        assert run.lower(x, v).source.startswith("; called back: nothing")


@together("dtype", ["F", "e", "D", "i8", "i4", "u1", "i2"], quick=1)
@together("mode", ["full", "same", "valid"])
def test_sequences_of_other_dtypes_are_not_called_back(dtype: str, mode: str) -> None:
    rng = np.random.default_rng(31)
    for n, m in ((9, 4), (4, 9), *(((50, 50), (5, 1), (300, 17)) if mode == "full" else ())):
        x, v = (rng.integers(-9, 10, size).astype(dtype) for size in (n, m))
        if np.dtype(dtype).kind == "c":
            x = (x * (1 + 2j)).astype(dtype)
            v = (v - 1j * v[::-1] * 3).astype(dtype)
        for f in (fnp.convolve, fnp.correlate):
            run = fg.jit(lambda x, v, f=f: f(x, v, mode), backend="native")
            assert run.lower(x, v).source.startswith("; called back: nothing")
            np.testing.assert_array_equal(run(x, v), f(x, v, mode), strict=True)


def test_mixed_dtypes_rows_and_gradients() -> None:
    rng = np.random.default_rng(32)
    x, v = rng.standard_normal(12), rng.standard_normal(5) + 1j * rng.standard_normal(5)
    for first, second in (
        (x, v),
        (x.astype("f4"), x[:4]),
        (np.arange(8), x[:3]),
        (x, np.arange(4)),
    ):
        run = fg.jit(fnp.convolve, backend="native")
        np.testing.assert_allclose(run(first, second), fnp.convolve(first, second), rtol=1e-6)
        assert run.lower(first, second).source.startswith("; called back: nothing")
    rows = fg.vmap(fnp.convolve, in_axes=(0, None))
    many = rng.integers(-5, 5, (3, 8))
    np.testing.assert_array_equal(
        fg.jit(rows, backend="native")(many, many[0]), rows(many, many[0])
    )

    def energy(v: Any) -> Any:
        return fnp.sum(fnp.abs(fnp.convolve(x, v)) ** 2)

    np.testing.assert_allclose(
        fg.jit(fg.grad(energy), backend="native")(v), fg.grad(energy)(v), rtol=1e-12
    )


def test_products_of_half_precision_are_rounded_once() -> None:
    rng = np.random.default_rng(33)
    x, k = (rng.standard_normal(shape).astype("e") for shape in ((2, 3, 8, 8), (4, 3, 3, 3)))

    def net(x: Any, k: Any) -> Any:
        return fg.vmap(lambda row: fnp.convolve(row, k[0, 0, 0]))(x[0, 0])

    for f in (net, fg.grad(lambda x, k: fnp.sum(net(x, k) ** 2), argnums=(0, 1))):
        run = fg.jit(f, backend="native")
        assert run.lower(x, k).source.startswith("; called back: nothing")
        for got, expected in zip(fg.tree.leaves(run(x, k)), fg.tree.leaves(f(x, k)), strict=True):
            assert got.dtype == expected.dtype == np.float16
            np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-2)
    special = k.copy()
    special[0, 0, 0] = [np.inf, np.nan, -np.inf]
    with np.errstate(all="ignore"):
        gradient = fg.grad(lambda x, k: fnp.sum(net(x, k)))
        np.testing.assert_array_equal(
            fg.jit(gradient, backend="native")(x, special), gradient(x, special)
        )


def _planned(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The steps of a function that multiply windows."""
    steps = plan_of(NATIVE.prepare(optimize(fg.program(f)(*args)), False)).steps
    return [step for step in steps if isinstance(step, WindowProduct)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("key", [np.s_[1:9, 1:9], np.s_[:, 2:], np.s_[8::-2, 3], np.s_[::2, -1:]])
def test_places_that_nobody_reads_are_left_out(key: Any, dtype: Any) -> None:
    rng = np.random.default_rng(8)
    y, k = [rng.standard_normal(s).astype(dtype) for s in ((2, 4, 8, 8), (4, 3, 3, 3))]

    def f(y: Any, k: Any) -> Any:
        options: Any = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
        return fnp.asarray(spread(y, k, shape=(10, 10), **options))[:, :, *key]

    (step,) = _planned(f, y, k)
    flat = np.arange(100).reshape(10, 10)[key]
    span = int(flat.min()), int(flat.max()) + 1
    assert step.span == (() if span == (0, 100) else span)
    run, eps = fg.jit(f, backend="native"), np.finfo(dtype).eps
    np.testing.assert_allclose(run(y, k), f(y, k), atol=200 * eps)
    k[1, 2, 0, 1] = np.inf  # called back, which writes all places
    np.testing.assert_allclose(run(y, k), f(y, k), atol=200 * eps)


def test_places_that_somebody_reads_are_computed() -> None:
    y, k = np.ones((1, 1, 4)), np.ones((1, 1, 3))

    def f(y: Any, k: Any) -> Any:
        out = fnp.asarray(spread(y, k, shape=(6,), strides=(1,), dilations=(1,), groups=1))
        return out[..., 1:5], fnp.sum(out[..., 3:]), out[..., ::-1][..., :2]

    (step,) = _planned(f, y, k)
    assert step.span == (1, 6)
    for got, expected in zip(fg.jit(f, backend="native")(y, k), f(y, k), strict=True):
        np.testing.assert_array_equal(got, expected)

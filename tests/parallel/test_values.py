"""Values, gradients and the rest are those of the plain loop, to the last bit, on any executor."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import parallel
from funcgrad.parallel import worker_tasks
from tests.parallel.losses import bits, data, loaders, loss, params, plain, rows_of, tree_sum


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=get_context("forkserver")) as executor:
        yield executor


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


class AtOnce(Executor):
    """An executor of somebody else's, which has nothing but ``submit``."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


@pytest.mark.parametrize("size", [200, 67, 13])
def test_a_step_has_the_bits_of_the_plain_loop(size, threads, processes):
    chunks = parallel.slices(data(), size)
    expected = bits(plain(fg.value_and_grad(loss), chunks, params()))
    for executor in (threads, processes, AtOnce()):
        assert bits(parallel.value_and_grad(loss, executor)(params(), chunks)) == expected
    for workers in (1, 4):
        with ThreadPoolExecutor(workers) as executor:
            assert bits(parallel.value_and_grad(loss, executor)(params(), chunks)) == expected


@pytest.mark.slow
def test_loky_has_the_bits_of_the_plain_loop():
    executor = pytest.importorskip("loky").get_reusable_executor(2)
    f = parallel.value_and_grad(loss, executor)
    for chunks in ([rows_of(k) for k in range(5)], loaders(5)):
        expected = bits(plain(fg.value_and_grad(loss), [rows_of(k) for k in range(5)], params()))
        assert bits(f(params(), chunks)) == expected
    executor.shutdown()


def test_the_gradient_is_that_of_all_data(threads):
    whole = data()
    value, gradient = parallel.value_and_grad(loss, threads)(params(), parallel.slices(whole, 50))
    expected, expected_gradient = fg.value_and_grad(loss)(params(), whole)
    assert float(value) == pytest.approx(float(expected), rel=1e-13)
    np.testing.assert_allclose(gradient["w"], expected_gradient["w"], rtol=1e-12)
    assert isinstance(gradient["w"], fg.Tensor)


def test_grad_is_the_second_part(threads):
    chunks = parallel.slices(data(), 30)
    both = parallel.value_and_grad(loss, threads)(params(), chunks)
    assert bits(parallel.grad(loss, threads)(params(), chunks)) == bits(both[1])


@pytest.mark.parametrize(
    ("reduce", "factor"), [("sum", 4), ([50.0] * 4, 1), ([1, 2, 3, 4], None), ("mean", 1)]
)
def test_losses_are_summed_or_averaged(reduce, factor, threads):
    chunks = parallel.slices(data(), 50)
    value, gradient = parallel.value_and_grad(loss, threads, reduce)(params(), chunks)
    values = [float(loss(params(), chunk)) for chunk in chunks]
    gradients = [np.asarray(fg.grad(loss)(params(), chunk)["w"]) for chunk in chunks]
    weights = [1, 2, 3, 4] if factor is None else [factor / 4] * 4
    total = 10 if factor is None else 1
    np.testing.assert_allclose(float(value) * total, np.dot(weights, values))
    np.testing.assert_allclose(np.asarray(gradient["w"]) * total, np.dot(weights, gradients))


def test_weights_make_the_mean_of_unequal_chunks_that_of_all_rows(threads):
    whole = data(100)
    chunks = parallel.slices(whole, 30)
    lengths = [len(chunk["y"]) for chunk in chunks]
    assert lengths == [30, 30, 30, 10]
    value = parallel.value_and_grad(loss, threads, lengths)(params(), chunks)[0]
    assert float(value) == pytest.approx(float(loss(params(), whole)), rel=1e-13)


def test_sums_in_float64_round_once(threads):
    chunks = [np.array([1e8], np.float32), *[np.array([1.0], np.float32)] * 16]

    def f(w, chunk):
        return (w * chunk).sum()

    single = parallel.value_and_grad(f, threads, "sum")(np.float32(1), chunks)[0]
    double = parallel.value_and_grad(f, threads, "sum", dtype="float64")(np.float32(1), chunks)[0]
    assert single.dtype == double.dtype == np.float32
    assert float(double) == float(np.float32(1e8 + 16))
    sixteenth = parallel.value_and_grad(f, threads, "sum", dtype="float64")
    many = [np.array([0.1], np.float32)] * 1000
    total = float(np.float32(np.float64(np.float32(0.1)) * 1000))
    assert float(sixteenth(np.float32(1), many)[0]) == total


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes_stay(dtype, threads, processes):
    generator = np.random.default_rng(0)
    chunks = [generator.normal(size=(5, 3)).astype(dtype) for _ in range(3)]
    w = generator.normal(size=3).astype(dtype)

    def square(w, chunk):
        return (abs(chunk @ w) ** 2).mean()

    expected = plain(fg.value_and_grad(square), chunks, w)
    for executor in (threads, processes):
        value, gradient = parallel.value_and_grad(square, executor)(w, chunks)
        assert gradient.dtype == dtype
        assert bits((value, gradient)) == bits(expected)


def test_further_arguments_reach_the_loss(threads, processes):
    chunks = parallel.slices(data(), 70)

    def ridge(params, chunk, penalty, target):
        return loss(params, chunk) + penalty["l2"] * fnp.sum((params["w"] - target) ** 2)

    arguments = ({"l2": 0.1}, np.ones(7))
    expected = bits(plain(fg.value_and_grad(ridge), chunks, params(), *arguments))
    for executor in (threads, processes):
        f = parallel.value_and_grad(ridge, executor)
        assert bits(f(params(), chunks, *arguments)) == expected
        other = f(params(), chunks, {"l2": 0.2}, np.zeros(7))
        assert bits(other) != expected


def test_a_loss_may_branch_on_numbers(threads, processes):
    chunks = [np.array(x) for x in (1.0, -2.0, 3.0, -4.0, 10.0)]

    def branching(w, x):
        if x > 5.0:
            return w**3 * x
        return w * x if x > 0 else w**2 * x

    expected = bits(plain(fg.value_and_grad(branching), chunks, np.array(2.0)))
    for executor in (threads, processes):
        f = parallel.value_and_grad(branching, executor)
        assert bits(f(np.array(2.0), chunks)) == expected
        assert bits(f(np.array(2.0), [partial(np.array, float(x)) for x in chunks])) == expected


def test_a_loss_may_branch_on_parameters(threads):
    f = parallel.grad(lambda w, x: w * x if w > 0 else w * w * x, threads, "sum")
    assert float(f(np.array(2.0), [1.0, 2.0])) == 3.0
    assert float(f(np.array(-2.0), [1.0, 2.0])) == -12.0


def test_closures_and_changes_of_what_they_read(threads, processes):
    scale = {"by": np.arange(1000.0)}

    def scaled(w, chunk):
        return (w * chunk * scale["by"]).sum()

    chunks = [np.full(1000, x) for x in (1.0, 2.0)]
    for executor in (threads, processes):
        f = parallel.grad(scaled, executor, "sum")
        scale["by"] = np.arange(1000.0)
        assert float(f(1.0, chunks)) == 3 * 499500
        scale["by"] = np.ones(1000)
        assert float(f(1.0, chunks)) == 3000


def test_hessian_vector_products(threads, processes):
    chunks = parallel.slices(data(), 60)
    tangents = {"w": np.arange(7.0), "b": 1.0}

    def product(params, chunk):
        return fg.hvp(lambda p: loss(p, chunk), (params,), (tangents,))

    expected = bits(plain(product, chunks, params()))
    for executor in (threads, processes):
        assert bits(parallel.hvp(loss, executor)(params(), tangents, chunks)) == expected


@pytest.mark.parametrize("columns", [2, 90])
def test_jacobians_by_rows(columns, threads, processes):
    whole = data(60, columns)

    def residuals(w, chunk):
        return {"r": fnp.tanh(chunk["x"] @ w) - chunk["y"]}

    expected = fg.jacrev(residuals)(np.ones(columns), whole)["r"]
    for executor in (threads, processes):
        jacobian = parallel.jacobian(residuals, executor)
        rows = jacobian(np.ones(columns), parallel.slices(whole, 25))["r"]
        assert rows.shape == (60, columns)
        np.testing.assert_allclose(rows, expected, rtol=1e-13)


def test_reduce_with_a_monoid_of_moments(threads, processes):
    x = data()["y"]

    def moments(chunk):
        mean = fnp.mean(chunk)
        return {
            "n": fnp.asarray(float(chunk.size)),
            "mean": mean,
            "m2": fnp.sum((chunk - mean) ** 2),
        }

    def merge(a, b):  # Chan, Golub & LeVeque, "Updating formulae …", 1979
        n, gap = a["n"] + b["n"], b["mean"] - a["mean"]
        m2 = a["m2"] + b["m2"] + gap**2 * a["n"] * b["n"] / n
        return {"n": n, "mean": a["mean"] + gap * b["n"] / n, "m2": m2}

    results = [
        parallel.reduce(moments, merge, executor)(parallel.slices(x, 19))
        for executor in (threads, processes, AtOnce())
    ]
    assert float(results[0]["mean"]) == pytest.approx(x.mean())
    assert float(results[0]["m2"] / results[0]["n"]) == pytest.approx(x.var())
    assert bits(results[0]) == bits(results[1]) == bits(results[2])


def test_reduce_keeps_the_order(threads, processes):
    matrices = list(np.random.default_rng(0).normal(size=(11, 3, 3)))
    expected = np.linalg.multi_dot(matrices)
    for executor in (threads, processes):
        product = parallel.reduce(lambda m: m, lambda a, b: a @ b, executor)(matrices)
        np.testing.assert_allclose(product, expected)


def test_map_yields_results_in_order(threads, processes):
    for executor in (threads, processes):
        squares = list(parallel.map(lambda x, y: {"s": x * x + y}, executor)([1.0, 2.0, 3.0], 0.5))
        assert [float(result["s"]) for result in squares] == [1.5, 4.5, 9.5]
        assert isinstance(squares[0]["s"], fg.Tensor)


def test_map_in_batches_is_vmap(threads, processes):
    x = data(50)["x"]

    def f(row):
        return {"norm": fnp.linalg.norm(row), "row": row}

    for executor in (threads, processes):
        batches = list(parallel.map(f, executor, batch_size=20)(x))
        assert [batch["norm"].shape for batch in batches] == [(20,), (20,), (10,)]
        np.testing.assert_allclose(
            fnp.concatenate([batch["norm"] for batch in batches]), np.linalg.norm(x, axis=1)
        )
        assert np.array_equal(fnp.concatenate([batch["row"] for batch in batches]), x)
    assert list(parallel.map(f, threads, batch_size=3)(x[:0])) == []


def test_map_computes_a_few_ahead_and_no_more(threads, tmp_path):
    from tests.parallel.losses import logged_rows

    chunks = [partial(logged_rows, str(tmp_path), number) for number in range(50)]
    results = parallel.map(lambda chunk: chunk["y"].sum(), threads)(chunks)
    assert float(next(results)) == pytest.approx(rows_of(0)["y"].sum())
    results.close()
    assert len(list(tmp_path.iterdir())) < 15


def test_map_shows_a_bar(threads, capsys):
    results = list(parallel.map(lambda x: x, threads, progress=True)([1.0, 2.0]))
    assert len(results) == 2
    assert "2/2" in capsys.readouterr().err


def test_results_share_no_memory_with_what_can_be_written(threads):
    source = np.ones(3)
    (result,) = parallel.map(lambda x: x, threads)([source])
    gradient = parallel.grad(lambda w, x: (w * x).sum(), threads, "sum")(np.zeros(3), [source])
    source[:] = 7.0
    assert result.tolist() == gradient.tolist() == [1.0] * 3


def test_an_array_that_was_written_to_is_sent_again(processes):
    chunks = [np.ones(4), np.ones(4)]
    f = parallel.grad(lambda w, x: (w * x).sum(), processes, "sum")
    assert float(f(1.0, chunks)) == 8.0
    chunks[0][:] = 2.0
    assert float(f(1.0, chunks)) == 12.0


def test_many_threads_may_call_one_function(threads):
    chunks = parallel.slices(data(), 30)
    f = parallel.grad(loss, threads)
    expected = bits(f(params(), chunks))
    with ThreadPoolExecutor(4) as callers:
        results = list(callers.map(lambda _: bits(f(params(), chunks)), range(12)))
    assert results == [expected] * 12


def test_programs_are_staged_once(threads):
    calls = itertools.count()  # an object that is not followed, unlike a list

    def counted(w, chunk):
        next(calls)
        return (w * chunk["x"][0, 0] + w * chunk["y"][0]) ** 2

    f = parallel.grad(counted, threads)
    for _ in range(3):
        f(2.0, loaders(5))
    assert next(calls) == 1


def test_streams_of_one_function_do_not_meet(processes):
    double = parallel.map(lambda x: 2 * x, processes)
    outer = double([np.full(2, float(k)) for k in range(12)])
    results = [next(outer)]
    for _ in range(3):
        assert [x.shape for x in double([np.ones(4)] * 2)] == [(4,), (4,)]
    results += list(outer)
    assert [float(x[0]) for x in results] == [2.0 * k for k in range(12)]


def test_a_function_that_reads_more_than_can_be_watched_is_staged_at_each_step(threads):
    values: list[Any] = [1.0, *[[] for _ in range(10_001)]]
    f = parallel.grad(lambda w, x: w * x * values[0], threads)
    assert float(f(1.0, [1.0])) == 1.0
    values[0] = 5.0
    assert float(f(1.0, [1.0])) == 5.0


def test_small_dtypes_have_weights_and_numbers_of_chunks_beyond_them(threads):
    w, chunks = np.float16(1.0), [np.float16(1.0), np.float16(2.0)]
    f = parallel.value_and_grad(lambda w, x: w * x, threads, [1e5, 3e5], dtype="float64")
    assert [float(x) for x in f(w, chunks)] == [1.75, 1.75]


def test_losses_of_unequal_dtypes_are_promoted(threads):
    chunks = [np.ones(3, dtype) for dtype in (np.float32, np.float64, np.float32)]
    for order in (chunks, chunks[1:], chunks[:2]):
        value, gradient = parallel.value_and_grad(lambda w, x: (w * x).sum(), threads)(
            np.float32(0.1), order
        )
        assert (value.dtype, gradient.dtype) == (np.float64, np.float32)


def test_static_parts_that_are_equal_but_not_alike(threads):
    f = parallel.map(lambda x, options: x * next(iter(options)), threads)
    for key in (2, 2.0):
        (result,) = f([np.ones(1, np.int64)], {key: 0.0})
        assert result.dtype == np.result_type(np.int64, type(key))


def test_the_tree_of_the_tests_is_that_of_the_package():
    from funcgrad.parallel.messages import folded

    for count in (1, 2, 3, 5, 8, 11, 16, 31):
        values = [np.array(0.1 * k) for k in range(count)]
        expected = tree_sum(values).tobytes()
        assert np.asarray(folded(values, np.add)).tobytes() == expected
        pairs = [folded(values[k : k + 4], np.add) for k in range(0, count, 4)]
        assert np.asarray(folded(pairs, np.add)).tobytes() == expected


def test_a_worker_of_an_unknown_system_has_some_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", lambda name: int("unknown"))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert 2**20 < worker_tasks._memory_share() < 2**32
